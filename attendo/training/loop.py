"""The training loop: one function, read from top to bottom."""

import contextlib
import dataclasses
import gc
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from attendo.data.batch import AnyBatch
from attendo.data.loader import Position
from attendo.errors import TrainingError
from attendo.training.ema import MovingAverage
from attendo.training.optimizer import clipped_step
from attendo.training.schedule import Schedule
from attendo.training.settings import TrainingConfig
from attendo.training.state import Progress
from attendo.training.team import Team

# A running mean that has risen by so many nats above its lowest does not come back.
DIVERGENCE_NATS = 2.0

Model = TypeVar("Model", bound=nn.Module)
B = TypeVar("B", bound=AnyBatch)


@dataclass(frozen=True, kw_only=True)
class Validation:
    """What a validation found; higher `score` is better."""

    score: float
    facts: dict[str, Any]


# All steps were taken; validations found nothing better; the time allowed was over; the caller asked to stop.
Ending = Literal["finished", "early", "late", "stopped"]


@dataclass(frozen=True)
class Outcome:
    """How training ended."""

    progress: Progress
    reason: Ending


def train(
    model: Model,
    loss: Callable[[Model, B], Tensor],
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    batches: Iterator[tuple[B, Position, float]],
    *,
    config: TrainingConfig,
    steps: int,
    progress: Progress,
    device: torch.device,
    average: MovingAverage | None,
    validate: Callable[[Model], Validation],
    save: Callable[[Progress], None],
    log: Callable[[dict[str, Any]], None],
    should_stop: Callable[[], bool],
    is_over: Callable[[], bool],
    team: Team,
) -> Outcome:
    """Trains from `progress` to the last of `steps`, which the schedule knows; `batches` begin at `progress.position`.

    `loss` is summed over a batch's target tokens. `average` follows the weights, and takes their place while `validate`
    looks at the model. `save` is called at every checkpoint and validation, and when the loop is asked to stop.
    Where `is_over` says that the time allowed is, training ends with the next line of the log, validated and saved like
    its last step. All processes of a `team` go through this together; when to stop and what a validation found, the
    leader says. Nothing else here depends on the clock but the speed that is logged.
    """
    kept = [*model.parameters(), *model.buffers()]
    gc.freeze()  # looking through all that is there already for garbage took 3 % of the time
    clock, tokens, positions = time.perf_counter(), 0, 0
    end, over = config.last_step or steps, False
    model.train()

    while progress.step < end:
        if team.agreed(should_stop()):
            save(progress)
            return Outcome(progress, "stopped")
        if config.patience and progress.stale >= config.patience:
            return Outcome(progress, "early")

        step = progress.step + 1
        for group in optimizer.param_groups:
            group["lr"] = schedule(step)
        taken = list(itertools.islice(batches, config.accumulate))
        micro = [batch for batch, _, _ in taken]
        tokens += sum(batch.n_tokens for batch in micro)
        positions += sum(batch.n_positions for batch in micro)
        progress = _follow(progress, take_step(model, loss, optimizer, micro, config=config, device=device, team=team))
        if average is not None:
            average.update(step)
        _, position, epoch = taken[-1]
        progress = dataclasses.replace(progress, step=step, position=position, epoch=epoch)

        if step % config.log_every == 0 or step == end:
            seconds = time.perf_counter() - clock
            log(
                {
                    "event": "progress",
                    "step": step,
                    "epoch": round(epoch, 4),
                    "loss": progress.loss_mean,
                    "lr": schedule(step),
                    "tokens_per_second": round(tokens / seconds),
                    "padding": round(1 - tokens / positions, 4),
                }
            )
            clock, tokens, positions = time.perf_counter(), 0, 0
            over = step < end and team.agreed(is_over())

        validating = step % config.validate_every == 0 or step == end or over
        if validating or step % config.checkpoint_every == 0:
            _check_finite(kept, step)  # a checkpoint that is kept is one to go back to
        if validating:
            before = time.perf_counter()
            model.eval()
            with average.in_use() if average is not None else contextlib.nullcontext():
                found = team.from_leader(validate(model))
            model.train()
            better = progress.best_score is None or found.score > progress.best_score
            progress = dataclasses.replace(
                progress,
                best_score=found.score if better else progress.best_score,
                best_step=step if better else progress.best_step,
                stale=0 if better else progress.stale + 1,
            )
            log({"event": "validation", "step": step, "epoch": round(epoch, 4), **found.facts, "best": better})
            save(progress)
            clock += time.perf_counter() - before
        elif step % config.checkpoint_every == 0:
            save(progress)
        if over:
            return Outcome(progress, "late")
    return Outcome(progress, "finished")


def take_step(
    model: Model,
    loss: Callable[[Model, B], Tensor],
    optimizer: torch.optim.Optimizer,
    micro: Sequence[B],
    *,
    config: TrainingConfig,
    device: torch.device,
    team: Team,
) -> float:
    """One update from the micro-batches together: the gradient of the mean loss over all their target tokens.

    Each process of the team computes its part of the sum.
    """
    precision = torch.bfloat16 if config.mixed_precision == "bfloat16" else None
    n_targets = max(1, sum(batch.n_targets for batch in micro))  # none: where nothing happens to be masked
    mean = 0.0
    for batch in micro:
        if not len(mine := batch.part(team.rank, team.size)):  # fewer pairs than processes
            continue
        with torch.autocast(device.type, dtype=precision, enabled=precision is not None):
            part = loss(model, mine.to(device)) / n_targets
        part.backward()
        mean += part.item()
    mean = team.add_gradients([parameter for parameter in model.parameters() if parameter.requires_grad], mean)
    if math.isfinite(mean):  # otherwise the weights stay what they were, and the caller stops
        clipped_step(optimizer, config.clip_norm, team)
    optimizer.zero_grad(set_to_none=True)
    return mean


def _check_finite(tensors: Sequence[Tensor], step: int) -> None:
    """The loss of a step does not know yet what the step has made of the weights and running statistics."""
    if not all(bool(tensor.isfinite().all()) for tensor in tensors):
        raise TrainingError(f"the weights are not numbers any more after step {step}.")


def _follow(progress: Progress, loss: float) -> Progress:
    """The progress with its running mean moved on, or an error where the loss cannot be trusted any more."""
    if not math.isfinite(loss):
        raise TrainingError(f"the loss became {loss} at step {progress.step + 1}.")
    mean = loss if progress.loss_mean is None else 0.98 * progress.loss_mean + 0.02 * loss
    best = mean if progress.best_loss_mean is None else min(mean, progress.best_loss_mean)
    if mean > best + DIVERGENCE_NATS:
        raise TrainingError(
            f"the loss diverges: its running mean is {mean:.2f} at step {progress.step + 1}, and was {best:.2f} before."
        )
    return dataclasses.replace(progress, loss_mean=mean, best_loss_mean=best)
