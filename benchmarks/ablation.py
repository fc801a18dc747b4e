"""What each part of the automatic preset is worth on Multi30K English→German, removed or added one at a time.

    python -m benchmarks.ablation [DATA] train --epochs 24 --out runs/ablation
    python -m benchmarks.ablation [DATA] table --epochs 24

DATA (or the environment variable ATTENDO_DATA) is the folder that holds `multi30k/train.en.gz`, … . What `--effort
quick` chooses, the same with one part at a time exchanged for the plain one, and with one part at a time that it does
not have. Every run reads the text `--epochs` times, as often as ten minutes have room for on the machine in question (a
run of `--effort quick` says how often), so that it does not matter how busy the machine is: `train` puts one run on
each core. BLEU on validation, beam 5; test sets are not read. ablation.json holds what was found so far. A run that is
done is not done again, one that was interrupted is resumed: start `train` once more to go on.
"""

import argparse
import json
import time
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from attendo import machine
from attendo.bundle import Bundle, open_bundle
from attendo.card import cell
from attendo.cli.terminal import Terminal
from attendo.config import merge
from attendo.errors import TrainingError
from attendo.recipe import FEW_PASSES, choose
from attendo.storage import write_file
from benchmarks.runs import add_data, folder_name, multi30k, parsed, side_by_side, trained

Parts = dict[str, dict[str, Any]]  # settings by what they exchange or add
Figures = dict[str, Any]  # of a run

FOUND = Path(__file__).with_suffix(".json")  # Figures by passes, part and seed
PAIRS = 29_000

# What --effort quick has, each exchanged for what a plain run has: for a few passes, and for more of them, which it
# comes to on a faster machine.
WHOLE = "all of it"
FOR_BOTH: Parts = {
    "without SiLU (with ReLU)": {"model": {"activation": "relu"}},
    "without norms before the layers (with norms after)": {"model": {"norm_place": "post"}},
    "without dropout": {"model": {"residual_dropout": 0.0}},
    "without the cosine schedule (with the paper's)": {
        "training": {"schedule": "paper", "learning_rate": 1.0, "warmup_steps": 1000}
    },
    "without label smoothing": {"training": {"label_smoothing": 0.0}},
    "without clipping": {"training": {"clip_norm": 0.0}},
}
FOR_FEW: Parts = {
    "without related embeddings": {"training": {"embeddings": "random"}},
    "without embeddings of their own for input and output": {"model": {"tie_embeddings": "all"}},
    "without small batches (with 2,048 tokens)": {"training": {"batch_tokens": 2048}},
}
FOR_MORE: Parts = {
    "without Muon (with AdamW)": {"training": {"optimizer": "adamw"}},
    "without weight decay": {"training": {"weight_decay": 0.0}},
    "without more label smoothing (with 0.1)": {"training": {"label_smoothing": 0.1}},
    "without positions beside the embeddings (with them added)": {"model": {"positions": "sinusoidal"}},
}
AVERAGE = "without the average of checkpoints"  # of which every run says itself what it is worth
# What it does not have.
WITH: Parts = {
    "with R-Drop (α = 3), half as often": {"training": {"r_drop": 3.0}},
    "with BPE-dropout 0.1": {"training": {"bpe_dropout": 0.1}},
    "with word dropout 0.1": {"model": {"word_dropout": 0.1}},
    "with a moving average of the weights (0.999)": {"training": {"ema": 0.999}},
    "with the stable schedule": {"training": {"schedule": "stable"}},
}
WITH_FEW: Parts = {
    "with dropout 0.2": {"model": {"residual_dropout": 0.2}},
    "with Muon": {"training": {"optimizer": "muon"}},
    "with positions beside the embeddings, not added": {"model": {"positions": "sinusoidal-concatenated"}},
}
WITH_MORE: Parts = {
    "with less weight decay (0.1)": {"training": {"weight_decay": 0.1}},
    "with more weight decay (0.8)": {"training": {"weight_decay": 0.8}},
    "with dropout 0.3": {"model": {"residual_dropout": 0.3}},
    "with related embeddings": {"training": {"embeddings": "related"}},
    "with embeddings of their own for input and output": {"model": {"tie_embeddings": "none"}},
}


def parts(epochs: float) -> Parts:
    """What is exchanged or added in runs of so many passes, by name; first what is not touched."""
    few = epochs < FEW_PASSES
    without, more = (FOR_FEW, WITH_FEW) if few else (FOR_MORE, WITH_MORE)
    return {WHOLE: {}} | without | FOR_BOTH | WITH | more


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data(parser, "multi30k/")
    parser.add_argument("what", choices=["train", "one", "table"])
    parser.add_argument("--epochs", type=float, required=True, help="of each run")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2], help="of the runs")
    parser.add_argument("--part", action="append", help="only this, or these; by name")
    parser.add_argument("--cores", type=int, nargs="+", help="only these, by number")
    parser.add_argument("--out", type=Path, default=Path("runs/ablation"), help="folder of the bundles; resumed")
    arguments = parsed(parser)
    known = parts(arguments.epochs)
    if strange := set(arguments.part or ()) - set(known):
        parser.error(f"no such part: {', '.join(strange)}. There are: {'; '.join(known)}.")
    names = arguments.part or list(known)
    match arguments.what:
        case "train":
            train(arguments, names)
            print(table(arguments.epochs))
        case "one":
            one(arguments, names[0], arguments.seeds[0])
        case "table":
            print(table(arguments.epochs))


def train(arguments: argparse.Namespace, names: list[str]) -> None:
    """Every run that is not done yet; what each scored is written down when it ends."""
    passes, failed = f"{arguments.epochs:g}", []
    waiting = {
        (name, seed): [
            *("benchmarks.ablation", str(arguments.data), "one", "--epochs", passes, "--out", str(arguments.out)),
            *("--part", name, "--seeds", str(seed)),
        ]
        for seed in arguments.seeds
        for name in names
        if str(seed) not in found(arguments.epochs).get(name, {})
    }
    about = {"date": time.strftime("%Y-%m-%d"), "machine": machine.describe()}
    at_once = len(arguments.cores or ()) or machine.cores()
    for (name, seed), succeeded in side_by_side(waiting, at_once=at_once, cores=arguments.cores):
        if not succeeded:
            failed.append(f"{name}, seed {seed}")
            continue
        out = folder(arguments, name, seed)
        figures = {"diverged": True} if diverged(out).exists() else figures_of(open_bundle(out))
        known = json.loads(FOUND.read_text(encoding="utf-8")) if FOUND.exists() else {}
        known.setdefault(passes, {}).setdefault(name, {})[str(seed)] = figures | about
        write_file(FOUND, json.dumps(known, indent=1, ensure_ascii=False) + "\n")
    if failed:
        raise SystemExit(f"failed: {'; '.join(failed)}")


def one(arguments: argparse.Namespace, name: str, seed: int) -> None:
    """What is chosen for so few passes, with one part exchanged."""
    part, epochs, out = parts(arguments.epochs)[name], arguments.epochs, folder(arguments, name, seed)
    training = {
        "epochs": epochs / (2 if part.get("training", {}).get("r_drop") else 1),
        "processes": 1,
        "threads": 1,
        "mixed_precision": "bfloat16" if machine.has_bfloat16(torch.device("cpu")) else "off",
        "patience": 0,
    }
    settings = {"data": multi30k(arguments.data, "en", "de"), "training": training, "seed": seed}
    # For R-Drop, too, which makes half of them: `auto` itself would choose for half.
    chosen = choose("auto", pairs=PAIRS, passes=epochs)
    if diverged(out).exists():
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        trained(out, merge(chosen, settings, part), Terminal(), preset="tiny")
    except TrainingError as error:
        write_file(diverged(out), f"{error}\n")


def folder(arguments: argparse.Namespace, name: str, seed: int) -> Path:
    return Path(arguments.out) / f"{folder_name(name)}-seed-{seed}"


def diverged(out: Path) -> Path:
    return out.with_name(f"{out.name}.diverged")


def figures_of(bundle: Bundle) -> Figures:
    """BLEU with beam 5 of what was kept; of the best checkpoint, and of the average; and the least loss."""
    log, scores = bundle.read_log(), bundle.scores()
    compared = next(entry for entry in log if entry["event"] == "average")
    return {
        "bleu": scores["validation"]["bleu"]["score"],
        "signature": scores["validation"]["bleu"]["signature"],
        "chrf": scores["validation"]["chrf"]["score"],
        "best_checkpoint": compared["best_checkpoint"],
        "average": compared["score"],
        "loss": min(entry["loss"] for entry in log if entry["event"] == "validation"),
        "steps": scores["steps"],
    }


def found(epochs: float) -> dict[str, dict[str, Figures]]:
    """By part and seed."""
    known: dict[str, dict[str, dict[str, Figures]]] = {}
    if FOUND.exists():
        known = json.loads(FOUND.read_text(encoding="utf-8"))
    return known.get(f"{epochs:g}", {})


def table(epochs: float) -> str:
    """Of the seeds that were trained with all of it; every difference is one of the same seeds."""
    runs = found(epochs)
    whole = runs.get(WHOLE)
    if whole is None:
        raise SystemExit(f"no run of {epochs:g} passes with {WHOLE} is done")
    rows = {name: {seed: _bleu(run) for seed, run in runs[name].items()} for name in parts(epochs) if name in runs}
    rows[AVERAGE] = {seed: _bleu(run, "best_checkpoint") for seed, run in whole.items()}
    lines = ["| | BLEU, mean | of each seed | difference | least loss |", "|---|---|---|---|---|"]
    for name, scores in rows.items():
        each = ", ".join("diverged" if score is None else f"{score:.1f}" for score in scores.values())
        both = [(score, rows[WHOLE].get(seed)) for seed, score in scores.items()]
        pairs = [(score, usual) for score, usual in both if score is not None and usual is not None]
        cells = ["", ""]
        if pairs:
            cells = [
                f"{mean(score for score, _ in pairs):.1f}",
                "" if name == WHOLE else f"{mean(score - usual for score, usual in pairs):+.1f}",
            ]
        losses = [run["loss"] for run in runs.get(name, {}).values() if "loss" in run]
        lines.append(f"| {name} | {cells[0]} | {each} | {cells[1]} | {f'{mean(losses):.3f}' if losses else ''} |")
    about = next(iter(whole.values()))
    missing = [name for name in parts(epochs) if name not in runs]
    return "\n".join(
        [
            f"{about['date']}, {about['machine']['processor']}, torch {about['machine']['torch']}, one core each; "
            f"{epochs:g} passes; validation, beam 5, {cell(about['signature'])}; seeds {', '.join(whole)}.",
            "",
            *lines,
            *(["", f"Not done yet: {', '.join(missing)}."] if missing else []),
        ]
    )


def _bleu(figures: Figures, which: str = "bleu") -> float | None:
    return figures.get(which)


if __name__ == "__main__":
    main()
