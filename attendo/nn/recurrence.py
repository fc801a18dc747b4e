"""Layers that go through a text position by position, and remember in a state of fixed size what came before.

Suffixes: B batch, T positions, X features that go in, D features that come out.
"""

import torch
from torch import Tensor, nn

State = tuple[Tensor, ...]  # what is remembered, [B, D] each: h and c of an LSTM, h of a GRU


class Recurrence(nn.Module):
    """h_1, …, h_T of a sequence x_1, …, x_T, all in one call of torch's own kernels: [B, T, X] -> [B, T, D].

    `lstm` (Hochreiter & Schmidhuber 1997), with σ the logistic function and * element by element:

        i, f, o = σ(W x_t + U h_{t-1} + b), each with its own W, U and b        g = tanh(W x_t + U h_{t-1} + b)
        c_t = f * c_{t-1} + i * g                                               h_t = o * tanh(c_t)

    `gru` (Cho et al. 2014), as torch and cuDNN have it, with the reset gate behind the product:

        r, z = σ(W x_t + U h_{t-1} + b)        n = tanh(W x_t + b + r * (U h_{t-1} + b'))
        h_t = (1 - z) * n + z * h_{t-1}
    """

    def __init__(self, layer: nn.LSTM | nn.GRU) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x_BTX: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """The vectors, and the state after the last position; without a state it begins with zeros."""
        if isinstance(self.layer, nn.GRU):
            y_BTD, h_1BD = self.layer(x_BTX, None if state is None else state[0][None])
            return y_BTD, (h_1BD[0],)
        y_BTD, (h_1BD, c_1BD) = self.layer(x_BTX, None if state is None else (state[0][None], state[1][None]))
        return y_BTD, (h_1BD[0], c_1BD[0])


class BothWays(nn.Module):
    """[→h_t ; ←h_t]: one recurrence from the beginning, one from the end of each sequence: [B, T, X] -> [B, T, D].

    The second is given each sequence turned round within its own length, and what it says is turned back. So padding,
    which stays at the end, comes after everything real in both, and changes nothing.
    """

    def __init__(self, ahead: Recurrence, back: Recurrence) -> None:
        super().__init__()
        self.ahead = ahead
        self.back = back

    def forward(self, x_BTX: Tensor, lengths_B: Tensor) -> Tensor:
        places_BT = turned_round(lengths_B, x_BTX.shape[1])
        ahead_BTH, _ = self.ahead(x_BTX)
        back_BTH, _ = self.back(_gathered(x_BTX, places_BT))
        return torch.cat((ahead_BTH, _gathered(back_BTH, places_BT)), dim=-1)


def turned_round(lengths_B: Tensor, size: int) -> Tensor:
    """Which position comes to each place when every sequence is turned round: length - 1 - t, and padding as it is."""
    places_T = torch.arange(size, device=lengths_B.device)
    turned_BT = lengths_B[:, None] - 1 - places_T
    return torch.where(turned_BT >= 0, turned_BT, places_T)


def _gathered(x_BTX: Tensor, places_BT: Tensor) -> Tensor:
    return x_BTX.gather(1, places_BT[:, :, None].expand(-1, -1, x_BTX.shape[2]))
