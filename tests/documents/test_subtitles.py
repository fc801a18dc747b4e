"""Subtitles, read again with the srt package."""

from pathlib import Path

import srt

from tests.documents.parsing import parsed, same, shouted, texts

FILM = (Path(__file__).parent / "files" / "film.srt").read_text(encoding="utf-8")


def test_passages():
    assert texts(FILM, "srt") == [
        "Have you seen the little oven?",
        "It was here yesterday, I am sure of it.",
        "Who took it?",
        "Nobody did.",
        "Look <b>there</b>!",
    ]
    assert parsed(FILM, "srt").passages[-1].keep == ("<b>", "</b>")


def test_numbers_times_and_lines_stay():
    before = list(srt.parse(FILM))
    after = list(srt.parse(shouted(parsed(FILM, "srt"))))
    assert len(before) == 6
    for old, new in zip(before, after, strict=True):
        assert (new.index, new.start, new.end, new.proprietary) == (old.index, old.start, old.end, old.proprietary)
        assert new.content.lower() == old.content.lower()
    assert after[0].content == "HAVE YOU SEEN\nTHE LITTLE OVEN?"
    assert after[1].content == "<i>IT WAS HERE YESTERDAY,\nI AM SURE OF IT.</i>"
    assert after[3] == before[3] and after[5] == before[5]


def cue(*lines: str) -> str:
    return "1\n00:00:01,000 --> 00:00:02,000\n" + "\n".join(lines) + "\n"


class TestLines:
    def test_of_about_the_same_length(self):
        two = parsed(cue("One line", "and another"), "srt")
        assert two.filled(["Eine Zeile von vielen und dann noch eine"]) == cue(
            "Eine Zeile von vielen", "und dann noch eine"
        )
        three = parsed(cue("a b", "c d", "e f"), "srt")
        assert three.filled(["aa bb cc dd ee ff"]) == cue("aa bb", "cc dd", "ee ff")

    def test_fewer_where_there_are_not_enough_words(self):
        assert parsed(cue("One line", "and another"), "srt").filled(["Wort"]) == cue("Wort")
        assert parsed(cue("a b", "c d", "e f"), "srt").filled(["ein Wort"]) == cue("ein", "Wort")

    def test_never_inside_a_tag(self):
        two = parsed(cue('So <font color="red">red', "it is</font> now"), "srt")
        assert two.filled(['Rot <font color="red">ist es</font>']) == cue("Rot", '<font color="red">ist es</font>')

    def test_chinese_has_no_spaces(self):
        two = parsed(cue("One line", "and another"), "srt")
        assert two.filled(["一行字，然后又是一行字。"]) == cue("一行字，然后", "又是一行字。")
        assert texts(cue("一行字，", "又一行字。"), "srt") == ["一行字，又一行字。"]

    def test_line_ends_are_the_same(self):
        content = cue("One line", "and another").replace("\n", "\r\n")
        assert parsed(content, "srt").filled(["eins zwei"]) == cue("eins", "zwei").replace("\n", "\r\n")


def test_cues_need_no_numbers_and_no_blank_lines():
    times = "00:00:01,000 --> 00:00:02,000"
    content = f"{times}\nOne\n{times}\nTwo\n\n\n\n\nThree\n3\n0:0:5.0 --> 0:0:6.0\n4"
    assert texts(content, "srt") == ["One", "Two", "Three"]
    assert same(parsed(content, "srt")) == content
