"""What translations lost, put back: the rule by an engine whose every answer is known, the rest by a small model."""

import math
import random
from collections.abc import Sequence
from typing import Any, cast

import pytest

from attendo import mending
from attendo.decoding.search import Hypothesis, SearchOptions, make_hypothesis
from attendo.drafting import Draft, Drafter
from attendo.mending import Mender
from attendo.text.pair import TokenizerPair
from attendo.text.survivors import missing, survivors
from attendo.text.tokenizer import train_tokenizer
from attendo.translator import load
from tests.numerals import sentence_pairs

LINES = ["A man sees two dogs.", "Ein Mann sieht zwei Hunde im Schnee.", "1 2 3 4 5 6 7 8 9 {x}"]
BEAM = SearchOptions(beam=3)
LIMIT = 71


class Known:
    """log p of an id is drawn by all that comes before it, and so is what greedy search goes on with."""

    longest_target = None

    def __init__(self, endings: Sequence[tuple[int, ...]] = ((),)) -> None:
        self.endings = endings
        self.asked: list[tuple[int, ...]] = []  # prefixes

    def score(self, sources: Sequence[Any], targets: Sequence[Any]) -> list[list[float]]:
        return [
            [-random.Random(str((*source, -1, *target[: i + 1]))).random() for i in range(len(target) + 1)]
            for source, target in zip(sources, targets, strict=True)
        ]

    def search(self, sources: Any, limits: Any, options: SearchOptions, *, prefixes: Any) -> list[list[Hypothesis]]:
        assert options == SearchOptions(beam=1)
        self.asked += prefixes
        return [
            [make_hypothesis(self.ending(ids), [], limit=limit, options=options)]
            for _, limit, ids in zip(sources, limits, prefixes, strict=True)
        ]

    def ending(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        return (*ids, *self.endings[sum(ids) % len(self.endings)])


@pytest.fixture(scope="module")
def drafter() -> Drafter:
    tokenizer = train_tokenizer(LINES * 3, kind="bpe", vocab_size=330)
    return Drafter(TokenizerPair(tokenizer, tokenizer), max_length=LIMIT)


def given(drafter: Drafter, text: str, *translations: str, **kwargs: Any) -> tuple[list[Draft], Any]:
    drafts = drafter.drafts([text], **kwargs)
    ids = [tuple(drafter.tokenizers.target.encode(one)) for one in translations]
    hypotheses = [
        Hypothesis(ids=one, log_prob=math.nan, score=math.nan, token_log_probs=(), finished=True) for one in ids
    ]
    return drafts, [[hypotheses]]


def mended(drafter: Drafter, engine: Any, text: str, *translations: str, **kwargs: Any) -> list[Hypothesis]:
    (found,) = Mender(engine, drafter).mended(drafter.torn(*given(drafter, text, *translations, **kwargs)), BEAM)
    return found


TEXT, TRANSLATION = "A man sees 3 dogs.", "Ein Mann sieht zwei Hunde im Schnee."


def by_hand(drafter: Drafter, engine: Known, *, n_likeliest: int) -> Hypothesis:
    """The best of all candidates, which are made from the words of the text."""
    encode, words = drafter.tokenizers.target.encode, TRANSLATION.removesuffix(".").split()
    source = drafter.drafts([TEXT])[0].sentences[0].ids
    starts = [tuple(encode(" ".join([*words[:i], "3"]))) for i in range(len(words) + 1)]
    starts[len(words) :] = [tuple(encode(" ".join(words) + end)) for end in (" 3", ". 3")]  # before and after the mark
    n_phrase = len(encode("3"))
    chances = [sum(engine.score([source], [ids])[0][len(ids) - n_phrase : -1]) for ids in starts]
    chosen = sorted(range(len(starts)), key=lambda i: -chances[i])[:n_likeliest]
    texts = [" ".join([*words[:i], "3", *words[i + 1 :]]) + "." for i in range(len(words))]
    texts.append(" ".join([*words, "3"]))
    candidates = [engine.ending(starts[i]) for i in chosen]
    candidates += [tuple(encode(texts[i])) for i in chosen if i < len(texts)]
    decode = drafter.tokenizers.target.decode
    holding = [ids for ids in candidates if not missing(["3"], decode(ids))]
    scored = [make_hypothesis(ids, engine.score([source], [ids])[0], limit=LIMIT, options=BEAM) for ids in holding]
    return max(scored, key=lambda one: one.score)


@pytest.mark.parametrize("n_likeliest", [1, 2, 3, 99])
@pytest.mark.parametrize(
    "longer", [1, 9]
)  # the longer what the model goes on with, the better is what is left as it was
@pytest.mark.parametrize("end", range(5))
def test_the_best_candidate_of_the_likeliest_places(drafter, monkeypatch, n_likeliest, longer, end):
    monkeypatch.setattr(mending, "PLACES", 99)
    monkeypatch.setattr(mending, "LIKELIEST", n_likeliest)
    encode = drafter.tokenizers.target.encode
    endings = [encode(text) for text in ("Hunde.", "Hunde im Schnee.", "zwei", "", "Ein Mann.")]
    engine = Known([tuple(one * longer) for one in endings[end:] + endings[:end]])
    (found,) = mended(drafter, engine, TEXT, TRANSLATION)
    assert found == by_hand(drafter, engine, n_likeliest=n_likeliest)
    assert len(engine.asked) == min(n_likeliest, 9)


def test_a_number_that_grows_by_what_follows_does_not_count(drafter):
    """Greedy search may go on with another digit: then the word is replaced."""
    digits = tuple(drafter.tokenizers.target.encode("a7"))[-1:]
    (found,) = mended(drafter, Known([digits]), TEXT, TRANSLATION)
    text = drafter.tokenizers.target.decode(found.ids)
    assert (missing(["3"], text), "37" in text) == ([], False)


def test_what_cannot_be_put_back_stays_lost(drafter):
    digits = tuple(drafter.tokenizers.target.encode("a7"))[-1:]
    drafts, found = given(drafter, TEXT, "")
    engine, torn = Known([digits]), drafter.torn(drafts, found)
    assert Mender(cast(Any, engine), drafter).mended(torn, BEAM) == found[0]
    assert len(engine.asked) == 1


def test_several_things_come_back_one_after_the_other_and_none_is_lost_for_another(drafter):
    (found,) = mended(drafter, Known(), "A man {x} sees 3 dogs and 5 of 3.", "Ein Mann sieht 5 Hunde.")
    assert missing(["{x}", "3", "5", "3"], drafter.tokenizers.target.decode(found.ids)) == []


def test_a_thing_touches_what_it_touches_in_the_source_and_nothing_else(drafter, monkeypatch):
    monkeypatch.setattr(mending, "LIKELIEST", 99)
    engine = Known()
    mended(drafter, engine, "A man (#{x}) sees.", "Ein Mann # sieht.")
    decode = drafter.tokenizers.target.decode
    assert {decode(ids) for ids in engine.asked} == {
        "{x}",
        "Ein {x}",
        "Ein Mann {x}",
        "Ein Mann #{x}",
        "Ein Mann # sieht {x}",
        "Ein Mann # sieht. {x}",
    }


def test_what_the_translation_begins_with_stays(drafter):
    prefix = drafter.tokenizers.target.encode("Ein Mann sieht")
    engine = Known()
    (found,) = mended(drafter, engine, TEXT, TRANSLATION, prefixes=["Ein Mann sieht"])
    assert list(found.ids[: len(prefix)]) == prefix
    assert all(list(ids[: len(prefix)]) == prefix for ids in engine.asked)


def test_of_many_places_those_near_the_things_own_are_looked_at(drafter, monkeypatch):
    monkeypatch.setattr(mending, "PLACES", 4)
    translation = " ".join(["zwei"] * 20)
    n_ids = len(drafter.tokenizers.target.encode(translation)) / 20
    for place in (0, 10, 20):
        engine = Known()
        mended(drafter, engine, " ".join(["two"] * place + ["3"] + ["two"] * (20 - place)), translation)
        assert len(engine.asked) == 3
        assert all(abs((len(ids) - 1) / n_ids - place) <= 4 for ids in engine.asked)


def test_where_translations_become_the_same_others_take_their_place_and_draws_stay(drafter):
    torn = drafter.torn(*given(drafter, TEXT, TRANSLATION, TRANSLATION, TRANSLATION))
    mender = Mender(cast(Any, Known()), drafter)
    (found,), (draws,) = (
        mender.mended(torn, options) for options in (SearchOptions(n_best=3), SearchOptions(sample=True, n_best=3))
    )
    assert len({one.ids for one in found}) == 3
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    decode = drafter.tokenizers.target.decode
    assert not any(missing(["3"], decode(one.ids)) for one in found)
    assert draws == [found[0]] * 3


def test_a_translation_that_is_whole_stays(drafter):
    whole = TRANSLATION.replace("zwei", "3")
    torn = drafter.torn(*given(drafter, TEXT, whole, TRANSLATION))
    (found,) = Mender(cast(Any, Known()), drafter).mended(torn, SearchOptions(n_best=2))
    assert found[0] is torn[0].hypotheses[0]
    assert len(found) == 2


# --- with a model -----------------------------------------------------------------------------------------------------

THINGS = ("17", "{x}", "3.50", "%s", "12:30", "{0} 5")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    lines = [source.split() for source, _ in sentence_pairs(12, seed=3)]
    return [" ".join([*line[: i % 3], THINGS[i % 6], *line[i % 3 :]]) for i, line in enumerate(lines)]


@pytest.mark.parametrize("beam", [1, 4])
def test_nothing_is_lost_and_both_engines_do_the_same(trained, tiny, texts, beam):
    found = [one.text for one in tiny.translate_many(texts, beam=beam)]
    assert not any(missing(survivors(text), one) for text, one in zip(texts, found, strict=True))
    assert sum(missing(survivors(text), tiny.translate(text, check=False).text) != [] for text in texts) > 7
    assert found == [
        one.text for one in load(trained.path, engine="torch", device="cpu").translate_many(texts, beam=beam)
    ]
    assert found == [tiny.translate(text, beam=beam).text for text in texts]


def test_candidates_are_different_whole_and_best_first(tiny, texts):
    for one in tiny.translate_many(texts, n_best=4, scores=True):
        scores = [candidate.score for candidate in one.candidates]
        assert scores == sorted(scores, reverse=True)
        assert len({candidate.text for candidate in one.candidates}) == len(scores)
        assert not any(missing(survivors(one.source), candidate.text) for candidate in one.candidates)
    one = tiny.translate("one 17 two.", scores=True)
    (scored,) = tiny.score([one.source], [one.text])
    assert one.log_prob == pytest.approx(scored.log_prob, abs=1e-3)
