"""What the automatic preset makes of small corpora, and what each of its parts is worth.

    python -m benchmarks.small_data [DATA] sizes --out runs/sizes
    python -m benchmarks.small_data [DATA] ablation --epochs 13 --out runs/ablation
    python -m benchmarks.small_data [DATA] adapting --out runs/adapting
    python -m benchmarks.small_data [DATA] chinese --out runs/chinese

DATA (or the environment variable ATTENDO_DATA) is the folder that holds `multi30k/` and `tatoeba_en_zh/`.

sizes: 1,000, 5,000 and 29,000 pairs of Multi30K, chosen at random, and 200,000 of the sample corpus: what `--effort
quick` chooses, how long it takes, and BLEU with beam 5 on the validation part, which is not selected on: 500 other
pairs are held out for that.

ablation: Multi30K English→German with what `--effort quick` chooses, and the same with one part at a time exchanged for
the plain one, and with one part at a time that it does not have. Every run reads the text `--epochs` times, as often as
ten minutes have room for on the machine in question (a run of `--effort quick` says how often), so that it does not
matter how busy the machine is. One process each: as many runs at the same time as there are cores. BLEU on validation,
beam 5.

adapting: a translator of half of Multi30K goes on (`--from`) with 1,000 pairs of something else, sentences of the
sample corpus and captions of the other half in French, beside one that is trained on the same pairs from nothing.

chinese: Tatoeba English→Chinese and Chinese→English with `--effort quick`; with the paper's model and settings (the
preset `base`) in the same time; and with the paper's settings for a model as small as `quick` has. Both have a shorter
warm-up that goes up to the paper's rate. The test part is read once, when each has ended.

Runs that were interrupted are resumed. Each writes RESULT.json and RESULT.md into its folder.
"""

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import torch

import attendo
from attendo import machine
from attendo.assessment import assess
from attendo.bundle import Bundle, open_bundle
from attendo.card import cell
from attendo.cli.terminal import Terminal
from attendo.config import merge
from attendo.data.prepare import open_prepared
from attendo.errors import TrainingError
from attendo.plan import misfit
from attendo.recipe import FEW_PASSES, MINUTES, RecipeName, choose
from attendo.sample.corpus import write_sample
from attendo.storage import write_file
from attendo.text.corpus import read_lines
from benchmarks.runs import add_data, minutes, minutes_in_all, multi30k, parsed, trained, write_result

Pairs = list[tuple[str, str]]
Parts = dict[str, dict[str, Any]]  # settings by what they exchange or add

SIZES = (1_000, 5_000, 29_000)
SAMPLE = 200_000
SAMPLE_NAME = f"{SAMPLE:,} of the sample corpus"
HELD_OUT = 500
FEW = 1_000
SENTENCES = "sentences of the sample corpus"

# Of `chinese`: the recipe in words, the preset, and what else is set.
PAPER_MODEL = {"norm_place": "post", "activation": "relu", "residual_dropout": 0.1, "tie_embeddings": "all"}
PAPER_TRAINING = {
    "optimizer": "adam",
    "schedule": "paper",
    "warmup_steps": 1000,
    "learning_rate": 0.5,  # times (d_model · 1000)^-0.5: the peak that 4,000 steps of warm-up have with 1
    "batch_tokens": 4096,
    "label_smoothing": 0.1,
    "clip_norm": 0.0,
    "average": 5,
}
RECIPES: dict[str, tuple[str, RecipeName, dict[str, Any]]] = {
    "quick": ("`--effort quick`", "auto", {}),
    "paper": ("the paper's model and settings (`--preset base`)", "base", {}),
    "paper-small": (
        "the paper's settings, as small as `quick`",
        "tiny",
        {"model": PAPER_MODEL, "training": PAPER_TRAINING},
    ),
}

# What --effort quick has, each exchanged for what a plain run has: for a few passes, and for more of them, which it
# comes to on a faster machine. What the average is worth, every run says itself.
WHOLE = "without nothing"
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
    "without Muon and weight decay (with Adam)": {"training": {"optimizer": "adam", "weight_decay": 0.0}},
    "without weight decay": {"training": {"weight_decay": 0.0}},
    "without more label smoothing (with 0.1)": {"training": {"label_smoothing": 0.1}},
    "without positions beside the embeddings (with them added)": {"model": {"positions": "sinusoidal"}},
}
AVERAGE = "without the average of checkpoints"
# What it does not have.
WITH: Parts = {
    "with word dropout 0.1": {"model": {"word_dropout": 0.1}},
    "with BPE-dropout 0.1": {"training": {"bpe_dropout": 0.1}},
    "with R-Drop (α = 3), half as often": {"training": {"r_drop": 3.0}},
    "with a moving average of the weights (0.999)": {"training": {"ema": 0.999}},
    "with the stable schedule": {"training": {"schedule": "stable"}},
}
WITH_FEW: Parts = {
    "with dropout 0.2": {"model": {"residual_dropout": 0.2}},
    "with Muon": {"training": {"optimizer": "muon"}},
    "with positions beside the embeddings, not added": {"model": {"positions": "sinusoidal-concatenated"}},
}
WITH_MORE: Parts = {
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
    add_data(parser, "multi30k/ and tatoeba_en_zh/")
    parser.add_argument("what", choices=["sizes", "ablation", "adapting", "chinese", "one"])
    parser.add_argument("--out", type=Path, default=Path("runs/small"), help="folder of the bundles; resumed")
    parser.add_argument("--minutes", type=float, default=MINUTES["quick"], help="of each run")
    parser.add_argument("--epochs", type=float, help="ablation: of each run")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2], help="ablation: of the runs")
    parser.add_argument("--part", action="append", help="ablation: only this, or these; by name")
    parser.add_argument(
        "--recipes", choices=list(RECIPES), nargs="+", default=list(RECIPES), help="chinese: only these"
    )
    arguments = parsed(parser)
    if arguments.what in ("ablation", "one") and arguments.epochs is None:
        parser.error("give --epochs, as many as a run of --effort quick comes to on an idle machine")
    known_parts = parts(arguments.epochs or 0.0)
    if strange := set(arguments.part or ()) - set(known_parts):
        parser.error(f"no such part: {', '.join(strange)}. There are: {'; '.join(known_parts)}.")
    arguments.out.mkdir(parents=True, exist_ok=True)
    works = {"sizes": sizes, "ablation": ablation, "adapting": adapting, "chinese": chinese, "one": one}
    works[arguments.what](arguments)


# --- how many pairs ---------------------------------------------------------------------------------------------------


def sizes(arguments: argparse.Namespace) -> None:
    captions = shuffled(pairs_of(arguments.data / "multi30k", "train", "en", "de"))
    sample = sample_of(arguments.out, SAMPLE)
    corpora = {f"{n:,} of Multi30K": captions[:n] for n in SIZES}
    tests = dict.fromkeys(corpora, pairs_of(arguments.data / "multi30k", "val", "en", "de"))
    corpora[SAMPLE_NAME], tests[SAMPLE_NAME] = sample
    rows = []
    for number, (name, pairs) in enumerate(corpora.items()):
        bundle = train_on(pairs, arguments.out / f"run-{number}", arguments, n_held_out=min(HELD_OUT, len(pairs) // 10))
        rows.append({"corpus": name, **facts(bundle), **scores(bundle, tests[name])})
    table = [
        "| pairs | chosen | parameters | passes | minutes of training | in all | BLEU, beam 5 | chrF |",
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| {row['corpus']} | {row['chosen']}; {row['recipe']} | {row['parameters']:,} | {row['passes']:.0f} | "
            f"{row['minutes']:.1f} | {row['in_all']} | {row['bleu']:.1f} | {row['chrf']:.1f} |"
            for row in rows
        ),
        "",
        f"BLEU: {cell(rows[0]['signature'])}; chrF: {cell(rows[0]['chrf_signature'])}.",
    ]
    write_result(arguments.out, "What is chosen for how many pairs", table, rows)


# --- one part at a time -----------------------------------------------------------------------------------------------


def ablation(arguments: argparse.Namespace) -> None:
    names = [WHOLE, *(name for name in arguments.part or parts(arguments.epochs) if name != WHOLE)]
    todo = [(name, seed) for seed in arguments.seeds for name in names]
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    running: dict[int, subprocess.Popen[bytes]] = {}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no run is left behind
    try:
        while todo or running:
            for core in cores:
                if core in running and running[core].poll() is None:
                    continue
                if core in running and running.pop(core).returncode:
                    raise SystemExit("a run has failed; what it said is above")
                if todo:
                    running[core] = start_one(arguments, *todo.pop(0), core)
            time.sleep(1)
    finally:
        for process in running.values():
            process.terminate()  # it saves what it has, and is resumed by the next call
        for process in running.values():
            process.wait()
    found = {name: [figure_of(arguments.out, name, seed) for seed in arguments.seeds] for name in names}
    if None not in found[WHOLE]:
        found[AVERAGE] = [best_checkpoint(arguments.out, WHOLE, seed) for seed in arguments.seeds]
    signature = open_bundle(folder_of(arguments.out, WHOLE, arguments.seeds[0])).scores()["validation"]["bleu"]
    reached = known(found[WHOLE])
    table = [
        f"| | validation BLEU, beam 5: mean of seeds {', '.join(map(str, arguments.seeds))} | each | difference |",
        "|---|---|---|---|",
    ]
    for name, figures in found.items():
        each = ", ".join("diverged" if one is None else f"{one:.1f}" for one in figures)
        told = known(figures)
        cells = f"{mean(told):.1f} | {each} | {mean(told) - mean(reached):+.1f}" if told else f" | {each} | "
        table.append(f"| {'all of it' if name == WHOLE else name} | {cells} |")
    table += ["", f"{arguments.epochs:g} passes each; {cell(signature['signature'])}."]
    write_result(arguments.out, "What each part is worth", table, found)


def start_one(arguments: argparse.Namespace, name: str, seed: int, core: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "benchmarks.small_data", str(arguments.data), "one", "--part", name]
    command += ["--seeds", str(seed), "--epochs", str(arguments.epochs), "--out", str(arguments.out)]
    pinned = ["taskset", "-c", str(core), *command] if sys.platform == "linux" else command
    return subprocess.Popen(pinned, env={**os.environ, "OMP_NUM_THREADS": "1"})


def one(arguments: argparse.Namespace) -> None:
    """One run of `ablation`: what is chosen for so few passes, with one part exchanged."""
    name, seed = arguments.part[0], arguments.seeds[0]
    out, part = folder_of(arguments.out, name, seed), parts(arguments.epochs)[name]
    training = {
        "epochs": arguments.epochs / (2 if part.get("training", {}).get("r_drop") else 1),
        "processes": 1,
        "threads": 1,
        "mixed_precision": "bfloat16" if machine.has_bfloat16(torch.device("cpu")) else "off",
        "patience": 0,
    }
    settings = {"data": multi30k(arguments.data, "en", "de"), "training": training, "seed": seed}
    # For R-Drop, too, which makes half of them: `auto` itself would choose for half.
    chosen = choose("auto", pairs=SIZES[-1], passes=arguments.epochs)
    if diverged(out).exists():
        return
    try:
        trained(out, merge(chosen, settings, part), Terminal(), preset="tiny")
    except TrainingError as error:
        write_file(diverged(out), f"{error}\n")


def folder_of(out: Path, name: str, seed: int) -> Path:
    return out / f"{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}-seed-{seed}"


def diverged(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.diverged")


def figure_of(out: Path, name: str, seed: int) -> float | None:
    """BLEU on validation with beam 5; None: the run diverged."""
    folder = folder_of(out, name, seed)
    if diverged(folder).exists():
        return None
    return float(open_bundle(folder).scores()["validation"]["bleu"]["score"])


def best_checkpoint(out: Path, name: str, seed: int) -> float:
    """The same of the best checkpoint, where the average of the last may have been taken."""
    log = open_bundle(folder_of(out, name, seed)).read_log()
    return next(float(entry["best_checkpoint"]) for entry in log if entry["event"] == "average")


def known(figures: Sequence[float | None]) -> list[float]:
    return [one for one in figures if one is not None]


# --- going on from a translator ---------------------------------------------------------------------------------------


def adapting(arguments: argparse.Namespace) -> None:
    corpus, out = arguments.data / "multi30k", arguments.out
    german, french = (shuffled(pairs_of(corpus, "train", "en", language)) for language in ("de", "fr"))
    half, valid = len(german) // 2, pairs_of(corpus, "val", "en", "de")
    general = train_on(german[:half], out / "general", arguments, n_held_out=HELD_OUT)
    domains: dict[str, tuple[Pairs, Pairs]] = {
        SENTENCES: sample_of(out, 20_000),
        "captions in French": (french[half:], pairs_of(corpus, "val", "en", "fr")),
    }
    rows: list[dict[str, Any]] = []
    for number, (name, (pairs, test)) in enumerate(domains.items()):
        few = random.Random(1).sample(pairs, FEW)
        for how, start in (("from nothing", None), ("from half of Multi30K", general)):
            folder = out / f"{number}-{'adapted' if start else 'alone'}"
            bundle = train_on(few, folder, arguments, n_held_out=FEW // 10, start=start)
            rows.append({"domain": name, "how": how, **facts(bundle), **scores(bundle, test)})
            german_still = scores(bundle, valid)["bleu"] if name == SENTENCES else None
            rows[-1] |= {"captions": german_still, "warned": start is not None and warned(bundle, start)}
    table = [
        f"| {FEW:,} pairs of | trained | passes | minutes in all | BLEU there | chrF there | BLEU, German captions | "
        "warned of the tokenizer |",
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| {row['domain']} | {row['how']} | {row['passes']:.0f} | {row['in_all']} | {row['bleu']:.1f} | "
            f"{row['chrf']:.1f} | {'' if row['captions'] is None else format(row['captions'], '.1f')} | "
            f"{'yes' if row['warned'] else 'no'} |"
            for row in rows
        ),
        "",
        f"The translator of half of Multi30K has {scores(general, valid)['bleu']:.1f} on the captions. "
        f"BLEU with beam 5: {cell(rows[0]['signature'])}; chrF: {cell(rows[0]['chrf_signature'])}.",
    ]
    write_result(out, "Adapting a translator", table, rows)


def warned(bundle: Bundle, start: Bundle) -> bool:
    prepared = open_prepared(bundle.path.parent / ".cache" / bundle.data()["store"])
    assert prepared is not None
    return misfit(prepared, start) is not None


# --- Chinese ----------------------------------------------------------------------------------------------------------


def chinese(arguments: argparse.Namespace) -> None:
    corpus, rows = arguments.data / "tatoeba_en_zh", []
    test = [tuple(line.split("\t")[:2]) for line in read_lines(str(corpus / "test.tsv"))]
    for recipe in arguments.recipes:
        words, preset, chosen = RECIPES[recipe]
        for source, target in (("en", "zh"), ("zh", "en")):
            data = {
                "source": str(corpus / "train.tsv"),
                "valid_source": str(corpus / "dev.tsv"),
                "reverse": source == "zh",
                "languages": [source, target],
            }
            settings = merge({"data": data, "training": {"minutes": arguments.minutes}}, chosen)
            bundle = trained(arguments.out / f"{source}-{target}-{recipe}", settings, Terminal(), preset=preset)
            turned = [(one, other) if source == "en" else (other, one) for one, other in test]
            rows.append({"from": source, "to": target, "with": words, **facts(bundle), **scores(bundle, turned)})
    table = [
        "| | trained with | parameters | steps | passes | minutes in all | BLEU, beam 5 | chrF | signature of BLEU |",
        "|---|---|---|---|---|---|---|---|---|",
        *(
            f"| {row['from']}→{row['to']} | {row['with']} | {row['parameters']:,} | {row['steps']:,} | "
            f"{row['passes']:.1f} | {row['in_all']} | {row['bleu']:.1f} | {row['chrf']:.1f} | "
            f"{cell(row['signature'])} |"
            for row in rows
        ),
        "",
        f"chrF: {cell(rows[0]['chrf_signature'])}.",
    ]
    write_result(arguments.out, "Tatoeba, English and Chinese", table, rows)


# --- what they share --------------------------------------------------------------------------------------------------


def pairs_of(corpus: Path, part: str, source: str, target: str, *, ending: str = ".gz") -> Pairs:
    sides = (list(read_lines(str(corpus / f"{part}.{language}{ending}"))) for language in (source, target))
    return list(zip(*sides, strict=True))


def shuffled(pairs: Pairs) -> Pairs:
    """Multi30K's captions stand in groups of a kind, of which the first thousand have one; the same order each time."""
    return random.Random(1).sample(pairs, len(pairs))


def sample_of(out: Path, n: int) -> tuple[Pairs, Pairs]:
    """The training and the validation part of the sample corpus."""
    folder = out / "sample"
    if not folder.exists():
        write_sample(folder, pairs=n)
    train, valid = (pairs_of(folder, part, "en", "de", ending="") for part in ("train", "valid"))
    return train, valid


def train_on(
    pairs: Pairs,
    out: Path,
    arguments: argparse.Namespace,
    *,
    n_held_out: int = 0,
    valid: Pairs | None = None,
    start: Bundle | None = None,
) -> Bundle:
    """What `attendo train` makes of the pairs in the minutes given; the last `n_held_out` are selected on."""
    train, chosen_on = pairs[: len(pairs) - n_held_out], valid if valid is not None else pairs[-n_held_out:]
    settings: dict[str, Any] = {
        "data": {
            "source": _file(out, "train.tsv", train),
            "valid_source": _file(out, "valid.tsv", chosen_on),
        },
        "training": {"minutes": arguments.minutes},
    }
    if start is not None:
        settings["adapt_from"] = str(start.path)
    return trained(out, settings, Terminal())


def _file(out: Path, name: str, pairs: Sequence[tuple[str, str]]) -> str:
    path = out.with_name(f"{out.name}-{name}")
    cells = [[side.replace("\t", " ") for side in pair] for pair in pairs]
    write_file(path, "".join(f"{source}\t{target}\n" for source, target in cells))
    return str(path)


def facts(bundle: Bundle) -> dict[str, Any]:
    return {
        "chosen": bundle.config.model.in_words(),
        "parameters": bundle.data()["parameters"]["total"],
        "recipe": bundle.config.training.in_words(),
        "steps": bundle.scores()["steps"],
        "passes": max(float(entry.get("epoch", 0.0)) for entry in bundle.read_log()),
        "minutes": minutes(bundle),
        "in_all": minutes_in_all(bundle),
    }


def scores(bundle: Bundle, test: Sequence[tuple[str, ...]]) -> dict[str, Any]:
    sources, references = zip(*test, strict=True)
    found = assess(attendo.load(bundle.path), sources, references, reporter=Terminal()).scores
    signatures = {"signature": found.bleu.signature, "chrf_signature": found.chrf.signature}
    return {"bleu": found.bleu.score, "chrf": found.chrf.score, **signatures}


if __name__ == "__main__":
    main()
