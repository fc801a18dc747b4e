"""The feed-forward network: the same two layers at every position."""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from attendo.nn.dropout import Dropout
from attendo.nn.linear import Linear
from attendo.nn.names import ActivationName


class FeedForward(nn.Module):
    """FFN(x) = f(x W₁ + b₁) W₂ + b₂, with dropout after the activation f. W₁: [d_ff, d_model], W₂: [d_model, d_ff].

    The biases may be left out, here and below.
    """

    def __init__(
        self,
        *,
        d_model: int,
        d_ff: int,
        activation: Callable[[Tensor], Tensor],
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.inner = Linear(d_model, d_ff, bias=bias)
        self.outer = Linear(d_ff, d_model, bias=bias)
        self.activation = activation
        self.dropout = Dropout(dropout)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.outer(self.dropout(self.activation(self.inner(x_BTD))))


class GatedFeedForward(nn.Module):
    """GLU(x) = (f(x W₁ + b₁) * (x W₃ + b₃)) W₂ + b₂ (Shazeer 2020). W₃ has the shape of W₁. f is SiLU or GELU."""

    def __init__(
        self,
        *,
        d_model: int,
        d_ff: int,
        activation: Callable[[Tensor], Tensor],
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.inner = Linear(d_model, d_ff, bias=bias)
        self.gate = Linear(d_model, d_ff, bias=bias)
        self.outer = Linear(d_ff, d_model, bias=bias)
        self.activation = activation
        self.dropout = Dropout(dropout)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.outer(self.dropout(self.activation(self.inner(x_BTD)) * self.gate(x_BTD)))


def gelu_tanh(x: Tensor) -> Tensor:
    """x Φ(x) with Φ approximated by a tanh, as GPT-2 has it (Hendrycks & Gimpel 2016)."""
    return F.gelu(x, approximate="tanh")


def squared_relu(x: Tensor) -> Tensor:
    """max(0, x)² (So et al. 2021)."""
    return F.relu(x).square()


def build_feed_forward(
    name: ActivationName, *, d_model: int, d_ff: int, dropout: float, bias: bool = True
) -> nn.Module:
    match name:
        case "relu":
            return FeedForward(d_model=d_model, d_ff=d_ff, activation=F.relu, bias=bias, dropout=dropout)
        case "gelu":
            return FeedForward(d_model=d_model, d_ff=d_ff, activation=F.gelu, bias=bias, dropout=dropout)
        case "gelu-tanh":
            return FeedForward(d_model=d_model, d_ff=d_ff, activation=gelu_tanh, bias=bias, dropout=dropout)
        case "silu":
            return FeedForward(d_model=d_model, d_ff=d_ff, activation=F.silu, bias=bias, dropout=dropout)
        case "swiglu":
            return GatedFeedForward(d_model=d_model, d_ff=d_ff, activation=F.silu, bias=bias, dropout=dropout)
        case "geglu":
            return GatedFeedForward(d_model=d_model, d_ff=d_ff, activation=gelu_tanh, bias=bias, dropout=dropout)
        case "relu2":
            return FeedForward(d_model=d_model, d_ff=d_ff, activation=squared_relu, bias=bias, dropout=dropout)
