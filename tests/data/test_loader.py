"""Batches from any position."""

import itertools
import threading
from itertools import islice

import numpy as np
import pytest

from attendo.data.loader import Position, ahead, batches_from
from attendo.data.store import PairStore, StoreWriter, open_store

SEED, BATCH_TOKENS, N_PAIRS = 7, 53, 101


@pytest.fixture
def store(tmp_path) -> PairStore:
    rng = np.random.default_rng(5)

    def rows() -> list[list[int]]:
        return [rng.integers(4, 1000, rng.integers(1, 17)).tolist() for _ in range(N_PAIRS)]

    with StoreWriter(tmp_path / "key") as writer:
        writer.append(rows(), rows())
        writer.finish({})
    found = open_store(tmp_path / "key")
    assert found is not None
    return found[0]


def read(
    store: PairStore, position: Position, n: int, seed: int = SEED
) -> list[tuple[list[list[int]], Position, float]]:
    batches = batches_from(store, position, batch_tokens=BATCH_TOKENS, seed=seed)
    return [
        ([*batch.source_BS.tolist(), *batch.target_out_BT.tolist()], after, epoch)
        for batch, after, epoch in islice(batches, n)
    ]


def epoch_size(store: PairStore) -> int:
    batches = batches_from(store, Position(), batch_tokens=BATCH_TOKENS, seed=SEED)
    return next(i for i, (_, after, _) in enumerate(batches, start=1) if after.epoch == 1)


def test_resuming_anywhere_gives_the_same_continuation(store):
    n = 2 * epoch_size(store) + 7
    through = read(store, Position(), n)
    for done in range(n):
        position = Position() if done == 0 else through[done - 1][1]
        assert read(store, position, min(n - done, 5)) == through[done : done + 5]


def test_positions_count_batches_and_then_epochs(store):
    size = epoch_size(store)
    positions = [after for _, after, _ in read(store, Position(), size + 1)]
    assert positions[: size - 1] == [Position(0, i) for i in range(1, size)]
    assert positions[size - 1 :] == [Position(1, 0), Position(1, 1)]


def test_the_epoch_as_a_fraction_grows_to_whole_numbers(store):
    size = epoch_size(store)
    fractions = [epoch for _, _, epoch in read(store, Position(), size + 1)]
    assert fractions == sorted(fractions)
    assert fractions[0] == pytest.approx(1 / size)
    assert fractions[size - 1] == 1.0


def test_an_epoch_holds_every_pair_once(store):
    size = epoch_size(store)
    batches = batches_from(store, Position(), batch_tokens=BATCH_TOKENS, seed=SEED)
    found = []
    for batch, _, _ in islice(batches, size):
        for source, n_source, target, n_target in zip(
            batch.source_BS.tolist(),
            batch.source_lengths_B.tolist(),
            batch.target_in_BT.tolist(),
            batch.target_lengths_B.tolist(),
            strict=True,
        ):
            found.append((source[: n_source - 1], target[1:n_target]))
    assert sorted(found) == sorted((store.source[i].tolist(), store.target[i].tolist()) for i in range(N_PAIRS))


def test_another_seed_is_another_order(store):
    assert read(store, Position(), 5) != read(store, Position(), 5, seed=SEED + 1)


def test_the_next_batch_is_made_while_one_is_used():
    made = [threading.Event() for _ in range(5)]

    def items():
        for number, event in enumerate(made):
            event.set()
            yield number

    batches = ahead(items())
    for number in range(3):
        assert next(batches) == number
        assert made[number + 1].wait(timeout=10)  # without being asked for
        assert not made[number + 2].wait(timeout=0.01)  # no further ahead than that


def test_what_goes_wrong_in_a_batch_is_said_when_that_batch_is_asked_for():
    def items():
        yield from range(2)
        raise OSError("the disk is gone")

    batches = ahead(items())
    assert [next(batches), next(batches)] == [0, 1]
    with pytest.raises(OSError, match="the disk is gone"):
        next(batches)


def test_the_thread_ends_with_the_batches():
    before = threading.enumerate()
    batches = ahead(itertools.count())
    next(batches)
    [own] = [thread for thread in threading.enumerate() if thread.name.startswith("batches") and thread not in before]
    batches.close()
    assert own not in threading.enumerate()
