"""Texts cut for a model and put together again, without a model: what it would find is given."""

import pytest

from attendo.decoding.search import Hypothesis, SearchOptions
from attendo.drafting import MANY, Draft, Drafter, Translation
from attendo.errors import ConfigError, DataError
from attendo.text.glossary import Glossary
from attendo.text.pair import TokenizerPair
from attendo.text.tokenizer import train_tokenizer

LINES = [
    "A man rides a bicycle.",
    "Ein Mann fährt Rad.",
    "Two dogs run in the snow. They are happy.",
    "Zwei Hunde rennen im Schnee. Sie sind froh.",
]


@pytest.fixture(scope="module")
def drafter() -> Drafter:
    tokenizer = train_tokenizer(LINES * 3, kind="bpe", vocab_size=350)
    return Drafter(TokenizerPair(tokenizer, tokenizer), max_length=40, language="en")


def draft(drafter: Drafter, text: str, **kwargs: object) -> Draft:
    (found,) = drafter.drafts([text], **kwargs)  # type: ignore[arg-type]
    return found


def read(drafter: Drafter, text: str, **kwargs: object) -> list[str]:
    """What the model is given."""
    return [drafter.tokenizers.source.decode(one.ids) for one in draft(drafter, text, **kwargs).sentences]


def hypothesis(drafter: Drafter, text: str, *, finished: bool = True) -> Hypothesis:
    ids = tuple(drafter.tokenizers.target.encode(text))
    log_probs = (-0.5,) * (len(ids) + 1)
    return Hypothesis(ids=ids, log_prob=sum(log_probs), score=-1.0, token_log_probs=log_probs, finished=finished)


def finished(drafter: Drafter, text: str, *translations: str, **kwargs: object) -> Translation:
    found = [[hypothesis(drafter, one)] for one in translations]
    return drafter.finish(draft(drafter, text, **kwargs), found, None)


class TestCutting:
    def test_one_sentence(self, drafter):
        assert read(drafter, "A man rides.") == ["A man rides."]

    def test_several_sentences_and_all_white_space_kept(self, drafter):
        text = "  A man rides.  Two dogs run.\n\n\tThey are happy.\n"
        assert read(drafter, text) == ["A man rides.", "Two dogs run.", "They are happy."]
        assert finished(drafter, text, "Eins.", "Zwei.", "Drei.").text == "  Eins.  Zwei.\n\n\tDrei.\n"

    def test_without_splitting_a_line_is_a_sentence(self, drafter):
        text = " A man rides. Two dogs run. "
        assert read(drafter, text, split=False) == ["A man rides. Two dogs run."]
        assert finished(drafter, text, "Eins. Zwei.", split=False).text == "Eins. Zwei."

    @pytest.mark.parametrize("text", ["", " ", "\n", " \t ", "...", "12:30", "{name}", "<br/>", "— 5 % —", "\u3000"])
    def test_nothing_to_translate_stays_as_it_is(self, drafter, text):
        assert draft(drafter, text).sentences == ()
        assert finished(drafter, text).text == text

    def test_a_long_sentence_is_cut_further_and_that_is_said(self, drafter):
        text = "a man rides, " * 20 + "and so on."
        cut = draft(drafter, text)
        assert len(cut.sentences) > 1
        assert all(len(one.ids) <= 40 for one in cut.sentences)
        assert [one.part for one in cut.sentences] == list(range(len(cut.sentences)))
        found = [[hypothesis(drafter, "x y")] for _ in cut.sentences]
        assert "long" in [one.kind for one in drafter.finish(cut, found, None).warnings]

    def test_the_first_sentence_has_the_prefix(self, drafter):
        first, second = draft(drafter, "A man. A dog.", prefixes=["Ein"]).sentences
        assert first.prefix == tuple(drafter.tokenizers.target.encode("Ein"))
        assert second.prefix == ()

    def test_candidates_are_scored_together(self, drafter):
        cut = draft(drafter, "A man. A dog.")
        found = [[hypothesis(drafter, "Ein Mann.")], [hypothesis(drafter, "Ein Hund.")]]
        best = drafter.finish(cut, found, SearchOptions(length_penalty="none")).candidates[0]
        assert best.log_prob == best.score == sum(one[0].log_prob for one in found)
        assert [one.log_prob for one in best.pieces] == [-0.5] * sum(len(one[0].token_log_probs) for one in found)


class TestMarkup:
    def test_tags_at_the_ends_are_kept_outside(self, drafter):
        text = "<p><b>A man rides.</b> Two dogs run.</p>"
        assert read(drafter, text) == ["A man rides.", "Two dogs run."]
        assert finished(drafter, text, "Eins.", "Zwei.").text == "<p><b>Eins.</b> Zwei.</p>"

    def test_tags_inside_are_not_read_and_not_searched_for_but_placed(self, drafter):
        cut = draft(drafter, "A <b>man</b> rides.")
        assert read(drafter, "A <b>man</b> rides.") == ["A man rides."]
        assert cut.sentences[0].phrases == ()
        assert finished(drafter, "A <b>man</b> rides.", "Ein Mann fährt.").text == "Ein <b>Mann</b> fährt."

    def test_tags_follow_the_alignment_where_it_is_known(self, drafter):
        (sentence,) = draft(drafter, "A <b>man</b> rides.").sentences
        found = hypothesis(drafter, "Fährt ein Mann.")
        spans = drafter.tokenizers.target.spans(found.ids)
        man = next(i for i, (start, _) in enumerate(drafter.tokenizers.source.spans(sentence.ids)) if start >= 1)
        pieces = [0 if end <= 9 else man for _, end in spans]
        cut = draft(drafter, "A <b>man</b> rides.")
        assert drafter.to_align([cut], [[[found]]]) == [(sentence.ids, found.ids)]
        links = {(sentence.ids, found.ids): pieces}
        assert drafter.finish(cut, [[found]], None, links).text == "Fährt ein <b>Mann</b>."

    @pytest.mark.parametrize(
        ("text", "seen"),
        [
            ("A man<br/>rides.", "A man rides."),
            ("A man<br/><img>rides.", "A man rides."),
            ("A <b>m</b>an rides.", "A man rides."),
            ("A man,<br/>a dog", "A man,a dog"),
            ("人<br/>犬", "人犬"),
        ],
    )
    def test_a_lone_tag_between_letters_parts_two_words(self, drafter, text, seen):
        assert read(drafter, text) == [seen]

    def test_and_touches_both_where_it_is_placed(self, drafter):
        assert finished(drafter, "A man<br/>rides.", "Ein Mann fährt.").text == "Ein Mann<br/>fährt."

    def test_what_the_prefix_has_is_not_placed_again(self, drafter):
        text = finished(drafter, "A <b>man</b> rides.", "Ein <b>Mann fährt.", prefixes=["Ein <b>"]).text
        assert (text.count("<b>"), text.count("</b>")) == (1, 1)

    def test_without_markup_nothing_is_aligned(self, drafter):
        cut = draft(drafter, "<p>A man rides.</p> 5 men.")
        assert drafter.to_align([cut], [[[hypothesis(drafter, "x")]] * 2]) == []

    def test_what_a_format_keeps(self, drafter):
        text = "Run **the** `dog` [here](x.md)."
        keep = ["**", "**", "`dog`", "[", "](x.md)"]
        cut = draft(drafter, text, keep=[keep])
        assert read(drafter, text, keep=[keep]) == ["Run the `dog` here."]
        assert [one.text for one in cut.sentences[0].core.things] == ["**", "**", "[", "](x.md)"]
        assert cut.wishes is not None
        assert cut.wishes[0].kept == ("`dog`",)

    def test_keeping_what_is_not_there_is_refused(self, drafter):
        with pytest.raises(DataError, match="is not in the text"):
            drafter.drafts(["A man."], keep=[["<b>"]])

    def test_a_sentence_is_not_cut_inside_a_tag(self, drafter):
        text = 'See <a title="A man. A dog.">the dog</a> run.'
        assert read(drafter, text) == ["See the dog run."]


class TestWhatMustSurvive:
    def test_what_lost_a_placeholder_is_mended_not_searched_again(self, drafter):
        cut, lossy = draft(drafter, "Hello {x}, see 12 dogs."), hypothesis(drafter, "Hallo, siehe 12 Hunde.")
        whole = hypothesis(drafter, "Hallo {x}, siehe 12 Hunde.")
        assert drafter.again([cut], [[[lossy]]]) == []
        (torn,) = drafter.torn([cut], [[[lossy, whole]]])
        assert (torn.draft, torn.number, torn.sentence, torn.hypotheses) == (0, 0, cut.sentences[0], (lossy, whole))
        found = [[[lossy, whole]]]
        drafter.put_back(found, [torn], [[whole]])
        assert found == [[[whole]]]
        assert drafter.torn([cut], found) == []

    def test_what_cannot_be_mended_is_placed_in_the_end(self, drafter):
        drafts, found = [draft(drafter, "Hello {x}, see 12 dogs.")], [[[hypothesis(drafter, "Hallo 12.")]]]
        (again,) = drafter.again(drafts, found, last=True)
        assert drafter.tokenizers.source.decode(again.sentence.ids) == "Hello, see dogs."
        assert (again.wish.kept, again.sentence.phrases) == ((), ())
        drafter.improve(drafts, found, [again], [[hypothesis(drafter, "Hallo, siehe Hunde.")]])
        assert drafter.finish(drafts[0], found[0], None).text == "Hallo {x}, siehe 12 Hunde."

    def test_much_that_was_lost_is_placed(self, drafter):
        many = " ".join(["%s"] * (MANY + 1))
        drafts, found = [draft(drafter, f"A {many} man rides.")], [[[hypothesis(drafter, "Ein Mann fährt.")]]]
        (again,) = drafter.again(drafts, found)
        assert drafter.tokenizers.source.decode(again.sentence.ids) == "A man rides."
        few = draft(drafter, f"A {many.removesuffix(' %s')} man rides.")
        assert drafter.again([few], [[[hypothesis(drafter, "Ein Mann fährt.")]]]) == []

    def test_much_of_it_in_a_long_sentence_is_not_even_read(self, drafter):
        assert read(drafter, "%s " * 100 + "a man.") == ["a man."]

    def test_better_is_what_lost_less(self, drafter):
        cut = draft(drafter, "Hello {x}, see 12 dogs.", glossary=Glossary({"dogs": "Köter"}))
        worse, better = ([hypothesis(drafter, one)] for one in ("Hallo {x} 12.", "Hallo {x} 12 Köter."))
        for old, new, kept in ((worse, better, better), (worse, [], worse), (worse, worse[:], worse)):
            drafts, found = [cut], [[old]]
            again = drafter.again(drafts, found)
            drafter.improve(drafts, found, again, [new])
            assert found[0][0] is kept

    @pytest.mark.parametrize("url", ["https://example.org/a?b=c#d", "https://example.org/" + "a/b" * 160])
    def test_a_long_address_that_was_lost_is_left_out_and_placed(self, drafter, url):
        text = f"A man and a dog (see {url}) run 5 times."
        drafts = [draft(drafter, text)]
        found = [[[hypothesis(drafter, "Ein Mann rennt 5 Mal.")] for _ in drafts[0].sentences]]
        again = drafter.again(drafts, found)
        if again:  # one that makes a sentence too long is never read
            (one,) = again
            assert drafter.tokenizers.source.decode(one.sentence.ids) == "A man and a dog (see) run 5 times."
            assert (one.wish.kept, one.sentence.phrases) == (("5",), ())
            drafter.improve(
                drafts, found, again, [[hypothesis(drafter, "Ein Mann und ein Hund (siehe) rennen 5 Mal.")]]
            )
        else:
            assert read(drafter, text) == ["A man and a dog (see) run 5 times."]
        done = drafter.finish(drafts[0], found[0], None)
        assert url in done.text
        assert "lost" not in [one.kind for one in done.warnings]

    def test_brackets_go_with_the_address_in_them(self, drafter):
        text = "A man (https://example.org/abcdefg) rides."
        (again,) = drafter.again([draft(drafter, text)], [[[hypothesis(drafter, "Ein Mann.")]]])
        assert drafter.tokenizers.source.decode(again.sentence.ids) == "A man rides."
        assert [one.text for one in again.sentence.core.things] == ["(https://example.org/abcdefg)"]

    def test_what_stays_lost_is_said(self, drafter):
        (warning,) = finished(drafter, "Hello {name}.", "Hallo.").warnings
        assert (warning.kind, "'{name}'" in warning.message) == ("lost", True)

    def test_nothing_is_looked_for_without_check(self, drafter):
        assert finished(drafter, "Hello {name}.", "Hallo.", check=False).warnings == ()
        assert drafter.again([draft(drafter, "Hello {name}.", check=False)], [[[hypothesis(drafter, "Hallo.")]]]) == []

    def test_a_translation_that_was_cut(self, drafter):
        cut = draft(drafter, "A man rides.")
        found = drafter.finish(cut, [[hypothesis(drafter, "Ein", finished=False)]], None)
        assert [one.kind for one in found.warnings] == ["cut"]


class TestGlossary:
    def test_terms_and_whether_they_were_used(self, drafter):
        glossary = Glossary({"man": "Kerl", "dog": "Köter"})
        text = "A man and a dog."
        assert drafter.again([draft(drafter, text, glossary=glossary)], [[[hypothesis(drafter, "Ein Mann.")]]])
        found = finished(drafter, text, "Ein Kerl und ein Hund.", glossary=glossary)
        assert [(one.source, one.target, one.used) for one in found.terms] == [
            ("man", "Kerl", True),
            ("dog", "Köter", False),
        ]
        assert [one.kind for one in found.warnings] == ["lost"]

    def test_a_lost_term_is_searched_for_with_what_else_must_be_held(self, drafter):
        cut = draft(drafter, "Hello {x}, see 12 dogs.", glossary=Glossary({"dogs": "alle Hunde"}))
        lossy = [[[hypothesis(drafter, "Hallo {x}, siehe 12.")]]]
        (again,) = drafter.again([cut], lossy)
        decode = drafter.tokenizers.target.decode
        phrases = [{decode(one) for one in phrase.alternatives} for phrase in again.sentence.phrases]
        assert phrases == [{"{x}"}, {"12"}, {"alle Hunde", "Alle Hunde"}]
        assert again.sentence.limit > cut.sentences[0].limit
        assert drafter.torn([cut], lossy) == []
        assert drafter.again([cut], lossy, most=2) == []
        assert drafter.again([cut], lossy, last=True) == []

    def test_a_term_may_begin_the_sentence(self, drafter):
        glossary = Glossary({"dogs": "alle Hunde"})
        assert finished(drafter, "Dogs run.", "Alle Hunde rennen.", glossary=glossary).terms[0].used


def test_a_limit_beyond_learned_positions_is_refused():
    tokenizer = train_tokenizer(LINES, kind="bpe", vocab_size=320)
    short = Drafter(TokenizerPair(tokenizer, tokenizer), max_length=20, longest_target=30)
    with pytest.raises(ConfigError, match="max_length = 31: must be at most 30"):
        short.drafts(["A man."], max_length=31)


def test_phrases_have_room_as_far_as_learned_positions_reach():
    tokenizer = train_tokenizer(LINES, kind="bpe", vocab_size=320)
    text, glossary = "A man rides.", Glossary({"man": "Kerl"})
    limits = {}
    for longest in (None, 100, 60, 40):
        drafter = Drafter(TokenizerPair(tokenizer, tokenizer), max_length=20, longest_target=longest)
        cut = draft(drafter, text, glossary=glossary)
        (again,) = drafter.again([cut], [[[hypothesis(drafter, "Ein Mann.")]]])
        limits[longest] = cut.sentences[0].limit, again.sentence.limit
    before, after = limits[None]
    assert after > before
    assert limits[100] == (before, after)  # they are not in the way
    assert limits[60] == (min(before, 60), min(after, 60))
    assert limits[40] == (40, 40)
