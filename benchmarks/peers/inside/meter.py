"""The clock inside a peer's process: what an update is, when it was done, how many tokens it had.

An update is one call of `torch.optim.Optimizer.step`, seen through torch's own hook, so that no peer has to be changed
to be timed. Tokens are counted where the peer hands a batch to its model.
"""

import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook

from benchmarks.peers.setting import Task

PROBE_BATCH = 50

Pairs = list[tuple[list[int], list[int]]]


class Finished(BaseException):
    """Leaves the peer's training loop; no `except Exception` on the way stops it."""


class Meter:
    """Notes time, real tokens and positions of every update; raises Finished after the last."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.updates: list[tuple[float, int, int]] = []
        self.tokens, self.positions = 0, 0
        register_optimizer_step_post_hook(self._after_update)

    def count(self, *lengths_and_widths: tuple[Tensor, int]) -> None:
        """For each side of a batch its lengths (EOS included) and how many positions they were padded to."""
        for lengths_B, width in lengths_and_widths:
            self.tokens += int(lengths_B.sum())
            self.positions += width * len(lengths_B)

    def _after_update(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:  # noqa: ARG002
        self.updates.append((time.perf_counter(), self.tokens, self.positions))
        self.tokens, self.positions = 0, 0
        done, task = len(self.updates), self.task
        late = task.seconds is not None and done > task.warm_up + 1 and self._measured() >= task.seconds
        if done == task.updates or late:
            write(Path(task.out) / "updates.json", self.updates)
            raise Finished

    def _measured(self) -> float:
        return self.updates[-1][0] - self.updates[self.task.warm_up - 1][0]


def write(path: Path, content: Any) -> None:
    """All at once: whoever waits for the file finds it whole."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content))
    part.rename(path)


def read_pairs(task: Task, name: str) -> Pairs:
    """The ids of a file of the data folder."""
    sides = [(Path(task.data) / f"{name}.{side}").read_text().splitlines() for side in ("source", "target")]
    return [
        (list(map(int, source.split())), list(map(int, target.split()))) for source, target in zip(*sides, strict=True)
    ]


def report_loss(task: Task, model: torch.nn.Module, logits: Callable[[Pairs], tuple[Tensor, Tensor]]) -> None:
    """The mean of -log p over all target tokens and EOS of the probe, without dropout, into loss.json.

    `logits` gives for some pairs [B, T, V] and what should have come [B, T], with -100 where nothing should.
    """
    if not task.evaluate:
        return
    model.eval()
    total, count = 0.0, 0
    with torch.no_grad():
        for pairs in _parts(read_pairs(task, "probe")):
            logits_BTV, gold_BT = logits(pairs)
            total += float(
                torch.nn.functional.cross_entropy(logits_BTV.flatten(0, 1), gold_BT.flatten(), reduction="sum")
            )
            count += int((gold_BT != -100).sum())
    if not math.isfinite(total):
        raise SystemExit(f"the loss is {total}")
    write(Path(task.out) / "loss.json", {"loss": total / count, "tokens": count})


def padded(rows: list[list[int]], fill: int) -> Tensor:
    """[len(rows), longest]"""
    width = max(map(len, rows))
    return torch.tensor([row + [fill] * (width - len(row)) for row in rows])


def _parts(pairs: Pairs) -> Iterator[Pairs]:
    for first in range(0, len(pairs), PROBE_BATCH):
        yield pairs[first : first + PROBE_BATCH]
