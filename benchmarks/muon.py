"""Muon's step in float32, as attendo takes it, beside torch's own, which iterates in bfloat16.

    python -m benchmarks.muon --repetitions 15

For the linear layers of one layer of an encoder, as large as in each size of model. Every repetition lets both take a
step, one after the other, with the same gradients. Prints a Markdown table: milliseconds of a step, and how far the
matrices move apart in a step, as a share of the step.
"""

import argparse
import datetime
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from attendo import machine
from attendo.models.presets import sizes
from attendo.training.muon import Muon

SIZES = ("tiny", "small", "base")
RATE = 0.01


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=15)
    arguments = parser.parse_args()
    machine.ready("cpu")
    found = machine.describe()
    print(
        f"{datetime.date.today().isoformat()}, {found['processor']}, {found['threads']} threads, "
        f"torch {found['torch']}; `{' '.join(['python -m benchmarks.muon', *sys.argv[1:]])}`.",
        "",
        "| size | float32, ms, median (least to most) | bfloat16 | float32 / bfloat16 | apart |",
        "|---|---|---|---|---|",
        sep="\n",
    )
    for size in SIZES:
        print(row(size, arguments.repetitions))


def row(size: str, repetitions: int) -> str:
    chosen = sizes(size)  # type: ignore[arg-type]
    d_model, d_ff = chosen["d_model"], chosen["d_ff"]
    shapes = [(d_model, d_model)] * 4 + [(d_ff, d_model), (d_model, d_ff)]
    torch.manual_seed(1)
    begin = [torch.randn(shape) * shape[1] ** -0.5 for shape in shapes]
    ours, theirs = ([nn.Parameter(matrix.clone()) for matrix in begin] for _ in range(2))
    steps: tuple[Callable[[], object], ...] = (
        Muon([{"params": ours, "orthogonal": True}], lr=RATE, weight_decay=0.0).step,
        torch.optim.Muon(theirs, lr=RATE, weight_decay=0.0, adjust_lr_fn="match_rms_adamw").step,
    )
    times: tuple[list[float], list[float]] = ([], [])
    apart: list[float] = []
    for repetition in range(repetitions + 1):
        before = [matrix.detach().clone() for matrix in ours]
        gradients = [torch.randn(shape) for shape in shapes]
        for matrices, step, taken in zip((ours, theirs), steps, times, strict=True):
            for matrix, was, gradient in zip(matrices, before, gradients, strict=True):
                matrix.data.copy_(was)
                matrix.grad = gradient.clone()
            start = time.perf_counter()
            step()
            if repetition:  # the first one is for warming up
                taken.append(1000 * (time.perf_counter() - start))
        apart.append(_distance(ours, theirs) / _distance(ours, before))
    fp32, bf16 = (statistics.median(taken) for taken in times)
    spread = f"({min(times[0]):.2f} to {max(times[0]):.2f})"
    other = f"({min(times[1]):.2f} to {max(times[1]):.2f})"
    return f"| {size} | {fp32:.2f} {spread} | {bf16:.2f} {other} | {fp32 / bf16:.2f} | {max(apart):.1%} |"


def _distance(some: "list[nn.Parameter]", others: "list[Tensor] | list[nn.Parameter]") -> float:
    with torch.no_grad():
        return sum(((one - other) ** 2).sum().item() for one, other in zip(some, others, strict=True)) ** 0.5


if __name__ == "__main__":
    main()
