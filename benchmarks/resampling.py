"""What BPE-dropout costs: the batches of an epoch with it and without, beside the time that training on them takes.

    python -m benchmarks.resampling [DATA]

DATA (or the environment variable ATTENDO_DATA) is the folder that holds `multi30k/train.en.gz`, … . One vocabulary of
6,000, 2,048 positions in a batch. Every repetition makes all batches of another epoch, without BPE-dropout and with
it, one after the other; drawing the words anew is part of that, and finding them, once in a run, is told apart. What
training takes is measured over `--steps` steps of the model of `benchmarks.step`, one thread. All are seconds of
processor time. Prints Markdown.
"""

import argparse
import datetime
import statistics
import sys
import time
from pathlib import Path

from attendo import machine
from attendo.data.batching import epoch_plan
from attendo.data.loader import Pairs
from benchmarks.runs import add_data, parsed
from benchmarks.step import Trial

RATE = 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data(parser, "multi30k/")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("runs/step"), help="where the tokenised corpus is kept")
    parser.set_defaults(batch_tokens=2048, bfloat16=False, set=[])
    arguments = parsed(parser)
    trial = Trial(arguments)
    with machine.using_threads(1):
        speed = trial.speed()
    began = time.process_time()
    resampled = trial.prepared.resampled(RATE, 1).pairs
    first = time.process_time() - began
    kinds: dict[str, Pairs] = {
        "as they are": trial.prepared.pairs,
        f"BPE-dropout {RATE}": resampled,
    }
    found: dict[str, list[tuple[float, int]]] = {kind: [] for kind in kinds}
    for epoch in range(arguments.repetitions):
        for kind, pairs in kinds.items():
            found[kind].append(batches_of(pairs, epoch, arguments.batch_tokens))
    about = speed["machine"]
    print(
        f"{datetime.date.today().isoformat()}, {about['processor']}, 1 thread, torch {about['torch']}; "
        f"`{' '.join(['python -m benchmarks.resampling', *sys.argv[1:]])}`.",
        "",
        "| | batches of an epoch, seconds, median (least to most) | pieces | training, seconds | share |",
        "|---|---|---|---|---|",
        sep="\n",
    )
    for kind, measured in found.items():
        times, tokens = [seconds for seconds, _ in measured], statistics.median(n for _, n in measured)
        seconds, training = statistics.median(times), tokens / speed["rate"]
        print(
            f"| {kind} | {seconds:.2f} ({min(times):.2f} to {max(times):.2f}) | {tokens:,.0f} | {training:.0f} | "
            f"{seconds / training:.1%} |"
        )
    print(f"\nFinding the words, once in a run: {first:.2f} seconds.")


def batches_of(pairs: Pairs, epoch: int, batch_tokens: int) -> tuple[float, int]:
    """Processor seconds that all batches of the epoch take, and the pieces they have."""
    began = time.process_time()
    plan = epoch_plan(*pairs.lengths(epoch), batch_tokens=batch_tokens, seed=1, epoch=epoch)
    tokens = sum(pairs.batch(plan[i], epoch).n_tokens for i in range(len(plan)))
    return time.process_time() - began, tokens


if __name__ == "__main__":
    main()
