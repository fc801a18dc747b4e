"""What the automatic preset makes of small corpora; what each of its parts is worth, benchmarks/ablation.py says.

    python -m benchmarks.small_data [DATA] sizes --out runs/sizes
    python -m benchmarks.small_data [DATA] adapting --out runs/adapting
    python -m benchmarks.small_data [DATA] chinese --out runs/chinese

DATA (or the environment variable ATTENDO_DATA) is the folder that holds `multi30k/` and `tatoeba_en_zh/`.

sizes: 1,000, 5,000 and 29,000 pairs of Multi30K, chosen at random, and 200,000 of the sample corpus: what `--effort
quick` chooses, how long it takes, and BLEU with beam 5 on the validation part, which is not selected on: 500 other
pairs are held out for that.

adapting: a translator of half of Multi30K goes on (`--from`) with 1,000 pairs of something else, sentences of the
sample corpus and captions of the other half in French, beside one that is trained on the same pairs from nothing.

chinese: Tatoeba English→Chinese and Chinese→English with `--effort quick`; with the paper's model and settings (the
preset `base`) in the same time; and with the paper's settings for a model as small as `quick` has. Both have a shorter
warm-up that goes up to the paper's rate. The test part is read once, when each has ended.

Runs that were interrupted are resumed. Each writes RESULT.json and RESULT.md into its folder.
"""

import argparse
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attendo
from attendo.assessment import assess
from attendo.bundle import Bundle
from attendo.card import cell
from attendo.cli.terminal import Terminal
from attendo.config import merge
from attendo.data.prepare import open_prepared
from attendo.plan import misfit
from attendo.recipe import MINUTES, RecipeName
from attendo.sample.corpus import write_sample
from attendo.storage import write_file
from attendo.text.corpus import read_lines
from benchmarks.runs import add_data, minutes, minutes_in_all, parsed, trained, write_result

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data(parser, "multi30k/ and tatoeba_en_zh/")
    parser.add_argument("what", choices=["sizes", "adapting", "chinese"])
    parser.add_argument("--out", type=Path, default=Path("runs/small"), help="folder of the bundles; resumed")
    parser.add_argument("--minutes", type=float, default=MINUTES["quick"], help="of each run")
    parser.add_argument(
        "--recipes", choices=list(RECIPES), nargs="+", default=list(RECIPES), help="chinese: only these"
    )
    arguments = parsed(parser)
    arguments.out.mkdir(parents=True, exist_ok=True)
    works = {"sizes": sizes, "adapting": adapting, "chinese": chinese}
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
