"""Masks are values: boolean tensors in which True means "may attend". They combine with `&`.

Suffixes: B batch, S source length, T target length.
"""

import torch
from torch import Tensor


def padding_mask(lengths_B: Tensor, size: int) -> Tensor:
    """True at the real positions of each sequence: mask[b, 0, 0, s] = s < lengths[b], [B, 1, 1, S]."""
    positions_S = torch.arange(size, device=lengths_B.device)
    return (positions_S < lengths_B[:, None])[:, None, None, :]


def causal_mask(size: int, *, device: torch.device | None = None) -> Tensor:
    """True where a position may look, at itself and what came before: mask[0, 0, t, s] = s <= t, [1, 1, T, T]."""
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()[None, None]
