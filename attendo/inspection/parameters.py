"""What a bundle is, or what a preset would be: sizes and parameter counts."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from attendo.bundle import open_bundle
from attendo.config import from_dict, merge, parse_assignments, read_yaml, to_dict, unknown_key
from attendo.errors import ConfigError
from attendo.models.family import build_model
from attendo.models.presets import PresetName, sizes
from attendo.models.settings import TransformerConfig
from attendo.models.transformer import parameter_table

FACTS = ("imported", "pairs", "tokens_per_epoch", "fingerprint", "validation")


def bundle_facts(path: str) -> dict[str, Any]:
    """Everything a bundle says about itself."""
    bundle = open_bundle(path)
    config, data = to_dict(bundle.config), bundle.data()
    with torch.device("meta"):
        parameters = parameter_table(build_model(bundle.config.model))
    return {
        "bundle": str(bundle.path),
        "languages": list(bundle.languages) if bundle.languages else None,
        "parameters": parameters,
        "data": {key: data[key] for key in FACTS if key in data},
        "scores": bundle.scores() or "training has not finished",
        "config": config,
        "machine": data.get("machine"),
        "checkpoints": bundle.checkpoints(),
    }


def preset_facts(preset: PresetName, vocab_size: int, assignments: Iterable[str]) -> dict[str, Any]:
    """The parameters of a size that nobody has trained; nothing is allocated for it."""
    config = preset_config(preset, vocab_size, assignments)
    with torch.device("meta"):
        parameters = parameter_table(build_model(config))
    return {"preset": preset, "parameters": parameters, "model": to_dict(config)}


def preset_config(preset: PresetName, vocab_size: int, assignments: Iterable[str]) -> TransformerConfig:
    given = parse_assignments(assignments)
    for group in given.keys() - {"model"}:
        raise ConfigError(unknown_key(group, ["model"]))
    return _config(vocab_size, merge(sizes(preset), given.get("model", {})))


def file_config(path: str, vocab_size: int) -> TransformerConfig:
    """The model of a bundle, or of a config file; the vocabulary counts where the file has none."""
    if Path(path).is_file():
        return _config(vocab_size, read_yaml(Path(path)).get("model") or {})
    config = open_bundle(path).config.model
    if not isinstance(config, TransformerConfig):
        raise ConfigError(f"{path} has a model of kind {config.kind}: what it costs is known of Transformers only.")
    return config


def _config(vocab_size: int, values: Mapping[str, Any]) -> TransformerConfig:
    vocabularies = {"source_vocab_size": vocab_size, "target_vocab_size": vocab_size}
    return from_dict(TransformerConfig, merge(vocabularies, values), where="model.")
