"""Muon's step in float32 and in bfloat16, as attendo takes it, beside torch's own, which iterates in bfloat16.

    OMP_NUM_THREADS=1 python -m benchmarks.muon --repetitions 15

For the linear layers of one layer of an encoder, as large as in each size of model. Every repetition lets all take a
step, one after the other, with the same gradients. Prints a Markdown table: milliseconds of a step, and how far from
the matrices of float32 the others have moved, as a share of the step.
"""

import argparse
import datetime
import statistics
import sys
import time

import torch
from torch import Tensor, nn

from attendo import machine
from attendo.models.presets import sizes
from attendo.training.muon import Muon

SIZES = ("tiny", "small", "base")
KINDS = ("float32", "bfloat16", "torch's own")
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
        "| size | iteration | ms, median (least to most) | against float32 | apart from it |",
        "|---|---|---|---|---|",
        sep="\n",
    )
    for size in SIZES:
        print("\n".join(rows(size, arguments.repetitions)))


def rows(size: str, repetitions: int) -> list[str]:
    chosen = sizes(size)  # type: ignore[arg-type]
    d_model, d_ff = chosen["d_model"], chosen["d_ff"]
    shapes = [(d_model, d_model)] * 4 + [(d_ff, d_model), (d_model, d_ff)]
    torch.manual_seed(1)
    begin = [torch.randn(shape) * shape[1] ** -0.5 for shape in shapes]
    moved = {kind: [nn.Parameter(matrix.clone()) for matrix in begin] for kind in KINDS}
    optimizers = {kind: _optimizer(kind, matrices) for kind, matrices in moved.items()}
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    apart: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for repetition in range(repetitions + 1):
        before = [matrix.detach().clone() for matrix in moved["float32"]]
        gradients = [torch.randn(shape) for shape in shapes]
        for kind, matrices in moved.items():
            for matrix, was, gradient in zip(matrices, before, gradients, strict=True):
                matrix.data.copy_(was)
                matrix.grad = gradient.clone()
            start = time.perf_counter()
            optimizers[kind].step()
            if repetition:  # the first one is for warming up
                times[kind].append(1000 * (time.perf_counter() - start))
        for kind, matrices in moved.items():
            apart[kind].append(_distance(moved["float32"], matrices) / _distance(moved["float32"], before))
    usual = statistics.median(times["float32"])
    return [
        f"| {size} | {kind} | {statistics.median(taken):.2f} ({min(taken):.2f} to {max(taken):.2f}) | "
        f"{statistics.median(taken) / usual:.2f} | {max(apart[kind]):.1%} |"
        for kind, taken in times.items()
    ]


def _optimizer(kind: str, matrices: "list[nn.Parameter]") -> torch.optim.Optimizer:
    if kind == "torch's own":
        return torch.optim.Muon(matrices, lr=RATE, weight_decay=0.0, adjust_lr_fn="match_rms_adamw")
    ours = Muon([{"params": matrices, "orthogonal": True}], lr=RATE, weight_decay=0.0)
    ours.low = kind == "bfloat16"
    return ours


def _distance(some: "list[nn.Parameter]", others: "list[Tensor] | list[nn.Parameter]") -> float:
    with torch.no_grad():
        return sum(((one - other) ** 2).sum().item() for one, other in zip(some, others, strict=True)) ** 0.5


if __name__ == "__main__":
    main()
