"""One run, completely: the settings of all its parts, and the preset that chooses them from the corpus."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args

from attendo.config import POSITIVE, Rule, Settings
from attendo.data.noise_settings import NoiseConfig
from attendo.errors import ConfigError
from attendo.models.presets import PresetName, convolutional_sizes, recurrent_sizes, sizes
from attendo.models.settings import AnyModel, LayerConfig, ModelConfig
from attendo.text.corpus import CorpusFiles
from attendo.text.tokenizer import SMALLEST_VOCAB_SIZE, Kind
from attendo.training.settings import TrainingConfig

RecipeName = Literal["auto", PresetName, "llama"]
RECIPES: tuple[str, ...] = ("auto", *get_args(PresetName))  # of translators

TaskName = Literal["translate", "language-model", "masked-language-model", "classify", "denoise", "classify-images"]
TASKS: tuple[str, ...] = get_args(TaskName)
WITH_RELATED: tuple[TaskName, ...] = ("translate", "masked-language-model", "classify")  # embeddings
# What a bundle of each task is, and the command that puts it to work.
USED_BY: dict[TaskName, tuple[str, str]] = {
    "translate": ("a translator", "translate"),
    "language-model": ("a language model", "generate"),
    "masked-language-model": ("a masked language model", "generate"),
    "classify": ("a classifier of texts", "classify"),
    "denoise": ("a denoising model", "translate"),
    "classify-images": ("a classifier of pictures", "classify"),
}

Effort = Literal["quick", "normal", "thorough"]
MINUTES: dict[Effort, float] = {"quick": 10.0, "normal": 60.0, "thorough": 150.0}  # from first file to last score

FEW_PASSES, SEVERAL_PASSES, MANY_PASSES = 18.0, 45.0, 120.0  # over the data
ENOUGH_PAIRS = 20_000  # for a wider model, which would learn fewer by heart
FEWEST_PASSES = 2.0  # for which it pays to take a larger model
COSTS = {"small": 7.0, "base": 40.0, "big": 130.0}  # times as long as `tiny` takes for the same text
# The more often a model reads the same text, the more of it has to be left out: passes below which a rate of dropout is
# enough.
DROPOUTS = ((FEW_PASSES, 0.1), (30.0, 0.15), (SEVERAL_PASSES, 0.2), (MANY_PASSES, 0.25), (math.inf, 0.3))
OTHER_SIZES = {"rnn": recurrent_sizes, "conv": convolutional_sizes}  # of the kinds of translators but Transformers

VOCABULARY = Rule(
    f"must be at least {SMALLEST_VOCAB_SIZE}: control pieces and bytes come before anything that is learned",
    lambda value: value >= SMALLEST_VOCAB_SIZE,
)
SEED = Rule("must be from 0 to 2^63 - 1", lambda value: 0 <= value < 2**63)


@dataclass(frozen=True, kw_only=True)
class DataConfig(Settings):
    """Where the data come from."""

    source: str
    target: str | None = None
    more: tuple[str, ...] = ()  # further files, for the tasks that take any number of them
    size: tuple[int, int] | None = None  # height and width that pictures are brought to; None: those of the first
    columns: tuple[int, int] | None = None  # of a TSV; None: the first two, and for labelled texts all
    reverse: bool = False
    languages: tuple[str, str] | None = None
    valid_source: str | None = None
    valid_target: str | None = None
    max_length: Annotated[int, POSITIVE] = 256  # pieces; a pair with a longer side is dropped

    def conflicts(self) -> Iterable[tuple[str, str]]:
        if self.size is not None and min(self.size) < 1:
            yield "size", "must be at least 1 pixel each way"
        if self.columns is not None and min(self.columns) < 1:
            yield "columns", "columns count from 1"
        if self.valid_target is not None and self.valid_source is None:
            yield "valid_target", "needs valid_source beside it"
        if self.valid_source is not None and self.target is not None and self.valid_target is None:
            yield "valid_source", "needs valid_target beside it"

    def texts(self) -> tuple[str, ...]:
        """All files, for the tasks that take any number of them."""
        return (self.source, *self.more)

    def files(self) -> CorpusFiles:
        return self._files(self.source, self.target)

    def valid_files(self) -> CorpusFiles | None:
        if self.valid_source is None:
            return None
        return self._files(self.valid_source, self.valid_target)

    def _files(self, source: str, target: str | None) -> CorpusFiles:
        columns = {} if self.columns is None else {"columns": self.columns}
        return CorpusFiles(source=source, target=target, reverse=self.reverse, languages=self.languages, **columns)


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig(Settings):
    """How text becomes pieces."""

    kind: Kind = "bpe"  # imported: another toolkit's, which comes with the bundle that a run starts from
    vocab_size: Annotated[int | None, VOCABULARY] = None  # None: chosen from the number of words
    joint: bool = True  # one tokenizer for both sides


@dataclass(frozen=True, kw_only=True)
class RunConfig(Settings):
    """Everything that determines a run: `attendo train --config` with this repeats it."""

    task: TaskName = "translate"
    data: DataConfig
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: AnyModel
    training: TrainingConfig = field(default_factory=TrainingConfig)
    noise: NoiseConfig | None = None  # what is hidden from the model, for the tasks that hide something
    seed: Annotated[int, SEED] = 1
    adapt_from: str | None = None  # the bundle whose weights and tokenizer the run starts from

    def conflicts(self) -> Iterable[tuple[str, str]]:
        if self.training.embeddings == "related" and self.task not in WITH_RELATED:
            yield "training.embeddings", f"related ones are there for the tasks {', '.join(WITH_RELATED)}"
        waves = isinstance(self.model, LayerConfig) and self.model.positions == "complex"
        if self.training.embeddings == "related" and waves:
            yield "training.embeddings", "related ones are vectors, and complex positions have waves instead"
        if self.training.bpe_dropout and self.tokenizer.kind != "bpe":
            yield "training.bpe_dropout", f"leaves out merges, and a tokenizer of kind {self.tokenizer.kind} has none"
        if self.training.bpe_dropout and self.model.longest_target is not None:
            yield "training.bpe_dropout", "makes texts longer, for which learned positions have no vectors"
        if self.training.both_directions and (not self.tokenizer.joint or self.tokenizer.kind == "imported"):
            yield (
                "training.both_directions",
                "needs one tokenizer that was learned for both sides (tokenizer.joint=true)",
            )
        if self.training.diversify and self.adapt_from is not None:
            yield "training.diversify", "helpers begin with nothing, and the run starts from a model: leave it out"
        if self.training.frozen_layers and self.adapt_from is None:
            yield "training.frozen_layers", "keeps what layers have learned: start from a model (--from BUNDLE)"
        if self.training.lora_rank and self.adapt_from is None:
            yield "training.lora_rank", "adapts a model that is trained already: start from one (--from BUNDLE)"


def choose(
    recipe: RecipeName,
    *,
    pairs: int,
    passes: float | None = None,
    kind: str = "transformer",
    adapt: ModelConfig | None = None,
    adapters: bool = False,
) -> dict[str, Any]:
    """Model and training settings as plain values, for a corpus of so many pairs and about so many passes over it.

    `auto` takes the largest size that so many pairs can fill, and the rate, batch and length of training that suit
    that size; a small one also as much dropout as the passes need, for a few passes what learns fastest, for more Muon,
    whose steps take longer and learn more, smoothed and decayed more, and for several passes positions beside the
    embeddings. Where the passes are more than it has use for, each takes twice as long: wider, with further pairs that
    helpers make, or, where the pairs are too few for that, with R-Drop, which sees each batch twice. A size by name
    takes its own. `passes` None: as many as are useful. `kind`: of the model. `adapt`: this model is trained already,
    and is to stay close to what it is; with `adapters` it does that by itself, and they may learn fast.
    """
    if recipe not in RECIPES:
        raise ConfigError(f"the preset {recipe!r} does not exist: must be one of {', '.join(RECIPES)}.")
    size: PresetName = _size_for(pairs, passes) if recipe == "auto" else recipe  # type: ignore[assignment]
    training = _training_for(size, pairs)
    if adapt is not None:
        training |= {
            "schedule": "linear",
            # What is small has little to lose and much to learn; adapters begin with nothing.
            "learning_rate": 0.5 / adapt.d_model if adapters else min(0.0016, 26 / adapt.d_model**2),
            "warmup_steps": 100,
            "epochs": min(training["epochs"], max(10.0, 60_000 / max(pairs, 1))),
        }
        return {"training": training}
    if kind in OTHER_SIZES:
        return {"model": {"kind": kind, **OTHER_SIZES[kind](size)}, "training": training | _other_training(size)}
    model = sizes(size)
    if recipe == "auto" and size == "tiny":
        passes = training["epochs"] if passes is None else passes
        model |= {"activation": "silu", "residual_dropout": next(rate for most, rate in DROPOUTS if passes < most)}
        if passes < FEW_PASSES:
            model |= {"tie_embeddings": "none"}
            training |= {"batch_tokens": 1024, "learning_rate": 0.005, "warmup_steps": 300, "embeddings": "related"}
        else:
            training |= {"optimizer": "muon", "weight_decay": 0.4, "label_smoothing": 0.2}
        if FEW_PASSES <= passes < SEVERAL_PASSES:  # ahead at first, behind later
            model |= {"positions": "sinusoidal-concatenated"}
        if passes >= MANY_PASSES and pairs >= ENOUGH_PAIRS:
            model |= {"d_model": 192, "d_ff": 512}
            training |= {"learning_rate": 0.0033, "weight_decay": 0.2, "diversify": 1}
        elif passes >= MANY_PASSES:
            training |= {"r_drop": 3.0}
    return {"model": model, "training": training}


def _other_training(size: PresetName) -> dict[str, Any]:
    """What suits recurrent and convolutional models of each size."""
    rates: dict[PresetName, float] = {"tiny": 0.002, "small": 0.001, "base": 0.0005, "big": 0.0003}
    return {"schedule": "cosine", "learning_rate": rates[size], "warmup_steps": 500, "clip_norm": 1.0}


def _size_for(pairs: int, passes: float | None) -> PresetName:
    """The largest that so many pairs can fill, if there is time to read them a few times; passes: of `tiny`."""
    for size, fewest_pairs in (("base", 2_000_000), ("small", 150_000)):
        if pairs >= fewest_pairs and (passes is None or passes >= FEWEST_PASSES * COSTS[size]):
            return size  # type: ignore[return-value]
    return "tiny"


def _training_for(size: PresetName, pairs: int) -> dict[str, Any]:
    """Small corpora are read many times, large ones a few; early stopping ends what does not help any more."""
    epochs = min(100.0, max(3.0, 1_800_000 / max(pairs, 1)))
    shared = {"epochs": epochs, "label_smoothing": 0.1, "clip_norm": 1.0, "patience": 12}
    match size:
        case "tiny":
            return shared | {
                "schedule": "cosine",
                "learning_rate": 0.004,
                "warmup_steps": 1000,
                "batch_tokens": 2048,
                "keep_checkpoints": 10,
                "average": 10,
            }
        case "small":
            return shared | {
                "schedule": "cosine",
                "learning_rate": 0.002,
                "warmup_steps": 2000,
                "batch_tokens": 4096,
                "keep_checkpoints": 10,
                "average": 10,
            }
        case "base" | "big":
            return shared | {
                "schedule": "paper",
                "learning_rate": 1.0,
                "warmup_steps": 4000,
                "batch_tokens": 4096,
                "accumulate": 6,
                "clip_norm": 0.0,
                "keep_checkpoints": 5 if size == "base" else 20,
                "average": 5 if size == "base" else 20,
            }


def intervals(steps: int, *, adapts: bool = False) -> dict[str, int]:
    """How often to validate, save and log in a run of so many steps: about 20 validations and 40 checkpoints.

    What adapts a trained model may be at its best early, and is looked at from the beginning.
    """
    return {
        "validate_every": max(min(steps, 25 if adapts else 250), round(steps / 20)),
        "checkpoint_every": max(min(steps, 10 if adapts else 50), round(steps / 40)),
        "log_every": max(1, min(50, round(steps / 100))),
    }
