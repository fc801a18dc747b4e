"""Dropout with random bytes.

torch draws one random float per element; on a CPU that costs more than the layer around it. A random byte says as much
as a dropout rate needs, once the rate is rounded to a multiple of 1/256, and is all that backward has to remember.
"""

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from attendo.native import kernels


class Dropout(nn.Module):
    """y = x * m / (1 - p), with m drawn as 0 with probability p and 1 otherwise, while training; y = x otherwise.

    The rate is rounded to the nearest multiple of 1/256, and the scale 1 / (1 - p) uses the rounded rate, so that the
    expectation of y is exactly x. The random bytes come from torch's generator of the device, which the training state
    keeps, so that a resumed run draws the same masks.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.threshold = min(255, round(rate * 256))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.threshold == 0:
            return x
        return _ByteDropout.apply(x, self.threshold)

    def added(self, x: Tensor, y: Tensor) -> Tensor:
        """x + dropout(y)."""
        if not self.training or self.threshold == 0 or not kernels.serves(x, y) or x.shape != y.shape:
            return x + self(y)
        return _AddedByteDropout.apply(x, y, self.threshold)

    def extra_repr(self) -> str:
        return f"rate={self.rate}"


class _ByteDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, threshold: int) -> Tensor:
        # The bytes become 0 and 1 where they are: making booleans of them, and multiplying by those, is far slower.
        keep = random_bytes(x).ge_(threshold)
        ctx.save_for_backward(keep)
        ctx.scale = 256 / (256 - threshold)  # type: ignore[attr-defined]
        return _dropped(x, keep, ctx.scale)  # type: ignore[attr-defined]

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, None]:
        (keep,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return _dropped(gradient, keep, ctx.scale), None  # type: ignore[attr-defined]


class _AddedByteDropout(torch.autograd.Function):
    """x + dropout(y) in one pass: the fast twin of an addition and a `_ByteDropout`."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, y: Tensor, threshold: int) -> Tensor:
        keep = random_bytes(y).ge_(threshold)
        ctx.save_for_backward(keep)
        ctx.scale = 256 / (256 - threshold)  # type: ignore[attr-defined]
        return kernels.add_dropped(x.contiguous(), y.contiguous(), keep, ctx.scale)  # type: ignore[attr-defined]

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        (keep,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return gradient, kernels.add_dropped(None, gradient.contiguous(), keep, ctx.scale), None  # type: ignore[attr-defined]


def _dropped(x: Tensor, keep: Tensor, scale: float) -> Tensor:
    """x * keep * scale. The bytes become floats when they are scaled, which they would have to for x as well."""
    wide = torch.promote_types(x.dtype, torch.float32)  # a bfloat16 has too few digits for the scale
    return (keep * torch.full((), scale, dtype=wide, device=x.device)).mul_(x).to(x.dtype)


def random_bytes(like: Tensor) -> Tensor:
    """One random byte for each element of `like`, as uint8 of the same shape; on a CPU drawn eight at a time."""
    # Other generators work in parallel, and not all of them fill 64 bits; a view of another type cannot be compiled.
    if like.device.type != "cpu" or torch.compiler.is_compiling():
        return torch.randint(0, 256, like.shape, dtype=torch.uint8, device=like.device)
    words = torch.empty((like.numel() + 7) // 8, dtype=torch.int64, device=like.device).random_(-(2**63), None)
    return words.view(torch.uint8)[: like.numel()].view(like.shape)
