import math
import random
from typing import Any

import pytest

from attendo.decoding.search import SearchOptions
from attendo.errors import ConfigError, DataError
from attendo.translator import EXTRA_LENGTH, Translator, one_line, perplexity
from tests.numerals import ENGLISH, sentence_pairs


def close(expected: Any) -> Any:
    return pytest.approx(expected, rel=0, abs=1e-4)


def mixed_sentences(n: int) -> list[str]:
    """What the model knows, and what it does not: the less certain, the more a neighbour could tip the balance."""
    generator = random.Random(11)
    sentences = [source for source, _ in sentence_pairs(n // 2, seed=23)]
    letters = "abcdefghijklmnopqrstuvwxyzäöüß ,."
    while len(sentences) < n:
        sentences.append("".join(generator.choices(letters, k=generator.randint(1, 40))).strip() or "x")
    return sentences


def test_it_translates(tiny):
    pairs = sentence_pairs(50, seed=31)
    found = tiny.translate_many([source for source, _ in pairs])
    right = sum(one.text == target for one, (_, target) in zip(found, pairs, strict=True))
    assert right >= 40


def test_results_come_in_the_order_of_the_input(tiny):
    texts = ["one.", "two three four five six seven.", "two.", "", "ten ten ten.", "red."]
    found = tiny.translate_many(texts, batch_size=2)
    assert [one.source for one in found] == texts
    assert [one.text for one in found] == [tiny.translate(text).text for text in texts]
    assert tiny.translate_many([]) == []


@pytest.mark.parametrize("text", ["", " ", "\t", " \t  ", "\u00a0", "\u2028", "\u3000 "])
def test_text_without_anything_visible_stays_empty(tiny, text):
    before, empty, after = tiny.translate_many(["one.", text, "two."])
    assert (empty.source, empty.text, empty.log_prob, empty.score, empty.parts) == (text, "", 0.0, 0.0, 1)
    assert (before.text, after.text) == ("eins.", "zwei.")


def test_white_space_at_the_ends_does_not_matter(tiny):
    plain = tiny.translate("two three.")
    for text in ("  two three.", "two three. ", "\ttwo three."):
        assert tiny.translate(text).text == plain.text
        assert tiny.translate(text).log_prob == close(plain.log_prob)


@pytest.mark.parametrize("text", ["one\u2028two.", "one\u0085two.", "one\x0btwo\x0ctwo.", "one\rtwo.", "one\ntwo."])
def test_a_translation_is_one_line(tiny, text):
    assert not set("\n\r") & set(tiny.translate(text).text)


def test_a_model_that_spells_line_breaks_gives_one_line():
    assert one_line("a\nb\rc\u2028d") == "a b c\u2028d"


def sources_of(monkeypatch: pytest.MonkeyPatch, tiny: Translator, text: str) -> list[str]:
    """What the engine is asked to translate."""
    asked: list[list[int]] = []
    search = tiny.engine.search

    def record(sources, *arguments, **options):
        asked.extend(sources)
        return search(sources, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(tiny.engine, "search", record)
        tiny.translate(text, beam=1)
    assert max(len(ids) for ids in asked) <= tiny.max_length
    return [tiny.tokenizers.source.decode(ids) for ids in asked]


def test_a_long_text_is_cut_after_sentences(tiny, monkeypatch):
    sentences = [f"{' '.join(ENGLISH[:7])}." for _ in range(9)]
    parts = sources_of(monkeypatch, tiny, " ".join(sentences))
    assert len(parts) > 1
    assert all(part.endswith(".") for part in parts)
    assert " ".join(parts) == " ".join(sentences)


def test_a_long_text_without_sentences_is_cut_between_words(tiny, monkeypatch):
    words = ENGLISH * 11
    parts = sources_of(monkeypatch, tiny, " ".join(words))
    assert len(parts) > 1
    assert tuple(" ".join(parts).split(" ")) == words


def test_a_long_text_without_spaces_is_cut_anywhere_and_nothing_is_lost(tiny, monkeypatch):
    text = "seventeengreenbottles" * 29
    parts = sources_of(monkeypatch, tiny, text)
    assert len(parts) > 1
    assert "".join(parts) == text


def test_the_parts_of_a_long_text_are_reported_and_joined(tiny, monkeypatch):
    text = " ".join(["one two three four five six seven eight."] * 9)
    parts = tiny.translate_many(sources_of(monkeypatch, tiny, text), n_best=3)
    long = tiny.translate(text, n_best=3)
    assert long.parts == len(parts) > 1
    for k in range(3):
        assert long.candidates[k].text == " ".join(part.candidates[k].text for part in parts)
        assert long.candidates[k].log_prob == pytest.approx(sum(part.candidates[k].log_prob for part in parts))
    assert all(one.log_prob < one.score < 0 for one in long.candidates)
    assert parts[0].parts == 1


def test_a_line_of_100_000_characters_among_good_ones(tiny, monkeypatch):
    monster = ("one two three four five. " * 4000).strip()
    assert len(monster) == 99_999
    before, long, after = tiny.translate_many(["two.", monster, "three."], beam=1)
    assert (before.text, after.text) == ("zwei.", "drei.")
    assert long.parts > 300
    assert len(long.text.split()) > long.parts
    assert " ".join(sources_of(monkeypatch, tiny, monster)) == monster


def test_n_best_are_distinct_and_sorted_by_score(tiny):
    found = tiny.translate("two red seven.", beam=6, n_best=4)
    scores = [one.score for one in found.candidates]
    assert len(scores) == 4
    assert scores == sorted(scores, reverse=True)
    assert len({one.text for one in found.candidates}) > 1
    assert (found.text, found.score, found.log_prob) == (
        found.candidates[0].text,
        found.candidates[0].score,
        found.candidates[0].log_prob,
    )
    assert all(one.log_prob < one.score < 0 for one in found.candidates)


def test_max_length_limits_a_translation_in_pieces(tiny):
    found = tiny.translate("one two three four five.", max_length=2)
    assert len(tiny.tokenizers.target.encode(found.text)) <= 2
    assert not found.candidates[0].finished
    assert tiny.translate("one two three four five.").candidates[0].finished


def test_without_max_length_the_limit_is_the_source_and_50_more(tiny, monkeypatch):
    limits: list[int] = []
    search = tiny.engine.search

    def record(sources, given, *arguments, **options):
        limits.extend(given)
        return search(sources, given, *arguments, **options)

    monkeypatch.setattr(tiny.engine, "search", record)
    tiny.translate("one two three.")
    assert limits == [len(tiny.tokenizers.source.encode("one two three.")) + EXTRA_LENGTH]
    assert EXTRA_LENGTH == 50


@pytest.mark.parametrize("name", ["max_length", "batch_size", "batch_tokens"])
def test_impossible_numbers_are_refused(tiny, name):
    with pytest.raises(ConfigError, match=f"{name} = 0: must be at least 1"):
        tiny.translate_many(["one."], **{name: 0})


def the_batch_does_not_matter(tiny: Translator, sentences: list[str], sizes: list[int]) -> None:
    alone = tiny.translate_many(sentences, batch_size=1)
    for size in sizes:
        order = random.Random(size).sample(range(len(sentences)), len(sentences))
        together = tiny.translate_many([sentences[i] for i in order], batch_size=size, batch_tokens=10**6)
        for i, found in zip(order, together, strict=True):
            assert found.text == alone[i].text, sentences[i]
            assert found.score == close(alone[i].score), sentences[i]
            assert found.log_prob == close(alone[i].log_prob), sentences[i]


def test_the_same_text_and_score_whatever_else_is_in_the_batch(tiny):
    the_batch_does_not_matter(tiny, mixed_sentences(100), [2, 7, 64])


@pytest.mark.proof
def test_the_same_text_and_score_for_1_000_sentences(tiny):
    the_batch_does_not_matter(tiny, mixed_sentences(1000), [2, 3, 5, 8, 13, 21, 34, 55, 64])


def test_a_translations_log_prob_is_the_score_of_that_text(tiny):
    """Where the model spelled its output with other pieces than the tokenizer would, the two are not the same."""
    sources = [source for source, _ in sentence_pairs(60, seed=41)]
    found = tiny.translate_many(sources)
    encode, decode = tiny.tokenizers.target.encode, tiny.tokenizers.target.decode
    hypotheses = tiny.engine.search(
        tiny.tokenizers.source.encode_batch(sources), [61 + EXTRA_LENGTH] * 60, SearchOptions()
    )
    scored = tiny.score(sources, [one.text for one in found])
    compared = 0
    for translation, (best,), score in zip(found, hypotheses, scored, strict=True):
        assert decode(best.ids) == translation.text
        if list(best.ids) == encode(translation.text):
            assert translation.log_prob == close(score.log_prob)
            assert score.n_pieces == len(best.ids) + 1
            compared += 1
    assert compared > 40


def test_scores_are_log_probabilities(tiny):
    right, wrong = tiny.score(["two three.", "two three."], ["zwei drei.", "drei zwei."])
    assert wrong.log_prob < right.log_prob < 0
    assert right.n_pieces == len(tiny.tokenizers.target.encode("zwei drei.")) + 1
    assert perplexity([right, wrong]) == pytest.approx(
        math.exp(-(right.log_prob + wrong.log_prob) / (right.n_pieces + wrong.n_pieces))
    )


def test_scoring_needs_both_sides(tiny):
    with pytest.raises(DataError, match="2 sources and 1 targets"):
        tiny.score(["one.", "two."], ["eins."])


@pytest.mark.parametrize("typed", ["<s>", "</s>", "<pad>", "<unk>", "<0x41>"])
def test_typed_control_pieces_are_text(tiny, typed):
    ids = tiny.tokenizers.source.encode(f"one {typed} two.")
    assert min(ids) > 3
    assert tiny.tokenizers.source.decode(ids) == f"one {typed} two."
    before, strange, after = tiny.translate_many(["three.", f"one {typed} two.", "four."])
    assert (before.text, after.text) == ("drei.", "vier.")
    assert strange.text
    assert typed not in strange.text or typed == "<0x41>"


def test_the_beam_is_said_once(tiny):
    with pytest.raises(ConfigError, match="once"):
        tiny.translate("one.", beam=1, options=SearchOptions(beam=2))
    one, other = (
        tiny.translate("one.", beam=2, n_best=2),
        tiny.translate("one.", options=SearchOptions(beam=2, n_best=2)),
    )
    assert one.candidates == other.candidates


def test_half_a_surrogate_pair_is_refused(tiny):
    with pytest.raises(DataError, match="surrogate"):
        tiny.translate("one \ud800.")
