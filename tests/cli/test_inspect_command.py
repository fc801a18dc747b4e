"""inspect, translate --alignments, info --cost."""

import json

import pytest

from attendo.errors import BundleError
from tests.cli.command import attendo, unchanged
from tests.numerals import sentence_pairs
from tests.untrained import VOCAB_SIZE, recurrent_bundle, untrained_bundle

TEXT = "two red seven four."
PAIRS = sentence_pairs(7, seed=77)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test.en").write_text("".join(f"{source}\n" for source, _ in PAIRS))
    (tmp_path / "test.de").write_text("".join(f"{target}\n" for _, target in PAIRS))
    return tmp_path


def test_a_sentence(trained):
    result = attendo("inspect", trained.path, "--text", TEXT)
    assert result.code == 0
    assert result.err == ""
    assert f"source       {TEXT}" in result.out
    assert "Where each word looks" in result.out
    assert "They part at step" in result.out
    found = attendo("inspect", trained.path, "--text", TEXT, "--json", "--beam", 2).json()
    assert found["beam"]["width"] == 2
    assert found["target"]["text"] in result.out


def test_one_of_several_sentences(trained):
    result = attendo("inspect", trained.path, "--text", f"ten. {TEXT}", "--sentence", 2, "--json")
    assert "Sentence 2 of 2" in result.err
    assert result.json()["source"]["text"] == TEXT


def test_a_given_translation_without_a_head(trained):
    arguments = ["inspect", trained.path, "--text", TEXT, "--target", "zwei rot.", "--json"]
    whole, quiet = attendo(*arguments).json(), attendo(*arguments, "--without-head", "1.1").json()
    assert whole["beam"] is None
    assert quiet["without_heads"] == ["cross.1.1"]
    assert quiet["log_prob"] != whole["log_prob"]
    assert "without cross.1.1" in attendo(*arguments[:-1], "--without-head", "1.1").out


def test_maps_as_files(trained, tmp_path):
    result = attendo("inspect", trained.path, "--text", TEXT, "--out", tmp_path / "new" / "maps")
    assert "inside.html and 10 pictures written" in result.err
    assert (tmp_path / "new/maps/inside.html").read_text().startswith("<!DOCTYPE html>")
    assert (tmp_path / "new/maps/heads/cross.1.2.png").exists()


def test_heads_by_what_they_are_worth(trained, files):  # noqa: ARG001
    result = attendo("inspect", trained.path, "test.en", "test.de", "--heads", "--pairs", 5)
    assert "on 5 pairs" in result.out
    assert len(result.out.splitlines()) == 3 + 6
    found = attendo("inspect", trained.path, "test.en", "test.de", "--heads", "--bleu", "--json").json()
    assert found["pairs"] == 7
    assert {"head", "loss", "loss_added", "bleu", "bleu_lost"} == found["heads"][0].keys()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "give a sentence"),
        (["--text", " "], 3, "no words"),
        (["--text", TEXT, "--sentence", "2"], 2, "--sentence 2: --text has 1"),
        (["--text", TEXT, "--target", "x", "--sentence", "1"], 2, "leave out --sentence"),
        (["--text", TEXT, "--without-head", "cross.2.1"], 2, "head 'cross.2.1': there is none"),
        (["--text", TEXT, "--bleu"], 2, "--bleu goes with --heads"),
        (["--text", TEXT, "--pairs", "3"], 2, "--pairs goes with --heads"),
        (["--text", TEXT, "--columns", "1,2"], 2, "--columns goes with --heads"),
        (["--text", TEXT, "--reverse"], 2, "--reverse goes with --heads"),
        (["--text", TEXT, "--target", "x", "--beam", "3"], 2, "--beam 3: with --target nothing is searched"),
        (["test.en"], 2, "SOURCE goes with --heads"),
        (["test.en", "test.de"], 2, "TARGET goes with --heads"),
        (["test.en", "test.de", "--heads", "--map", "cross"], 2, "--heads and --map"),
        (["--heads"], 2, "needs a test set"),
        (["test.en", "test.de", "--heads", "--text", TEXT], 2, "--heads and --text"),
        (["test.en", "test.de", "--heads", "--without-head", "1.1"], 2, "--heads and --without-head"),
        (["test.en", "test.de", "--heads", "--beam", "3"], 2, "without --bleu"),
        (["test.en", "nowhere.de", "--heads"], 3, "nowhere.de"),
    ],
)
def test_what_does_not_go_together_is_refused(trained, files, arguments, code, words):
    with unchanged(files):
        result = attendo("inspect", trained.path, *arguments)
    assert (result.code, result.out) == (code, "")
    assert words in result.err


def test_an_older_model_shows_where_its_decoder_looks(files):
    recurrent_bundle(files / "older")
    result = attendo("inspect", "older", "--text", TEXT, "--target", "zwei rot.", "--out", "maps")
    assert "This model has no self-attention" in result.out
    assert sorted(path.name for path in (files / "maps").rglob("*.png")) == [
        "alignment.png",
        "cross.1.1.png",
        "cross.png",
    ]
    assert 'data-kind="encoder"' not in (files / "maps/inside.html").read_text()
    assert attendo("translate", "older", "--alignments", "out.align", "--text", TEXT).code == 0
    with unchanged(files):
        ranked = attendo("inspect", "older", "test.en", "test.de", "--heads")
        without = attendo("inspect", "older", "--text", TEXT, "--without-head", "1.1")
    assert (ranked.code, ranked.out) == (BundleError.exit_code, "")
    assert "older has a model of kind rnn: only a Transformer's heads can be ranked" in ranked.err
    assert (without.code, without.out) == (2, "")
    assert "only those of a Transformer can be switched off" in without.err


def test_a_model_that_hides_pieces_writes_none_of_them(files):
    """T5's sentinels come after the tokenizer's pieces: they may be likely, and have a name."""
    sizes = {"source_vocab_size": VOCAB_SIZE + 103, "target_vocab_size": VOCAB_SIZE + 103, "n_extra": 103}
    untrained_bundle(files / "hiding", **sizes)
    found = attendo("inspect", "hiding", "--text", TEXT, "--json").json()
    assert not any("sentinel" in piece for piece in found["target"]["pieces"])
    likely = {one["piece"] for token in found["tokens"] for one in token["alternatives"]}
    assert any(piece.startswith("<sentinel_") for piece in likely)
    assert found["attention"].keys() == {"encoder", "decoder", "cross"}


def test_a_map_by_name(trained):
    arguments = ["inspect", trained.path, "--text", TEXT, "--target", "zwei rot.", "--map"]
    for name, words in (
        ("encoder", "the mean of all heads of encoder"),
        ("cross.1", "the mean of the heads of cross.1"),
        ("decoder.1.2", "head decoder.1.2"),
    ):
        assert f"Where each piece looks: {words}\n" in attendo(*arguments, name).out
    for name, words in (
        ("encoder.2", "there is none"),
        ("decoder.1.3", "decoder.1.1 to decoder.1.2"),
        ("1.2", "must be called like"),
    ):
        result = attendo(*arguments, name)
        assert (result.code, result.out) == (2, "")
        assert f"map '{name}': " in result.err and words in result.err


# --- translate --alignments -----------------------------------------------------------------------------------------


def test_alignments_of_lines(trained, files):
    lines = [*(source for source, _ in PAIRS), "", f"ten. {PAIRS[0][0]}"]
    plain = attendo("translate", trained.path, stdin="\n".join(lines))
    result = attendo("translate", trained.path, "--alignments", "out.align", stdin="\n".join(lines))
    assert result.out == plain.out
    alignments = (files / "out.align").read_text().split("\n")
    assert len(alignments) == len(lines) + 1
    assert alignments[-1] == alignments[len(PAIRS)] == ""
    for source, target, alignment in zip(lines, result.out.splitlines(), alignments, strict=False):
        for link in alignment.split():
            i, j = map(int, link.split("-"))
            assert i < len(source.split())
            assert j < len(target.split())
    facts = json.loads(attendo("translate", trained.path, "--alignments", "x", "--json", "--text", lines[0]).out)
    assert " ".join(f"{i}-{j}" for i, j in facts["alignment"]) == alignments[0]
    assert "alignment" not in json.loads(attendo("translate", trained.path, "--json", "--text", lines[0]).out)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--alignments", "x", "--n-best", "2"], "--alignments and --n-best"),
        (["--alignments", "x", "--document", "test.en"], "--document and --alignments"),
        (["--alignments", "x", "--text", "two.\nred."], "--text has line breaks"),
        (["--alignments", "nowhere/x"], "nowhere/x could not be written"),
        (["--alignments", "test.de", "--prefixes", "nowhere.de"], "nowhere.de"),
        (["--alignments", "test.de", "--ensemble", "nowhere"], "nowhere"),
    ],
)
def test_alignments_that_cannot_be(trained, files, arguments, words):
    with unchanged(files):
        result = attendo("translate", trained.path, *arguments, stdin="two.\n")
    assert result.code != 0
    assert words in result.err


# --- info --cost ----------------------------------------------------------------------------------------------------


@pytest.fixture
def short(monkeypatch):
    """Measuring is not what is tested here."""
    monkeypatch.setattr("attendo.inspection.growth.LENGTHS", (3, 5))
    monkeypatch.setattr("attendo.inspection.growth.REPEATS", 1)


def test_the_cost_of_a_bundle_a_config_and_a_preset(trained, files, short):  # noqa: ARG001
    bundle = attendo("info", trained.path, "--cost", "--length", 7, "--json").json()
    assert bundle["source_length"] == bundle["target_length"] == 7
    assert bundle["parts"][-1]["parameters"] == sum(one.numel() for one in trained.bundle.weights().values())
    assert {one["length"] for one in bundle["growth"]} == {3, 5}
    config = attendo("info", trained.path / "config.yaml", "--cost", "--length", 7, "--json").json()
    assert config["parts"] == bundle["parts"]
    preset = attendo("info", "--cost", "--preset", "tiny", "--vocab-size", 307, "--out", "cost.html")
    assert preset.out.startswith("part ")
    assert "The cost of tiny" in (files / "cost.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--cost", "--parts"], "--cost is of one model"),
        (["--cost", "--preset", "tiny", "x"], "--cost is of one model"),
        (["--preset", "tiny", "--length", "3"], "--length and --out go with --cost"),
        (["x", "--cost", "--vocab-size", "3"], "--vocab-size and --set go with --preset"),
    ],
)
def test_costs_that_cannot_be(arguments, words):
    result = attendo("info", *arguments)
    assert result.code == 2
    assert words in result.err
