"""How fast training is here, measured before it starts."""

import copy
import statistics
import time
from dataclasses import dataclass

import torch
from torch import nn

from attendo.data.loader import Pairs, Position, batches_from
from attendo.training.loop import take_step
from attendo.training.loss import build_loss
from attendo.training.optimizer import build_optimizer
from attendo.training.settings import TrainingConfig
from attendo.training.state import generators, restore_generators
from attendo.training.team import Team

FEWEST_STEPS = 4  # however long they take
FIRST_STEPS = 8  # that allocate and find the others still busy with themselves; not counted, or half of a short trial


@dataclass(frozen=True)
class Trial:
    """So many tokens, in so many steps, took so long; what other programs held up left out."""

    tokens: int
    steps: float
    seconds: float

    @property
    def seconds_per_token(self) -> float:
        return self.seconds / self.tokens

    @property
    def seconds_per_step(self) -> float:
        return self.seconds / self.steps


def try_steps(
    model: nn.Module,
    pairs: Pairs,
    config: TrainingConfig,
    *,
    seed: int,
    device: torch.device,
    team: Team,
    steps: int,
    seconds: float,
) -> Trial:
    """The first steps, at most so many, and for about so many seconds by the leader's clock.

    They are taken by a copy of the model, and leave the random generators as they were. Where a step has several
    micro-batches, each is taken as a step here: a few of those are enough to tell the time, and cost less of it.
    """
    before_all = generators()
    trial = copy.deepcopy(model).train()
    optimizer, loss = build_optimizer(trial, config), build_loss(config)
    batches = batches_from(pairs, Position(), batch_tokens=config.batch_tokens, seed=seed)
    times: list[float] = []
    tokens: list[int] = []
    team.meet()
    began = time.perf_counter()
    most = min(steps, (config.steps or steps) * config.accumulate)
    while team.agreed(len(times) < most and (len(times) < FEWEST_STEPS or time.perf_counter() - began < seconds)):
        before = time.perf_counter()
        batch, _, _ = next(batches)
        take_step(trial, loss, optimizer, [batch], config=config, device=device, team=team)
        times.append(time.perf_counter() - before)
        tokens.append(batch.n_tokens)
    restore_generators(before_all)
    first = min(FIRST_STEPS, len(times) // 2)
    usual = statistics.median(taken / count for taken, count in zip(times[first:], tokens[first:], strict=True))
    counted = sum(tokens[first:])
    return Trial(tokens=counted, steps=(len(times) - first) / config.accumulate, seconds=usual * counted)
