"""Time and memory as a text grows: self-attention beside a recurrent and a convolutional layer, measured here.

One layer of each kind, of the same width, is run forth and back over one sequence, as in training:

    attention   O(n² d)     torch.nn.MultiheadAttention, which holds the weights
    fused       O(n² d)     the same by torch's fused kernel, which does not
    LSTM        O(n d²)     torch.nn.LSTM, n steps one after the other
    conv        O(k n d²)   torch.nn.Conv1d of k = 3 neighbours

Memory is what all tensors made on the way hold at the same time, at its most; what a kernel needs inside for itself is
not seen.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from attendo.reporting import Reporter

LENGTHS = (32, 64, 128, 256, 512, 1024)
KERNEL = 3  # neighbours of a convolution
REPEATS = 5

Layer = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Measurement:
    """Of one layer and one length: milliseconds for a step, and the bytes that its tensors hold at most."""

    layer: str
    length: int
    milliseconds: float
    bytes: int


def layers(d_model: int, n_heads: int) -> dict[str, Layer]:
    """Each takes [1, n, d_model]. torch's attention has as many heads of those as divide its width."""
    attention = nn.MultiheadAttention(d_model, math.gcd(n_heads, d_model), batch_first=True)
    recurrent = nn.LSTM(d_model, d_model, batch_first=True)
    convolution = nn.Conv1d(d_model, d_model, KERNEL, padding=KERNEL // 2)
    return {
        "attention": lambda x: attention(x, x, x, need_weights=True)[0],
        "fused": lambda x: attention(x, x, x, need_weights=False)[0],
        "LSTM": lambda x: recurrent(x)[0],
        "conv": lambda x: convolution(x.transpose(1, 2)),
    }


def measure(
    d_model: int, n_heads: int, reporter: Reporter, *, lengths: Sequence[int] | None = None, repeats: int | None = None
) -> list[Measurement]:
    """Every layer at every length; the time is the median of some repetitions."""
    made = layers(d_model, n_heads)
    places = [(name, length) for length in lengths or LENGTHS for name in made]
    found = []
    for name, length in reporter.track(places, "Measuring", len(places)):
        step = partial(_step, made[name], torch.randn(1, length, d_model, requires_grad=True))
        step()  # the first is slower than all others
        seconds = []
        for _ in range(repeats or REPEATS):
            began = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - began)
        found.append(Measurement(name, length, 1000 * median(seconds), peak_bytes(step)))
    return found


def _step(layer: Layer, x: Tensor) -> None:
    layer(x).sum().backward()
    x.grad = None


class _Holding(TorchDispatchMode):
    """Sees every tensor that is made, and adds up what those that are still there hold."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[StorageWeakRef, int] = {}
        self.peak = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Iterable[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        self.held = {held: size for held, size in self.held.items() if not held.expired()}
        for tensor in tree_leaves(made):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                self.held[StorageWeakRef(storage)] = storage.nbytes()
        self.peak = max(self.peak, sum(self.held.values()))
        return made


def peak_bytes(call: Callable[[], None]) -> int:
    """The most bytes that the tensors made by a call hold at the same time."""
    with _Holding() as holding:
        call()
    return holding.peak
