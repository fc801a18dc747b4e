"""Multi30K English→German with what `attendo train` does by itself, on the raw text.

    python -m benchmarks.multi30k [DATA] --minutes 55 --out runs/multi30k

DATA (or the environment variable ATTENDO_DATA) is the folder that holds `multi30k/train.en.gz`, … . Trains the
automatic preset on the 29,000 training pairs, selects on the validation part, and reads test_2016_flickr once, at the
end, with beam 5: the literature's metric and sacreBLEU's on raw text. Writes RESULT.json and RESULT.md into the
bundle's folder, with BLEU on validation over minutes.
"""

import argparse
import datetime
import json
import os
from pathlib import Path

import attendo
from attendo.assessment import assess
from attendo.card import cell
from attendo.cli.terminal import Terminal
from attendo.text.corpus import read_lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", default=os.environ.get("ATTENDO_DATA"), help="folder with multi30k/ in it")
    parser.add_argument("--minutes", type=float, default=55.0, help="training time")
    parser.add_argument("--out", default="runs/multi30k", help="folder of the bundle; resumed if it exists")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.data is None:
        parser.error("give the data folder, or set ATTENDO_DATA")
    corpus = Path(arguments.data) / "multi30k"
    out = Path(arguments.out)
    reporter = Terminal()
    if out.exists():
        bundle = attendo.open_bundle(out)
        if not bundle.scores():
            bundle = attendo.resume(out, reporter=reporter)
    else:
        settings = {
            "data": {
                "source": str(corpus / "train.en.gz"),
                "target": str(corpus / "train.de.gz"),
                "valid_source": str(corpus / "val.en.gz"),
                "valid_target": str(corpus / "val.de.gz"),
            },
            "training": {"minutes": arguments.minutes},
            "seed": arguments.seed,
        }
        bundle = attendo.train(settings=settings, out=out, reporter=reporter)

    log = bundle.read_log()
    result: dict[str, object] = {
        "date": datetime.date.today().isoformat(),
        "command": f"python -m benchmarks.multi30k --minutes {arguments.minutes:g} --seed {arguments.seed}",
        "machine": bundle.data()["machine"],
        "parameters": bundle.data()["parameters"]["total"],
        "minutes": max(entry.get("minutes", 0.0) for entry in log),
        "weights": bundle.scores()["weights"],
        "validation_over_minutes": [
            {"minutes": entry["minutes"], "step": entry["step"], "bleu": round(entry["bleu"], 2)}
            for entry in log
            if entry["event"] == "validation"
        ],
    }
    test = corpus / "test_2016_flickr"
    found = assess(
        attendo.load(out),
        list(read_lines(f"{test}.en.gz")),
        list(read_lines(f"{test}.de.gz")),
        tokenised_references=list(read_lines(f"{test}.lc.norm.tok.de.gz")),
        reporter=reporter,
    )
    result["test_2016_flickr"] = found.to_json()
    bundle.write("RESULT.json", json.dumps(result, indent=2) + "\n")
    bundle.write("RESULT.md", table(result))
    print(table(result))


def table(result: dict) -> str:  # type: ignore[type-arg]
    test = result["test_2016_flickr"]
    lines = [
        "# Multi30K English→German, automatic preset",
        "",
        f"{result['date']}, {result['machine']['processor']}, {result['machine']['threads']} threads, torch "
        f"{result['machine']['torch']}; `{result['command']}`; {result['parameters']:,} parameters; "
        f"{result['minutes']:.0f} minutes of training; {result['weights']}.",
        "",
        "| test_2016_flickr, beam 5 | score | signature |",
        "|---|---|---|",
        f"| BLEU of the literature | {test['literature']['score']:.2f} | {cell(test['literature']['signature'])} |",
        f"| BLEU, raw text | {test['bleu']['score']:.2f} | {cell(test['bleu']['signature'])} |",
        f"| chrF, raw text | {test['chrf']['score']:.2f} | {cell(test['chrf']['signature'])} |",
        f"| TER, raw text | {test['ter']['score']:.2f} | {cell(test['ter']['signature'])} |",
        "",
        "| minutes | step | validation BLEU, greedy, raw text |",
        "|---|---|---|",
        *(f"| {p['minutes']:.1f} | {p['step']:,} | {p['bleu']:.1f} |" for p in result["validation_over_minutes"]),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
