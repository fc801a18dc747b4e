"""train --task, generate, embed, classify, inspect and evaluate of models that do not translate."""

import io
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attendo.bundle import open_bundle
from attendo.cli import generate_command
from attendo.generator import Generator
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


def test_each_piece_is_handed_over_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    monkeypatch.setattr(generate_command, "raw_output", events.append)
    monkeypatch.setattr(generate_command, "flush", lambda: events.append("FLUSHED"))
    attendo("generate", folder / "gpt", "--prompt", "bako", "--max-length", 9, "--seed", 3)
    assert events[0] == "bako" and len(events) > 6
    assert set(events[2::2]) == {"FLUSHED"} and "FLUSHED" not in events[1::2]


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
    assert result.err == ""
    long = attendo("classify", folder / "labels", stdin=f"kipo ruzo\n{'hune bako ' * 30}\n")
    assert long.code == 0 and "1 of 2 texts lost their end: longer than 23 pieces." in long.err


def page_of(folder: Path) -> Any:
    """The numbers of a page."""
    page = (folder / "inside.html").read_text(encoding="utf-8")
    data = re.search(r'<script type="application/json" id="seen">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    return json.loads(data[1])


def test_looking_into_a_language_model(folder: Path, tmp_path: Path) -> None:
    arguments = ["inspect", folder / "gpt", "--text", "bako delu"]
    found = attendo(*arguments, "--out", tmp_path, "--json").json()
    generator = Generator.from_bundle(open_bundle(folder / "gpt"), device="cpu")
    ids = generator.encoded("bako delu")
    with torch.inference_mode():
        log_probs = generator.model(torch.tensor([ids]))[0].log_softmax(-1)
    assert found["positions"][1:] == generator.tokenizer.pieces(ids[1:])
    for position, (row, guesses) in enumerate(zip(log_probs, found["guesses"], strict=True)):
        best = sorted(row.tolist(), reverse=True)[:5]
        assert [one["log_prob"] for one in guesses["likeliest"]] == pytest.approx(best, abs=1e-4)
        if position + 1 < len(ids):
            assert guesses["given"]["log_prob"] == pytest.approx(row[ids[position + 1]].item(), abs=1e-4)
        else:
            assert guesses["given"] is None
    maps = found["attention"]["decoder"]
    assert maps["rows"] == maps["columns"] == found["positions"]
    assert not np.triu(maps["weights"], 1).any()  # the future
    assert np.array(maps["weights"]).sum(-1) == pytest.approx(1, abs=1e-3)
    assert page_of(tmp_path) == found
    assert sorted(path.name for path in tmp_path.glob("**/*.png")) == [
        *("decoder.1.1.png", "decoder.1.2.png", "decoder.png"),
    ]
    shown = attendo("inspect", folder / "gpt", "--prompt", "bako delu").out
    assert "What comes after each piece" in shown and "the mean of all heads of decoder" in shown
    quiet = attendo(*arguments, "--without-head", "1.2", "--json").json()
    assert quiet["without_heads"] == ["decoder.1.2"]
    assert quiet["attention"]["decoder"]["weights"][0] == maps["weights"][0]
    assert quiet["guesses"] != found["guesses"]


def test_looking_into_gaps(folder: Path, tmp_path: Path) -> None:
    text = "bako [MASK] fimi."
    found = attendo("inspect", folder / "bert", "--text", text, "--out", tmp_path, "--json").json()
    (gap,) = attendo("generate", folder / "bert", "--prompt", text, "--json").json()
    (guesses,) = found["guesses"]
    assert found["positions"][guesses["position"]] == "[MASK]"
    assert [one["piece"] for one in guesses["likeliest"]] == [one["piece"] for one in gap]
    assert [one["probability"] for one in guesses["likeliest"]] == pytest.approx([one["probability"] for one in gap])
    assert page_of(tmp_path) == found
    assert "The likeliest pieces in each gap" in attendo("inspect", folder / "bert", "--text", text).out
    two = attendo("inspect", folder / "bert", "--text", "bako\tfimi", "--json").json()
    assert (two["positions"].count("</s>"), two["guesses"]) == (2, [])


def test_looking_into_labels(folder: Path, tmp_path: Path) -> None:
    text = "kipo ruzo\tnori"
    found = attendo("inspect", folder / "labels", "--text", text, "--out", tmp_path, "--json").json()
    expected = attendo("classify", folder / "labels", "--text", text, "--json").json()["probabilities"]
    assert found["probabilities"] == pytest.approx(expected)
    assert list(found["probabilities"]) == sorted(expected, key=lambda label: -expected[label])
    assert found["positions"].count("</s>") == 2
    assert page_of(tmp_path) == found
    shown = attendo("inspect", folder / "labels", "--text", text, "--map", "encoder.1.2").out
    assert "read  kipo ruzo | nori" in shown and "The likeliest labels" in shown and "head encoder.1.2" in shown


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
        (["evaluate", "gpt", "text.txt", "--beam", "3"], "--beam 3: is for translators, and gpt is a language model"),
        (["evaluate", "gpt", "text.txt", "--literature"], "--literature: is for translators"),
        (["evaluate", "gpt", "text.txt", "--ensemble", "gpt"], "--ensemble gpt: is for translators"),
        (["evaluate", "bert", "text.txt", "--columns", "1,2"], "--columns 1,2: is for translators"),
        (["evaluate", "labels", "labels-1.tsv", "--engine", "native"], "--engine native: is for translators"),
        (["evaluate", "labels", "labels-1.tsv", "--picture", "x.png"], "must end in .svg"),
        (["generate", "gpt", "--batch-size", "3"], "there is one prompt, and no batch"),
        (["generate", "bert", "--prompt", "bako"], "has no gap"),
        (["generate", "bert", "--prompt", "[MASK]", "--beam", "3"], "--beam: gaps are filled with their likeliest"),
        (["generate", "bert", "--prompt", "[MASK]", "--sample"], "--sample: gaps are filled with their likeliest"),
        (["generate", "bert", "--prompt", "[MASK]", "--max-length", "7"], "--max-length: gaps are filled"),
        (["generate", "gpt", "--top", "3"], "--top 3: is for the gaps of a masked language model"),
        (["inspect", "gpt", "--text", "x", "--target", "y"], "--target y: gpt does not translate"),
        (["inspect", "gpt", "--text", "x", "--beam", "2"], "--beam 2: gpt does not translate"),
        (["inspect", "bert", "--text", "x", "--sentence", "2"], "--sentence 2: bert does not translate"),
        (["inspect", "labels"], "labels reads texts: give one"),
        (["inspect", "gpt", "text.txt"], "gpt reads texts: give one"),
        (["inspect", "gpt", "text.txt", "text.txt", "--heads"], "which attendo inspect --heads cannot use"),
        (["inspect", "gpt", "--text", "bako " * 30], "and the model sees 23. Shorten it"),
        (["inspect", "bert", "--text", "bako " * 30], "and the model sees 21. Shorten it"),
        (["inspect", "bert", "--text", " "], "no words to look at"),
        (["inspect", "labels", "--text", "a\tb\tc"], "has 3 texts with tabs between"),
        (
            ["inspect", "gpt", "--text", "x", "--without-head", "cross.1.1"],
            "This model has decoder.1.1 to decoder.1.2.",
        ),
        (["inspect", "gpt", "--text", "x", "--map", "encoder"], "This model has decoder.1.1 to decoder.1.2."),
        (["train", "--task", "language-model", "text.txt", "--valid-target", "x"], "data.valid_target"),
        (["train", "--task", "masked-language-model", "--set", "noise.kind=t5", "text.txt"], "learns from masks"),
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
        *("--out", tmp_path / "bart", "--steps", 2, "--set", "data.max_length=31", *sizes),
    )
    assert result.code == 0, result.err
    assert result.err.rstrip().endswith(f"attendo train SOURCE TARGET --from {tmp_path / 'bart'}")
    config = open_bundle(tmp_path / "bart").config
    assert config.noise is not None and config.noise.kind == "bart"
    assert config.data.more == (str(tmp_path / "more.txt"),)


def test_the_columns_asked_for_are_all_that_is_read(tmp_path: Path) -> None:
    labels, tokens = write_labels(tmp_path), {}
    for name, columns in (("all", []), ("two", ["--columns", "1,2"])):
        result = attendo("train", "--task", "classify", labels, "--out", tmp_path / name, *columns, *SMALL)
        assert result.code == 0, result.err
        tokens[name] = open_bundle(tmp_path / name).data()["tokens_per_epoch"]["source"]
    assert tokens["two"] < tokens["all"]
