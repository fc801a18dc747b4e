"""Which side's language a line is in, by an identifier that is learned from nothing but the two sides themselves."""

import numpy as np
from numpy.typing import NDArray

from attendo.doctor.lines import LINE_FEED, Codes, Hashes, Lines, Mask, gram_hashes

Floats = NDArray[np.float32]

ORDERS = (2, 3, 4)
BITS = 20
FLATTENING = 0.5  # added to every count
FEWEST_GRAMS = 30  # in a line that is judged
OTHER_SIDE = 0.5  # log p(other side) - log p(own side), mean over the runs of a line
FOREIGN = 4.0  # standard deviations below what is usual for the side
MOST_LINES = 200_000  # learned from


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
            usable = np.repeat(sound, lines.lengths + 1)
            for keys, whole in _grams(lines):
                self.counts[side] += np.bincount(keys[whole & usable[: len(keys)]], minlength=1 << BITS)

    def likelihoods(self, lines: Lines) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """(N,), (N,), (N,): mean log p as a line of the source and as one of the target, and the number of runs."""
        log_probs = self._log_probs()
        sums = np.zeros((2, len(lines)))
        numbers = np.zeros(len(lines), dtype=np.int64)
        for keys, whole in _grams(lines):
            whole = np.concatenate([whole, np.zeros(len(lines.codes) - len(whole), dtype=np.bool_)])
            numbers += lines.each(whole)
            for side in range(2):
                values = np.zeros(len(lines.codes))
                values[: len(keys)] = log_probs[side][keys]
                sums[side] += lines.each(np.where(whole, values, 0.0))
        source, target = (sums / np.maximum(numbers, 1)).astype(np.float32)
        return source, target, numbers

    def _log_probs(self) -> Floats:
        """(2, 2^BITS)"""
        flat = self.counts + FLATTENING
        return np.log(flat / flat.sum(axis=1, keepdims=True)).astype(np.float32)


def in_other_language(own: Floats, other: Floats, numbers: NDArray[np.int64]) -> Mask:
    """(N,): lines that look more like the other side."""
    return (other - own > OTHER_SIDE) & (numbers >= FEWEST_GRAMS)


def in_no_language(own: Floats, numbers: NDArray[np.int64], sound: Mask) -> Mask:
    """(N,): lines that look like nothing on their own side, by what is usual for sound lines of their length."""
    judged = sound & (numbers >= FEWEST_GRAMS)
    if np.count_nonzero(judged) < 100:
        return np.zeros(len(own), dtype=np.bool_)
    middle = np.median(own[judged])
    deviations = (own - middle) * np.sqrt(numbers)  # a mean of n varies by 1/√n
    usual = 1.4826 * np.median(np.abs(deviations[judged]))
    return judged & (deviations < -FOREIGN * usual)


def _grams(lines: Lines) -> "list[tuple[NDArray[np.int64], Mask]]":
    """For each length of runs: the number of each run in the tables, and whether it stays within its line."""
    codes: Codes = lines.small
    ends = lines.codes == LINE_FEED
    grams = []
    for order in ORDERS:
        hashes: Hashes = gram_hashes(codes, order)
        broken = np.zeros(len(hashes), dtype=np.bool_)
        for place in range(order):
            broken |= ends[place : place + len(hashes)]
        grams.append(((hashes >> np.uint64(64 - BITS)).astype(np.int64), ~broken))
    return grams
