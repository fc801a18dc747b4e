"""One layer of the encoder and one of the decoder: a few residual lines each.

Suffixes: B batch, S source length, T target length, D d_model.
"""

from collections.abc import Callable

from torch import Tensor, nn

from attendo.nn.attention import MultiHeadAttention
from attendo.nn.cache import KeysValues, LayerCache
from attendo.nn.norm import Residual


class EncoderBlock(nn.Module):
    """x -> x + SelfAttention(x) -> x + FeedForward(x), each line normalised by its `Residual`."""

    def __init__(
        self, *, attention: MultiHeadAttention, feed_forward: nn.Module, residual: Callable[[], Residual]
    ) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.attention_residual = residual()
        self.feed_forward_residual = residual()

    def forward(self, x_BSD: Tensor, *, mask: Tensor | None) -> Tensor:
        x_BSD = self.attention_residual(x_BSD, lambda x: self.attention(x, mask=mask)[0])
        return self.feed_forward_residual(x_BSD, self.feed_forward)


class DecoderBlock(nn.Module):
    """x -> x + SelfAttention(x) -> x + CrossAttention(x, memory) -> x + FeedForward(x)."""

    def __init__(
        self,
        *,
        attention: MultiHeadAttention,
        cross_attention: MultiHeadAttention,
        feed_forward: nn.Module,
        residual: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.attention = attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.attention_residual = residual()
        self.cross_attention_residual = residual()
        self.feed_forward_residual = residual()

    def forward(
        self, x_BTD: Tensor, *, mask: Tensor | None, memory_mask: Tensor, cache: LayerCache
    ) -> tuple[Tensor, LayerCache]:
        past: KeysValues | None = None

        def self_attention(x_BTD: Tensor) -> Tensor:
            nonlocal past
            output_BTD, past = self.attention(x_BTD, mask=mask, past=cache.past)
            return output_BTD

        def cross_attention(x_BTD: Tensor) -> Tensor:
            return self.cross_attention(x_BTD, mask=memory_mask, memory=cache.memory)[0]

        x_BTD = self.attention_residual(x_BTD, self_attention)
        x_BTD = self.cross_attention_residual(x_BTD, cross_attention)
        x_BTD = self.feed_forward_residual(x_BTD, self.feed_forward)
        return x_BTD, LayerCache(past, cache.memory)
