"""A Hugging Face folder → a bundle."""

import base64
import dataclasses
from pathlib import Path
from typing import Any

import torch

from attendo import machine
from attendo.bundle import Bundle, create_bundle, plain_json
from attendo.card import write_card
from attendo.data.noise_settings import MaskNoise, NoiseConfig, PictureNoise
from attendo.drafting import EXTRA_LENGTH
from attendo.errors import BundleError, ConfigError, ForeignError
from attendo.interop.architecture import Architecture, Orders
from attendo.interop.architectures import architecture_of
from attendo.interop.folder import Folder, open_folder
from attendo.interop.labels import their_labels
from attendo.interop.sentence_vectors import LENGTH, longest_sentence
from attendo.interop.their_tokenizer import FILES, read_their_tokenizer
from attendo.interop.usage import OF_LANGUAGES, OPTIONS, Languages, usage_of
from attendo.interop.vocabulary import Order, Usage
from attendo.models.family import build_model
from attendo.models.settings import BertConfig, LayerConfig, ModelConfig, VisionConfig
from attendo.models.transformer import parameter_table
from attendo.recipe import DataConfig, RunConfig, TokenizerConfig
from attendo.reporting import Reporter, Silent
from attendo.storage import require_new
from attendo.text.language_names import language_code
from attendo.text.pair import TokenizerPair
from attendo.training.settings import TrainingConfig

KEPT = (*FILES, LENGTH)  # files that an export gives back as they were
MAX_LENGTH = 256  # pieces of a sentence, as for models that are trained here
LONGEST = 100_000  # positions; what claims more is damaged


def import_model(
    folder: Path | str,
    *,
    out: Path | str,
    source_language: str | None = None,
    target_language: str | None = None,
    reporter: Reporter | None = None,
) -> Bundle:
    """Makes a bundle of a model that others have trained; nothing of its folder is ever executed.

    A model of many languages is imported for one pair of them, by the names it has for them. A T5 is told to translate
    from one to the other, by their names in English.
    """
    reporter, out = reporter or Silent(), Path(out)
    require_new(out)
    opened = open_folder(folder)
    architecture = architecture_of(opened)
    languages: Languages = (source_language, target_language)
    if any(languages) and architecture.model_type not in OF_LANGUAGES:
        raise ConfigError(f"{' and '.join(OPTIONS)}: a {architecture.name} has no languages to choose. Leave them out.")
    tokenizers, usage = None, None
    if architecture.vocabularies:
        reporter.say(f"{opened.path} is of the architecture {architecture.name}; reading its tokenizer.")
        theirs = read_their_tokenizer(opened)
        usage = usage_of(opened, theirs, languages)
        tokenizers = theirs.pair(usage)
    orders = None if usage is None else Orders(usage.order, usage.order)
    model = architecture.our_settings(opened, orders)
    _require_possible(model, opened)
    reporter.say(f"Reading {len(opened.shapes):,} tensors: {model.in_words()}.")
    weights = architecture.our_weights(model, opened, orders)
    config = RunConfig(
        task=architecture.task,
        data=DataConfig(
            source=opened.path.resolve().name,
            languages=_codes(opened, languages),
            max_length=_max_length(model, opened),
        ),
        tokenizer=TokenizerConfig(kind="imported", joint=tokenizers is None or tokenizers.joint),
        model=model,  # type: ignore[arg-type]
        training=TrainingConfig(steps=1),
        noise=_noise(model),
    )
    data = _facts(architecture, opened, config, tokenizers)
    scores = {"weights": f"imported from {config.data.source}"}
    texts = {
        "data.json": plain_json(data),
        "scores.json": plain_json(scores),
        "card.md": write_card(config, data, scores),
        "interop.json": plain_json(_kept(architecture, opened, usage)),
    }
    bundle = create_bundle(out, config=config, tokenizers=tokenizers, texts=texts, weights=weights)
    reporter.say(f"Imported: {data['parameters']['total']:,} parameters.")
    return bundle


def order_of_bundle(bundle: Bundle) -> Order | None:
    """The order of the ids that an imported model had before; None where it was trained here."""
    kept = bundle.interop()
    if kept.get("order"):
        return Order.from_json(kept["order"])
    if bundle.text is not None and bundle.text.source.kind == "imported":
        raise BundleError(
            f"{bundle.path} has an imported tokenizer, and interop.json is missing, which says what it was. Copy the "
            "bundle again from where it came."
        )
    return None


def their_files(bundle: Bundle) -> dict[str, bytes]:
    """The files of the tokenizer that an imported model came with, by their names."""
    kept: dict[str, str] = bundle.interop()["files"]
    return {name: base64.b64decode(kept[name]) for name in KEPT if name in kept}  # no other name, wherever it leads


def _kept(architecture: Architecture, folder: Folder, usage: Usage | None) -> dict[str, Any]:
    """What an export needs to give everything back as it was."""
    return {
        "architecture": architecture.class_name,
        "config": folder.config,
        "generation": folder.optional_json("generation_config.json"),
        "order": None if usage is None else usage.order.to_json(),
        "files": {name: base64.b64encode(folder.read(name)).decode() for name in KEPT if folder.has(name)},
    }


def _facts(
    architecture: Architecture, folder: Folder, config: RunConfig, tokenizers: TokenizerPair | None
) -> dict[str, Any]:
    with torch.device("meta"):
        parameters = parameter_table(build_model(config.model))
    said = {"imported from": f"{config.data.source}, {architecture.name}"}
    if tokenizers is not None:
        said["tokenizer"] = f"imported, {tokenizers.source.vocab_size:,} pieces"
    facts = {
        "imported": {"architecture": architecture.class_name, "folder": config.data.source},
        "in_words": said,
        "parameters": parameters,
        "machine": machine.describe(),
    }
    return facts | ({"labels": their_labels(folder)} if architecture.task.startswith("classify") else {})


def _require_possible(config: ModelConfig, folder: Folder) -> None:
    """That a config does not claim more than its tensors can hold, before anything of such a size is made."""
    most = max((size for shape in folder.shapes.values() for size in shape), default=0)
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if not isinstance(value, int) or isinstance(value, bool):
            continue
        if field.name.endswith("layers"):
            limit, words = len(folder.shapes), "tensors there are"
        elif field.name.startswith("n_"):
            limit, words = LONGEST, "a model can have"
        else:
            limit, words = max(most, LONGEST), "the largest tensor has"
        if value > limit:
            raise ForeignError(
                f"{folder.path / 'config.json'} describes a model with {field.name} = {value:,}, more than {words}. It "
                "is damaged, or not of these weights."
            )


def _max_length(config: ModelConfig, folder: Folder) -> int:
    """Pieces of a text: those that a model of one text was trained with, control pieces included; for others as many
    as one that is trained here has, and no more than there are positions for."""
    if not isinstance(config, LayerConfig):
        return MAX_LENGTH
    if config.kind != "transformer":
        told = folder.config.get("max_position_embeddings")
        told = min(told, LONGEST) if isinstance(told, int) and told > 0 else MAX_LENGTH
        positions = config.n_positions if config.positions == "learned" else told
        return min(positions, longest_sentence(folder) or positions)
    if config.positions != "learned":
        return MAX_LENGTH
    return max(1, min(MAX_LENGTH, config.n_positions - 1 - min(EXTRA_LENGTH, config.n_positions // 2)))


def _noise(config: ModelConfig) -> NoiseConfig | None:
    """What is asked where such a model is trained further."""
    match config:
        case BertConfig():
            return MaskNoise(next_sentence=config.next_sentence)
        case VisionConfig():
            return PictureNoise()
        case _:
            return None


def _codes(folder: Folder, languages: Languages) -> tuple[str, str] | None:
    """The languages of both sides, as far as they were given or the tokenizer's settings tell."""
    told = folder.optional_json("tokenizer_config.json")
    source, target = languages[0] or told.get("source_lang"), languages[1] or told.get("target_lang")
    if not isinstance(source, str) or not isinstance(target, str):
        return None
    return _code(source), _code(target)


def _code(language: str) -> str:
    """en_XX is en, eng_Latn eng, and English en."""
    return language_code(language).partition("_")[0].lower()
