"""How a model of another toolkit and one of attendo's are the same: settings and tensors, each named once.

An `Architecture` is a table. Import reads it from right to left and export from left to right, so that the two can
never disagree. What stands in the table is checked both ways: a setting that the other side does not have, a tensor
that is missing, left over or of another shape is an error that names it.

Suffixes: V vocabulary, D d_model.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from attendo.bundle import Weights, weights_of
from attendo.config import from_dict
from attendo.errors import ConfigError, ForeignError
from attendo.interop.folder import Folder
from attendo.interop.vocabulary import Order
from attendo.models.family import build_model
from attendo.models.settings import LayerConfig, ModelConfig
from attendo.nn.names import USUAL_EPS
from attendo.recipe import TaskName

Side = Literal["source", "target"]

# The output's bias of a row that the other model does not have: exp of it is nothing, and yet a mean over all rows, as
# label smoothing takes it, stays a number of ordinary size.
NEVER = -1000.0


class Orders(NamedTuple):
    """Which row of theirs each row of ours is, in the vocabulary of either side; one vocabulary is both."""

    source: Order
    target: Order

    def of(self, side: Side) -> Order:
        return self.source if side == "source" else self.target


# --- settings --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """One setting of ours and the keys of their config.json that say the same, all of them with one value.

    default: what it is where config.json does not say.
    words: (ours, theirs) where the two have different values for the same thing; the first that fits is written.
    refused: values of ours that they have nothing for.
    in_config: whether config.json has it; what has not stands in other files, or follows from the tensors.
    """

    ours: str
    theirs: str | tuple[str, ...]
    default: Any
    words: tuple[tuple[Any, Any], ...] | None = None
    refused: tuple[Any, ...] = ()
    in_config: bool = True

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.theirs,) if isinstance(self.theirs, str) else self.theirs


# Their names for the activations that attendo has.
ACTIVATIONS = (
    ("relu", "relu"),
    ("gelu", "gelu"),
    ("gelu-tanh", "gelu_new"),
    ("gelu-tanh", "gelu_pytorch_tanh"),
    ("silu", "silu"),
    ("silu", "swish"),
)


# --- tensors ---------------------------------------------------------------------------------------------------------


class Form:
    """What stands between a tensor of ours and theirs: nothing."""

    def ours(self, theirs: Tensor, orders: Orders | None) -> Tensor:  # noqa: ARG002
        return theirs

    def theirs(self, ours: Tensor, orders: Orders | None) -> Tensor:  # noqa: ARG002
        return ours


class Transposed(Form):
    """Theirs is ours with rows and columns exchanged, as GPT-2's matrices are."""

    def ours(self, theirs: Tensor, orders: Orders | None) -> Tensor:  # noqa: ARG002
        return theirs.T

    def theirs(self, ours: Tensor, orders: Orders | None) -> Tensor:  # noqa: ARG002
        return ours.T


@dataclass(frozen=True)
class VocabularyRows(Form):
    """A row for each piece, [V, …], in another order."""

    side: Side

    def ours(self, theirs: Tensor, orders: Orders | None) -> Tensor:
        return _order(orders, self.side).ours(theirs)

    def theirs(self, ours: Tensor, orders: Orders | None) -> Tensor:
        return _order(orders, self.side).theirs(ours)


@dataclass(frozen=True)
class VocabularyBias(VocabularyRows):
    """A number for each piece, added to its logit: [V], and with them [1, V] if it has an axis more.

    What they do not have must get no probability.
    """

    n_axes: int = 0

    def ours(self, theirs: Tensor, orders: Orders | None) -> Tensor:
        made = super().ours(theirs.flatten(), orders)
        made[list(_order(orders, self.side).silent)] = NEVER
        return made

    def theirs(self, ours: Tensor, orders: Orders | None) -> Tensor:
        return super().theirs(ours, orders)[(None,) * self.n_axes]


def no_bias(side: Side = "target") -> Callable[[Tensor, Orders | None], Tensor]:
    """The output's bias where they have none: zero, but for the rows that they do not have."""
    form = VocabularyBias(side)
    return lambda ours, orders: form.ours(ours.new_zeros(_order(orders, side).size), orders)


def _order(orders: Orders | None, side: Side) -> Order:
    if orders is None:
        raise ValueError("a table with a vocabulary needs to know its order")
    return orders.of(side)


@dataclass(frozen=True)
class Same:
    """One tensor of theirs, and ours; several of ours stand one above the other in it.

    optional: it may be missing in a folder, and is then zero, as a bias is that an older file does not have.
    """

    ours: str | tuple[str, ...]
    theirs: str
    form: Form = dataclasses.field(default_factory=Form)
    optional: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (self.ours,) if isinstance(self.ours, str) else self.ours


@dataclass(frozen=True)
class Tied:
    """A tensor of theirs that is another one of theirs: it may be in a folder, and is not written."""

    theirs: str
    to: str


@dataclass(frozen=True)
class Unused:
    """A tensor of theirs that says nothing: it may be in a folder, is not read, and not written unless they want it.

    Sinusoids, which both sides compute, or what is left from an earlier version of the toolkit.

    written: what is written, from all that config.json says.
    """

    theirs: str
    written: Callable[[Mapping[str, Any]], Tensor] | None = None


@dataclass(frozen=True)
class Given:
    """A tensor of ours that they do not have, with the value it has then, from one of its shape and the orders."""

    ours: str
    value: Callable[[Tensor, Orders | None], Tensor]


Entry = Same | Tied | Unused | Given


def module(ours: str, theirs: str, *, bias: bool = True) -> Iterator[Same]:
    """A layer with a weight and a bias, or with a weight alone."""
    for name in ("weight", "bias") if bias else ("weight",):
        yield Same(f"{ours}.{name}", f"{theirs}.{name}")


# The vocabulary of a model that has one side.
VOCABULARY: tuple[tuple[str, Side, str], ...] = (("vocab_size", "source", "vocab_size"),)


# --- the two together ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A model of another toolkit that is a model of attendo's.

    name: for people.
    model_type, class_name: what config.json says of it.
    task: what a bundle of it is for.
    kind: the settings of the model of ours.
    implied: settings of ours that it always has, where they are not the defaults.
    settings: settings that can be one thing or another.
    vocabularies: (setting of ours, side, key of theirs) for each size of a vocabulary.
    required: keys of theirs that must have this value, if config.json has them, since attendo has nothing for others.
    usual: what config.json says besides, unless it was read with the model.
    said: what config.json says, where some of it has to be worked out first, or stands in other files.
    told: the other way: what config.json says, of all that stands in the table.
    files: what stands in other files then, as JSON by their names.
    renamed: the name that a tensor has today, by one that a file may have.
    entries: the tensors of a model with such settings.
    """

    name: str
    model_type: str
    class_name: str
    task: TaskName
    kind: type[ModelConfig]
    implied: Mapping[str, Any]
    settings: tuple[Setting, ...]
    vocabularies: tuple[tuple[str, Side, str], ...]
    required: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    usual: Callable[[Any], Mapping[str, Any]] = lambda _: {}  # of the settings of `kind`
    said: Callable[[Folder], Mapping[str, Any]] = lambda folder: folder.config
    told: Callable[[dict[str, Any]], dict[str, Any]] = lambda values: values
    files: Callable[[Any], Mapping[str, Any]] = lambda _: {}  # of the settings of `kind`
    renamed: Callable[[str], str] = lambda name: name
    entries: Callable[[Any], Iterable[Entry]]  # of the settings of `kind`

    def our_settings(self, folder: Folder, orders: Orders | None) -> ModelConfig:
        """What config.json says, as settings of ours."""
        where = folder.path / "config.json"
        try:
            theirs = self.said(folder)
        except (
            TypeError,
            ValueError,
            AttributeError,
            KeyError,
            ArithmeticError,
        ) as error:  # of no kind that was expected
            raise ForeignError(f"{where} is damaged, or a file beside it: {error}. Get the folder again.") from None
        for key, value in self.required.items():
            if key in theirs and theirs[key] != value:
                raise ForeignError(
                    f"{where}: {key} = {theirs[key]!r} is something that attendo has not: of {self.name} it knows "
                    f"{key} = {value!r} alone."
                )
        values: dict[str, Any] = dict(self.implied)
        for setting in self.settings:
            values[setting.ours] = _our_value(setting, theirs, self.name, where)
        for name, side, _ in self.vocabularies:
            values[name] = len(_order(orders, side).rows)
        try:
            return from_dict(self.kind, values)
        except ConfigError as error:
            raise ForeignError(f"{where} describes a model that attendo has not: {error}") from None

    def their_settings(self, config: ModelConfig, orders: Orders | None) -> dict[str, Any]:
        """Our settings, as config.json says them; what they have no counterpart for is an error that names it."""
        if reasons := list(self.differences(config)):
            raise ForeignError(f"{self.name} cannot be what this model is: {reasons[0]}.")
        values: dict[str, Any] = {
            "model_type": self.model_type,
            "architectures": [self.class_name],
            **self.required,
        }
        for setting in self.settings:
            for key in setting.keys if setting.in_config else ():
                values[key] = _their_value(setting, _settled(config, setting.ours))
        for _, side, key in self.vocabularies:
            values[key] = _order(orders, side).size
        return self.told(values)

    def differences(self, config: ModelConfig) -> Iterator[str]:
        """Why a model of ours is none of theirs, in words that name each setting; nothing: it is one."""
        if not isinstance(config, self.kind):
            yield f"model.kind = '{config.kind}'"
            return
        free = {setting.ours for setting in self.settings} | {name for name, _, _ in self.vocabularies}
        # Ids for what is hidden are rows of a vocabulary, there as well, which no text has.
        idle = {*config.rates, "kind", "init_by_depth", "n_extra", *(key for key, _ in config.unused())}
        for field in dataclasses.fields(config):
            if field.name in free | idle:
                continue
            value, wanted = getattr(config, field.name), self.implied.get(field.name, field.default)
            if value != wanted and not (wanted is None and value == _unsaid(config, field.name)):
                yield f"model.{field.name} = {value!r}, and there it is {wanted!r}"
        for setting in self.settings:
            value = getattr(config, setting.ours)
            known = setting.words is None or value in (ours for ours, _ in setting.words)
            if not known or value in setting.refused:
                yield f"model.{setting.ours} = {value!r}, for which there is no {' or '.join(setting.keys)}"
        yield from self._parted(config)

    def _parted(self, config: ModelConfig) -> Iterator[str]:
        """Settings of ours with different values that are one setting there; rates may be any."""
        said: dict[str, str] = {}
        for setting in self.settings:
            for key in setting.keys:
                other = said.setdefault(key, setting.ours)
                values = _settled(config, other), _settled(config, setting.ours)
                if values[0] != values[1] and setting.ours not in config.rates:
                    yield f"model.{other} = {values[0]!r} and model.{setting.ours} = {values[1]!r}, which are one {key}"

    def our_weights(self, config: ModelConfig, folder: Folder, orders: Orders | None) -> Weights:
        """Their tensors as the weights of the model of these settings; all are checked before the first is read."""
        empty, entries = _empty_weights(config), tuple(self.entries(config))
        names: dict[str, str] = {}
        for name in folder.shapes:
            if (other := names.setdefault(self.renamed(name), name)) != name:
                raise ForeignError(f"{folder.path} has one tensor under two names, {other} and {name}. Keep one.")
        for entry in entries:  # a file may have what is tied under any of its names
            if isinstance(entry, Tied) and entry.theirs in names:
                names.setdefault(entry.to, names[entry.theirs])
        if extra := names.keys() - {entry.theirs for entry in entries if not isinstance(entry, Given)}:
            raise ForeignError(
                f"{folder.path} has the tensor {names[min(extra)]}, which a {self.name} of its config.json has not."
            )
        expected = {
            entry: tuple(entry.form.theirs(torch.cat([empty[name] for name in entry.names]), orders).shape)
            for entry in entries
            if isinstance(entry, Same)
        }
        for same, shape in expected.items():
            _check(same, folder, names.get(same.theirs), shape)
        weights: Weights = {}
        for entry in entries:
            match entry:
                case Same():
                    there = entry.theirs in names
                    tensor = folder.tensor(names[entry.theirs]) if there else torch.zeros(expected[entry])
                    parts = entry.form.ours(tensor, orders).split([len(empty[name]) for name in entry.names])
                    weights |= {name: part.contiguous() for name, part in zip(entry.names, parts, strict=True)}
                case Given(name, value):
                    weights[name] = value(torch.zeros(empty[name].shape), orders)
                case Tied(name, other):
                    both = {name, other} <= names.keys()
                    if both and not torch.equal(folder.tensor(names[name]), folder.tensor(names[other])):
                        raise ForeignError(
                            f"{folder.path}: the tensors {name} and {other} differ, and config.json ties them."
                        )
        return weights

    def their_weights(
        self, config: ModelConfig, ours: Mapping[str, Tensor], orders: Orders | None, said: Mapping[str, Any]
    ) -> Weights:
        """The weights of a model of ours under their names and in their forms, beside what config.json says then."""
        tensors: Weights = {}
        for entry in self.entries(config):
            match entry:
                case Same():
                    joined = torch.cat([ours[name] for name in entry.names])
                    tensors[entry.theirs] = entry.form.theirs(joined, orders).contiguous()
                case Given(name, value):
                    if not torch.equal(ours[name], value(ours[name], orders)):
                        raise ForeignError(
                            f"{self.name} has nothing for the tensor {name}, and in this model it was trained."
                        )
                case Unused(name, written) if written is not None:
                    tensors[name] = written(said)
        return tensors


def _our_value(setting: Setting, theirs: Mapping[str, Any], name: str, where: Path) -> Any:
    found = {key: theirs[key] for key in setting.keys if key in theirs}
    values = list(found.values()) or [setting.default]
    if any(value != values[0] for value in values):
        said = " and ".join(f"{key} = {value!r}" for key, value in found.items())
        raise ForeignError(f"{where}: {said}, and in attendo's models the two are the same.")
    if setting.words is None:
        return values[0]
    for our, their in setting.words:
        if their == values[0]:
            return our
    known = ", ".join(str(their) for _, their in setting.words)
    raise ForeignError(
        f"{where}: {setting.keys[0]} = {values[0]!r} is something that attendo has not; of {name} it knows {known}."
    )


def _their_value(setting: Setting, value: Any) -> Any:
    if setting.words is None:
        return value
    return next(their for our, their in setting.words if our == value)


def _settled(config: ModelConfig, key: str) -> Any:
    """The value of a setting of ours, worked out where it is null."""
    value = getattr(config, key)
    return _unsaid(config, key) if value is None else value


def _unsaid(config: ModelConfig, key: str) -> Any:
    """What a setting of ours is where it is null."""
    if not isinstance(config, LayerConfig):
        return None
    size = config.d_model // config.n_heads
    meant = {"d_key": size, "d_value": size, "n_key_heads": config.n_heads, "norm_eps": USUAL_EPS[config.norm]}
    return meant.get(key)


def _check(entry: Same, folder: Folder, name: str | None, expected: tuple[int, ...]) -> None:
    """Complains of a tensor that is missing or has another shape; `name` is its name in the folder."""
    if name is None:
        if entry.optional:
            return
        raise ForeignError(
            f"{folder.path} lacks the tensor {entry.theirs}. The folder is not whole, or is not of its config.json."
        )
    if folder.shapes[name] != expected:
        shapes = f"{folder.shapes[name]} instead of {expected}"
        raise ForeignError(f"{folder.path}: the tensor {name} has shape {shapes}.")


def _empty_weights(config: ModelConfig) -> Weights:
    """The names and shapes of a model's weights, without memory for them."""
    with torch.device("meta"):
        return weights_of(build_model(config))
