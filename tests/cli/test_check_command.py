"""`attendo check`, and what `attendo train` says of its corpus."""

import json
from html.parser import HTMLParser

import pytest

from tests.cli.command import TINY, attendo, unchanged
from tests.doctor.corpora import sample_pairs, write_pairs


@pytest.fixture(scope="module")
def pairs():
    return sample_pairs()[:60]


@pytest.fixture
def files(pairs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path, pairs)
    write_pairs(tmp_path, [*pairs[:30], (pairs[30][0], ""), *pairs[31:]], "empty")
    write_pairs(tmp_path, pairs[:5], "test")
    lines = (tmp_path / "train.de").read_bytes().splitlines(keepends=True)
    (tmp_path / "short.de").write_bytes(b"".join(lines[:20] + lines[21:]))
    (tmp_path / "latin.de").write_bytes(b"".join([*lines[:20], b"f\xfcr\n", *lines[21:]]))
    return tmp_path


class Balanced(HTMLParser):
    """Whether every element of a page is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):  # noqa: ARG002
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_a_sound_corpus(files):  # noqa: ARG001
    result = attendo("check", "train.en", "train.de")
    assert result.code == 0, result.err
    assert result.out.startswith("train.en and train.de: 60 pairs, nothing found in ")
    assert "What is in it" in result.out


def test_json_and_page(files):
    result = attendo("check", "empty.en", "empty.de", "--json", "--quiet", "--html", "report.html", "--quick")
    assert result.code == 0
    assert result.err == ""
    facts = json.loads(result.out)
    (empty,) = [finding for finding in facts["findings"] if finding["kind"] == "empty"]
    assert empty["lines"] == [31]
    page = (files / "report.html").read_text()
    parser = Balanced()
    parser.feed(page)
    assert not parser.open
    assert "an empty side: 1" in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert page.count("<svg") == 2


@pytest.mark.parametrize(
    ("target", "words"), [("short.de", "part at line 21"), ("latin.de", "bytes that are not UTF-8: 1")]
)
def test_ends_with_1_when_something_is_broken(files, target, words):  # noqa: ARG001
    result = attendo("check", "train.en", target, "--quick")
    assert result.code == 1
    assert words in result.out
    assert "Something is broken" in result.out


def test_clean(files):
    result = attendo("check", "empty.en", "empty.de", "--clean", "clean", "--json", "--quiet")
    facts = json.loads(result.out)["cleaned"]
    assert facts["dropped"] == len((files / "clean/rejected.tsv").read_text().splitlines()) - 1 >= 1
    assert facts["kept"] == len((files / "clean/clean.en").read_text().splitlines())
    with unchanged(files):
        again = attendo("check", "empty.en", "empty.de", "--clean", "clean")
    assert again.code == 4
    assert "clean exists already" in again.err


def test_test_sets(files):  # noqa: ARG001
    result = attendo("check", "train.en", "train.de", "--test", "test.en", "test.de", "--json", "--quick")
    counts = {finding["kind"]: finding["count"] for finding in json.loads(result.out)["findings"]}
    assert counts["in_test"] >= 5


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nothing.en", "train.de"], 3, "no such file"),
        (["train.en", "train.de", "--html", "no/such/page.html"], 2, "there is no folder"),
        (["train.en", "train.de", "--columns", "1"], 2, "--columns 1"),
    ],
)
def test_errors(files, arguments, code, words):
    with unchanged(files):
        result = attendo("check", *arguments)
    assert result.code == code
    assert words in result.err


class TestTraining:
    def test_unequal_files_are_refused_with_the_line_where_they_part(self, files):
        with unchanged(files):
            result = attendo("train", "train.en", "short.de", "--out", "run")
        assert result.code == 3
        assert "train.en has 60 lines and short.de has 59" in result.err
        assert "part at line 21" in result.err
        assert "attendo check train.en short.de" in result.err

    def test_what_is_not_utf8_is_refused(self, files):  # noqa: ARG002
        result = attendo("train", "train.en", "latin.de", "--out", "run")
        assert result.code == 3
        assert "latin.de, line 21: byte 2 of the line (0xFC) is not UTF-8" in result.err

    def test_what_the_quick_check_saw_is_said_in_two_lines(self, files):  # noqa: ARG002
        result = attendo("train", "empty.en", "empty.de", "--out", "run", "--steps", "1", *TINY)
        assert result.code == 0, result.err
        first, second = result.err.splitlines()[:2]
        assert first.startswith("A quick check of 60 pairs saw: ")
        assert "an empty side 1 (1.7%)" in first
        assert second == "See and clean them: attendo check empty.en empty.de --clean clean"
