"""One training run: corpus, tokenizer, model, loop, validation and bundle, joined."""

import contextlib
import copy
import itertools
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

from attendo import machine
from attendo.bundle import (
    Bundle,
    average_weights,
    create_bundle,
    load_weights,
    open_bundle,
    plain_json,
    weights_of,
)
from attendo.card import direction, write_card
from attendo.config import from_dict, merge, to_dict
from attendo.data.batching import epoch_plan
from attendo.data.loader import Position, batches_from
from attendo.data.prepare import Prepared, open_prepared, prepare
from attendo.errors import BundleError, ConfigError, DataError, Interrupted, TrainingError
from attendo.evaluation.report import training_report
from attendo.models.transformer import Transformer, build, parameter_table
from attendo.recipe import DataConfig, RecipeName, RunConfig, TokenizerConfig, choose, intervals
from attendo.reporting import Reporter, Silent
from attendo.text.corpus import languages_of
from attendo.training.loop import Outcome
from attendo.training.loop import train as train_loop
from attendo.training.loss import batch_loss
from attendo.training.optimizer import build_optimizer
from attendo.training.schedule import build_schedule
from attendo.training.settings import TrainingConfig
from attendo.training.state import Progress, capture, generators, restore, restore_generators
from attendo.translator import EXTRA_LENGTH, Translator
from attendo.validation import Validator

FINAL_BEAM = 5
MEASURED_STEPS = 30
MEASURED_SECONDS = 20.0
VALIDATION_SHARE = 0.08  # of the minutes allowed, kept for validations and checkpoints
UNKNOWN_VOCABULARY = 300  # stands for the size of a vocabulary that is not there yet


def train(
    source: Path | str | None = None,
    target: Path | str | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    preset: RecipeName = "auto",
    out: Path | str | None = None,
    device: machine.DeviceName = "auto",
    reporter: Reporter | None = None,
) -> Bundle:
    """Trains a translator from files to bundle.

    `source` and `target` are the two files, or `source` alone is a TSV or JSONL file. `settings` are nested plain
    values as in a config file, `{"training": {"minutes": 10}}`; what they do not say, the preset chooses from the
    corpus. `out` is the new bundle's folder.
    """
    files = {side: str(path) for side, path in (("source", source), ("target", target)) if path is not None}
    settings = merge(settings or {}, {"data": files} if files else {})
    reporter = reporter or Silent()
    _check_groups(settings)
    start = _adapted(settings)
    _check_settings(settings, preset, start)
    data = from_dict(DataConfig, settings.get("data", {}), where="data.")
    if data.languages is None:
        data = replace(data, languages=languages_of(data.files()) or (start.languages if start else None))
    path = Path(out) if out is not None else _next_folder(data)
    if path.exists():
        raise BundleError(f"{path} exists already. Choose another folder with --out, or remove it first.")

    chosen_device = machine.choose_device(device)
    machine.keep_large_buffers()
    machine.set_threads(None)
    tokenizer = from_dict(TokenizerConfig, settings.get("tokenizer", {}), where="tokenizer.")
    prepared = _prepare(data, tokenizer, start, path.parent / ".cache", reporter)
    config = _resolve(settings, preset, data, prepared, start)

    torch.manual_seed(config.seed)
    model = build(config.model).to(chosen_device)
    if start is not None:
        load_weights(model, start.weights(), where=str(start.path))
    seconds = _seconds_per_step(model, config, prepared, chosen_device)
    config = replace(config, training=_bounded(config.training, settings, prepared, config.seed, seconds))
    facts = {
        **prepared.facts,
        "parameters": parameter_table(model),
        "machine": machine.describe(),
        "store": prepared.folder.name,
    }
    _announce(config, facts, seconds, reporter)
    bundle = create_bundle(
        path,
        config=config,
        tokenizers=prepared.tokenizers,
        texts={"data.json": plain_json(facts), "card.md": write_card(config, facts, {})},
    )
    return _Run(bundle, model, prepared, chosen_device, reporter).go(Progress())


def resume(path: Path | str, *, device: machine.DeviceName = "auto", reporter: Reporter | None = None) -> Bundle:
    """Goes on with an interrupted run, exactly where its last checkpoint is."""
    reporter = reporter or Silent()
    bundle = open_bundle(path)
    config = bundle.config
    if not (facts := bundle.data()).get("store"):
        raise BundleError(f"{path} cannot be resumed: it is not a run, or its training state was left out.")
    if bundle.scores():
        raise BundleError(
            f"{path} has finished: there is nothing to resume. To train it further on the same or other pairs, use "
            f"attendo train SOURCE TARGET --from {path}"
        )
    chosen_device = machine.choose_device(device)
    machine.keep_large_buffers()
    machine.set_threads(None)
    prepared = open_prepared(bundle.path.parent / ".cache" / facts["store"])
    if prepared is None:
        start = None if config.adapt_from is None else bundle
        prepared = _prepare(config.data, config.tokenizer, start, bundle.path.parent / ".cache", reporter)
    same = all(prepared.facts[key] == facts[key] for key in ("fingerprint", "validation_fingerprint"))
    if not same or prepared.tokenizers != bundle.tokenizers:
        raise DataError(
            f"{config.data.source} and the validation set are not what {path} was trained on: the fingerprint is "
            "different. Put the old files back, or start a new run."
        )
    torch.manual_seed(config.seed)
    model = build(config.model).to(chosen_device)
    return _Run(bundle, model, prepared, chosen_device, reporter).resume()


@dataclass(frozen=True)
class _Run:
    """A run under way: what it works on, and the functions the loop calls back."""

    bundle: Bundle
    model: Transformer
    prepared: Prepared
    device: torch.device
    reporter: Reporter

    @property
    def training(self) -> TrainingConfig:
        return self.bundle.config.training

    @property
    def steps(self) -> int:
        assert self.training.steps is not None  # resolved before the bundle was made
        return self.training.steps

    def resume(self) -> Bundle:
        found = self.bundle.latest_state()
        if found is None:
            self.reporter.say("No checkpoint was saved: starting from the beginning.")
            self.bundle.rewind_log(-1)
            if (origin := self.bundle.config.adapt_from) is not None:
                load_weights(self.model, open_bundle(origin).weights(), where=origin)
            return self.go(Progress())
        step, weights, state, facts = found
        load_weights(self.model, weights, where=str(self.bundle.checkpoint(step)))
        self.bundle.prune(keep=self._kept(Progress(step=step, best_step=facts["best_step"])))
        self.bundle.rewind_log(step)
        self.reporter.say(f"Resuming at step {step:,} of {self.steps:,}.")
        return self.go(Progress(step=step), state, facts)

    def go(self, progress: Progress, state: dict[str, torch.Tensor] | None = None, facts: Any = None) -> Bundle:
        config = self.bundle.config
        optimizer = build_optimizer(self.model, self.training)
        if state is not None:
            progress = restore(self.model, optimizer, state, facts)
        validator = self._validator()
        last_good = progress
        stopped: list[int] = []

        def save(progress: Progress) -> None:
            nonlocal last_good
            tensors, facts = capture(self.model, optimizer, progress)
            best = progress.best_step or None
            self.bundle.save_checkpoint(progress.step, weights_of(self.model), tensors, facts, best=best)
            self.bundle.prune(keep=self._kept(progress))
            last_good = progress

        with _stop_signals(stopped.append):
            try:
                outcome = train_loop(
                    self.model,
                    optimizer,
                    build_schedule(self.training, d_model=config.model.d_model, steps=self.steps),
                    batches_from(
                        self.prepared.store,
                        progress.position,
                        batch_tokens=self.training.batch_tokens,
                        seed=config.seed,
                    ),
                    config=self.training,
                    steps=self.steps,
                    progress=progress,
                    device=self.device,
                    precision=machine.mixed_precision(self.device) if self.training.mixed_precision == "auto" else None,
                    validate=validator.validate,
                    save=save,
                    log=self._logger(progress.step),
                    should_stop=lambda: bool(stopped),
                )
            except TrainingError as error:
                raise TrainingError(self._explained(error, last_good)) from None
        if outcome.reason == "stopped":
            self._interrupt(outcome.progress, stopped[0])
        with _stop_signals(lambda number: self._interrupt(outcome.progress, number)):
            self._finish(outcome, validator)
        return self.bundle

    def _interrupt(self, progress: Progress, number: int) -> NoReturn:
        raise Interrupted(
            f"Stopped and saved at step {progress.step:,}. Go on with: attendo train --resume {self.bundle.path}",
            number,
        )

    def _validator(self) -> Validator:
        config = self.bundle.config
        translator = Translator(
            self.model,
            self.prepared.tokenizers,
            max_length=config.data.max_length,
            device=self.device.type,  # type: ignore[arg-type]
            languages=config.data.languages,
        )
        return Validator(
            translator, self.prepared.valid, metric=self.training.stop_metric, beam=self.training.validation_beam
        )

    def _regular(self, progress: Progress) -> list[int]:
        """Checkpoints that averaging may use: those on the beat, not those of an interruption or a validation."""
        every = self.training.checkpoint_every
        return [step for step in self.bundle.checkpoints() if step % every == 0 and 0 < step <= progress.step]

    def _kept(self, progress: Progress) -> set[int]:
        return {*self._regular(progress)[-self.training.keep_checkpoints :], progress.best_step, progress.step}

    def _logger(self, first: int) -> Callable[[dict[str, Any]], None]:
        began = time.monotonic()
        minutes_before = max((entry.get("minutes", 0.0) for entry in self.bundle.read_log()), default=0.0)

        def log(entry: dict[str, Any]) -> None:
            minutes = minutes_before + (time.monotonic() - began) / 60
            self.bundle.log({**entry, "minutes": round(minutes, 3)})
            if entry["event"] == "validation":
                self.reporter.say(_validation_words(entry))
                return
            left = (time.monotonic() - began) / (entry["step"] - first) * (self.steps - entry["step"])
            self.reporter.progress(
                entry["step"],
                self.steps,
                f"epoch {entry['epoch']:.1f}  loss {entry['loss']:.3f}  rate {entry['lr']:.2e}  "
                f"{entry['tokens_per_second']:,} tokens/s  {_duration(left)} left",
            )

        return log

    def _explained(self, error: TrainingError, last_good: Progress) -> str:
        advice = (
            "Most often the learning rate is too high: start again with a lower training.learning_rate, a longer "
            "training.warmup_steps, or training.clip_norm=1."
        )
        if last_good.step:
            return f"{error} {advice} {self.bundle.path} keeps the last good checkpoint, of step {last_good.step:,}."
        return f"{error} {advice} No checkpoint had been saved yet in {self.bundle.path}."

    def _finish(self, outcome: Outcome, validator: Validator) -> None:
        """Chooses between the best checkpoint and the average of the last, scores the winner, writes it all down."""
        progress = outcome.progress
        if outcome.reason == "early":
            self.reporter.say(f"Stopped early: {progress.stale} validations without improvement.")
        self.model.eval()
        chosen, name = self.bundle.checkpoint_weights(progress.best_step), f"checkpoint of step {progress.best_step:,}"
        score = progress.best_score if progress.best_score is not None else -math.inf
        steps = self._regular(progress)[-self.training.average :] if self.training.average else []
        if len(steps) > 1:
            averaged = average_weights(self.bundle, steps)
            load_weights(self.model, averaged, where="the average")
            found = validator.validate(self.model)
            self.bundle.log({"event": "average", "step": progress.step, "of": steps, **found.facts})
            if found.score > score:
                chosen, name = averaged, f"average of the {len(steps)} checkpoints from step {steps[0]:,} on"
        load_weights(self.model, chosen, where="the best weights")
        perplexity = validator.validate(self.model).facts["perplexity"]
        scores, samples = validator.final(beam=FINAL_BEAM, reporter=self.reporter)
        result = {
            "weights": name,
            "beam": FINAL_BEAM,
            "validation": scores.to_json(),
            "perplexity": perplexity,
            "baseline_bleu": validator.baseline,
        }
        self.bundle.save_weights(chosen, {"weights": name})
        self.bundle.log({"event": "finished", "step": progress.step, **result})
        self.bundle.write("report.html", self._report([sample.to_json() for sample in samples], result))
        self.bundle.write("card.md", write_card(self.bundle.config, self.bundle.data(), result))
        self.bundle.save_scores(result)
        self.reporter.say(
            f"Validation, beam {FINAL_BEAM}: BLEU {scores.bleu.score:.1f}, chrF {scores.chrf.score:.1f}, "
            f"TER {scores.ter.score:.1f} ({name}). Copying the source: BLEU {validator.baseline:.1f}."
        )

    def _report(self, samples: list[dict[str, Any]], result: Mapping[str, Any]) -> str:
        config, pairs = self.bundle.config, self.bundle.data()["pairs"]
        validation = result["validation"]
        return training_report(
            title=f"{self.bundle.path.name}: {direction(config)}",
            entries=self.bundle.read_log(),
            summary={
                "BLEU": f"{validation['bleu']['score']:.2f} ({validation['bleu']['signature']})",
                "chrF": f"{validation['chrf']['score']:.2f} ({validation['chrf']['signature']})",
                "TER": f"{validation['ter']['score']:.2f} ({validation['ter']['signature']})",
                "weights": result["weights"],
                "parameters": f"{self.bundle.data()['parameters']['total']:,}",
                "training pairs": f"{pairs['kept']:,}",
                "validation pairs": f"{pairs['held_out']:,}",
                "steps": f"{self.steps:,}",
                "seed": str(config.seed),
            },
            samples=[{**sample, "bleu": f"{sample['bleu']:.1f}"} for sample in samples],
        )


# --- settings ---------------------------------------------------------------------------------------------------


def _adapted(settings: Mapping[str, Any]) -> Bundle | None:
    path = settings.get("adapt_from")
    return None if path is None else open_bundle(path)


def _check_groups(settings: Mapping[str, Any]) -> None:
    for name in ("data", "tokenizer", "model", "training"):
        if not isinstance(settings.get(name, {}), Mapping):
            raise ConfigError(f"{name} = {settings[name]!r}: must be a group of settings, or be left out.")


def _check_settings(settings: Mapping[str, Any], preset: RecipeName, start: Bundle | None) -> None:
    """Finds mistakes in the settings before any work is done, with stand-ins for what only the corpus can tell."""
    joint = settings.get("tokenizer", {}).get("joint", True) if start is None else start.tokenizers.joint
    sizes = _vocabularies(UNKNOWN_VOCABULARY, UNKNOWN_VOCABULARY if joint else UNKNOWN_VOCABULARY + 1)
    layers = [choose(preset, pairs=1, adapt=start is not None), _tied(joint), _model_of(start), settings]
    config = from_dict(RunConfig, merge({"data": {"source": ""}}, *layers, {"model": sizes}))
    places = config.data.max_length + 1 + EXTRA_LENGTH
    if config.model.positions == "learned" and config.model.n_positions < places:
        raise ConfigError(
            f"model.n_positions = {config.model.n_positions}: translations can be as long as data.max_length "
            f"({config.data.max_length}) and {1 + EXTRA_LENGTH} more, so learned positions must be at least {places}."
        )
    for key, value in settings.get("tokenizer", {}).items():
        if start is not None and value != getattr(start.config.tokenizer, key):
            raise ConfigError(
                f"tokenizer.{key} = {value!r}: the run starts from {start.path} and keeps its tokenizer. Leave it out."
            )


def _resolve(
    settings: Mapping[str, Any], preset: RecipeName, data: DataConfig, prepared: Prepared, start: Bundle | None
) -> RunConfig:
    """The whole config, once the corpus is known; only the number of steps is still open."""
    sizes = _vocabularies(prepared.tokenizers.source.vocab_size, prepared.tokenizers.target.vocab_size)
    for key, size in sizes.items():
        given = settings.get("model", {}).get(key, size)
        if given != size:
            raise ConfigError(
                f"model.{key} = {given}: the tokenizer of this corpus has {size} pieces. Leave the key out, and choose "
                "the size with tokenizer.vocab_size."
            )
    chosen = choose(preset, pairs=prepared.facts["pairs"]["kept"], adapt=start is not None)
    if any(settings.get("training", {}).get(bound) for bound in ("steps", "epochs", "minutes")):
        chosen["training"].pop("epochs")
    joint = prepared.tokenizers.joint
    learned: dict[str, Any] = {"tokenizer": {"vocab_size": prepared.facts["vocab_size"], "joint": joint}}
    if start is not None:
        learned = {"tokenizer": to_dict(start.config.tokenizer)}
    values = merge(chosen, _tied(joint), _model_of(start), settings, {"model": sizes}, learned)
    return from_dict(RunConfig, merge(values, {"data": to_dict(data)}))


def _model_of(start: Bundle | None) -> dict[str, Any]:
    return {} if start is None else {"model": to_dict(start.config.model)}


def _tied(joint: bool) -> dict[str, Any]:
    return {"model": {"tie_embeddings": "all" if joint else "target"}}


def _vocabularies(source: int, target: int) -> dict[str, int]:
    return {"source_vocab_size": source, "target_vocab_size": target}


def _bounded(
    training: TrainingConfig, settings: Mapping[str, Any], prepared: Prepared, seed: int, seconds: float
) -> TrainingConfig:
    """With the number of steps, and with intervals and a warm-up that fit it where the user has not set them."""
    bounds = []
    if training.steps is not None:
        bounds.append(training.steps)
    else:
        if training.epochs is not None:
            plan = epoch_plan(
                prepared.store.source.lengths(),
                prepared.store.target.lengths(),
                batch_tokens=training.batch_tokens,
                seed=seed,
                epoch=0,
            )
            bounds.append(math.ceil(training.epochs * len(plan) / training.accumulate))
        if training.minutes is not None:
            bounds.append(int(training.minutes * 60 * (1 - VALIDATION_SHARE) / seconds))
    steps = max(1, min(bounds))
    given = settings.get("training", {})
    fitted = {key: value for key, value in intervals(steps).items() if key not in given}
    if "warmup_steps" not in given:
        fitted["warmup_steps"] = max(1, min(training.warmup_steps, steps // 5))
    return from_dict(TrainingConfig, {**to_dict(training), **fitted, "steps": steps}, where="training.")


def _next_folder(data: DataConfig) -> Path:
    name = "-".join(data.languages) if data.languages else Path(data.source).name.split(".")[0]
    return next(path for n in itertools.count(1) if not (path := Path("runs") / f"{name}-{n}").exists())


def _prepare(
    data: DataConfig, tokenizer: TokenizerConfig, start: Bundle | None, cache: Path, reporter: Reporter
) -> Prepared:
    return prepare(
        data.files(),
        data.valid_files(),
        tokenizers=None if start is None else start.tokenizers,
        kind=tokenizer.kind,
        vocab_size=tokenizer.vocab_size,
        joint=tokenizer.joint,
        max_length=data.max_length,
        cache=cache,
        reporter=reporter,
    )


# --- before the first step --------------------------------------------------------------------------------------


def _seconds_per_step(model: Transformer, config: RunConfig, prepared: Prepared, device: torch.device) -> float:
    """How long a step takes here, measured on a copy of the model; leaves the random generators as they were."""
    before_all = generators()
    trial = copy.deepcopy(model).train()
    optimizer = build_optimizer(trial, config.training)
    batches = batches_from(prepared.store, Position(), batch_tokens=config.training.batch_tokens, seed=config.seed)
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < MEASURED_STEPS and (not times or time.perf_counter() - began < MEASURED_SECONDS):
        before = time.perf_counter()
        for batch, _, _ in itertools.islice(batches, config.training.accumulate):
            (batch_loss(trial, batch.to(device), config.training.label_smoothing) / batch.n_tokens).backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.perf_counter() - before)
    restore_generators(before_all)
    steady = times[len(times) // 5 :]  # the first steps allocate
    return sum(steady) / len(steady)


def _announce(config: RunConfig, facts: Mapping[str, Any], seconds: float, reporter: Reporter) -> None:
    pairs, tokens, model, steps = facts["pairs"], facts["tokens_per_epoch"], config.model, config.training.steps or 0
    dropped = pairs["dropped_empty"] + pairs["dropped_long"]
    reporter.say(
        f"Pairs: {pairs['kept']:,} for training, {pairs['held_out']:,} for validation; {dropped:,} dropped "
        f"({pairs['dropped_empty']:,} with an empty side, {pairs['dropped_long']:,} longer than "
        f"{config.data.max_length} pieces)."
    )
    sizes = (
        f"{model.source_vocab_size:,} pieces for both sides"
        if config.tokenizer.joint
        else f"{model.source_vocab_size:,} source and {model.target_vocab_size:,} target pieces"
    )
    reporter.say(f"Vocabulary: {sizes}. Tokens per epoch: {tokens['source'] + tokens['target']:,}.")
    reporter.say(
        f"Model: {facts['parameters']['total']:,} parameters, "
        f"{model.n_encoder_layers}+{model.n_decoder_layers} layers, d_model {model.d_model}."
    )
    reporter.say(
        f"Training: {steps:,} steps, about {_duration(steps * seconds / (1 - VALIDATION_SHARE))}, "
        f"about {machine.peak_memory() / 2**30:.1f} GB of memory, {facts['machine']['threads']} threads."
    )


def _validation_words(entry: Mapping[str, Any]) -> str:
    lines = [
        f"Validation at step {entry['step']:,}: BLEU {entry['bleu']:.1f} (copying the source: "
        f"{entry['baseline_bleu']:.1f}), loss {entry['loss']:.3f}, perplexity {entry['perplexity']:.2f}"
        f"{', the best so far' if entry['best'] else ''}"
    ]
    for sample in entry["samples"]:
        lines += [
            f"  source       {_short(sample['source'])}",
            f"  reference    {_short(sample['reference'])}",
            f"  translation  {_short(sample['translation'])}   [BLEU {sample['bleu']:.0f}]",
        ]
    return "\n".join(lines)


def _short(text: str) -> str:
    return text if len(text) <= 100 else text[:99] + "…"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


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
