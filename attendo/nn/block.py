"""One layer of an encoder or a decoder: a few residual lines.

Suffixes: B batch, T positions, D d_model.
"""

from collections.abc import Callable

from torch import Tensor, nn

from attendo.nn.attention import MultiHeadAttention
from attendo.nn.cache import KeysValues, LayerCache


class Block(nn.Module):
    """x -> x + SelfAttention(x) -> x + CrossAttention(x, memory) -> x + FeedForward(x), each line with its norm.

    Without `cross_attention` it is an encoder's block; without `feed_forward` the attention before has it inside.
    Whether it sees the future is a matter of the mask.
    """

    def __init__(
        self,
        *,
        attention: MultiHeadAttention,
        cross_attention: MultiHeadAttention | None = None,
        feed_forward: nn.Module | None = None,
        residual: Callable[[], nn.Module],
    ) -> None:
        super().__init__()
        self.attention = attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.attention_residual = residual()
        self.cross_attention_residual = None if cross_attention is None else residual()
        self.feed_forward_residual = None if feed_forward is None else residual()

    def forward(
        self,
        x_BTD: Tensor,
        *,
        mask: Tensor | None,
        memory_mask: Tensor | None = None,
        cache: LayerCache | None = None,
        real: Tensor | None = None,
    ) -> tuple[Tensor, LayerCache]:
        """`cache` is what came before x, and the memory; `real` is True where x holds a token, [B, T]; None: all do."""
        cache = cache or LayerCache()
        past: KeysValues | None = None

        def self_attention(x_BTD: Tensor) -> Tensor:
            nonlocal past
            output_BTD, past = self.attention(x_BTD, mask=mask, past=cache.past)
            return output_BTD

        def cross_attention(x_BTD: Tensor) -> Tensor:
            queries = x_BTD if cache.memory is None else cache.memory.aligned(x_BTD)
            output = self.cross_attention(queries, mask=memory_mask, memory=cache.memory)[0]  # type: ignore[misc]
            return output.view_as(x_BTD)

        x_BTD = self.attention_residual(x_BTD, self_attention, real=real)
        if self.cross_attention_residual is not None:
            x_BTD = self.cross_attention_residual(x_BTD, cross_attention, real=real)
        if self.feed_forward_residual is not None:
            x_BTD = self.feed_forward_residual(x_BTD, self.feed_forward, real=real)
        return x_BTD, LayerCache(past, cache.memory)
