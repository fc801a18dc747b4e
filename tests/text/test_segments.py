"""Cutting long texts."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attendo.text.segments import split_long
from attendo.text.tokenizer import train_tokenizer


def split(text: str, limit: int) -> list[str]:
    """Counted in characters."""
    return [part for part, _ in split_long(text, limit=limit, count=len)]


def joined(parts: list[tuple[str, str]]) -> str:
    return "".join(part + space for part, space in parts)


class TestPlaces:
    def test_a_text_within_the_limit_stays_whole(self):
        assert split_long("One. Two, three.", limit=16, count=len) == [("One. Two, three.", "")]
        assert split_long("", limit=5, count=len) == [("", "")]

    def test_sentences_first_as_many_together_as_fit(self):
        text = "One, two. Three! Four?  Five… Six"
        assert split_long(text, limit=17, count=len) == [("One, two. Three!", " "), ("Four?  Five… Six", "")]
        assert split_long(text, limit=16, count=len) == [("One, two. Three!", " "), ("Four?  Five… Six", "")]
        assert split_long(text, limit=12, count=len) == [
            ("One, two.", " "),
            ("Three! Four?", "  "),
            ("Five… Six", ""),
        ]

    def test_then_clauses(self):
        text = "Short. A long one, with a comma; and more: see (there) – or here."
        assert split(text, 20) == ["Short.", "A long one,", "with a comma;", "and more:", "see (there) –", "or here."]

    def test_then_words(self):
        assert split("one two three four. five", 9) == ["one two", "three", "four.", "five"]

    def test_then_anywhere(self):
        assert split("one abcdefghijk two", 5) == ["one", "abcde", "fghij", "k", "two"]

    def test_a_point_inside_a_number_or_a_name_is_no_end(self):
        assert split("It costs 3.14 at example.org today", 25) == ["It costs 3.14 at", "example.org today"]

    def test_chinese(self):
        text = "我今天去了北京。天气很好，我很高兴！你呢？"
        assert split(text, 13) == ["我今天去了北京。", "天气很好，我很高兴！你呢？"]
        assert split(text, 12) == ["我今天去了北京。", "天气很好，我很高兴！", "你呢？"]
        assert split(text, 8) == ["我今天去了北京。", "天气很好，", "我很高兴！", "你呢？"]
        assert split(text, 3) == ["我今天", "去了北", "京。", "天气很", "好，", "我很高", "兴！", "你呢？"]

    def test_the_white_space_of_a_cut_belongs_to_no_part(self):
        text = "很好。 \u3000很好。  One.\t\tTwo.\u2028Three."
        assert split_long(text, limit=6, count=len) == [
            ("很好。", " \u3000"),
            ("很好。", "  "),
            ("One.", "\t\t"),
            ("Two.", "\u2028"),
            ("Three.", ""),
        ]

    def test_white_space_within_a_part_counts(self):
        text = "one" + " " * 50 + "two"
        assert split_long(text, limit=20, count=len) == [("one", " " * 50), ("two", "")]

    def test_white_space_at_the_ends_is_kept(self):
        assert joined(split_long("  one two. three  ", limit=6, count=len)) == "  one two. three  "

    def test_a_character_over_the_limit_is_a_part(self):
        assert split_long("aéb", limit=1, count=lambda text: len(text.encode())) == [("a", ""), ("é", ""), ("b", "")]


TEXTS = st.text(alphabet="ab .,!。，\n\u3000é", max_size=120)


@given(TEXTS, st.integers(1, 30))
def test_nothing_is_lost_and_every_part_is_within_the_limit(text, limit):
    parts = split_long(text, limit=limit, count=len)
    assert joined(parts) == text
    assert all(len(part) <= limit for part, _ in parts)
    assert all(space == "" or space.isspace() for _, space in parts)
    assert all(part for part, _ in parts) or text == ""


@given(st.text(max_size=80), st.integers(1, 12))
def test_any_unicode_counted_in_bytes(text, limit):
    parts = split_long(text, limit=limit, count=lambda part: len(part.encode("utf-8", "surrogatepass")))
    assert joined(parts) == text
    assert all(len(part) <= 1 or len(part.encode("utf-8", "surrogatepass")) <= limit for part, _ in parts)


@pytest.mark.parametrize("unit", ["x", "字", "word ", "Short one. ", "一句话。"])
def test_the_work_grows_with_the_text_not_its_square(unit):
    text = (unit * 100_000)[:100_000]
    counted = 0

    def count(part: str) -> int:
        nonlocal counted
        counted += len(part)
        return len(part)

    parts = split_long(text, limit=256, count=count)
    assert joined(parts) == text
    assert max(len(part) for part, _ in parts) <= 256
    assert counted < 30 * len(text)


def test_a_long_text_with_a_real_tokenizer():
    tokenizer = train_tokenizer(["the cat sat on the mat", "a dog ran away"] * 10, kind="bpe", vocab_size=300)
    text = "xqzj" * 25_000
    began = time.process_time()
    parts = split_long(text, limit=256, count=lambda part: len(tokenizer.encode(part)))
    assert time.process_time() - began < 20  # a second or two
    assert joined(parts) == text
    sizes = [len(tokenizer.encode(part)) for part, _ in parts]
    assert max(sizes) <= 256
    assert min(sizes[:-1]) > 200  # no more parts than needed
