"""What the model sees at once. The shift of the target, by which it learns to predict the next id, happens here.

Suffixes: B pairs, S longest source, T longest target.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attendo.text.tokenizer import BOS, EOS, PAD

Rows = Sequence[Sequence[int] | NDArray[Any]]
EndToEnd = tuple[NDArray[Any], NDArray[np.int64]]  # all ids of a side, and how many of them each pair has


class AnyBatch(Protocol):
    """What the training loop asks of a batch, whatever is in it."""

    @property
    def n_tokens(self) -> int:
        """Real tokens, by which speed is measured."""

    @property
    def n_targets(self) -> int:
        """What the loss is the mean over."""

    @property
    def n_positions(self) -> int:
        """Positions, padding included."""

    def __len__(self) -> int: ...

    def part(self, rank: int, size: int) -> Self:
        """Every `size`-th row from number `rank` on."""

    def repeated(self, times: int) -> Self:
        """All rows, and all of them again."""

    def to(self, device: torch.device) -> Self: ...


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

    def __len__(self) -> int:
        return len(self.source_lengths_B)

    def part(self, rank: int, size: int) -> "Batch":
        """Every `size`-th pair from number `rank` on, without the padding that only the others needed."""
        if size == 1:
            return self
        sources_B, targets_B = self.source_lengths_B[rank::size], self.target_lengths_B[rank::size]
        S, T = (int(lengths_B.max()) if len(lengths_B) else 0 for lengths_B in (sources_B, targets_B))
        return Batch(
            source_BS=self.source_BS[rank::size, :S],
            source_lengths_B=sources_B,
            target_in_BT=self.target_in_BT[rank::size, :T],
            target_out_BT=self.target_out_BT[rank::size, :T],
            target_lengths_B=targets_B,
        )

    def turned(self) -> "Batch":
        """The same pairs the other way round: each target is a source, each source a target."""
        target_in_BT = self.source_BS.roll(1, dims=1)
        target_in_BT[:, 0] = BOS
        after_BT = torch.arange(target_in_BT.shape[1]) >= self.source_lengths_B[:, None]
        return Batch(
            source_BS=self.target_out_BT,
            source_lengths_B=self.target_lengths_B,
            target_in_BT=target_in_BT.masked_fill(after_BT, PAD),
            target_out_BT=self.source_BS,
            target_lengths_B=self.source_lengths_B,
        )

    def repeated(self, times: int) -> "Batch":
        """All pairs, and all of them again."""
        return Batch(**{name: ids.repeat(times, *[1] * (ids.ndim - 1)) for name, ids in vars(self).items()})

    def to(self, device: torch.device) -> "Batch":
        if device.type == "cpu":
            return self
        if device.type == "cuda":  # from pinned memory the copy goes on beside other work
            return Batch(**{name: ids.pin_memory().to(device, non_blocking=True) for name, ids in vars(self).items()})
        return Batch(**{name: ids.to(device) for name, ids in vars(self).items()})


def pad(rows: Rows, *, before: int | None = None, after: int | None = None) -> Tensor:
    """[len(rows), longest] of int64, each row `before` row `after`, filled up with PAD at the end."""
    return torch.from_numpy(_table(_end_to_end(rows), before=before, after=after))


def lengths(rows: Rows) -> Tensor:
    """How many ids each row has, with the one control id that is added to it."""
    return torch.tensor([len(row) + 1 for row in rows], dtype=torch.int64)


def make_batch(sources: Rows, targets: Rows) -> Batch:
    """Ids without control ids -> a batch with them."""
    return batch_of(_end_to_end(sources), _end_to_end(targets))


def batch_of(sources: EndToEnd, targets: EndToEnd) -> Batch:
    """The same from the ids of all pairs end to end, and how many each pair has: no loop goes over the pairs."""
    return Batch(
        source_BS=torch.from_numpy(_table(sources, after=EOS)),
        source_lengths_B=torch.from_numpy(sources[1] + 1),
        target_in_BT=torch.from_numpy(_table(targets, before=BOS)),
        target_out_BT=torch.from_numpy(_table(targets, after=EOS)),
        target_lengths_B=torch.from_numpy(targets[1] + 1),
    )


def _end_to_end(rows: Rows) -> EndToEnd:
    ids = [np.asarray(row, dtype=np.int64) for row in rows]
    counts = np.array([len(row) for row in rows], dtype=np.int64)
    return np.concatenate(ids) if ids else np.zeros(0, dtype=np.int64), counts


def _table(rows: EndToEnd, *, before: int | None = None, after: int | None = None) -> NDArray[np.int64]:
    ids, counts_B = rows
    start = 0 if before is None else 1
    extra = start + (after is not None)
    table_BT = np.full((len(counts_B), counts_B.max(initial=0) + extra), PAD, dtype=np.int64)
    columns_T = np.arange(table_BT.shape[1]) - start
    table_BT[(columns_T >= 0) & (columns_T < counts_B[:, None])] = ids
    if before is not None:
        table_BT[:, 0] = before
    if after is not None:
        table_BT[np.arange(len(counts_B)), start + counts_B] = after
    return table_BT
