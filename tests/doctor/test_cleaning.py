"""Cleaning: every line is accounted for, twice is as once, and an interruption leaves nothing behind."""

import random
from pathlib import Path

import pytest

from attendo.doctor import cleaning
from attendo.doctor.cleaning import clean
from attendo.doctor.examination import examine
from attendo.errors import BundleError
from attendo.text.corpus import CorpusFiles
from tests.cli.command import unchanged
from tests.doctor.corpora import sample_pairs, write_pairs

N = 1300


@pytest.fixture(scope="module")
def dirty(tmp_path_factory) -> CorpusFiles:
    """Every fifth pair damaged in one of many ways."""
    folder = tmp_path_factory.mktemp("dirty")
    pairs, draw = sample_pairs()[:N], random.Random(11)
    damages = [
        lambda s, _: (s, ""),
        lambda s, _: (s, s),
        lambda s, t: (s + "\r", t + "  \tx"),
        lambda s, t: (s.replace("e", "e\u200b"), t),
        lambda s, t: ("&amp;lt;b&amp;gt; " + s, t),
        lambda s, t: (s, " ".join([t] * 9)),
        lambda s, _: (s, draw.choice(pairs)[1]),
        lambda s, t: (s + "\t\\n www.ex.org", t),
        lambda s, t: (s, t.encode().decode("latin-1")),
        lambda *_: draw.choice(pairs),
        lambda s, t: (s, t.split(" ")[0]),
        lambda s, t: ("\ufeff" + s, t + "\r\r"),
    ]
    changed = [draw.choice(damages)(*pair) if number % 5 == 0 else pair for number, pair in enumerate(pairs)]
    files = write_pairs(folder, changed)
    target = folder / "train.de"
    lines = target.read_bytes().split(b"\n")
    lines[77] = b"\xff\xfe broken"
    target.write_bytes(b"\n".join(lines))
    return files


def lines(path) -> list[str]:
    content = path.read_bytes().decode()
    assert content == "" or content.endswith("\n")
    return content.split("\n")[:-1]


def test_every_line_is_accounted_for_and_cleaning_again_changes_nothing(dirty, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    done = clean(examine(dirty, pieces=False), first)
    kept = lines(first / "clean.en")
    heading, *rejected = [line.split("\t") for line in lines(first / "rejected.tsv")]
    assert heading == ["line", "reasons", "source", "target"]
    assert all(len(cells) == 4 and cells[1] for cells in rejected)
    assert len(kept) == len(lines(first / "clean.de")) == done.kept
    assert len(kept) + len(rejected) == N
    numbers = [int(cells[0]) for cells in rejected]
    assert len(set(numbers)) == len(numbers) == done.dropped
    assert {number for number in numbers if number == 78} == {78}
    originals = [line for number, line in enumerate(lines_of(dirty.source), start=1) if number not in set(numbers)]
    same = sum(before == after for before, after in zip(originals, kept, strict=True))
    assert done.kept > same > 0.8 * done.kept
    assert done.repaired > 0
    assert "".join(kept).isprintable()

    again = examine(CorpusFiles(source=done.source, target=done.target), pieces=False)
    done = clean(again, second)
    assert done.dropped == done.repaired == 0
    for name in ("clean.en", "clean.de"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def lines_of(path: str) -> list[str]:
    return [line.decode(errors="replace") for line in Path(path).read_bytes().split(b"\n")[:-1]]


def test_a_folder_that_exists_is_left_alone(dirty, tmp_path):
    examination = examine(dirty, quick=True)
    with unchanged(tmp_path), pytest.raises(BundleError, match="exists already"):
        clean(examination, tmp_path)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interruption_leaves_nothing_behind(dirty, tmp_path, monkeypatch, error):
    calls = []

    def interrupted(text):
        calls.append(text)
        if len(calls) > 20:
            raise error
        return text + "!"

    examination = examine(dirty, quick=True)
    monkeypatch.setattr(cleaning, "repair", interrupted)
    with unchanged(tmp_path), pytest.raises(BaseException):  # noqa: B017 (whatever it becomes)
        clean(examination, tmp_path / "clean")
    assert len(calls) > 20


def test_files_without_languages_in_their_names(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"This is line {n} of it.\tDas ist Zeile {n} davon.\n" for n in range(12)) + "only one\n")
    done = clean(examine(CorpusFiles(source=str(path)), quick=True), tmp_path / "clean")
    assert (done.kept, done.dropped) == (12, 1)
    assert {path.name for path in (tmp_path / "clean").iterdir()} == {"clean.source", "clean.target", "rejected.tsv"}
    assert lines(tmp_path / "clean/rejected.tsv")[1] == "13\tbroken_row\tonly one\t"
