"""Attention: its mathematics as pure functions, and the module that projects into and out of it.

Suffixes: B batch, H heads, T queries, S keys, K head size (d_key for queries and keys, d_value for values), D d_model,
G heads of keys and values, of which each serves H / G heads of queries. A mask is True where a query may attend; mask
and bias broadcast to [B, H, T, S].
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

from attendo import native
from attendo.native import kernels
from attendo.nn.cache import KeysValues
from attendo.nn.dropout import Dropout
from attendo.nn.linear import Linear, joint_products
from attendo.nn.positions import AttentionPositions


def dot_product_scores(queries_BHTK: Tensor, keys_BGSK: Tensor, *, scale: float) -> Tensor:
    """scale * Q Kᵀ: [B, H, T, S]."""
    return queries_BHTK @ for_each_query_head(keys_BGSK, queries_BHTK).transpose(-1, -2) * scale


def additive_scores(queries_BHTK: Tensor, keys_BGSK: Tensor, direction_HK: Tensor) -> Tensor:
    """v · tanh(q + k), with a vector v for each head: [B, H, T, S]."""
    keys_BHSK = for_each_query_head(keys_BGSK, queries_BHTK)
    summed_BHTSK = (queries_BHTK[:, :, :, None] + keys_BHSK[:, :, None]).tanh()
    return (summed_BHTSK @ direction_HK[:, None, :, None]).squeeze(-1)


def attention_weights(scores_BHTS: Tensor, *, mask: Tensor | None, bias: Tensor | None = None) -> Tensor:
    """softmax(scores + bias), 0 where the mask forbids; each row sums to one."""
    if bias is not None:
        scores_BHTS = scores_BHTS + bias
    if mask is not None:
        scores_BHTS = scores_BHTS.masked_fill(~mask, -math.inf)
    return scores_BHTS.softmax(-1)


def weighted_values(weights_BHTS: Tensor, values_BGSK: Tensor) -> Tensor:
    """weights V: [B, H, T, K]."""
    return weights_BHTS @ for_each_query_head(values_BGSK, weights_BHTS)


def explicit_attention(
    queries_BHTK: Tensor,
    keys_BGSK: Tensor,
    values_BGSK: Tensor,
    *,
    scale: float,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """softmax(scale * Q Kᵀ + bias) V, written out: the twin of `fused_attention`, for inspection and tests."""
    scores_BHTS = dot_product_scores(queries_BHTK, keys_BGSK, scale=scale)
    return weighted_values(attention_weights(scores_BHTS, mask=mask, bias=bias), values_BGSK)


def fused_attention(
    queries_BHTK: Tensor,
    keys_BGSK: Tensor,
    values_BGSK: Tensor,
    *,
    scale: float,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """softmax(scale * Q Kᵀ + bias) V by a fused kernel, which never holds all weights: [B, H, T, K]."""
    given = (queries_BHTK, keys_BGSK, values_BGSK)
    if bias is None and kernels.serves(*given) and fit(given, mask):
        return _NativeAttention.apply(*given, mask, scale)
    if bias is not None:  # the kernel takes one of the two
        mask = bias if mask is None else torch.where(mask, bias, -math.inf)
    grouped = keys_BGSK.shape[1] != queries_BHTK.shape[1]
    return F.scaled_dot_product_attention(
        queries_BHTK, keys_BGSK, values_BGSK, attn_mask=mask, scale=scale, enable_gqa=grouped
    )


class _NativeAttention(torch.autograd.Function):
    """What torch's fused kernel computes, for training on one thread, where it is faster on short sentences."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        queries_BHTK: Tensor,
        keys_BGSK: Tensor,
        values_BGSK: Tensor,
        mask: Tensor | None,
        scale: float,
    ) -> Tensor:
        ctx.save_for_backward(queries_BHTK, keys_BGSK, values_BGSK)
        ctx.rest = mask, scale  # type: ignore[attr-defined]
        return kernels.attend(queries_BHTK, keys_BGSK, values_BGSK, mask, scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient_BHTK: Tensor) -> tuple[Tensor | None, ...]:
        if gradient_BHTK.stride(3) != 1:
            gradient_BHTK = gradient_BHTK.contiguous()
        return *kernels.attend_backward(gradient_BHTK, *ctx.saved_tensors, *ctx.rest), None, None  # type: ignore[attr-defined]


def fit(given: Sequence[Tensor], mask: Tensor | None) -> bool:
    """Whether the compiled kernel knows these sizes."""
    sizes = all(x.stride(3) == 1 and x.shape[3] % native.lanes() == 0 for x in given)
    return sizes and (mask is None or mask.dtype == torch.bool)


def for_each_query_head(x_BGSK: Tensor, like_BHTX: Tensor) -> Tensor:
    """Keys or values, repeated so that each head of queries has its own: [B, H, S, K]."""
    return x_BGSK.repeat_interleave(like_BHTX.shape[1] // x_BGSK.shape[1], dim=1)


class Scoring(nn.Module):
    """How well queries and keys fit: called with both, gives the scores [B, H, T, S]."""

    fused = False  # True: the scores are scale * Q Kᵀ, which the fused kernel computes by itself
    scale = 1.0


class DotProduct(Scoring):
    """score(q, k) = scale * q · k. The paper's scale is 1 / √d_key, which keeps the variance of the scores at one."""

    fused = True

    def __init__(self, *, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, queries_BHTK: Tensor, keys_BGSK: Tensor) -> Tensor:
        return dot_product_scores(queries_BHTK, keys_BGSK, scale=self.scale)


class Additive(Scoring):
    """score(q, k) = v · tanh(q + k), one hidden layer (Bahdanau et al. 2015). `direction` is v: [n_heads, d_key].

    Holds a vector for each query and key while it is computed, and no fused kernel knows it.
    """

    def __init__(self, *, n_heads: int, d_key: int) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.empty(n_heads, d_key))

    def forward(self, queries_BHTK: Tensor, keys_BGSK: Tensor) -> Tensor:
        return additive_scores(queries_BHTK, keys_BGSK, self.direction)


class JoinedHeads(Linear):
    """Concat(head_1, …, head_h) W_O + b, with W_O: [d_model, n_heads * d_value]; b may be left out."""

    def __init__(self, *, d_model: int, n_heads: int, d_value: int, bias: bool = True) -> None:
        super().__init__(n_heads * d_value, d_model, bias=bias)

    def forward(self, heads_BHTK: Tensor) -> Tensor:
        return super().forward(heads_BHTK.transpose(1, 2).flatten(2))


class BranchedHeads(nn.Module):
    """Σ_i α_i FFN_i(κ_i head_i W_Oⁱ): each head is a branch with its own feed-forward network (Ahmed et al. 2017).

    κ and α are positive and each sum to one: they are the softmax of `kappa` and `alpha`, which are learned. It takes
    the place of W_O and of the feed-forward sublayer after it, whose d_ff the branches divide among them.
    """

    def __init__(self, *, d_model: int, d_value: int, feed_forwards: list[nn.Module]) -> None:
        super().__init__()
        self.outputs = nn.ModuleList(Linear(d_value, d_model) for _ in feed_forwards)
        self.feed_forwards = nn.ModuleList(feed_forwards)
        self.kappa = nn.Parameter(torch.empty(len(feed_forwards)))
        self.alpha = nn.Parameter(torch.empty(len(feed_forwards)))

    def forward(self, heads_BHTK: Tensor) -> Tensor:
        branches = zip(
            self.kappa.softmax(0),
            self.alpha.softmax(0),
            heads_BHTK.unbind(1),
            self.outputs,
            self.feed_forwards,
            strict=True,
        )
        parts = [alpha * feed_forward(kappa * output(head)) for kappa, alpha, head, output, feed_forward in branches]
        return torch.stack(parts).sum(0)


class BareAttention(nn.Module):
    """softmax(scale * Q Kᵀ) V of queries, keys and values as they are given: [B, H, T, K]. Nothing in it is learned."""

    def __init__(self, *, scale: float) -> None:
        super().__init__()
        self.scoring = DotProduct(scale=scale)
        self.weight_dropout = Dropout(0.0)

    def forward(self, queries_BHTK: Tensor, attended: KeysValues, mask: Tensor | None) -> Tensor:
        keys_BGSK, values_BGSK = attended.keys_NHTK, attended.values_NHTK
        if self.scoring.fused:
            return fused_attention(queries_BHTK, keys_BGSK, values_BGSK, scale=self.scoring.scale, mask=mask)
        weights_BHTS = attention_weights(self.scoring(queries_BHTK, keys_BGSK), mask=mask)
        return weighted_values(self.weight_dropout(weights_BHTS), values_BGSK)


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, …, head_h) W_O, head_i = Attention(Q W_Qⁱ, K W_Kⁱ, V W_Vⁱ).

    W_Q: [n_heads * d_key, d_model]; W_K: [n_key_heads * d_key, d_model]; W_V: [n_key_heads * d_value, d_model]; each
    with a bias, or all without. The parts that can be exchanged; without them it is the paper's:

    scoring: how well a query and a key fit, `DotProduct` or `Additive`.
    output: what becomes of the heads, `JoinedHeads` (W_O) or `BranchedHeads`.
    positions: what attention itself knows of positions, nothing in the paper.
    n_key_heads: fewer than n_heads: that many heads of keys and values serve all (Shazeer 2019, Ainslie et al. 2023).
    value_rank: W_V as the product of two matrices [n_key_heads * d_value, rank] and [rank, d_model].
    share_query_key: W_K is W_Q.

    The fused kernel is used unless a part has no fused form or needs the weights themselves, as dropout on them does
    while training.
    """

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        d_key: int,
        d_value: int,
        scoring: Scoring | None = None,
        output: nn.Module | None = None,
        positions: AttentionPositions | None = None,
        n_key_heads: int | None = None,
        value_rank: int | None = None,
        share_query_key: bool = False,
        bias: bool = True,
        weight_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        n_key_heads = n_key_heads or n_heads
        self.d_key = d_key
        self.d_value = d_value
        self.query = Linear(d_model, n_heads * d_key, bias=bias)
        self.key = self.query if share_query_key else Linear(d_model, n_key_heads * d_key, bias=bias)
        self.value = _value_projection(d_model, n_key_heads * d_value, value_rank, bias=bias)
        self.output = output or JoinedHeads(d_model=d_model, n_heads=n_heads, d_value=d_value, bias=bias)
        self.weight_dropout = Dropout(weight_dropout)
        self.scoring = scoring or DotProduct(scale=1 / math.sqrt(d_key))
        self.positions = positions or AttentionPositions()

    def forward(
        self, x_BTD: Tensor, *, mask: Tensor | None, memory: KeysValues | None = None, past: KeysValues | None = None
    ) -> tuple[Tensor, KeysValues]:
        """Attends from x to `memory` where that is given, else to `past` (what came before x) and x itself.

        Returns the output [B, T, D] and the keys and values that were attended to.
        """
        offset = 0 if past is None else past.keys_NHTK.shape[2]
        if memory is None:
            queries_BHTK, attended = self._projected(x_BTD, offset)
        else:
            queries_BHTK, attended = self.queries(x_BTD, offset=offset), memory
        if past is not None:
            attended = past.append(attended)
        needs_weights = self.positions.needs_weights or (self.training and self.weight_dropout.threshold > 0)
        if self.scoring.fused and not needs_weights:
            heads_BHTK = self._fused(queries_BHTK, attended, mask, offset)
        else:
            heads_BHTK = self._explicit(queries_BHTK, attended, mask, offset)
        return self.output(heads_BHTK), attended

    def queries(self, x_BTD: Tensor, *, offset: int = 0) -> Tensor:
        """x W_Q, split into heads: [B, H, T, K]; `offset` is the position of x's first column."""
        return self._turned(self.query(x_BTD), offset)

    def keys_values(self, x_BSD: Tensor, *, offset: int = 0) -> KeysValues:
        """x W_K and x W_V, split into heads."""
        return self._split(self.key(x_BSD), self.value(x_BSD), offset)

    def weights(self, x_BTD: Tensor, *, mask: Tensor | None, memory: KeysValues | None = None) -> Tensor:
        """The attention weights alone, [B, H, T, S], from the explicit equation; without memory, of x to itself."""
        attended = memory or self.keys_values(x_BTD)
        return self._weights(self.queries(x_BTD), attended, mask, 0)

    def _projected(self, x_BTD: Tensor, offset: int) -> tuple[Tensor, KeysValues]:
        """x W_Q, and x W_K and x W_V."""
        if not (torch.is_grad_enabled() and isinstance(self.value, nn.Linear)):
            return self.queries(x_BTD, offset=offset), self.keys_values(x_BTD, offset=offset)
        if self.key is self.query:
            queries, values = joint_products(x_BTD, (self.query, self.value))
            keys = queries
        else:
            queries, keys, values = joint_products(x_BTD, (self.query, self.key, self.value))
        return self._turned(queries, offset), self._split(keys, values, offset)

    def _turned(self, x_BTX: Tensor, offset: int) -> Tensor:
        return self.positions.turned(_heads(x_BTX, self.d_key), offset=offset)

    def _split(self, keys_BSX: Tensor, values_BSX: Tensor, offset: int) -> KeysValues:
        return KeysValues(self._turned(keys_BSX, offset), _heads(values_BSX, self.d_value))

    def _fused(self, queries_BHTK: Tensor, attended: KeysValues, mask: Tensor | None, offset: int) -> Tensor:
        keys_BGSK, values_BGSK = attended.keys_NHTK, attended.values_NHTK
        scale, bias = self.scoring.scale, self._bias(queries_BHTK, keys_BGSK, offset)
        return fused_attention(queries_BHTK, keys_BGSK, values_BGSK, scale=scale, mask=mask, bias=bias)

    def _explicit(self, queries_BHTK: Tensor, attended: KeysValues, mask: Tensor | None, offset: int) -> Tensor:
        weights_BHTS = self.weight_dropout(self._weights(queries_BHTK, attended, mask, offset))
        heads_BHTK = weighted_values(weights_BHTS, attended.values_NHTK)
        more_BHTK = self.positions.gathered(weights_BHTS, offset=offset)
        return heads_BHTK if more_BHTK is None else heads_BHTK + more_BHTK

    def _weights(self, queries_BHTK: Tensor, attended: KeysValues, mask: Tensor | None, offset: int) -> Tensor:
        keys_BGSK = attended.keys_NHTK
        bias = self._bias(queries_BHTK, keys_BGSK, offset)
        return attention_weights(self.scoring(queries_BHTK, keys_BGSK), mask=mask, bias=bias)

    def _bias(self, queries_BHTK: Tensor, keys_BGSK: Tensor, offset: int) -> Tensor | None:
        return self.positions.bias(queries_BHTK, scale=self.scoring.scale, offset=offset, n_keys=keys_BGSK.shape[2])


def joint_keys_values(x_BSD: Tensor, attentions: Sequence[MultiHeadAttention], *, apart: bool) -> list[KeysValues]:
    """keys_values(x) of each, while gradients are computed from one product, unless they are to be kept `apart`."""
    parts = [part for attention in attentions for part in (attention.key, attention.value)]
    linears = [part for part in parts if isinstance(part, nn.Linear)]
    if apart or not torch.is_grad_enabled() or len(linears) < len(parts):
        return [attention.keys_values(x_BSD) for attention in attentions]
    made = joint_products(x_BSD, linears)
    return [attention._split(made[2 * i], made[2 * i + 1], 0) for i, attention in enumerate(attentions)]


def _value_projection(d_model: int, size: int, rank: int | None, *, bias: bool) -> nn.Module:
    if rank is None:
        return Linear(d_model, size, bias=bias)
    return nn.Sequential(Linear(d_model, rank, bias=False), Linear(rank, size, bias=bias))


def _heads(x_BTX: Tensor, size: int) -> Tensor:
    """Split into heads of that size: [B, H, T, K]."""
    return x_BTX.unflatten(-1, (-1, size)).transpose(1, 2)
