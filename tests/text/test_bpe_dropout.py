"""BPE-dropout against its definition, of which every outcome is enumerated, and against the tokenizer at rate 0."""

import itertools
import random
from collections import Counter, defaultdict

import pytest

from attendo.text.bpe_dropout import Merger
from attendo.text.tokenizer import Tokenizer, train_tokenizer

LINES = [
    "lower lowest low slow slower slowest",
    "banana bandana ananas papaya",
    "new newer newest wide wider widest",
    "aaaa aaaaa aaaaaa aaa aa",
    "Straße über Größe größer",
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(LINES * 5, kind="bpe", vocab_size=340)


def outcomes(pieces: tuple[str, ...], ranks: dict[tuple[str, str], int], rate: float) -> dict[tuple[str, ...], float]:
    """The probability of every segmentation, from the definition: each possible merge is left out or not."""
    possible = [i for i, pair in enumerate(itertools.pairwise(pieces)) if pair in ranks]
    found: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for kept in itertools.product((True, False), repeat=len(possible)):
        chance = rate ** kept.count(False) * (1 - rate) ** kept.count(True)
        left = [i for i, keep in zip(possible, kept, strict=True) if keep]
        if not left:
            found[pieces] += chance
            continue
        best = min(left, key=lambda i: ranks[pieces[i], pieces[i + 1]])
        pair = pieces[best], pieces[best + 1]
        merged: list[str] = []
        i = 0
        while i < len(pieces):
            if i in left and (pieces[i], pieces[i + 1]) == pair:
                merged.append("".join(pair))
                i += 2
            else:
                merged.append(pieces[i])
                i += 1
        for segmentation, further in outcomes(tuple(merged), ranks, rate).items():
            found[segmentation] += chance * further
    return dict(found)


def test_rate_0_is_the_tokenizer_itself(tokenizer: Tokenizer) -> None:
    merger = Merger(tokenizer)
    for word in {word for line in LINES for word in line.split()} | {"lowlow", "aaaaaaaaa", "unseen", "日本", "x9,!"}:
        ids = tokenizer.encode(word)
        characters = merger.characters(ids)
        assert tokenizer.decode(characters) == word
        assert all(len(piece) == 1 or piece.startswith("<0x") for piece in tokenizer.pieces(characters))
        assert merger.merged(characters, 0.0, random.Random(1).random) == ids


def test_a_rate_of_almost_1_leaves_characters(tokenizer: Tokenizer) -> None:
    merger = Merger(tokenizer)
    characters = merger.characters(tokenizer.encode("lowest"))
    assert merger.merged(characters, 1.0, random.Random(1).random) == characters


@pytest.mark.parametrize("word", ["lowest", "banana", "aaaaa"])
@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_every_segmentation_has_its_probability(tokenizer: Tokenizer, word: str, rate: float) -> None:
    merger = Merger(tokenizer)
    ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges())}
    characters = merger.characters(tokenizer.encode(word))
    expected = outcomes(tuple(tokenizer.pieces(characters)), ranks, rate)
    assert sum(expected.values()) == pytest.approx(1)
    assert len(expected) > 5
    draw, n = random.Random(7).random, 20_000
    counts = Counter(tuple(tokenizer.pieces(merger.merged(characters, rate, draw))) for _ in range(n))
    assert counts.keys() <= expected.keys()
    for segmentation, chance in expected.items():
        deviation = (chance * (1 - chance) / n) ** 0.5
        assert abs(counts[segmentation] / n - chance) < 4.5 * deviation + 1e-4, segmentation


def test_the_text_stays_the_same(tokenizer: Tokenizer) -> None:
    merger, draw = Merger(tokenizer), random.Random(3).random
    for line in LINES:
        for word in line.split():
            for _ in range(20):
                assert tokenizer.decode(merger.merged(merger.characters(tokenizer.encode(word)), 0.3, draw)) == word
