"""What a translation must take over as it stands."""

import pytest

from attendo.text.survivors import has_words, missing, occurrences, survivors, tags


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A man rides a bicycle.", []),
        ("Hello {name}, you have {count} messages.", ["{name}", "{count}"]),
        ("Hello {}, {0} and {{user.name}} and ${HOME}.", ["{}", "{0}", "{{user.name}}", "${HOME}"]),
        ("%s of %d, %1$s, %(name)s, %.2f%%", ["%s", "%d", "%1$s", "%(name)s", "%.2f"]),
        ("100% sure, 5 % down", ["100", "5"]),
        ("It costs 3.50 or 1,000,000 at 12:30 on 24/12.", ["3.50", "1,000,000", "12:30", "24/12"]),
        ("-5 degrees, room 12b", ["-5", "12"]),
        (
            "See https://example.org/a?b=1&c=2, or www.example.org.",
            ["https://example.org/a?b=1&c=2", "www.example.org"],
        ),
        ("Write to first.last+tag@example.co.uk.", ["first.last+tag@example.co.uk"]),
        ('A <b>bold</b> man<br/> in <a href="x.html">red</a>', ["<b>", "</b>", "<br/>", '<a href="x.html">', "</a>"]),
        ("1 < 2 and 3 > 2", ["1", "2", "3", "2"]),
        ("房间12号", ["12"]),
    ],
)
def test_finds(text, found):
    assert survivors(text) == found


def test_tags_alone():
    assert tags("A <b>man</b> of 5 < 6.") == ["<b>", "</b>"]


def test_what_is_missing_counts():
    assert missing(["3", "3", "{name}"], "3 {name}") == ["3"]
    assert missing(["3"], "30 men, 13 women, 3.") == []
    assert missing(["3"], "30 men, 13 women") == ["3"]


def test_a_number_inside_a_longer_one_is_not_it():
    assert occurrences("3", "30") == 0
    assert occurrences("3", "3 men, 3.") == 2


def test_placeholders_need_no_border():
    assert occurrences("{name}", "x{name}y{name}") == 2


def test_scripts_without_spaces_touch():
    assert occurrences("自行车", "骑自行车的人") == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", False), ("12:30 {name} <br/> …", False), ("5 men", True), ("人", True), ("https://example.org", False)],
)
def test_whether_there_is_anything_to_translate(text, expected):
    assert has_words(text) is expected
