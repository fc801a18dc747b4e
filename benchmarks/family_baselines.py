"""Multi30K German→English: the recurrent baseline and the Transformer, the same minutes each, side by side.

    python -m benchmarks.family_baselines [DATA] --minutes 30 --out runs/baselines

DATA (or the environment variable ATTENDO_DATA) is the folder that holds `multi30k/train.en.gz`, … . Trains what
`attendo train --model rnn` and `attendo train` choose by themselves on the 29,000 training pairs, one after the other,
selects on the validation part, and reads test_2016_flickr once, at the end, greedily: sacreBLEU on raw text. A run that
was interrupted is resumed, one that has finished is not trained again. Writes RESULT.json, RESULT.md and curves.html
into the folder, with BLEU on validation over minutes. `--models rnn conv transformer` has the convolutional one, too.
"""

import argparse
import datetime
import json
import os
from pathlib import Path
from typing import Any

import attendo
from attendo.assessment import assess
from attendo.bundle import Bundle
from attendo.card import cell
from attendo.cli.terminal import Terminal
from attendo.decoding.search import SearchOptions
from attendo.evaluation.chart import STYLE, Series, line_chart
from attendo.reporting import Reporter
from attendo.text.corpus import read_lines

NAMES = {"rnn": "recurrent", "conv": "convolutional", "transformer": "Transformer"}
WANTED = {"rnn": 30.0, "transformer": 36.5}
COLOURS = (
    ":root { --muted: #52606d; --grid: #e4e7eb; --axis: #9aa5b1; --text: #1f2933; --ink-0: #3b7dc4; --ink-1: #d9742f; "
    "--ink-2: #4f9d69; } svg { max-width: 50em; }"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", default=os.environ.get("ATTENDO_DATA"), help="folder with multi30k/ in it")
    parser.add_argument("--minutes", type=float, default=30.0, help="training time of each")
    parser.add_argument("--models", nargs="+", choices=list(NAMES), default=["rnn", "transformer"])
    parser.add_argument("--out", default="runs/baselines", help="folder of the bundles")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.data is None:
        parser.error("give the data folder, or set ATTENDO_DATA")
    corpus, out, reporter = Path(arguments.data) / "multi30k", Path(arguments.out), Terminal()
    results = {}
    for kind in arguments.models:
        bundle = trained(corpus, out / kind, kind, arguments.minutes, arguments.seed, reporter)
        results[kind] = found_of(bundle, corpus, reporter)
    command = f"python -m benchmarks.family_baselines --minutes {arguments.minutes:g} --seed {arguments.seed}"
    result = {"date": datetime.date.today().isoformat(), "command": command, "models": results}
    (out / "RESULT.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    (out / "RESULT.md").write_text(table(result), encoding="utf-8")
    (out / "curves.html").write_text(curves(results), encoding="utf-8")
    print(table(result))


def trained(corpus: Path, out: Path, kind: str, minutes: float, seed: int, reporter: Reporter) -> Bundle:
    if out.exists():
        bundle = attendo.open_bundle(out)
        return bundle if bundle.scores() else attendo.resume(out, reporter=reporter)
    settings = {
        "data": {
            "source": str(corpus / "train.de.gz"),
            "target": str(corpus / "train.en.gz"),
            "valid_source": str(corpus / "val.de.gz"),
            "valid_target": str(corpus / "val.en.gz"),
        },
        "model": {"kind": kind},
        "training": {"minutes": minutes},
        "seed": seed,
    }
    return attendo.train(settings=settings, out=out, reporter=reporter)


def found_of(bundle: Bundle, corpus: Path, reporter: Reporter) -> dict[str, Any]:
    """What a run was, and what it scores on the test set."""
    test, log = corpus / "test_2016_flickr", bundle.read_log()
    found = assess(
        attendo.load(bundle.path),
        list(read_lines(f"{test}.de.gz")),
        list(read_lines(f"{test}.en.gz")),
        options=SearchOptions(beam=1),
        reporter=reporter,
    )
    return {
        "machine": bundle.data()["machine"],
        "parameters": bundle.data()["parameters"]["total"],
        "model": bundle.config.model.in_words(),
        "minutes": max(entry.get("minutes", 0.0) for entry in log),
        "weights": bundle.scores()["weights"],
        "validation_over_minutes": [
            {"minutes": entry["minutes"], "step": entry["step"], "bleu": round(entry["bleu"], 2)}
            for entry in log
            if entry["event"] == "validation"
        ],
        "test_2016_flickr": found.to_json(),
    }


def table(result: dict[str, Any]) -> str:
    models = result["models"]
    machine = next(iter(models.values()))["machine"]
    lines = [
        "# Multi30K German→English: recurrent baseline and Transformer",
        "",
        f"{result['date']}, {machine['processor']}, {machine['threads']} threads, torch {machine['torch']}; "
        f"`{result['command']}`. BLEU of test_2016_flickr, greedy, raw text.",
        "",
        "| model | parameters | minutes | BLEU | wanted | signature |",
        "|---|---|---|---|---|---|",
    ]
    for kind, found in models.items():
        score, wanted = found["test_2016_flickr"]["bleu"], WANTED.get(kind)
        lines.append(
            f"| {NAMES[kind]}: {found['model']} | {found['parameters']:,} | {found['minutes']:.0f} | "
            f"{score['score']:.2f} | {'' if wanted is None else f'{wanted:g}'} | {cell(score['signature'])} |"
        )
    for kind, found in models.items():
        lines += ["", f"| minutes, {NAMES[kind]} | step | validation BLEU, greedy |", "|---|---|---|"]
        lines += [f"| {p['minutes']:.1f} | {p['step']:,} | {p['bleu']:.1f} |" for p in found["validation_over_minutes"]]
    return "\n".join(lines) + "\n"


def curves(models: dict[str, Any]) -> str:
    """A page with BLEU on validation over minutes, a line for each model."""
    found = {kind: model["validation_over_minutes"] for kind, model in models.items()}
    chart = line_chart(
        title="Multi30K German→English, validation BLEU",
        x_label="minutes",
        y_label="BLEU",
        x_range=(0.0, max(point["minutes"] for points in found.values() for point in points)),
        series=[
            Series(name=NAMES[kind], points=[(point["minutes"], point["bleu"]) for point in points], ink=ink)
            for ink, (kind, points) in enumerate(found.items())
        ],
    )
    return f"<!doctype html><meta charset=utf-8><style>{STYLE}{COLOURS}</style>{chart}\n"


if __name__ == "__main__":
    main()
