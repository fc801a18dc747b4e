"""MNIST with a Vision Transformer of at most 0.8 million parameters.

    python -m benchmarks.family_vision mnist [DATA] --minutes 30 --out runs/mnist

DATA (or the environment variable ATTENDO_DATA) is the folder that holds `mnist/train-images-idx3-ubyte.gz`, … . Trains
what `attendo train --task classify-images DATA/mnist` chooses by itself, on 57,000 of the 60,000 training digits; the
others are for validation. The 10,000 test digits are read once, at the end. Writes RESULT.json and RESULT.md into the
bundle's folder, with the accuracy on validation over minutes. A run that was interrupted is resumed.
"""

import argparse
import datetime
import json
from pathlib import Path
from typing import Any

from attendo.cli.terminal import Terminal
from attendo.data.pictures import find_pictures
from attendo.evaluation.classification import classification_scores
from attendo.pictures import PictureClassifier
from benchmarks.runs import add_data, conditions, curve, minutes, parsed, trained

MOST_PARAMETERS = 800_000
WANTED = 0.99


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["mnist"])
    add_data(parser, "mnist/")
    parser.add_argument("--minutes", type=float, default=30.0, help="training time")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/mnist"), help="folder of the bundle; resumed if it exists"
    )
    parser.add_argument("--seed", type=int, default=1)
    arguments = parsed(parser)
    digits = arguments.data / "mnist"
    settings = {
        "task": "classify-images",
        "data": {"source": str(digits)},
        "training": {"minutes": arguments.minutes},
        "seed": arguments.seed,
    }
    bundle = trained(arguments.out, settings, Terminal())

    test = find_pictures(digits / "t10k-images-idx3-ubyte.gz")
    classifier = PictureClassifier.from_bundle(bundle)
    names = [one.label for one in classifier.classify(list(test))]
    guesses = [test.labels.index(name) for name in names]
    scores = classification_scores(test.label_of.tolist(), guesses, test.labels)
    result: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "command": f"python -m benchmarks.family_vision mnist --minutes {arguments.minutes:g} --seed {arguments.seed}",
        "conditions": conditions(bundle),
        "parameters": bundle.data()["parameters"]["total"],
        "model": bundle.config.model.in_words(),
        "minutes": minutes(bundle),
        "weights": bundle.scores()["weights"],
        "validation": curve(bundle, "accuracy"),
        "test": scores.to_json(),
    }
    bundle.write("RESULT.json", json.dumps(result, indent=2) + "\n")
    bundle.write("RESULT.md", table(result, scores.accuracy))
    print(table(result, scores.accuracy))


def table(result: dict[str, Any], accuracy: float) -> str:
    lines = [
        "# MNIST with a Vision Transformer",
        "",
        f"{result['date']}, {result['conditions']}; `{result['command']}`; {result['model']}; {result['minutes']:.0f} "
        f"minutes of training; {result['weights']}.",
        "",
        "| | found | wanted |",
        "|---|---|---|",
        f"| accuracy on the 10,000 test digits | {accuracy:.2%} | at least {WANTED:.1%} |",
        f"| parameters | {result['parameters']:,} | at most {MOST_PARAMETERS:,} |",
        "",
        "| minutes | step | accuracy on validation |",
        "|---|---|---|",
        *(f"| {p['minutes']:.1f} | {p['step']:,} | {p['accuracy']:.2%} |" for p in result["validation"]),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
