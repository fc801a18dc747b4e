"""The loss without the logits: time and memory of output projection, loss and gradients, all at once and in blocks.

    OMP_NUM_THREADS=1 python -m benchmarks.loss --repetitions 15

One line for the logits as a whole, and one for each block size; the sizes are those of a `tiny` model, of the same with
a large vocabulary, and of a `base` model. Every repetition measures all alternatives one after the other. Time is the
processor's, so that other work on the machine matters less, and with one thread is what one core needs; memory is what
the peak of a process of its own rises by, gradients included (Linux). Prints a Markdown table.
"""

import argparse
import datetime
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from attendo import machine
from attendo.training.loss import label_smoothed_cross_entropy, projected_cross_entropy

SIZES = ((128, 6_000), (128, 32_000), (512, 32_000))  # d_model, vocabulary
SMOOTHING = 0.1
WHOLE = 0  # in the place of a block's rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--positions", type=int, default=1_700, help="real target positions of a batch")
    parser.add_argument("--rows", type=int, nargs="+", default=[128, 256, 512, 1024], help="block sizes")
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--peak", type=int, nargs=3, metavar=("ROWS", "D_MODEL", "VOCABULARY"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    machine.ready("cpu")
    if arguments.peak:
        rows, d_model, vocabulary = arguments.peak
        print(peak_of(rows, arguments.positions, d_model, vocabulary))
        return
    conditions = machine.describe()
    print(
        f"{datetime.date.today().isoformat()}, {conditions['processor']}, {conditions['threads']} threads, torch "
        f"{conditions['torch']}; `{' '.join(['python -m benchmarks.loss', *sys.argv[1:]])}`; "
        f"{arguments.positions:,} positions, float32, forward and backward.",
        "",
        "| d_model | vocabulary | logits | ms of processor time, median (least to most) | against whole | MB |",
        "|---|---|---|---|---|---|",
        sep="\n",
    )
    for d_model, vocabulary in SIZES:
        alternatives = [WHOLE, *arguments.rows]
        times = measure(alternatives, arguments.positions, d_model, vocabulary, arguments.repetitions)
        for rows in alternatives:
            taken, whole = times[rows], statistics.median(times[WHOLE])
            peak = peak_in_own_process(rows, arguments.positions, d_model, vocabulary)
            print(
                f"| {d_model} | {vocabulary:,} | {f'{rows:,} rows' if rows else 'whole'} | "
                f"{statistics.median(taken):.1f} ({min(taken):.1f} to {max(taken):.1f}) | "
                f"{statistics.median(taken) / whole:.2f} | {peak / 1e6:.0f} |",
                flush=True,
            )


def measure(
    alternatives: list[int], positions: int, d_model: int, vocabulary: int, repetitions: int
) -> dict[int, list[float]]:
    """Milliseconds of each alternative, in turns."""
    calls = {rows: call_of(rows, positions, d_model, vocabulary) for rows in alternatives}
    times: dict[int, list[float]] = {rows: [] for rows in alternatives}
    for number in range(repetitions + 1):
        for rows, call in calls.items():
            began = time.process_time()
            call()
            if number:  # the first allocates
                times[rows].append(1e3 * (time.process_time() - began))
    return times


def call_of(rows: int, positions: int, d_model: int, vocabulary: int) -> Callable[[], object]:
    """Loss and gradients of one batch."""
    generator = torch.Generator().manual_seed(1)
    hidden_ND = torch.randn(positions, d_model, generator=generator).requires_grad_()
    weight_VD = torch.randn(vocabulary, d_model, generator=generator).mul_(d_model**-0.5).requires_grad_()
    bias_V = torch.zeros(vocabulary, requires_grad=True)
    target_N = torch.randint(0, vocabulary, (positions,), generator=generator)

    def loss() -> Tensor:
        if rows == WHOLE:
            return label_smoothed_cross_entropy(F.linear(hidden_ND, weight_VD, bias_V), target_N, SMOOTHING)
        return projected_cross_entropy(hidden_ND, weight_VD, bias_V, target_N, SMOOTHING, rows=rows)

    return lambda: torch.autograd.grad(loss() / positions, (hidden_ND, weight_VD, bias_V))


def peak_of(rows: int, positions: int, d_model: int, vocabulary: int) -> int:
    """Bytes by which this process's peak rises above what it held before."""
    call_of(rows, 2, 3, 5)()  # what the libraries themselves need the first time
    call = call_of(rows, positions, d_model, vocabulary)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = status_bytes("VmRSS")
    call()
    return status_bytes("VmHWM") - before


def peak_in_own_process(rows: int, positions: int, d_model: int, vocabulary: int) -> int:
    command = [sys.executable, "-m", "benchmarks.loss", "--positions", str(positions), "--peak"]
    command += [str(rows), str(d_model), str(vocabulary)]
    return int(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def status_bytes(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    sys.exit(f"/proc/self/status has no {name}")


if __name__ == "__main__":
    main()
