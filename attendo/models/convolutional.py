"""Convolutional sequence to sequence learning (Gehring et al. 2017): no recurrence, and attention in every layer.

With e and g the vectors of source and target, positions included, conv a `GatedConvolution` and z the encoder's output:

    encoder   x = e,   x ← √½ (x + conv(x))                         in every layer;   z = x
    decoder   x = g,   y = conv(x), of the positions up to its own  in every layer
              a_ts = softmax_s((W y_t + b + g_t) · z_s / √D)        c_t = √S Σ_s a_ts √½ (z_s + e_s)
              x ← √½ (x + √½ (y + c))

A factor √½ keeps the variance of a sum of two, √S that of a mean of S. A position of layer l sees l (width - 1) others.
Unlike in the paper, scores are divided by √D, since words' vectors begin with unit variance here, weights are not
normalised, and the gradients of the encoder are not divided by the number of attentions, a factor that Adam does not
see.

Suffixes: B batch, S source length, T target length, D d_model.
"""

import dataclasses
import math
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attendo.models.encoder_decoder import CachedDecoder, EncoderDecoder, tied_weights
from attendo.models.settings import ConvolutionalConfig
from attendo.nn.attention import BareAttention
from attendo.nn.cache import DecoderCache, KeysValues, LayerCache
from attendo.nn.convolution import GatedConvolution
from attendo.nn.dropout import Dropout
from attendo.nn.embedding import Embedding, OutputProjection
from attendo.nn.init import initialise
from attendo.nn.linear import Linear
from attendo.nn.positions import LearnedPositions

HALF = math.sqrt(0.5)


class ConvolutionalEncoder(nn.Module):
    """Embedding, then convolutions that see as much before as after."""

    def __init__(
        self, embedding: Embedding, convolutions: Iterable[GatedConvolution], *, width: int, dropout: float
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.beside = width // 2
        self.convolutions = nn.ModuleList(convolutions)
        self.dropout = Dropout(dropout)

    def forward(self, source_BS: Tensor, real_B11S: Tensor) -> Tensor:
        """The ids, and the mask of the real ones -> z and √½ (z + e), side by side: [B, S, 2 D]."""
        real_BS1 = real_B11S[:, 0, 0, :, None]
        e_BSD = x_BSD = self.embedding(source_BS)
        for convolution in self.convolutions:
            # Beyond the edge of a text are zeros, whatever padding its neighbours need.
            seen_BPD = F.pad(self.dropout(x_BSD) * real_BS1, (0, 0, self.beside, self.beside))
            x_BSD = HALF * (x_BSD + convolution(seen_BPD))
        return torch.cat((x_BSD, HALF * (x_BSD + e_BSD)), dim=-1)


class ConvolutionalLayer(nn.Module):
    """y + c of one layer of the decoder, before it is added to x."""

    def __init__(self, *, d_model: int, width: int) -> None:
        super().__init__()
        self.convolution = GatedConvolution(d_model=d_model, width=width)
        self.query = Linear(d_model, d_model)
        self.attention = BareAttention(scale=1 / math.sqrt(d_model))

    def forward(self, seen_BPD: Tensor, g_BTD: Tensor, memory: KeysValues, mask: Tensor) -> Tensor:
        """x with what came before it, the target's vectors, the memory, its mask -> √½ (y + c), [B, T, D]."""
        y_BTD = self.convolution(seen_BPD)
        queries_BTD = memory.aligned(self.query(y_BTD) + g_BTD)
        c_B1TD = self.attention(queries_BTD[:, None], memory, mask)
        c_B1TD = c_B1TD * mask.sum(dim=-1, keepdim=True).to(c_B1TD.dtype).sqrt()
        return HALF * (y_BTD + c_B1TD[:, 0].reshape(y_BTD.shape))


class ConvolutionalDecoder(CachedDecoder):
    """Embedding, then layers that see a few positions before their own, and attend to the memory."""

    def __init__(
        self, embedding: Embedding, layers: Iterable[ConvolutionalLayer], *, width: int, dropout: float
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.width = width
        self.layers = nn.ModuleList(layers)
        self.dropout = Dropout(dropout)

    def start(self, memory_BSD: Tensor, memory_mask: Tensor) -> DecoderCache:
        """One memory for all layers, and zeros before the first position."""
        keys_BSD, values_BSD = memory_BSD.chunk(2, dim=-1)
        memory = KeysValues(keys_BSD[:, None], values_BSD[:, None])
        B, _, D = keys_BSD.shape
        layer = LayerCache(memory=memory, state=(keys_BSD.new_zeros(B, self.width - 1, D),))
        return DecoderCache((layer,) * len(self.layers), memory_mask, 0)

    def forward(
        self,
        target_BT: Tensor,
        cache: DecoderCache,
        real: Tensor | None = None,  # noqa: ARG002
    ) -> tuple[Tensor, DecoderCache]:
        g_BTD = x_BTD = self.embedding(target_BT, offset=cache.length)
        layers = []
        for layer, kept in zip(self.layers, cache.layers, strict=True):
            (before_BPD,) = kept.state
            seen_BPD = torch.cat((before_BPD, self.dropout(x_BTD)), dim=1)
            x_BTD = HALF * (x_BTD + layer(seen_BPD, g_BTD, kept.memory, cache.memory_mask))
            layers.append(dataclasses.replace(kept, state=(seen_BPD[:, target_BT.shape[1] :],)))
        longer = dataclasses.replace(cache, layers=tuple(layers), length=cache.length + target_BT.shape[1])
        return self.dropout(x_BTD), longer


class ConvolutionalModel(EncoderDecoder):
    """Encoder and decoder of convolutions."""

    config: ConvolutionalConfig
    encoder: ConvolutionalEncoder
    decoder: ConvolutionalDecoder


def build(config: ConvolutionalConfig) -> ConvolutionalModel:
    """Puts together the parts that the settings name, and draws the initial weights."""
    sizes, dropout = {"d_model": config.d_model, "width": config.width}, config.dropout
    source_weight, target_weight, output_weight = tied_weights(config)

    def embedding(weight: nn.Parameter) -> Embedding:
        positions = LearnedPositions(d_model=config.d_model, n_positions=config.n_positions)
        return Embedding(weight=weight, positions=positions, dropout=dropout, word_dropout=config.word_dropout)

    model = ConvolutionalModel(
        config,
        ConvolutionalEncoder(
            embedding(source_weight),
            [GatedConvolution(**sizes) for _ in range(config.n_encoder_layers)],
            width=config.width,
            dropout=dropout,
        ),
        ConvolutionalDecoder(
            embedding(target_weight),
            [ConvolutionalLayer(**sizes) for _ in range(config.n_decoder_layers)],
            width=config.width,
            dropout=dropout,
        ),
        OutputProjection(weight=output_weight),
    )
    initialise(model)
    return model
