"""Pairs of ids on disk."""

import errno
import os
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attendo.data.batch import make_batch
from attendo.data.store import StoreWriter, open_store

SOURCES = [[5, 6, 7], [8], [], [2**32 - 1, 0, 3, 4, 5]]
TARGETS = [[9], [10, 11], [12, 13, 14, 15, 16, 17, 18], []]


def write(folder: Path, *chunks: tuple[list[list[int]], list[list[int]]], **facts: object) -> None:
    with StoreWriter(folder) as writer:
        for sources, targets in chunks:
            writer.append(sources, targets)
        writer.finish(facts)


def rows(folder: Path) -> tuple[list[list[int]], list[list[int]]]:
    found = open_store(folder)
    assert found is not None
    store, _ = found
    n = len(store)
    return [store.source[i].tolist() for i in range(n)], [store.target[i].tolist() for i in range(n)]


def test_what_was_appended_comes_back(tmp_path):
    folder = tmp_path / "cache" / "key"
    write(folder, (SOURCES[:3], TARGETS[:3]), ([], []), (SOURCES[3:], TARGETS[3:]), languages=["en", "日本"])
    assert rows(folder) == (SOURCES, TARGETS)
    found = open_store(folder)
    assert found is not None
    store, facts = found
    assert len(store) == 4
    assert store.source.lengths().tolist() == [3, 1, 0, 5]
    assert store.target.lengths().tolist() == [1, 2, 7, 0]
    assert store.source.lengths().dtype == np.int32
    assert facts == {"languages": ["en", "日本"]}
    assert [path.name for path in folder.parent.iterdir()] == ["key"]


@settings(max_examples=20)
@given(
    st.lists(
        st.lists(st.tuples(*[st.lists(st.integers(0, 2**32 - 1), max_size=5)] * 2), max_size=4), min_size=1, max_size=4
    )
)
def test_the_chunks_do_not_matter(tmp_path_factory, chunks):
    folder = tmp_path_factory.mktemp("store") / "key"
    write(folder, *(([list(a) for a, _ in chunk], [list(b) for _, b in chunk]) for chunk in chunks))
    whole = [pair for chunk in chunks for pair in chunk]
    assert rows(folder) == ([list(a) for a, _ in whole], [list(b) for _, b in whole])


def test_an_empty_store(tmp_path):
    write(tmp_path / "key", n=0)
    found = open_store(tmp_path / "key")
    assert found is not None
    assert len(found[0]) == 0
    assert found[0].source.lengths().tolist() == []


def test_ids_are_mapped_not_loaded(tmp_path):
    write(tmp_path / "key", (SOURCES, TARGETS))
    found = open_store(tmp_path / "key")
    assert found is not None
    for side in (found[0].source, found[0].target):
        assert isinstance(side.ids, np.memmap)
        assert isinstance(side.ends, np.memmap)
        assert np.shares_memory(side[0], side.ids)
        assert not side.ids.flags.writeable


def test_a_batch_of_chosen_pairs(tmp_path):
    write(tmp_path / "key", (SOURCES, TARGETS))
    found = open_store(tmp_path / "key")
    assert found is not None
    batch = found[0].batch(np.array([1, 0]))
    assert batch.source_BS.tolist() == [[8, 2, 0, 0], [5, 6, 7, 2]]
    assert batch.target_in_BT.tolist() == [[1, 10, 11], [1, 9, 0]]


def test_a_batch_is_that_of_its_rows(tmp_path):
    """Read at once, and row by row: also empty sequences, the first pair, the last, and one pair twice."""
    write(tmp_path / "key", (SOURCES, TARGETS))
    found = open_store(tmp_path / "key")
    assert found is not None
    for chosen in ([3, 0, 2, 1, 0], [2], []):
        batch = found[0].batch(chosen)
        expected = make_batch([SOURCES[i] for i in chosen], [TARGETS[i] for i in chosen])
        for name, value in vars(expected).items():
            assert getattr(batch, name).equal(value), name
            assert getattr(batch, name).dtype == torch.int64


def test_nothing_is_visible_before_the_end(tmp_path):
    folder = tmp_path / "key"
    with StoreWriter(folder) as writer:
        writer.append(SOURCES, TARGETS)
        assert open_store(folder) is None
        assert not folder.exists()
        writer.finish({})
        assert open_store(folder) is not None


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_leaves_nothing_behind_not_even_new_parents(tmp_path, error):
    with pytest.raises(error), StoreWriter(tmp_path / "runs" / ".cache" / "key") as writer:
        writer.append(SOURCES, TARGETS)
        raise error
    assert list(tmp_path.iterdir()) == []


def test_an_error_leaves_folders_alone_that_were_there_or_are_used(tmp_path):
    (tmp_path / "runs").mkdir()
    with pytest.raises(ValueError, match="mine"), StoreWriter(tmp_path / "runs" / ".cache" / "key"):
        (tmp_path / "runs" / ".cache" / "other").mkdir()
        raise ValueError("mine")
    assert [path.name for path in (tmp_path / "runs" / ".cache").iterdir()] == ["other"]


def test_leaving_without_finishing_leaves_no_store(tmp_path):
    with StoreWriter(tmp_path / "key") as writer:
        writer.append(SOURCES, TARGETS)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_while_finishing_leaves_nothing(tmp_path, monkeypatch):
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write(tmp_path / "new" / "key", (SOURCES, TARGETS))
    assert list(tmp_path.iterdir()) == []


def test_two_writers_at_once_do_not_mix(tmp_path):
    folder = tmp_path / "key"
    with StoreWriter(folder) as first, StoreWriter(folder) as second:
        first.append(SOURCES[:2], TARGETS[:2])
        second.append(SOURCES[:2], TARGETS[:2])
        first.append(SOURCES[2:], TARGETS[2:])
        first.finish({"by": "first"})
        mapped = open_store(folder)
        second.append(SOURCES[2:], TARGETS[2:])
        second.finish({"by": "second"})
    assert rows(folder) == (SOURCES, TARGETS)
    assert mapped is not None
    assert mapped[0].source[3].tolist() == SOURCES[3]
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_what_a_killed_run_left_is_cleared_when_it_is_old(tmp_path):
    old, young, other = (tmp_path / name for name in (".key.abc.partial", ".key.def.partial", ".yek.abc.partial"))
    for folder in (old, young, other):
        folder.mkdir()
        (folder / "source.ids").write_bytes(b"1234")
    for folder in (old, other):
        os.utime(folder, (time.time() - 3 * 24 * 3600,) * 2)
    write(tmp_path / "key", (SOURCES, TARGETS))
    assert {path.name for path in tmp_path.iterdir()} == {"key", young.name, other.name}


@pytest.mark.parametrize("name", ["source.ids", "source.ends", "target.ids", "target.ends", "store.json"])
@pytest.mark.parametrize("missing", [True, False])
def test_a_damaged_store_is_none_and_is_replaced(tmp_path, name, missing):
    folder = tmp_path / "key"
    write(folder, (SOURCES, TARGETS))
    damaged = folder / name
    content = damaged.read_bytes()
    damaged.unlink()
    if not missing:
        damaged.write_bytes(content[: len(content) // 2])
    assert open_store(folder) is None
    write(folder, (SOURCES, TARGETS), again=1)
    assert rows(folder) == (SOURCES, TARGETS)


def test_a_folder_that_is_not_there_is_none(tmp_path):
    assert open_store(tmp_path / "nowhere") is None
