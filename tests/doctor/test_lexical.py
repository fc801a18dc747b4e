"""Model 1 for millions of words at once, compared with model 1 in plain Python."""

import math
import random
from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pytest

from attendo.doctor.lexical import CHANCE, ITERATIONS, Bitext, Direction, Lexicon, concatenate
from attendo.doctor.lines import Lines
from attendo.reporting import Silent
from tests.numerals import sentence_pairs

PAIRS = sentence_pairs(53, seed=5)


def bitext(pairs: list[tuple[str, str]]) -> Bitext:
    return Bitext.of(Lines([source for source, _ in pairs]), Lines([target for _, target in pairs]))


def sentences(words: np.ndarray, starts: np.ndarray) -> list[list[int]]:
    return [words[first:last].tolist() for first, last in pairwise(starts)]


class Plain:
    """Brown et al. 1993, as it is taught."""

    def __init__(self, text: Bitext) -> None:
        self.pairs = list(
            zip(sentences(text.source, text.source_starts), sentences(text.target, text.target_starts), strict=True)
        )
        words = Counter(word for _, target in self.pairs for word in target)
        self.chance = {word: count / words.total() for word, count in words.items()}
        self.counts: dict[tuple[int, int], float] = {}
        for _ in range(ITERATIONS):
            counts: dict[tuple[int, int], float] = defaultdict(float)
            for source, target in self.pairs:
                for f in target:
                    for e, share in zip([0, *source], self.shares(source, f), strict=True):
                        counts[e, f] += share
            self.counts = counts
            self.totals: dict[int, float] = defaultdict(float)
            for (e, _), count in counts.items():
                self.totals[e] += count

    def shares(self, source: list[int], f: int) -> list[float]:
        values = [self.counts[e, f] / self.totals[e] if self.counts else 1.0 for e in (0, *source)]
        return [value / sum(values) for value in values]

    def score(self, number: int, *, learned_from: bool) -> float:
        source, target = self.pairs[number]
        ratios = []
        for f in target:
            mean = 0.0
            for e, share in zip([0, *source], self.shares(source, f), strict=True):
                own = share if learned_from else 0.0
                mean += max(self.counts[e, f] - own, 0) / max(self.totals[e] - own, 1.0) / (len(source) + 1)
            ratios.append(math.log((1 - CHANCE) * mean / self.chance[f] + CHANCE))
        return sum(ratios) / len(ratios)


@pytest.mark.parametrize("learned_from", [False, True])
def test_scores_are_those_of_plain_python(learned_from, monkeypatch):
    monkeypatch.setattr("attendo.doctor.lexical.BATCH", 211)
    text = bitext(PAIRS)
    plain = Plain(text)
    expected = [plain.score(number, learned_from=learned_from) for number in range(len(PAIRS))]
    scores = Direction(text, Silent()).scores(text, np.full(len(PAIRS), learned_from))
    np.testing.assert_allclose(scores, expected, rtol=1e-3, atol=1e-3)


def test_translations_score_higher_than_strangers():
    pairs = sentence_pairs(400, seed=3)
    text = bitext(pairs)
    lexicon = Lexicon(text, Silent())
    every = np.arange(len(pairs))
    no = np.zeros(len(pairs), dtype=np.bool_)
    right, enough = lexicon.scores(text, ~no)
    wrong, _ = lexicon.scores(text.select(every, np.roll(every, 1)), no)
    assert np.median(right[enough]) > np.median(wrong[enough]) + 1


def test_selecting_and_joining():
    text = bitext(PAIRS)
    order = list(range(len(PAIRS)))
    random.Random(1).shuffle(order)
    numbers = np.array(order)
    chosen = text.select(numbers, numbers)
    expected = bitext([PAIRS[number] for number in order])
    halves = concatenate(
        [expected.select(np.arange(20), np.arange(20)), expected.select(np.arange(20, 53), np.arange(20, 53))]
    )
    for one in (chosen, halves):
        for field in ("source", "source_starts", "target", "target_starts"):
            np.testing.assert_array_equal(getattr(one, field), getattr(expected, field))
