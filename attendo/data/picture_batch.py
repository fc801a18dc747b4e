"""Pictures that a model sees at once, with their labels.

Suffixes: B pictures, C channels, Y and X pixels down and across.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class PictureBatch:
    """Pixels from 0 to 255 as floats, and the number of each picture's label. A token is a picture here."""

    pixels_BCYX: Tensor
    labels_B: Tensor

    @property
    def n_tokens(self) -> int:
        return len(self)

    @property
    def n_targets(self) -> int:
        """What the loss is the mean over."""
        return len(self)

    @property
    def n_positions(self) -> int:
        return len(self)

    def __len__(self) -> int:
        return len(self.labels_B)

    def part(self, rank: int, size: int) -> "PictureBatch":
        """Every `size`-th picture from number `rank` on."""
        return PictureBatch(pixels_BCYX=self.pixels_BCYX[rank::size], labels_B=self.labels_B[rank::size])

    def repeated(self, times: int) -> "PictureBatch":
        """All pictures, and all of them again."""
        return PictureBatch(pixels_BCYX=self.pixels_BCYX.repeat(times, 1, 1, 1), labels_B=self.labels_B.repeat(times))

    def to(self, device: torch.device) -> "PictureBatch":
        return PictureBatch(pixels_BCYX=self.pixels_BCYX.to(device), labels_B=self.labels_B.to(device))
