"""How fast training is here, measured before it starts."""

import copy
import itertools
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
    steps: int
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

    They are taken by a copy of the model, and leave the random generators as they were.
    """
    before_all = generators()
    trial = copy.deepcopy(model).train()
    optimizer, loss = build_optimizer(trial, config), build_loss(config)
    batches = batches_from(pairs, Position(), batch_tokens=config.batch_tokens, seed=seed)
    times: list[float] = []
    tokens: list[int] = []
    team.meet()
    began = time.perf_counter()
    most = min(steps, config.steps or steps)
    while team.agreed(len(times) < most and (len(times) < FEWEST_STEPS or time.perf_counter() - began < seconds)):
        before = time.perf_counter()
        micro = [batch for batch, _, _ in itertools.islice(batches, config.accumulate)]
        take_step(trial, loss, optimizer, micro, config=config, device=device, team=team)
        times.append(time.perf_counter() - before)
        tokens.append(sum(batch.n_tokens for batch in micro))
    restore_generators(before_all)
    first = min(FIRST_STEPS, len(times) // 2)
    usual = statistics.median(taken / count for taken, count in zip(times[first:], tokens[first:], strict=True))
    return Trial(tokens=sum(tokens[first:]), steps=len(times) - first, seconds=usual * sum(tokens[first:]))
