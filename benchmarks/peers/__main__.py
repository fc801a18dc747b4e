"""attendo beside other toolkits, on one machine, in one run.

    python -m benchmarks.peers [DATA] train      # speed of training, round after round
    python -m benchmarks.peers [DATA] loss       # loss after 500 updates and peak memory, once each
    python -m benchmarks.peers [DATA] translate  # speed of translating
    python -m benchmarks.peers [DATA] start      # from the shell to the first translation
    python -m benchmarks.peers [DATA] growth     # attendo's speed by length, vocabulary and size of the model
    python -m benchmarks.peers [DATA] table      # everything found so far, as Markdown

DATA (or the environment variable ATTENDO_DATA) is the folder that holds `multi30k/train.en.gz`, … . Each peer runs in
an environment of its own, made from requirements/ the first time. Everything that was found is in OUT/results.json,
every repetition of it, and is added to as long as the file is there; OUT/results.md is made from it.
"""

import argparse
import signal
import sys
from pathlib import Path

from benchmarks.peers import growth, starting, training, translating
from benchmarks.peers.data import prepare
from benchmarks.peers.results import Results
from benchmarks.runs import add_data, parsed


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_data(parser, "multi30k/")
    parser.add_argument("what", choices=["train", "loss", "translate", "start", "growth", "table"])
    parser.add_argument("--out", type=Path, default=Path("runs/peers"))
    parser.add_argument("--environments", type=Path, default=Path.home() / ".cache" / "attendo-peers")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--peers", nargs="+", metavar="PEER", help="only these; attendo is one of them")
    parser.add_argument("--updates", type=int, help="train: at most so many [60]; loss: so many [500]")
    parser.add_argument("--warm-up", type=int, default=10, help="updates that are not measured")
    parser.add_argument(
        "--seconds", type=float, default=15.0, help="train: a peer that shuffles is stopped after so long"
    )
    parser.add_argument("--bundle", type=Path, help="translate, start: this translator [one is trained for it]")
    parser.add_argument("--sentences", type=int, default=29_000, help="translate: so many distinct training sources")
    parser.add_argument("--test-sentences", type=int, default=1000, help="translate: for the slow ones")
    parser.add_argument("--singles", type=int, default=100, help="translate: sentences one at a time")
    arguments = parsed(parser)
    # What is running has a session of its own, and would go on alone: ended by an exception, it is ended as well.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    arguments.out = arguments.out.resolve()
    arguments.environments = arguments.environments.resolve()
    arguments.out.mkdir(parents=True, exist_ok=True)
    corpus = arguments.data.resolve() / "multi30k"
    results = Results(arguments.out, arguments.environments)
    match arguments.what:
        case "train" | "loss":
            train(arguments, corpus, results)
        case "translate":
            translating.measure(arguments, corpus, results)
        case "start":
            starting.measure(arguments, corpus, results)
        case "growth":
            growth.measure(arguments, results)
    print(results.write_markdown())


def train(arguments: argparse.Namespace, corpus: Path, results: Results) -> None:
    data = prepare(corpus, arguments.out)
    long = arguments.what == "loss"
    variants = [
        variant
        for variant in (training.LONG if long else training.VARIANTS)
        if arguments.peers is None or variant.peer in arguments.peers
    ]

    def one(variant: training.Variant) -> dict[str, object]:
        found = training.measure(
            variant,
            data,
            arguments.out / "attempts" / "run",
            arguments.environments,
            updates=arguments.updates or (500 if long else 60),
            warm_up=arguments.warm_up,
            seconds=None if long else arguments.seconds,
            long=long,
        )
        results.add(arguments.what, found)
        return found

    training.rounds(variants, 1 if long else arguments.repetitions, one)


if __name__ == "__main__":
    main()
