"""The exponential moving average of the weights while they are trained."""

import contextlib
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor


class MovingAverage:
    """ema_t = d_t ema_{t-1} + (1 - d_t) w_t after step t, ema_0 = w_0, d_t = min(decay, (1 + t) / (10 + t)).

    d_t is small in the first steps, so that the weights training began with are soon forgotten. `weights` are the
    model's own tensors, which training changes in place, and whatever else is to be averaged with them.
    """

    def __init__(self, weights: Mapping[str, Tensor], decay: float) -> None:
        self.decay = decay
        self.weights = {name: tensor.detach().clone() for name, tensor in weights.items()}
        self._averaged = list(self.weights.values())
        self._trained = [tensor.detach() for tensor in weights.values()]

    def update(self, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self._averaged, self._trained, 1 - decay)

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """The model has the averaged weights meanwhile, and afterwards its own again."""
        own = [tensor.clone() for tensor in self._trained]
        torch._foreach_copy_(self._trained, self._averaged)
        try:
            yield
        finally:
            torch._foreach_copy_(self._trained, own)
