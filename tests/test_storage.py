import errno
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from attendo import storage
from attendo.errors import BundleError, StorageError
from attendo.storage import (
    link_file,
    new_folder,
    read_arrays,
    read_tensors,
    replaced_folder,
    storage_errors,
    tensors_checksum,
    write_file,
    write_tensors,
)

TENSORS = {"a": torch.arange(35, dtype=torch.float32).view(5, 7), "b": torch.tensor(3), "none": torch.empty(0, 2)}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


# --- folders ----------------------------------------------------------------------------------------------------


def test_a_folder_appears_when_it_is_complete(tmp_path):
    with new_folder(tmp_path / "new") as folder:
        (folder / "file").write_text("text")
        assert not (tmp_path / "new").exists()
    assert names(tmp_path) == ["file", "new"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_folder_that_fails_leaves_nothing(tmp_path, error):
    def fill() -> None:
        with new_folder(tmp_path / "new") as folder:
            (folder / "file").write_text("text")
            raise error

    with pytest.raises(error):
        fill()
    assert names(tmp_path) == []


def test_what_a_crash_left_behind_is_cleared(tmp_path):
    (tmp_path / ".new.partial").mkdir()
    (tmp_path / ".new.partial" / "old").write_text("half")
    with new_folder(tmp_path / "new") as folder:
        (folder / "file").write_text("text")
    assert names(tmp_path) == ["file", "new"]


def test_a_folder_that_appeared_meanwhile_is_left_alone(tmp_path):
    def fill() -> None:
        with new_folder(tmp_path / "new"):
            (tmp_path / "new").mkdir()
            (tmp_path / "new" / "theirs").write_text("text")

    with pytest.raises(BundleError, match="exists already"):
        fill()
    assert names(tmp_path) == ["new", "theirs"]


def test_a_folder_takes_the_place_of_another_when_it_is_complete(tmp_path):
    for name in ("first", "second"):
        with replaced_folder(tmp_path / "new") as folder:
            (folder / name).write_text("text")
    assert names(tmp_path) == ["new", "second"]


def test_a_folder_that_fails_leaves_the_old_one(tmp_path):
    def fill() -> None:
        with replaced_folder(tmp_path / "new") as folder:
            (folder / "half").write_text("text")
            raise ValueError("half")

    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "old").write_text("text")
    with pytest.raises(ValueError, match="half"):
        fill()
    assert names(tmp_path) == ["new", "old"]


def test_several_may_replace_a_folder_at_the_same_time(tmp_path):
    """Each fills its own; nothing but the whole folder of one of them is ever there, and nothing is left."""
    rounds, size = 20, 997

    def fill(number: int) -> None:
        for _ in range(rounds):
            with replaced_folder(tmp_path / "new") as folder:
                for name in "ab":
                    (folder / name).write_text(str(number) * size)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(fill, range(3)))
    assert names(tmp_path) == ["a", "b", "new"]
    first, second = ((tmp_path / "new" / name).read_text() for name in "ab")
    assert first == second
    assert len(first) == size


def test_what_a_crash_left_long_ago_is_cleared_and_not_what_is_under_way(tmp_path):
    for name, age in (("old", 2 * storage.LEFT_BEHIND), ("young", 0)):
        left = tmp_path / f".new.{name}.partial"
        left.mkdir()
        os.utime(left, (time.time() - age,) * 2)
    with replaced_folder(tmp_path / "new"):
        pass
    assert names(tmp_path) == [".new.young.partial", "new"]


# --- files ------------------------------------------------------------------------------------------------------


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_file(path, "äöü\n")
    assert path.read_bytes() == "äöü\n".encode()
    write_file(path, b"second")

    def full(_path: Path, _content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(StorageError, match=r"the disk is full: .*file could not be written"):
            write_file(path, b"third")
    assert path.read_bytes() == b"second"
    assert names(tmp_path) == ["file"]


def test_what_is_written_is_synced_before_it_gets_its_name(tmp_path, monkeypatch):
    synced: list[Path] = []
    monkeypatch.setattr(storage, "_sync", synced.append)
    write_file(tmp_path / "file", "text")
    assert synced == [tmp_path / ".file.partial", tmp_path]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "the disk is full"),
        (errno.EACCES, "Permission denied. Choose another folder"),
        (errno.EROFS, "Read-only file system. Choose another folder"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_the_operating_systems_errors_in_words(code, words):
    with pytest.raises(StorageError, match=words) as caught, storage_errors(Path("out")):
        raise OSError(code, os.strerror(code))
    assert caught.value.exit_code == 6
    assert "out" in str(caught.value)


def test_a_file_in_a_folder_that_does_not_exist(tmp_path):
    with pytest.raises(StorageError, match="No such file or directory") as caught:
        write_file(tmp_path / "nowhere" / "file", "text")
    assert ".partial" not in str(caught.value)


def test_a_link_replaces_what_was_there(tmp_path):
    (tmp_path / "old").write_text("old")
    (tmp_path / "new").write_text("new")
    link_file(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old").read_text() == "new"
    assert (tmp_path / "old").samefile(tmp_path / "new")


def test_a_link_becomes_a_copy_where_there_are_no_links(tmp_path, monkeypatch):
    def refuse(_existing: Path, _path: Path) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "new").write_text("new")
    link_file(tmp_path / "new", tmp_path / "copy")
    assert (tmp_path / "copy").read_text() == "new"
    assert not (tmp_path / "copy").samefile(tmp_path / "new")


# --- tensors ----------------------------------------------------------------------------------------------------


@pytest.fixture
def tensor_file(tmp_path):
    path = tmp_path / "weights.safetensors"
    write_tensors(path, TENSORS, {"step": 3})
    return path


def test_tensors_and_facts_come_back(tensor_file):
    tensors, facts = read_tensors(tensor_file)
    assert facts == {"step": 3}
    assert tensors.keys() == TENSORS.keys()
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)
    assert names(tensor_file.parent) == ["weights.safetensors"]


def test_arrays_are_the_tensors(tensor_file):
    arrays, checksum = read_arrays(tensor_file)
    assert checksum == tensors_checksum(tensor_file)
    assert arrays.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert arrays[name].shape == tuple(tensor.shape)
        assert torch.equal(torch.from_numpy(arrays[name]), tensor)
    write_tensors(tensor_file, {**TENSORS, "b": torch.tensor(5)}, {"step": 3})
    assert tensors_checksum(tensor_file) != checksum


def test_a_checksum_that_cannot_be_read_is_an_error(tensor_file, tmp_path):
    content = tensor_file.read_bytes()
    for damaged in (b"", content[:5], b"\xff" * 8 + content[8:], content[:8] + b"x" + content[9:], b"\0" * 100):
        tensor_file.write_bytes(damaged)
        with pytest.raises(BundleError, match=r"weights\.safetensors is damaged"):
            tensors_checksum(tensor_file)
    with pytest.raises(BundleError, match=r"gone\.safetensors is missing"):
        tensors_checksum(tmp_path / "gone.safetensors")


@pytest.mark.parametrize("read", [read_tensors, read_arrays])
def test_any_flipped_byte_is_noticed(tensor_file, read):
    content = bytearray(tensor_file.read_bytes())
    for place in (0, 9, len(content) // 2, len(content) - 1):
        damaged = bytearray(content)
        damaged[place] ^= 1
        tensor_file.write_bytes(damaged)
        with pytest.raises(BundleError, match=r"weights\.safetensors is damaged"):
            read(tensor_file)


@pytest.mark.parametrize("length", [0, 5, 100, -1])
def test_a_truncated_file_is_noticed(tensor_file, length):
    tensor_file.write_bytes(tensor_file.read_bytes()[:length])
    with pytest.raises(BundleError, match=r"weights\.safetensors is damaged"):
        read_tensors(tensor_file)


def test_changed_facts_are_noticed(tensor_file):
    content = tensor_file.read_bytes()
    assert content.count(b": 3}") == 1
    tensor_file.write_bytes(content.replace(b": 3}", b": 4}"))
    with pytest.raises(BundleError, match="checksum"):
        read_tensors(tensor_file)


def test_the_same_tensors_give_the_same_bytes(tensor_file, tmp_path):
    write_tensors(tmp_path / "again", dict(reversed(TENSORS.items())), {"step": 3})
    assert (tmp_path / "again").read_bytes() == tensor_file.read_bytes()


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BundleError, match=r"gone\.safetensors is missing"):
        read_tensors(tmp_path / "gone.safetensors")


# --- a disk that is really full -----------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 200 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(mount, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_leaves_the_old_file(small_disk):
    path = small_disk / "weights.safetensors"
    write_tensors(path, TENSORS, {})
    with pytest.raises(StorageError, match="the disk is full"):
        write_tensors(path, {"large": torch.zeros(100_003)}, {})
    assert read_tensors(path)[0].keys() == TENSORS.keys()
    assert names(small_disk) == ["weights.safetensors"]


def test_a_full_disk_leaves_no_folder(small_disk):
    def fill() -> None:
        with new_folder(small_disk / "new") as folder:
            (folder / "small").write_text("text")
            write_tensors(folder / "large", {"large": torch.zeros(100_003)}, {})

    with pytest.raises(StorageError, match="the disk is full"):
        fill()
    assert names(small_disk) == []


def test_a_file_size_limit_is_a_storage_error(tmp_path):
    """Without root: the system refuses to let a file grow, in the middle of writing it."""
    program = f"""
import resource
from pathlib import Path
import torch
from attendo.errors import StorageError
from attendo.storage import write_tensors
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, {resource.RLIM_INFINITY}))
try:
    write_tensors(Path({str(tmp_path / "weights")!r}), {{"large": torch.zeros(100_003)}}, {{}})
except StorageError as error:
    print(error.exit_code)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("6\n", "")
    assert names(tmp_path) == []
