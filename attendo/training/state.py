"""Everything that training needs to go on exactly where it stopped, as tensors and plain facts."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from attendo.data.loader import Position
from attendo.errors import BundleError
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


def capture(
    model: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress, random: dict[str, Tensor] | None = None
) -> tuple[dict[str, Tensor], Any]:
    """(tensors, facts): the optimizer's moments, the random generators, by default this process's, and the progress."""
    moments = {f"optimizer:{key}": value for key, value in optimizer_tensors(model, optimizer).items()}
    return {**moments, **(generators() if random is None else random)}, dataclasses.asdict(progress)


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


def restore_generators(tensors: dict[str, Tensor], *, rank: int = 0) -> None:
    """Puts back what `generators` took on that rank; other tensors are not looked at."""
    suffix = f":{rank}" if rank else ""
    if f"generator:cpu{suffix}" not in tensors:
        raise BundleError(f"the training state has no random generator of process {rank + 1}: it had fewer processes.")
    torch.set_rng_state(tensors[f"generator:cpu{suffix}"])
    if torch.cuda.is_available() and f"generator:cuda{suffix}" in tensors:
        torch.cuda.set_rng_state(tensors[f"generator:cuda{suffix}"])
    if torch.backends.mps.is_available() and f"generator:mps{suffix}" in tensors:
        torch.mps.set_rng_state(tensors[f"generator:mps{suffix}"])
