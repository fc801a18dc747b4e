"""Models of the family learn what there is to learn, from the command line: what must come next, what must have been
hidden, what follows what, and after mending text to translate it.
"""

import random
from pathlib import Path

import pytest

from attendo.bundle import open_bundle
from tests.cli.command import attendo

from .tasks import WORDS, made_up, write_task

SMALL = [
    *("--set", "model.d_model=32", "--set", "model.d_ff=64", "--set", "model.n_heads=2"),
    *("--set", "model.residual_dropout=0", "--set", "training.batch_tokens=512", "--set", "training.validate_every=50"),
    *("--processes", "1", "--quiet"),
]
LAYERS = ["--set", "model.n_layers=2"]
SIDES = ["--set", "model.n_encoder_layers=2", "--set", "model.n_decoder_layers=2"]


def around(start: int, n: int) -> str:
    """Words in an order in which each has only one that can come next."""
    return " ".join(WORDS[(start + i) % len(WORDS)] for i in range(n))


def onward(sentence: str) -> str:
    """Each word becomes the one that comes next."""
    return " ".join(around(WORDS.index(word) + 1, 1) for word in sentence.split())


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = random.Random(3)
    path = tmp_path_factory.mktemp("learning") / "text.txt"
    lines = [around(rng.randrange(len(WORDS)), rng.randint(5, 9)) for _ in range(400)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def losses(folder: Path) -> list[float]:
    return [entry["loss"] for entry in open_bundle(folder).read_log() if entry["event"] == "validation"]


def train(*arguments: object) -> None:
    result = attendo("train", *arguments)
    assert result.code == 0, result.err


def test_a_language_model_says_what_comes_next(text: Path, tmp_path: Path) -> None:
    train("--task", "language-model", text, "--out", tmp_path / "gpt", "--steps", 150, *SMALL, *LAYERS)
    assert losses(tmp_path / "gpt")[-1] < 0.8  # where a line ends and how the next begins cannot be known
    for beam in (1, 4):
        shown = attendo("generate", tmp_path / "gpt", "--prompt", around(4, 3), "--beam", beam, "--max-length", 12).out
        assert shown.startswith(around(4, 5)), shown


def test_a_masked_language_model_tells_what_was_hidden_and_what_follows(tmp_path: Path) -> None:
    """Two lines of one word each are a row; they follow each other where the words are the same."""
    rng = random.Random(5)
    lines = [" ".join([word] * 3) for word in rng.choices(WORDS[:4], k=500) for _ in range(2)]
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    train(
        *("--task", "masked-language-model", path, "--out", tmp_path / "bert", "--steps", 300, *SMALL, *LAYERS),
        *("--set", "noise.next_sentence=true", "--set", "data.max_length=9"),
    )
    (guesses,) = attendo("generate", tmp_path / "bert", "--prompt", "bako [MASK] bako", "--json").json()
    assert (guesses[0]["piece"], guesses[0]["text"]) == ("▁bako", "bako bako bako")
    assert guesses[0]["probability"] > 0.8
    found = attendo("evaluate", tmp_path / "bert", path, "--json").json()
    assert found["accuracy"] > 0.9
    # A row whose second line comes from elsewhere has one of four words there, so that a quarter cannot be told.
    assert found["follows_accuracy"] > 0.8 and found["follows_loss"] < 0.55
    assert "follows = " in attendo("evaluate", tmp_path / "bert", path).out


@pytest.mark.parametrize("style", ["t5", "bart"])
def test_what_mends_text_learns_it_and_then_to_translate(style: str, text: Path, tmp_path: Path) -> None:
    train(
        *("--task", "denoise", "--style", style, text, "--out", tmp_path / "mends", "--steps", 200, *SMALL, *SIDES),
        *("--set", "data.max_length=31"),
    )
    assert losses(tmp_path / "mends")[-1] < 1.2  # nats; of words that could be any it would be log 12 = 2.5
    data = write_task(tmp_path, made_up(900), onward)
    train(
        *(data["source"], data["target"], "--from", tmp_path / "mends", "--out", tmp_path / "translates"),
        *("--steps", 700, "--set", "training.learning_rate=0.01", "--set", "training.batch_tokens=256"),
        *("--quiet", "--processes", "1"),
    )
    assert_translates(tmp_path / "translates")


OLDER = {
    "LSTM": ["--model", "rnn"],
    "GRU, additive, one way": [
        *("--model", "rnn", "--set", "model.cell=gru", "--set", "model.scoring=additive"),
        *("--set", "model.both_ways=false"),
    ],
    "convolutional": ["--model", "conv"],
}


@pytest.mark.parametrize("name", OLDER)
def test_older_translators_learn(name: str, tmp_path: Path) -> None:
    data = write_task(tmp_path, made_up(900), onward)
    train(
        *(data["source"], data["target"], "--out", tmp_path / "run", *OLDER[name]),
        *("--set", "model.d_model=48", "--set", "model.n_encoder_layers=1", "--set", "model.n_decoder_layers=1"),
        *("--set", "model.dropout=0", "--set", "training.batch_tokens=256", "--steps", 600),
        *("--set", "training.learning_rate=0.01", "--quiet", "--processes", "1"),
    )
    assert_translates(tmp_path / "run")


def assert_translates(folder: Path) -> None:
    lines = made_up(20, seed=2)
    result = attendo("translate", folder, stdin="".join(f"{line}\n" for line in lines))
    right = [onward(line) == found for line, found in zip(lines, result.out.splitlines(), strict=True)]
    assert sum(right) >= 18, result.out
