"""A translator trained once, in a few seconds, for all tests that need one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from attendo import run, translator
from attendo.bundle import Bundle
from attendo.translator import Translator
from tests.numerals import write_corpus

TINY_SETTINGS: dict[str, Any] = {
    "tokenizer": {"vocab_size": 401},
    "model": {
        "n_encoder_layers": 1,
        "n_decoder_layers": 1,
        "d_model": 32,
        "d_ff": 48,
        "n_heads": 2,
        "residual_dropout": 0.0,
        "activation": "relu",
        "positions": "sinusoidal",
    },
}


@dataclass(frozen=True)
class Trained:
    """A run that has finished, and the files it was trained on."""

    path: Path
    bundle: Bundle
    source: Path
    target: Path


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("trained")
    source, target = write_corpus(folder, pairs=600)
    settings = {
        **TINY_SETTINGS,
        "data": {"source": str(source), "target": str(target), "max_length": 61},
        "training": {
            "optimizer": "adam",
            "label_smoothing": 0.1,
            "steps": 420,
            "learning_rate": 0.01,
            "batch_tokens": 400,
            "validate_every": 420,
            "checkpoint_every": 140,
        },
    }
    bundle = run.train(settings=settings, out=folder / "runs" / "numerals")
    return Trained(bundle.path, bundle, source, target)


@pytest.fixture(scope="session")
def tiny(trained: Trained) -> Translator:
    return translator.load(trained.path, device="cpu")
