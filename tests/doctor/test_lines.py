"""Everything that is asked of all lines at once, compared with asking each line in turn."""

import re
from collections import Counter

import numpy as np
import pytest

from attendo.doctor.lines import BREAK, CONTROL, DIGIT, LETTER, Lines, characters

TEXTS = ["Zwei Männer.", "", "a-b c_d 12x", "我爱 you", "ΑΒΓ абв", "\x00 \u2028", "don't stop", "𠀀 ok", " ", "ünï ÜNÏ"]


@pytest.fixture(scope="module")
def lines() -> Lines:
    return Lines(TEXTS)


def test_lines_come_back(lines):
    assert [lines[number] for number in range(len(lines))] == TEXTS
    assert lines.lengths.tolist() == [len(text) for text in TEXTS]
    assert len(Lines([])) == 0


def test_sums_by_line(lines):
    values = np.arange(1, len(lines.codes) + 1)
    starts = np.cumsum([0] + [len(text) + 1 for text in TEXTS])
    slow = [values[start : start + len(text)].sum() for start, text in zip(starts, TEXTS, strict=False)]
    assert lines.each(values).tolist() == slow


@pytest.mark.parametrize(
    ("kind", "test"),
    [
        (LETTER, str.isalpha),
        (DIGIT, str.isnumeric),
        (CONTROL, lambda character: character == "\0"),
        (BREAK, lambda character: character == "\u2028"),
    ],
)
def test_kinds_of_characters(lines, kind, test):
    assert lines.having(kind).tolist() == [any(map(test, text)) for text in TEXTS]


def test_words_are_runs_of_letters_and_digits_and_single_characters_of_chinese(lines):
    counts = [2, 0, 5, 3, 2, 0, 3, 2, 0, 2]
    assert lines.words.counts.tolist() == counts
    assert lines.words.lines.tolist() == [line for line, count in enumerate(counts) for _ in range(count)]


def test_equal_words_have_equal_hashes_whatever_their_case_and_line():
    words = Lines(["Hund hund HUND Katze", "katze Hunde"]).words
    assert len(set(words.hashes[:3].tolist())) == 1
    assert words.hashes[3] == words.hashes[4]
    assert len(set(words.hashes.tolist())) == 3
    assert len(set(words.stems.tolist())) == 3  # hund, katze, hunde: five characters tell them apart
    assert Lines(["Hundehaus"]).words.stems == Lines(["Hundehütte"]).words.stems


def test_hashes_tell_lines_apart_and_skeletons_only_letters():
    texts = ["a b", "b a", "a  b", "A, B!", "a b", "", "ab" * 3000, "ab" * 2999 + "aa"]
    lines = Lines(texts)
    assert Counter(lines.hashes.tolist())[int(lines.hashes[0])] == 2
    assert len(set(lines.hashes.tolist())) == len(set(texts))
    same = lines.skeletons == lines.skeletons[0]
    assert same.tolist() == [True, False, True, True, True, False, False, False]
    assert Lines(["a b", "x"]).hashes[0] == Lines(["y", "a b"]).hashes[1]


def test_the_main_script_of_a_line(lines):
    names = [characters().names[number] for number in lines.main_scripts]
    assert names == ["Latin", "", "Latin", "Han", "Greek", "", "Latin", "Han", "", "Latin"]
    assert [characters().names[number] for number in Lines(["我用Twitter", "Tom 我 is here"]).main_scripts] == [
        "Han",
        "Latin",
    ]


def test_patterns_are_looked_for_where_a_hint_is():
    lines = Lines(["<b>", "b", "a < b", "<i> <b>", "<b> <i>"])
    pattern = re.compile("<.>")
    among = lines.lines_with("<")
    assert among.tolist() == [0, 2, 3, 4]
    assert lines.matching(pattern, among).tolist() == [True, False, False, True, True]
    sums = lines.sums(pattern, among)
    assert sums[3] == sums[4] != sums[0]
    assert sums[1] == sums[2] == 0
