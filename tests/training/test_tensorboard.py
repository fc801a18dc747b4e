"""What is written is read back with TensorBoard's own readers: the old one, and the one its page uses."""

import sys
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator
from tensorboard.summary.writer import event_file_writer

from attendo.training.tensorboard import tensorboard_log, why_no_tensorboard

SAMPLES = [
    {"source": "a | *b*", "reference": "<b>c</b>", "translation": "ć `d`", "bleu": 12.3},
    {"source": "e", "reference": "f", "translation": "g", "bleu": 98.7},
]


def progress(step: int, loss: float) -> dict[str, Any]:
    return {"event": "progress", "step": step, "loss": loss, "lr": step / 64, "tokens_per_second": 100 + step}


def validation(step: int, bleu: float) -> dict[str, Any]:
    facts = {"bleu": bleu, "loss": 2.5, "perplexity": 12.25, "samples": SAMPLES}
    return {"event": "validation", "step": step, **facts}


def curve(folder: Path, name: str) -> list[tuple[int, float]]:
    reader = event_accumulator.EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return [(event.step, event.value) for event in reader.Scalars(name)]


def texts(folder: Path) -> list[tuple[int, str]]:
    reader = plugin_event_accumulator.EventAccumulator(str(folder), size_guidance={"tensors": 0}).Reload()
    events = reader.Tensors("validation/samples/text_summary")
    return [(event.step, event.tensor_proto.string_val[0].decode("utf-8")) for event in events]


def test_each_entry_is_written_at_its_step(tmp_path: Path) -> None:
    with tensorboard_log(tmp_path, 0) as log:
        log(progress(2, 5.5))
        log(progress(4, 4.5))
        log(validation(4, 7.25))
        log({"event": "average", "step": 4, "bleu": 1.0})
        # It is there while the run goes on.
        assert curve(tmp_path, "training/loss") == [(2, 5.5), (4, 4.5)]
    assert curve(tmp_path, "training/learning_rate") == [(2, 0.03125), (4, 0.0625)]
    assert curve(tmp_path, "training/tokens_per_second") == [(2, 102), (4, 104)]
    assert curve(tmp_path, "validation/bleu") == [(4, 7.25)]
    assert curve(tmp_path, "validation/loss") == [(4, 2.5)]
    assert curve(tmp_path, "validation/perplexity") == [(4, 12.25)]


def test_samples_are_text_as_it_is(tmp_path: Path) -> None:
    with tensorboard_log(tmp_path, 0) as log:
        log(validation(6, 7.25))
    ((step, text),) = texts(tmp_path)
    assert step == 6
    assert all(line.startswith("    ") for line in text.split("\n"))
    assert [line.strip() for line in text.split("\n")] == [
        "source       a | *b*",
        "reference    <b>c</b>",
        "translation  ć `d`   [BLEU 12]",
        "",
        "source       e",
        "reference    f",
        "translation  g   [BLEU 99]",
    ]


def test_what_happens_again_is_there_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed at step 8, its last checkpoint of step 4."""
    # Files of one second are read in the order of their names, which end with a number: of one process 10 before 9.
    monkeypatch.setattr(event_file_writer, "_global_uid", event_file_writer.AtomicCounter(0))
    with tensorboard_log(tmp_path, 0) as log:
        for step in (2, 4, 6, 8):
            log(progress(step, 5.0))
            log(validation(step, 1.0))
    with tensorboard_log(tmp_path, 4) as log:
        for step in (6, 8, 10):
            log(progress(step, 3.0))
            log(validation(step, 2.0))
    assert curve(tmp_path, "training/loss") == [(2, 5.0), (4, 5.0), (6, 3.0), (8, 3.0), (10, 3.0)]
    assert curve(tmp_path, "validation/bleu") == [(2, 1.0), (4, 1.0), (6, 2.0), (8, 2.0), (10, 2.0)]
    assert [step for step, _ in texts(tmp_path)] == [2, 4, 6, 8, 10]


def test_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert why_no_tensorboard() is None
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard")
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    assert "pip install 'attendo[tensorboard]'" in (why_no_tensorboard() or "")
