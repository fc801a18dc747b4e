"""Muon: matrices move by orthogonal steps (Jordan et al. 2024); everything else by Adam.

Suffixes: M rows, N columns, M <= N.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# The quintic of Jordan et al.: five times applied, it brings every singular value from (0, 1] near to 1.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5


class Muon(torch.optim.AdamW):
    """AdamW, but for the groups with `orthogonal`, of matrices only:

        B ← μ B + g,  W ← W - rate λ W - rate 0.2 √max(rows, columns) O(g + μ B)

    O(G) is near to U Vᵀ of the singular value decomposition G = U S Vᵀ. The factor gives a step the size that Adam's
    usually has (Liu et al. 2025), so that both share one learning rate.
    """

    momentum = 0.95

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        for group in self.param_groups:
            if group["orthogonal"]:
                self._orthogonal_step(group)
        return super().step(closure)

    @torch.no_grad()
    def _orthogonal_step(self, group: dict[str, Any]) -> None:
        """Moves the group's matrices and takes their gradients away, so that Adam passes them over."""
        scale: Tensor | None = getattr(self, "grad_scale", None)
        rate, decay = group["lr"], group["weight_decay"]
        for matrix in group["params"]:
            if matrix.grad is None:
                continue
            gradient = matrix.grad if scale is None else matrix.grad / scale
            state = self.state[matrix]
            if "momentum" not in state:
                state["momentum"] = torch.zeros_like(matrix)
            state["momentum"].mul_(self.momentum).add_(gradient)
            direction = orthogonal(gradient.add(state["momentum"], alpha=self.momentum))
            matrix.mul_(1 - rate * decay).sub_(direction, alpha=rate * 0.2 * math.sqrt(max(matrix.shape)))
            matrix.grad = None


def orthogonal(matrix: Tensor) -> Tensor:
    """The same singular vectors, with singular values near to 1.

    X ← a X + (b X Xᵀ + c (X Xᵀ)²) X, from X = G / ‖G‖: the polynomial a s + b s³ + c s⁵ of each singular value. In
    float32: on a CPU that takes no longer than torch's own in bfloat16, even on a processor that has it.
    """
    a, b, c = COEFFICIENTS
    tall = matrix.shape[0] > matrix.shape[1]
    x_MN = matrix.T if tall else matrix
    x_MN = x_MN / x_MN.norm().clamp(min=1e-7)
    for _ in range(ITERATIONS):
        gram_MM = x_MN @ x_MN.T
        x_MN = torch.addmm(x_MN, torch.addmm(gram_MM, gram_MM, gram_MM, beta=b, alpha=c), x_MN, beta=a)
    return x_MN.T if tall else x_MN
