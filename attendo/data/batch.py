"""What the model sees at once. The shift of the target, by which it learns to predict the next id, happens here.

Suffixes: B pairs, S longest source, T longest target.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attendo.text.tokenizer import BOS, EOS, PAD


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Pairs of ids, padded to the longest. Source: ids EOS. Target in: BOS ids; target out: ids EOS."""

    source_BS: Tensor
    source_lengths_B: Tensor
    target_in_BT: Tensor
    target_out_BT: Tensor
    target_lengths_B: Tensor

    @property
    def n_tokens(self) -> int:
        """Real source and target tokens, their EOS included."""
        return int(self.source_lengths_B.sum()) + self.n_targets

    @property
    def n_targets(self) -> int:
        """Real target tokens, their EOS included: what the loss is the mean over."""
        return int(self.target_lengths_B.sum())

    @property
    def n_positions(self) -> int:
        """Source and target positions, padding included."""
        return self.source_BS.numel() + self.target_in_BT.numel()

    def to(self, device: torch.device) -> "Batch":
        if device.type == "cpu":
            return self
        return Batch(**{name: value.to(device, non_blocking=True) for name, value in vars(self).items()})


def pad(rows: Sequence[Sequence[int] | np.ndarray], *, before: int | None = None, after: int | None = None) -> Tensor:
    """[len(rows), longest] of int64, each row `before` row `after`, filled up with PAD at the end."""
    extra = (before is not None) + (after is not None)
    table = np.full((len(rows), max((len(row) for row in rows), default=0) + extra), PAD, dtype=np.int64)
    start = 0 if before is None else 1
    for place, row in zip(table, rows, strict=True):
        if before is not None:
            place[0] = before
        place[start : start + len(row)] = row
        if after is not None:
            place[start + len(row)] = after
    return torch.from_numpy(table)


def lengths(rows: Sequence[Sequence[int] | np.ndarray]) -> Tensor:
    """How many ids each row has, with the one control id that is added to it."""
    return torch.tensor([len(row) + 1 for row in rows], dtype=torch.int64)


def make_batch(sources: Sequence[Sequence[int] | np.ndarray], targets: Sequence[Sequence[int] | np.ndarray]) -> Batch:
    """Ids without control ids -> a batch with them."""
    return Batch(
        source_BS=pad(sources, after=EOS),
        source_lengths_B=lengths(sources),
        target_in_BT=pad(targets, before=BOS),
        target_out_BT=pad(targets, after=EOS),
        target_lengths_B=lengths(targets),
    )
