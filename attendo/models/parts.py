"""What a layer is made of: the settings that choose its parts, and the parts that they choose."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from attendo.config import NOT_NEGATIVE, POSITIVE, PROBABILITY, Rule, Settings
from attendo.nn.attention import Additive, BranchedHeads, DotProduct, JoinedHeads, MultiHeadAttention, Scoring
from attendo.nn.block import Block
from attendo.nn.feed_forward import ActivationName, build_feed_forward
from attendo.nn.masks import ChunkSpan, Span, WindowSpan
from attendo.nn.norm import NormName, NormPlace, build_norm, build_residual
from attendo.nn.positions import (
    AttentionPositions,
    BucketPositions,
    ComplexPositions,
    ConcatenatedPositions,
    Layout,
    LearnedPositions,
    RotaryPositions,
    ShawPositions,
    SinusoidalPositions,
)

PositionsName = Literal["none", "sinusoidal", "sinusoidal-concatenated", "learned", "rotary", "shaw", "t5", "complex"]
ScoringName = Literal["scaled-dot", "dot", "additive"]
SpanName = Literal["full", "window", "chunk"]
HeadsName = Literal["joined", "branched"]
SharingName = Literal["none", "groups", "all"]

# What a model does in training only: another rate fits the same weights.
RATES = ("residual_dropout", "attention_dropout", "activation_dropout", "layer_drop")

BUCKETS = Rule("must be an even number of at least 4", lambda value: value >= 4 and value % 2 == 0)


@dataclass(frozen=True, kw_only=True)
class LayerConfig(Settings):
    """The parts of a layer, and their sizes. The defaults are the paper's base model."""

    d_model: Annotated[int, POSITIVE] = 512
    d_ff: Annotated[int, POSITIVE] = 2048
    n_heads: Annotated[int, POSITIVE] = 8
    d_key: Annotated[int | None, POSITIVE] = None  # None: d_model / n_heads
    d_value: Annotated[int | None, POSITIVE] = None  # None: d_model / n_heads

    positions: PositionsName = "sinusoidal"
    sinusoid_layout: Layout = "interleaved"
    n_positions: Annotated[int, POSITIVE] = 512  # learned
    max_distance: Annotated[int, POSITIVE] = 16  # shaw: farther is taken for this far
    n_buckets: Annotated[int, BUCKETS] = 32  # t5
    bucket_distance: Annotated[int, POSITIVE] = 128  # t5: farther is in the last bucket

    scoring: ScoringName = "scaled-dot"
    share_query_key: bool = False
    n_key_heads: Annotated[int | None, POSITIVE] = None  # None: n_heads; fewer: grouped-query, 1: multi-query
    value_rank: Annotated[int | None, POSITIVE] = None  # None: a full matrix
    heads: HeadsName = "joined"  # branched: the Weighted Transformer
    span: SpanName = "full"  # how far self-attention sees
    window: Annotated[int, POSITIVE] = 8  # positions on each side
    chunk: Annotated[int, POSITIVE] = 8  # positions in a chunk
    left_chunks: Annotated[int, NOT_NEGATIVE] = 1  # chunks before the own one that are seen

    norm: NormName = "layernorm"
    norm_place: NormPlace = "post"
    activation: ActivationName = "relu"
    share_layers: SharingName = "none"  # groups: of layers_per_group each; all: one set of weights
    layers_per_group: Annotated[int, POSITIVE] = 2

    residual_dropout: Annotated[float, PROBABILITY] = 0.1  # also on the embeddings, as in the paper
    attention_dropout: Annotated[float, PROBABILITY] = 0.0
    activation_dropout: Annotated[float, PROBABILITY] = 0.0
    layer_drop: Annotated[float, PROBABILITY] = 0.0  # the probability that a layer is left out of a step

    @property
    def key_size(self) -> int:
        return self.d_key or self.d_model // self.n_heads

    @property
    def value_size(self) -> int:
        return self.d_value or self.d_model // self.n_heads

    def conflicts(self) -> Iterable[tuple[str, str]]:
        if self.d_model % self.n_heads and (self.d_key is None or self.d_value is None):
            yield "d_model", f"must be a multiple of n_heads ({self.n_heads}) unless d_key and d_value are given"
            return  # what follows needs the sizes of a head
        yield from self._position_conflicts()
        yield from self._attention_conflicts()
        if self.norm == "batchnorm" and self.share_layers != "none":
            yield (
                "norm",
                f"batchnorm keeps running statistics for each place in the network, and with share_layers "
                f"'{self.share_layers}' one norm would stand at several; use another norm, or share_layers 'none'",
            )

    def unused(self) -> Iterator[tuple[str, str]]:
        """(key, why in words) of each setting that was changed and belongs to a part that is not chosen."""
        belonging = {
            "n_positions": (self.positions == "learned", f"positions is '{self.positions}', not 'learned'"),
            "max_distance": (self.positions == "shaw", f"positions is '{self.positions}', not 'shaw'"),
            "n_buckets": (self.positions == "t5", f"positions is '{self.positions}', not 't5'"),
            "bucket_distance": (self.positions == "t5", f"positions is '{self.positions}', not 't5'"),
            "sinusoid_layout": ("sinusoidal" in self.positions, f"positions is '{self.positions}', without sinusoids"),
            "window": (self.span == "window", f"span is '{self.span}', not 'window'"),
            "chunk": (self.span == "chunk", f"span is '{self.span}', not 'chunk'"),
            "left_chunks": (self.span == "chunk", f"span is '{self.span}', not 'chunk'"),
            "layers_per_group": (self.share_layers == "groups", f"share_layers is '{self.share_layers}', not 'groups'"),
        }
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        for key, (chosen, words) in belonging.items():
            if not chosen and getattr(self, key) != defaults[key]:
                yield key, words

    def _position_conflicts(self) -> Iterator[tuple[str, str]]:
        if self.positions == "rotary" and self.key_size % 2:
            yield "positions", f"rotary turns pairs of features, so d_key ({self.key_size}) must be even"
        if self.positions == "complex" and self.d_model % 2:
            yield "positions", f"complex reads features in pairs, so d_model ({self.d_model}) must be even"
        if self.positions in ("rotary", "shaw") and self.scoring == "additive":
            yield (
                "positions",
                f"{self.positions} works in the dot product of query and key, and scoring is 'additive'; use scoring "
                "'scaled-dot', or positions that do not need one: sinusoidal, learned, t5",
            )
        if self.positions == "t5" and self.bucket_distance <= self.n_buckets // 2:
            yield "bucket_distance", f"must be more than half of n_buckets ({self.n_buckets}), which are exact"

    def _attention_conflicts(self) -> Iterator[tuple[str, str]]:
        if self.n_key_heads is not None and self.n_heads % self.n_key_heads:
            yield "n_key_heads", f"must divide n_heads ({self.n_heads}): each serves as many heads of queries"
        if self.share_query_key and self.n_key_heads not in (None, self.n_heads):
            yield (
                "share_query_key",
                f"queries have n_heads ({self.n_heads}) and keys n_key_heads ({self.n_key_heads}), so one matrix "
                "cannot make both; leave one of the two out",
            )
        full_rank = min(self.d_model, (self.n_key_heads or self.n_heads) * self.value_size)
        if self.value_rank is not None and self.value_rank >= full_rank:
            yield "value_rank", f"must be less than the {full_rank} that a full matrix has here"
        if self.heads == "branched" and self.d_ff % self.n_heads:
            yield "heads", f"branched heads divide d_ff ({self.d_ff}) among n_heads ({self.n_heads}), without remainder"


def embedding_positions(config: LayerConfig, vocab_size: int) -> nn.Module | None:
    """The part that acts on the embeddings."""
    match config.positions:
        case "sinusoidal":
            return SinusoidalPositions(d_model=config.d_model, layout=config.sinusoid_layout)
        case "sinusoidal-concatenated":
            return ConcatenatedPositions(d_model=config.d_model, layout=config.sinusoid_layout)
        case "learned":
            return LearnedPositions(d_model=config.d_model, n_positions=config.n_positions)
        case "complex":
            return ComplexPositions(vocab_size=vocab_size, d_model=config.d_model)
        case "none" | "rotary" | "shaw" | "t5":
            return None


def attention_positions(config: LayerConfig, *, both_ways: bool) -> Callable[[], AttentionPositions]:
    """Makes the part that acts in a self-attention of one stack. `both_ways`: keys after the query can be seen."""
    match config.positions:
        case "rotary":
            shared: AttentionPositions = RotaryPositions(d_key=config.key_size)
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
        scoring=_scoring(config),
        output=_output(config, last),
        positions=positions,
        n_key_heads=config.n_key_heads,
        value_rank=config.value_rank,
        share_query_key=config.share_query_key,
        weight_dropout=config.attention_dropout,
    )


def _scoring(config: LayerConfig) -> Scoring:
    match config.scoring:
        case "scaled-dot":
            return DotProduct(scale=1 / math.sqrt(config.key_size))
        case "dot":
            return DotProduct(scale=1.0)
        case "additive":
            return Additive(n_heads=config.n_heads, d_key=config.key_size)


def _output(config: LayerConfig, last: bool) -> nn.Module:
    if config.heads == "branched" and last:
        branches = [_feed_forward(config, config.d_ff // config.n_heads) for _ in range(config.n_heads)]
        return BranchedHeads(d_model=config.d_model, d_value=config.value_size, feed_forwards=branches)
    return JoinedHeads(d_model=config.d_model, n_heads=config.n_heads, d_value=config.value_size)


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
        residual=lambda: build_residual(
            config.norm_place, config.norm, d_model=config.d_model, dropout=config.residual_dropout
        ),
    )


def _feed_forward(config: LayerConfig, d_ff: int) -> nn.Module:
    return build_feed_forward(config.activation, d_model=config.d_model, d_ff=d_ff, dropout=config.activation_dropout)


def build_layers(config: LayerConfig, n_layers: int, block: Callable[[int], Block]) -> list[Block]:
    """`n_layers` blocks, of which those that share their weights are the same; `block` makes the one of a number."""
    size = {"none": 1, "groups": config.layers_per_group, "all": n_layers}[config.share_layers]
    made = [block(first) for first in range(0, n_layers, size)]
    return [made[i // size] for i in range(n_layers)]


def build_final_norm(config: LayerConfig) -> nn.Module | None:
    """After the last layer, unless post-norm has normalised already."""
    return None if config.norm_place == "post" else build_norm(config.norm, config.d_model)


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
