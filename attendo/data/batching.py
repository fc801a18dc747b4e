"""Which pairs go together: pure functions of lengths and seeds, so that any batch of any epoch can be found again."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Lengths = NDArray[np.int32]


@dataclass(frozen=True)
class EpochPlan:
    """The batches of one epoch in order: batch i is `order[bounds[i]:bounds[i + 1]]`."""

    order: Indices
    bounds: Indices

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, i: int) -> Indices:
        return self.order[self.bounds[i] : self.bounds[i + 1]]


def epoch_plan(
    source_lengths: Lengths, target_lengths: Lengths, *, batch_tokens: int, seed: int, epoch: int
) -> EpochPlan:
    """Batches of pairs of like length, shuffled anew for each epoch; the same for the same seed and epoch.

    Pairs are sorted by target length, those of one target length by source length, up and down in turns, so that
    neighbours are alike where the target length changes, too; ties are in random order. Then they are cut into batches
    of at most `batch_tokens` positions on the longer side, and the batches shuffled. A pair longer than the budget is a
    batch of its own.
    """
    key = np.array([seed & (2**64 - 1), epoch], dtype=np.uint64)
    rng = np.random.Generator(np.random.Philox(key=key))
    shuffled = rng.permutation(len(source_lengths))
    sources, targets = source_lengths[shuffled], target_lengths[shuffled]
    order = shuffled[np.lexsort((np.where(targets % 2, -sources, sources), targets))]
    # The cuts start at another place each epoch, so that not always the same neighbours meet at a boundary.
    starts = batch_starts(source_lengths[order], target_lengths[order], batch_tokens=batch_tokens, skew=rng.random())
    ends = np.append(starts[1:], len(order))
    shuffle = rng.permutation(len(starts))
    sizes = (ends - starts)[shuffle]
    bounds = np.concatenate(([0], np.cumsum(sizes)))
    within = np.arange(len(order)) - np.repeat(bounds[:-1], sizes)
    return EpochPlan(order[np.repeat(starts[shuffle], sizes) + within], bounds)


def batch_starts(source_lengths: Lengths, target_lengths: Lengths, *, batch_tokens: int, skew: float = 0.0) -> Indices:
    """Where each batch begins, in pairs already sorted: rows x longest side <= batch_tokens.

    `skew` in [0, 1) shortens the first batch by that share.
    """
    longest = np.maximum(source_lengths, target_lengths).astype(np.int64) + 1  # + EOS
    starts = []
    start, budget, n = 0, max(1, int(batch_tokens * (1 - skew))), len(longest)
    while start < n:
        starts.append(start)
        # Rows so far x longest so far only grows, so the first excess within reach ends the batch.
        reach = longest[start : start + budget // int(longest[start]) + 1]
        cost = np.maximum.accumulate(reach) * np.arange(1, len(reach) + 1)
        over = np.flatnonzero(cost > budget)
        start += max(1, int(over[0]) if len(over) else len(reach))
        budget = batch_tokens
    return np.array(starts, dtype=np.int64)
