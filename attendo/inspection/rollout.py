"""Attention rollout: what each position of the last layer has seen of the input (Abnar & Zuidema 2020).

Suffixes: B batch, H heads, T positions, Q queries.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def rollout(weights: Sequence[Tensor]) -> Tensor:
    """R = Â_L … Â_2 Â_1, Â_l = ½ (mean_h A_l + I): [B, T, T] from the weights [B, H, T, T] of each layer.

    ½ I is the way past a layer's attention, by its residual. Row t says how much of the input at each position has come
    to position t; it sums to one.
    """
    reached_BTT = torch.eye(weights[0].shape[-1], dtype=weights[0].dtype, device=weights[0].device)[None]
    for weights_BHTT in weights:
        mixed_BTT = (weights_BHTT.mean(dim=1) + torch.eye(weights_BHTT.shape[-1]).to(weights_BHTT)) / 2
        reached_BTT = mixed_BTT @ reached_BTT
    return reached_BTT


def picture_rollout(weights: Sequence[Tensor], grid: tuple[int, int], *, token: bool) -> Tensor:
    """How much of each patch has come into what stands for the picture: [B, rows, columns].

    With a `token` before the patches that is its row; otherwise the mean of all rows.
    """
    return over_picture(rollout(weights), grid, token=token)


def over_picture(weights: Tensor, grid: Sequence[int], *, token: bool) -> Tensor:
    """How much what stands for the picture looks at each patch: [..., T, T] -> [..., rows, columns]."""
    row = weights[..., 0, 1:] if token else weights.mean(dim=-2)
    return row.unflatten(-1, grid)


def stretched(weights: Tensor) -> Tensor:
    """From 0 for the smallest to 1 for the largest, to be seen: weights of many patches differ little."""
    return (weights - weights.min()) / (weights.max() - weights.min()).clamp(min=1e-12)
