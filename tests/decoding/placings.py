"""Phrases, and every way to place them in a sequence."""

import itertools
from collections.abc import Sequence

from attendo.decoding.phrases import Phrase

Place = tuple[int, int] | None


def phrase(*alternatives: Sequence[int], not_before: Sequence[int] = ()) -> Phrase:
    return Phrase(tuple(map(tuple, alternatives)), frozenset(not_before))


def placings(phrases: Sequence[Phrase], ids: Sequence[int]) -> list[tuple[Place, ...]]:
    """Every way to give phrases runs of their own, or none."""
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
        return all(first[1] <= second[0] for first, second in itertools.pairwise(runs))

    return [chosen for chosen in itertools.product(*places) if fits(chosen)]


def most_held(phrases: Sequence[Phrase], ids: Sequence[int]) -> int:
    return max(sum(run is not None for run in chosen) for chosen in placings(phrases, ids))


def holds(phrases: Sequence[Phrase], ids: Sequence[int]) -> bool:
    return most_held(phrases, ids) == len(phrases)
