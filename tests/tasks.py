"""Made-up translation tasks that a tiny model learns in seconds, and the settings of such a model."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from attendo import pace
from attendo.config import merge
from attendo.training.trial import Trial

WORDS = ("bako", "delu", "fimi", "goja", "hune", "kipo", "lasu", "mewa", "nori", "pyta", "ruzo", "sevi")


def made_up(n: int, *, seed: int = 1, shortest: int = 2, longest: int = 6) -> list[str]:
    """`n` different sentences of made-up words."""
    rng = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < n:
        found[" ".join(rng.choices(WORDS, k=rng.randint(shortest, longest)))] = None
    return list(found)


def reverse(sentence: str) -> str:
    return " ".join(reversed(sentence.split()))


def write_task(folder: Path, sources: list[str], translate: Callable[[str], str] = lambda text: text) -> dict[str, str]:
    """Writes `task.xx` and `task.yy`; returns the `data` settings that name them."""
    folder.mkdir(parents=True, exist_ok=True)
    sides = {"source": (folder / "task.xx", sources), "target": (folder / "task.yy", [translate(s) for s in sources])}
    for path, lines in sides.values():
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return {key: str(path) for key, (path, _) in sides.items()}


def tiny(data: dict[str, Any], **groups: Any) -> dict[str, Any]:
    """Settings of a model that takes a few milliseconds a step; further groups are merged over them."""
    settings = {
        "data": data,
        "model": {
            "n_encoder_layers": 1,
            "n_decoder_layers": 1,
            "d_model": 32,
            "d_ff": 64,
            "n_heads": 2,
            "activation": "relu",
            "positions": "sinusoidal",
        },
        "training": {
            "optimizer": "adam",
            "label_smoothing": 0.1,
            "batch_tokens": 512,
            "learning_rate": 0.01,
            "schedule": "inverse-sqrt",
            "warmup_steps": 40,
        },
    }
    return merge(settings, groups)


@contextmanager
def unmeasured() -> Iterator[None]:
    """No run measures its steps, for which one of several processes would have to start them all once more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pace, "_measure", lambda *_: Trial(tokens=100, steps=1, seconds=0.01))
        yield
