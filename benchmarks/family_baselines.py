"""Multi30K German→English: the recurrent baseline and the Transformer, the same minutes each, side by side.

    python -m benchmarks.family_baselines [DATA] --minutes 30 --out runs/baselines

DATA (or the environment variable ATTENDO_DATA) is the folder that holds `multi30k/train.en.gz`, … . Trains what
`attendo train --model rnn` and `attendo train` choose by themselves on the 29,000 training pairs, one after the other,
selects on the validation part, and reads test_2016_flickr once, at the end, greedily: sacreBLEU on raw text. A run that
was interrupted is resumed, one that has finished is not trained again. Writes RESULT.json, RESULT.md and curves.svg
into the folder, with BLEU on validation over minutes. `--models rnn conv transformer` has the convolutional one, too.
"""

import argparse
import datetime
import json
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
from benchmarks.runs import add_data, conditions, curve, minutes, multi30k, parsed, trained

NAMES = {"rnn": "recurrent", "conv": "convolutional", "transformer": "Transformer"}
WANTED = {"rnn": 30.0, "transformer": 36.5}
COLOURS = (
    ":root { --muted: #52606d; --grid: #e4e7eb; --axis: #9aa5b1; --text: #1f2933; --ink-0: #3b7dc4; --ink-1: #d9742f; "
    "--ink-2: #4f9d69; } svg { background: white; }"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data(parser, "multi30k/")
    parser.add_argument("--minutes", type=float, default=30.0, help="training time of each")
    parser.add_argument("--models", nargs="+", choices=list(NAMES), default=["rnn", "transformer"])
    parser.add_argument("--out", type=Path, default=Path("runs/baselines"), help="folder of the bundles")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parsed(parser)
    out, reporter = arguments.out, Terminal()
    results = {}
    for kind in arguments.models:
        settings = {
            "data": multi30k(arguments.data, "de", "en"),
            "model": {"kind": kind},
            "training": {"minutes": arguments.minutes},
            "seed": arguments.seed,
        }
        results[kind] = found_of(trained(out / kind, settings, reporter), arguments.data / "multi30k", reporter)
    command = f"python -m benchmarks.family_baselines --minutes {arguments.minutes:g} --seed {arguments.seed}"
    result = {"date": datetime.date.today().isoformat(), "command": command, "models": results}
    (out / "RESULT.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    (out / "RESULT.md").write_text(table(result), encoding="utf-8")
    (out / "curves.svg").write_text(curves(results), encoding="utf-8")
    print(table(result))


def found_of(bundle: Bundle, corpus: Path, reporter: Reporter) -> dict[str, Any]:
    """What a run was, and what it scores on the test set."""
    test = corpus / "test_2016_flickr"
    found = assess(
        attendo.load(bundle.path),
        list(read_lines(f"{test}.de.gz")),
        list(read_lines(f"{test}.en.gz")),
        options=SearchOptions(beam=1),
        reporter=reporter,
    )
    return {
        "conditions": conditions(bundle),
        "parameters": bundle.data()["parameters"]["total"],
        "model": bundle.config.model.in_words(),
        "minutes": minutes(bundle),
        "weights": bundle.scores()["weights"],
        "validation": curve(bundle, "bleu"),
        "test_2016_flickr": found.to_json(),
    }


def table(result: dict[str, Any]) -> str:
    models = result["models"]
    lines = [
        "# Multi30K German→English: recurrent baseline and Transformer",
        "",
        f"{result['date']}, {next(iter(models.values()))['conditions']}; `{result['command']}`. "
        "BLEU of test_2016_flickr, greedy, raw text.",
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
        lines += [f"| {p['minutes']:.1f} | {p['step']:,} | {p['bleu']:.1f} |" for p in found["validation"]]
    return "\n".join(lines) + "\n"


def curves(models: dict[str, Any]) -> str:
    """A picture of BLEU on validation over minutes, a line for each model."""
    found = {kind: model["validation"] for kind, model in models.items()}
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
    return chart.replace(">", f"><style>{STYLE}{COLOURS}</style>", 1) + "\n"


if __name__ == "__main__":
    main()
