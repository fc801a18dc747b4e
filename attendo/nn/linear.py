"""Linear layers, alone and several of one input."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

from attendo import native
from attendo.native import kernels

FEWEST_ROWS = 64  # for which it pays to lay out W first, where no gradients are made


class Linear(nn.Linear):
    """x Wᵀ + b. W: [out, in]; b: [out], or none."""

    def forward(self, x: Tensor) -> Tensor:
        return joint_products(x, (self,))[0]


def joint_products(x: Tensor, linears: Sequence[nn.Linear]) -> tuple[Tensor, ...]:
    """linear(x) of each; where there are several, x gets its gradient at once."""
    weights, biases = [linear.weight for linear in linears], [linear.bias for linear in linears]
    given = [tensor for tensor in (x, *weights, *biases) if tensor is not None]
    many = x.numel() >= FEWEST_ROWS * x.shape[-1]
    worthwhile = torch.is_grad_enabled() or many or kernels.wants_bfloat16()  # so that the type is always the same
    if worthwhile and kernels.serves(*given) and x.shape[-1] % native.lanes() == 0:
        return _NativeLinear.apply(x, *weights, *biases)
    if len(linears) == 1:
        return (F.linear(x, weights[0], biases[0]),)
    made = F.linear(x, torch.cat(weights), joint_bias(linears))
    return made.split([linear.out_features for linear in linears], dim=-1)


def joint_bias(linears: Sequence[nn.Linear]) -> Tensor | None:
    """The biases of all, one after the other, if they have any."""
    return None if linears[0].bias is None else torch.cat([linear.bias for linear in linears])


class _NativeLinear(torch.autograd.Function):
    """x W₁ᵀ + b₁, x W₂ᵀ + b₂, … for training on one thread."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, *weights_and_biases: Tensor | None) -> tuple[Tensor, ...]:
        n = len(weights_and_biases) // 2
        x = x.contiguous()
        weights = [weight.contiguous() for weight in weights_and_biases[:n] if weight is not None]
        ctx.save_for_backward(x, *weights)
        ctx.set_materialize_grads(False)
        ctx.low = low = kernels.wants_bfloat16()  # type: ignore[attr-defined]
        return tuple(
            kernels.linear(x, weight, bias, low=low)
            for weight, bias in zip(weights, weights_and_biases[n:], strict=True)
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        x, *weights = ctx.saved_tensors  # type: ignore[attr-defined]
        n = len(weights)
        low: bool = ctx.low  # type: ignore[attr-defined]
        wanted: tuple[bool, ...] = ctx.needs_input_grad  # type: ignore[attr-defined]
        for_x = torch.empty_like(x) if wanted[0] and any(gradient is not None for gradient in gradients) else None
        for_weights: list[Tensor | None] = [None] * n
        for_biases: list[Tensor | None] = [None] * n
        first = True
        for i, (gradient, weight) in enumerate(zip(gradients, weights, strict=True)):
            if gradient is None:
                continue
            for_weights[i] = torch.empty_like(weight) if wanted[1 + i] else None
            for_biases[i] = weight.new_empty(len(weight)) if wanted[1 + n + i] else None
            kernels.linear_backward(
                gradient.contiguous(), x, weight, for_x, for_weights[i], for_biases[i], add=not first, low=low
            )
            first = False
        return for_x, *for_weights, *for_biases
