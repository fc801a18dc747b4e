"""Any frozen dataclass of settings <-> one YAML file.

A group of settings is a frozen, keyword-only dataclass that inherits from `Settings`. The types of its fields are the
first rules (`int`, `float`, `bool`, `str`, `Literal`, `tuple`, `X | None`, or another `Settings`); a `Rule` in the
annotation narrows a value, and `conflicts` names combinations that cannot go together:

    @dataclass(frozen=True, kw_only=True)
    class Kitchen(Settings):
        stoves: Annotated[int, POSITIVE] = 1

A group may be one of several, `X | Y`: each has a field `kind`, a `Literal` of one word, and values without it are the
first one's.

Whatever breaks a rule is a `ConfigError` that names the key, the value and the rule.
"""

import dataclasses
import difflib
import math
import operator
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from attendo.errors import ConfigError

S = TypeVar("S", bound="Settings")


@dataclass(frozen=True)
class Rule:
    """What must hold for a value, in words and as a function."""

    words: str
    holds: Callable[[Any], bool]


POSITIVE = Rule("must be at least 1", lambda value: value >= 1)
NOT_NEGATIVE = Rule("must be a number of at least 0", lambda value: 0 <= value < math.inf)
ABOVE_ZERO = Rule("must be a number greater than 0", lambda value: 0 < value < math.inf)
PROBABILITY = Rule("must be at least 0 and less than 1", lambda value: 0 <= value < 1)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Base of every group of settings: checked when it is made, however it is made."""

    def __post_init__(self) -> None:
        for key, hint in _hints(type(self)).items():
            value = _checked(getattr(self, key), hint, key)
            object.__setattr__(self, key, value)
        for key, words in self.conflicts():
            raise ConfigError(_complaint(key, operator.attrgetter(key)(self), words))

    def conflicts(self) -> Iterable[tuple[str, str]]:
        """(key, or the path to it, and the rule in words) for each combination of values that cannot go together."""
        return ()


def from_dict(kind: type[S], values: Mapping[str, Any], *, where: str = "") -> S:
    """Makes settings of one kind from plain values; `where` is the path of keys that leads here."""
    hints = _hints(kind)
    known: dict[str, Any] = {}
    for key, value in values.items():
        path = f"{where}{key}"
        if key not in hints:
            raise ConfigError(unknown_key(path, _paths(kind, where)))
        group = _group_of(hints[key], value, path)
        if group is not None:
            known[key] = from_dict(group, value, where=f"{path}.")
        else:
            known[key] = _checked(value, hints[key], path)
    missing = [
        f.name
        for f in dataclasses.fields(kind)
        if f.name not in known and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ConfigError(f"{where}{missing[0]} is missing. Give it a value, for example --set {where}{missing[0]}=…")
    try:
        return kind(**known)
    except ConfigError as error:  # a conflict: it begins with the key as this group knows it
        raise ConfigError(f"{where}{error}") from None


def to_dict(settings: Settings) -> dict[str, Any]:
    """Plain values, ready for YAML or JSON."""
    plain: dict[str, Any] = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, Settings):
            value = to_dict(value)
        elif isinstance(value, tuple):
            value = list(value)
        plain[field.name] = value
    return plain


def to_yaml(settings: Settings) -> str:
    return yaml.safe_dump(to_dict(settings), sort_keys=False, allow_unicode=True, default_flow_style=None)


def read_yaml(path: Path) -> dict[str, Any]:
    """The plain values of a YAML file, not yet checked against any settings."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"there is no config file {path}. Check the path given to --config.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the config file {path} cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {error}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{path} must hold keys and values, such as 'seed: 1', and holds {type(values).__name__}.")
    return values


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """`model.d_model=256` -> {"model": {"d_model": 256}}; values are written as in YAML."""
    nested: dict[str, Any] = {}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        path = path.strip()
        if not equals or not path:
            raise ConfigError(f"--set {assignment!r} must look like key=value, for example model.d_model=256.")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            value = text
        *groups, key = path.split(".")
        place = nested
        for group in groups:
            place = place.setdefault(group, {})
            if not isinstance(place, dict):
                raise ConfigError(
                    f"--set {assignment!r}: {group} was given the value {place!r} before, and has no keys."
                )
        place[key] = value
    return nested


def merge(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """One nested mapping of several; later layers win, groups are merged key by key."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            if isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
                merged[key] = merge(merged[key], value)
            else:
                merged[key] = merge(value) if isinstance(value, Mapping) else value
    return merged


def unknown_key(path: str, known: Iterable[str]) -> str:
    """The complaint about a key that does not exist, with the nearest one that does, perhaps in another group.

    Only the last words are compared: `training.x` is near to no `training.y` for the word they share.
    """
    by_word: dict[str, str] = {}
    for name in known:
        by_word.setdefault(_last_word(name), name)
    near = difflib.get_close_matches(_last_word(path), by_word, n=1, cutoff=0.6)
    if near:
        return f"unknown setting {path}. Did you mean {by_word[near[0]]}?"
    beside = sorted(name for name in by_word.values() if name.count(".") == path.count("."))
    return f"unknown setting {path}. Valid keys: {', '.join(beside)}."


def _last_word(path: str) -> str:
    return path.rpartition(".")[2]


_HINTS: dict[type[Settings], dict[str, Any]] = {}  # they are asked for with every request to a server, and take long


def _hints(kind: type[Settings]) -> dict[str, Any]:
    if kind not in _HINTS:
        _HINTS[kind] = get_type_hints(kind, include_extras=True)
    return _HINTS[kind]


def _paths(kind: type[Settings], where: str) -> list[str]:
    """The path of every key, those of the group itself before those of the groups in it."""
    hints = _hints(kind)
    paths = [f"{where}{key}" for key in hints]
    for key, hint in hints.items():
        for group in _groups_in(hint):
            paths += _paths(group, f"{where}{key}.")
    return paths


def _complaint(key: str, value: Any, words: str) -> str:
    return f"{key} = {value!r}: {words}."


def _groups_in(hint: Any) -> list[type[Settings]]:
    """The `Settings` classes in `X`, `X | Y`, `X | None` or `Annotated[X, …]`; none for plain values."""
    if isinstance(hint, type) and issubclass(hint, Settings):
        return [hint]
    if get_origin(hint) in (Union, types.UnionType, Annotated):
        return [found for part in get_args(hint) for found in _groups_in(part)]
    return []


def _group_of(hint: Any, values: Any, path: str) -> type[Settings] | None:
    """Which group of settings the values are of; None where they are none, or none is wanted."""
    groups = _groups_in(hint)
    if not groups or not isinstance(values, Mapping):
        return None
    if len(groups) == 1:
        return groups[0]
    by_kind: dict[str, type[Settings]] = {group.kind: group for group in groups}  # type: ignore[attr-defined]
    kind = _checked(values.get("kind", next(iter(by_kind))), Literal[tuple(by_kind)], f"{path}.kind")
    return by_kind[kind]


def _checked(value: Any, hint: Any, key: str) -> Any:
    """The value, brought to the type of its annotation where nothing is lost, or a complaint."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        value = _checked(value, arguments[0], key)
        for rule in arguments[1:]:
            if isinstance(rule, Rule) and value is not None and not rule.holds(value):
                raise ConfigError(_complaint(key, value, rule.words))
        return value
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        if any(isinstance(value, group) for group in _groups_in(hint)):
            return value
        return _checked(value, next(part for part in arguments if part is not type(None)), key)
    if origin is Literal:
        if value is False and "off" in arguments:  # as YAML 1.1 reads the word off
            value = "off"
        if value not in arguments:
            near = difflib.get_close_matches(str(value), [str(choice) for choice in arguments], n=1)
            hint_words = f" (did you mean {near[0]}?)" if near else ""
            raise ConfigError(_complaint(key, value, f"must be one of {', '.join(map(str, arguments))}{hint_words}"))
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(_complaint(key, value, "must be a list, such as [a, b]"))
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            parts = [arguments[0]] * len(value)
        else:
            parts = list(arguments)
        if len(parts) != len(value):
            raise ConfigError(_complaint(key, value, f"must be a list of {len(parts)}"))
        return tuple(_checked(one, part, key) for one, part in zip(value, parts, strict=True))
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is float and isinstance(value, str):  # YAML reads 1e-9 as a string
        try:
            return float(value)
        except ValueError:
            pass
    if hint is str and isinstance(value, Path):
        return str(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        if issubclass(hint, Settings):
            raise ConfigError(_complaint(key, value, f"must be a group of settings: {', '.join(_hints(hint))}"))
        words = {int: "a whole number", float: "a number", bool: "true or false", str: "text, in quotes if need be"}
        raise ConfigError(_complaint(key, value, f"must be {words.get(hint, hint.__name__)}"))
    return value
