"""Convolutions over the positions of a text, with gates.

Suffixes: B batch, T positions, P positions with those beside that only the edges see, D d_model.
"""

import torch.nn.functional as F
from torch import Tensor, nn


class GatedConvolution(nn.Module):
    """y_t = A_t * σ(B_t), [A ; B]_t = Σ_j W_j x_{t+j} + b, over `width` positions (Dauphin et al. 2017): [B, T, D].

    Given P positions there are T = P - width + 1 that see `width` of them each.
    """

    def __init__(self, *, d_model: int, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(d_model, 2 * d_model, width)

    def forward(self, x_BPD: Tensor) -> Tensor:
        return F.glu(self.convolution(x_BPD.transpose(1, 2)), dim=1).transpose(1, 2)
