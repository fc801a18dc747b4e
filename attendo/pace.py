"""How fast a run trains here: the split of the cores and the precision that a short measurement finds best."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from attendo import machine
from attendo.config import from_dict, merge
from attendo.data.loader import Pairs
from attendo.data.store import PairStore, Side
from attendo.errors import AttendoError, ConfigError
from attendo.recipe import RunConfig, choose
from attendo.teamwork import Work, training_model, weights_to_send, working_team
from attendo.training.settings import Precision, TrainingConfig
from attendo.training.state import generators, restore_generators
from attendo.training.team import Team
from attendo.training.trial import Trial, try_steps

SHORT = (30, 6.0)  # steps, seconds: where variants are compared, or only the time is to be foretold
LONG = (150, 20.0)  # where minutes have to become steps
WORTH_SECONDS = 90.0  # a run shorter than this is not worth the time to compare

# The share of the time that a variant must not exceed for what was best before it to be given up.
FASTER_PRECISION = 0.9  # it also rounds more
FASTER_SPLIT = 1.1  # even if a little slower in a trial: later on other programs hold up processes less than threads

# What the speed of a machine is told by: the preset `tiny` with pairs of a usual length, and so many pieces.
GAUGE_PIECES, GAUGE_PAIRS, GAUGE_LENGTH = 6_000, 2_000, 15
GAUGE_SECONDS = 2.0  # it takes at most, in each precision
GAUGE_SHARE = 0.01  # of the minutes allowed it takes at most
TOGETHER = 0.9  # of what cores do that need not wait for each other

FEWEST_TOKENS = 256  # of a batch for each process: with less it only waits for the others


@dataclass(frozen=True)
class Pace:
    """The settings of training with its split and precision decided, how long a step takes, and what was compared."""

    training: TrainingConfig
    seconds: float
    compared: tuple[tuple[str, float], ...] = ()

    def in_words(self) -> str:
        others = ", ".join(f"{words} {seconds:.3f} s" for words, seconds in self.compared)
        given = "OMP_NUM_THREADS is set" if machine.threads_are_given() and not others else others
        return f"{variant_in_words(self.training)}, {self.seconds:.3f} s a step" + (f" ({given})" if given else "")


def variant_in_words(training: TrainingConfig) -> str:
    """`2 processes of 1 thread, bfloat16`"""
    processes, threads = training.processes or 1, training.threads or 1
    words = f"{processes} process{'es' if processes > 1 else ''} of {threads} thread{'s' if threads > 1 else ''}"
    return words if training.mixed_precision == "off" else f"{words}, {training.mixed_precision}"


def speed_of_tiny(device: torch.device, *, minutes: float) -> float:
    """Tokens a second that this machine trains the preset `tiny` with, about: a few steps of one core, or of a GPU.

    In the precision that is faster, which a run will find as well.

    How often there is time to read a corpus follows from it, and from that what to choose, long before what is chosen
    can be measured itself.
    """
    cpu, pieces = device.type == "cpu", GAUGE_PIECES
    precisions: tuple[Precision, ...] = ("off", "bfloat16") if machine.has_bfloat16(device) else ("off",)
    vocabularies = {"source_vocab_size": pieces, "target_vocab_size": pieces}
    split = {"processes": 1, "mixed_precision": "off"}
    values = merge(choose("tiny", pairs=1), {"data": {"source": ""}, "model": vocabularies, "training": split})
    config = from_dict(RunConfig, values)
    generator = np.random.default_rng(config.seed)
    lengths = generator.integers(1, 2 * GAUGE_LENGTH, size=(2, GAUGE_PAIRS))
    source, target = (
        Side(generator.integers(300, pieces, size=side.sum(), dtype=np.uint32), np.cumsum(side)) for side in lengths
    )
    before = generators()
    with machine.using_threads(1 if cpu else None):
        model = training_model(config, device)
        trials = [
            try_steps(
                model,
                PairStore(source, target),
                replace(config.training, mixed_precision=precision),
                seed=config.seed,
                device=device,
                team=Team(),
                steps=SHORT[0],
                seconds=min(GAUGE_SECONDS, GAUGE_SHARE * 60 * minutes / len(precisions)),
            )
            for precision in precisions
        ]
    restore_generators(before)
    cores = machine.cores() if cpu else 1
    return cores * (TOGETHER if cores > 1 else 1.0) / min(trial.seconds_per_token for trial in trials)


def find_pace(
    model: nn.Module,
    config: RunConfig,
    pairs: Pairs,
    *,
    store: Path,
    name: machine.DeviceName,
    device: torch.device,
    team: Team,
    steps: Callable[[float], int],
) -> Pace:
    """Decides what the settings leave open. `steps` says how many there will be if each takes so many seconds.

    `team` is the one that torchrun made, if it did: then there is nothing to split.
    """
    best = settled(config, device, team)

    def measure(variant: TrainingConfig, trial: tuple[int, float]) -> Trial:
        return _measure(model, replace(config, training=variant), pairs, store, name, device, team, trial)

    least = measure(best, SHORT)
    per_step = least.seconds_per_step
    tokens_per_step = least.tokens / least.steps
    compared: list[tuple[str, float]] = []
    if per_step * steps(per_step) > WORTH_SECONDS:
        for variants, share in ((_splits, FASTER_SPLIT), (_precisions, FASTER_PRECISION)):
            simplest, before = best, math.inf
            for variant in variants(config, best, device, team):
                try:
                    trial = measure(variant, SHORT)
                except (AttendoError, OSError, RuntimeError):  # nobody asked for it, and it does not work here
                    break
                allowed = share if best is simplest else 1.0
                slower = trial.seconds_per_token > allowed * least.seconds_per_token
                loser, seconds = (variant, trial) if slower else (best, least)
                compared.append((variant_in_words(loser), seconds.seconds_per_token * tokens_per_step))
                if not slower:
                    best, least = variant, trial
                if trial.seconds_per_token > before:  # it only gets slower from here
                    break
                before = trial.seconds_per_token
        if config.training.minutes is not None:
            least = measure(best, LONG)
            tokens_per_step = least.tokens / least.steps
    return Pace(best, least.seconds_per_token * tokens_per_step, tuple(compared))


def settled(config: RunConfig, device: torch.device, team: Team) -> TrainingConfig:
    """The settings with nothing left open: one process, or torchrun's, all cores, and the device's usual precision."""
    training = config.training
    if team.size > 1 and training.processes not in (None, team.size):
        raise ConfigError(
            f"training.processes = {training.processes}: torchrun has started {team.size}. Start as many "
            "(--nproc-per-node), or leave torchrun out."
        )
    processes = team.size if team.size > 1 else training.processes or 1
    if processes > 1 and config.model.batch_statistics:
        raise ConfigError(
            f"training.processes = {processes}: batchnorm needs the statistics of whole batches, and each process sees "
            "a part. Use --processes 1, or another model.norm."
        )
    if processes > 1 and team.size == 1 and device.type != "cpu":
        raise ConfigError(
            f"training.processes = {processes}: shares the cores of a CPU, and training is on {device.type}. Use "
            "--device cpu; for several GPUs start attendo with torchrun."
        )
    precision = training.mixed_precision
    if precision == "auto":
        precision = "bfloat16" if device.type == "cuda" and machine.has_bfloat16(device) else "off"
    threads = training.threads or (torch.get_num_threads() if team.size > 1 else machine.threads_for(processes))
    return replace(training, processes=processes, threads=threads, mixed_precision=precision)


def _precisions(config: RunConfig, best: TrainingConfig, device: torch.device, team: Team) -> Iterator[TrainingConfig]:
    """bfloat16 on a processor that has it: faster with one thread, or for large matrices only, so it is tried.

    With one thread even where float32 is faster with several.
    """
    if config.training.mixed_precision == "auto" and device.type == "cpu" and machine.has_bfloat16(device):
        splits = [best, *(split for split in _splits(config, best, device, team) if split.threads == 1 != best.threads)]
        for split in splits:
            yield replace(split, mixed_precision="bfloat16")


def _splits(config: RunConfig, best: TrainingConfig, device: torch.device, team: Team) -> Iterator[TrainingConfig]:
    """A process on every core, on every second, …: most often the first is best."""
    decided = config.training.processes is not None or team.size > 1 or machine.threads_are_given()
    if decided or device.type != "cpu" or config.model.batch_statistics:
        return
    memory = machine.free_memory()
    most = best.batch_tokens // FEWEST_TOKENS
    if memory is not None:
        most = min(most, 1 + memory // max(1, machine.peak_memory()))
    threads = config.training.threads or 1
    while (processes := machine.cores() // threads) > 1:
        if processes <= most:
            yield replace(best, processes=processes, threads=threads)
        if config.training.threads is not None:
            return
        threads *= 2


def _measure(
    model: nn.Module,
    config: RunConfig,
    pairs: Pairs,
    store: Path,
    name: machine.DeviceName,
    device: torch.device,
    team: Team,
    trial: tuple[int, float],
) -> Trial:
    training, (steps, seconds) = config.training, trial
    with working_team(training, team) as working:
        if working.size > 1:
            weights = weights_to_send(model)
            working.from_leader(Work(config=config, store=store, weights=weights, device=name, trial=trial))
        return try_steps(
            model,
            pairs,
            training,
            seed=config.seed,
            device=device,
            team=working,
            steps=steps,
            seconds=seconds,
        )
