"""The encoder-decoder Transformer of "Attention Is All You Need" (Vaswani et al. 2017).

Suffixes: B batch, S source length, T target length, D d_model, V target vocabulary, N rows (sentences x beam).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from attendo.config import POSITIVE, PROBABILITY, Settings
from attendo.nn.attention import MultiHeadAttention
from attendo.nn.block import DecoderBlock, EncoderBlock
from attendo.nn.cache import DecoderCache, LayerCache
from attendo.nn.embedding import Embedding, OutputProjection
from attendo.nn.feed_forward import ActivationName, build_feed_forward
from attendo.nn.init import initialise
from attendo.nn.masks import causal_mask, padding_mask
from attendo.nn.norm import NormName, NormPlace, Residual, build_norm
from attendo.nn.positions import Layout, LearnedPositions, RotaryPositions, SinusoidalPositions


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(Settings):
    """Everything that determines the model. The defaults are the paper's base model."""

    source_vocab_size: Annotated[int, POSITIVE]
    target_vocab_size: Annotated[int, POSITIVE]
    n_encoder_layers: Annotated[int, POSITIVE] = 6
    n_decoder_layers: Annotated[int, POSITIVE] = 6
    d_model: Annotated[int, POSITIVE] = 512
    d_ff: Annotated[int, POSITIVE] = 2048
    n_heads: Annotated[int, POSITIVE] = 8
    d_key: Annotated[int | None, POSITIVE] = None  # None: d_model / n_heads
    d_value: Annotated[int | None, POSITIVE] = None  # None: d_model / n_heads
    norm: NormName = "layernorm"
    norm_place: NormPlace = "post"
    positions: Literal["sinusoidal", "learned", "rotary"] = "sinusoidal"
    sinusoid_layout: Layout = "interleaved"
    n_positions: Annotated[int, POSITIVE] = 512  # learned positions only
    activation: ActivationName = "relu"
    tie_embeddings: Literal["all", "target", "none"] = "all"  # target: the decoder's input and output share
    residual_dropout: Annotated[float, PROBABILITY] = 0.1  # also on the embeddings, as in the paper
    attention_dropout: Annotated[float, PROBABILITY] = 0.0
    activation_dropout: Annotated[float, PROBABILITY] = 0.0

    def conflicts(self) -> Iterable[tuple[str, str]]:
        if self.d_model % self.n_heads and (self.d_key is None or self.d_value is None):
            yield (
                "d_model",
                f"must be a multiple of n_heads ({self.n_heads}) unless d_key and d_value are given",
            )
        elif self.positions == "rotary" and self.key_size % 2:
            yield "positions", f"rotary turns pairs of features, so d_key ({self.key_size}) must be even"
        if self.tie_embeddings == "all" and self.source_vocab_size != self.target_vocab_size:
            yield (
                "tie_embeddings",
                f"'all' needs one vocabulary, and there are {self.source_vocab_size} source and "
                f"{self.target_vocab_size} target pieces; use 'target', or a joint tokenizer (tokenizer.joint=true)",
            )

    @property
    def key_size(self) -> int:
        return self.d_key or self.d_model // self.n_heads

    @property
    def value_size(self) -> int:
        return self.d_value or self.d_model // self.n_heads


class Encoder(nn.Module):
    """Embedding, then `n_encoder_layers` blocks; with pre-norm a last norm, since no block normalises its output."""

    def __init__(self, embedding: Embedding, blocks: Iterable[EncoderBlock], final_norm: nn.Module | None) -> None:
        super().__init__()
        self.embedding = embedding
        self.blocks = nn.ModuleList(blocks)
        self.final_norm = final_norm

    def forward(self, source_BS: Tensor, mask: Tensor) -> Tensor:
        x_BSD = self.embedding(source_BS)
        for block in self.blocks:
            x_BSD = block(x_BSD, mask=mask)
        return x_BSD if self.final_norm is None else self.final_norm(x_BSD)


class Decoder(nn.Module):
    """Embedding, then `n_decoder_layers` blocks that also attend to the memory."""

    def __init__(self, embedding: Embedding, blocks: Iterable[DecoderBlock], final_norm: nn.Module | None) -> None:
        super().__init__()
        self.embedding = embedding
        self.blocks = nn.ModuleList(blocks)
        self.final_norm = final_norm

    def start(self, memory_BSD: Tensor, memory_mask: Tensor) -> DecoderCache:
        """The cache before the first position: the memory's keys and values, computed once for each layer."""
        layers = tuple(
            LayerCache(None, block.cross_attention.keys_values(memory_BSD))  # type: ignore[union-attr, operator]
            for block in self.blocks
        )
        return DecoderCache(layers, memory_mask, 0)

    def forward(self, target_BT: Tensor, cache: DecoderCache) -> tuple[Tensor, DecoderCache]:
        """The ids that come after what the cache has seen -> their vectors [B, T, D], and the longer cache."""
        T = target_BT.shape[1]
        mask = None
        if T > 1:  # with one new position there is nothing in the future to hide
            mask = causal_mask(cache.length + T, device=target_BT.device)[:, :, cache.length :]
        x_BTD = self.embedding(target_BT, offset=cache.length)
        layers = []
        for block, layer in zip(self.blocks, cache.layers, strict=True):
            x_BTD, layer = block(x_BTD, mask=mask, memory_mask=cache.memory_mask, cache=layer)
            layers.append(layer)
        if self.final_norm is not None:
            x_BTD = self.final_norm(x_BTD)
        return x_BTD, DecoderCache(tuple(layers), cache.memory_mask, cache.length + T)


class Transformer(nn.Module):
    """p(target | source) = Π_t softmax(W decoder(target_<t, encoder(source)))_{target_t}."""

    def __init__(self, config: TransformerConfig, encoder: Encoder, decoder: Decoder, output: OutputProjection) -> None:
        super().__init__()
        self.config = config
        self.encoder = encoder
        self.decoder = decoder
        self.output = output

    def encode(self, source_BS: Tensor, source_lengths_B: Tensor) -> DecoderCache:
        """Reads the source once; returns where decoding starts from."""
        mask = padding_mask(source_lengths_B, source_BS.shape[1])
        return self.decoder.start(self.encoder(source_BS, mask), mask)

    def hidden(self, source_BS: Tensor, source_lengths_B: Tensor, target_BT: Tensor) -> Tensor:
        """The decoder's vectors [B, T, D] for whole targets that begin with BOS: training, and scoring."""
        vectors_BTD, _ = self.decoder(target_BT, self.encode(source_BS, source_lengths_B))
        return vectors_BTD

    def forward(self, source_BS: Tensor, source_lengths_B: Tensor, target_BT: Tensor) -> Tensor:
        """Logits of the id after each target position, [B, T, V]."""
        return self.output(self.hidden(source_BS, source_lengths_B, target_BT))

    def step(self, ids_N: Tensor, cache: DecoderCache) -> tuple[Tensor, DecoderCache]:
        """One more id for each row -> logits of the next [N, V], and the longer cache."""
        vectors_N1D, cache = self.decoder(ids_N[:, None], cache)
        return self.output(vectors_N1D[:, 0]), cache


def build(config: TransformerConfig) -> Transformer:
    """Chooses the parts that the settings name, puts them together, and draws the initial weights."""

    def positions() -> nn.Module | None:
        match config.positions:
            case "sinusoidal":
                return SinusoidalPositions(d_model=config.d_model, layout=config.sinusoid_layout)
            case "learned":
                return LearnedPositions(d_model=config.d_model, n_positions=config.n_positions)
            case "rotary":
                return None

    rotation = RotaryPositions(d_key=config.key_size) if config.positions == "rotary" else None

    def attention(rotation: RotaryPositions | None) -> MultiHeadAttention:
        return MultiHeadAttention(
            d_model=config.d_model,
            n_heads=config.n_heads,
            d_key=config.key_size,
            d_value=config.value_size,
            weight_dropout=config.attention_dropout,
            rotation=rotation,
        )

    def residual() -> Residual:
        norm = build_norm(config.norm, config.d_model)
        return Residual(norm=norm, place=config.norm_place, dropout=config.residual_dropout)

    def feed_forward() -> nn.Module:
        return build_feed_forward(
            config.activation, d_model=config.d_model, d_ff=config.d_ff, dropout=config.activation_dropout
        )

    def encoder_block() -> EncoderBlock:
        return EncoderBlock(attention=attention(rotation), feed_forward=feed_forward(), residual=residual)

    def decoder_block() -> DecoderBlock:
        # Positions of source and target are not comparable, so nothing is turned in cross-attention.
        return DecoderBlock(
            attention=attention(rotation),
            cross_attention=attention(None),
            feed_forward=feed_forward(),
            residual=residual,
        )

    def final_norm() -> nn.Module | None:
        return build_norm(config.norm, config.d_model) if config.norm_place == "pre" else None

    source_weight = nn.Parameter(torch.empty(config.source_vocab_size, config.d_model))
    target_weight = source_weight
    if config.tie_embeddings != "all":
        target_weight = nn.Parameter(torch.empty(config.target_vocab_size, config.d_model))
    output_weight = target_weight
    if config.tie_embeddings == "none":
        output_weight = nn.Parameter(torch.empty(config.target_vocab_size, config.d_model))

    def embedding(weight: nn.Parameter) -> Embedding:
        return Embedding(weight=weight, positions=positions(), dropout=config.residual_dropout)

    model = Transformer(
        config,
        Encoder(embedding(source_weight), [encoder_block() for _ in range(config.n_encoder_layers)], final_norm()),
        Decoder(embedding(target_weight), [decoder_block() for _ in range(config.n_decoder_layers)], final_norm()),
        OutputProjection(weight=output_weight),
    )
    initialise(model)
    return model


def parameter_table(model: nn.Module) -> dict[str, int]:
    """How many parameters each part has; a shared one is counted once, where it is met first. `total` is the sum."""
    counts: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        counts[_part(name)] = counts.get(_part(name), 0) + parameter.numel()
    return {**counts, "total": sum(counts.values())}


def _part(name: str) -> str:
    """`encoder.blocks.0.attention.query.weight` -> `encoder.attention`: the same part of all layers together."""
    words = name.split(".")
    if words[0] == "output":
        return "output"
    side, rest = words[0], words[1:]
    if rest[0] == "blocks":
        rest = rest[2:]
    part = "norm" if rest[0].endswith(("residual", "norm")) else rest[0]
    return f"{side}.{part}"
