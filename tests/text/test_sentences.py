"""Sentences, and that nothing between them is lost."""

import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attendo.text.sentences import split_sentences


def joined(parts: list[tuple[str, str]]) -> str:
    return "".join(sentence + space for sentence, space in parts)


def sentences(text: str, language: str = "en") -> list[str]:
    parts = split_sentences(text, language)
    assert joined(parts) == text
    return [sentence for sentence, _ in parts]


class TestSentences:
    @pytest.mark.parametrize(
        ("text", "language", "expected"),
        [
            ("One man. Two dogs! Three? Yes.", "en", ["One man.", "Two dogs!", "Three?", "Yes."]),
            ("Dr. Smith met Mrs. Jones. They spoke.", "en", ["Dr. Smith met Mrs. Jones.", "They spoke."]),
            ("Use fruit, e.g. apples. Wash it.", "en", ["Use fruit, e.g. apples.", "Wash it."]),
            ("Es gibt Obst, z. B. Äpfel. Sie sind gut.", "de", ["Es gibt Obst, z. B. Äpfel.", "Sie sind gut."]),
            ("Prof. Dr. Huber kommt am 3. Mai. Er bleibt.", "de", ["Prof. Dr. Huber kommt am 3. Mai.", "Er bleibt."]),
            ("It costs 3.14 at example.org. Buy it.", "en", ["It costs 3.14 at example.org.", "Buy it."]),
            ("我今天去了北京。天气很好！你呢？", "zh", ["我今天去了北京。", "天气很好！", "你呢？"]),
            ("今日は。元気ですか？はい。", "ja", ["今日は。", "元気ですか？", "はい。"]),
            ("你好。再见。", "zh-CN", ["你好。", "再见。"]),
            ("Olá. Tudo bem?", "pt_BR", ["Olá.", "Tudo bem?"]),
            ("यह एक है। यह दो है।", "hi", ["यह एक है।", "यह दो है।"]),
            ("هذا واحد. وهذا اثنان؟ نعم.", "ar", ["هذا واحد.", "وهذا اثنان؟", "نعم."]),
            ("One. Two. 你好。再见。", "xx", ["One.", "Two.", "你好。", "再见。"]),
            ("One. Two.", "", ["One.", "Two."]),
            ("Yes. Yes. Yes.", "en", ["Yes.", "Yes.", "Yes."]),
            ("no end", "en", ["no end"]),
        ],
    )
    def test_of_many_languages(self, text, language, expected):
        assert sentences(text, language) == expected

    @pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r", "\n\n", "\u2028", "\x85"])
    def test_a_line_break_ends_a_sentence(self, line_end):
        assert split_sentences(f"Without a point{line_end}and on. Then{line_end}", "en") == [
            ("Without a point", line_end),
            ("and on.", " "),
            ("Then", line_end),
        ]


class TestWhiteSpace:
    def test_belongs_to_the_sentence_before_it(self):
        text = " \tOne.  Two.\t\n\n   Three. \r\n"
        assert split_sentences(text, "en") == [("", " \t"), ("One.", "  "), ("Two.", "\t\n\n   "), ("Three.", " \r\n")]

    @pytest.mark.parametrize("text", [" ", "\n\n", "\u3000"])
    def test_alone_follows_an_empty_sentence(self, text):
        assert split_sentences(text, "en") == [("", text)]

    def test_nothing_is_nothing(self):
        assert split_sentences("", "en") == []


PARTS = st.sampled_from(["a", "B", "Dr.", "z. B.", "1", ".", "!", "?", "。", "’", '"', "“", ")", "(", " ", "  ", "\t"])
MORE = st.sampled_from(
    ["\n", "\r\n", "\xa0", "\u3000", "\x1c", "中", "ا", "\U0001f600", "e\u0301", "\ud800", "1. ", "- "]
)


@settings(max_examples=200)
@given(st.lists(PARTS | MORE, max_size=30).map("".join), st.sampled_from(["en", "de", "zh", "ja", "ar", "hi", "xx"]))
def test_nothing_is_lost(text, language):
    parts = split_sentences(text, language)
    assert joined(parts) == text
    assert all(space == "" or space.isspace() for _, space in parts)
    assert all(sentence and sentence == sentence.strip() for sentence, _ in parts[1:])
    assert all("\n" not in sentence for sentence, _ in parts)


@settings(max_examples=100)
@given(st.text(max_size=80))
def test_any_unicode(text):
    assert joined(split_sentences(text, "en")) == text


def test_a_long_line_is_cut_as_a_short_one_is():
    text = "".join(f'Sentence {i} says "this is e.g. one" of them. ' for i in range(2000))
    parts = split_sentences(text, "en")
    assert len(text) > 60_000
    assert [sentence for sentence, _ in parts] == [
        f'Sentence {i} says "this is e.g. one" of them.' for i in range(2000)
    ]


@pytest.mark.parametrize("unit", ["A sentence is here. ", '"A quote." ', "word ", "一句话。", "x", "(a. "])
def test_the_time_grows_with_the_text_not_its_square(unit):
    def seconds(n: int) -> float:
        """The least of three, as a busy machine only ever makes it more."""
        text, spent = (unit * n)[:n], []
        for _ in range(3):
            began = time.process_time()
            assert joined(split_sentences(text, "en")) == text
            spent.append(time.process_time() - began)
        return min(spent)

    assert seconds(120_000) < 30 * max(seconds(15_000), 0.004)


def test_the_library_is_loaded_only_when_it_is_used():
    program = "import sys, attendo.text.sentences; print('sentencex' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
