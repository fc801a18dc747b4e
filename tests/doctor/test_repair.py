"""Repairs: what becomes of a damaged text, and that a sound one stays as it is."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attendo.doctor.repair import repair

SOUND = [
    "Zwei Männer – „ja“",
    "naïve café",
    "Привет, мир",
    "我爱你",
    "‘x’ AT&T &c; 5 % …",
    "„MENÜ“",
    "می‌خواهم",
    "👩‍👩‍👧",
]


@pytest.mark.parametrize("text", SOUND)
def test_a_sound_text_stays(text):
    assert repair(text) == text


@pytest.mark.parametrize("text", ["Zwei Männer – „ja“ für 5 €", "naïve café", "Привет, мир", "我爱你", "It’s", "😀"])
def test_mojibake_is_undone(text):
    assert repair(garbled(text)) == text


@pytest.mark.parametrize("text", ["Zwei Männer für 5 €", "naïve café", "It’s"])
def test_mojibake_is_undone_twice(text):
    assert repair(garbled(garbled(text))) == text


def garbled(text: str) -> str:
    """As Windows reads it, with Latin-1 for the five bytes that Windows-1252 lacks."""
    return "".join(
        bytes([byte]).decode("latin-1" if byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D) else "windows-1252")
        for byte in text.encode()
    )


@pytest.mark.parametrize(
    ("text", "better"),
    [
        ("a\0b\x07c", "abc"),
        ("\ufeffa", "a"),
        ("schö\u00adner\u200b", "schöner"),
        ("a  b \t c", "a b c"),
        ("Lounge &amp; Grill", "Lounge & Grill"),
        ("&amp;lt;", "<"),
        ("a&#10;b", "a b"),
        (unicodedata.normalize("NFD", "schön"), "schön"),
        ("a\u2028b", "a\u2028b"),  # only reported
    ],
)
def test_repairs(text, better):
    assert repair(text) == better


@given(st.text(alphabet=st.characters(exclude_characters="\n", exclude_categories=["Cs"])))
def test_what_was_repaired_needs_no_more_repair(text):
    assert repair(repair(text)) == repair(text)
