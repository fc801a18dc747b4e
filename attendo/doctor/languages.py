"""Which language a line is in, by what can be learned from nothing but the two sides themselves."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attendo.doctor.duplicates import repeated
from attendo.doctor.lines import DIGIT, LINE_FEED, Lines, Mask, gram_hashes

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]

ORDERS = (2, 3, 4)
BITS = 20
FLATTENING = 0.5  # added to every count
MOST_LINES = 200_000  # learned from
FEWEST_RUNS = 30  # in a line that is judged
OTHER_SIDE = 0.5  # log p(other side) - log p(own side), mean over the runs of a line
STRANGE = 3.0  # standard deviations below what is usual for the side
FEWEST_STRANGERS = 20  # lines that can be said to have something in common
UNLIKE = 2.0  # standard deviations below what is usual: a line that is closer to it is never foreign
THEIRS = 0.2  # of all times that a run is seen, those among strangers that make it theirs
FOREIGN = 0.17  # share of a line's runs that are the strangers'


class Identifier:
    """Runs g of two to four characters, counted on each side; for a line of n runs

    likelihood(side) = 1/n Σ_g log p(g | side)
    """

    def __init__(self) -> None:
        self.counts = np.zeros((2, 1 << BITS), dtype=np.int64)
        self.lines = 0

    def learn(self, source: Lines, target: Lines, sound: Mask) -> None:
        """Counts the runs of the sound lines; enough of them, it learns no more."""
        if self.lines >= MOST_LINES:
            return
        self.lines += len(source)
        for side, lines in enumerate((source, target)):
            _count(lines, sound, self.counts[side])

    def log_probs(self) -> Floats:
        """(2, 2^BITS): log p(g | side)"""
        flat = self.counts + FLATTENING
        return np.log(flat / flat.sum(axis=1, keepdims=True)).astype(np.float32)


def likelihoods(lines: Lines, tables: Floats) -> tuple[Floats, Numbers]:
    """(K, N), (N,): the mean of each of K tables over the runs of each line, and the number of runs."""
    sums = np.zeros((len(tables), len(lines)))
    numbers = np.zeros(len(lines), dtype=np.int64)
    for runs, whole in _runs(lines):
        numbers += lines.each(whole)
        for row, table in enumerate(tables):
            sums[row] += lines.each(np.where(whole, table[runs], np.float32(0)).astype(np.float64))
    return (sums / np.maximum(numbers, 1)).astype(np.float32), numbers


def in_other_language(own: Floats, other: Floats, numbers: Numbers) -> Mask:
    """(N,): lines that look more like the other side."""
    return (other - own > OTHER_SIDE) & (numbers >= FEWEST_RUNS)


class Strangers:
    """The lines of a side that look like nothing on it, and what they have in common: a third language, if anything.

    A run of characters is theirs if a good part of all times that it is seen are among them, and a line is foreign if
    many of its runs are theirs. Lines with rare words have little in common, or nothing but those words. No line, and
    no copy of it, vouches for itself.
    """

    def __init__(self, identifier: Identifier, side: int) -> None:
        self.all = identifier.counts[side]
        self.own = identifier.log_probs()[side]
        self.counts = np.zeros(1 << BITS, dtype=np.int64)
        self.gathered: set[int] = set()  # the hashes of their lines
        self._lines = 0
        self._usual: tuple[float, float] | None = None

    def gather(self, lines: Lines, likelihood: Floats, numbers: Numbers, sound: Mask) -> None:
        """Counts the strangers among the sound lines, by what is usual among the first; as far as was learned from."""
        if self._lines >= MOST_LINES:
            return
        self._lines += len(lines)
        judged = sound & (numbers >= FEWEST_RUNS)
        if self._usual is None:
            if np.count_nonzero(judged) < FEWEST_STRANGERS:
                return
            middle = float(np.median(likelihood[judged]))
            spread = np.median(np.abs(likelihood[judged] - middle) * np.sqrt(numbers[judged]))  # a mean of n: 1/√n
            self._usual = middle, 1.4826 * float(spread)
        strange = judged & (self._deviations(likelihood, numbers) < -STRANGE)
        strange &= ~repeated(np.where(strange, lines.hashes, np.uint64(0))) & ~self._known(lines)
        self.gathered |= set(lines.hashes[strange].tolist())
        _count(lines, strange, self.counts)

    def foreign(self, lines: Lines, sound: Mask) -> Mask:
        """(N,): which of the sound lines are foreign."""
        if len(self.gathered) < FEWEST_STRANGERS:
            return np.zeros(len(lines), dtype=np.bool_)
        (shares, without, likelihood), numbers = likelihoods(lines, self._tables)
        alike = np.where(self._known(lines), without, shares) > FOREIGN
        return sound & alike & (self._deviations(likelihood, numbers) < -UNLIKE) & (numbers >= FEWEST_RUNS)

    def _deviations(self, likelihood: Floats, numbers: Numbers) -> Floats:
        """(N,): how far each line is from what is usual, in standard deviations: those of a mean of n fall with √n."""
        assert self._usual is not None
        middle, spread = self._usual
        return ((likelihood - middle) * np.sqrt(numbers) / spread).astype(np.float32)

    def _known(self, lines: Lines) -> Mask:
        """(N,): whether a line was gathered, or is the copy of one that was."""
        return np.fromiter((line in self.gathered for line in lines.hashes.tolist()), dtype=np.bool_, count=len(lines))

    @cached_property
    def _tables(self) -> Floats:
        """(3, 2^BITS): which runs are the strangers', for most lines and for strangers themselves; log p(g | side)."""
        return np.stack([self._theirs(0), self._theirs(1), self.own])

    def _theirs(self, less: int) -> Floats:
        """(2^BITS,): which runs are the strangers', with so much taken from each count."""
        counts = np.maximum(self.counts - less, 0)
        return ((counts > 0) & (counts >= THEIRS * (self.all - less))).astype(np.float32)


def _count(lines: Lines, chosen: Mask, counts: Numbers) -> None:
    """Adds the runs of the chosen lines to the counts."""
    if not chosen.all():
        lines = Lines([lines[int(number)] for number in np.flatnonzero(chosen)])
    for runs, whole in _runs(lines):
        counts += np.bincount(runs[whole], minlength=1 << BITS)


def _runs(lines: Lines) -> Iterator[tuple[NDArray[np.int64], Mask]]:
    """For each length: the number of the run that begins at each character, and whether it counts.

    It does if it stays within its line and has no digits, which belong to no language.
    """
    ends = (lines.codes == LINE_FEED) | ((lines.kinds & np.uint16(DIGIT)) != 0)
    broken = ends.copy()
    for order in range(2, max(ORDERS) + 1):
        broken[: len(ends) - order + 1] |= ends[order - 1 :]
        if order in ORDERS:
            hashes = gram_hashes(lines.small, order)
            runs = np.zeros(len(ends), dtype=np.int64)
            runs[: len(hashes)] = (hashes >> np.uint64(64 - BITS)).astype(np.int64)
            yield runs, ~broken
