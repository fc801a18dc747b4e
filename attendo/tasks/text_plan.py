"""From what a user gave to the whole config of a run that learns from text without translations."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from attendo.bundle import Bundle
from attendo.config import from_dict, merge, to_dict
from attendo.data.cooccurrence import neighbours_vectors, take_over
from attendo.data.prepare import Prepared
from attendo.data.texts import Unit, prepare_texts
from attendo.errors import ConfigError
from attendo.models.bert import TextEncoder
from attendo.models.presets import PresetName
from attendo.plan import (
    UNKNOWN_VOCABULARY,
    check_groups,
    check_model_kept,
    check_noise,
    check_tokenizer_kept,
    check_used,
    is_bounded,
)
from attendo.recipe import DataConfig, RecipeName, RunConfig, TokenizerConfig
from attendo.reporting import Reporter
from attendo.training.settings import TrainingConfig

# What belongs to pairs of texts, and would do nothing here.
OF_PAIRS = {
    "training": (
        "bpe_dropout",
        "both_directions",
        "diversify",
        "helper_epochs",
        "validation_beam",
        "stop_metric",
    ),
    "data": ("target", "valid_target", "reverse", "languages"),
    "tokenizer": ("joint",),
}

Chosen = Mapping[str, Any]


def layers_for(size: PresetName) -> dict[str, Any]:
    """Sizes of one stack of layers."""
    match size:
        case "tiny":
            return {"n_layers": 4, "d_model": 128, "d_ff": 512, "n_heads": 4}
        case "small":
            return {"n_layers": 6, "d_model": 256, "d_ff": 1024, "n_heads": 4}
        case "base":
            return {"n_layers": 12, "d_model": 768, "d_ff": 3072, "n_heads": 12}
        case "big":
            return {"n_layers": 24, "d_model": 1024, "d_ff": 4096, "n_heads": 16}


def size_for(preset: RecipeName, tokens: int) -> PresetName:
    """The largest size that so many tokens can fill, unless one is asked for by name."""
    if preset in ("auto", "llama"):
        return "tiny" if tokens < 10_000_000 else "small" if tokens < 500_000_000 else "base"
    return preset  # type: ignore[return-value]


def training_for(size: PresetName, tokens: int) -> dict[str, Any]:
    """A small text is read many times, a large one a few; early stopping ends what does not help any more."""
    rate = {"tiny": 0.003, "small": 0.0015, "base": 0.0006, "big": 0.0003}[size]
    return {
        "optimizer": "adamw",
        "weight_decay": 0.1,
        "beta2": 0.99,
        "label_smoothing": 0.0,
        "clip_norm": 1.0,
        "schedule": "cosine",
        "learning_rate": rate,
        "warmup_steps": 200,
        "batch_tokens": 2048 if size == "tiny" else 4096,
        "patience": 12,
        "epochs": min(40.0, max(1.0, 30_000_000 / max(tokens, 1))),
    }


def adapting(training: Chosen, start: Bundle) -> dict[str, Any]:
    """How a model is trained further that is trained already: slower, a large one more so, and not as long."""
    return {
        **training,
        "schedule": "linear",
        "learning_rate": min(training["learning_rate"] / 10, 0.04 / start.config.model.d_model),
        "warmup_steps": 100,
        "epochs": min(10.0, training["epochs"]),
    }


def check(settings: Mapping[str, Any], start: Bundle | None, *, chosen: Chosen, fixed: Mapping[str, int]) -> RunConfig:
    """Finds mistakes in the settings before any work is done, with stand-ins for what only the data can tell.

    chosen: by the preset. fixed: the settings of the model that follow from the data.
    """
    check_groups(settings)
    check_noise(settings, wanted="noise" in chosen)
    check_of_pairs(settings)
    config = from_dict(
        RunConfig, merge({"data": {"source": ""}}, chosen, kept_of(start, chosen), settings, {"model": {**fixed}})
    )
    check_used(settings, config)
    if config.model.longest_target is not None and config.model.longest_target + 1 < config.data.max_length:
        raise ConfigError(
            f"model.n_positions = {config.model.longest_target + 1}: rows have data.max_length "
            f"({config.data.max_length}) pieces, and learned positions must be as many."
        )
    if start is not None:
        check_tokenizer_kept(settings, start)
        check_model_kept(settings, config, start, follows=fixed)
    return config


def check_of_pairs(settings: Mapping[str, Any]) -> None:
    for group, keys in OF_PAIRS.items():
        for key in keys:
            value = settings.get(group, {}).get(key)
            if value is not None and value != _default(group, key):
                raise ConfigError(f"{group}.{key} = {value!r}: belongs to pairs of texts, and there are none here.")


def prepare(
    data: DataConfig,
    tokenizer: TokenizerConfig,
    start: Bundle | None,
    cache: Path,
    reporter: Reporter,
    *,
    unit: Unit,
    share: float,
    most: int,
    controls: int = 0,
) -> Prepared:
    """Tokenises the text.

    unit, share, most: as `prepare_texts` has them. controls: ids that a row needs beside those of the text.
    """
    return prepare_texts(
        data.texts(),
        data.valid_source,
        unit=unit,
        share=share,
        most=most,
        tokenizers=None if start is None else start.tokenizers,
        kind=tokenizer.kind,
        vocab_size=tokenizer.vocab_size,
        max_length=data.max_length - controls,
        cache=cache,
        reporter=reporter,
    )


def begin(model: nn.Module, corpus: Prepared, config: RunConfig) -> None:
    """Gives the embeddings vectors of what stands near their pieces, if the settings say so."""
    if config.training.embeddings == "related":
        assert isinstance(model, TextEncoder)
        weight_VD = model.encoder.embedding.weight
        take_over(weight_VD, neighbours_vectors(corpus.store.source, size=len(weight_VD), d_model=weight_VD.shape[1]))


def max_length_of(settings: Mapping[str, Any]) -> int:
    """`data.max_length`, of settings that may have mistakes."""
    data = settings.get("data", {})
    given = data.get("max_length") if isinstance(data, Mapping) else None
    return given if isinstance(given, int) else DataConfig(source="").max_length


def stand_ins() -> dict[str, int]:
    return {"vocab_size": UNKNOWN_VOCABULARY}


def resolve(
    settings: Mapping[str, Any],
    data: DataConfig,
    corpus: Prepared,
    start: Bundle | None,
    *,
    chosen: Chosen,
    fixed: Mapping[str, int],
) -> RunConfig:
    """The whole config, once the data are known; only the number of steps is still open."""
    for key, value in fixed.items():
        given = settings.get("model", {}).get(key, value)
        if given != value:
            raise ConfigError(f"model.{key} = {given}: follows from the data, where it is {value}. Leave the key out.")
    bounded = is_bounded(settings, start)
    training = {key: value for key, value in chosen["training"].items() if not (key == "epochs" and bounded)}
    learned: dict[str, Any] = {"vocab_size": corpus.facts["vocab_size"], "joint": True}
    if start is not None:
        learned = to_dict(start.config.tokenizer)
    return from_dict(
        RunConfig,
        merge(
            {**chosen, "training": training},
            kept_of(start, chosen),
            settings,
            {"model": {**fixed}, "tokenizer": learned, "data": to_dict(data)},
        ),
    )


def kept_of(start: Bundle | None, chosen: Chosen) -> dict[str, Any]:
    """The settings of the bundle to start from, but what the preset chooses for models that are trained already.

    For a model of another kind, those that it has as well.
    """
    if start is None:
        return {}
    own = () if start.config.model.kind == chosen["model"]["kind"] else OWN
    model = {key: value for key, value in to_dict(start.config.model).items() if key not in (*own, *chosen["model"])}
    return {"model": model, "data": {"max_length": start.config.data.max_length}}


# Of a masked language model, the only one that becomes a model of another kind.
OWN = ("kind", "next_sentence", "mask_head", "pooler")


def announce(config: RunConfig, facts: Mapping[str, Any]) -> str:
    words = facts["in_words"]
    told = "\n".join(f"{name.capitalize()}: {words[name]}." for name in words)
    return f"{told}\nModel: {facts['parameters']['total']:,} parameters, {config.model.in_words()}."


def _default(group: str, key: str) -> Any:
    """What a setting is by itself, as the config of a run says it of those that were never asked for."""
    kinds = {"training": TrainingConfig(), "data": DataConfig(source="")}
    return True if group == "tokenizer" else getattr(kinds[group], key)
