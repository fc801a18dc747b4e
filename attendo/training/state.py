"""Everything that training needs to go on exactly where it stopped, as tensors and plain facts."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from attendo.data.loader import Position
from attendo.training.optimizer import optimizer_tensors, restore_optimizer


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far training has come. A value: each step makes the next one."""

    step: int = 0
    position: Position = field(default_factory=Position)
    epoch: float = 0.0
    loss_mean: float | None = None  # running mean of the loss per target token
    best_loss_mean: float | None = None  # the lowest it has been, by which a divergence is seen
    best_score: float | None = None  # of the stop metric, higher is better
    best_step: int = 0
    stale: int = 0  # validations since the best


def capture(model: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress) -> tuple[dict[str, Tensor], Any]:
    """(tensors, facts): the optimizer's moments, every random generator, and the progress."""
    moments = {f"optimizer:{key}": value for key, value in optimizer_tensors(model, optimizer).items()}
    return {**moments, **generators()}, dataclasses.asdict(progress)


def restore(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], facts: Any) -> Progress:
    """Puts back what `capture` took; the weights themselves are loaded separately."""
    prefix = "optimizer:"
    moments = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
    restore_optimizer(model, optimizer, moments)
    restore_generators(tensors)
    return Progress(**{**facts, "position": Position(**facts["position"])})


def generators() -> dict[str, Tensor]:
    """`generator:device` -> the state of torch's random generator there."""
    states = {"generator:cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["generator:cuda"] = torch.cuda.get_rng_state()
    if torch.backends.mps.is_available():
        states["generator:mps"] = torch.mps.get_rng_state()
    return states


def restore_generators(tensors: dict[str, Tensor]) -> None:
    """Puts back what `generators` took; other tensors are not looked at."""
    torch.set_rng_state(tensors["generator:cpu"])
    if torch.cuda.is_available() and "generator:cuda" in tensors:
        torch.cuda.set_rng_state(tensors["generator:cuda"])
    if torch.backends.mps.is_available() and "generator:mps" in tensors:
        torch.mps.set_rng_state(tensors["generator:mps"])
