"""Phrases, and every way to place them in a sequence."""

import itertools
from collections.abc import Sequence

from attendo.decoding.phrases import Phrase

Place = tuple[int, int] | None


def phrase(*alternatives: Sequence[int], after: int | None = None, not_before: Sequence[int] = ()) -> Phrase:
    return Phrase(tuple(map(tuple, alternatives)), after, frozenset(not_before))


def placings(phrases: Sequence[Phrase], ids: Sequence[int]) -> list[tuple[Place, ...]]:
    """Every way to give phrases runs of their own, or none; a phrase that comes after another has none without it."""
    places: list[list[Place]] = [
        [
            None,
            *(
                (start, start + len(run))
                for run in one.alternatives
                for start in range(len(ids) - len(run) + 1)
                if tuple(ids[start : start + len(run)]) == run
                and one.not_before.isdisjoint(ids[start + len(run) : start + len(run) + 1])
            ),
        ]
        for one in phrases
    ]

    def fits(chosen: Sequence[Place]) -> bool:
        runs = sorted(run for run in chosen if run is not None)
        if any(first[1] > second[0] for first, second in itertools.pairwise(runs)):
            return False
        for one, run in zip(phrases, chosen, strict=True):
            if one.after is not None and run is not None:
                before = chosen[one.after]
                if before is None or before[1] > run[0]:
                    return False
        return True

    return [chosen for chosen in itertools.product(*places) if fits(chosen)]


def most_held(phrases: Sequence[Phrase], ids: Sequence[int]) -> int:
    return max(sum(run is not None for run in chosen) for chosen in placings(phrases, ids))


def holds(phrases: Sequence[Phrase], ids: Sequence[int]) -> bool:
    return most_held(phrases, ids) == len(phrases)
