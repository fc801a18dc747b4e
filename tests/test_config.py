from collections.abc import Iterable
from dataclasses import FrozenInstanceError, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import yaml

from attendo.config import (
    ABOVE_ZERO,
    NOT_NEGATIVE,
    POSITIVE,
    PROBABILITY,
    Settings,
    from_dict,
    merge,
    parse_assignments,
    read_yaml,
    to_dict,
    to_yaml,
)
from attendo.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Oven(Settings):
    watts: Annotated[int, POSITIVE]
    fuel: Literal["gas", "wood", "electric"] = "gas"
    draught: Annotated[float, PROBABILITY] = 0.5
    limit: Annotated[int | None, POSITIVE] = None

    def conflicts(self) -> Iterable[tuple[str, str]]:
        if self.fuel == "wood" and self.limit is not None:
            yield "limit", "wood cannot be limited"


@dataclass(frozen=True, kw_only=True)
class Kitchen(Settings):
    stoves: Annotated[int, POSITIVE] = 1
    chairs: Annotated[int, NOT_NEGATIVE] = 4
    tolerance: Annotated[float, ABOVE_ZERO] = 1e-9
    open: bool = True
    name: str = "Küche: 'x', 1e-9"
    languages: tuple[str, str] | None = None
    colours: tuple[str, ...] = ("red", "no")
    prices: tuple[float, float] = (0.9, 0.98)
    oven: Oven = field(default_factory=lambda: Oven(watts=2000))
    spare: Oven | None = None


def complaint(values: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        from_dict(Kitchen, values)
    return str(caught.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"stoves": 0}, "stoves = 0: must be at least 1."),
        ({"stoves": "two"}, "stoves = 'two': must be a whole number."),
        ({"stoves": 1.5}, "stoves = 1.5: must be a whole number."),
        ({"stoves": None}, "stoves = None: must be a whole number."),
        ({"stoves": True}, "stoves = True: must be a whole number."),
        ({"chairs": -1}, "chairs = -1: must be a number of at least 0."),
        ({"tolerance": 0}, "tolerance = 0.0: must be a number greater than 0."),
        ({"tolerance": "1e-x"}, "tolerance = '1e-x': must be a number."),
        ({"tolerance": True}, "tolerance = True: must be a number."),
        ({"tolerance": float("nan")}, "tolerance = nan: must be a number greater than 0."),
        ({"open": 1}, "open = 1: must be true or false."),
        ({"open": "yes"}, "open = 'yes': must be true or false."),
        ({"name": 12}, "name = 12: must be text, in quotes if need be."),
        ({"languages": "en"}, "languages = 'en': must be a list, such as [a, b]."),
        ({"languages": ["en"]}, "languages = ['en']: must be a list of 2."),
        ({"languages": ["en", False]}, "languages = False: must be text, in quotes if need be."),
        ({"colours": [1]}, "colours = 1: must be text, in quotes if need be."),
        ({"prices": [0.9, "x"]}, "prices = 'x': must be a number."),
        ({"oven": {"watts": 0}}, "oven.watts = 0: must be at least 1."),
        ({"oven": {"watts": 9, "draught": 1}}, "oven.draught = 1.0: must be at least 0 and less than 1."),
        (
            {"oven": {"watts": 9, "fuel": "gass"}},
            "oven.fuel = 'gass': must be one of gas, wood, electric (did you mean gas?).",
        ),
        ({"oven": {"watts": 9, "fuel": 7}}, "oven.fuel = 7: must be one of gas, wood, electric."),
        ({"oven": {"watts": 9, "limit": 0}}, "oven.limit = 0: must be at least 1."),
        ({"oven": 5}, "oven = 5: must be a group of settings: watts, fuel, draught, limit."),
        ({"oven": None}, "oven = None: must be a group of settings: watts, fuel, draught, limit."),
        ({"spare": "big"}, "spare = 'big': must be a group of settings: watts, fuel, draught, limit."),
        ({"spare": {"watts": "x"}}, "spare.watts = 'x': must be a whole number."),
        ({"oven": {}}, "oven.watts is missing. Give it a value, for example --set oven.watts=…"),
        ({"oven": {"watts": 9, "fuel": "wood", "limit": 3}}, "oven.limit = 3: wood cannot be limited."),
    ],
)
def test_a_bad_value_is_named_with_its_key_and_rule(values: dict[str, Any], message: str) -> None:
    assert complaint(values) == message


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"stovs": 1}, "unknown setting stovs. Did you mean stoves?"),
        ({"oven": {"wats": 1}}, "unknown setting oven.wats. Did you mean oven.watts?"),
        ({"spare": {"drauht": 1}}, "unknown setting spare.drauht. Did you mean spare.draught?"),
        ({"watts": 1}, "unknown setting watts. Did you mean oven.watts?"),
        ({"fule": "gas"}, "unknown setting fule. Did you mean oven.fuel?"),
        (
            {"oven": {"zzz": 1}},
            "unknown setting oven.zzz. Valid keys: oven.draught, oven.fuel, oven.limit, oven.watts.",
        ),
        (
            {1: 2},
            "unknown setting 1. Valid keys: chairs, colours, languages, name, open, oven, prices, spare, "
            "stoves, tolerance.",
        ),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_known(values: dict[str, Any], message: str) -> None:
    assert complaint(values) == message


@pytest.mark.parametrize("key", ["where", "conflicts", "self"])
def test_what_is_no_field_is_no_key(key: str) -> None:
    assert f"unknown setting {key}." in complaint({key: 1})


def test_settings_made_by_hand_are_checked_too() -> None:
    with pytest.raises(ConfigError, match=r"^watts = 0: must be at least 1\.$"):
        Oven(watts=0)
    with pytest.raises(ConfigError, match=r"^limit = 3: wood cannot be limited\.$"):
        Oven(watts=1, fuel="wood", limit=3)


def test_settings_are_frozen_and_made_by_name() -> None:
    oven = Oven(watts=1)
    with pytest.raises(FrozenInstanceError):
        oven.watts = 2  # type: ignore[misc]
    with pytest.raises(TypeError):
        Oven(1)  # type: ignore[call-arg]


def test_values_are_brought_to_their_type() -> None:
    kitchen = from_dict(
        Kitchen,
        {
            "tolerance": "1e-9",  # as YAML reads it
            "prices": [1, "1e-2"],
            "languages": ["en", "de"],
            "name": Path("a/b"),
            "oven": {"watts": 5, "draught": 0},
            "spare": None,
        },
    )
    assert kitchen.tolerance == 1e-9
    assert kitchen.prices == (1.0, 0.01)
    assert all(type(price) is float for price in kitchen.prices)
    assert kitchen.languages == ("en", "de")
    assert kitchen.name == "a/b"
    assert type(kitchen.oven.draught) is float
    assert kitchen.spare is None
    assert from_dict(Kitchen, {"languages": None, "oven": {"watts": 5, "limit": None}}).oven.limit is None


@dataclass(frozen=True, kw_only=True)
class Fan(Settings):
    speed: Literal["auto", "off"] = "auto"


def test_off_may_be_written_without_quotes() -> None:
    assert from_dict(Fan, parse_assignments(["speed=off"])) == Fan(speed="off")
    with pytest.raises(ConfigError, match="speed = True: must be one of auto, off"):
        from_dict(Fan, parse_assignments(["speed=on"]))


def test_defaults_stand_where_nothing_is_given() -> None:
    assert from_dict(Kitchen, {}) == Kitchen()
    assert from_dict(Kitchen, {"spare": {"watts": 3}}).spare == Oven(watts=3)


def test_an_oven_that_was_made_already_is_taken_as_it_is() -> None:
    oven = Oven(watts=3)
    assert from_dict(Kitchen, {"oven": oven}).oven is oven


KITCHENS = [
    Kitchen(),
    Kitchen(
        stoves=3,
        tolerance=3e-17,
        open=False,
        name="yes",
        languages=("en", "no"),
        colours=(),
        prices=(1e30, 1e-30),
        oven=Oven(watts=7, fuel="wood", draught=0.1),
        spare=Oven(watts=11, limit=13),
    ),
]


@pytest.mark.parametrize("kitchen", KITCHENS)
def test_yaml_round_trip(kitchen: Kitchen, tmp_path: Path) -> None:
    path = tmp_path / "kitchen.yaml"
    path.write_text(to_yaml(kitchen), encoding="utf-8")
    assert from_dict(Kitchen, read_yaml(path)) == kitchen


def test_yaml_is_plain_readable_and_in_the_order_of_the_fields() -> None:
    text = to_yaml(KITCHENS[1])
    assert "!!" not in text
    assert list(yaml.safe_load(text)) == list(Kitchen.__dataclass_fields__)
    assert "languages: [en, 'no']" in text
    assert "Küche" in to_yaml(Kitchen())


def test_to_dict_is_plain() -> None:
    plain = to_dict(KITCHENS[1])
    assert plain["languages"] == ["en", "no"]
    assert plain["spare"] == {"watts": 11, "fuel": "gas", "draught": 0.5, "limit": 13}


def test_read_yaml_of_an_empty_file_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "empty.yaml"
    path.write_text("# nothing\n")
    assert read_yaml(path) == {}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "there is no config file"),
        (b"a: [1", "is not valid YAML"),
        (b"a: !!python/object:os.system x", "is not valid YAML"),
        (b"\xff\xfe\xfa", "cannot be read"),
        (b"- 1\n- 2\n", "must hold keys and values, such as 'seed: 1', and holds list"),
        (b"hello", "and holds str"),
    ],
)
def test_a_file_that_is_no_config_is_named(content: bytes | None, words: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_yaml(path)
    assert str(path) in str(caught.value)
    assert words in str(caught.value)


def test_a_folder_is_no_config(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_yaml(tmp_path)


def test_assignments_become_nested_values_as_in_yaml() -> None:
    assert parse_assignments(
        [
            "oven.watts=256",
            "oven.draught=0.5",
            " stoves =2",
            "tolerance=1e-9",
            "open=false",
            "languages=[en, de]",
            "spare=null",
            "name=a=b",
            "name2='12'",
            "oven.watts=512",
            "name3=[",
            "name4=",
        ]
    ) == {
        "oven": {"watts": 512, "draught": 0.5},
        "stoves": 2,
        "tolerance": "1e-9",
        "open": False,
        "languages": ["en", "de"],
        "spare": None,
        "name": "a=b",
        "name2": "12",
        "name3": "[",
        "name4": None,
    }
    assert from_dict(Kitchen, parse_assignments(["tolerance=1e-9"])).tolerance == 1e-9


@pytest.mark.parametrize("assignment", ["stoves", "=3", " =3", ""])
def test_an_assignment_needs_key_and_value(assignment: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_assignments([assignment])
    assert repr(assignment) in str(caught.value)
    assert "must look like key=value, for example model.d_model=256" in str(caught.value)


def test_a_value_cannot_be_a_group_too() -> None:
    with pytest.raises(ConfigError, match=r"--set 'oven\.watts=3': oven was given the value 5 before"):
        parse_assignments(["oven=5", "oven.watts=3"])


def test_merge_goes_key_by_key_and_the_last_wins() -> None:
    first = {"a": 1, "group": {"x": 1, "y": {"z": 1, "w": [1, 2]}}}
    second = {"group": {"x": 2, "y": {"w": [3]}}, "b": {"c": 3}}
    third = {"a": None, "b": 4}
    assert merge(first, second, third) == {"a": None, "group": {"x": 2, "y": {"z": 1, "w": [3]}}, "b": 4}
    assert merge({"a": 1}, {"a": {"b": 2}}) == {"a": {"b": 2}}
    assert merge() == {}


def test_merge_leaves_its_layers_as_they_were() -> None:
    first: dict[str, Any] = {"group": {"x": 1}}
    second: dict[str, Any] = {"other": {"y": 1}}
    merged = merge(first, second)
    merged["group"]["x"] = 2
    merged["other"]["y"] = 2
    assert first == {"group": {"x": 1}}
    assert second == {"other": {"y": 1}}


def test_layers_from_defaults_to_command_line() -> None:
    layers = merge({"oven": {"watts": 1, "fuel": "wood"}}, parse_assignments(["oven.watts=3"]))
    assert from_dict(Kitchen, layers).oven == Oven(watts=3, fuel="wood")


@dataclass(frozen=True, kw_only=True)
class Fire(Settings):
    kind: Literal["fire"] = "fire"
    logs: Annotated[int, POSITIVE] = 3


@dataclass(frozen=True, kw_only=True)
class Stove(Settings):
    kind: Literal["stove"] = "stove"
    plates: Annotated[int, POSITIVE]


@dataclass(frozen=True, kw_only=True)
class Camp(Settings):
    heat: Fire | Stove
    spare: Fire | Stove | None = None


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, Fire()),
        ({"logs": 5}, Fire(logs=5)),
        ({"kind": "fire", "logs": 5}, Fire(logs=5)),
        ({"kind": "stove", "plates": 2}, Stove(plates=2)),
    ],
)
def test_a_group_of_several_kinds_is_told_by_its_kind(values: dict[str, Any], expected: Settings) -> None:
    camp = from_dict(Camp, {"heat": values, "spare": values})
    assert camp == Camp(heat=expected, spare=expected)  # type: ignore[arg-type]
    assert from_dict(Camp, yaml.safe_load(to_yaml(camp))) == camp


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"heat": {"kind": "stov"}}, "heat.kind = 'stov': must be one of fire, stove (did you mean stove?)."),
        ({"heat": {"kind": ["stove"]}}, "heat.kind = ['stove']: must be one of fire, stove"),
        ({"heat": {"kind": "stove"}}, "heat.plates is missing."),
        ({"heat": {"kind": "stove", "plates": 0}}, "heat.plates = 0: must be at least 1."),
        ({"heat": {"plates": 2}}, "unknown setting heat.plates. Valid keys: heat.kind, heat.logs."),
        ({"heat": {}, "plates": 2}, "unknown setting plates. Did you mean heat.plates?"),
        ({"heat": None}, "heat = None: must be a group of settings"),
        ({"heat": 3}, "heat = 3: must be a group of settings"),
        ({"heat": {}, "spare": "fire"}, "spare = 'fire': must be a group of settings"),
    ],
)
def test_a_mistake_in_a_group_of_several_kinds_is_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_dict(Camp, values)
    assert str(caught.value).startswith(message)
