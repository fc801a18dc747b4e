"""Where a token stands, as interchangeable parts.

A part acts in one of two places: on the embeddings (`SinusoidalPositions`, `LearnedPositions`) or on queries and keys
inside attention (`RotaryPositions`). Suffixes: B batch, T positions, D d_model, H heads, K head size.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from attendo.errors import DataError

Layout = Literal["interleaved", "halves"]


def sinusoids(n_positions: int, d_model: int, *, layout: Layout) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos(the same angle): [T, D].

    That is `interleaved`, the paper's layout. `halves` puts all sines before all cosines, as tensor2tensor and Marian
    do: the same columns in another order, with an odd d_model the extra column is a sine in both.
    """
    exponents = torch.arange(0, d_model, 2, dtype=torch.float64) / d_model
    positions = torch.arange(n_positions, dtype=torch.float64)
    angles = positions[:, None] * torch.exp(-math.log(10000.0) * exponents)
    sines, cosines = angles.sin(), angles[:, : d_model // 2].cos()
    if layout == "halves":
        return torch.cat((sines, cosines), dim=1).float()
    table = torch.empty(n_positions, d_model, dtype=torch.float64)
    table[:, 0::2], table[:, 1::2] = sines, cosines
    return table.float()


def _reaching(table: Tensor, end: int, *, layout: Layout) -> Tensor:
    """The table itself where it has `end` positions, else a longer one on the same device and of the same type."""
    if end <= len(table):
        return table
    with torch.inference_mode(False):  # the table stays, and training cannot use what inference mode has made
        return sinusoids(2 * end, table.shape[1], layout=layout).to(table)


class SinusoidalPositions(nn.Module):
    """x + PE. Nothing to learn, so no limit on the length: the table grows when a longer text comes."""

    def __init__(self, *, d_model: int, layout: Layout = "interleaved") -> None:
        super().__init__()
        self.layout: Layout = layout
        self.register_buffer("table", sinusoids(256, d_model, layout=layout), persistent=False)
        self.table: Tensor

    def forward(self, x_BTD: Tensor, *, offset: int = 0) -> Tensor:
        end = offset + x_BTD.shape[1]
        self.table = _reaching(self.table, end, layout=self.layout)
        return x_BTD + self.table[offset:end]


class LearnedPositions(nn.Module):
    """x + P, a learned vector for each of `n_positions` places."""

    def __init__(self, *, d_model: int, n_positions: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_positions, d_model))

    def forward(self, x_BTD: Tensor, *, offset: int = 0) -> Tensor:
        end = offset + x_BTD.shape[1]
        if end > len(self.weight):
            raise DataError(
                f"a sequence of {end} pieces is longer than the {len(self.weight)} positions this model has learned. "
                "Shorten it, or train with a larger model.n_positions or with sinusoidal positions."
            )
        return x_BTD + self.weight[offset:end]


class RotaryPositions(nn.Module):
    """Turns each pair of features (2i, 2i + 1) of queries and keys by pos * 10000^(-2i / d_key) (Su et al. 2021).

    (x₁, x₂) -> (x₁ cos a - x₂ sin a, x₁ sin a + x₂ cos a), so that q·k depends on the distance of the two alone.
    """

    def __init__(self, *, d_key: int) -> None:
        super().__init__()
        self.register_buffer("table", sinusoids(256, d_key, layout="halves"), persistent=False)
        self.table: Tensor

    def forward(self, x_BHTK: Tensor, *, offset: int = 0) -> Tensor:
        end = offset + x_BHTK.shape[2]
        self.table = _reaching(self.table, end, layout="halves")
        sin_T, cos_T = self.table[offset:end].chunk(2, dim=-1)
        even, odd = x_BHTK[..., 0::2], x_BHTK[..., 1::2]
        return torch.stack((even * cos_T - odd * sin_T, even * sin_T + odd * cos_T), dim=-1).flatten(-2)
