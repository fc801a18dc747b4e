"""Phrases that a hypothesis must hold, and how far a prefix is with them. Without torch, as every engine is asked so.

A hypothesis holds the phrases of its sentence if each of them can be given a run of ids of its own that is one of its
alternatives, and no two runs overlap.

To which run an id belongs may be open for long: "a b" can be the phrase "a b", or the beginning of "a b c", or both
where "a b" comes once more. So all readings of a prefix that can still turn out best are followed at the same time, as
the states of an automaton, which is made only as far as prefixes go.
"""

from collections.abc import Collection, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

Run = tuple[int, ...]

READINGS = 16  # followed of a prefix: so many that are free for any id, and so many others, the nearest to holding all
NONE = -1


@dataclass(frozen=True, slots=True)
class Phrase:
    """Ids that must come one after the other: one of the alternatives.

    not_before: ids that may not follow at once, such as pieces that would go on with the last word.
    """

    alternatives: tuple[Run, ...]
    not_before: frozenset[int] = frozenset()


class Reading(NamedTuple):
    """One way to find runs in a prefix.

    met: bit i stands for phrase i; that of a run under way is among them.
    rest: what must come next to complete the run; empty if none is under way.
    phrase: that of the run under way or just completed, if some ids may not follow it.
    """

    met: int
    rest: Run = ()
    phrase: int = NONE

    @property
    def free(self) -> bool:
        """Whether any id may come next."""
        return not self.rest and self.phrase == NONE

    def serves_for(self, other: "Reading") -> bool:
        """Whether all that can become of the other can become of this one."""
        return not other.met & ~self.met and (self.free or self[1:] == other[1:])


class Wanted:
    """The phrases of one sentence; `start` is the progress of the empty prefix.

    never: ids that never come. A phrase that cannot be had without them counts as met from the start, as does an empty
    one: nothing is gained by going on for it.
    """

    def __init__(self, phrases: Sequence[Phrase], *, never: Collection[int] = ()) -> None:
        self._phrases = phrases
        self._runs = [
            tuple(sorted({run for run in phrase.alternatives if set(never).isdisjoint(run)})) for phrase in phrases
        ]
        self._shortest = [min(map(len, runs), default=0) for runs in self._runs]
        self._kinds = self._alike()
        self._begun: dict[int, list[tuple[int, Reading]]] = {}
        self._known: dict[frozenset[Reading], Progress] = {}
        met = sum(1 << i for i, length in enumerate(self._shortest) if length == 0)
        self.start = self.progress({Reading(met)})

    def begun(self, met: int) -> list[tuple[int, Reading]]:
        """The ids that begin a run once these are met, each with what it leads to.

        Of phrases that are alike only the first begins: what the others could do instead is the same.
        """
        if met not in self._begun:
            first: dict[int, int] = {}
            for i, kind in enumerate(self._kinds):
                if not met >> i & 1:
                    first.setdefault(kind, i)
            self._begun[met] = [
                (run[0], Reading(met | 1 << i, run[1:], i if self._phrases[i].not_before else NONE))
                for i in first.values()
                for run in self._runs[i]
            ]
        return self._begun[met]

    def may_follow(self, id_: int, reading: Reading) -> bool:
        """Whether the id may come right after the run that has just been completed, if any."""
        return reading.phrase == NONE or id_ not in self._phrases[reading.phrase].not_before

    def missing(self, reading: Reading) -> int:
        """How many ids must still come at least."""
        unmet = (length for i, length in enumerate(self._shortest) if not reading.met >> i & 1)
        return len(reading.rest) + sum(unmet)

    def progress(self, readings: Set[Reading]) -> "Progress":
        """That of a prefix with these readings; the same object for the same that are worth following."""
        worthwhile = [
            one for one in readings if not any(other.serves_for(one) for other in readings if other is not one)
        ]
        worthwhile.sort(key=lambda one: (self.missing(one), one))
        free = [one for one in worthwhile if one.free][:READINGS]
        others = [one for one in worthwhile if not one.free][:READINGS]
        followed = frozenset(free + others)
        if followed not in self._known:
            self._known[followed] = Progress(self, followed)
        return self._known[followed]

    def _alike(self) -> list[int]:
        """A number for each phrase: the same for the same alternatives, before the same ids."""
        numbers: dict[tuple[tuple[Run, ...], frozenset[int]], int] = {}
        return [
            numbers.setdefault((runs, phrase.not_before), len(numbers))
            for runs, phrase in zip(self._runs, self._phrases, strict=True)
        ]


class Progress:
    """How far a prefix is: `missing` ids must still come at least, `n_met` phrases are met."""

    def __init__(self, wanted: Wanted, readings: frozenset[Reading]) -> None:
        self._wanted = wanted
        self._readings = readings
        self._then: dict[int, Progress] = {}
        self.missing = min(map(wanted.missing, readings))
        self.n_met = max(one.met.bit_count() - bool(one.rest) for one in readings)

    def then(self, id_: int) -> "Progress":
        """After one more id. A run that it breaks off is forgotten."""
        if id_ not in self._then:
            special = id_ in self.useful or not all(self._wanted.may_follow(id_, one) for one in self._readings)
            self._then[id_] = self._wanted.progress(set(self._after(id_))) if special else self._otherwise
        return self._then[id_]

    @cached_property
    def useful(self) -> frozenset[int]:
        """The ids that begin or continue a phrase."""
        continuing = {one.rest[0] for one in self._readings if one.rest}
        return frozenset(
            continuing.union(id_ for one in self._readings if not one.rest for id_, _ in self._wanted.begun(one.met))
        )

    @cached_property
    def _otherwise(self) -> "Progress":
        return self._wanted.progress({Reading(one.met) for one in self._readings if not one.rest})

    def _after(self, id_: int) -> Iterator[Reading]:
        for one in self._readings:
            if one.rest:
                if one.rest[0] == id_:
                    yield one._replace(rest=one.rest[1:])
            elif self._wanted.may_follow(id_, one):
                yield Reading(one.met)
                yield from (begun for first, begun in self._wanted.begun(one.met) if first == id_)
