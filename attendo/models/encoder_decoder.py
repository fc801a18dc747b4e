"""What every model has that turns one text into another: an encoder, a decoder with a cache, and an output.

Suffixes: B batch, S source length, T target length, D d_model, V target vocabulary, N rows (sentences x beam).
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from attendo.models.settings import TranslationConfig
from attendo.nn.cache import DecoderCache
from attendo.nn.embedding import Embedding, OutputProjection
from attendo.nn.masks import padding_mask

Step = Callable[[Tensor, DecoderCache], tuple[Tensor, DecoderCache]]


class CachedDecoder(nn.Module):
    """A decoder that reads a target piece by piece, or as a whole, with the same result."""

    def start(self, memory_BSD: Tensor, memory_mask: Tensor) -> DecoderCache:
        """The cache before the first position; the mask is True at the memory's real positions, [B, 1, 1, S]."""
        raise NotImplementedError

    def forward(
        self, target_BT: Tensor, cache: DecoderCache, real: Tensor | None = None
    ) -> tuple[Tensor, DecoderCache]:
        """The ids that come after what the cache has seen -> their vectors [B, T, D], and the longer cache."""
        raise NotImplementedError


class EncoderDecoder(nn.Module):
    """p(target | source) = Π_t softmax(W decoder(target_<t, encoder(source)))_{target_t}.

    The encoder is called with ids [B, S] and the mask of the real ones [B, 1, 1, S], and gives the memory [B, S, D].
    """

    def __init__(
        self, config: TranslationConfig, encoder: nn.Module, decoder: CachedDecoder, output: OutputProjection
    ) -> None:
        super().__init__()
        self.config = config
        self.encoder = encoder
        self.decoder = decoder
        self.output = output

    def tables(self) -> tuple[nn.Parameter, nn.Parameter, nn.Parameter]:
        """The matrices [vocab_size, d_model] of source, target and output; tied ones are one."""
        source, target = self.encoder.embedding, self.decoder.embedding
        assert isinstance(source, Embedding)
        assert isinstance(target, Embedding)
        return source.weight, target.weight, self.output.weight

    def encode(self, source_BS: Tensor, source_lengths_B: Tensor) -> DecoderCache:
        """Reads the source once; returns where decoding starts from."""
        seen_B = source_lengths_B if self.config.read_end else source_lengths_B - 1
        mask = padding_mask(seen_B, source_BS.shape[1])
        return self.decoder.start(self.encoder(source_BS, mask), mask)

    def hidden(
        self, source_BS: Tensor, source_lengths_B: Tensor, target_BT: Tensor, target_lengths_B: Tensor | None = None
    ) -> Tensor:
        """The decoder's vectors [B, T, D] for whole targets that begin with BOS: training, and scoring.

        The targets' lengths are needed in training only, by norms over the batch; without them all positions are real.
        """
        real_BT = None if target_lengths_B is None else padding_mask(target_lengths_B, target_BT.shape[1])[:, 0, 0]
        vectors_BTD, _ = self.decoder(target_BT, self.encode(source_BS, source_lengths_B), real_BT)
        return vectors_BTD

    def forward(self, source_BS: Tensor, source_lengths_B: Tensor, target_BT: Tensor) -> Tensor:
        """Logits of the id after each target position, [B, T, V]."""
        return self.output(self.hidden(source_BS, source_lengths_B, target_BT))

    def step(self, ids_N: Tensor, cache: DecoderCache) -> tuple[Tensor, DecoderCache]:
        """One more id for each row -> logits of the next [N, V], and the longer cache."""
        vectors_N1D, cache = self.decoder(ids_N[:, None], cache)
        return self.output.aligned(vectors_N1D[:, 0]), cache

    def lean_step(self) -> Step:
        """`step` for as long as the weights stay as they are and there is no dropout, with less around it if it can."""
        return self.step


def tied_weights(config: TranslationConfig) -> tuple[nn.Parameter, nn.Parameter, nn.Parameter]:
    """The matrices [vocab_size, d_model] of source, target and output, not yet drawn; tied ones are one."""
    source = nn.Parameter(torch.empty(config.source_vocab_size, config.d_model))
    target, output = source, source
    if config.tie_embeddings in ("target", "none"):
        target = output = nn.Parameter(torch.empty(config.target_vocab_size, config.d_model))
    if config.tie_embeddings in ("inputs", "none"):
        output = nn.Parameter(torch.empty(config.target_vocab_size, config.d_model))
    return source, target, output
