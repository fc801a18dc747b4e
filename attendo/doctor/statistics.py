"""What is in a corpus: lengths, words, scripts, pieces."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attendo.doctor.lines import Hashes, characters
from attendo.text.corpus import Pair
from attendo.text.tokenizer import count_words, train_tokenizer

VOCABULARIES = (2_000, 4_000, 8_000, 16_000, 32_000)
MOST_COUNTED = 2_000  # pairs in which pieces are counted
POINTS = 8  # of growth, each time words are counted
LONGEST_SHOWN = 60  # words of a line in the histogram; longer ones count together


class Vocabulary:
    """The distinct words of a side, as hashes, and how often each occurs.

    hashes, counts (V,); growth: (words read, distinct words) now and then
    """

    def __init__(self) -> None:
        self.hashes: Hashes = np.zeros(0, dtype=np.uint64)
        self.counts: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.growth: list[tuple[int, int]] = []
        self.words = 0
        self._waiting: list[Hashes] = []
        self._n_waiting = 0

    def add(self, words: Hashes) -> None:
        self._waiting.append(words)
        self._n_waiting += len(words)
        if self._n_waiting > len(self.hashes):  # so that all merging together stays linear
            self.settle()

    def settle(self) -> None:
        """Counts what is waiting to be counted."""
        if not self._n_waiting:
            return
        waiting = np.concatenate(self._waiting)
        new, first, times = np.unique(waiting, return_index=True, return_counts=True)
        unknown = np.sort(first[~np.isin(new, self.hashes, assume_unique=True)])
        for read in np.unique(np.linspace(0, len(waiting), POINTS + 1, dtype=np.int64)[1:]).tolist():
            self.growth.append((self.words + read, len(self.hashes) + int(np.searchsorted(unknown, read))))
        both, places = np.unique(np.concatenate([self.hashes, new]), return_inverse=True)
        weights = np.concatenate([self.counts, times])
        self.hashes, self.counts = both, np.bincount(places, weights=weights).astype(np.int64)
        self.words += self._n_waiting
        self._waiting, self._n_waiting = [], 0

    def once(self) -> float:
        """The share of distinct words that are seen once."""
        return float(np.mean(self.counts == 1)) if len(self.counts) else 0.0

    def unseen(self, words: Hashes) -> float:
        """The share of these words that are not in it."""
        return float(np.mean(~np.isin(words, self.hashes))) if len(words) else 0.0


def side_facts(
    vocabulary: Vocabulary, characters_of: NDArray[np.uint32], words: NDArray[np.uint16], scripts: NDArray[np.int64]
) -> dict[str, Any]:
    """One side in numbers. characters_of, words (N,): lengths of its lines; scripts (256,): letters by script."""
    total = max(1, int(scripts.sum()))
    names = characters().names
    return {
        "characters": int(characters_of.sum(dtype=np.int64)),
        "words": int(words.sum(dtype=np.int64)),
        "distinct_words": len(vocabulary.hashes),
        "words_seen_once": round(vocabulary.once(), 4),
        "words_in_a_line": _distribution(words),
        "characters_in_a_line": _distribution(characters_of),
        "lines_by_words": np.bincount(np.minimum(words, LONGEST_SHOWN), minlength=LONGEST_SHOWN + 1).tolist(),
        "scripts": {
            names[number]: round(float(scripts[number]) / total, 6)
            for number in np.argsort(-scripts, kind="stable")
            if scripts[number] and number < len(names)
        },
        "growth": [list(point) for point in vocabulary.growth],
    }


def pieces_per_word(pairs: Sequence[Pair]) -> list[dict[str, float]]:
    """How finely joint vocabularies of several sizes cut the words of each side."""
    counted = pairs[:: max(1, len(pairs) // MOST_COUNTED)]
    words = [sum(count_words(pair[side]) for pair in counted) for side in range(2)]
    if not all(words):
        return []
    largest = train_tokenizer((text for pair in pairs for text in pair), kind="bpe", vocab_size=max(VOCABULARIES))
    rows: list[dict[str, float]] = []
    for size in sorted({min(size, largest.vocab_size) for size in VOCABULARIES}):
        tokenizer = largest.smaller(size)
        pieces = [sum(map(len, tokenizer.encode_batch([pair[side] for pair in counted]))) for side in range(2)]
        source, target = (round(count / number, 3) for count, number in zip(pieces, words, strict=True))
        rows.append({"vocab_size": size, "source": source, "target": target})
    return rows


def _distribution(lengths: NDArray[Any]) -> dict[str, float]:
    low, middle, high, top = np.percentile(lengths, (5, 50, 95, 100)) if len(lengths) else (0, 0, 0, 0)
    mean = float(lengths.mean()) if len(lengths) else 0.0
    return {"mean": round(mean, 2), "p5": int(low), "median": int(middle), "p95": int(high), "longest": int(top)}
