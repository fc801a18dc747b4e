"""From pixels to vectors of patches, as words have them.

Suffixes: B batch, C channels, Y and X pixels down and across, R and Q patches down and across, P patches, Z numbers of
one patch, T positions, D d_model.
"""

import torch
from torch import Tensor, nn

from attendo.nn.dropout import Dropout
from attendo.nn.linear import Linear
from attendo.nn.positions import sinusoids


def patches_of(pixels_BCYX: Tensor, size: int) -> Tensor:
    """The pixels of each patch, row by row, channel after channel: [B, P, Z], Z = C · size · size."""
    cut_BCRQyx = pixels_BCYX.unfold(2, size, size).unfold(3, size, size)
    return cut_BCRQyx.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)


class Patches(nn.Module):
    """pixels -> dropout(positions([token ; z_1 W + b ; … ; z_P W + b])) (Dosovitskiy et al. 2021): [B, T, D].

    z_p are the numbers of a patch, (pixel - mean) / deviation. With `token` a learned vector stands before them, which
    then stands for the picture.
    """

    def __init__(
        self,
        *,
        d_model: int,
        size: int,
        mean: tuple[float, ...],
        deviation: tuple[float, ...],
        token: bool,
        positions: nn.Module | None,
        dropout: float,
    ) -> None:
        super().__init__()
        self.size = size
        self.register_buffer("mean", torch.tensor(mean)[:, None, None], persistent=False)
        self.register_buffer("deviation", torch.tensor(deviation)[:, None, None], persistent=False)
        self.mean: Tensor
        self.deviation: Tensor
        self.projection = Linear(len(mean) * size * size, d_model)
        self.token = nn.Parameter(torch.empty(d_model)) if token else None
        self.positions = positions
        self.dropout = Dropout(dropout)

    def forward(self, pixels_BCYX: Tensor) -> Tensor:
        x_BTD = self.projection(patches_of((pixels_BCYX - self.mean) / self.deviation, self.size))
        if self.token is not None:
            x_BTD = torch.cat((self.token.expand(x_BTD.shape[0], 1, -1), x_BTD), dim=1)
        if self.positions is not None:
            x_BTD = self.positions(x_BTD)
        return self.dropout(x_BTD)


class GridPositions(nn.Module):
    """x + [PE(row) ; PE(column)], half of the features each; nothing is added to a token before the patches."""

    def __init__(self, *, d_model: int, rows: int, columns: int) -> None:
        super().__init__()
        half = d_model // 2
        rows_RQD = sinusoids(rows, half, layout="interleaved")[:, None].expand(-1, columns, -1)
        columns_RQD = sinusoids(columns, half, layout="interleaved")[None].expand(rows, -1, -1)
        table_PD = torch.cat((rows_RQD, columns_RQD), dim=-1).flatten(0, 1)
        self.register_buffer("table", table_PD, persistent=False)
        self.table: Tensor

    def forward(self, x_BTD: Tensor) -> Tensor:
        before = x_BTD.shape[1] - len(self.table)
        return torch.cat((x_BTD[:, :before], x_BTD[:, before:] + self.table), dim=1)
