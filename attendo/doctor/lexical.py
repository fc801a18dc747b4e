"""How well the words of two lines explain each other, by tables learned from the corpus itself.

IBM's model 1 (Brown et al. 1993), in both directions: with the source words e₁ … e_l and e₀ for none of them,

    p(f | source) = 1/(l+1) Σ_i t(f | e_i)

t is learned by expectation and maximisation. Words are the hashes of their stems and t is a table of hashed pairs of
words, so that memory does not grow with the corpus, and everything is done for millions of pairs of words at once.

Shapes: N pairs, S and T words of all their sources and targets, E pairs of a target word and a source word.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attendo.doctor.lines import Lines, Mask, Words, mix
from attendo.reporting import Reporter

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]

MOST_PAIRS = 200_000  # learned from
MOST_WORDS = 64  # of a line
WORD_BITS = 20
LARGEST_TABLE_BITS = 24
FEWEST_TIMES = 2  # a word has to be seen, to be learned about
FEWEST_WORDS = 3  # of a side, that something can be said of
ITERATIONS = 5
BATCH = 2_000_000  # pairs of words looked at together
CHANCE = 0.1  # how much of p is left to the word's own frequency
NONE = 0  # the number of e₀; no word's hash is so likely to matter


@dataclass(frozen=True)
class Bitext:
    """Pairs as numbers of words: source (S,), target (T,), and where each pair's begin (N+1,)."""

    source: NDArray[np.int32]
    source_starts: Numbers
    target: NDArray[np.int32]
    target_starts: Numbers

    def __len__(self) -> int:
        return len(self.source_starts) - 1

    @classmethod
    def of(cls, source: Lines, target: Lines) -> "Bitext":
        return cls(*_numbered(source.words), *_numbered(target.words))

    def select(self, sources: Numbers, targets: Numbers) -> "Bitext":
        """The sources and the targets of those numbers, put together as pairs."""
        return Bitext(
            *_chosen(self.source, self.source_starts, sources), *_chosen(self.target, self.target_starts, targets)
        )

    def reversed(self) -> "Bitext":
        return Bitext(self.target, self.target_starts, self.source, self.source_starts)

    def frequent(self, known: tuple[Mask, Mask]) -> "Bitext":
        """Without the words that are not known; (2^WORD_BITS,) for each side."""
        return Bitext(
            *_filtered(self.source, self.source_starts, known[0]), *_filtered(self.target, self.target_starts, known[1])
        )

    def batches(self) -> Iterator[tuple[int, int]]:
        """(first, last + 1) pairs of batches with not too many pairs of words in each."""
        sizes = np.diff(self.target_starts) * (np.diff(self.source_starts) + 1)
        totals = np.concatenate([[0], np.cumsum(sizes)])
        first = 0
        while first < len(self):
            last = max(first + 1, int(np.searchsorted(totals, totals[first] + BATCH, side="right")) - 1)
            yield first, last
            first = last


def concatenate(texts: list[Bitext]) -> Bitext:
    """One after the other."""

    def joined(starts: list[Numbers]) -> Numbers:
        lengths = np.concatenate([np.diff(one) for one in starts]) if starts else np.zeros(0, dtype=np.int64)
        return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

    nothing = [np.zeros(0, dtype=np.int32)]
    return Bitext(
        np.concatenate([text.source for text in texts] or nothing),
        joined([text.source_starts for text in texts]),
        np.concatenate([text.target for text in texts] or nothing),
        joined([text.target_starts for text in texts]),
    )


class Direction:
    """t(f | e) as expected counts c(e, f) and their sums c(e); p(f), which a word has without any source."""

    def __init__(self, text: Bitext, reporter: Reporter) -> None:
        entries = int(np.sum(np.diff(text.target_starts) * (np.diff(text.source_starts) + 1)))
        self.bits = min(LARGEST_TABLE_BITS, max(12, int(np.ceil(np.log2(2 * entries + 1)))))
        frequencies = np.bincount(text.target, minlength=1 << WORD_BITS).astype(np.float32)
        self.chances = (np.maximum(frequencies, 0.5) / max(1.0, float(frequencies.sum()))).astype(np.float32)
        self.counts: Floats | None = None
        self.totals: Floats = np.zeros(1 << WORD_BITS, dtype=np.float32)
        for _ in reporter.track(range(ITERATIONS), "Learning words", ITERATIONS):
            self._iterate(text)

    def _iterate(self, text: Bitext) -> None:
        counts = np.zeros(1 << self.bits, dtype=np.float32)
        totals = np.zeros(1 << WORD_BITS, dtype=np.float64)
        for first, last in text.batches():
            product = _product(text, first, last)
            keys = self._keys(product)
            shares = self._shares(product, keys)
            np.add.at(counts, keys, shares)
            totals += np.bincount(product.source, weights=shares, minlength=1 << WORD_BITS)
        self.counts, self.totals = counts, totals.astype(np.float32)

    def _keys(self, product: "_Product") -> Numbers:
        """(E,): places in the table."""
        both = (product.source.astype(np.uint64) << np.uint64(32)) | product.target.astype(np.uint64)
        return (mix(both) >> np.uint64(64 - self.bits)).astype(np.int64)

    def _translations(self, product: "_Product", keys: Numbers) -> Floats:
        """(E,): t(f | e); all the same before anything is known."""
        if self.counts is None:
            return np.ones(len(keys), dtype=np.float32)
        return (self.counts[keys] / np.maximum(self.totals[product.source], 1e-9)).astype(np.float32)

    def _shares(self, product: "_Product", keys: Numbers) -> Floats:
        """(E,): the probability that f came of this e and no other."""
        values = self._translations(product, keys)
        sums = np.add.reduceat(values, product.firsts) if len(values) else values
        return values / np.maximum(np.repeat(sums, product.lengths), 1e-30)

    def scores(self, text: Bitext, learned_from: Mask) -> Floats:
        """(N,): mean over the target words of log (p(f | source) / p(f)), with some chance left to p(f) itself.

        What a pair has taught about itself is taken away again where it was learned from: it would vouch for itself.
        """
        assert self.counts is not None
        found = np.zeros(len(text), dtype=np.float32)
        for first, last in text.batches():
            product = _product(text, first, last)
            if not len(product.source):
                continue
            keys = self._keys(product)
            own = self._shares(product, keys) * learned_from[product.pairs]
            counts = np.maximum(self.counts[keys] - own, 0)
            values = counts / np.maximum(self.totals[product.source] - own, 1.0)
            means = np.add.reduceat(values, product.firsts) / product.lengths
            words = text.target[text.target_starts[first] : text.target_starts[last]]
            ratios = np.log((1 - CHANCE) * means / self.chances[words] + CHANCE)
            totals = np.concatenate([[0], np.cumsum(ratios, dtype=np.float64)])
            starts = text.target_starts[first : last + 1] - text.target_starts[first]
            found[first:last] = np.diff(totals[starts]) / np.maximum(np.diff(starts), 1)
        return found


class Lexicon:
    """Model 1 in both directions."""

    def __init__(self, text: Bitext, reporter: Reporter) -> None:
        seen = (np.bincount(side, minlength=1 << WORD_BITS) for side in (text.source, text.target))
        source, target = (count >= FEWEST_TIMES for count in seen)
        self.known = source, target
        text = text.frequent(self.known)
        self.forth, self.back = Direction(text, reporter), Direction(text.reversed(), reporter)

    def scores(self, text: Bitext, learned_from: Mask) -> tuple[Floats, Mask]:
        """(N,), (N,): how well each pair's words explain each other, and whether there are words enough to say so."""
        text = text.frequent(self.known)
        forth, back = self.forth.scores(text, learned_from), self.back.scores(text.reversed(), learned_from)
        lengths = np.minimum(np.diff(text.source_starts), np.diff(text.target_starts))
        return ((forth + back) / 2).astype(np.float32), lengths >= FEWEST_WORDS


@dataclass(frozen=True)
class _Product:
    """Every target word beside every source word of its pair, and beside none.

    source, target, pairs (E,): the two words, and their pair; firsts, lengths (T,): the run of each target word
    """

    source: NDArray[np.int32]
    target: NDArray[np.int32]
    pairs: Numbers
    firsts: Numbers
    lengths: Numbers


def _product(text: Bitext, first: int, last: int) -> _Product:
    n_source = np.diff(text.source_starts[first : last + 1])
    n_target = np.diff(text.target_starts[first : last + 1])
    pair_of_word = np.repeat(np.arange(last - first), n_target)
    lengths = (n_source + 1)[pair_of_word]
    ends = np.cumsum(lengths)
    firsts = ends - lengths
    total = int(ends[-1]) if len(ends) else 0
    within = np.arange(total) - np.repeat(firsts, lengths)
    places = np.repeat(text.source_starts[first:last][pair_of_word] - 1, lengths) + within
    words = np.where(within == 0, np.int32(NONE), text.source[np.maximum(places, 0)] if len(text.source) else NONE)
    targets = np.repeat(text.target[text.target_starts[first] : text.target_starts[last]], lengths)
    return _Product(words.astype(np.int32), targets, np.repeat(pair_of_word + first, lengths), firsts, lengths)


def _numbered(words: Words) -> tuple[NDArray[np.int32], Numbers]:
    """Numbers of the first words of each line, and where each line's begin."""
    within = np.arange(len(words.stems)) - words.starts[words.lines]
    kept = within < MOST_WORDS
    numbers = (words.stems[kept] >> np.uint64(64 - WORD_BITS)).astype(np.int32)
    return numbers, np.concatenate([[0], np.cumsum(np.minimum(words.counts, MOST_WORDS))]).astype(np.int64)


def _filtered(words: NDArray[np.int32], starts: Numbers, known: Mask) -> tuple[NDArray[np.int32], Numbers]:
    kept = known[words]
    return words[kept], np.concatenate([[0], np.cumsum(kept)])[starts]


def _chosen(words: NDArray[np.int32], starts: Numbers, numbers: Numbers) -> tuple[NDArray[np.int32], Numbers]:
    lengths = np.diff(starts)[numbers]
    ends = np.cumsum(lengths)
    within = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - lengths, lengths)
    return words[np.repeat(starts[numbers], lengths) + within], np.concatenate([[0], ends]).astype(np.int64)
