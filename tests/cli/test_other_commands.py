"""score, average, export, info, sample."""

import dataclasses
import gzip
import json
import math
import subprocess
import sys

import pytest
from rich.cells import cell_len

from attendo.bundle import open_bundle
from attendo.inspection.parts import PARTS
from tests.cli.command import attendo, unchanged
from tests.numerals import sentence_pairs

PAIRS = sentence_pairs(11, seed=51)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The same pairs as two files, TSV, JSONL, compressed, and the other way round."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.en").write_text("".join(f"{source}\n" for source, _ in PAIRS))
    (tmp_path / "out.de").write_text("".join(f"{target}\n" for _, target in PAIRS))
    (tmp_path / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    (tmp_path / "other.tsv").write_text("".join(f"{target}\tx\t{source}\n" for source, target in PAIRS))
    rows = [{"source": source, "target": target} for source, target in PAIRS]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "pairs.jsonl.gz").write_bytes(gzip.compress((tmp_path / "pairs.jsonl").read_bytes()))
    return tmp_path


# --- score ------------------------------------------------------------------------------------------------------


def test_scores_are_the_translators_own(trained, tiny, files):  # noqa: ARG001 (files makes them)
    expected = tiny.score([source for source, _ in PAIRS], [target for _, target in PAIRS])
    result = attendo("score", trained.path, "in.en", "out.de")
    assert [float(line) for line in result.out.split()] == pytest.approx([one.log_prob for one in expected], abs=1e-4)
    assert result.err.startswith("11 pairs, perplexity 1.")
    rows = [json.loads(line) for line in attendo("score", trained.path, "in.en", "out.de", "--json").out.splitlines()]
    assert [row["n_pieces"] for row in rows] == [one.n_pieces for one in expected]
    assert [row["log_prob"] for row in rows] == pytest.approx([one.log_prob for one in expected], abs=1e-4)


def test_scores_are_the_same_from_every_kind_of_file(trained, files):  # noqa: ARG001
    plain = attendo("score", trained.path, "in.en", "out.de", "--quiet")
    assert plain.err == ""
    for arguments in (
        ["pairs.tsv"],
        ["pairs.jsonl"],
        ["pairs.jsonl.gz"],
        ["other.tsv", "--columns", "3,1"],
        ["other.tsv", "--columns", "1,3", "--reverse"],
        ["out.de", "in.en", "--reverse"],
        ["in.en", "out.de", "--batch-size", 1],
    ):
        result = attendo("score", trained.path, *arguments, "--quiet")
        assert result.code == 0, result.err
        scores = [float(line) for line in result.out.split()]
        assert scores == pytest.approx([float(line) for line in plain.out.split()], abs=1e-4)


def test_a_beams_score_is_the_score_of_that_output(trained, files):
    """To 1e-4, where the tokenizer cuts the output into the pieces that the model produced."""
    sources = [source for source, _ in PAIRS]
    lines = attendo("translate", trained.path, "--json", stdin="\n".join(sources)).out.splitlines()
    found = [json.loads(line) for line in lines]
    (files / "found.de").write_text("".join(f"{one['text']}\n" for one in found))
    scores = [float(line) for line in attendo("score", trained.path, "in.en", "found.de").out.split()]
    same = [abs(one["log_prob"] - score) < 1e-4 for one, score in zip(found, scores, strict=True)]
    assert sum(same) >= 9


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["in.en", "nowhere.de"], 3, "nowhere.de: there is no such file"),
        (["in.en"], 3, "in.en: one file that holds both sides has to end in .tsv, .jsonl or .tmx"),
        (["pairs.tsv", "--columns", "1,3"], 3, "pairs.tsv, line 1: it has 2 columns, and columns 1,3 are asked for"),
        (["pairs.tsv", "--columns", "x"], 2, "--columns x: must be two numbers"),
        (["pairs.tsv", "--columns", "1,2,3"], 2, "--columns 1,2,3: must be two numbers"),
        (["pairs.tsv", "--columns", "0,1"], 2, "columns are counted from 1"),
    ],
)
def test_what_cannot_be_scored(trained, files, arguments, code, words):
    with unchanged(files):
        result = attendo("score", trained.path, *arguments)
    assert (result.code, result.out) == (code, "")
    assert words in result.err


# --- average, export --------------------------------------------------------------------------------------------


def test_average_makes_a_bundle(trained, tmp_path):
    result = attendo("average", trained.path, "--last", 2, "--out", tmp_path / "averaged")
    assert (result.code, result.out) == (0, f"{tmp_path / 'averaged'}\n")
    assert result.err == "Averaged the checkpoints of steps 280, 420.\n"
    assert attendo("translate", tmp_path / "averaged", "--text", "one.").out == "eins.\n"
    found = attendo("average", trained.path, "--last", 3, "--out", tmp_path / "b", "--json", "--quiet")
    assert found.json() == {"bundle": str(tmp_path / "b"), "steps": [140, 280, 420]}
    assert found.err == ""


def test_export_leaves_out_what_only_training_needs(trained, tmp_path):
    result = attendo("export", trained.path, "--to", "attendo", "--out", tmp_path / "small", "--json")
    assert result.json() == {"bundle": str(tmp_path / "small")}
    assert result.err == ""
    assert not (tmp_path / "small" / "checkpoints").exists()
    assert attendo("translate", tmp_path / "small", "--text", "one two.").out == "eins zwei.\n"
    assert open_bundle(tmp_path / "small").scores() == trained.bundle.scores()
    again = attendo("export", tmp_path / "small", "--to", "attendo", "--out", tmp_path / "again")
    assert again.out == f"{tmp_path / 'again'}\n"


@pytest.mark.parametrize("command", [["average", "--last", "1"], ["export", "--to", "attendo"]])
def test_an_output_folder_that_exists_is_left_alone(trained, tmp_path, command):
    (tmp_path / "there").mkdir()
    with unchanged(tmp_path), unchanged(trained.path):
        result = attendo(command[0], trained.path, *command[1:], "--out", tmp_path / "there")
    assert (result.code, result.out) == (4, "")
    assert "there exists already. Choose another folder" in result.err


def test_an_average_of_too_many(trained, tmp_path):
    with unchanged(tmp_path):
        result = attendo("average", trained.path, "--last", 9, "--out", tmp_path / "new")
    assert (result.code, result.out) == (4, "")
    assert "has 3 checkpoints, and --last 9 asks for more" in result.err


# --- info -------------------------------------------------------------------------------------------------------


def test_info_of_a_preset():
    found = attendo("info", "--preset", "base", "--vocab-size", 41_000, "--set", "model.d_key=16", "--json").json()
    assert abs(found["parameters"]["total"] - 58e6) < 1e6  # row (B) of the paper's table 3
    assert found["parameters"]["total"] == sum(count for part, count in found["parameters"].items() if part != "total")
    assert found["model"]["d_key"] == 16


def test_info_of_a_run(trained):
    found = attendo("info", trained.path, "--json").json()
    assert found["parameters"]["total"] > 0
    assert found["scores"]["validation"]["bleu"]["score"] > 50
    text = attendo("info", trained.path)
    assert text.err == ""
    assert "  total                    " in text.out
    assert "languages    en, de" in text.out


def test_info_of_the_parts():
    rows = attendo("info", "--parts", "--json").json()
    assert rows == [dataclasses.asdict(part) for part in PARTS]
    text = attendo("info", "--parts")
    assert (text.code, text.err) == (0, "")
    for row in rows:
        entry = _entry(text.out, row["setting"])
        assert ("default" in entry.splitlines()[0]) == row["default"]
        assert ("not fused" in entry.splitlines()[0]) == (row["fused"] is False)
        words = " ".join(entry.split())
        assert all(row[key] in words for key in ("what", "paper", "notes"))
    batchnorm = " ".join(_entry(text.out, "model.norm=batchnorm").split())
    assert "While training, a sentence depends on its batch" in batchnorm


def _entry(catalogue, setting):
    """The lines of one part, up to the empty line after them."""
    return next(entry for entry in catalogue.split("\n\n") if entry.splitlines()[0].split("  (")[0] == f"  {setting}")


@pytest.mark.parametrize("columns", [41, 80, 300])
def test_the_parts_fit_the_terminal(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = attendo("info", "--parts").out.splitlines()
    widest = max(cell_len(line) for line in lines if not line.startswith("  model."))
    assert min(columns, 100) - 12 < widest <= min(columns, 100)


def test_the_parts_are_told_without_torch():
    code = "import sys; from attendo.cli.main import run; sys.argv[1:] = ['info', '--parts']; run(); "
    code += "sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "give a bundle's folder, --preset or --parts, one of the three"),
        (["x", "--preset", "base"], 2, "one of the three"),
        (["x", "--parts"], 2, "one of the three"),
        (["--preset", "base", "--parts"], 2, "one of the three"),
        (["nowhere"], 4, "there is no folder nowhere"),
        (
            ["--preset", "base", "--set", "model.d_modle=1"],
            2,
            "model.d_modle. Did you mean model.d_model?",
        ),
        (["--preset", "base", "--set", "model.n_heads=7"], 2, "model.d_model = 512: must be a multiple of n_heads (7)"),
        (["--preset", "base", "--vocab-size", "0"], 2, "0 is not in the range"),
        (["--parts", "--vocab-size", "32000"], 2, "--vocab-size and --set go with --preset"),
        (["--parts", "--set", "model.d_key=16"], 2, "--vocab-size and --set go with --preset"),
        (["x", "--set", "model.d_key=16"], 2, "--vocab-size and --set go with --preset"),
    ],
)
def test_what_info_cannot_tell(arguments, code, words):
    result = attendo("info", *arguments)
    assert (result.code, result.out) == (code, "")
    assert words in result.err


# --- sample -----------------------------------------------------------------------------------------------------


def test_sample_writes_six_files(tmp_path):
    result = attendo("sample", tmp_path / "sample", "--pairs", 701)
    assert (result.code, result.out) == (0, f"{tmp_path / 'sample'}\n")
    assert result.err.startswith("Train on it: attendo train ")
    names = sorted(path.name for path in (tmp_path / "sample").iterdir())
    assert names == sorted(f"{part}.{side}" for part in ("train", "valid", "test") for side in ("en", "de"))
    other = attendo("sample", tmp_path / "other", "--pairs", 701, "--seed", 2, "--quiet", "--json")
    assert other.err == ""
    assert other.json()["train_pairs"] == 701
    assert other.json()["directory"] == str(tmp_path / "other")
    assert (tmp_path / "other" / "train.de").read_bytes() != (tmp_path / "sample" / "train.de").read_bytes()


def test_a_sample_does_not_mix_with_what_is_there(tmp_path):
    (tmp_path / "mine").write_text("text")
    with unchanged(tmp_path):
        result = attendo("sample", tmp_path)
    assert (result.code, result.out) == (3, "")
    assert "exists and is not empty" in result.err


def test_scores_are_natural_logarithms(trained, files):  # noqa: ARG001
    result = attendo("score", trained.path, "in.en", "out.de", "--json")
    rows = [json.loads(line) for line in result.out.splitlines()]
    per_piece = -sum(row["log_prob"] for row in rows) / sum(row["n_pieces"] for row in rows)
    assert f"perplexity {math.exp(per_piece):.3f} per piece." in result.err
