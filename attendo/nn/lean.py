"""A decoder's block at one new position of each row, as plain functions of weights that stay as they are.

With a small model, calling modules takes longer than what they compute. What is made here from a block computes what
the block does at rest: the same numbers from fewer calls, and one product for queries, keys and values. A part of
another kind than those that are known here is called as it is.

Suffixes: N rows (prefixes), B sentences, D d_model, H heads, K head size, W prefixes of a sentence.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attendo.native import kernels
from attendo.nn.attention import JoinedHeads, MultiHeadAttention, fit, fused_attention
from attendo.nn.block import Block
from attendo.nn.cache import KeysValues, LayerCache
from attendo.nn.embedding import OutputProjection, aligned_rows
from attendo.nn.feed_forward import FeedForward
from attendo.nn.linear import joint_bias
from attendo.nn.norm import LayerNorm, PostNorm, PreNorm
from attendo.nn.positions import AttentionPositions

LARGEST_PACKED = 1 << 22  # numbers

Function = Callable[[Tensor], Tensor]
Residual = Callable[[Tensor, Function], Tensor]
Mask = Tensor | None
SelfAttention = Callable[[Tensor, KeysValues | None, Mask], tuple[Tensor, KeysValues]]
CrossAttention = Callable[[Tensor, KeysValues, Mask], Tensor]
LeanBlock = Callable[[Tensor, LayerCache, Mask, Mask], tuple[Tensor, LayerCache]]


def lean_block(block: Block) -> LeanBlock:
    """(x_ND, the layer's cache, the mask of its past, the memory's mask) -> (x_ND, the longer cache)."""
    attention, attention_residual = lean_self_attention(block.attention), lean_residual(block.attention_residual)
    to_memory = None
    if block.cross_attention is not None and block.cross_attention_residual is not None:
        to_memory = lean_cross_attention(block.cross_attention), lean_residual(block.cross_attention_residual)
    feed_forward = None if block.feed_forward is None else lean_feed_forward(block.feed_forward)
    feed_forward_residual = None if block.feed_forward_residual is None else lean_residual(block.feed_forward_residual)

    def step(x_ND: Tensor, cache: LayerCache, mask: Mask, memory_mask: Mask) -> tuple[Tensor, LayerCache]:
        past, memory = cache.past, cache.memory

        def to_the_past(x_ND: Tensor) -> Tensor:
            nonlocal past
            output_ND, past = attention(x_ND, past, mask)
            return output_ND

        x_ND = attention_residual(x_ND, to_the_past)
        if memory is not None and to_memory is not None:
            cross_attention, residual = to_memory
            x_ND = residual(x_ND, lambda x_ND: cross_attention(x_ND, memory, memory_mask))
        if feed_forward is not None and feed_forward_residual is not None:
            x_ND = feed_forward_residual(x_ND, feed_forward)
        return x_ND, LayerCache(past, memory)

    return step


def lean_self_attention(attention: MultiHeadAttention) -> SelfAttention:
    """(x_ND, what came before, its mask) -> (output_ND, what came before and x)."""
    query, key, value, output = attention.query, attention.key, attention.value, attention.output
    if not (_is_plain(attention) and isinstance(value, nn.Linear) and isinstance(output, JoinedHeads)):

        def ordinary(x_ND: Tensor, past: KeysValues | None, mask: Mask) -> tuple[Tensor, KeysValues]:
            output_N1D, past = attention(x_ND.unsqueeze(1), mask=mask, past=past)
            return output_N1D.squeeze(1), past

        return ordinary
    projected = lean_linear(torch.cat((query.weight, key.weight, value.weight)), joint_bias((query, key, value)))
    sizes = [query.out_features, key.out_features, value.out_features]
    d_key, d_value, scale = attention.d_key, attention.d_value, attention.scoring.scale
    joined = lean_linear(output.weight, output.bias)

    def attend(x_ND: Tensor, past: KeysValues | None, mask: Mask) -> tuple[Tensor, KeysValues]:
        N = x_ND.shape[0]
        queries, keys, values = projected(x_ND).split(sizes, dim=1)
        attended = KeysValues(keys.view(N, -1, 1, d_key), values.view(N, -1, 1, d_value))
        if past is not None:
            attended = past.append(attended)
        heads_NH1K = lean_attention(queries.view(N, -1, 1, d_key), attended, mask, scale)
        return joined(heads_NH1K.reshape(N, -1)), attended

    return attend


def lean_cross_attention(attention: MultiHeadAttention) -> CrossAttention:
    """(x_ND, the memory, which each sentence's prefixes share, its mask) -> output_ND."""
    output = attention.output
    if not (_is_plain(attention) and isinstance(output, JoinedHeads)):

        def ordinary(x_ND: Tensor, memory: KeysValues, mask: Mask) -> Tensor:
            x_BWD = x_ND.view(memory.keys_NHTK.shape[0], -1, x_ND.shape[1])
            output_BWD: Tensor = attention(x_BWD, mask=mask, memory=memory)[0]
            return output_BWD.reshape(x_ND.shape)

        return ordinary
    query, joined = lean_linear(attention.query.weight, attention.query.bias), lean_linear(output.weight, output.bias)
    d_key, n_heads, scale = attention.d_key, attention.query.out_features // attention.d_key, attention.scoring.scale

    def attend(x_ND: Tensor, memory: KeysValues, mask: Mask) -> Tensor:
        queries_BWHK = query(x_ND).view(memory.keys_NHTK.shape[0], -1, n_heads, d_key)
        heads_BHWK = lean_attention(queries_BWHK.transpose(1, 2), memory, mask, scale)
        return joined(heads_BHWK.transpose(1, 2).reshape(x_ND.shape[0], -1))

    return attend


def lean_feed_forward(feed_forward: nn.Module) -> Function:
    if type(feed_forward) is not FeedForward:
        return feed_forward
    inner, outer = (lean_linear(one.weight, one.bias) for one in (feed_forward.inner, feed_forward.outer))
    activation = feed_forward.activation
    return lambda x: outer(activation(inner(x)))


def lean_attention(queries_BHTK: Tensor, attended: KeysValues, mask: Mask, scale: float) -> Tensor:
    """softmax(scale * Q Kᵀ) V for a few queries: [B, H, T, K]."""
    given = queries_BHTK, attended.keys_NHTK, attended.values_NHTK
    if kernels.decodes(*given) and fit(given, mask):
        return kernels.attend_few(*given, mask, scale)
    return fused_attention(*given, scale=scale, mask=mask)


def lean_linear(weight: Tensor, bias: Tensor | None) -> Function:
    """x Wᵀ + b. A large W is left to torch, which may have several threads for it."""
    if kernels.decodes(weight) and weight.numel() <= LARGEST_PACKED:
        return kernels.PackedLinear(weight, bias)
    return lambda x: F.linear(x, weight, bias)


def lean_output(output: OutputProjection) -> Function:
    """Logits [N, V] in aligned rows."""
    linear = lean_linear(output.weight, output.bias)
    if not isinstance(linear, kernels.PackedLinear):
        return output.aligned
    return lambda x_ND: linear.into(aligned_rows(len(x_ND), len(output.weight), x_ND), x_ND)


def lean_residual(residual: nn.Module) -> Residual:
    if type(residual) is PreNorm:
        norm = lean_norm(residual.norm)
        return lambda x, sublayer: x + sublayer(norm(x))
    if type(residual) is PostNorm:
        norm = lean_norm(residual.norm)
        return lambda x, sublayer: norm(x + sublayer(x))
    return residual


def lean_norm(norm: nn.Module) -> Function:
    if type(norm) is not LayerNorm:
        return norm
    shape, weight, bias, eps = norm.normalized_shape, norm.weight, norm.bias, norm.eps
    return lambda x: torch.layer_norm(x, shape, weight, bias, eps)


def _is_plain(attention: MultiHeadAttention) -> bool:
    """Whether it is the fused kernel's attention, with nothing of positions in it."""
    return attention.scoring.fused and type(attention.positions) is AttentionPositions
