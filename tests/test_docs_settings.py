"""docs/settings.md names every setting, with its default, and nothing else."""

import dataclasses
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from attendo.config import Settings, to_dict
from attendo.models.presets import PresetName
from attendo.models.settings import TransformerConfig
from attendo.recipe import DataConfig, RunConfig, choose
from attendo.training.settings import TrainingConfig

DOCUMENT = Path(__file__).parent.parent / "docs/settings.md"
SETTINGS, _, PRESETS = DOCUMENT.read_text(encoding="utf-8").partition("## What the presets choose")

EXAMPLE = RunConfig(data=DataConfig(source=""), model=TransformerConfig(source_vocab_size=300, target_vocab_size=300))


def written(value: Any) -> str:
    """A value as the tables show it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(list(value)) if isinstance(value, tuple) else str(value)


def defaults(settings: Settings, where: str = "") -> dict[str, str]:
    """Path -> default of every setting, those of the groups in it included."""
    found: dict[str, str] = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        path = f"{where}{field.name}"
        if isinstance(value, Settings):
            found |= defaults(value, f"{path}.")
        else:
            found[path] = "required" if field.default is dataclasses.MISSING else written(field.default)
    return found


def test_every_setting_is_documented_with_its_default() -> None:
    documented = dict(re.findall(r"^\| `([\w.]+)` \| (.+?) \| .+ \|$", SETTINGS, re.MULTILINE))
    assert documented == defaults(EXAMPLE)


def test_no_setting_is_documented_twice() -> None:
    keys = re.findall(r"^\| `([\w.]+)` \|", SETTINGS, re.MULTILINE)
    assert sorted(set(keys)) == sorted(keys)


@pytest.mark.parametrize("column, preset", list(enumerate(get_args(PresetName), start=1)))
def test_presets_are_as_documented(column: int, preset: PresetName) -> None:
    chosen = choose(preset, pairs=20_000)
    values = {**to_dict(TrainingConfig()), **chosen["training"], **chosen["model"]}
    values["layers"], values["encoder"] = values["n_encoder_layers"], values["n_decoder_layers"]
    compared = 0
    for row in re.findall(r"^\| (.+) \|$", PRESETS, re.MULTILINE):
        cells = row.split(" | ")
        keys = re.split(r", | × | \+ ", cells[0].replace(" + decoder", ""))
        if all(key in values for key in keys):
            shown = re.split(r", | × | \+ ", cells[column])
            same = [
                values[key] == (one if isinstance(values[key], str) else float(one))
                for key, one in zip(keys, shown, strict=True)
            ]
            assert all(same), f"{preset}: {keys} is {[values[key] for key in keys]}, documented as {shown}"
            compared += 1
    assert compared == 7
