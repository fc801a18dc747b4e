"""Training: speed in short runs, round after round; loss and memory in one long run of each.

Speed is real source and target tokens per second over all updates but the first few, by the clock inside the process.
attendo's comes from the log of its run, which has the same meaning. Memory is the highest sum of PSS over the processes
of a peer, five times a second until the last update; only the long runs are sampled, for looking costs time.
"""

import itertools
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.peers.data import Data
from benchmarks.peers.environments import python_of
from benchmarks.peers.process import run
from benchmarks.peers.setting import Setting, Task

INSTALLED = "as installed"
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE"}


@dataclass(frozen=True)
class Variant:
    """One way to run a peer: what is set in the environment, and for attendo on its command line."""

    peer: str
    name: str
    environment: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()


ORDINARY_STEPS = 5000
PEERS = ("attendo", "eole", "transformers", "torch", "joeynmt")
VARIANTS = [
    Variant("attendo", INSTALLED),
    Variant("attendo", "2 processes × 1 thread", options=("--processes", "2", "--threads", "1")),
    Variant("attendo", "1 process × 2 threads", options=("--processes", "1", "--threads", "2")),
    Variant("attendo", "1 process × 1 thread", options=("--processes", "1", "--threads", "1")),
    *(
        Variant(peer, name, environment)
        for peer in PEERS[1:]
        for name, environment in (
            (INSTALLED, {}),
            ("1 thread", ONE_THREAD),
            ("threads wait without spinning", PASSIVE),
        )
    ),
]
# The norm is before the sublayers in eole, so that its loss is to be compared with attendo's where it is there, too.
LONG = [
    Variant("attendo", INSTALLED),
    Variant("attendo", "norm before", options=("--set", "model.norm_place=pre")),
    *(Variant(peer, INSTALLED) for peer in PEERS[1:]),
]


def measure(
    variant: Variant,
    data: Data,
    folder: Path,
    environments: Path,
    *,
    updates: int,
    warm_up: int,
    seconds: float | None,
    long: bool,
) -> dict[str, Any]:
    """One run; its folder is emptied before and removed after."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # Its sampler goes from long to short sentences in 50 batches, so that all of them must be measured, or none.
    in_cycles = variant.peer == "transformers"
    task = Task(
        data=str(data.folder),
        out=str(folder),
        updates=updates,
        warm_up=warm_up,
        seconds=None if in_cycles else seconds,
        sentences=data.sentences,
        evaluate=long,
    )
    train = _attendo if variant.peer == "attendo" else _peer
    found = train(variant, task, data, environments)
    shutil.rmtree(folder)
    return {"peer": variant.peer, "variant": variant.name, **found}


def _peer(variant: Variant, task: Task, data: Data, environments: Path) -> dict[str, Any]:  # noqa: ARG001
    python = python_of(variant.peer, environments)
    done = Path(task.out) / "updates.json"
    ran = run(
        [python, "-m", f"benchmarks.peers.inside.train_{variant.peer}", task.write()],
        environment=variant.environment,
        until=done.exists,
        sample=task.evaluate,
    )
    updates = [tuple(update) for update in json.loads(done.read_text())]
    measured = updates[task.warm_up :]
    tokens, positions = (sum(update[place] for update in measured) for place in (1, 2))
    seconds = updates[-1][0] - updates[task.warm_up - 1][0]
    found = {
        "updates": len(updates),
        "tokens_per_update": tokens / len(measured),
        "tokens_per_second": tokens / seconds,
        "padding": 1 - tokens / positions,
        "wall_seconds": ran.seconds,
        "load_before": ran.load_before,
    }
    if task.evaluate:
        found |= {"peak_pss": ran.peak_pss, **json.loads((Path(task.out) / "loss.json").read_text())}
    return found


def _attendo(variant: Variant, task: Task, data: Data, environments: Path) -> dict[str, Any]:  # noqa: ARG001
    # Beside the folder that is removed each time stands .cache, where attendo keeps the tokenised corpus.
    out, setting = Path(task.out).parent / "bundle", Setting()
    shutil.rmtree(out, ignore_errors=True)
    # The speed is that of a run of ordinary length, ended early: for a short one attendo does not compare splits.
    steps = task.updates if task.evaluate else ORDINARY_STEPS
    settings = {
        "data.max_length": 300,
        "tokenizer.vocab_size": setting.vocab_size,
        "model.n_encoder_layers": setting.n_layers,
        "model.n_decoder_layers": setting.n_layers,
        "model.d_model": setting.d_model,
        "model.d_ff": setting.d_ff,
        "model.n_heads": setting.n_heads,
        "model.norm_place": "post",
        "model.residual_dropout": setting.dropout,
        "training.batch_tokens": setting.batch_tokens,
        "training.label_smoothing": setting.label_smoothing,
        "training.clip_norm": setting.clip_norm,
        "training.beta1": setting.beta1,
        "training.beta2": setting.beta2,
        "training.epsilon": setting.epsilon,
        "training.schedule": "paper",
        "training.learning_rate": setting.factor,
        "training.warmup_steps": setting.warmup,
        "training.validate_every": steps,
        "training.checkpoint_every": steps,
        "training.average": 0,
        "training.mixed_precision": "'off'",  # in YAML, off alone is false
        "training.log_every": 5,
        "seed": setting.seed,
    }
    ran = run(
        [
            *(sys.executable, "-m", "attendo", "train", data.path("train.en"), data.path("train.de")),
            *("--valid-source", data.path("few.en"), "--valid-target", data.path("few.de")),
            *("--preset", "tiny", "--steps", str(steps), "--out", str(out), "--quiet", "--device", "cpu"),
            *(word for key, value in settings.items() for word in ("--set", f"{key}={value}")),
            *variant.options,
        ],
        environment=variant.environment,
        until=lambda: any(entry["step"] >= task.updates for entry in _progress(out)),
        sample=task.evaluate,
        stop=not task.evaluate,
    )
    machine = json.loads((out / "data.json").read_text(encoding="utf-8"))["machine"]
    found = {
        **steady(_progress(out), warm_up=task.warm_up),
        "split": f"{machine['processes']} × {machine['threads']}",
        "wall_seconds": ran.seconds,
        "load_before": ran.load_before,
    }
    if task.evaluate:
        found |= {"peak_pss": ran.peak_pss, **_attendo_loss(out, data)}
    return {"updates": task.updates, **found}


def steady(entries: list[dict[str, Any]], *, warm_up: int) -> dict[str, float]:
    """Tokens per second and padding from a run's log, over the steps after the first `warm_up`.

    An entry has the rate since the entry before, and when it was written. So tokens = Σ rate · time between entries.
    """
    measured = [pair for pair in itertools.pairwise(entries) if pair[0]["step"] >= warm_up]
    spans = [60 * (entry["minutes"] - before["minutes"]) for before, entry in measured]
    tokens = [entry["tokens_per_second"] * span for (_, entry), span in zip(measured, spans, strict=True)]
    positions = [count / (1 - entry["padding"]) for (_, entry), count in zip(measured, tokens, strict=True)]
    steps = measured[-1][1]["step"] - measured[0][0]["step"]
    return {
        "tokens_per_update": sum(tokens) / steps,
        "tokens_per_second": sum(tokens) / sum(spans),
        "padding": 1 - sum(tokens) / sum(positions),
    }


def _progress(bundle: Path) -> list[dict[str, Any]]:
    log = bundle / "log.jsonl"
    if not log.exists():
        return []
    whole = [line for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [entry for entry in map(json.loads, whole) if entry["event"] == "progress"]


def _attendo_loss(bundle: Path, data: Data) -> dict[str, float]:
    """By attendo's own scoring, on the same ids as all others."""
    import attendo

    translator = attendo.load(bundle, device="cpu")
    if translator.tokenizers.source.to_json() != (data.folder / "tokenizer.json").read_text(encoding="utf-8"):
        raise SystemExit("attendo has learned another tokenizer than the one all others were given the ids of.")
    scores = translator.score(data.lines("probe.en"), data.lines("probe.de"))
    pieces = sum(score.n_pieces for score in scores)
    return {"loss": -sum(score.log_prob for score in scores) / pieces, "tokens": pieces}


def rounds(variants: list[Variant], repetitions: int, one: Callable[[Variant], dict[str, Any]]) -> None:
    """Round after round through all variants, so that what the machine does meanwhile hits all alike."""
    for number in range(repetitions):
        for variant in variants:
            found = one(variant)
            print(
                f"round {number + 1} of {repetitions}, {variant.peer}, {variant.name}: "
                f"{found['tokens_per_second']:,.0f} tokens/s, padding {found['padding']:.0%}, "
                f"load before {found['load_before']:.1f}",
                flush=True,
            )
