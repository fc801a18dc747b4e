"""Attention: its mathematics as pure functions, and the module that projects into and out of it.

Suffixes: B batch, H heads, T queries, S keys, K head size (d_key for queries and keys, d_value for values), D d_model.
A mask is True where a query may attend; it broadcasts to [B, H, T, S].
"""

import math
from typing import Protocol

import torch.nn.functional as F
from torch import Tensor, nn

from attendo.nn.cache import KeysValues
from attendo.nn.dropout import Dropout


def attention_scores(queries_BHTK: Tensor, keys_BHSK: Tensor, mask: Tensor | None) -> Tensor:
    """Q Kᵀ / √d_key, with -inf where the mask forbids: [B, H, T, S]."""
    scores_BHTS = queries_BHTK @ keys_BHSK.transpose(-1, -2) / math.sqrt(queries_BHTK.shape[-1])
    return scores_BHTS if mask is None else scores_BHTS.masked_fill(~mask, -math.inf)


def attention_weights(queries_BHTK: Tensor, keys_BHSK: Tensor, mask: Tensor | None) -> Tensor:
    """softmax(Q Kᵀ / √d_key): each row sums to one, [B, H, T, S]."""
    return attention_scores(queries_BHTK, keys_BHSK, mask).softmax(-1)


def explicit_attention(queries_BHTK: Tensor, keys_BHSK: Tensor, values_BHSK: Tensor, mask: Tensor | None) -> Tensor:
    """softmax(Q Kᵀ / √d_key) V, written out: the twin of `fused_attention`, for inspection and tests."""
    return attention_weights(queries_BHTK, keys_BHSK, mask) @ values_BHSK


def fused_attention(queries_BHTK: Tensor, keys_BHSK: Tensor, values_BHSK: Tensor, mask: Tensor | None) -> Tensor:
    """softmax(Q Kᵀ / √d_key) V by torch's fused kernel, which never holds the weights: [B, H, T, K]."""
    return F.scaled_dot_product_attention(queries_BHTK, keys_BHSK, values_BHSK, attn_mask=mask)


class Rotation(Protocol):
    """A position part that turns queries and keys by an angle that grows with their position."""

    def __call__(self, x_BHTK: Tensor, *, offset: int) -> Tensor: ...


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, …, head_h) W_O, head_i = Attention(Q W_Qⁱ, K W_Kⁱ, V W_Vⁱ).

    W_Q, W_K: [n_heads * d_key, d_model]; W_V: [n_heads * d_value, d_model]; W_O: [d_model, n_heads * d_value]; each
    with a bias. `rotation`, where given, is applied to queries and keys. With dropout on the weights the explicit
    equation is used while training, since the fused kernel draws its random numbers one float per weight.
    """

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        d_key: int,
        d_value: int,
        weight_dropout: float = 0.0,
        rotation: Rotation | None = None,
    ) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.query = nn.Linear(d_model, n_heads * d_key)
        self.key = nn.Linear(d_model, n_heads * d_key)
        self.value = nn.Linear(d_model, n_heads * d_value)
        self.output = nn.Linear(n_heads * d_value, d_model)
        self.weight_dropout = Dropout(weight_dropout)
        self.rotation = rotation

    def forward(
        self, x_BTD: Tensor, *, mask: Tensor | None, memory: KeysValues | None = None, past: KeysValues | None = None
    ) -> tuple[Tensor, KeysValues]:
        """Attends from x to `memory` where that is given, else to `past` (what came before x) and x itself.

        Returns the output [B, T, D] and the keys and values that were attended to.
        """
        offset = 0 if past is None else past.keys_NHTK.shape[2]
        queries_BHTK = self.queries(x_BTD, offset=offset)
        attended = memory or self.keys_values(x_BTD, offset=offset)
        if past is not None:
            attended = past.append(attended)
        keys_BHSK, values_BHSK = attended.keys_NHTK, attended.values_NHTK
        if self.training and self.weight_dropout.threshold:
            weights_BHTS = self.weight_dropout(attention_weights(queries_BHTK, keys_BHSK, mask))
            heads_BHTK = weights_BHTS @ values_BHSK
        else:
            heads_BHTK = fused_attention(queries_BHTK, keys_BHSK, values_BHSK, mask)
        return self.output(heads_BHTK.transpose(1, 2).flatten(2)), attended

    def queries(self, x_BTD: Tensor, *, offset: int = 0) -> Tensor:
        """x W_Q, split into heads: [B, H, T, K]; `offset` is the position of x's first column."""
        return self._rotated(self._heads(self.query(x_BTD)), offset)

    def keys_values(self, x_BSD: Tensor, *, offset: int = 0) -> KeysValues:
        """x W_K and x W_V, split into heads."""
        return KeysValues(self._rotated(self._heads(self.key(x_BSD)), offset), self._heads(self.value(x_BSD)))

    def weights(self, x_BTD: Tensor, *, mask: Tensor | None, memory: KeysValues) -> Tensor:
        """The attention weights alone, [B, H, T, S], from the explicit equation."""
        return attention_weights(self.queries(x_BTD), memory.keys_NHTK, mask)

    def _heads(self, x_BTX: Tensor) -> Tensor:
        return x_BTX.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def _rotated(self, x_BHTK: Tensor, offset: int) -> Tensor:
        return x_BHTK if self.rotation is None else self.rotation(x_BHTK, offset=offset)
