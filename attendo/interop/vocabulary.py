"""Their ids → our ids, and back.

Our layout is fixed: 0 <pad>, 1 <s>, 2 </s>, 3 <unk>, then the rest in their order, and last what stands for something
hidden (BERT's mask, T5's sentinels). An `Order` says for each of our rows which row of theirs it is, so that a matrix
with a row for each id goes over and comes back exactly.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from attendo.errors import ForeignError

if TYPE_CHECKING:
    from torch import Tensor

LARGEST_VOCABULARY = 2**22  # rows; those of many languages have a quarter of a million


@dataclass(frozen=True, kw_only=True)
class Order:
    """Which row of theirs each of our rows is; get one by `order_of`.

    first: theirs for our <pad>, <s>, </s> and <unk>; None where they have no such thing. Where <s> is also one of the
        other three (BART begins a target with </s>), it is a copy, and the other row is the one that is given back.
    last: theirs for what stands for something hidden, which has the highest ids.
    size: how many rows theirs has.
    """

    first: tuple[int | None, int | None, int | None, int | None]
    last: tuple[int, ...]
    size: int

    @cached_property
    def rows(self) -> tuple[int | None, ...]:
        """For each of our rows the row of theirs, or None."""
        named = {*self.first, *self.last}
        return (*self.first, *(row for row in range(self.size) if row not in named), *self.last)

    @cached_property
    def back(self) -> tuple[int, ...]:
        """For each of their rows ours."""
        ours = {row: place for place, row in enumerate(self.rows) if row is not None}  # the original after its copy
        return tuple(ours[row] for row in range(self.size))

    @cached_property
    def silent(self) -> tuple[int, ...]:
        """Our rows that theirs does not have, copies included: they must not take any probability."""
        return tuple(place for place, row in enumerate(self.rows) if row is None or self.back[row] != place)

    @property
    def vocab_size(self) -> int:
        """How many ids the tokenizer has: all of ours but the last ones."""
        return len(self.rows) - len(self.last)

    def ours(self, theirs: "Tensor") -> "Tensor":
        """(their rows, …) → (our rows, …); rows that theirs does not have are zero."""
        filled = theirs.new_zeros((len(self.rows), *theirs.shape[1:]))
        known = [place for place, row in enumerate(self.rows) if row is not None]
        filled[known] = theirs[[self.rows[place] for place in known]]
        return filled

    def theirs(self, ours: "Tensor") -> "Tensor":
        """(our rows, …) → (their rows, …)."""
        return ours[list(self.back)]

    def to_json(self) -> dict[str, Any]:
        return {"first": list(self.first), "last": list(self.last), "size": self.size}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Order":
        pad, start, eos, unk = values["first"]
        return cls(first=(pad, start, eos, unk), last=tuple(values["last"]), size=values["size"])


@dataclass(frozen=True, kw_only=True)
class Usage:
    """How a model of theirs wants its texts, in ids of theirs.

    A source is source_prefix, text, source_suffix (None: </s>, as ours); a target begins with order.first[1], and
    target_prefix and the text follow. What reads or continues one text has sources alone: `one_text`.
    """

    order: Order
    source_text: str | None = None  # what is said in words before each source
    source_prefix: tuple[int, ...] = ()
    source_suffix: tuple[int, ...] | None = None
    target_prefix: tuple[int, ...] = ()
    one_text: bool = False


def order_of(
    size: int, *, pad: int | None, start: int | None, eos: int | None, unk: int | None, last: Sequence[int] = ()
) -> Order:
    """The order of a vocabulary of theirs, by which ids of theirs mean what.

    A text begins, or decoding starts, from `start`. One id may have several meanings: a start that is also the padding
    stays a start, since padding is never looked at; otherwise </s> goes before <unk> and <unk> before <pad>.
    """
    if size > LARGEST_VOCABULARY:
        raise ForeignError(
            f"a vocabulary of {size:,} rows is more than the {LARGEST_VOCABULARY:,} that any model has. The folder is "
            "damaged: get it again from where it came."
        )
    if unk in (eos, start):
        unk = None
    if pad in (eos, start, unk):
        pad = None
    return Order(first=(pad, start, eos, unk), last=tuple(last), size=size)
