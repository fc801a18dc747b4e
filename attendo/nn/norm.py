"""Normalisation over the features of one position, and where it stands around a sublayer."""

from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn

from attendo.nn.dropout import Dropout

NormName = Literal["layernorm", "rmsnorm"]
NormPlace = Literal["post", "pre"]


def build_norm(name: NormName, d_model: int) -> nn.Module:
    """layernorm: (x - mean) / std * gain + bias (Ba et al. 2016); rmsnorm: x / rms * gain (Zhang & Sennrich 2019)."""
    match name:
        case "layernorm":
            return nn.LayerNorm(d_model, eps=1e-5)
        case "rmsnorm":
            return nn.RMSNorm(d_model, eps=1e-6)


class Residual(nn.Module):
    """The line around every sublayer, and the one place that decides where the norm goes.

    post (the paper):     norm(x + dropout(sublayer(x)))
    pre (Xiong 2020):     x + dropout(sublayer(norm(x)))
    """

    def __init__(self, *, norm: nn.Module, place: NormPlace, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.place: NormPlace = place
        self.dropout = Dropout(dropout)

    def forward(self, x_BTD: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.place == "pre":
            return x_BTD + self.dropout(sublayer(self.norm(x_BTD)))
        return self.norm(x_BTD + self.dropout(sublayer(x_BTD)))
