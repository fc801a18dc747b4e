"""What all processes of a team do alike, and what those do that follow."""

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from attendo import machine
from attendo.bundle import load_weights, weights_of
from attendo.data.loader import Pairs, batches_from
from attendo.errors import AttendoError, ConfigError, DataError, TrainingError
from attendo.models.family import build_model
from attendo.nn.low_rank import adaptable, adapters, add_adapters
from attendo.recipe import RunConfig
from attendo.tasks.choice import task_of
from attendo.training.ema import MovingAverage
from attendo.training.freezing import freeze, zero_start
from attendo.training.loop import Outcome, Validation, train
from attendo.training.loss import build_loss
from attendo.training.optimizer import build_optimizer
from attendo.training.schedule import build_schedule
from attendo.training.settings import TrainingConfig
from attendo.training.state import Progress, generators, restore, restore_generators
from attendo.training.team import Team, TeamLostError, joined_team, started_team
from attendo.training.trial import try_steps

SEED_STRIDE = 1_000_003  # between the seeds of two ranks: each drops other elements
HEADS = ("pooler", "labels")  # what tells labels begins anew, so it learns as a whole even where the rest has adapters


def follower_command() -> list[str]:
    """Starts a process that follows, with the same modules as this one, wherever they come from."""
    return [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; from attendo.teamwork import main; main()"]


@dataclass(frozen=True, kw_only=True)
class Work:
    """What the leader asks of the others: to train, or to take part in a trial of so many steps and seconds."""

    config: RunConfig
    store: Path
    weights: dict[str, Tensor]
    device: machine.DeviceName
    trial: tuple[int, float] | None = None
    progress: Progress = field(default_factory=Progress)
    state: dict[str, Tensor] | None = None  # as `capture` took it, with the generators of all ranks
    facts: Any = None


def training_model(
    config: RunConfig, device: torch.device, begin: Callable[[nn.Module], None] | None = None
) -> nn.Module:
    """The model as every process trains it, with its initial weights; frozen layers learn nothing.

    `begin` gives it the weights that a run starts from, before adapters come on top of them.
    """
    training, model = config.training, build_model(config.model).to(device)
    if begin is not None:
        begin(model)
    freeze(model, training.frozen_layers)
    if training.lora_rank:
        names = training.lora_matrices
        strange = add_adapters(model, rank=training.lora_rank, alpha=training.lora_alpha, matrices=names, but=HEADS)
        if strange and (names != TrainingConfig().lora_matrices or len(strange) == len(names)):
            raise ConfigError(
                f"training.lora_matrices = {list(names)}: this model has no linear layer {strange[0]}. It has: "
                f"{', '.join(adaptable(model))}."
            )
        if not any(adapters(model)):
            raise ConfigError(
                f"training.frozen_layers = {training.frozen_layers}: every layer that adapters are for "
                f"({', '.join(names)}) is frozen, so there is nothing to adapt. Freeze fewer, or leave out --lora."
            )
    return model


def weights_to_send(model: nn.Module) -> dict[str, Tensor]:
    """The weights as every process can take them, whatever its device."""
    return {name: tensor.cpu() for name, tensor in weights_of(model).items()}


@contextlib.contextmanager
def working_team(training: TrainingConfig, team: Team) -> Iterator[Team]:
    """The processes that the settings ask for, with this one in the lead; `team` itself where torchrun made one."""
    with machine.using_threads(training.threads):
        if team.size > 1:
            yield team
            return
        processes, threads = training.processes or 1, training.threads or 1
        with started_team(processes, threads=threads, command=follower_command()) as started:
            yield started
            dismiss(started)
            part(started)


def train_together(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    config: RunConfig,
    pairs: Pairs,
    team: Team,
    *,
    progress: Progress,
    device: torch.device,
    average: MovingAverage | None,
    validate: Callable[[nn.Module], Validation],
    save: Callable[[Progress], None],
    log: Callable[[dict[str, Any]], None],
    should_stop: Callable[[], bool],
    is_over: Callable[[], bool],
) -> Outcome:
    """The training loop with everything that the config determines."""
    training = config.training
    assert training.steps is not None  # resolved before a run begins
    with zero_start(model):
        return train(
            model,
            build_loss(training),
            optimizer,
            build_schedule(training, d_model=config.model.d_model, steps=training.steps),
            batches_from(pairs, progress.position, batch_tokens=training.batch_tokens, seed=config.seed),
            config=training,
            steps=training.steps,
            progress=progress,
            device=device,
            average=average,
            validate=validate,
            save=save,
            log=log,
            should_stop=should_stop,
            is_over=is_over,
            team=team,
        )


def dismiss(team: Team) -> None:
    """Tells the others that there is nothing more to do."""
    team.from_leader(cast(Work | None, None))


def part(team: Team) -> None:
    """Waits until all have heard the last word: one that left at once could take it along."""
    with contextlib.suppress(TeamLostError):
        team.meet()


def follow(team: Team) -> None:
    """Does what the leader asks, until it asks for nothing more."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):  # they reach the leader as well, which decides
            signal.signal(number, signal.SIG_IGN)
    while (work := team.from_leader(cast(Work | None, None))) is not None:
        with machine.using_threads(work.config.training.threads):
            _obey(work, team)


def _obey(work: Work, team: Team) -> None:
    device, config = machine.ready(work.device), work.config
    task = task_of(config.task)
    corpus = task.reopen(work.store)
    if corpus is None:
        raise DataError(
            f"{work.store} is missing or damaged: every process of a team needs the folder of the tokenised corpus, on "
            "several machines a shared one."
        )
    pairs = task.examples(corpus, config)
    torch.manual_seed((config.seed + SEED_STRIDE * team.rank) % 2**63)
    model = training_model(config, device)
    load_weights(model, work.weights, where="the leader")
    if work.trial is not None:
        steps, seconds = work.trial
        training, seed = config.training, config.seed
        try_steps(model, pairs, training, seed=seed, device=device, team=team, steps=steps, seconds=seconds)
        return
    optimizer, progress = build_optimizer(model, config.training), work.progress
    if work.state is not None:
        progress = restore(model, optimizer, work.state, work.facts)
        restore_generators(work.state, rank=team.rank)

    def waited(_model: nn.Module) -> Validation:
        return Validation(score=0.0, facts={})  # not looked at: the leader's counts

    def contribute(_progress: Progress) -> None:
        gather_generators(team)

    train_together(
        model,
        optimizer,
        config,
        pairs,
        team,
        progress=progress,
        device=device,
        average=None,
        validate=waited,
        save=contribute,
        log=lambda _entry: None,
        should_stop=lambda: False,
        is_over=lambda: False,
    )


def gather_generators(team: Team) -> dict[str, Tensor]:
    """`generator:device` of the leader and `generator:device:rank` of the others, on every rank."""
    gathered = {name: team.gather(state) for name, state in generators().items()}
    return {
        name if rank == 0 else f"{name}:{rank}": state
        for name, states in gathered.items()
        for rank, state in enumerate(states)
    }


def main() -> None:
    try:
        with joined_team() as team:
            follow(team)
            part(team)
    except TrainingError:  # a loss that all ranks find and the leader reports, or the leader has ended
        sys.exit(1)
    except AttendoError as error:
        sys.exit(f"attendo: {error}")
