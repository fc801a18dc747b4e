"""Single pairs: what each check finds, and what it leaves alone."""

import unicodedata

import numpy as np
import pytest

from attendo.doctor.files import Chunk
from attendo.doctor.findings import BY_NAME, KINDS, Findings, bits_for
from attendo.doctor.lines import Lines
from attendo.doctor.pairs import check_pairs

GOOD = [
    ("A man rides a bicycle.", "Ein Mann fährt Fahrrad."),
    ("I paid 1,000.50 dollars.", "Ich zahlte 1.000,50 Dollar."),
    ("It costs 100% more (really).", "Es kostet 100% mehr (wirklich)."),
    ("Berlin", "Berlin"),
    ("“Yes,” she said.", "„Ja“, sagte sie."),
    ('He said "no".', "Er sagte „nein“."),
    ("Hello {name}, see http://a.org/1", "Hallo {name}, siehe http://a.org/1"),
    ("„MENÜ“ is written there", "Dort steht „MENÜ“"),
    ("NÃO and Â are letters", "NÃO und Â sind Buchstaben"),
    ("The year 2000000 came.", "Das Jahr 2000000 kam."),
    ("OK", "好"),
    ("I was born in 1988.", "我生于1988年。"),
    ("very, very good", "sehr, sehr gut"),
    ("AT&T; a mail to me @ home", "AT&T; eine Mail an mich @ Hause"),
    ("We know that 5 < 6 and 7 > 6", "Wir wissen, dass 5 < 6 und 7 > 6"),
]

BAD = [
    ("mojibake", "A nice day", "Ein schÃ¶ner Tag"),
    ("mojibake", "It’s fine", "Itâ€™s fein hier"),
    ("mojibake", "A word here", "ÐŸÑ€Ð¸Ð²ÐµÑ‚ Wort hier"),
    ("lost_characters", "A nice day", "Ein sch\ufffdner Tag"),
    ("bom", "\ufeffA nice day", "Ein Tag"),
    ("control_characters", "A ni\0ce day", "Ein Tag"),
    ("control_characters", "A nice day", "Ein\x9d Tag"),
    ("hidden_characters", "A nice day", "Ein schö\u00adner Tag"),
    ("line_breaks", "A nice\u2028day", "Ein schöner Tag"),
    ("line_breaks", "A nice day", "Ein schöner\rTag"),
    ("not_nfc", "A nice day", unicodedata.normalize("NFD", "Ein schöner Tag")),
    ("empty", "", "Ein Tag"),
    ("empty", "A day", "\u00a0 \u200b"),
    ("identical", "The man is here now", "the man, is here now!"),
    ("too_short", "3.", "3."),
    ("symbols", "|| 12 -- 34 ++ ab", "|| 12 -- 34 ++ ab cd ef gh ij kl mn"),
    ("too_long", "word " * 201, "Wort " * 20),
    ("too_long", "many words here", "x" * 1201),
    ("digits", "It was 1987.", "Es war 1978."),
    ("digits", "It was 1987.", "Es war damals."),
    ("urls", "See www.a.org now", "Siehe dort nach"),
    ("emails", "Write to me", "Schreib an a.b@ex.org bitte"),
    ("placeholders", "Hello {name}, hi", "Hallo du, hallo"),
    ("placeholders", "Hello you there", "Hallo %s, hallo"),
    ("placeholders", "A <b>nice</b> day", "Ein schöner Tag"),
    ("markup", "A <b>nice</b> day", "Ein <b>schöner</b> Tag"),
    ("entities", "Lounge &amp; Grill", "Lounge und Grill"),
    ("brackets", "He (the man is here", "Er (der Mann) ist hier"),
    ("quotes", 'He said "no.', "Er sagte „nein“."),
    ("spaces", "A  nice day", "Ein schöner Tag"),
    ("repeated_words", "the dog the dog the dog", "der Hund ist da heute"),
    ("repeated_words", "no no no never", "nein, niemals wieder"),
    ("repeated_characters", "sooooo nice", "so schön"),
]


def found(source: str, target: str) -> set[str]:
    chunk = Chunk(0, Lines([source]), Lines([target]), np.zeros(1, np.uint64), np.zeros((1, 2), np.bool_))
    return set(check_pairs(chunk).explained().names(0))


@pytest.mark.parametrize(("source", "target"), GOOD)
def test_nothing_is_found_in_a_sound_pair(source, target):
    assert found(source, target) == set()


@pytest.mark.parametrize(("kind", "source", "target"), BAD)
def test_a_fault_is_found_by_its_name_and_on_either_side(kind, source, target):
    assert kind in found(source, target)
    assert kind in found(target, source)


def test_many_pairs_at_once_are_found_as_each_alone():
    pairs = GOOD + [(source, target) for _, source, target in BAD]
    sides = [Lines([text.replace("\n", "") for text in side]) for side in zip(*pairs, strict=True)]
    chunk = Chunk(0, sides[0], sides[1], np.zeros(len(pairs), np.uint64), np.zeros((len(pairs), 2), np.bool_))
    together = check_pairs(chunk).explained()
    assert [set(together.names(number)) for number in range(len(pairs))] == [found(*pair) for pair in pairs]


def test_one_fault_explains_another():
    names = found("", "Siehe www.a.org (dort")
    assert names == {"empty"}


class TestTheTable:
    def test_names_are_unique_and_fit_into_64_bits(self):
        assert len({kind.name for kind in KINDS}) == len(KINDS) <= 64

    def test_what_explains_a_kind_exists_and_is_not_explained_by_it(self):
        for kind in KINDS:
            for name in kind.unless:
                assert kind.name not in BY_NAME[name].unless, (kind.name, name)

    def test_every_kind_says_why_and_what_cleaning_does(self):
        for kind in KINDS:
            assert kind.why.endswith(".")
            assert kind.action in ("drop", "repair", "report")

    def test_findings(self):
        findings = Findings(np.zeros(5, dtype=np.uint64))
        findings.mark("empty", np.array([1, 3]))
        findings.mark("digits", np.array([False, True, False, False, True]))
        assert findings.count("empty") == 2
        assert findings.first("digits", 1) == [1]
        assert findings.names(1) == ["empty", "digits"]
        assert findings.explained().names(1) == ["empty"]
        assert ((findings.bits & bits_for("drop")) != 0).tolist() == [False, True, False, True, False]
