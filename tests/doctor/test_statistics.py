"""What is in a corpus, compared with counting it word by word."""

import re
from collections import Counter

import numpy as np
import pytest

from attendo.doctor.lines import Lines
from attendo.doctor.statistics import Vocabulary, pieces_per_word
from attendo.text.tokenizer import count_words, train_tokenizer
from tests.doctor.corpora import sample_pairs


def test_a_vocabulary_counts_as_a_counter_does():
    texts = [target for _, target in sample_pairs()[:300]]
    words = [word.lower() for text in texts for word in re.findall(r"\w+", text)]
    vocabulary, counter = Vocabulary(), Counter(words)
    for first in range(0, 300, 30):
        vocabulary.add(Lines(texts[first : first + 30]).words.hashes)
    vocabulary.settle()
    assert len(vocabulary.hashes) == len(counter)
    assert sorted(vocabulary.counts.tolist()) == sorted(counter.values())
    assert vocabulary.once() == pytest.approx(sum(count == 1 for count in counter.values()) / len(counter))
    assert len(vocabulary.growth) > 10
    assert vocabulary.growth == [(read, len(set(words[:read]))) for read, _ in vocabulary.growth]
    assert vocabulary.growth[-1] == (len(words), len(counter))
    assert vocabulary.unseen(Lines([texts[0], "zyxwv"]).words.hashes) == 1 / (1 + len(texts[0].split()))
    assert Vocabulary().unseen(np.zeros(0, dtype=np.uint64)) == 0


def test_pieces_a_word():
    pairs = sample_pairs()[:200]
    rows = pieces_per_word(pairs)
    whole = train_tokenizer((text for pair in pairs for text in pair), kind="bpe", vocab_size=32_000)
    assert rows[-1]["vocab_size"] == whole.vocab_size
    for side, name in enumerate(("source", "target")):
        pieces = sum(len(whole.encode(pair[side])) for pair in pairs)
        assert rows[-1][name] == pytest.approx(pieces / sum(count_words(pair[side]) for pair in pairs), abs=1e-3)
    assert pieces_per_word([]) == []
    assert pieces_per_word([("a", "")]) == []
