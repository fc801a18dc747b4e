"""From what a user gave to the whole config of a run: asked for, added by the preset, decided by the corpus."""

import itertools
import math
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from attendo.bundle import Bundle
from attendo.config import from_dict, merge, to_dict
from attendo.data.batching import epoch_plan
from attendo.data.loader import Pairs
from attendo.data.prepare import Prepared
from attendo.drafting import EXTRA_LENGTH
from attendo.errors import ConfigError
from attendo.recipe import MINUTES, OTHER_SIZES, DataConfig, Effort, RecipeName, RunConfig, choose, intervals
from attendo.training.settings import BOUNDS, TrainingConfig

VALIDATION_SHARE = 0.08  # of the time for training, kept for validations and checkpoints: at most
VALIDATION_COST = 2.0  # times what training takes for the same pairs
VALIDATIONS = 25  # in a run, with what the checkpoints take
FINAL_SECONDS = 20.0  # kept for the last scores, but not more than a tenth of the time
# A step takes longer than in the trial, whose median leaves out what was held up: by 3 to 14 %. What is more than this
# the run goes without: rates are near zero by then.
SLOWER = 1.05
MORE_PIECES = 1.3  # times as many pieces a word as a tokenizer was learned for
MANY_UNKNOWN = 0.02  # share of pieces for unknown characters
UNKNOWN_VOCABULARY = 300  # stands for the size of a vocabulary that is not there yet
Speed = Callable[[], float]  # measures how many tokens a second `tiny` is trained with here, about
TRANSLATORS = ("transformer", *OTHER_SIZES)  # kinds of models


def with_effort(settings: Mapping[str, Any], effort: Effort | None) -> Mapping[str, Any]:
    """An effort is a name for minutes, so it cannot be given beside another bound."""
    if effort is None:
        return settings
    if effort not in MINUTES:
        raise ConfigError(f"effort = {effort!r}: must be one of {', '.join(MINUTES)}.")
    given = settings.get("training", {})
    for name in BOUNDS:
        if given.get(name) is not None:
            raise ConfigError(
                f"effort = {effort!r} stands for {MINUTES[effort]:g} minutes, and training.{name} = {given[name]} says "
                "something else. Leave out one of the two."
            )
    return merge(settings, {"training": {"minutes": MINUTES[effort]}})


def check_settings(settings: Mapping[str, Any], preset: RecipeName, start: Bundle | None) -> None:
    """Finds mistakes in the settings before any work is done, with stand-ins for what only the corpus can tell."""
    check_groups(settings)
    check_noise(settings, wanted=False)
    if start is not None and _kind(settings, start) != start.config.model.kind:
        raise ConfigError(
            f"model.kind = {settings['model']['kind']!r}: the run starts from {start.path} and keeps its model, which "
            f"is of kind {start.config.model.kind}. Leave it out."
        )
    joint = settings.get("tokenizer", {}).get("joint", True) if start is None else start.tokenizers.joint
    sizes = _vocabularies(UNKNOWN_VOCABULARY, UNKNOWN_VOCABULARY if joint else UNKNOWN_VOCABULARY + 1)
    if start is not None:  # two tokenizers of one vocabulary are imported, too
        sizes = {key: getattr(start.config.model, key) for key in sizes}
    layers = [
        _tied(joint),
        choose(preset, pairs=1, kind=_kind(settings, start), adapt=None if start is None else start.config.model),
        _suitable(settings),
        _model_of(start),
        {} if start is None else {"data": {"max_length": start.config.data.max_length}},
        settings,
    ]
    config = from_dict(RunConfig, merge({"data": {"source": ""}}, *layers, {"model": sizes}))
    check_used(settings, config)
    places = config.data.max_length + 1 + EXTRA_LENGTH  # with BOS
    longest = config.model.longest_target
    if longest is not None and longest + 1 < places:
        raise ConfigError(
            f"model.n_positions = {longest + 1}: translations can be as long as data.max_length "
            f"({config.data.max_length}) and {EXTRA_LENGTH} more, so learned positions must be at least {places}."
        )
    if start is not None:
        check_tokenizer_kept(settings, start)
        check_model_kept(settings, config, start, follows=_vocabularies(0, 0))


def check_groups(settings: Mapping[str, Any]) -> None:
    for name in ("data", "tokenizer", "model", "training"):
        if not isinstance(settings.get(name, {}), Mapping):
            raise ConfigError(f"{name} = {settings[name]!r}: must be a group of settings, or be left out.")


def is_bounded(settings: Mapping[str, Any], start: Bundle | None) -> bool:
    """Whether the settings say how long, so that the preset need not.

    Time is there to be used, but what is trained already needs a few epochs, however much of it there is.
    """
    given = settings.get("training", {})
    return any(given.get(name) is not None for name in BOUNDS if start is None or name != "minutes")


def check_noise(settings: Mapping[str, Any], *, wanted: bool) -> None:
    if settings.get("noise") is not None and not wanted:
        raise ConfigError(f"noise = {settings['noise']}: nothing is hidden in this task. Leave it out (--style, too).")


def check_used(settings: Mapping[str, Any], config: RunConfig) -> None:
    """That no setting of the model was asked for which does nothing beside the others."""
    for key, words in config.model.unused():
        if key in settings.get("model", {}):
            raise ConfigError(f"model.{key} = {getattr(config.model, key)!r}: has no effect, since {words}.")


def check_tokenizer_kept(settings: Mapping[str, Any], start: Bundle) -> None:
    for key, value in settings.get("tokenizer", {}).items():
        if value != getattr(start.config.tokenizer, key):
            raise ConfigError(
                f"tokenizer.{key} = {value!r}: the run starts from {start.path} and keeps its tokenizer. Leave it out."
            )


def check_model_kept(
    settings: Mapping[str, Any], config: RunConfig, start: Bundle, *, follows: Collection[str] = ()
) -> None:
    """What a run that starts from a bundle keeps of it: weights used in another way would be another model.

    follows: the settings of the model that follow from the data. A model of another kind may have more than those.
    """
    now, before = to_dict(config.model), to_dict(start.config.model)
    free = (*config.model.rates, *follows, "kind")
    for key in settings.get("model", {}):
        if key in before and key not in free and now[key] != before[key]:
            raise ConfigError(
                f"model.{key} = {now[key]!r}: the run starts from {start.path} and keeps its model, where it is "
                f"{before[key]!r}. Leave it out; only {', '.join(config.model.rates)} may change."
            )


def resolve(
    settings: Mapping[str, Any],
    preset: RecipeName,
    data: DataConfig,
    prepared: Prepared,
    start: Bundle | None,
    *,
    speed: Speed,
) -> RunConfig:
    """The whole config, once the corpus is known; only the number of steps is still open.

    speed: asked only where the preset is to fit the time.
    """
    extra = merge(_model_of(start), settings).get("model", {}).get("n_extra", 0)
    sizes = _vocabularies(prepared.tokenizers.source.vocab_size + extra, prepared.tokenizers.target.vocab_size + extra)
    for key, size in sizes.items():
        given = settings.get("model", {}).get(key, size)
        if given != size:
            raise ConfigError(
                f"model.{key} = {given}: the tokenizer of this corpus has {size} pieces. Leave the key out, and choose "
                "the size with tokenizer.vocab_size."
            )
    passes = None
    if preset == "auto" and start is None:
        passes = planned_passes(settings.get("training", {}), prepared.facts, speed)
    chosen = choose(
        preset,
        pairs=prepared.facts["pairs"]["kept"],
        passes=passes,
        kind=_kind(settings, start),
        adapt=None if start is None else start.config.model,
        adapters=bool(settings.get("training", {}).get("lora_rank")),
    )
    epochs = {} if is_bounded(settings, start) else {"training": {"epochs": chosen["training"]["epochs"]}}
    del chosen["training"]["epochs"]
    joint = prepared.tokenizers.joint
    learned: dict[str, Any] = {"tokenizer": {"vocab_size": prepared.facts["vocab_size"], "joint": joint}}
    if start is not None:
        learned = {"tokenizer": to_dict(start.config.tokenizer)}
    by_itself = merge(_tied(joint), chosen, _suitable(settings), _model_of(start))
    values = merge(by_itself, settings, epochs, {"model": sizes}, learned, {"data": to_dict(data)})
    return from_dict(RunConfig, values)


def bound(
    training: TrainingConfig,
    settings: Mapping[str, Any],
    pairs: Pairs,
    seed: int,
    *,
    seconds: float,
    gone: float,
    facts: Mapping[str, Any],
    adapts: bool = False,
) -> TrainingConfig:
    """With the number of steps, and with intervals and a warm-up that fit it where the user has not set them.

    A shorter warm-up goes up to the same rate.

    seconds: that a step takes. gone: those of the minutes allowed that are over already. facts: of the corpus. adapts:
    a trained model.
    """
    bounds = []
    if training.steps is not None:
        bounds.append(training.steps)
    else:
        if training.epochs is not None:
            bounds.append(math.ceil(training.epochs * steps_of_pass(training, pairs, seed)))
        if (left := seconds_left(training, gone=gone)) is not None:
            validating = min(VALIDATION_SHARE * left, _validation_seconds(training, facts, seconds))
            bounds.append(int((left - validating) / (SLOWER * seconds)))
    steps = max(1, min(bounds))
    given = settings.get("training", {})
    fitted: dict[str, Any] = {key: value for key, value in intervals(steps, adapts=adapts).items() if key not in given}
    if "warmup_steps" not in given:
        shorter = max(1, min(training.warmup_steps, steps // 5))
        fitted["warmup_steps"] = shorter
        if training.schedule == "paper":  # whose peak is the higher the sooner it is
            fitted["learning_rate"] = training.learning_rate * math.sqrt(shorter / training.warmup_steps)
    return from_dict(TrainingConfig, {**to_dict(training), **fitted, "steps": steps}, where="training.")


def seconds_left(training: TrainingConfig, *, gone: float) -> float | None:
    """Of the minutes allowed, what is left for steps and validations; None where they are not what bounds training."""
    if training.steps is not None or training.minutes is None:
        return None
    allowed = 60 * training.minutes
    return allowed - min(FINAL_SECONDS, 0.1 * allowed) - gone


def _validation_seconds(training: TrainingConfig, facts: Mapping[str, Any], seconds: float) -> float:
    """About how long all validations of a run take whose steps take so many seconds; not known but of translators."""
    if "pairs" not in facts:
        return math.inf
    steps = max(facts["tokens_per_epoch"].values()) / (training.accumulate * training.batch_tokens)  # of a pass
    held_out = facts["pairs"]["held_out"] / facts["pairs"]["kept"]
    return VALIDATIONS * VALIDATION_COST * held_out * steps * seconds


def steps_of_pass(training: TrainingConfig, pairs: Pairs, seed: int) -> float:
    plan = epoch_plan(*pairs.lengths(0), batch_tokens=training.batch_tokens, seed=seed, epoch=0)
    return len(plan) / training.accumulate


def misfit(prepared: Prepared, start: Bundle) -> str | None:
    """Why the tokenizer of the bundle that a run starts from suits its text badly, in words; None if it does not."""
    reasons = []
    now, known = _pieces_per_word(prepared.facts), _pieces_per_word(start.data())
    before = {side: known.get(side, max(known.values())) for side in now} if known else now
    side = max(now, key=lambda side: now[side] / before[side], default="")
    if now and now[side] > MORE_PIECES * before[side]:
        had = f"and had {before[side]:.1f} in the text it was learned from"
        reasons.append(f"words of the {side} have {now[side]:.1f} pieces, {had}")
    sides = (prepared.tokenizers.source, prepared.store.source), (prepared.tokenizers.target, prepared.store.target)
    shares = [tokenizer.unknown_share(side.ids) for tokenizer, side in sides]
    if max(shares) > MANY_UNKNOWN:
        reasons.append(f"{max(shares):.0%} of the pieces of one side stand for characters that it does not know")
    if not reasons:
        return None
    return (
        f"Warning: the tokenizer of {start.path} fits this text badly: {'; '.join(reasons)}. A run of its own, without "
        "--from, may translate better."
    )


def _pieces_per_word(facts: Mapping[str, Any]) -> dict[str, float]:
    """Of each side; nothing where a bundle does not say, or there are no words. A text alone is a source."""
    tokens, words = facts.get("tokens_per_epoch", {}), facts.get("words_of_sides", {})
    if "pairs" not in facts:
        words = {"source": facts.get("words", 0)}
    ends = facts.get("pairs", {}).get("kept", 0)
    return {side: (tokens[side] - ends) / words[side] for side in words if words[side] and tokens.get(side)}


def next_folder(data: DataConfig) -> Path:
    name = "-".join(data.languages) if data.languages else Path(data.source).name.split(".")[0]
    return next(path for n in itertools.count(1) if not (path := Path("runs") / f"{name}-{n}").exists())


def planned_passes(
    training: Mapping[str, Any],
    facts: Mapping[str, Any],
    speed: Speed,
    *,
    cost: float = 1.0,
    batch_tokens: int | None = None,
) -> float | None:
    """About how often what was given lets training go over the data; None: as often as is useful.

    cost: times as long as `tiny` takes for the same text. batch_tokens: of a step, if steps are to count as well; then
    they alone do.
    """
    tokens, bounds = sum(facts["tokens_per_epoch"].values()), []
    if training.get("steps") is not None and batch_tokens is not None:
        return float(training["steps"] * batch_tokens / tokens)
    if training.get("epochs") is not None:
        bounds.append(float(training["epochs"]))
    if training.get("minutes") is not None:
        bounds.append(60 * training["minutes"] * speed() / (cost * tokens))
    return min(bounds, default=None)


def _kind(settings: Mapping[str, Any], start: Bundle | None = None) -> str:
    """The kind of model asked for, or that of the bundle to start from."""
    kind = settings.get("model", {}).get("kind", TRANSLATORS[0] if start is None else start.config.model.kind)
    if kind not in TRANSLATORS:
        raise ConfigError(f"model.kind = {kind!r}: a translator is one of {', '.join(TRANSLATORS)}.")
    return str(kind)


def _model_of(start: Bundle | None) -> dict[str, Any]:
    return {} if start is None else {"model": to_dict(start.config.model)}


def _suitable(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What suits the parts that were asked for: embeddings their positions, and decay the optimizer."""
    waves = settings.get("model", {}).get("positions") == "complex"
    plain = settings.get("training", {}).get("optimizer") == "adam"
    return {"training": ({"embeddings": "random"} if waves else {}) | ({"weight_decay": 0.0} if plain else {})}


def _tied(joint: bool) -> dict[str, Any]:
    return {"model": {"tie_embeddings": "all" if joint else "target"}}


def _vocabularies(source: int, target: int) -> dict[str, int]:
    return {"source_vocab_size": source, "target_vocab_size": target}
