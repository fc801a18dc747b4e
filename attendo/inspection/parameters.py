"""What a bundle is, or what a preset would be: sizes and parameter counts."""

from collections.abc import Iterable
from typing import Any

import torch

from attendo.bundle import open_bundle
from attendo.config import from_dict, merge, parse_assignments, to_dict, unknown_key
from attendo.errors import ConfigError
from attendo.models.family import build_model
from attendo.models.presets import PresetName, sizes
from attendo.models.settings import TransformerConfig
from attendo.models.transformer import parameter_table


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
        "data": {key: data[key] for key in ("pairs", "tokens_per_epoch", "fingerprint", "validation") if key in data},
        "scores": bundle.scores() or "training has not finished",
        "config": config,
        "machine": data.get("machine"),
        "checkpoints": bundle.checkpoints(),
    }


def preset_facts(preset: PresetName, vocab_size: int, assignments: Iterable[str]) -> dict[str, Any]:
    """The parameters of a size that nobody has trained; nothing is allocated for it."""
    given = parse_assignments(assignments)
    for group in given.keys() - {"model"}:
        raise ConfigError(unknown_key(group, ["model"]))
    vocabularies = {"source_vocab_size": vocab_size, "target_vocab_size": vocab_size}
    values = merge(sizes(preset), vocabularies, given.get("model", {}))
    config = from_dict(TransformerConfig, values, where="model.")
    with torch.device("meta"):
        parameters = parameter_table(build_model(config))
    return {"preset": preset, "parameters": parameters, "model": to_dict(config)}
