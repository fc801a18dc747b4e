"""Convolutions over the positions of a text.

Suffixes: B batch, T positions, P positions with those beside that only the edges see, S spans, F filters, D d_model.
"""

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attendo.nn.linear import Linear
from attendo.nn.masks import padding_mask


class GatedConvolution(nn.Module):
    """y_t = A_t * σ(B_t), [A ; B]_t = Σ_j W_j x_{t+j} + b, over `width` positions (Dauphin et al. 2017): [B, T, D].

    Given P positions there are T = P - width + 1 that see `width` of them each.
    """

    def __init__(self, *, d_model: int, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(d_model, 2 * d_model, width)

    def forward(self, x_BPD: Tensor) -> Tensor:
        return F.glu(self.convolution(x_BPD.transpose(1, 2)), dim=1).transpose(1, 2)


class Spans(nn.Module):
    """max_s max(0, W_w [x_s ; … ; x_{s+w-1}] + b_w) of each filter, for each width w (Kim 2014): [B, widths · F].

    A span may hang over an end of the text, where there are zeros, by all but one of its positions.
    """

    def __init__(self, *, d_model: int, widths: Sequence[int], n_filters: int) -> None:
        super().__init__()
        self.widths = tuple(widths)
        self.filters = nn.ModuleList(Linear(width * d_model, n_filters) for width in widths)

    def forward(self, x_BTD: Tensor, lengths_B: Tensor) -> Tensor:
        return torch.cat([found_BSF.amax(dim=1) for found_BSF in self._found(x_BTD, lengths_B)], dim=-1)

    def shares(self, x_BTD: Tensor, lengths_B: Tensor) -> Tensor:
        """What each position has in each feature, [B, T, widths · F]; their sum is what `forward` gives.

        In the span where a filter finds most, position j adds W_wj x_{s+j}; of b_w all have the same part.
        """
        shares = []
        for width, filters, found_BSF in zip(self.widths, self.filters, self._found(x_BTD, lengths_B), strict=True):
            assert isinstance(filters, Linear)
            most_BF, last_BF = found_BSF.max(dim=1)  # the first span ends at the first position
            places_BFw = last_BF[..., None] + torch.arange(1 - width, 1, device=last_BF.device)
            inside_BFw = (places_BFw >= 0) & (places_BFw < lengths_B[:, None, None]) & (most_BF > 0)[..., None]
            places_BFw = places_BFw.clamp(0, x_BTD.shape[1] - 1)
            rows_B11 = torch.arange(len(x_BTD), device=x_BTD.device)[:, None, None]
            weight_FDw = filters.weight.unflatten(1, (-1, width))
            parts_BFw = torch.einsum("bfwd,fdw->bfw", x_BTD[rows_B11, places_BFw], weight_FDw)
            parts_BFw += (filters.bias / inside_BFw.sum(-1).clamp(min=1))[..., None]
            of_width_BFT = x_BTD.new_zeros(*most_BF.shape, x_BTD.shape[1])
            shares.append(of_width_BFT.scatter_add_(2, places_BFw, parts_BFw * inside_BFw).transpose(1, 2))
        return torch.cat(shares, dim=-1)

    def _found(self, x_BTD: Tensor, lengths_B: Tensor) -> Iterator[Tensor]:
        """What each filter finds in each span, [B, S, F]; nothing where no position of the text is in it."""
        x_BTD = x_BTD * padding_mask(lengths_B, x_BTD.shape[1])[:, 0, 0, :, None]
        for width, filters in zip(self.widths, self.filters, strict=True):
            spans_BSDw = F.pad(x_BTD, (0, 0, width - 1, width - 1)).unfold(1, width, 1)
            found_BSF = F.relu(filters(spans_BSDw.flatten(2)))
            yield found_BSF * padding_mask(lengths_B + width - 1, found_BSF.shape[1])[:, 0, 0, :, None]
