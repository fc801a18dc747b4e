"""The same pair twice, or nearly: found by hashes alone, so that a corpus of any size fits into memory."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from attendo.doctor.lines import Hashes, Lines, Mask, Words, mix

Numbers = NDArray[np.int64]

BANDS, ROWS = 6, 5
NEARLY = 0.8  # of the words of two pairs together, that they share
FEWEST_WORDS = 8  # of a pair: shorter ones are alike by chance
_TARGET = np.uint64(0xD1B54A32D192ED03)  # a target's word is not the same word as a source's

_random = np.random.default_rng(1997)  # Broder's year
_FACTORS = _random.integers(0, 2**64, size=(BANDS, ROWS), dtype=np.uint64) | np.uint64(1)


def pair_hashes(source: Hashes, target: Hashes) -> Hashes:
    return mix(source + mix(target ^ _TARGET))


def repetitions(keys: NDArray[np.uint64] | NDArray[np.uint32]) -> tuple[Numbers, Numbers]:
    """(later, first): the places whose key has stood at an earlier place, and the first place of each."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    again = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    first = np.maximum.accumulate(np.where(np.diff(again, prepend=-1) != 1, again - 1, 0))
    return order[again], order[first]


def repeated(hashes: Hashes) -> Mask:
    """(N,): all but the first of those that are equal."""
    found = np.zeros(len(hashes), dtype=np.bool_)
    found[repetitions(hashes)[0]] = True
    return found


def of_several(keys: Hashes, values: Hashes) -> Mask:
    """(N,): those whose key occurs with several values."""
    later, first = repetitions(keys)
    groups = np.unique(first[values[later] != values[first]])
    found = np.zeros(len(keys), dtype=np.bool_)
    found[groups] = True
    found[later[np.isin(first, groups)]] = True
    return found


def band_keys(source: Lines, target: Lines) -> NDArray[np.uint32]:
    """(N, BANDS): two pairs that share a part J of their words are equal in a band with probability J^ROWS.

    A key is made of the smallest of the words' hashes under ROWS hash functions (MinHash, Broder 1997).
    """
    words, lines, firsts = _words_by_pair(source, target)
    keys = np.zeros((len(source), BANDS), dtype=np.uint32)
    there = np.diff(np.concatenate([firsts, [len(words)]])) > 0
    for band in range(BANDS):
        total = np.zeros(int(there.sum()), dtype=np.uint64)
        for factor in _FACTORS[band]:
            total = mix(total + np.minimum.reduceat(words * factor, firsts[there])) if len(words) else total
        keys[there, band] = (total >> np.uint64(32)).astype(np.uint32)
    keys[np.bincount(lines, minlength=len(source)) < FEWEST_WORDS] = 0
    return keys


def candidates(keys: NDArray[np.uint32]) -> Iterator[tuple[Numbers, Numbers]]:
    """(later, first) pairs that are equal in a band, for each band. Keys of 0 stand for no key."""
    for column in keys.T:
        later, first = repetitions(column)
        real = column[first] != 0
        yield later[real], first[real]


def word_sets(source: Lines, target: Lines, numbers: Numbers) -> list[Hashes]:
    """The words of some pairs, both sides together, each once."""
    sets = []
    for number in numbers:
        ours = (_of_line(source.words, number), _of_line(target.words, number) ^ _TARGET)
        sets.append(np.unique(np.concatenate(ours)))
    return sets


def alike(first: Hashes, second: Hashes) -> bool:
    """Whether two pairs share enough of their words: |A ∩ B| / |A ∪ B|."""
    shared = len(np.intersect1d(first, second, assume_unique=True))
    return shared >= NEARLY * (len(first) + len(second) - shared)


def _of_line(words: Words, number: int) -> Hashes:
    return words.hashes[words.starts[number] : words.starts[number + 1]]


def _words_by_pair(source: Lines, target: Lines) -> tuple[Hashes, Numbers, Numbers]:
    """The words of all pairs, source and target together, in the order of the pairs; their pairs; each pair's first."""
    words = np.concatenate([source.words.hashes, target.words.hashes ^ _TARGET])
    lines = np.concatenate([source.words.lines, target.words.lines])
    order = np.argsort(lines, kind="stable")
    return words[order], lines[order], source.words.starts[:-1] + target.words.starts[:-1]
