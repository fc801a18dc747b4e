"""The catalogue and the settings agree: every choice is in it once, and nothing in it does not exist."""

import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
import yaml

from attendo.cli.translate_command import command as translate
from attendo.config import Settings, from_dict, parse_assignments
from attendo.decoding.search import SearchOptions
from attendo.inspection.parts import BEYOND, PARTS, Part
from attendo.models.parts import attention_positions, build_attention
from attendo.models.settings import TransformerConfig
from attendo.training.settings import TrainingConfig

DOCUMENT = Path(__file__).parents[2] / "docs/parts.md"

GROUPS: dict[str, tuple[type[Settings], dict[str, Any]]] = {
    "model": (TransformerConfig, {"source_vocab_size": 307, "target_vocab_size": 307}),
    "training": (TrainingConfig, {}),
}

# Settings of the model that choose no part: sizes, and what belongs to one part and says how much of it.
SIZES = (
    *("source_vocab_size", "target_vocab_size", "n_encoder_layers", "n_decoder_layers", "d_model", "d_ff", "n_heads"),
    *("d_key", "d_value", "sinusoid_layout", "n_positions", "max_distance", "n_buckets", "bucket_distance"),
    *("window", "chunk", "left_chunks", "layers_per_group", "kind", "n_extra"),
    *("norm_eps", "rotary_base", "position_offset", "output_bias", "output_scale", "read_end"),  # for models of others
)

TITLES = ("week4: transformers", "Transformer Q&A", "Transformer", "大模型基础", "Paper reading")

SETTINGS = [part for part in PARTS if not part.setting.startswith("--")]
OPTIONS = [part for part in PARTS if part.setting.startswith("--")]
NAMES = [part.setting for part in PARTS]


def chosen(part: Part) -> tuple[str, str, Any]:
    """model.positions=rotary -> ("model", "positions", "rotary")"""
    path, _, value = part.setting.partition("=")
    group, _, key = path.partition(".")
    return group, key, yaml.safe_load(value)


def config_with(part: Part) -> Settings:
    group, key, value = chosen(part)
    kind, needed = GROUPS[group]
    return from_dict(kind, {**needed, key: value})


def literals() -> dict[str, tuple[Any, ...]]:
    """The values of every setting of the model that is one of a few words."""
    return {
        key: get_args(hint) for key, hint in get_type_hints(TransformerConfig).items() if get_origin(hint) is Literal
    }


def test_every_choice_of_the_model_is_in_the_catalogue_once():
    listed = Counter(chosen(part) for part in SETTINGS)
    for key, values in literals().items():
        if key not in SIZES:
            assert {value: listed["model", key, value] for value in values} == dict.fromkeys(values, 1), key


def test_every_setting_of_the_model_is_a_size_or_in_the_catalogue():
    keys = {key for group, key, _ in map(chosen, SETTINGS) if group == "model"}
    assert keys | set(SIZES) == set(get_type_hints(TransformerConfig))
    assert not keys & set(SIZES)


def test_nothing_is_in_the_catalogue_twice():
    assert len(set(NAMES)) == len(NAMES)
    assert len({part.what for part in PARTS}) == len(PARTS)


@pytest.mark.parametrize("part", SETTINGS, ids=lambda part: part.setting)
def test_every_setting_can_be_chosen_and_the_default_is_the_configs(part):
    group, key, value = chosen(part)
    config = config_with(part)
    kind, needed = GROUPS[group]
    assert getattr(config, key) == value
    assert part.default == (getattr(kind(**needed), key) == value)


@pytest.mark.parametrize("part", OPTIONS, ids=lambda part: part.setting)
def test_every_option_can_be_given(part):
    known = {option: parameter for parameter in translate.params for option in parameter.opts}
    words = part.setting.split()
    names = [word for word in words if word.startswith("--")]
    assert set(names) <= known.keys()
    given = translate.make_context("translate", ["bundle", *words]).params
    searched = {key: given[key] for key in (known[name].name for name in names) if key in get_type_hints(SearchOptions)}
    if searched:
        assert part.default == (SearchOptions(**searched) == SearchOptions())


def test_every_option_of_the_search_is_in_the_catalogue_or_belongs_to_one_that_is():
    names = {name.removeprefix("--").replace("-", "_") for part in OPTIONS for name in part.setting.split()}
    belonging = {"n_best", "alpha", "stopping", "diversity", "seed"}
    assert set(get_type_hints(SearchOptions)) - belonging <= names
    assert not names & belonging


@pytest.mark.parametrize("part", SETTINGS, ids=lambda part: part.setting)
def test_whether_it_is_fused_is_what_attention_says(part):
    if not part.setting.startswith("model."):
        assert part.fused is None
        return
    config = config_with(part)
    assert isinstance(config, TransformerConfig)
    attention = build_attention(config, positions=attention_positions(config, both_ways=True)())
    needs_weights = attention.positions.needs_weights or attention.weight_dropout.threshold > 0
    fused = attention.scoring.fused and not needs_weights
    assert fused if part.fused is None else fused == part.fused


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.setting)
def test_each_has_a_sentence_a_paper_and_a_place_in_the_notes(part):
    assert part.what.endswith(".")
    assert part.what.count(". ") == 0, "one sentence"
    assert re.search(r"(19|20)\d\d, ", part.paper), "a year"
    for number in re.findall(r"arXiv:(\S+)", part.paper):
        assert re.fullmatch(r"\d\d(0[1-9]|1[0-2])\.(\d{4}|\d{5})", number.rstrip(",;"))
        assert len(number.rstrip(",;").partition(".")[2]) == (5 if number >= "1501" else 4)
    for place in part.notes.split("; "):
        title, comma, heading = place.removeprefix("after ").partition(", ")
        assert place == BEYOND or (title in TITLES and comma and heading)


def test_every_part_is_explained_in_its_section_of_the_document_and_no_other_is():
    sections = DOCUMENT.read_text(encoding="utf-8").split("\n## ")
    explained = {
        section.partition("\n")[0]: re.findall(r"^\| `((?:model|training)\.\S+|--.+?)` \|", section, re.MULTILINE)
        for section in sections
    }
    for group in dict.fromkeys(part.group for part in PARTS):
        assert explained.pop(group) == [part.setting for part in PARTS if part.group == group]
    assert not any(explained.values())


def test_the_documents_commands_are_possible():
    commands = re.findall(r"^attendo train .*?(--set .+)$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(commands) >= 9
    for command in commands:
        given = parse_assignments(command.replace("--set ", "").split())
        for group, values in given.items():
            kind, needed = GROUPS[group]
            from_dict(kind, {**needed, **values})


def test_parts_of_a_group_stand_together():
    groups = [part.group for part in PARTS]
    changes = sum(one != other for one, other in pairwise(groups))
    assert changes == len(set(groups)) - 1
