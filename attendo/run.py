"""One training run: corpus, tokenizer, model, loop, validation and bundle, joined."""

import contextlib
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import torch
from torch import nn

from attendo import machine
from attendo.bundle import (
    Bundle,
    Weights,
    average_weights,
    create_bundle,
    load_weights,
    open_bundle,
    plain_json,
    weights_of,
)
from attendo.card import subject, write_card
from attendo.config import from_dict, merge, to_dict
from attendo.data.loader import Pairs
from attendo.errors import BundleError, ConfigError, DataError, Interrupted, TrainingError
from attendo.evaluation.report import training_report
from attendo.models.transformer import parameter_table
from attendo.nn.adapters import merged
from attendo.nn.low_rank import merge_adapters, written
from attendo.pace import Pace, find_pace, settled, speed_of_tiny
from attendo.plan import SLOWER, bound, next_folder, seconds_left, with_effort
from attendo.recipe import TASKS, DataConfig, Effort, RecipeName, RunConfig, TaskName, TokenizerConfig
from attendo.reporting import Reporter, Silent, duration
from attendo.storage import require_new
from attendo.tasks.choice import task_of
from attendo.tasks.task import Corpus, Judge, Task, Verdict
from attendo.teamwork import (
    Work,
    dismiss,
    follow,
    gather_generators,
    part,
    train_together,
    training_model,
    weights_to_send,
    working_team,
)
from attendo.training.ema import MovingAverage
from attendo.training.loop import Outcome, Validation
from attendo.training.optimizer import build_optimizer
from attendo.training.settings import TrainingConfig
from attendo.training.state import Progress, capture, generators, restore, restore_generators
from attendo.training.team import Team, TeamLostError, joined_team
from attendo.training.tensorboard import tensorboard_log, why_no_tensorboard

RAW = "raw:"  # before the names of the weights that training goes on with, where those to use are others

Log = Callable[[dict[str, Any]], None]


def train(
    source: Path | str | None = None,
    target: Path | str | None = None,
    *,
    task: TaskName | None = None,
    settings: Mapping[str, Any] | None = None,
    preset: RecipeName = "auto",
    effort: Effort | None = None,
    out: Path | str | None = None,
    device: machine.DeviceName = "auto",
    reporter: Reporter | None = None,
) -> Bundle:
    """Trains a translator, or the model of another task, from files to bundle.

    `source` and `target` are the two files, or `source` alone is a TSV, JSONL or TMX file, or what another task learns
    from. `settings` are nested plain
    values as in a config file, `{"training": {"minutes": 10}}`; what they do not say, the preset chooses from the
    corpus and the time. `effort` says how much time: at most 10, 60 or 150 minutes. `out` is the new bundle's folder.
    """
    began = time.monotonic()
    files = {side: str(path) for side, path in (("source", source), ("target", target)) if path is not None}
    given = merge(settings or {}, {"data": files} if files else {}, {"task": task} if task else {})
    settings = with_effort(given, effort)
    with joined_team() as team:
        return _led(team, lambda: _train(settings, preset, out, device, reporter or Silent(), team, began))


def _train(
    settings: Mapping[str, Any],
    preset: RecipeName,
    out: Path | str | None,
    device: machine.DeviceName,
    reporter: Reporter,
    team: Team,
    began: float,
) -> Bundle:
    task = _task_of(settings)
    start = None if settings.get("adapt_from") is None else open_bundle(settings["adapt_from"])
    if start is not None:
        start.require(*task.starts_from, verb="train --from")
    task.check(settings, preset, start)
    if settings.get("training", {}).get("tensorboard") and (missing := why_no_tensorboard()):
        raise ConfigError(f"training.tensorboard = True: {missing}, or go without (training.tensorboard=false).")
    inherited = {} if start is None else {"max_length": start.config.data.max_length}
    data = task.settle(from_dict(DataConfig, merge(inherited, settings.get("data", {})), where="data."), start)
    path = Path(out) if out is not None else next_folder(data)
    require_new(path)

    machine.ready(device)  # before any work is done
    tokenizer = from_dict(TokenizerConfig, settings.get("tokenizer", {}), where="tokenizer.")
    corpus = task.prepare(data, tokenizer, start, path.parent / ".cache", reporter)
    return _train_on(corpus, data, settings, preset, start, path, device, reporter, team, began)


def _train_on(
    corpus: Corpus,
    data: DataConfig,
    settings: Mapping[str, Any],
    preset: RecipeName,
    start: Bundle | None,
    path: Path,
    device: machine.DeviceName,
    reporter: Reporter,
    team: Team,
    began: float,
) -> Bundle:
    task, chosen_device = _task_of(settings), machine.ready(device)
    times: dict[str, float | None] = {}

    def speed() -> float:
        times["speed_of_tiny"] = found = speed_of_tiny(chosen_device, minutes=settings["training"]["minutes"])
        return found

    config = task.resolve(settings, preset, data, corpus, start, speed=speed)
    given = task.examples(corpus, config)

    def bounded(training: TrainingConfig, seconds: float) -> TrainingConfig:
        return bound(
            training,
            settings,
            given,
            config.seed,
            seconds=seconds,
            gone=time.monotonic() - began,
            facts=corpus.facts,
            adapts=start is not None,
        )

    torch.manual_seed(config.seed)
    model = training_model(config, chosen_device, _beginning(task, corpus, config))
    pace = find_pace(
        model,
        config,
        given,
        store=corpus.folder,
        name=device,
        device=chosen_device,
        team=team,
        steps=lambda seconds: bounded(config.training, seconds).steps or 0,
    )

    def teach(settings: Mapping[str, Any], data: DataConfig, corpus: Corpus, path: Path) -> Bundle:
        if path.exists():
            return _gone_on(path, settings, corpus, device, reporter, team)
        return _train_on(corpus, data, settings, "tiny", None, path, device, reporter, team, time.monotonic())

    before = generators()
    enriched = task.enrich(corpus, replace(config, training=pace.training), path, teach, reporter)
    restore_generators(before)
    pairs = given if enriched is corpus else task.examples(enriched, config)
    corpus = enriched
    allowed = seconds_left(config.training, gone=time.monotonic() - began)
    config = replace(config, training=bounded(pace.training, pace.seconds))
    facts = {
        **corpus.facts,
        "parameters": parameter_table(model),
        "machine": machine.describe() | {"processes": pace.training.processes, "threads": pace.training.threads},
        "store": corpus.folder.name,
    }
    said = f"{task.announce(config, facts)}\n{_expected(config, pace)}"
    reporter.say(said)
    if start is not None and (warning := task.warn(corpus, start)):
        reporter.say(warning)
    texts = {"data.json": plain_json(facts), "card.md": write_card(config, facts, {})}
    if start is not None and (interop := start.interop()):
        texts["interop.json"] = plain_json(interop)
    bundle = create_bundle(path, config=config, tokenizers=corpus.tokenizers, texts=texts)
    times |= {"seconds_per_step": pace.seconds, "seconds_allowed": allowed}
    bundle.log({"event": "started", "step": -1, "said": said.split("\n"), **times, **facts})
    return _Run(bundle, config, task, model, corpus, pairs, device, chosen_device, team, reporter).go(Progress())


def _gone_on(
    path: Path,
    settings: Mapping[str, Any],
    corpus: Corpus,
    device: machine.DeviceName,
    reporter: Reporter,
    team: Team,
) -> Bundle:
    """What was trained before with these settings on this corpus, or begun."""
    bundle = open_bundle(path)
    had, wanted = to_dict(bundle.config.training), settings["training"]
    same = bundle.config.seed == settings["seed"] and all(had[key] == value for key, value in wanted.items())
    if not same or bundle.data().get("store") != corpus.folder.name:
        raise BundleError(f"{path} exists already. Choose another folder with --out, or remove it first.")
    return bundle if bundle.scores() else _resume(path, device, reporter, team)


def _task_of(settings: Mapping[str, Any]) -> Task:
    name: TaskName = settings.get("task", "translate")
    if name not in TASKS:
        raise ConfigError(f"task = {name!r}: must be one of {', '.join(TASKS)}.")
    return task_of(name)


def _beginning(task: Task, corpus: Corpus, config: RunConfig) -> Callable[[nn.Module], None]:
    """Gives a model what a run begins with: the weights of another bundle, or what its data tell."""
    if config.adapt_from is None:
        return lambda model: task.begin(model, corpus, config)
    start = open_bundle(config.adapt_from)
    return lambda model: task.inherit(model, start, corpus)


def _expected(config: RunConfig, pace: Pace) -> str:
    """How long it takes, and what it needs, in words."""
    steps = config.training.steps or 0
    rates = [f"{name} {rate:g}" for name in config.model.rates if (rate := getattr(config.model, name))]
    return (
        f"Recipe: {', '.join([config.training.in_words(), *rates])}.\n"
        f"Training: {steps:,} steps, about {duration(SLOWER * steps * pace.seconds)}, "
        f"up to {(config.training.processes or 1) * machine.peak_memory() / 2**30:.1f} GB of memory.\n"
        f"Processor: {pace.in_words()}."
    )


def resume(path: Path | str, *, device: machine.DeviceName = "auto", reporter: Reporter | None = None) -> Bundle:
    """Goes on with an interrupted run, exactly where its last checkpoint is."""
    with joined_team() as team:
        return _led(team, lambda: _resume(path, device, reporter or Silent(), team))


def _led(team: Team, lead: Callable[[], Bundle]) -> Bundle:
    """The leader leads; the others that torchrun has started follow, and learn in the end what came of it."""
    path: str | None = None
    if not team.leads:
        follow(team)
        path = team.from_leader(path)
        part(team)
        if path is None:
            raise SystemExit(1)  # the leader says why
        return open_bundle(path)
    try:
        bundle = lead()
        path = str(bundle.path)
        return bundle
    finally:
        with contextlib.suppress(TeamLostError):
            dismiss(team)
            team.from_leader(path)
            part(team)


def _resume(path: Path | str, device: machine.DeviceName, reporter: Reporter, team: Team) -> Bundle:
    bundle = open_bundle(path)
    config = bundle.config
    if not (facts := bundle.data()).get("store"):
        raise BundleError(f"{path} cannot be resumed: it is not a run, or its training state was left out.")
    if bundle.scores():
        raise BundleError(
            f"{path} has finished: there is nothing to resume. To train it further on the same or other pairs, use "
            f"attendo train SOURCE TARGET --from {path}"
        )
    if config.training.tensorboard and (missing := why_no_tensorboard()):
        reporter.say(f"{missing}; going on without its curves.")
    chosen_device, task = machine.ready(device), task_of(config.task)
    corpus = task.reopen(bundle.path.parent / ".cache" / facts["store"])
    if corpus is None and config.training.diversify:
        raise DataError(
            f"{path} cannot be resumed: the pairs that its helpers made are gone from {bundle.path.parent / '.cache'}. "
            "Start a new run."
        )
    if corpus is None:
        start = None if config.adapt_from is None else bundle
        corpus = task.prepare(config.data, config.tokenizer, start, bundle.path.parent / ".cache", reporter)
    same = all(corpus.facts[key] == facts[key] for key in ("fingerprint", "validation_fingerprint"))
    if not same or corpus.tokenizers != bundle.text:
        raise DataError(
            f"{config.data.source} and the validation set are not what {path} was trained on: the fingerprint is "
            "different. Put the old files back, or start a new run."
        )
    pairs = task.examples(corpus, config)
    torch.manual_seed(config.seed)
    beginning = None if bundle.checkpoints() else _beginning(task, corpus, config)
    model = training_model(config, chosen_device, beginning)
    config = replace(config, training=settled(config, chosen_device, team))
    return _Run(bundle, config, task, model, corpus, pairs, device, chosen_device, team, reporter).resume()


@dataclass(frozen=True)
class _Run:
    """A run under way: what it works on, and the functions the loop calls back."""

    bundle: Bundle
    config: RunConfig
    task: Task
    model: nn.Module
    corpus: Corpus
    pairs: Pairs
    device_name: machine.DeviceName
    device: torch.device
    team: Team  # that torchrun has made, or one
    reporter: Reporter

    @property
    def training(self) -> TrainingConfig:
        return self.config.training

    @property
    def steps(self) -> int:
        assert self.training.steps is not None  # resolved before the bundle was made
        return self.training.steps

    @property
    def end(self) -> int:
        return self.training.last_step or self.steps

    def resume(self) -> Bundle:
        found = self.bundle.latest_state()
        if found is None:
            self.reporter.say("No checkpoint was saved: starting from the beginning.")
            self.bundle.rewind_log(-1)
            return self.go(Progress())
        step, weights, state, facts = found
        if not self.training.lora_rank:  # those are for use: training goes on with the raw ones, which the state has
            load_weights(self.model, weights, where=str(self.bundle.checkpoint(step)))
        self.bundle.prune(keep=self._kept(Progress(step=step, best_step=facts["best_step"])))
        self.bundle.rewind_log(step)
        self.reporter.say(f"Resuming at step {step:,} of {self.steps:,}.")
        return self.go(Progress(step=step), state, facts)

    def go(self, progress: Progress, state: dict[str, torch.Tensor] | None = None, facts: Any = None) -> Bundle:
        optimizer = build_optimizer(self.model, self.training)
        average = MovingAverage(weights_of(self.model), self.training.ema) if self.training.ema else None
        if state is not None:
            progress = restore(self.model, optimizer, state, facts)
        raw = {name.removeprefix(RAW): tensor for name, tensor in (state or {}).items() if name.startswith(RAW)}
        if raw:  # what the model had so far were the weights to use
            load_weights(self.model, raw, where=str(self.bundle.checkpoint(progress.step)))
        judge = self.task.judge(self.model, self.corpus, self.config, self.device)
        seconds, allowed = self._stopwatch(), self._seconds_allowed()
        last_good = progress
        stopped: list[int] = []

        def save(progress: Progress) -> None:
            nonlocal last_good
            tensors, facts = capture(self.model, optimizer, progress, gather_generators(team))
            weights = weights_of(self.model)
            if average is not None or self.training.lora_rank:
                tensors |= {f"{RAW}{name}": tensor for name, tensor in weights.items()}
                merge = self.training.lora_merge
                weights = written(self.model, weights, merge=merge) if average is None else average.weights
            best = progress.best_step or None
            self.bundle.save_checkpoint(progress.step, weights, tensors, facts, best=best)
            self.bundle.prune(keep=self._kept(progress))
            last_good = progress

        def validate(model: nn.Module) -> Validation:
            everyone = (self.training.processes or 1) * (self.training.threads or 1)
            with machine.using_threads(min(everyone, machine.cores())):
                return judge.validate(model)  # the others wait, so their cores are free

        with self._logger(progress.step, judge, seconds) as log:
            if progress.step == 0 and self._does_it_already():
                self.model.eval()
                log({"event": "validation", "step": 0, "epoch": 0.0, **validate(self.model).facts, "best": False})
            try:
                with _stop_signals(stopped.append), working_team(self.training, self.team) as team:
                    if team.size > 1:
                        team.from_leader(self._work(progress, state, facts))
                    outcome = train_together(
                        self.model,
                        optimizer,
                        self.config,
                        self.pairs,
                        team,
                        progress=progress,
                        device=self.device,
                        average=average,
                        validate=validate,
                        save=save,
                        log=log,
                        should_stop=lambda: bool(stopped),
                        is_over=lambda: seconds() > allowed,
                    )
            except TeamLostError as error:
                raise TrainingError(f"{error} Go on with: attendo train --resume {self.bundle.path}") from None
            except TrainingError as error:
                raise TrainingError(self._explained(error, last_good)) from None
            if stopped:
                self._interrupt(outcome.progress, stopped[0])
            with _stop_signals(lambda number: self._interrupt(outcome.progress, number)):
                self._finish(outcome, judge, log)
        return self.bundle

    def _does_it_already(self) -> bool:
        """Whether the run starts from a model of the same task, which can be scored before it is trained further."""
        start = self.config.adapt_from
        return start is not None and open_bundle(start).config.task == self.config.task

    def _work(self, progress: Progress, state: dict[str, torch.Tensor] | None, facts: Any) -> Work:
        return Work(
            config=self.config,
            store=self.corpus.folder,
            weights=weights_to_send(self.model),
            device=self.device_name,
            progress=progress,
            state=state,
            facts=facts,
        )

    def _interrupt(self, progress: Progress, number: int) -> NoReturn:
        raise Interrupted(
            f"Stopped and saved at step {progress.step:,}. Go on with: attendo train --resume {self.bundle.path}",
            number,
        )

    def _last(self, count: int, progress: Progress) -> list[int]:
        """The last regular checkpoints so far."""
        return [step for step in self.bundle.regular_checkpoints() if step <= progress.step][-count:] if count else []

    def _kept(self, progress: Progress) -> set[int]:
        return {*self._last(self.training.keep_checkpoints, progress), progress.best_step, progress.step}

    def _stopwatch(self) -> Callable[[], float]:
        """Says for how many seconds the run has been trained, with what came before it was resumed."""
        before = 60 * max((entry.get("minutes", 0.0) for entry in self.bundle.read_log()), default=0.0)
        began = time.monotonic()
        return lambda: before + time.monotonic() - began

    def _seconds_allowed(self) -> float:
        """For training, by the minutes that the user gave."""
        started = next((entry for entry in self.bundle.read_log() if entry["event"] == "started"), {})
        allowed = started.get("seconds_allowed")
        return math.inf if allowed is None else allowed

    @contextlib.contextmanager
    def _logger(self, first: int, judge: Judge, seconds: Callable[[], float]) -> Iterator[Log]:
        began = seconds()

        def log(entry: dict[str, Any]) -> None:
            self.bundle.log({**entry, "minutes": round(seconds() / 60, 3)})
            if curves is not None:
                curves(entry)
            if entry["event"] == "validation":
                self.reporter.say(judge.in_words(entry))
            if entry["event"] != "progress":
                return
            left = (seconds() - began) / (entry["step"] - first) * (self.end - entry["step"])
            self.reporter.progress(
                entry["step"],
                self.end,
                f"epoch {entry['epoch']:.1f}  loss {entry['loss']:.3f}  rate {entry['lr']:.2e}  "
                f"{entry['tokens_per_second']:,} {self.task.units}/s  {duration(left)} left",
            )

        wanted = self.training.tensorboard and not why_no_tensorboard()
        with tensorboard_log(self.bundle.path / "tensorboard", first) if wanted else contextlib.nullcontext() as curves:
            yield log

    def _explained(self, error: TrainingError, last_good: Progress) -> str:
        advice = (
            "Most often the learning rate is too high: start again with a lower training.learning_rate, a longer "
            "training.warmup_steps, or training.clip_norm=1."
        )
        if last_good.step:
            return f"{error} {advice} {self.bundle.path} keeps the last good checkpoint, of step {last_good.step:,}."
        return f"{error} {advice} No checkpoint had been saved yet in {self.bundle.path}."

    def _finish(self, outcome: Outcome, judge: Judge, log: Log) -> None:
        """Chooses between the best checkpoint and the average of the last, scores the winner, writes it all down.

        The best of many validations is so by chance to a good part. Where it is known how much chance may do, the
        average is taken unless it is worse by more than that (the rule of one standard error, Breiman et al. 1984).
        """
        progress = outcome.progress
        if outcome.reason == "early":
            self.reporter.say(f"Stopped early: {progress.stale} validations without improvement.")
        if outcome.reason == "late":
            self.reporter.say(
                f"The {self.training.minutes:g} minutes are over after step {progress.step:,} of {self.steps:,}."
            )
        merge_adapters(self.model)
        self.model.eval()
        chosen, name = self.bundle.checkpoint_weights(progress.best_step), f"checkpoint of step {progress.best_step:,}"
        verdict = self._verdict(chosen, judge)
        steps = self._last(self.training.average, progress)
        if len(steps) > 1:
            averaged = average_weights(self.bundle, steps)
            other = self._verdict(averaged, judge)
            scores = {"score": other.score, "best_checkpoint": verdict.score}
            log({"event": "average", "step": progress.step, "of": steps, **scores})
            if other.score > verdict.score - verdict.error:
                chosen, name = averaged, f"average of the {len(steps)} checkpoints from step {steps[0]:,} on"
                verdict = other
        load_weights(self.model, merged(chosen), where="the best weights")
        self.bundle.save_weights(chosen, {"weights": name})
        result = {"weights": name, "steps": progress.step, "ended": outcome.reason, **verdict.scores}
        log({"event": "finished", "step": progress.step, **result})
        summary = {
            **verdict.summary,
            "weights": name,
            "parameters": f"{self.bundle.data()['parameters']['total']:,}",
            "steps": f"{progress.step:,} of {self.steps:,}",
            "seed": str(self.config.seed),
        }
        title = f"{self.bundle.path.name}: {subject(self.config)}"
        page = training_report(title=title, entries=self.bundle.read_log(), summary=summary, samples=verdict.samples)
        self.bundle.write("report.html", page)
        result |= judge.more(self.bundle, self.reporter)
        self.bundle.write("card.md", write_card(self.bundle.config, self.bundle.data(), result))
        self.bundle.save_scores(result)  # the last: with it the run has finished
        self.reporter.say(verdict.words.replace("{weights}", name))

    def _verdict(self, weights: Weights, judge: Judge) -> Verdict:
        load_weights(self.model, merged(weights), where="the weights to judge")
        return judge.verdict(self.reporter)


@contextlib.contextmanager
def _stop_signals(receive: Callable[[int], None]) -> Iterator[None]:
    """Hands Ctrl-C and SIGTERM over instead of dying of them; a second one of the same kind kills as usual."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, _: FrameType | None) -> None:
        signal.signal(number, before[number])
        receive(number)

    before = {int(number): signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
