"""Rows of text, and what a model has to tell of them.

Suffixes: B rows, T longest row.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attendo.data.batch import Rows, pad
from attendo.text.tokenizer import BOS, EOS

NOTHING = -1  # a target where nothing is asked


@dataclass(frozen=True, kw_only=True)
class TextBatch:
    """Rows of ids, padded to the longest, with what is asked of them: an id at some positions, a label, or both.

    targets_BT: the id that is to be told at each position, NOTHING where none is.
    labels_B: the number of the label that is to be told of each row.
    label_weight: how much a row's label counts beside an id.
    segments_BT: of which text each id is, where a row holds two: 0 or 1.
    """

    ids_BT: Tensor
    lengths_B: Tensor
    segments_BT: Tensor | None = None
    targets_BT: Tensor | None = None
    labels_B: Tensor | None = None
    label_weight: float = 1.0

    @property
    def n_tokens(self) -> int:
        return int(self.lengths_B.sum())

    @property
    def n_targets(self) -> int:
        """What the loss is the mean over: what is asked of ids, and only where nothing is, the labels."""
        if self.targets_BT is not None:
            return int((self.targets_BT != NOTHING).sum())
        return 0 if self.labels_B is None else len(self.labels_B)

    @property
    def n_positions(self) -> int:
        return self.ids_BT.numel()

    def __len__(self) -> int:
        return len(self.lengths_B)

    def part(self, rank: int, size: int) -> "TextBatch":
        """Every `size`-th row from number `rank` on, without the padding that only the others needed."""
        if size == 1:
            return self
        lengths_B = self.lengths_B[rank::size]
        T = int(lengths_B.max()) if len(lengths_B) else 0
        return TextBatch(
            ids_BT=self.ids_BT[rank::size, :T],
            lengths_B=lengths_B,
            segments_BT=None if self.segments_BT is None else self.segments_BT[rank::size, :T],
            targets_BT=None if self.targets_BT is None else self.targets_BT[rank::size, :T],
            labels_B=None if self.labels_B is None else self.labels_B[rank::size],
            label_weight=self.label_weight,
        )

    def repeated(self, times: int) -> "TextBatch":
        """All rows, and all of them again."""
        again: dict[str, Any] = {
            name: value.repeat(times, *[1] * (value.ndim - 1)) if isinstance(value, Tensor) else value
            for name, value in vars(self).items()
        }
        return TextBatch(**again)

    def to(self, device: torch.device) -> "TextBatch":
        if device.type == "cpu":
            return self
        there: dict[str, Any] = {name: ids.to(device) for name, ids in vars(self).items() if isinstance(ids, Tensor)}
        return replace(self, **there)


def segments_batch(
    firsts: Rows, seconds: Rows | None = None, labels: Sequence[int] | None = None, *, n_separators: int = 1
) -> TextBatch:
    """`<s> first </s>`, or `<s> first </s> second </s>` where there is a second text, as BERT sees them.

    RoBERTa has two `</s>` between the texts.
    """
    rows = [np.asarray([BOS, *first, EOS], dtype=np.int64) for first in firsts]
    segments = None
    if seconds is not None and any(len(second) for second in seconds):
        both = list(zip(rows, seconds, strict=True))
        more = [EOS] * (n_separators - 1)
        rows = [np.asarray([*row, *more, *second, EOS] if len(second) else row, dtype=np.int64) for row, second in both]
        segments = pad([[0] * len(row) + [1] * (len(rows[i]) - len(row)) for i, (row, _) in enumerate(both)])
    return TextBatch(
        ids_BT=pad(rows),
        lengths_B=torch.tensor([len(row) for row in rows], dtype=torch.int64),
        segments_BT=segments,
        labels_B=None if labels is None else torch.tensor(labels, dtype=torch.int64),
    )
