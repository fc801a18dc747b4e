"""Every part alone, exchanged in the `tiny` preset, on Multi30K English→German: the table of docs/parts.md.

    python -m benchmarks.parts [DATA] measure    # tokens/s of every part, interleaved, on an otherwise idle machine
    python -m benchmarks.parts [DATA] train      # the steps that fit into the minutes at that speed, then validation
    python -m benchmarks.parts [DATA] table --picture docs/parts.svg    # what was found, as Markdown and as a picture

DATA (or the environment variable ATTENDO_DATA) is the folder that holds `multi30k/train.en.gz`, … . The length of a run
is fixed in steps before it starts: minutes * 60 * measured tokens per second / tokens per step. So its BLEU does not
depend on what else the machine does meanwhile, and `train` can put one run on each core, where two threads of one run
would wait for each other. Selection plays no part: every run is scored once, at its last step, on the validation set.
Test sets are not read. A run that is done is not done again: start `train` once more to go on. parts.json holds what
was found so far.
"""

import argparse
import html
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch

import attendo
from attendo import machine
from attendo.bundle import weights_of
from attendo.config import from_dict, merge
from attendo.data.loader import Position, batches_from
from attendo.data.prepare import Prepared, prepare
from attendo.models.family import build_model
from attendo.models.transformer import parameter_table
from attendo.plan import resolve
from attendo.recipe import DataConfig
from attendo.reporting import Silent
from attendo.training.ema import MovingAverage
from attendo.training.loop import take_step
from attendo.training.loss import build_loss
from attendo.training.optimizer import build_optimizer
from attendo.training.team import Team
from benchmarks.runs import add_data, folder_name, multi30k, parsed, side_by_side

DEFAULT = "default"

PARTS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "default, seed 2": {"seed": 2},
    "positions=none": {"model": {"positions": "none"}},
    "positions=sinusoidal-concatenated": {"model": {"positions": "sinusoidal-concatenated"}},
    "positions=learned": {"model": {"positions": "learned"}},
    "positions=rotary": {"model": {"positions": "rotary"}},
    "positions=shaw": {"model": {"positions": "shaw"}},
    "positions=t5": {"model": {"positions": "t5"}},
    "positions=complex": {"model": {"positions": "complex"}},
    "scoring=dot": {"model": {"scoring": "dot"}},
    "scoring=additive": {"model": {"scoring": "additive"}},
    "share_query_key=true": {"model": {"share_query_key": True}},
    "n_key_heads=2": {"model": {"n_key_heads": 2}},
    "n_key_heads=1": {"model": {"n_key_heads": 1}},
    "value_rank=32": {"model": {"value_rank": 32}},
    "span=window": {"model": {"span": "window"}},
    "span=chunk": {"model": {"span": "chunk"}},
    "heads=branched": {"model": {"heads": "branched"}},
    "norm=rmsnorm": {"model": {"norm": "rmsnorm"}},
    "norm=batchnorm": {"model": {"norm": "batchnorm"}},
    "norm=scalenorm": {"model": {"norm": "scalenorm"}},
    "norm_place=post": {"model": {"norm_place": "post"}},
    "norm_place=sandwich": {"model": {"norm_place": "sandwich"}},
    "activation=gelu": {"model": {"activation": "gelu"}},
    "activation=silu": {"model": {"activation": "silu"}},
    "activation=swiglu": {"model": {"activation": "swiglu"}},
    "activation=relu2": {"model": {"activation": "relu2"}},
    "share_layers=groups": {"model": {"share_layers": "groups"}},
    "share_layers=all": {"model": {"share_layers": "all"}},
    "share_encoder_decoder=true": {"model": {"share_encoder_decoder": True}},
    "tie_embeddings=target": {"model": {"tie_embeddings": "target"}},
    "tie_embeddings=none": {"model": {"tie_embeddings": "none"}},
    "layer_drop=0.1": {"model": {"layer_drop": 0.1}},
    "training.ema=0.98": {"training": {"ema": 0.98}},
    "default, seed 3": {"seed": 3},
}
SEEDS = [name for name in PARTS if name.startswith(DEFAULT)]
BURST_SECONDS = 3.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data(parser, "multi30k/")
    parser.add_argument("what", choices=["measure", "train", "one", "table"])
    parser.add_argument("--minutes", type=float, default=5.0, help="training time of each part")
    parser.add_argument("--rounds", type=int, default=3, help="how often every part's speed is measured")
    parser.add_argument("--side-by-side", type=int, default=2, help="runs at a time, each with its share of the cores")
    parser.add_argument("--out", type=Path, default=Path("runs/parts"))
    parser.add_argument("--picture", type=Path, help="with table: where to draw BLEU as bars, an SVG file")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this one, or these")
    arguments = parsed(parser)
    names = arguments.part or list(PARTS)
    arguments.out.mkdir(parents=True, exist_ok=True)
    match arguments.what:
        case "measure":
            measure(arguments.out, arguments.data, names, arguments.rounds)
        case "train":
            train_all(arguments, names)
        case "one":
            train_one(arguments.out, arguments.data, names[0], arguments.minutes)
        case "table":
            print(table(arguments.out, arguments.minutes))
            if arguments.picture is not None:
                arguments.picture.write_text(picture(arguments.out, arguments.minutes), encoding="utf-8")


def settings_of(name: str, data: Path) -> dict[str, Any]:
    return merge({"data": multi30k(data, "en", "de")}, PARTS[name])


def measure(out: Path, data: Path, names: list[str], rounds: int) -> None:
    """Bursts of training steps, part after part on the same batches, round after round."""
    machine.ready("cpu")
    config = from_dict(DataConfig, settings_of(DEFAULT, data)["data"])
    prepared = prepare(
        config.files(),
        config.valid_files(),
        tokenizers=None,
        kind="bpe",
        vocab_size=None,
        joint=True,
        max_length=config.max_length,
        cache=out / ".cache",
        reporter=Silent(),
    )
    trials = {name: Trial(name, data, prepared) for name in names if "seed" not in PARTS[name]}
    for number in range(rounds):
        for trial in trials.values():
            trial.burst()
        said = ", ".join(f"{name} {trial.rates[-1]:,.0f}" for name, trial in trials.items())
        print(f"round {number + 1} of {rounds}, tokens/s: {said}", flush=True)
    path = out / "speed.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    found = {
        name: {
            "rates": trial.rates,
            "tokens_per_step": trial.tokens / trial.steps,
            "parameters": parameter_table(trial.model)["total"],
            "date": time.strftime("%Y-%m-%d"),
            "machine": machine.describe(),
        }
        for name, trial in trials.items()
    }
    path.write_text(json.dumps({**before, **found}, indent=1))


class Trial:
    """One part under measurement; its batches are those of every other part."""

    def __init__(self, name: str, data: Path, prepared: Prepared) -> None:
        settings = settings_of(name, data)
        self.config = resolve(
            settings, "tiny", from_dict(DataConfig, settings["data"]), prepared, None, speed=lambda: 1.0
        )
        torch.manual_seed(self.config.seed)
        self.model = build_model(self.config.model).train()
        self.loss = build_loss(self.config.training)
        self.optimizer = build_optimizer(self.model, self.config.training)
        ema = self.config.training.ema
        self.average = MovingAverage(weights_of(self.model), ema) if ema else None
        self.batches = batches_from(
            prepared.store, Position(), batch_tokens=self.config.training.batch_tokens, seed=self.config.seed
        )
        self.rates: list[float] = []
        self.steps, self.tokens = 0, 0
        self._step()  # the first allocates

    def burst(self) -> None:
        began, before = time.perf_counter(), self.tokens
        while time.perf_counter() - began < BURST_SECONDS:
            self._step()
        self.rates.append((self.tokens - before) / (time.perf_counter() - began))

    def _step(self) -> None:
        batch, _, _ = next(self.batches)
        take_step(
            self.model,
            self.loss,
            self.optimizer,
            [batch],
            config=self.config.training,
            device=torch.device("cpu"),
            team=Team(),
        )
        self.steps += 1
        if self.average is not None:
            self.average.update(self.steps)
        self.tokens += batch.n_tokens


def train_all(arguments: argparse.Namespace, names: list[str]) -> None:
    """Every run that is not done yet, so many at a time, each in a process of its own."""
    options = ["--minutes", str(arguments.minutes), "--out", str(arguments.out)]
    waiting = {
        name: ["benchmarks.parts", str(arguments.data), "one", "--part", name, *options]
        for name in names
        if not (folder(arguments.out, name) / "scores.json").exists()
    }
    failed = []
    for name, succeeded in side_by_side(waiting, at_once=arguments.side_by_side):
        print(f"{name}: {'done' if succeeded else 'failed'}", flush=True)
        failed += [] if succeeded else [name]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def train_one(out: Path, data: Path, name: str, minutes: float) -> None:
    path = folder(out, name)
    if path.exists():
        attendo.resume(path, device="cpu")
        return
    speed = json.loads((out / "speed.json").read_text())[DEFAULT if name in SEEDS else name]
    steps = round(minutes * 60 * statistics.median(speed["rates"]) / speed["tokens_per_step"])
    training = {"steps": steps, "validate_every": steps, "checkpoint_every": 200, "keep_checkpoints": 1, "average": 0}
    settings = merge(settings_of(name, data), {"training": training})
    attendo.train(settings=settings, preset="tiny", out=path, device="cpu")


def folder(out: Path, name: str) -> Path:
    return out / folder_name(name)


def table(out: Path, minutes: float) -> str:
    """Validation BLEU with beam 5 of every part that is done, beside its speed and size."""
    speeds = json.loads((out / "speed.json").read_text())
    done = {name: found for name in PARTS if (found := scores(out, name))}
    if not done:
        sys.exit(f"no run in {out} is done")
    conditions, signature = speeds[DEFAULT], next(iter(done.values()))["validation"]["bleu"]["signature"]
    usual = statistics.median(speeds[DEFAULT]["rates"])
    lines = [
        f"{conditions['date']}, {conditions['machine']['processor']}, {conditions['machine']['threads']} threads, "
        f"torch {conditions['machine']['torch']}; {minutes:g} minutes each; BLEU on the validation set with beam 5, "
        f"`{signature}`.",
        "",
        "| part | BLEU | perplexity | tokens/s, median (least to most) | against the default | steps | parameters |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, found in done.items():
        speed = speeds[DEFAULT if name in SEEDS else name]
        rates = speed["rates"]
        lines.append(
            f"| {name} | {found['validation']['bleu']['score']:.1f} | {found['perplexity']:.2f} | "
            f"{statistics.median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f}) | "
            f"{statistics.median(rates) / usual:.2f} | {found['steps']:,} | {speed['parameters']:,} |"
        )
    missing = [name for name in PARTS if name not in done]
    return "\n".join([*lines, *(["", f"Not done yet: {', '.join(missing)}."] if missing else [])])


ROW, LEFT, RIGHT, TOP = 22, 290, 90, 64  # of the picture, in its units
WIDTH = 900


def picture(out: Path, minutes: float) -> str:
    """A bar for each part, best first, and a band where the default is with other seeds: within it, all are alike."""
    done = {name: scores(out, name)["validation"]["bleu"]["score"] for name in PARTS if scores(out, name)}
    seeds = [score for name, score in done.items() if name in SEEDS]
    bars = sorted(((score, name) for name, score in done.items() if name not in SEEDS[1:]), reverse=True)
    unit = (WIDTH - LEFT - RIGHT) / max(done.values())
    height = TOP + ROW * len(bars) + 16
    rows = []
    for place, (score, name) in enumerate(bars):
        y = TOP + ROW * place
        fill = "#d9742f" if name == DEFAULT else "#3b7dc4"
        rows += [
            f'<text x="{LEFT - 10}" y="{y + 12}" text-anchor="end">{html.escape(name)}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{score * unit:.1f}" height="{ROW - 6}" fill="{fill}"/>',
            f'<text x="{LEFT + score * unit + 8:.1f}" y="{y + 12}">{score:.1f}</text>',
        ]
    breadth = max(1.0, (max(seeds) - min(seeds)) * unit)
    band = (
        f'<rect x="{LEFT + min(seeds) * unit:.1f}" y="{TOP - 8}" width="{breadth:.1f}" '
        f'height="{ROW * len(bars) + 8}" fill="#d9742f" opacity="0.3"/>'
    )
    title = f"BLEU on Multi30K's validation set, English→German, after {minutes:g} minutes on two cores"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
            'aria-labelledby="title" font-family="system-ui, sans-serif" font-size="14" fill="#1f2933">',
            f'<title id="title">{title}</title>',
            f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#fdfcf9"/>',
            f'<text x="16" y="26" font-size="16" font-weight="600">{title}</text>',
            f'<text x="16" y="46" fill="#52606d">one part exchanged at a time, one seed each; band: the default with '
            f"{len(seeds)} seeds</text>",
            band,
            *rows,
            "</svg>\n",
        ]
    )


def scores(out: Path, name: str) -> dict[str, Any]:
    path = folder(out, name) / "scores.json"
    return json.loads(path.read_text()) if path.exists() else {}


if __name__ == "__main__":
    main()
