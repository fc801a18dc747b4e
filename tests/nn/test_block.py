"""Suffixes: B batch, T positions, S source length, D d_model."""

import pytest
import torch
from torch import Tensor, nn

from attendo.nn.attention import BranchedHeads, MultiHeadAttention
from attendo.nn.block import Block
from attendo.nn.cache import LayerCache
from attendo.nn.feed_forward import build_feed_forward
from attendo.nn.masks import causal_mask, padding_mask
from attendo.nn.names import NormPlace
from attendo.nn.norm import build_norm, build_residual

B, T, S, D, F, H, K, V = 2, 5, 7, 17, 19, 3, 11, 13
LENGTHS = torch.tensor([7, 4])


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


def attention(output: nn.Module | None = None) -> MultiHeadAttention:
    return MultiHeadAttention(d_model=D, n_heads=H, d_key=K, d_value=V, output=output)


def feed_forward(d_ff: int) -> nn.Module:
    return build_feed_forward("relu", d_model=D, d_ff=d_ff, dropout=0.0)


def made(*, cross: bool, place: NormPlace = "post", branched: bool = False) -> Block:
    torch.manual_seed(1)
    branches = BranchedHeads(d_model=D, d_value=V, feed_forwards=[feed_forward(6) for _ in range(H)])
    output = branches if branched else None
    block = Block(
        attention=attention(None if cross else output),
        cross_attention=attention(output) if cross else None,
        feed_forward=None if branched else feed_forward(F),
        residual=lambda: build_residual(place, lambda: build_norm("layernorm", D), dropout=0.0),
    )
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.normal_(std=0.3)
    return block


def line(block: Block, name: str, x: Tensor, added: Tensor) -> Tensor:
    """Post-norm, written out for one sublayer."""
    return block.get_submodule(f"{name}_residual.norm")(x + added)


@pytest.mark.parametrize("branched", [False, True])
def test_an_encoders_block_is_its_lines(branched: bool) -> None:
    block = made(cross=False, branched=branched)
    x, mask = torch.randn(B, S, D), padding_mask(LENGTHS, S)
    actual, cache = block(x, mask=mask)
    expected = line(block, "attention", x, block.attention(x, mask=mask)[0])
    if branched:
        assert block.feed_forward is None
        assert block.feed_forward_residual is None
    else:
        expected = line(block, "feed_forward", expected, block.get_submodule("feed_forward")(expected))
    close(actual, expected)
    assert cache.memory is None
    assert block.cross_attention_residual is None


@pytest.mark.parametrize("branched", [False, True])
def test_a_decoders_block_is_its_lines(branched: bool) -> None:
    block = made(cross=True, branched=branched)
    assert block.cross_attention is not None
    x, memory, mask = torch.randn(B, T, D), torch.randn(B, S, D), padding_mask(LENGTHS, S)
    keys_values = block.cross_attention.keys_values(memory)
    actual, cache = block(x, mask=causal_mask(T), memory_mask=mask, cache=LayerCache(None, keys_values))
    expected = line(block, "attention", x, block.attention(x, mask=causal_mask(T))[0])
    crossed, _ = block.cross_attention(expected, mask=mask, memory=keys_values)
    expected = line(block, "cross_attention", expected, crossed)
    if not branched:
        expected = line(block, "feed_forward", expected, block.get_submodule("feed_forward")(expected))
    close(actual, expected)
    assert cache.memory is keys_values
    assert cache.past is not None
    assert cache.past.keys_NHTK.shape == (B, H, T, K)


@pytest.mark.parametrize("place", ["post", "pre", "sandwich"])
def test_a_block_goes_on_from_its_cache(place: NormPlace) -> None:
    block = made(cross=True, place=place)
    assert block.cross_attention is not None
    x, mask = torch.randn(B, T, D), padding_mask(LENGTHS, S)
    start = LayerCache(None, block.cross_attention.keys_values(torch.randn(B, S, D)))
    whole, _ = block(x, mask=causal_mask(T), memory_mask=mask, cache=start)
    first, cache = block(x[:, :2], mask=causal_mask(2), memory_mask=mask, cache=start)
    rest, _ = block(x[:, 2:], mask=causal_mask(3, offset=2), memory_mask=mask, cache=cache)
    close(torch.cat((first, rest), dim=1), whole)
