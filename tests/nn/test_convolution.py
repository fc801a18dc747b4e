"""Filters over spans against torch's convolution."""

import torch
import torch.nn.functional as F
from torch import Tensor

from attendo.nn.convolution import Spans

B, T, D, FILTERS = 3, 11, 7, 5
WIDTHS = (1, 3, 4)
LENGTHS = torch.tensor([11, 2, 1])  # one shorter than a span


def drawn() -> tuple[Spans, Tensor]:
    torch.manual_seed(3)
    return Spans(d_model=D, widths=WIDTHS, n_filters=FILTERS), torch.randn(B, T, D)


def expected(spans: Spans, x_TD: Tensor) -> Tensor:
    found = []
    for width, filters in zip(WIDTHS, spans.filters, strict=True):
        weight = filters.weight.view(FILTERS, D, width)  # type: ignore[operator]
        made_FS = F.conv1d(x_TD.T, weight, filters.bias, padding=width - 1)  # type: ignore[arg-type]
        found.append(made_FS.relu().amax(dim=1))
    return torch.cat(found)


def test_they_are_torchs_convolutions_over_the_text_alone() -> None:
    spans, x_BTD = drawn()
    found = spans(x_BTD, LENGTHS)
    assert found.shape == (B, len(WIDTHS) * FILTERS)
    for row, length in enumerate(LENGTHS.tolist()):
        torch.testing.assert_close(found[row], expected(spans, x_BTD[row, :length]), rtol=0, atol=1e-6)


def test_what_the_positions_have_is_all_there_is() -> None:
    spans, x_BTD = drawn()
    shares_BTX, found_BX = spans.shares(x_BTD, LENGTHS), spans(x_BTD, LENGTHS)
    torch.testing.assert_close(shares_BTX.sum(1), found_BX, rtol=0, atol=1e-6)
    assert shares_BTX[1, 2:].abs().max() == 0  # padding says nothing
    for number, width in enumerate(WIDTHS):
        has_TX = shares_BTX[0, :, number * FILTERS : (number + 1) * FILTERS] != 0
        assert has_TX.sum(0).max() <= width


def test_a_share_lies_where_the_filter_found_something() -> None:
    """A filter that looks for one feature in the middle of three positions, and a text that has it in one place."""
    spans = Spans(d_model=2, widths=(3,), n_filters=1)
    with torch.no_grad():
        spans.filters[0].weight.copy_(torch.tensor([[0.0, 1.0, 0.0, 0.0, 0.0, 0.0]]))  # type: ignore[operator]
        spans.filters[0].bias.zero_()  # type: ignore[operator]
    x_BTD = torch.zeros(1, 8, 2)
    x_BTD[0, 5, 0] = 6.0
    assert spans.shares(x_BTD, torch.tensor([8]))[0, :, 0].tolist() == [0, 0, 0, 0, 0, 6, 0, 0]
    with torch.no_grad():
        spans.filters[0].bias.fill_(3.0)  # type: ignore[operator]
    assert spans.shares(x_BTD, torch.tensor([8]))[0, :, 0].tolist() == [0, 0, 0, 0, 1, 7, 1, 0]
    assert spans.shares(x_BTD, torch.tensor([6]))[0, :, 0].tolist() == [0, 0, 0, 0, 1.5, 7.5, 0, 0]  # beyond the end
