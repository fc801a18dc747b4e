"""A long text in windows, for a model that continues texts."""

import numpy as np
import torch

from attendo.data.batching import Indices, Lengths
from attendo.data.resampling import mixed
from attendo.data.store import Ids
from attendo.data.text_batch import TextBatch
from attendo.errors import DataError


class Windows:
    """Windows of `length` ids end to end, in each of which every id is asked of those before it.

    In each epoch they begin at another place, so that not always the same ids stand where little came before. Where
    epoch e begins is a function of (seed, e) alone.
    """

    def __init__(self, ids: Ids, *, length: int, seed: int) -> None:
        if len(ids) <= length:
            raise DataError(
                f"the text has {len(ids)} pieces, and a window of data.max_length = {length} needs one more than that. "
                "Give more text, or a smaller data.max_length."
            )
        self.ids, self.length, self.seed = ids, length, seed

    def lengths(self, epoch: int) -> tuple[Lengths, Lengths]:
        n_windows = (len(self.ids) - 1 - self._start(epoch)) // self.length
        return np.full(n_windows, self.length, dtype=np.int32), np.zeros(n_windows, dtype=np.int32)

    def batch(self, indices: Indices, epoch: int) -> TextBatch:
        first_B1 = self._start(epoch) + np.asarray(indices, dtype=np.int64)[:, None] * self.length
        return windows_batch(self.ids[first_B1 + np.arange(self.length + 1)])

    def _start(self, epoch: int) -> int:
        """From 0 to what a window can spare."""
        spare = min(self.length, len(self.ids) - self.length)
        return int(mixed(np.zeros(1, dtype=np.uint64), self.seed, epoch)[0] % np.uint64(spare))


def windows_batch(table_BT: Ids) -> TextBatch:
    """Rows of T + 1 ids -> T ids of which each is asked for the next."""
    ids_BT = torch.from_numpy(table_BT.astype(np.int64))
    lengths_B = torch.full((len(ids_BT),), ids_BT.shape[1] - 1, dtype=torch.int64)
    return TextBatch(ids_BT=ids_BT[:, :-1], targets_BT=ids_BT[:, 1:], lengths_B=lengths_B)
