"""Pairs that are learned in both directions first (Ding et al. 2021, Improving Neural Machine Translation by
Bidirectional Training).

Which batches are turned is a function of seed, epoch and the pairs in them alone, so that a resumed run and every
process of a team see the same.
"""

from dataclasses import dataclass

import numpy as np

from attendo.data.batch import Batch
from attendo.data.batching import Indices, Lengths
from attendo.data.loader import Examples
from attendo.data.resampling import mixed


@dataclass(frozen=True)
class BothDirections:
    """The same pairs; in the first `passes` every other batch, by chance, is to be translated back."""

    pairs: Examples[Batch]
    passes: float
    seed: int

    def lengths(self, epoch: int) -> tuple[Lengths, Lengths]:
        return self.pairs.lengths(epoch)

    def batch(self, indices: Indices, epoch: int) -> Batch:
        batch = self.pairs.batch(indices, epoch)
        return batch.turned() if epoch < self.passes and self._turns(indices, epoch) else batch

    def _turns(self, indices: Indices, epoch: int) -> bool:
        return bool(mixed(np.asarray(indices[:1], dtype=np.uint64), self.seed, epoch)[0] & np.uint64(1))
