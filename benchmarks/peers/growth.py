"""How attendo's speed of training changes with sentence length, vocabulary and model size, and what share of the
machine's matrix products it uses.

The corpus is made of random words that become one piece each, so that length and vocabulary are what they should be.
"""

import argparse
import itertools
import json
import random
import shutil
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from attendo.evaluation.chart import STYLE, Series, line_chart
from attendo.machine import cores
from benchmarks.peers.process import run
from benchmarks.peers.results import Record, Results
from benchmarks.peers.training import steady

WARM_UP = 5
UPDATES = 30
LOG_EVERY = 5
CONTROLS_AND_BYTES = 260

MATRIX_PRODUCT = """
import time, torch
best = 0.0
for size in (512, 1024, 2048):
    a, b = torch.randn(size, size), torch.randn(size, size)
    a @ b
    for _ in range(10):
        began = time.perf_counter()
        a @ b
        best = max(best, 2 * size**3 / (time.perf_counter() - began) / 1e9)
print(best)
"""

# A chart is 400 × 250; three stand side by side.
PAGE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1220 560" font-family="system-ui, sans-serif">
<style>
:root {{ --muted: #52606d; --grid: #e4e7eb; --axis: #9aa5b1; --text: #1f2933; --ink-0: #3b7dc4; --ink-1: #d9742f; }}
{style}
.chart {{ width: 400px; height: 250px; }}
</style>
<rect width="1220" height="560" rx="8" fill="#fdfcf9"/>
{charts}
</svg>
"""


@dataclass(frozen=True)
class Point:
    """One measurement: what is varied, and everything that it depends on."""

    axis: str
    length: int = 32
    vocab_size: int = 8000
    d_model: int = 128

    @property
    def value(self) -> int:
        return {"length": self.length, "vocabulary": self.vocab_size, "d_model": self.d_model}[self.axis]

    def flop_per_update(self, batch_tokens: int, n_layers: int) -> float:
        """6 Σ (multiplications of matrix products): forward once, backward twice, and each is two operations."""
        d, t, d_ff = self.d_model, self.length + 1, 2 * self.d_model
        encoder = n_layers * (4 * d * d + 2 * d * d_ff + 2 * t * d)
        decoder = n_layers * (8 * d * d + 2 * d * d_ff + 4 * t * d) + d * self.vocab_size
        return 6.0 * batch_tokens * (encoder + decoder)

    def flop_per_token(self, n_layers: int) -> float:
        """Of source and target tokens together: the two sides are equally long here."""
        return self.flop_per_update(1, n_layers) / 2


def points() -> Iterator[Point]:
    for length in (8, 16, 32, 64, 128, 256, 512):
        yield Point("length", length=length)
    for vocab_size in (2000, 4000, 8000, 16_000, 32_000):
        yield Point("vocabulary", vocab_size=vocab_size)
    for d_model in (64, 128, 256, 512):
        yield Point("d_model", d_model=d_model)


def measure(arguments: argparse.Namespace, results: Results) -> None:
    folder = arguments.out / "growth"
    folder.mkdir(exist_ok=True)
    peak = max(float(run([sys.executable, "-c", MATRIX_PRODUCT]).output.split()[-1]) for _ in range(3))
    results.note("peak_gflops", peak)
    print(f"matrix products: {peak:.0f} GFLOP/s", flush=True)
    for number in range(arguments.repetitions):
        for point in points():
            record = _measure(point, folder, arguments.updates or UPDATES)
            record |= {"share": record["gflops"] / peak}
            results.add("growth", record)
            print(
                f"round {number + 1} of {arguments.repetitions}, {point.axis} {point.value:,}: "
                f"{record['tokens_per_second']:,.0f} tokens/s, {record['share']:.0%} of the peak",
                flush=True,
            )
    (arguments.out / "growth.svg").write_text(picture(results.records("growth")), encoding="utf-8")


def _measure(point: Point, folder: Path, updates: int) -> Record:
    batch_tokens, n_layers = max(2048, 2 * point.length), 4
    files = _corpus(replace(point, axis=""), folder, batch_tokens * (updates + 5))
    bundle = folder / "bundle"
    shutil.rmtree(bundle, ignore_errors=True)
    settings = {
        "data.max_length": 600,
        "tokenizer.vocab_size": point.vocab_size,
        "model.n_encoder_layers": n_layers,
        "model.n_decoder_layers": n_layers,
        "model.d_model": point.d_model,
        "model.d_ff": 2 * point.d_model,
        "model.residual_dropout": 0.1,
        "training.batch_tokens": batch_tokens,
        "training.validate_every": updates,
        "training.checkpoint_every": updates,
        "training.average": 0,
        "training.log_every": LOG_EVERY,
        "training.mixed_precision": "'off'",  # in YAML, off alone is false
    }
    ran = run(
        [
            *(sys.executable, "-m", "attendo", "train", *map(str, files), "--languages", "xx", "yy"),
            *("--valid-source", f"{folder}/valid.source", "--valid-target", f"{folder}/valid.target"),
            *("--preset", "tiny", "--steps", str(updates), "--out", str(bundle), "--quiet", "--device", "cpu"),
            *("--processes", str(cores()), "--threads", "1"),  # as a longer run most often chooses by itself
            *(word for key, value in settings.items() for word in ("--set", f"{key}={value}")),
        ]
    )
    log = [json.loads(line) for line in (bundle / "log.jsonl").read_text().splitlines()]
    facts = json.loads((bundle / "data.json").read_text())
    found = steady([entry for entry in log if entry["event"] == "progress"], warm_up=WARM_UP)
    n_pairs = facts["pairs"]["kept"]
    return {
        "axis": point.axis,
        "value": point.value,
        **found,
        "gflops": found["tokens_per_second"] * point.flop_per_token(n_layers) / 1e9,
        "mean_length": facts["tokens_per_epoch"]["source"] / n_pairs - 1,
        "vocab_size": facts["vocab_size"],
        "load_before": ran.load_before,
    }


def _corpus(point: Point, folder: Path, n_tokens: int) -> list[Path]:
    """Both sides, of sentences that are all equally long; enough of them for every word to come several times."""
    name = f"{point.length}-{point.vocab_size}"
    files = [folder / f"{name}.{side}" for side in ("source", "target")]
    rng = random.Random(0)
    syllables = ["".join(letters) for letters in itertools.product("bcdfghjklmnprstvwz", "aeiouy")]
    words = ["".join(word) for word in itertools.product(syllables, syllables, syllables[:9])]
    # What is left of the vocabulary beside control pieces, bytes, letters and syllables, two thirds of it words: the
    # rest are halves of words.
    words = rng.sample(words, (point.vocab_size - CONTROLS_AND_BYTES - 150) * 2 // 3)
    for path in [*files, folder / "valid.source", folder / "valid.target"]:
        n_sentences = 20 if path.stem == "valid" else max(n_tokens, 12 * len(words)) // (point.length + 1) + 20
        if path.stem == "valid":
            lines = (" ".join(rng.choices(words, k=8)) for _ in range(n_sentences))
        else:
            lines = (" ".join(rng.choices(words, k=point.length)) for _ in range(n_sentences))
        path.write_text("".join(f"{line}\n" for line in lines))
    return files


def picture(records: list[Record]) -> str:
    """Tokens per second above, share of the peak below, each by length, vocabulary and size; every axis doubles."""
    charts = []
    names = {"length": "sentence length, pieces", "vocabulary": "vocabulary, pieces", "d_model": "d_model"}
    for column, (axis, name) in enumerate(names.items()):
        values = sorted({record["value"] for record in records if record["axis"] == axis})
        if not values:
            continue
        for row, (quantity, label, scale) in enumerate(
            (("tokens_per_second", "tokens/s", 1.0), ("share", "% of the matrix-multiply peak", 100.0))
        ):
            line = [
                (
                    float(place),
                    scale
                    * statistics.median(
                        one[quantity] for one in records if (one["axis"], one["value"]) == (axis, value)
                    ),
                )
                for place, value in enumerate(values)
            ]
            chart = line_chart(
                title=f"{label} by {name}",
                x_label=f"{name}: {values[0]:,} to {values[-1]:,}, doubling",
                y_label=label,
                x_range=(0.0, max(1.0, len(values) - 1.0)),
                series=[Series(name=label, points=line, ink=row)],
                from_zero=True,
            )
            place = f'<svg class="chart" x="{10 + 400 * column}" y="{15 + 270 * row}" width="400" height="250"'
            charts.append(chart.replace('<svg class="chart"', place, 1))
    return PAGE.format(style=STYLE, charts="\n".join(charts))
