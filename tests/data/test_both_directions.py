"""Pairs that are learned in both directions first."""

from itertools import islice

import numpy as np
import torch

from attendo.data.batch import Batch
from attendo.data.both_directions import BothDirections
from attendo.data.loader import Position, batches_from
from attendo.data.masking import side_of
from attendo.data.store import PairStore

N_PAIRS, SEED = 211, 5


def store() -> PairStore:
    """Sources have ids below 100, targets above."""
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 12, N_PAIRS)
    sources = [rng.integers(10, 100, size).tolist() for size in sizes]
    return PairStore(side_of(sources), side_of([[id_ + 100 for id_ in row] for row in sources]))


def batches(pairs: PairStore | BothDirections, n: int) -> list[tuple[int, Batch]]:
    """(the epoch that each is of, the batch)"""
    found = batches_from(pairs, Position(), batch_tokens=60, seed=SEED)
    return [(int(np.ceil(epoch)) - 1, batch) for batch, _, epoch in islice(found, n)]


def is_turned(batch: Batch) -> bool:
    return bool(batch.source_BS.max() > 100)


def test_half_of_the_first_batches_are_turned_and_none_after_them() -> None:
    plain = batches(store(), 300)
    both = batches(BothDirections(store(), passes=5, seed=SEED), 300)
    assert both[-1][0] > 6
    turned = [is_turned(batch) for epoch, batch in both if epoch < 5]
    assert len(turned) > 100 and 0.4 < sum(turned) / len(turned) < 0.6
    assert not any(is_turned(batch) for epoch, batch in both if epoch >= 5)
    for (_, one), (_, other) in zip(both, plain, strict=True):
        expected = other.turned() if is_turned(one) else other
        assert all(torch.equal(vars(one)[name], vars(expected)[name]) for name in vars(expected))


def test_other_ones_in_each_epoch_and_for_each_seed() -> None:
    pairs, twin = BothDirections(store(), passes=9, seed=SEED), BothDirections(store(), passes=9, seed=SEED + 1)
    rows = np.arange(N_PAIRS)
    drawn = [[is_turned(one.batch(rows[[i]], epoch)) for i in rows] for one in (pairs, twin) for epoch in (0, 1)]
    assert all(0.3 < sum(row) / N_PAIRS < 0.7 for row in drawn)
    assert len({tuple(row) for row in drawn}) == 4
    assert drawn[0] == [is_turned(pairs.batch(rows[[i]], 0)) for i in rows]
