import pytest

from attendo.assessment import assess
from attendo.decoding.search import SearchOptions
from attendo.errors import DataError
from attendo.evaluation.scores import score_corpus
from attendo.translator import perplexity
from tests.numerals import sentence_pairs

SOURCES, REFERENCES = zip(*sentence_pairs(30, seed=71), strict=True)


def test_an_assessment_is_the_scores_of_the_translations(tiny):
    found = assess(tiny, SOURCES, REFERENCES, options=SearchOptions(beam=2))
    translations = [one.text for one in tiny.translate_many(SOURCES, beam=2)]
    assert list(found.translations) == translations
    assert found.scores == score_corpus(translations, REFERENCES, target_language="de")
    assert found.perplexity == pytest.approx(perplexity(tiny.score(SOURCES, REFERENCES)))
    assert (found.beam, found.literature, found.comparison) == (2, None, None)
    assert set(found.to_json()) == {"bleu", "chrf", "ter", "sentences", "perplexity", "beam", "search"}
    assert found.in_words()[4:] == ["Search: beam = 2"]


def test_only_what_is_asked_for_is_added(tiny):
    found = assess(tiny, SOURCES, REFERENCES, literature=True, against=tiny, names=("one", "other"), seed=5)
    assert found.literature is not None
    assert found.comparison is not None
    assert found.comparison.names == ("one", "other")
    assert "seed:5" in found.comparison.bleu.signature_bootstrap
    assert set(found.to_json()) >= {"literature", "against"}
    assert len(found.in_words()) == 7


def test_sides_that_do_not_belong_together_are_refused_before_any_work(tiny, monkeypatch):
    monkeypatch.setattr(tiny, "translate_many", None)
    with pytest.raises(DataError, match="30 translations but 29 references"):
        assess(tiny, SOURCES, REFERENCES[:-1])
    with pytest.raises(DataError, match="30 translations but 1 references"):
        assess(tiny, SOURCES, REFERENCES, tokenised_references=["eins ."])
    with pytest.raises(DataError, match="no sentences"):
        assess(tiny, [], [])


def test_the_data_sets_own_tokenised_references_are_used(tiny):
    raw = assess(tiny, SOURCES, REFERENCES, literature=True).literature
    tokenised = [f"{reference[:-1].lower()} ." for reference in REFERENCES]
    same = assess(tiny, SOURCES, REFERENCES, tokenised_references=tokenised).literature
    other = assess(tiny, SOURCES, REFERENCES, tokenised_references=["ganz anders ."] * 30).literature
    assert raw is not None
    assert other is not None
    assert raw == same
    assert other.score < raw.score
