"""Multi30K from English with what `attendo train` does by itself, on the raw text.

    python -m benchmarks.multi30k [DATA] --effort normal --language de
    python -m benchmarks.multi30k [DATA] --effort quick --seeds 1 2 3

DATA (or the environment variable ATTENDO_DATA) is the folder that holds `multi30k/train.en.gz`, … . Trains the
automatic preset on the 29,000 training pairs, once for each seed, selects on the validation part, and reads
test_2016_flickr and test_2017_flickr once, at the end, with beam 5: the literature's metric and sacreBLEU's on raw
text. Writes RESULT.json and RESULT.md into the folder, with BLEU on validation over minutes.
"""

import argparse
import datetime
import json
from pathlib import Path
from statistics import mean
from typing import Any

import attendo
from attendo.assessment import assess
from attendo.bundle import Bundle
from attendo.card import cell
from attendo.cli.terminal import Terminal
from attendo.recipe import MINUTES
from attendo.reporting import Reporter
from attendo.storage import write_file
from attendo.text.corpus import read_lines
from benchmarks.runs import add_data, conditions, curve, minutes, minutes_in_all, multi30k, parsed, trained

TESTS = ("test_2016_flickr", "test_2017_flickr")
METRICS = {"literature": "BLEU of the literature", "bleu": "BLEU, raw text", "chrf": "chrF, raw text"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data(parser, "multi30k/")
    parser.add_argument("--effort", choices=list(MINUTES), default="normal")
    parser.add_argument("--language", choices=["de", "fr"], default="de")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--out", type=Path, help="folder of the bundles; resumed [runs/multi30k-EFFORT-LANGUAGE]")
    arguments = parsed(parser)
    arguments.out = arguments.out or Path(f"runs/multi30k-{arguments.effort}-{arguments.language}")
    corpus, reporter = arguments.data / "multi30k", Terminal()
    seeds = " ".join(map(str, arguments.seeds))
    bundles = [trained(arguments.out / f"seed-{seed}", settings(arguments, seed), reporter) for seed in arguments.seeds]
    result: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "command": f"python -m benchmarks.multi30k --effort {arguments.effort} --language {arguments.language} "
        f"--seeds {seeds}",
        "conditions": conditions(bundles[0]),
        "language": arguments.language,
        "runs": [found(bundle, corpus, arguments.language, reporter) for bundle in bundles],
    }
    write_file(arguments.out / "RESULT.json", json.dumps(result, indent=2) + "\n")
    write_file(arguments.out / "RESULT.md", table(result))
    print(table(result))


def settings(arguments: argparse.Namespace, seed: int) -> dict[str, Any]:
    return {
        "data": multi30k(arguments.data, "en", arguments.language),
        "training": {"minutes": MINUTES[arguments.effort]},
        "seed": seed,
    }


def found(bundle: Bundle, corpus: Path, language: str, reporter: Reporter) -> dict[str, Any]:
    """What a run was, and what it scores on the test sets."""
    translator = attendo.load(bundle.path)
    scores = {
        test: assess(
            translator,
            list(read_lines(f"{corpus / test}.en.gz")),
            list(read_lines(f"{corpus / test}.{language}.gz")),
            tokenised_references=list(read_lines(f"{corpus / test}.lc.norm.tok.{language}.gz")),
            reporter=reporter,
        ).to_json()
        for test in TESTS
    }
    return {
        "seed": bundle.config.seed,
        "parameters": bundle.data()["parameters"]["total"],
        "model": bundle.config.model.in_words(),
        "minutes": minutes(bundle),
        "minutes_in_all": minutes_in_all(bundle),
        "recipe": bundle.config.training.in_words(),
        "weights": bundle.scores()["weights"],
        "validation": curve(bundle, "bleu"),
        **scores,
    }


def table(result: dict[str, Any]) -> str:
    runs = result["runs"]
    seeds = "mean of the seeds" if len(runs) > 1 else f"seed {runs[0]['seed']}"
    lines = [
        f"# Multi30K English→{result['language']}, automatic preset",
        "",
        f"{result['date']}, {result['conditions']}; `{result['command']}`; {runs[0]['parameters']:,} parameters: "
        f"{runs[0]['model']}.",
        "",
        f"| beam 5, {seeds} | {' | '.join(TESTS)} | signature |",
        "|---|---|---|---|",
    ]
    for key, name in METRICS.items():
        each = [[run[test][key]["score"] for run in runs] for test in TESTS]
        cells = [
            f"{mean(scores):.2f}" + (f" ({', '.join(f'{one:.2f}' for one in scores)})" if len(scores) > 1 else "")
            for scores in each
        ]
        lines.append(f"| {name} | {' | '.join(cells)} | {cell(runs[0][TESTS[0]][key]['signature'])} |")
    for run in runs:
        lines += [
            "",
            f"Seed {run['seed']}: {run['minutes']:.1f} minutes of training, {run['minutes_in_all']} from the first "
            f"file to the last score; {run['recipe']}; {run['weights']}.",
            "",
            "| minutes | step | validation BLEU, greedy, raw text |",
            "|---|---|---|",
            *(f"| {p['minutes']:.1f} | {p['step']:,} | {p['bleu']:.1f} |" for p in run["validation"]),
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
