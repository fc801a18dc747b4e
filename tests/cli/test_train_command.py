"""Training by command: what it takes, what it leaves, what it refuses without leaving anything."""

import gzip
import json
import subprocess
import sys

import pytest

from attendo.bundle import open_bundle
from attendo.cli.train_command import _layered
from attendo.storage import read_tensors
from tests.cli.command import TINY, attendo, unchanged
from tests.numerals import sentence_pairs, write_corpus

PAIRS = sentence_pairs(60, seed=81)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path, pairs=60, seed=81)
    return tmp_path


def train(*arguments: object):
    return attendo("train", *arguments, "--steps", 3, *TINY)


def test_two_files_are_all_it_needs(folder):
    result = train("train.en", "train.de")
    assert (result.code, result.out) == (0, "runs/en-de-1\n")
    assert 'Try it: attendo translate runs/en-de-1 --text "…"' in result.err
    assert "Pairs: 54 for training, 6 for validation" in result.err
    bundle = open_bundle("runs/en-de-1")
    assert bundle.languages == ("en", "de")
    assert bundle.config.training.steps == 3
    assert {"card.md", "log.jsonl", "report.html", "scores.json", "weights.safetensors"} < {
        path.name for path in bundle.path.iterdir()
    }
    assert sorted(path.name for path in (folder / "runs").iterdir()) == [".cache", "en-de-1"]
    assert train("train.en", "train.de").out == "runs/en-de-2\n"
    assert read_tensors(folder / "runs/en-de-1/weights.safetensors")[0].keys()


def test_quiet_and_json(folder):
    result = train("train.en", "train.de", "--out", "new", "--quiet", "--json", "--seed", 5)
    assert result.err == ""
    found = result.json()
    assert found["bundle"] == "new"
    assert set(found["validation"]) >= {"bleu", "chrf", "ter"}
    assert found["validation"]["bleu"]["signature"]
    assert open_bundle(folder / "new").config.seed == 5


def test_the_saved_config_repeats_the_run(folder):
    assert train("train.en", "train.de", "--out", "first").code == 0
    again = attendo("train", "--config", "first/config.yaml", "--out", "second")
    assert again.code == 0, again.err
    first, second = ((folder / name / "weights.safetensors").read_bytes() for name in ("first", "second"))
    assert first == second


def test_tsv_and_jsonl_and_gzip_and_reverse(folder):
    tsv = "".join(f"{target}\tx\t{source}\n" for source, target in PAIRS)
    (folder / "pairs.tsv").write_text(tsv)
    (folder / "pairs.tsv.gz").write_bytes(gzip.compress(tsv.encode()))
    rows = [{"source": source, "target": target, "note": 1} for source, target in PAIRS]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "train.en.gz").write_bytes(gzip.compress((folder / "train.en").read_bytes()))
    forward = [
        ["train.en", "train.de"],
        ["train.en.gz", "train.de"],
        ["pairs.tsv", "--columns", "3,1", "--languages", "en", "de"],
        ["pairs.tsv.gz", "--columns", "1,3", "--reverse", "--languages", "en", "de"],
        ["pairs.jsonl"],
        ["train.de", "train.en", "--reverse"],
    ]
    tokenizers = set()
    for i, arguments in enumerate(forward):
        result = train(*arguments, "--out", f"run{i}")
        assert result.code == 0, result.err
        bundle = open_bundle(folder / f"run{i}")
        assert bundle.data()["pairs"] == {
            "read": 60,
            "kept": 54,
            "held_out": 6,
            "dropped_empty": 0,
            "dropped_long": 0,
        }
        assert bundle.languages == (None if arguments == ["pairs.jsonl"] else ("en", "de"))
        tokenizers.add((folder / f"run{i}" / "tokenizer.json").read_text())
    assert len({json.dumps(json.loads(text), sort_keys=True) for text in tokenizers}) <= 2  # joint: the order of sides


def test_a_line_of_100_000_characters_is_dropped_and_counted(folder):
    (folder / "train.en").write_text((folder / "train.en").read_text() + "monster " * 12_500 + "\n")
    (folder / "train.de").write_text((folder / "train.de").read_text() + "Ungeheuer.\n")
    result = train("train.en", "train.de", "--out", "new")
    assert result.code == 0, result.err
    assert "1 dropped (0 with an empty side, 1 longer than 256 pieces)" in result.err


def test_adapting_keeps_the_tokenizer(trained, folder):
    result = attendo("train", "train.en", "train.de", "--from", trained.path, "--steps", 2, "--out", "adapted")
    assert result.code == 0, result.err
    adapted = open_bundle(folder / "adapted")
    assert adapted.tokenizers == trained.bundle.tokenizers
    assert adapted.config.model == trained.bundle.config.model
    assert adapted.config.adapt_from == str(trained.path)


BAD = {
    "empty.en": b"",
    "one.en": b"one.\n",
    "one.de": b"eins.\n",
    "latin.en": "".join(f"{source}\n" for source, _ in PAIRS).encode("latin-1", errors="replace"),
    "binary.en": bytes(range(256)) * 40,
    "zip.en": gzip.compress(b"one.\n"),
    "broken.en.gz": gzip.compress(b"one.\n" * 1000)[:-9],
    "bad.tsv": b"one.\teins.\ntwo.\n",
    "bad.jsonl": b'{"source": "one.", "target": "eins."}\n{"source": "two."\n',
    "key.jsonl": b'{"source": "one.", "translation": "eins."}\n',
    "blank.en": b"\n" * 60,
    "bad.yaml": b"model: [",
    "unknown.yaml": b"modell:\n  d_model: 3\n",
}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "give the files to train on: attendo train SOURCE TARGET"),
        (["nowhere.en", "train.de"], 3, "nowhere.en: there is no such file"),
        (["train.en", "nowhere.de"], 3, "nowhere.de: there is no such file"),
        (["train.en"], 3, "train.en: one file that holds both sides has to end in .tsv, .jsonl or .tmx"),
        ([".", "train.de"], 3, ".: this is a folder"),
        (["empty.en", "train.de"], 3, "empty.en: the file is empty"),
        (["train.en", "empty.en"], 3, "empty.en: the file is empty"),
        (["one.en", "one.de"], 3, "At least 10 and 1 are needed"),
        (["train.en", "one.de"], 3, "train.en has 60 lines and one.de has 1"),
        (["blank.en", "train.de"], 3, "60 had an empty side"),
        (["latin.en", "train.de"], 3, "latin.en, line "),
        (["binary.en", "train.de"], 3, "(0x80) is not UTF-8. It looks like a binary file"),
        (["zip.en", "train.de"], 3, "This is a gzip file: give it a name that ends in .gz"),
        (["broken.en.gz", "train.de"], 3, "broken.en.gz: not a whole gzip file"),
        (["bad.tsv"], 3, "bad.tsv, line 2: it has 1 column, and columns 1,2 are asked for"),
        (["bad.jsonl"], 3, "bad.jsonl, line 2: not valid JSON"),
        (["key.jsonl"], 3, 'key.jsonl, line 1: the key "target" is missing'),
        (["train.en", "train.de", "--columns", "x"], 2, "--columns x: must be two numbers"),
        (["train.en", "train.de", "--columns", "0,1"], 2, "columns count from 1"),
        (["train.en", "train.de", "--set", "model.d_modle=8"], 2, "model.d_modle. Did you mean model.d_model?"),
        (["train.en", "train.de", "--set", "modle.d_model=8"], 2, "unknown setting modle. Did you mean model?"),
        (["train.en", "train.de", "--set", "model.d_model=wide"], 2, "model.d_model = 'wide': must be a whole number"),
        (["train.en", "train.de", "--set", "model.d_model"], 2, "must look like key=value"),
        (["train.en", "train.de", "--set", "data=3"], 2, "data = 3: must be a group of settings"),
        (["train.en", "train.de", "--set", "model.n_heads=3"], 2, "must be a multiple of n_heads (3)"),
        (
            ["train.en", "train.de", "--set", "tokenizer.vocab_size=20"],
            2,
            "vocab_size = 20: must be at least 300",
        ),
        (["train.en", "train.de", "--epochs", "-1"], 2, "training.epochs = -1.0"),
        (["train.en", "train.de", "--config", "nowhere.yaml"], 2, "there is no config file nowhere.yaml"),
        (["train.en", "train.de", "--config", "bad.yaml"], 2, "bad.yaml is not valid YAML"),
        (["train.en", "train.de", "--config", "unknown.yaml"], 2, "unknown setting modell. Did you mean model?"),
        (["train.en", "train.de", "--out", "there"], 4, "there exists already. Choose another folder with --out"),
        (["train.en", "train.de", "--from", "nowhere"], 4, "there is no folder nowhere"),
        (["train.en", "train.de", "--valid-source", "one.en"], 2, "valid_source = 'one.en': needs valid_target"),
        (["train.en", "train.de", "--device", "cuda"], 2, "--device cuda: torch finds no such device here"),
        (["--resume", "nowhere"], 4, "there is no folder nowhere"),
        (["--resume", "there"], 4, "there is not a bundle"),
        (["train.en", "train.de", "--resume", "there"], 2, "--resume takes everything from the run's folder"),
        (["--resume", "there", "--tensorboard"], 2, "--resume takes everything from the run's folder"),
        (["train.en", "train.de", "--set", "training.ema=1"], 2, "training.ema = 1.0: must be at least 0 and less"),
    ],
)
def test_what_cannot_be_trained(folder, monkeypatch, arguments, code, words):
    """A clear message, the documented exit code, and not one file or folder left behind."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for name, content in BAD.items():
        (folder / name).write_bytes(content)
    (folder / "there").mkdir()
    with unchanged(folder):
        result = attendo("train", *arguments)
    assert (result.code, result.out) == (code, ""), result.err
    assert words in result.err
    assert result.err.startswith("attendo: ")


def test_curves_for_tensorboard_are_written_on_request(folder):
    assert train("train.en", "train.de", "--out", "plain").code == 0
    result = train("train.en", "train.de", "--out", "new", "--tensorboard")
    assert result.code == 0, result.err
    assert [path.name.split(".")[0] for path in (folder / "new/tensorboard").iterdir()] == ["events"]
    assert open_bundle("new").config.training.tensorboard
    assert not (folder / "plain/tensorboard").exists()
    first, second = ((folder / name / "weights.safetensors").read_bytes() for name in ("plain", "new"))
    assert first == second


def test_tensorboard_that_is_not_installed(folder, monkeypatch):
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with unchanged(folder):
        result = train("train.en", "train.de", "--tensorboard")
    assert (result.code, result.out) == (2, "")
    assert "pip install 'attendo[tensorboard]'" in result.err


def test_a_finished_run_is_not_resumed(trained, folder):
    with unchanged(folder), unchanged(trained.path):
        result = attendo("train", "--resume", trained.path)
    assert (result.code, result.out) == (4, "")
    assert "has finished: there is nothing to resume" in result.err


@pytest.mark.parametrize(("size", "begun"), [(20, False), (100, True)])
def test_a_full_disk(folder, size, begun):
    """The disk (of so many kB) fills up while the run is set up, or later while it is saved."""
    disk = folder / "disk"
    disk.mkdir()
    try:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(disk)]
        mounted = subprocess.run(mount, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("mounting a small file system needs root")
    try:
        result = train("train.en", "train.de", "--out", disk / "new")
        left = sorted(path.name for path in disk.rglob("*.partial"))
        assert (disk / "new").exists() == begun
        weights = disk / "new" / "weights.safetensors"
        whole = not weights.exists() or bool(read_tensors(weights)[0])
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert (result.code, result.out) == (6, "")
    assert "the disk is full" in result.err
    assert left == []
    assert whole


@pytest.mark.parametrize("argument", [["--steps", 5], ["--minutes", 1], ["--seed", 2], ["--reverse"], ["--out", "x"]])
def test_a_resumed_run_is_not_changed(argument):
    result = attendo("train", "--resume", "runs/en-de-1", *argument)
    assert result.code == 2
    assert "--resume takes everything from the run's folder" in result.err


def test_what_belongs_together_is_replaced_together():
    old = {
        "data": {"source": "a.en", "target": "a.de", "languages": ["en", "de"]},
        "training": {"steps": 9, "beta1": 0},
    }
    new_bound = _layered(old, {"data": {}, "training": {}}, {"training": {"epochs": 3}})
    assert new_bound["training"] == {"beta1": 0, "epochs": 3}
    assert new_bound["data"] == old["data"]
    new_file = _layered(old, {"data": {"source": "b.tsv"}})
    assert new_file == {"data": {"source": "b.tsv"}, "training": {"steps": 9, "beta1": 0}}
