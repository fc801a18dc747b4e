import dataclasses
import math
import random
import shutil
import subprocess
import sys
from typing import Any

import pytest
import torch

from attendo.decoding.search import SearchOptions
from attendo.drafting import EXTRA_LENGTH, one_line
from attendo.engines.torch_engine import TorchEngine
from attendo.errors import BundleError, ConfigError, DataError
from attendo.models.settings import TransformerConfig
from attendo.models.transformer import build
from attendo.run import train
from attendo.text.glossary import Glossary
from attendo.text.pair import TokenizerPair
from attendo.text.tokenizer import Tokenizer, train_tokenizer
from attendo.translator import Translator, load, perplexity
from tests.numerals import ENGLISH, sentence_pairs
from tests.trained import TINY_SETTINGS


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
@pytest.mark.parametrize("split", [True, False])
def test_text_without_anything_visible_stays_so(tiny, text, split):
    before, empty, after = tiny.translate_many(["one.", text, "two."], split=split, scores=True)
    kept = text if split else ""
    assert (empty.source, empty.text, empty.log_prob, empty.score, empty.parts) == (text, kept, 0.0, 0.0, 1)
    assert (before.text, after.text) == ("eins.", "zwei.")


@pytest.mark.parametrize(("before", "after"), [("  ", ""), ("", " "), ("\t", "\n")])
def test_white_space_at_the_ends_does_not_matter_to_the_model(tiny, before, after):
    plain = tiny.translate("two three.", scores=True)
    found = tiny.translate(f"{before}two three.{after}", scores=True)
    assert (found.text, found.log_prob) == (before + plain.text + after, close(plain.log_prob))
    whole = tiny.translate(f"{before}two three.{after.strip(chr(10))}", split=False, scores=True)
    assert (whole.text, whole.log_prob) == (plain.text, close(plain.log_prob))


@pytest.mark.parametrize("text", ["one\u2028two.", "one\u0085two.", "one\x0btwo\x0ctwo.", "one\rtwo.", "one\ntwo."])
def test_a_translation_is_one_line(tiny, text):
    assert not set("\n\r") & set(tiny.translate(text, split=False).text)
    breaks = [character for character in text if not character.isalpha() and character != "."]
    found = tiny.translate(text).text
    assert [character for character in found if character in breaks] == breaks


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
    parts = tiny.translate_many(sources_of(monkeypatch, tiny, text), n_best=3, scores=True)
    long = tiny.translate(text, n_best=3, scores=True)
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
    found = tiny.translate("two red seven.", beam=6, n_best=4, scores=True)
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


def prefix_for(sentence: str) -> str:
    return ["", "drei", "Köln am", "eins zwei"][len(sentence) % 4]


def the_batch_does_not_matter(
    tiny: Translator,
    sentences: list[str],
    sizes: list[int],
    options: SearchOptions | None = None,
    *,
    prefix: bool = False,
) -> None:
    def translated(some: list[str], size: int):
        prefixes = [prefix_for(sentence) for sentence in some] if prefix else None
        return tiny.translate_many(
            some, options=options, prefixes=prefixes, scores=True, batch_size=size, batch_tokens=10**6
        )

    alone = translated(sentences, 1)
    for size in sizes:
        order = random.Random(size).sample(range(len(sentences)), len(sentences))
        together = translated([sentences[i] for i in order], size)
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
    found = tiny.translate_many(sources, scores=True)
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
    before, strange, after = tiny.translate_many(["three.", f"one {typed} two.", "four."], split=False, check=False)
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


# --- sampling, diversity, repetition, prefixes ------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        SearchOptions(sample=True, temperature=1.5),
        SearchOptions(sample=True, top_k=20, top_p=0.9),
        SearchOptions(beam=6, n_best=3, diversity_groups=3),
        SearchOptions(beam=3, no_repeat_ngram=2),
    ],
    ids=["hot", "nucleus", "diverse", "no repeats"],
)
def test_the_batch_does_not_matter_however_it_is_searched(tiny, options, prefix):
    the_batch_does_not_matter(tiny, mixed_sentences(20), [2, 7], options, prefix=prefix)


def test_samples_are_draws_in_order_and_can_be_repeated(tiny):
    hot = SearchOptions(sample=True, n_best=7, temperature=2.0)
    found = tiny.translate("two red seven.", options=hot)
    assert len(found.candidates) == 7
    assert len({one.text for one in found.candidates}) > 3
    again = tiny.translate_many(["one.", "two red seven."], options=hot)[1]
    assert [one.text for one in again.candidates] == [one.text for one in found.candidates]
    first = tiny.translate("two red seven.", options=dataclasses.replace(hot, n_best=1))
    assert first.text == found.text
    other = tiny.translate("two red seven.", options=dataclasses.replace(hot, seed=2))
    assert [one.text for one in other.candidates] != [one.text for one in found.candidates]


def test_diverse_translations_begin_differently(tiny):
    """A group for each translation, and no piece twice at the same place."""

    def first_pieces(**more: Any) -> int:
        found = tiny.translate("two red seven.", options=SearchOptions(beam=6, n_best=6, **more))
        return len({tiny.tokenizers.target.encode(one.text)[0] for one in found.candidates})

    assert first_pieces(diversity_groups=6, diversity=50.0) > first_pieces()


def test_no_word_comes_twice(tiny):
    source = "one one one one one one."
    assert tiny.translate(source).text.split()[:2] == ["eins", "eins"]
    once = tiny.translate(source, options=SearchOptions(no_repeat_ngram=1)).text
    ids = tiny.tokenizers.target.encode(once)
    assert len(set(ids)) == len(ids)


def test_a_translation_begins_with_its_prefix(tiny):
    found = tiny.translate_many(
        ["one two.", "three four.", "", "five."],
        prefixes=["acht", "", "neun", " zwei zwei zwei "],
        n_best=3,
        scores=True,
    )
    assert all(one.text.startswith("acht") for one in found[0].candidates)
    assert found[1].text == "drei vier."
    assert found[2].text == "", "a line of nothing stays nothing"
    assert all(one.text.startswith("zwei zwei zwei") for one in found[3].candidates)
    alone = tiny.translate("one two.", prefix="acht", n_best=3, scores=True)
    assert [one.text for one in found[0].candidates] == [one.text for one in alone.candidates]
    assert [one.log_prob for one in found[0].candidates] == close([one.log_prob for one in alone.candidates])
    right = tiny.translate("one two.", prefix="eins", scores=True)
    plain = tiny.translate("one two.", scores=True)
    assert (right.text, right.log_prob) == (plain.text, close(plain.log_prob)), "what it would have said anyway"


@pytest.mark.parametrize("options", [SearchOptions(beam=1), SearchOptions(beam=6, diversity_groups=3), None])
def test_a_prefixs_log_probability_counts(tiny, options):
    found = tiny.translate("one two.", options=options, prefix="acht", scores=True)
    assert found.text.startswith("acht")
    assert found.log_prob == close(tiny.score(["one two."], [found.text])[0].log_prob)


def test_the_first_part_of_a_long_text_has_the_prefix(tiny):
    text = " ".join(["one two three four five six seven eight."] * 9)
    plain, found = tiny.translate(text), tiny.translate(text, prefix="neun neun neun")
    assert found.parts == plain.parts > 1
    assert found.text.startswith("neun neun neun")
    assert found.text.count("neun neun") == 1
    assert found.text.endswith(plain.text[-20:])


def test_a_prefix_raises_the_limit_but_not_one_that_was_given(tiny, monkeypatch):
    prefix = " ".join(["eins"] * 90)
    n_pieces = len(tiny.tokenizers.target.encode(prefix))
    assert n_pieces > len(tiny.tokenizers.source.encode("one.")) + EXTRA_LENGTH
    limits: list[int] = []
    search = tiny.engine.search

    def record(sources, given, *arguments, **options):
        limits.extend(given)
        return search(sources, given, *arguments, **options)

    monkeypatch.setattr(tiny.engine, "search", record)
    assert tiny.translate("one.", prefix=prefix).text.startswith(prefix)
    assert limits == [n_pieces + EXTRA_LENGTH]
    exact = tiny.translate("one.", prefix=prefix, max_length=n_pieces)
    assert (exact.text, exact.candidates[0].finished) == (prefix, False)
    with pytest.raises(ConfigError, match=f"max_length = {n_pieces - 1}: the prefix .* alone has {n_pieces} pieces"):
        tiny.translate("one.", prefix=prefix, max_length=n_pieces - 1)


def test_prefixes_that_cannot_be_used(tiny):
    with pytest.raises(DataError, match="2 texts and 1 prefixes"):
        tiny.translate_many(["one.", "two."], prefixes=["eins"])
    with pytest.raises(DataError, match="line breaks"):
        tiny.translate("one.", prefix="eins\nzwei")
    with pytest.raises(DataError, match=r"prefixes = 'abc': must be a list of texts"):
        tiny.translate_many(["one.", "two.", "three."], prefixes="abc")
    with pytest.raises(DataError, match=r"texts = 'one.': must be a list of texts"):
        tiny.translate_many("one.")


def test_no_prefix_is_none_or_empty(tiny):
    plain = tiny.translate_many(["one.", "two."])
    assert tiny.translate_many(["one.", "two."], prefixes=[None, ""]) == plain
    assert tiny.translate("one.", prefix=None) == tiny.translate("one.")


def test_a_prefix_with_unknown_characters_is_refused():
    """WordPiece would lose them: what came out would not begin with what was asked for."""
    both = train_tokenizer(["eins zwei drei"] * 9, kind="wordpiece", vocab_size=300)
    translator = learned_positions(both, n_positions=199)
    assert translator.translate("drei", prefix="eins zw", max_length=17).text.startswith("eins zw")
    with pytest.raises(DataError, match=r"the prefix 'eins Öx eÖ' has characters .* does not know: 'Ö', 'x'"):
        translator.translate("drei", prefix=" eins Öx eÖ")
    characters = train_tokenizer(["eins zwei drei"] * 9, kind="characters", vocab_size=300)
    found = learned_positions(characters, n_positions=199).translate("drei", prefix="eins Öx", max_length=17)
    assert found.text.startswith("eins Öx")


def learned_positions(both: Tokenizer, *, n_positions: int) -> Translator:
    """A model of random weights that knows so many places and no more."""
    torch.manual_seed(3)
    config = TransformerConfig(
        source_vocab_size=both.vocab_size,
        target_vocab_size=both.vocab_size,
        positions="learned",
        n_positions=n_positions,
        n_encoder_layers=1,
        n_decoder_layers=1,
        d_model=8,
        d_ff=11,
        n_heads=2,
    )
    engine = TorchEngine(build(config).eval(), torch.device("cpu"))
    return Translator(engine, TokenizerPair(both, both), max_length=31)


def test_limits_beyond_learned_positions_are_refused_before_the_search(tiny, monkeypatch):
    translator = learned_positions(tiny.tokenizers.target, n_positions=103)
    prefix = " ".join(["eins"] * 53)
    n_pieces = len(translator.tokenizers.target.encode(prefix))
    assert translator.translate("one.", beam=1, max_length=102)
    assert translator.translate("one.", beam=1, max_length=102, prefix=prefix).text.startswith(prefix)
    monkeypatch.setattr(translator.engine, "search", None)
    with pytest.raises(ConfigError, match="max_length = 103: must be at most 102, what learned positions reach"):
        translator.translate("one.", max_length=103)
    with pytest.raises(DataError, match=f"has {n_pieces} pieces, and with the 50 .* the 102 .* set max_length"):
        translator.translate("one.", prefix=prefix)


def test_equal_parts_of_a_line_draw_different_samples(tiny, monkeypatch):
    text = " ".join(["one two three four five six seven eight."] * 29)
    parts = sources_of(monkeypatch, tiny, text)
    assert parts[0] == parts[1]
    asked: list[list[int]] = []
    search = tiny.engine.search

    def record(*arguments, **options):
        asked.append(options["parts"])
        return search(*arguments, **options)

    monkeypatch.setattr(tiny.engine, "search", record)
    hot = SearchOptions(sample=True, temperature=3.0)
    line, repeated = tiny.translate_many([text, parts[0]], options=hot)
    assert asked == [[*range(len(parts)), 0]]
    assert line.text.startswith(repeated.text), "a first part draws as a line of its own"
    assert line.text.count(repeated.text) == 1


# --- ensembles --------------------------------------------------------------------------------------------------------


@pytest.fixture
def noisy(trained, tmp_path):
    """The trained bundle with other weights: a second opinion."""
    generator = torch.Generator().manual_seed(3)
    weights = {
        name: tensor + 0.05 * torch.randn(tensor.shape, generator=generator)
        for name, tensor in trained.bundle.weights().items()
    }
    return trained.bundle.copy(tmp_path / "noisy", weights).path


def test_an_ensemble_is_loaded_from_several_folders(trained, tiny, noisy):
    both = load([trained.path, str(noisy)], device="cpu")
    one, other = tiny, load(noisy, device="cpu")
    sources, targets = zip(*sentence_pairs(20, seed=43), strict=True)
    scores = [by.score(sources, targets) for by in (both, one, other)]
    for ours, *theirs in zip(*scores, strict=True):
        assert min(score.log_prob for score in theirs) < ours.log_prob
    found = both.translate("two red seven.", scores=True)
    assert found.log_prob == close(both.score(["two red seven."], [found.text])[0].log_prob)
    assert load([trained.path], device="cpu").translate_many(sources) == tiny.translate_many(sources)
    the_batch_does_not_matter(both, mixed_sentences(20), [2, 7])


def changed(bundle, path, *, tokenizers=None, **data):
    """A copy whose settings of the data, or tokenizers, are others."""
    config = dataclasses.replace(bundle.config, data=dataclasses.replace(bundle.config.data, **data))
    like = dataclasses.replace(bundle, config=config, text=tokenizers or bundle.tokenizers)
    return like.copy(path, bundle.weights()).path


def test_an_ensemble_is_cut_at_the_shortest_length(trained, tmp_path):
    short = changed(trained.bundle, tmp_path / "short", max_length=31)
    assert load([trained.path, short], device="cpu").max_length == 31


def test_what_makes_no_ensemble(trained, tmp_path):
    both = trained.bundle.tokenizers
    swapped = TokenizerPair(Tokenizer.from_json(both.source.to_json()), Tokenizer.from_json(both.target.to_json()))
    strange = changed(trained.bundle, tmp_path / "strange", tokenizers=swapped)
    with pytest.raises(BundleError, match=f"{strange} has another tokenizer than {trained.path}"):
        load([trained.path, strange])
    backwards = changed(trained.bundle, tmp_path / "backwards", languages=("de", "en"))
    with pytest.raises(BundleError, match=f"{backwards} has other languages than {trained.path}"):
        load([trained.path, backwards])
    both_wrong = changed(trained.bundle, tmp_path / "both", tokenizers=swapped, languages=("de", "en"))
    with pytest.raises(BundleError, match=f"{both_wrong} has other languages"):
        load([trained.path, both_wrong])
    (tmp_path / "link").symlink_to(trained.path)
    with pytest.raises(ConfigError, match=f"{tmp_path / 'link'} is in the ensemble twice"):
        load([trained.path, tmp_path / "link"])
    with pytest.raises(ConfigError, match="nothing to load"):
        load([])


def test_a_glossary_may_be_a_plain_mapping(tiny):
    terms = {"two": "grün"}
    found = tiny.translate("one two.", glossary=terms)
    assert found == tiny.translate("one two.", glossary=Glossary(terms))
    assert [(one.target, one.used) for one in found.terms] == [("grün", True)]


def test_one_text_without_checking(tiny):
    assert tiny.translate("one {name}.", check=False) == tiny.translate_many(["one {name}."], check=False)[0]
    with pytest.raises(ConfigError, match="keep and glossary need check"):
        tiny.translate("one {name}.", check=False, keep=["{name}"])


# --- what is placed -----------------------------------------------------------------------------------------------

URL = "https://example.org/" + "one/two?" * 60 + "x"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one <b>two</b> three <i>four five</i> six.", "eins <b>zwei</b> drei <i>vier fünf</i> sechs."),
        ("one <b>two <i>red</i></b> ten.", "eins <b>zwei <i>rot</i></b> zehn."),
        ("one two <br/> three four.", "eins zwei <br/> drei vier."),
        (f"one {URL[:50]} two three.", f"eins {URL[:50]} zwei drei."),
        (f"one two ({URL}) three.", f"eins zwei ({URL}) drei."),
    ],
)
@pytest.mark.parametrize("beam", [1, 5])
def test_what_the_model_cannot_know_is_put_where_the_words_around_it_went(tiny, text, expected, beam):
    done = tiny.translate(text, beam=beam)
    assert done.text == expected
    assert "lost" not in [one.kind for one in done.warnings]


def test_markup_follows_words_that_become_several(tmp_path):
    """Here relative position is wrong, and the cross-attention of a model that was trained in seconds is right."""
    longer = {"zehn": "neun und noch eins", "neun": "acht und noch eins"}
    pairs = [
        (source, " ".join(longer.get(word, word) for word in target.removesuffix(".").split()) + ".")
        for source, target in sentence_pairs(600, seed=7)
    ]
    for name, lines in (("train.en", [one for one, _ in pairs]), ("train.de", [other for _, other in pairs])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    settings = {
        **TINY_SETTINGS,
        "data": {"source": str(tmp_path / "train.en"), "target": str(tmp_path / "train.de"), "max_length": 61},
        "training": {"steps": 450, "learning_rate": 0.01, "batch_tokens": 400, "validate_every": 450},
    }
    translator = load(train(settings=settings, out=tmp_path / "run").path, device="cpu")
    text, expected = "ten <b>two</b> three.", "neun und noch eins <b>zwei</b> drei."
    assert translator.translate(text).text == expected
    translator.link = None
    assert translator.translate(text).text != expected


def test_only_what_is_to_be_placed_loads_torch(trained):
    code = (
        "import sys, attendo\n"
        f"t = attendo.load({str(trained.path)!r}, device='cpu')\n"
        "t.translate('<b>one two 17.</b>')\n"
        "assert 'torch' not in sys.modules\n"
        "t.translate('one <b>two</b> three.')\n"
        "assert 'torch' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("how", [{"engine": "ctranslate2"}, {"precision": "int8"}])
def test_without_an_alignment_things_are_placed_by_their_relative_position(trained, how):
    translator = load(trained.path, device="cpu", **how)
    assert translator.link is None
    assert translator.translate("one <b>two</b> three.").text == "eins <b>zwei</b> drei."


def test_a_bundle_without_a_recorded_view_finds_none_while_translating(trained, tmp_path):
    path = tmp_path / "copy"
    shutil.copytree(trained.path, path)
    (path / "alignment.json").unlink(missing_ok=True)
    done = load(path, device="cpu").translate("one <b>two</b> three.")
    assert sorted(done.text) == sorted("eins <b>zwei</b> drei.")
    assert not (path / "alignment.json").exists()
