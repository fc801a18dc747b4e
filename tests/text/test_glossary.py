"""Terms and how they are to be translated."""

import pytest

from attendo.errors import DataError
from attendo.text.glossary import Glossary, Term, read_glossary


def found(terms, text):
    return [(term.source, term.target) for term in Glossary(terms).in_text(text)]


def test_whole_words_in_any_case():
    assert found({"man": "Kerl"}, "A man, a Man; a woman and a manor.") == [("man", "Kerl"), ("Man", "Kerl")]


def test_capitals_are_meant():
    assert found({"US": "USA"}, "The US told us.") == [("US", "USA")]


def test_the_longest_of_those_that_begin_first():
    assert found({"bike": "Rad", "mountain bike": "Geländerad"}, "A mountain  bike, a bike.") == [
        ("mountain bike", "Geländerad"),
        ("bike", "Rad"),
    ]


def test_scripts_without_spaces():
    assert found({"自行车": "bicycle"}, "骑自行车的人") == [("自行车", "bicycle")]


def test_terms_that_look_like_patterns():
    assert found({"c++": "C++"}, "Write c++ now.") == [("c++", "C++")]


def test_a_term_may_begin_a_sentence():
    term = Term("bike", "ein Rad")
    assert term.forms() == ("ein Rad", "Ein Rad")
    assert term.times("Ein Rad und ein Rad, kein Radler, ein Radler") == 2


def test_empty_terms_are_refused():
    with pytest.raises(DataError, match="both sides need a text"):
        Glossary({"man": " "})
    with pytest.raises(DataError, match="line breaks"):
        Glossary({"man": "ein\nMann"})


def test_reads_a_file(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_text("# terms\nman\tKerl\n\nmountain  bike\tGeländerad \n", encoding="utf-8")
    assert read_glossary(str(path)).terms == {"man": "Kerl", "mountain bike": "Geländerad"}


@pytest.mark.parametrize(
    ("line", "words"),
    [("man", "one tab"), ("man\tKerl\tx", "one tab"), ("\tKerl", "one tab"), ("man\tKerl\nman\tMann", "there before")],
)
def test_a_bad_line_is_named(tmp_path, line, words):
    path = tmp_path / "terms.tsv"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=words):
        read_glossary(str(path))
