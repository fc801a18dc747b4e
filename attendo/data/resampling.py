"""Pairs whose words are cut into other pieces in each epoch, by BPE-dropout.

What pair i looks like in epoch e is a function of (seed, e, i) alone, so that a resumed run and every process of a team
see the same, and nothing has to be saved.

The pieces of a word are drawn when an epoch begins: as often as the word occurs, but `DRAWS` times at most. Then each
occurrence takes one of the draws at random. So it has the distribution that drawing it by itself would give, and a
frequent word is not drawn thousands of times.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat

import numpy as np
from numpy.typing import NDArray

from attendo.data.batch import Batch, EndToEnd, batch_of
from attendo.data.batching import Lengths
from attendo.data.store import PairStore, Side, places_of
from attendo.text.bpe_dropout import Merger
from attendo.text.tokenizer import Tokenizer

DRAWS = 16
AT_ONCE = 1 << 18  # sequences that are worked on at the same time

Numbers = NDArray[np.int64]
Hashes = NDArray[np.uint64]


class ResampledPairs:
    """The pairs of a store, by BPE-dropout at the given rate; the words are found once, and drawn in each epoch."""

    def __init__(self, store: PairStore, source: Tokenizer, target: Tokenizer, *, rate: float, seed: int) -> None:
        self.source = ResampledSide(store.source, source, rate=rate, seed=2 * seed)
        self.target = ResampledSide(store.target, target, rate=rate, seed=2 * seed + 1)

    def lengths(self, epoch: int) -> tuple[Lengths, Lengths]:
        return self.source.lengths(epoch), self.target.lengths(epoch)

    def batch(self, indices: Sequence[int] | Numbers, epoch: int) -> Batch:
        chosen = np.asarray(indices, dtype=np.int64)
        return batch_of(self.source.end_to_end(chosen, epoch), self.target.end_to_end(chosen, epoch))


@dataclass(frozen=True)
class Draws:
    """Draw k is `ids[ends[k - 1] : ends[k]]`; those of word w begin with number `first[w]`."""

    epoch: int
    ids: NDArray[np.uint32]
    ends: Numbers
    first: Numbers


class ResampledSide:
    """The sequences of one side as words. A word goes from a piece that begins with a space to the next such piece.

    No merge reaches further, so that cutting the words one by one is cutting the text.
    """

    def __init__(self, side: Side, tokenizer: Tokenizer, *, rate: float, seed: int) -> None:
        self.rate, self.seed = rate, seed
        self.merger = Merger(tokenizer)
        self.words, self.ends, distinct = _words(side, tokenizer)
        self.characters = [self.merger.characters(word) for word in distinct]
        self.n_draws = np.minimum(np.bincount(self.words, minlength=len(distinct)), DRAWS)
        self._draws: Draws | None = None

    def lengths(self, epoch: int) -> Lengths:
        sizes = np.diff(self._drawn(epoch).ends, prepend=0)
        found = []
        for first in range(0, len(self.ends), AT_ONCE):
            places, counts = places_of(self.ends, np.arange(first, min(first + AT_ONCE, len(self.ends))))
            found.append(_sums(sizes[self._taken(places, epoch)], counts))
        return np.concatenate(found).astype(np.int32) if found else np.zeros(0, dtype=np.int32)

    def end_to_end(self, indices: Numbers, epoch: int) -> EndToEnd:
        """The ids of these sequences one after the other, and how many each has."""
        draws = self._drawn(epoch)
        words, n_words = places_of(self.ends, indices)
        ids, sizes = places_of(draws.ends, self._taken(words, epoch))
        return draws.ids[ids], _sums(sizes, n_words)

    def _taken(self, places: Numbers, epoch: int) -> Numbers:
        """Which draw each of these occurrences of words takes."""
        words = self.words[places]
        chosen = mixed(places.astype(np.uint64), self.seed, epoch) % self.n_draws[words].astype(np.uint64)
        first: Numbers = self._drawn(epoch).first[words]
        return first + chosen.astype(np.int64)

    def _drawn(self, epoch: int) -> Draws:
        if self._draws is None or self._draws.epoch != epoch:
            self._draws = self._draw(epoch)
        return self._draws

    def _draw(self, epoch: int) -> Draws:
        key = np.array([self.seed & (2**64 - 1), epoch], dtype=np.uint64)
        random = np.random.Generator(np.random.Philox(key=key))
        numbers = chain.from_iterable(random.random(1 << 16).tolist() for _ in repeat(None))
        draw, merged, rate = numbers.__next__, self.merger.merged, self.rate
        made = [
            merged(characters, rate, draw)
            for characters, n in zip(self.characters, self.n_draws.tolist(), strict=True)
            for _ in range(n)
        ]
        ends = np.cumsum([len(pieces) for pieces in made], dtype=np.int64)
        ids = np.fromiter(chain.from_iterable(made), dtype=np.uint32, count=int(ends[-1]) if made else 0)
        return Draws(epoch, ids, ends, np.cumsum(self.n_draws) - self.n_draws)


def _sums(sizes: Numbers, counts: Numbers) -> Numbers:
    """The sums of the first `counts[0]` sizes, of the next `counts[1]`, …; of none it is 0."""
    total = np.concatenate(([0], np.cumsum(sizes)))
    return np.diff(total[np.concatenate(([0], np.cumsum(counts)))])


def _words(side: Side, tokenizer: Tokenizer) -> tuple[NDArray[np.int32], Numbers, list[list[int]]]:
    """The number of the word at each place of the text, how many places there are up to each sequence's end, and the
    ids of each word.
    """
    begins = np.array([piece.startswith("▁") for piece in tokenizer.pieces(range(tokenizer.vocab_size))])
    numbers: dict[int, int] = {}  # hash -> word
    distinct: list[list[int]] = []
    words: list[NDArray[np.int32]] = []
    ends: list[Numbers] = []
    before = 0  # words in the sequences before
    for first in range(0, len(side), AT_ONCE):
        places, counts = places_of(side.ends, np.arange(first, min(first + AT_ONCE, len(side))))
        ids, until = side.ids[places], np.cumsum(counts)
        beginning = begins[ids]
        beginning[(until - counts)[counts > 0]] = True
        starts = np.flatnonzero(beginning)
        hashes = _hashes(ids, starts)
        unique, examples, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        for hash, example in zip(unique.tolist(), examples.tolist(), strict=True):
            if hash not in numbers:
                numbers[hash] = len(distinct)
                end = starts[example + 1] if example + 1 < len(starts) else len(ids)
                distinct.append(ids[starts[example] : end].tolist())
        known = np.array([numbers[hash] for hash in unique.tolist()], dtype=np.int32)
        words.append(known[inverse])
        ends.append(before + np.searchsorted(starts, until))
        before += len(starts)
    if not words:
        return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64), []
    return np.concatenate(words), np.concatenate(ends), distinct


def _hashes(ids: NDArray[np.uint32], starts: Numbers) -> Hashes:
    """A number for each word: Σ_j (id_j + 1) m^(j + 1) modulo 2^64, mixed; two words hardly ever share one."""
    sizes = np.diff(starts, append=len(ids))
    place = np.arange(len(ids)) - np.repeat(starts, sizes)
    powers = np.cumprod(np.full(sizes.max(initial=0), 0x9E3779B97F4A7C15, dtype=np.uint64))
    return mixed(np.add.reduceat((ids + np.uint64(1)) * powers[place], starts), 0, 0)


def mixed(numbers: Hashes, seed: int, epoch: int) -> Hashes:
    """64 random bits for each number, by the seed and the epoch: the finaliser of SplitMix64 (Steele et al. 2014)."""
    key = (seed * 0xD1342543DE82EF95 + epoch * 0xDA942042E4DD58B5) % 2**64
    z = numbers * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
