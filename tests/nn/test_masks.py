import pytest
import torch

from attendo.nn.attention import MultiHeadAttention
from attendo.nn.masks import ChunkSpan, Span, WindowSpan, causal_mask, padding_mask, span_mask
from attendo.nn.positions import ShawPositions


def test_padding_mask_is_true_at_real_positions() -> None:
    mask = padding_mask(torch.tensor([3, 5, 1]), 5)
    assert mask.shape == (3, 1, 1, 5)
    assert mask[:, 0, 0].tolist() == [
        [True, True, True, False, False],
        [True, True, True, True, True],
        [True, False, False, False, False],
    ]


def test_causal_mask_lets_a_position_see_itself_and_the_past() -> None:
    mask = causal_mask(3)
    assert mask.shape == (1, 1, 3, 3)
    assert mask[0, 0].tolist() == [[True, False, False], [True, True, False], [True, True, True]]


def test_masks_combine() -> None:
    mask = causal_mask(3) & padding_mask(torch.tensor([2, 3]), 3)
    assert mask.shape == (2, 1, 3, 3)
    assert mask[0, 0].tolist() == [[True, False, False], [True, True, False], [True, True, False]]


def test_causal_mask_of_queries_after_a_past() -> None:
    for offset in [0, 1, 4]:
        expected = [[s <= t for s in range(offset + 3)] for t in range(offset, offset + 3)]
        assert causal_mask(3, offset=offset)[0, 0].tolist() == expected


def sees(span: Span, t: int, s: int) -> bool:
    """What a query at t sees, chunk by chunk and step by step."""
    if isinstance(span, WindowSpan):
        return s in range(t - span.size, t + span.size + 1)
    assert isinstance(span, ChunkSpan)
    own_start = next(start for start in range(0, t + 1, span.size) if t < start + span.size)
    return s in range(own_start - span.left * span.size, own_start + span.size)


SPANS = [
    WindowSpan(1),
    WindowSpan(3),
    WindowSpan(50),
    ChunkSpan(1, 0),
    ChunkSpan(3, 0),
    ChunkSpan(3, 1),
    ChunkSpan(2, 2),
]


@pytest.mark.parametrize("span", SPANS, ids=str)
@pytest.mark.parametrize("offset", [0, 1, 5])
def test_causal_spans_written_out(span: Span, offset: int) -> None:
    mask = causal_mask(7, offset=offset, span=span)
    assert mask.shape == (1, 1, 7, offset + 7)
    for t in range(offset, offset + 7):
        for s in range(offset + 7):
            assert mask[0, 0, t - offset, s].item() == (s <= t and sees(span, t, s)), (t, s)


@pytest.mark.parametrize("span", SPANS, ids=str)
def test_spans_both_ways_written_out(span: Span) -> None:
    lengths, size = [11, 1, 4], 11
    mask = span_mask(padding_mask(torch.tensor(lengths), size), span)
    assert mask.shape == (3, 1, size, size)
    for b, length in enumerate(lengths):
        for t in range(size):
            for s in range(size):
                expected = s < length and sees(span, t, s)
                assert mask[b, 0, t, s].item() == (expected or s == t), (b, t, s)


def test_without_a_span_all_real_positions_are_seen() -> None:
    padding = padding_mask(torch.tensor([3, 5]), 5)
    assert span_mask(padding, None) is padding


@pytest.mark.parametrize("span", SPANS, ids=str)
@pytest.mark.parametrize("explicit", [False, True])
def test_padding_far_from_a_short_sentence_is_never_nan(span: Span, explicit: bool) -> None:
    torch.manual_seed(1)
    positions = ShawPositions(d_key=7, d_value=3, max_distance=2) if explicit else None
    module = MultiHeadAttention(d_model=13, n_heads=2, d_key=7, d_value=3, positions=positions)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    lengths = torch.tensor([41, 1, 2])
    x = torch.randn(3, 41, 13, requires_grad=True)
    output, _ = module(x, mask=span_mask(padding_mask(lengths, 41), span))
    assert output.isfinite().all()
    output.square().sum().backward()
    for gradient in [x.grad, *(parameter.grad for parameter in module.parameters())]:
        assert gradient is not None
        assert gradient.isfinite().all()
    for b, length in enumerate(lengths.tolist()):  # and the sentence is as it is alone
        alone, _ = module(x[b : b + 1, :length], mask=span_mask(padding_mask(lengths[b : b + 1], length), span))
        torch.testing.assert_close(output[b, :length], alone[0], rtol=1e-5, atol=1e-6)
