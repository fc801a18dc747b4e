"""Normalisation, and where it stands around a sublayer.

Every norm is called as `norm(x, real=…)`, where `real` says which positions hold a token: True there, [B, T]. Only
BatchNorm looks at it. Suffixes: B batch, T positions, D d_model, N real positions.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attendo.nn.dropout import Dropout
from attendo.nn.names import USUAL_EPS, NormName, NormPlace

Sublayer = Callable[[Tensor], Tensor]


class LayerNorm(nn.LayerNorm):
    """(x - mean(x)) / std(x) * gain + bias, over the features of one position (Ba et al. 2016)."""

    def forward(self, x_BTD: Tensor, *, real: Tensor | None = None) -> Tensor:  # noqa: ARG002
        return super().forward(x_BTD)


class RMSNorm(nn.RMSNorm):
    """x / √mean(x²) * gain: LayerNorm without the mean (Zhang & Sennrich 2019)."""

    def forward(self, x_BTD: Tensor, *, real: Tensor | None = None) -> Tensor:  # noqa: ARG002
        return super().forward(x_BTD)


class ScaleNorm(nn.Module):
    """g * x / |x|, with one learned length g for all features, √d_model at first (Nguyen & Salazar 2019)."""

    def __init__(self, d_model: int, *, eps: float = 1e-5) -> None:
        super().__init__()
        self.d_model = d_model
        self.eps = eps
        self.gain = nn.Parameter(torch.empty(1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.constant_(self.gain, math.sqrt(self.d_model))

    def forward(self, x_BTD: Tensor, *, real: Tensor | None = None) -> Tensor:  # noqa: ARG002
        return x_BTD * (self.gain / x_BTD.norm(dim=-1, keepdim=True).clamp(min=self.eps))


class BatchNorm(nn.Module):
    """(x - mean) / √(variance + ε) * gain + bias for each feature, over the batch (Ioffe & Szegedy 2015).

    While training, mean and variance are those of all real positions of the micro-batch, so that a sentence's vectors
    depend on its neighbours, and a target position's on later ones. Afterwards they are the running statistics kept
    from training, and every position stands alone: then a cache and any batch give the same result.
    """

    running_mean: Tensor
    running_variance: Tensor

    def __init__(self, d_model: int, *, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps = eps
        self.momentum = momentum
        self.weight = nn.Parameter(torch.empty(d_model))
        self.bias = nn.Parameter(torch.empty(d_model))
        self.register_buffer("running_mean", torch.empty(d_model))
        self.register_buffer("running_variance", torch.empty(d_model))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)
        nn.init.zeros_(self.running_mean)
        nn.init.ones_(self.running_variance)

    def forward(self, x_BTD: Tensor, *, real: Tensor | None = None) -> Tensor:
        if real is None or not self.training:
            return self._normalised(x_BTD.flatten(0, -2)).view_as(x_BTD)
        y_BTD = torch.zeros_like(x_BTD)
        y_BTD[real] = self._normalised(x_BTD[real])
        return y_BTD

    def _normalised(self, x_ND: Tensor) -> Tensor:
        return F.batch_norm(
            x_ND,
            self.running_mean,
            self.running_variance,
            self.weight,
            self.bias,
            training=self.training and len(x_ND) > 1,  # one position has no variance
            momentum=self.momentum,
            eps=self.eps,
        )


def build_norm(name: NormName, d_model: int, *, eps: float | None = None) -> nn.Module:
    """`eps` is what keeps it from dividing by zero; None: as usual for this norm."""
    eps = USUAL_EPS[name] if eps is None else eps
    match name:
        case "layernorm":
            return LayerNorm(d_model, eps=eps)
        case "rmsnorm":
            return RMSNorm(d_model, eps=eps)
        case "batchnorm":
            return BatchNorm(d_model, eps=eps)
        case "scalenorm":
            return ScaleNorm(d_model, eps=eps)


class PostNorm(nn.Module):
    """norm(x + dropout(sublayer(x))): the paper's."""

    def __init__(self, *, norm: nn.Module, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)

    def forward(self, x_BTD: Tensor, sublayer: Sublayer, *, real: Tensor | None = None) -> Tensor:
        return self.norm(self.dropout.added(x_BTD, sublayer(x_BTD)), real=real)


class PreNorm(nn.Module):
    """x + dropout(sublayer(norm(x))): nothing stands in the way of x, so deep stacks train (Xiong et al. 2020)."""

    def __init__(self, *, norm: nn.Module, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)

    def forward(self, x_BTD: Tensor, sublayer: Sublayer, *, real: Tensor | None = None) -> Tensor:
        return self.dropout.added(x_BTD, sublayer(self.norm(x_BTD, real=real)))


class SandwichNorm(nn.Module):
    """x + dropout(norm_after(sublayer(norm(x)))): a norm on both sides of the sublayer (Ding et al. 2021)."""

    def __init__(self, *, norm: nn.Module, norm_after: nn.Module, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.norm_after = norm_after
        self.dropout = Dropout(dropout)

    def forward(self, x_BTD: Tensor, sublayer: Sublayer, *, real: Tensor | None = None) -> Tensor:
        return self.dropout.added(x_BTD, self.norm_after(sublayer(self.norm(x_BTD, real=real)), real=real))


def build_residual(place: NormPlace, norm: Callable[[], nn.Module], *, dropout: float) -> nn.Module:
    """The line around every sublayer, and the one place that decides where the norm goes. `norm` makes one."""
    match place:
        case "post":
            return PostNorm(norm=norm(), dropout=dropout)
        case "pre":
            return PreNorm(norm=norm(), dropout=dropout)
        case "sandwich":
            return SandwichNorm(norm=norm(), norm_after=norm(), dropout=dropout)
