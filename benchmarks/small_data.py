"""What the automatic preset makes of small corpora, and what each of its parts is worth.

    python -m benchmarks.small_data [DATA] sizes --out runs/sizes
    python -m benchmarks.small_data [DATA] ablation --steps 3400 --out runs/ablation
    python -m benchmarks.small_data [DATA] adapting --out runs/adapting
    python -m benchmarks.small_data [DATA] chinese --out runs/chinese

DATA (or the environment variable ATTENDO_DATA) is the folder that holds `multi30k/` and `tatoeba_en_zh/`.

sizes: 1,000, 5,000 and 29,000 pairs of Multi30K, chosen at random, and 200,000 of the sample corpus: what `--effort
quick` chooses, how long it takes, and BLEU with beam 5 on the validation part, which is not selected on: 500 other
pairs are held out for that.

ablation: Multi30K English→German with what `--effort quick` chooses, and the same with one part at a time exchanged for
the plain one. Every run has `--steps` steps, as many as ten minutes have room for on the machine in question (a run of
`--effort quick` says how many it takes), so that it does not matter how busy the machine is; with larger batches so
many fewer that all see the same text. One process each: as many runs at the same time as there are cores. BLEU on
validation, beam 5.

adapting: a translator of half of Multi30K goes on (`--from`) with 1,000 pairs of something else, sentences of the
sample corpus and captions of the other half in French, beside one that is trained on the same pairs from nothing.

chinese: Tatoeba English→Chinese and Chinese→English with `--effort quick`, and with the preset `base`, which has the
paper's own settings but for a shorter warm-up, in the same time. The test part is read once, when each has ended.

Runs that were interrupted are resumed. Each writes RESULT.json and RESULT.md into its folder.
"""

import argparse
import os
import random
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
from attendo.recipe import MINUTES, choose
from attendo.sample.corpus import write_sample
from attendo.storage import write_file
from attendo.text.corpus import read_lines
from benchmarks.runs import add_data, minutes, minutes_in_all, multi30k, parsed, trained, write_result

Pairs = list[tuple[str, str]]

SIZES = (1_000, 5_000, 29_000)
SAMPLE = 200_000
SAMPLE_NAME = f"{SAMPLE:,} of the sample corpus"
HELD_OUT = 500
FEW = 1_000

# What --effort quick has, each exchanged for what a plain run has.
WITHOUT: dict[str, dict[str, Any]] = {
    "nothing": {},
    "related embeddings": {"training": {"embeddings": "random"}},
    "embeddings of their own for input and output": {"model": {"tie_embeddings": "all"}},
    "SiLU (with ReLU)": {"model": {"activation": "relu"}},
    "norms before the layers (with norms after)": {"model": {"norm_place": "post"}},
    "small batches (with 2,048 tokens)": {"training": {"batch_tokens": 2048}},
    "little dropout (with 0.2)": {"model": {"residual_dropout": 0.2}},
    "the cosine schedule (with the paper's)": {
        "training": {"schedule": "paper", "learning_rate": 1.0, "warmup_steps": 1000}
    },
    "label smoothing": {"training": {"label_smoothing": 0.0}},
    "the average of checkpoints": {"training": {"average": 0}},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data(parser, "multi30k/ and tatoeba_en_zh/")
    parser.add_argument("what", choices=["sizes", "ablation", "adapting", "chinese", "one"])
    parser.add_argument("--out", type=Path, default=Path("runs/small"), help="folder of the bundles; resumed")
    parser.add_argument("--minutes", type=float, default=MINUTES["quick"], help="of each run")
    parser.add_argument("--steps", type=int, help="ablation: of each run")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2], help="ablation: of the runs")
    parser.add_argument("--without", choices=list(WITHOUT), action="append", help="ablation: only this, or these")
    arguments = parsed(parser)
    if arguments.what in ("ablation", "one") and arguments.steps is None:
        parser.error("give --steps, as many as a run of --effort quick says it takes on an idle machine")
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
    names = ["nothing", *(name for name in arguments.without or WITHOUT if name != "nothing")]
    todo = [(name, seed) for seed in arguments.seeds for name in names]
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    running: dict[int, subprocess.Popen[bytes]] = {}
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
    rows = []
    for name in names:
        bundles = [open_bundle(folder_of(arguments.out, name, seed)) for seed in arguments.seeds]
        rows.append({"without": name, "bleu": [validation_bleu(bundle) for bundle in bundles]})
    whole = mean(rows[0]["bleu"])
    table = [
        f"| without | validation BLEU, beam 5: mean of seeds {', '.join(map(str, arguments.seeds))} | each | loses |",
        "|---|---|---|---|",
        *(
            f"| {row['without']} | {mean(row['bleu']):.1f} | {', '.join(f'{one:.1f}' for one in row['bleu'])} | "
            f"{whole - mean(row['bleu']):.1f} |"
            for row in rows
        ),
        "",
        f"{arguments.steps:,} steps each.",
    ]
    write_result(arguments.out, "What each part is worth", table, rows)


def start_one(arguments: argparse.Namespace, name: str, seed: int, core: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "benchmarks.small_data", str(arguments.data), "one", "--without", name]
    command += ["--seeds", str(seed), "--steps", str(arguments.steps), "--out", str(arguments.out)]
    pinned = ["taskset", "-c", str(core), *command] if sys.platform == "linux" else command
    return subprocess.Popen(pinned, env={**os.environ, "OMP_NUM_THREADS": "1"})


def one(arguments: argparse.Namespace) -> None:
    """One run of `ablation`: what quick chooses for ten minutes, with another number of steps in their place."""
    name, seed = arguments.without[0], arguments.seeds[0]
    quick = choose("auto", pairs=29_000, passes=1.0)
    del quick["training"]["epochs"]
    settings = merge(quick, {"data": multi30k(arguments.data, "en", "de"), "seed": seed}, WITHOUT[name])
    training = {
        "steps": arguments.steps * quick["training"]["batch_tokens"] // settings["training"]["batch_tokens"],
        "processes": 1,
        "threads": 1,
        "mixed_precision": "bfloat16" if machine.has_bfloat16(torch.device("cpu")) else "off",
        "patience": 0,
    }
    trained(folder_of(arguments.out, name, seed), merge(settings, {"training": training}), Terminal())


def folder_of(out: Path, name: str, seed: int) -> Path:
    return out / f"without-{list(WITHOUT).index(name)}-seed-{seed}"


def validation_bleu(bundle: Bundle) -> float:
    return float(bundle.scores()["validation"]["bleu"]["score"])


# --- going on from a translator ---------------------------------------------------------------------------------------


def adapting(arguments: argparse.Namespace) -> None:
    corpus, out = arguments.data / "multi30k", arguments.out
    german, french = (shuffled(pairs_of(corpus, "train", "en", language)) for language in ("de", "fr"))
    half, valid = len(german) // 2, pairs_of(corpus, "val", "en", "de")
    general = train_on(german[:half], out / "general", arguments, n_held_out=HELD_OUT)
    domains: dict[str, tuple[Pairs, Pairs]] = {
        "sentences of the sample corpus": sample_of(out, 20_000),
        "captions in French": (french[half:], pairs_of(corpus, "val", "en", "fr")),
    }
    rows = []
    for number, (name, (pairs, test)) in enumerate(domains.items()):
        few = random.Random(1).sample(pairs, FEW)
        for how, start in (("from nothing", None), ("from half of Multi30K", general)):
            folder = out / f"{number}-{'adapted' if start else 'alone'}"
            bundle = train_on(few, folder, arguments, n_held_out=FEW // 10, start=start)
            rows.append({"domain": name, "how": how, **facts(bundle), **scores(bundle, test)})
            rows[-1]["captions"] = scores(bundle, valid)["bleu"]
    table = [
        f"| {FEW:,} pairs of | trained | minutes | BLEU there | chrF there | BLEU, German captions |",
        "|---|---|---|---|---|---|",
        *(
            f"| {row['domain']} | {row['how']} | {row['minutes']:.1f} | {row['bleu']:.1f} | {row['chrf']:.1f} | "
            f"{row['captions']:.1f} |"
            for row in rows
        ),
        "",
        f"The translator of half of Multi30K has {scores(general, valid)['bleu']:.1f} on the captions. "
        f"BLEU with beam 5: {cell(rows[0]['signature'])}; chrF: {cell(rows[0]['chrf_signature'])}.",
    ]
    write_result(out, "Adapting a translator", table, rows)


# --- Chinese ----------------------------------------------------------------------------------------------------------


def chinese(arguments: argparse.Namespace) -> None:
    corpus, rows = arguments.data / "tatoeba_en_zh", []
    for source, target in (("en", "zh"), ("zh", "en")):
        data = {
            "source": str(corpus / "train.tsv"),
            "valid_source": str(corpus / "dev.tsv"),
            "reverse": source == "zh",
            "languages": [source, target],
        }
        test = [tuple(line.split("\t")[:2]) for line in read_lines(str(corpus / "test.tsv"))]
        for preset in ("auto", "base"):
            settings = {"data": data, "training": {"minutes": arguments.minutes}}
            bundle = trained(arguments.out / f"{source}-{target}-{preset}", settings, Terminal(), preset=preset)
            turned = [(one, other) if source == "en" else (other, one) for one, other in test]
            rows.append({"from": source, "to": target, "preset": preset, **facts(bundle), **scores(bundle, turned)})
    table = [
        "| | preset | parameters | passes | minutes in all | BLEU, beam 5 | chrF | signature of BLEU |",
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| {row['from']}→{row['to']} | {row['preset']} | {row['parameters']:,} | {row['passes']:.1f} | "
            f"{row['in_all']} | {row['bleu']:.1f} | {row['chrf']:.1f} | {cell(row['signature'])} |"
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
    write_file(path, "".join(f"{source}\t{target}\n" for source, target in pairs))
    return str(path)


def facts(bundle: Bundle) -> dict[str, Any]:
    return {
        "chosen": bundle.config.model.in_words(),
        "parameters": bundle.data()["parameters"]["total"],
        "recipe": bundle.config.training.in_words(),
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
