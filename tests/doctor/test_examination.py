"""A whole corpus: shifts, partings, copies, what is in it; and that a sound one is found sound."""

import json
import random

import numpy as np
import pytest

from attendo.doctor.examination import examine
from attendo.doctor.report import in_words, to_json, two_lines
from attendo.text.corpus import CorpusFiles, Pair
from tests.doctor.corpora import sample_pairs, write_pairs

N = 1500


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return list(sample_pairs()[:N])


@pytest.fixture(scope="module")
def damaged(pairs, tmp_path_factory):
    """A corpus with a few faults at known places, examined once."""
    folder = tmp_path_factory.mktemp("damaged")
    changed = list(pairs)
    targets = [target for _, target in pairs]
    for number in range(400, 430):  # the targets one line too far down
        changed[number] = pairs[number][0], targets[number - 1]
    changed[100] = pairs[100][0], ""
    changed[101] = pairs[7]
    changed[102] = pairs[102][0], pairs[102][0]
    changed[103] = "См. также другие предложения здесь.", pairs[103][1]
    changed[104] = pairs[104][1], pairs[104][0]
    files = write_pairs(folder, changed)
    test = write_pairs(folder, [pairs[50], ("Unheard-of zyxw words.", "Unerhörte zyxw Wörter.")], "test")
    return examine(files, test=test)


def having(examination, kind: str) -> list[int]:
    return np.flatnonzero(examination.findings.having(kind)).tolist()


def test_every_fault_is_found_where_it_is(damaged):
    assert having(damaged, "empty") == [100]
    assert 101 in having(damaged, "duplicate")
    assert having(damaged, "identical") == [102]
    assert having(damaged, "wrong_script") == [103]
    assert having(damaged, "wrong_language") == [104]
    assert 50 in having(damaged, "in_test")


def test_a_shifted_stretch_is_found_with_its_shift(damaged):
    shifted = having(damaged, "shifted")
    assert set(range(402, 428)) <= set(shifted) <= set(range(395, 435))
    (stretch,) = damaged.stretches
    assert stretch.shift == 1
    assert damaged.broken


def test_the_report_says_it_all(damaged):
    facts = to_json(damaged)
    assert json.loads(json.dumps(facts)) == facts
    assert facts["pairs"] == N
    counts = {finding["kind"]: finding for finding in facts["findings"]}
    assert counts["empty"]["count"] == 1
    assert counts["empty"]["lines"] == [101]
    assert counts["empty"]["action"] == "drop"
    assert counts["wrong_script"]["samples"][0]["source"].startswith("См.")
    assert facts["shifted_stretches"][0]["shift"] == 1
    words = "\n".join(in_words(damaged))
    assert "BROKEN  stretches in which one side is shifted" in words
    assert "each target stands 1 line below its source" in words
    assert "an empty side: 1 (0.07%); --clean drops them" in words
    assert 0 < facts["facts"]["unseen_words"]["test"]["source"] < 1
    assert facts["facts"]["pieces_per_word"][0]["vocab_size"] <= 2000
    assert facts["facts"]["source"]["scripts"]["Latin"] > 0.99


def test_a_sound_corpus_loses_next_to_nothing(pairs, tmp_path):
    found = examine(write_pairs(tmp_path, pairs), pieces=False)
    assert not found.broken
    assert found.dropped.mean() < 0.01


def test_a_quick_look_reads_once_and_says_it_in_two_lines(pairs, tmp_path):
    files = write_pairs(tmp_path, [*pairs[:40], (pairs[40][0], "")])
    found = examine(files, quick=True, most=41)
    first, second = two_lines(found, asked=41)
    assert first == "A quick check of the first 41 pairs saw: an empty side 1 (2.4%)."
    assert second == f"See and clean them: attendo check {files.source} {files.target} --clean clean"
    assert two_lines(examine(files, quick=True, most=40), asked=40) == []


@pytest.mark.parametrize(("side", "place", "lines"), [(1, 700, 1), (0, 1200, 1), (1, 90, 3)])
def test_where_unequal_files_part(pairs, tmp_path, side, place, lines):
    sides = [list(one) for one in zip(*pairs, strict=True)]
    del sides[side][place : place + lines]
    paths = [tmp_path / name for name in ("a.en", "a.de")]
    for path, texts in zip(paths, sides, strict=True):
        path.write_text("".join(f"{text}\n" for text in texts))
    found = examine(CorpusFiles(source=str(paths[0]), target=str(paths[1])), quick=True)
    assert found.parting is not None
    assert abs(found.parting.line - place) <= 2
    assert having(found, "unpaired") == list(range(found.parting.line, N))
    assert found.broken
    beside = [number for number, _, _ in found.parting.beside]
    assert beside == list(range(found.parting.line - 3, found.parting.line + 4))
    assert f"part at line {found.parting.line + 1:,}" in "\n".join(in_words(found))


@pytest.mark.parametrize(
    ("source", "target", "line"), [("a b c\n" * 3, "", 0), ("", "a b c\n", 0), ("one\n", "eins\nzwei\n", 1)]
)
def test_files_of_next_to_nothing_part_too(tmp_path, source, target, line):
    (tmp_path / "a.en").write_text(source)
    (tmp_path / "a.de").write_text(target)
    found = examine(CorpusFiles(source=str(tmp_path / "a.en"), target=str(tmp_path / "a.de")))
    assert found.parting is not None
    assert found.parting.line == line
    assert in_words(found)


def test_mixed_line_ends_are_those_of_the_fewer(tmp_path):
    files = write_pairs(
        tmp_path, [(f"line number {n} is here", f"Zeile Nummer {n} ist da" + "\r" * (n % 5 == 0)) for n in range(20)]
    )
    assert having(examine(files, quick=True), "line_ends") == [0, 5, 10, 15]
    files = write_pairs(tmp_path, [(f"line number {n} is here\r", f"Zeile Nummer {n} ist da\r") for n in range(20)])
    assert having(examine(files, quick=True), "line_ends") == []


def test_lengths_far_from_usual(tmp_path):
    draw = random.Random(3)
    words = [draw.randrange(4, 20) for _ in range(300)]
    pairs = [
        (" ".join(f"wort{n}{k}" for k in range(count)), " ".join(f"word{n}{k}" for k in range(count)))
        for n, count in enumerate(words)
    ]
    pairs[37] = pairs[37][0], pairs[37][1][: len(pairs[37][1]) // 4]
    assert having(examine(write_pairs(tmp_path, pairs), quick=True), "length_ratio") == [37]


def test_one_pair_and_tiny_corpora(tmp_path):
    for n in (1, 2, 5):
        found = examine(write_pairs(tmp_path, [(f"This is line {n}{k}.", f"Das ist Zeile {n}{k}.") for k in range(n)]))
        assert len(found.findings) == n
        assert not found.dropped.any()
