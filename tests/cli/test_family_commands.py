"""train --task, generate, embed, classify and evaluate of models that do not translate."""

import io
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from attendo.bundle import open_bundle
from tests.cli.command import attendo
from tests.family import COLOURS, write_labels, write_text

SMALL = [
    *("--set", "model.d_model=24", "--set", "model.d_ff=31", "--set", "model.n_heads=2", "--set", "model.n_layers=1"),
    *("--steps", "9", "--set", "training.batch_tokens=200", "--set", "data.max_length=23", "--quiet"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text, labelled texts, and a model of each."""
    folder = tmp_path_factory.mktemp("commands")
    text, labels = write_text(folder), write_labels(folder)
    for task, file, name in (
        ("language-model", text, "gpt"),
        ("masked-language-model", text, "bert"),
        ("classify", labels, "labels"),
    ):
        result = attendo("train", "--task", task, file, "--out", folder / name, *SMALL)
        assert (result.code, result.out, result.err) == (0, f"{folder / name}\n", "")
    return folder


def test_a_text_is_continued_as_it_comes(folder: Path) -> None:
    result = attendo("generate", folder / "gpt", "--prompt", "bako", "--max-length", 20, "--seed", 3)
    assert result.code == 0 and result.out.startswith("bako") and len(result.out) > 6
    assert attendo("generate", folder / "gpt", "--prompt", "bako", "--max-length", 20, "--seed", 3) == result
    assert attendo("generate", folder / "gpt", "--prompt", "bako", "--max-length", 20, "--seed", 4) != result


def test_a_beam_and_several_draws(folder: Path) -> None:
    result = attendo(
        "generate", folder / "gpt", "--prompt", "delu", "--beam", 3, "--n-best", 2, "--max-length", 4, "--json"
    )
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert len(rows) == 2 and rows[0].keys() == {"prompt", "text", "log_prob", "finished"}
    result = attendo("generate", folder / "gpt", "--n-best", 3, "--max-length", 4, "--json")
    assert len(result.out.splitlines()) == 3


def test_gaps(folder: Path) -> None:
    result = attendo("generate", folder / "bert", "--prompt", "bako [MASK] fimi.")
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert len(rows) == 5
    assert [float(row[0]) for row in rows] == sorted((float(row[0]) for row in rows), reverse=True)
    assert all(row[2].startswith("bako") for row in rows)
    found = attendo("generate", folder / "bert", "--prompt", "[MASK] fimi [MASK]", "--top", 2, "--json").json()
    assert [len(gap) for gap in found] == [2, 2]


def test_vectors(folder: Path, tmp_path: Path) -> None:
    result = attendo("embed", folder / "bert", stdin="bako delu\nfimi\n")
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert [row["text"] for row in rows] == ["bako delu", "fimi"] and len(rows[0]["vector"]) == 24
    assert attendo("embed", folder / "bert", "--out", tmp_path / "v.npy", stdin="bako delu\nfimi\n").code == 0
    vectors = np.lib.format.read_array(io.BytesIO((tmp_path / "v.npy").read_bytes()), allow_pickle=False)
    assert vectors == pytest.approx(np.array([row["vector"] for row in rows]), abs=1e-5)
    assert "has to end in .npy" in attendo("embed", folder / "bert", "--out", "v.txt", "--text", "x").err


def test_labels(folder: Path) -> None:
    result = attendo("classify", folder / "labels", stdin="kipo ruzo\nhune bako\tnori\n")
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert len(rows) == 2 and {row[0] for row in rows} <= set(COLOURS)
    one = attendo("classify", folder / "labels", "--text", "kipo ruzo", "--json").json()
    assert one["probabilities"].keys() == set(COLOURS) and f"{one['probability']:.4f}" == rows[0][1]


def test_evaluating(folder: Path, tmp_path: Path) -> None:
    text, labels = folder / "text.txt", write_labels(tmp_path, 31, seed=5)
    found = attendo("evaluate", folder / "gpt", text, "--json").json()
    assert found["perplexity"] == pytest.approx(np.exp(found["loss"]))
    assert "perplexity = " in attendo("evaluate", folder / "gpt", text).out
    assert 0 <= attendo("evaluate", folder / "bert", text, "--json").json()["accuracy"] < 1
    result = attendo("evaluate", folder / "labels", labels, "--picture", tmp_path / "c.svg", "--json")
    found, matrix = result.json(), np.array(result.json()["confusion"])
    assert matrix.sum() == found["count"] == 31
    assert found["accuracy"] == pytest.approx(np.trace(matrix) / 31)
    picture = ET.fromstring((tmp_path / "c.svg").read_text(encoding="utf-8"))
    numbers = [one.text for one in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert [int(one) for one in numbers if one and one.isdigit()] == matrix.flatten().tolist()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["translate", "gpt", "--text", "x"], "a language model, which attendo translate cannot use"),
        (["generate", "labels"], "a classifier of texts, which attendo generate cannot use"),
        (["classify", "bert", "--text", "x"], "which attendo classify cannot use"),
        (["embed", "gpt", "--text", "x"], "which attendo embed cannot use"),
        (["classify", "labels", "picture.png"], "a classifier of texts: give --text"),
        (["evaluate", "gpt", "text.txt", "text.txt"], "is for translators"),
        (["evaluate", "gpt", "text.txt", "--picture", "x.svg"], "has no labels to confuse"),
        (["generate", "gpt", "--batch-size", "3"], "there is one prompt, and no batch"),
        (["generate", "bert", "--prompt", "bako"], "has no gap"),
        (["train", "--task", "language-model", "text.txt", "--valid-target", "x"], "data.valid_target"),
        (["train", "--task", "masked-language-model", "--style", "t5", "text.txt"], "learns from masks"),
        (["train", "a.en", "a.de", "a.fr"], "a translator learns from two files"),
        (["train", "--task", "denoise", "--preset", "llama", "text.txt"], "'llama' is a language model"),
    ],
)
def test_what_is_refused(arguments: list[str], words: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    result = attendo(*arguments)
    assert result.code in (2, 3, 4) and words in result.err, result.err


def test_two_files_and_a_style(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("a word of its own\n" * 20, encoding="utf-8")
    sizes = [*("--set", "model.n_encoder_layers=1", "--set", "model.n_decoder_layers=1", "--set", "model.d_model=24")]
    result = attendo(
        *("train", "--task", "denoise", "--style", "bart", folder / "text.txt", tmp_path / "more.txt"),
        *("--out", tmp_path / "bart", "--steps", 2, "--quiet", "--set", "data.max_length=31", *sizes),
    )
    assert result.code == 0, result.err
    config = open_bundle(tmp_path / "bart").config
    assert config.noise is not None and config.noise.kind == "bart"
    assert config.data.more == (str(tmp_path / "more.txt"),)
