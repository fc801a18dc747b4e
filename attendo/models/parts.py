"""What a layer is made of: the parts that its settings choose."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from attendo.models.settings import LayerConfig, ScoringName
from attendo.nn.attention import Additive, BranchedHeads, DotProduct, JoinedHeads, MultiHeadAttention, Scoring
from attendo.nn.block import Block
from attendo.nn.embedding import Embedding, Segments
from attendo.nn.feed_forward import build_feed_forward
from attendo.nn.masks import ChunkSpan, Span, WindowSpan
from attendo.nn.norm import build_norm, build_residual
from attendo.nn.positions import (
    AttentionPositions,
    BucketPositions,
    ComplexPositions,
    ConcatenatedPositions,
    LearnedPositions,
    RotaryPositions,
    ShawPositions,
    SinusoidalPositions,
)


def embedding_positions(config: LayerConfig, vocab_size: int) -> nn.Module | None:
    """The part that acts on the embeddings."""
    match config.positions:
        case "sinusoidal":
            return SinusoidalPositions(d_model=config.d_model, layout=config.sinusoid_layout)
        case "sinusoidal-concatenated":
            return ConcatenatedPositions(d_model=config.d_model, layout=config.sinusoid_layout)
        case "learned":
            return LearnedPositions(
                d_model=config.d_model, n_positions=config.n_positions, before=config.position_offset
            )
        case "complex":
            return ComplexPositions(vocab_size=vocab_size, d_model=config.d_model)
        case "none" | "rotary" | "shaw" | "t5":
            return None


def build_embedding(
    config: LayerConfig, weight: nn.Parameter, positions: nn.Module | None, segments: Segments | None = None
) -> Embedding:
    """`weight` and `positions` come from outside, since two embeddings may share them."""
    return Embedding(
        weight=weight,
        positions=positions,
        segments=segments,
        norm=layer_norm(config) if config.embedding_norm else None,
        scale=1.0 if config.embedding_scale == "one" else None,
        dropout=config.residual_dropout,
        word_dropout=config.word_dropout,
    )


def attention_positions(config: LayerConfig, *, both_ways: bool) -> Callable[[], AttentionPositions]:
    """Makes the part that acts in a self-attention of one stack. `both_ways`: keys after the query can be seen."""
    match config.positions:
        case "rotary":
            shared: AttentionPositions = RotaryPositions(d_key=config.key_size, base=config.rotary_base)
        case "t5":
            shared = BucketPositions(
                n_heads=config.n_heads,
                n_buckets=config.n_buckets,
                max_distance=config.bucket_distance,
                both_ways=both_ways,
            )
        case "shaw":
            return lambda: ShawPositions(
                d_key=config.key_size, d_value=config.value_size, max_distance=config.max_distance
            )
        case "none" | "sinusoidal" | "sinusoidal-concatenated" | "learned" | "complex":
            return AttentionPositions
    return lambda: shared


def build_attention(
    config: LayerConfig, *, positions: AttentionPositions | None = None, last: bool = False
) -> MultiHeadAttention:
    """`last`: the attention after which the feed-forward network comes, so that branched heads take it in."""
    return MultiHeadAttention(
        d_model=config.d_model,
        n_heads=config.n_heads,
        d_key=config.key_size,
        d_value=config.value_size,
        scoring=build_scoring(config.scoring, n_heads=config.n_heads, d_key=config.key_size),
        output=_output(config, last),
        positions=positions,
        n_key_heads=config.n_key_heads,
        value_rank=config.value_rank,
        share_query_key=config.share_query_key,
        bias=config.biases,
        weight_dropout=config.attention_dropout,
    )


def build_scoring(name: ScoringName, *, n_heads: int, d_key: int) -> Scoring:
    match name:
        case "scaled-dot":
            return DotProduct(scale=1 / math.sqrt(d_key))
        case "dot":
            return DotProduct(scale=1.0)
        case "additive":
            return Additive(n_heads=n_heads, d_key=d_key)


def _output(config: LayerConfig, last: bool) -> nn.Module:
    if config.heads == "branched" and last:
        branches = [_feed_forward(config, config.d_ff // config.n_heads) for _ in range(config.n_heads)]
        return BranchedHeads(d_model=config.d_model, d_value=config.value_size, feed_forwards=branches)
    return JoinedHeads(d_model=config.d_model, n_heads=config.n_heads, d_value=config.value_size, bias=config.biases)


def build_block(
    config: LayerConfig,
    *,
    positions: Callable[[], AttentionPositions],
    cross: bool,
    shared_with: Block | None = None,
) -> Block:
    """A layer, with cross-attention or without; self-attention and feed-forward network are those of `shared_with`."""
    if shared_with is not None:
        attention, feed_forward = shared_with.attention, shared_with.feed_forward
    else:
        attention = build_attention(config, positions=positions(), last=not cross)
        feed_forward = None if config.heads == "branched" else _feed_forward(config, config.d_ff)
    return Block(
        attention=attention,
        # Positions of source and target are not comparable, so cross-attention knows nothing of them.
        cross_attention=build_attention(config, last=True) if cross else None,
        feed_forward=feed_forward,
        residual=lambda: build_residual(config.norm_place, lambda: layer_norm(config), dropout=config.residual_dropout),
    )


def _feed_forward(config: LayerConfig, d_ff: int) -> nn.Module:
    return build_feed_forward(
        config.activation,
        d_model=config.d_model,
        d_ff=d_ff,
        dropout=config.activation_dropout,
        bias=config.biases,
    )


def build_layers(config: LayerConfig, n_layers: int, block: Callable[[int], Block]) -> list[Block]:
    """`n_layers` blocks, of which those that share their weights are the same; `block` makes the one of a number."""
    size = {"none": 1, "groups": config.layers_per_group, "all": max(1, n_layers)}[config.share_layers]
    made = [block(first) for first in range(0, n_layers, size)]
    return [made[i // size] for i in range(n_layers)]


def build_final_norm(config: LayerConfig) -> nn.Module | None:
    """After the last layer, unless post-norm has normalised already."""
    return None if config.norm_place == "post" else layer_norm(config)


def layer_norm(config: LayerConfig) -> nn.Module:
    """The norm that stands everywhere in a model."""
    return build_norm(config.norm, config.d_model, eps=config.norm_eps)


def build_span(config: LayerConfig) -> Span | None:
    match config.span:
        case "full":
            return None
        case "window":
            return WindowSpan(config.window)
        case "chunk":
            return ChunkSpan(config.chunk, config.left_chunks)


def kept_layers(n_layers: int, rate: float, *, training: bool) -> list[bool]:
    """LayerDrop: which layers take part, each left out with probability `rate` while training (Fan et al. 2020)."""
    if not training or rate == 0:
        return [True] * n_layers
    draws: Tensor = torch.rand(n_layers)
    return (draws >= rate).tolist()
