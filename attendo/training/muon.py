"""Muon: matrices move by orthogonal steps (Jordan et al. 2024); everything else by Adam.

Suffixes: M rows, N columns, M <= N.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from attendo.training.team import Team

# The quintic of Jordan et al.: five times applied, it brings every singular value from (0, 1] near to 1.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5


class Muon(torch.optim.AdamW):
    """AdamW, but for the groups with `orthogonal`, of matrices only:

        B ← μ B + g,  W ← W - rate λ W - rate 0.2 √max(rows, columns) O(g + μ B)

    O(G) is near to U Vᵀ of the singular value decomposition G = U S Vᵀ. The factor gives a step the size that Adam's
    usually has (Liu et al. 2025), so that both share one learning rate. Each process of the team finds O for some of
    the matrices; `low`: in bfloat16.
    """

    momentum = 0.95
    low = False
    team = Team()

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
        matrices = group["params"]
        updates = {}
        for place, matrix in enumerate(matrices):
            if matrix.grad is None:
                continue
            gradient = matrix.grad if scale is None else matrix.grad / scale
            state = self.state[matrix]
            if "momentum" not in state:
                state["momentum"] = torch.zeros_like(matrix)
            state["momentum"].mul_(self.momentum).add_(gradient)
            updates[place] = gradient.add(state["momentum"], alpha=self.momentum)
        directions = self._directions(updates, matrices)
        for place in updates:
            matrix, factor = matrices[place], 0.2 * math.sqrt(max(matrices[place].shape))
            matrix.mul_(1 - rate * decay).sub_(directions[place], alpha=rate * factor)
            matrix.grad = None

    def _directions(self, updates: dict[int, Tensor], matrices: Sequence[Tensor]) -> Sequence[Tensor]:
        """O of the update of each matrix, by its place; zeros where there is none."""
        mine = list(updates)[self.team.rank :: self.team.size]
        found = dict(zip(mine, orthogonal([updates[place] for place in mine], low=self.low), strict=True))
        # Of all matrices, whichever move: what is shared is as long in every step.
        return self.team.put_together([found.get(place) for place in range(len(matrices))], like=matrices)


def orthogonal(matrices: Sequence[Tensor], *, low: bool) -> list[Tensor]:
    """The same singular vectors, with singular values near to 1.

    X ← a X + (b X Xᵀ + c (X Xᵀ)²) X, from X = G / ‖G‖: the polynomial a s + b s³ + c s⁵ of each singular value.

    In bfloat16 (`low`), those of one shape at once: about half as long as float32 on a processor that has it
    (benchmarks/muon.py).
    """
    wide = [matrix.T if matrix.shape[0] > matrix.shape[1] else matrix for matrix in matrices]
    places: dict[torch.Size | int, list[int]] = {}
    for place, matrix_MN in enumerate(wide):
        places.setdefault(matrix_MN.shape if low else place, []).append(place)
    found: dict[int, Tensor] = {}
    for these in places.values():
        x_LMN = torch.stack([wide[place] for place in these])
        found |= zip(these, _iterated(x_LMN.bfloat16() if low else x_LMN).to(x_LMN.dtype), strict=True)
    return [found[place].T if matrix is not wide[place] else found[place] for place, matrix in enumerate(matrices)]


def _iterated(x_LMN: Tensor) -> Tensor:
    a, b, c = COEFFICIENTS
    x_LMN = x_LMN / x_LMN.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(ITERATIONS):
        gram_LMM = x_LMN @ x_LMN.mT
        x_LMN = torch.baddbmm(x_LMN, torch.baddbmm(gram_LMM, gram_LMM, gram_LMM, beta=b, alpha=c), x_LMN, beta=a)
    return x_LMN
