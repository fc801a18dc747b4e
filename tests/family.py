"""Small data and settings for every task but translation: runs that take a second or two."""

from pathlib import Path
from typing import Any

from attendo.config import merge

from .tasks import made_up

TINY: dict[str, Any] = {
    "model": {"d_model": 24, "d_ff": 31, "n_heads": 2, "residual_dropout": 0.1, "attention_dropout": 0.1},
    "training": {
        "steps": 14,
        "batch_tokens": 200,
        "accumulate": 2,
        "learning_rate": 0.01,
        "warmup_steps": 5,
        "checkpoint_every": 4,
        "validate_every": 6,
        "log_every": 1,
        "keep_checkpoints": 3,
        "average": 3,
    },
}

COLOURS = {"red": "ruzo", "blue": "bako"}  # labels, and the word that a text of each has


def write_text(folder: Path, n: int = 150) -> Path:
    path = folder / "text.txt"
    path.write_text("".join(f"{line}.\n" for line in made_up(n, shortest=3)), encoding="utf-8")
    return path


def write_labels(folder: Path, n: int = 90, *, seed: int = 1, two: bool = True) -> Path:
    """A text has the label of the word that is in it; every third line has two texts, unless none is to have them."""
    lines = []
    others = [text for text in made_up(6 * n, seed=seed) if not {"ruzo", "bako"} & set(text.split())]
    for number, text in enumerate(others[:n]):
        label, word = list(COLOURS.items())[number % 2]
        place = number % (len(text.split()) + 1)
        words = [*text.split()[:place], word, *text.split()[place:]]
        second = "\tnori sevi" if two and number % 3 == 0 else ""
        lines.append(f"{label}\t{' '.join(words)}{second}\n")
    path = folder / f"labels-{seed}{'' if two else '-of-one-text'}.tsv"
    path.write_text("".join(lines), encoding="utf-8")
    return path


def settings_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Name -> settings of a run."""
    text, labels = str(write_text(folder)), str(write_labels(folder))
    ones = str(write_labels(folder, two=False))
    layers = {"model": {"n_layers": 2}}
    sides = {"model": {"n_encoder_layers": 1, "n_decoder_layers": 1}}

    def run(source: str, task: str, length: int, *more: dict[str, Any]) -> dict[str, Any]:
        return merge(TINY, {"task": task, "data": {"source": source, "max_length": length}}, *more)

    return {
        "gpt": run(text, "language-model", 17, layers, {"tokenizer": {"kind": "characters"}}),
        "llama": run(text, "language-model", 19, layers, {"tokenizer": {"vocab_size": 307}}),
        "bert": run(text, "masked-language-model", 29, layers, {"noise": {"next_sentence": True, "whole_words": True}}),
        "classifier": run(labels, "classify", 37, layers),
        "spans": {**run(ones, "classify", 37), "model": {"n_filters": 7, "word_dropout": 0.1}},
        "t5": run(text, "denoise", 41, sides),
        "bart": run(
            text, "denoise", 41, sides, {"noise": {"kind": "bart", "masking": 0.1, "deletion": 0.1, "rotation": True}}
        ),
    }


def preset_of(name: str) -> Any:
    return "llama" if name == "llama" else "auto"
