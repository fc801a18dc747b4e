"""The log of a run as curves for TensorBoard, which is an extra: only who asks for it needs the package."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attendo.storage import storage_errors

CURVES = {
    "progress": {
        "loss": "training/loss",
        "lr": "training/learning_rate",
        "tokens_per_second": "training/tokens_per_second",
    },
    "validation": {
        "bleu": "validation/bleu",
        "accuracy": "validation/accuracy",
        "loss": "validation/loss",
        "perplexity": "validation/perplexity",
    },
}


def why_no_tensorboard() -> str | None:
    """What is missing, in words, where the package is not installed."""
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError as error:
        return f"TensorBoard cannot be imported ({error}). Install it with pip install 'attendo[tensorboard]'"
    return None


@contextlib.contextmanager
def tensorboard_log(folder: Path, after: int) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """A function that writes an entry of the log as event files in `folder`, each at its step.

    What an earlier part of the run wrote there about steps later than `after` is void: they happen again.
    """
    from torch.utils.tensorboard import SummaryWriter

    with storage_errors(folder):
        writer = SummaryWriter(str(folder), purge_step=after + 1)

    def log(entry: Mapping[str, Any]) -> None:
        if entry["event"] not in CURVES:
            return
        with storage_errors(folder):
            for key, curve in CURVES[entry["event"]].items():
                if key in entry:  # each task has scores of its own
                    writer.add_scalar(curve, entry[key], entry["step"])
            if entry.get("samples"):
                writer.add_text("validation/samples", _as_text(entry["samples"]), entry["step"])
            writer.flush()  # to be seen now, and not lost when the run is killed

    try:
        yield log
    finally:
        with storage_errors(folder):
            writer.close()


def _as_text(samples: Sequence[Mapping[str, Any]]) -> str:
    """Indented by four spaces, which is how Markdown leaves a text as it is."""
    shown = [
        f"    source       {sample['source']}\n"
        f"    reference    {sample['reference']}\n"
        f"    translation  {sample['translation']}   [BLEU {sample['bleu']:.0f}]"
        for sample in samples
    ]
    return "\n    \n".join(shown)
