"""Which language a text is in."""

import functools

import pytest

from attendo.serving.detection import Detector
from attendo.serving.limits import Refusal

TEXTS = {
    "en": "Two young people are sitting outside near many bushes.",
    "de": "Zwei junge Leute sitzen im Freien in der Nähe vieler Büsche.",
    "fr": "Deux jeunes gens sont assis dehors près de nombreux buissons.",
    "zh": "两个年轻人坐在外面的灌木丛旁边。",
}


@functools.cache
def detector(*languages: str) -> Detector:
    """Which takes half a second to make."""
    return Detector(languages)


@pytest.mark.parametrize("language", TEXTS)
def test_the_languages_of_the_models(language):
    found = detector(*TEXTS).detect(TEXTS[language])
    assert found[0].language == language
    assert sorted(one.language for one in found) == sorted(TEXTS)
    assert sum(one.probability for one in found) == pytest.approx(1)
    assert [one.probability for one in found] == sorted((one.probability for one in found), reverse=True)


def test_only_some_of_them():
    found = detector(*TEXTS).detect(TEXTS["de"], among=["en", "zh"])
    assert [one.language for one in found] == ["en", "zh"]
    assert sum(one.probability for one in found) == pytest.approx(1)


def test_codes_with_a_region_or_a_script():
    assert Detector(["en_GB", "zh-Hans"]).detect(TEXTS["zh"])[0].language == "zh-Hans"


def test_a_language_that_nobody_knows():
    assert Detector(["xx", "de"]).detect(TEXTS["fr"])[0].language == "de"
    assert [one.probability for one in Detector(["xx", "yy"]).detect("one")] == [0.5, 0.5]


def test_the_only_language_needs_no_text():
    (one,) = Detector(["de"]).detect("")
    assert (one.language, one.probability) == ("de", 1.0)


@pytest.mark.parametrize("text", ["", " ", "7", "\x00", "\U0010ffff"])
def test_texts_without_words(text):
    assert len(detector("en", "de").detect(text)) == 2


def test_no_language():
    with pytest.raises(Refusal, match="no model translates"):
        Detector([]).detect("one")
