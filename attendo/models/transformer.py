"""The encoder-decoder Transformer of "Attention Is All You Need" (Vaswani et al. 2017).

Suffixes: B batch, S source length, T target length, D d_model, V target vocabulary, N rows (sentences x beam).
"""

import dataclasses
from collections.abc import Iterable

from torch import Tensor, nn

from attendo.models.encoder_decoder import CachedDecoder, EncoderDecoder, Step, tied_weights
from attendo.models.parts import (
    attention_positions,
    build_block,
    build_embedding,
    build_final_norm,
    build_layers,
    build_span,
    embedding_positions,
    kept_layers,
)
from attendo.models.settings import TransformerConfig
from attendo.nn.attention import MultiHeadAttention, joint_keys_values
from attendo.nn.block import Block
from attendo.nn.cache import DecoderCache, LayerCache
from attendo.nn.embedding import Embedding, OutputProjection
from attendo.nn.init import initialise, scale_by_depth
from attendo.nn.lean import lean_block, lean_norm, lean_output
from attendo.nn.low_rank import adapters
from attendo.nn.masks import Span, causal_mask, span_mask


class Stack(nn.Module):
    """What encoder and decoder have in common: an embedding, blocks, a last norm, and how far self-attention sees.

    With pre-norm and sandwich-norm there is a last norm, since no block normalises what it gives. `scale` is what comes
    out in the end multiplied by. `layer_drop` is the probability that a block is left out of a training step.
    """

    def __init__(
        self,
        embedding: Embedding,
        blocks: Iterable[Block],
        final_norm: nn.Module | None,
        *,
        span: Span | None = None,
        scale: float = 1.0,
        layer_drop: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.blocks = nn.ModuleList(blocks)
        self.final_norm = final_norm
        self.span = span
        self.scale = scale
        self.layer_drop = layer_drop

    def _kept(self) -> list[bool]:
        return kept_layers(len(self.blocks), self.layer_drop, training=self.training)

    def _normalised(self, x_BTD: Tensor, real: Tensor | None) -> Tensor:
        x_BTD = x_BTD if self.final_norm is None else self.final_norm(x_BTD, real=real)
        return x_BTD if self.scale == 1 else x_BTD * self.scale


class Encoder(Stack):
    """Embedding, then `n_encoder_layers` blocks without cross-attention."""

    def forward(self, source_BS: Tensor, real_B11S: Tensor, segments_BS: Tensor | None = None) -> Tensor:
        """The ids, the mask of the real ones, and of which text each is, if there are two -> [B, S, D]."""
        mask, real_BS = span_mask(real_B11S, self.span), real_B11S[:, 0, 0]
        x_BSD = self.embedding(source_BS, segments_BT=segments_BS, real=real_BS)
        for block, kept in zip(self.blocks, self._kept(), strict=True):
            if kept:
                x_BSD, _ = block(x_BSD, mask=mask, real=real_BS)
        return self._normalised(x_BSD, real_BS)


class Decoder(Stack, CachedDecoder):
    """Embedding, then `n_decoder_layers` blocks that also attend to the memory."""

    def start(self, memory_BSD: Tensor, memory_mask: Tensor) -> DecoderCache:
        """The cache before the first position: the memory's keys and values, computed once for each set of weights."""
        blocks = list(self.blocks)  # asked for once: while it is traced, a model may give others each time
        attentions: dict[nn.Module, MultiHeadAttention] = {block: block.cross_attention for block in blocks}  # type: ignore[misc]
        # A layer that is left out of a step must not get gradients of zero, by which Adam would still move it.
        apart = self.training and self.layer_drop > 0
        made = dict(zip(attentions, joint_keys_values(memory_BSD, list(attentions.values()), apart=apart), strict=True))
        return DecoderCache(tuple(LayerCache(None, made[block]) for block in blocks), memory_mask, 0)

    def forward(
        self, target_BT: Tensor, cache: DecoderCache, real: Tensor | None = None
    ) -> tuple[Tensor, DecoderCache]:
        """The ids that come after what the cache has seen -> their vectors [B, T, D], and the longer cache."""
        T = target_BT.shape[1]
        mask = None
        if T > 1 or self.span is not None:  # a single new position that sees all has nothing to hide from
            mask = causal_mask(T, offset=cache.length, span=self.span, device=target_BT.device)
        x_BTD = self.embedding(target_BT, offset=cache.length, real=real)
        layers = []
        for block, layer, kept in zip(self.blocks, cache.layers, self._kept(), strict=True):
            if kept:
                x_BTD, layer = block(x_BTD, mask=mask, memory_mask=cache.memory_mask, cache=layer, real=real)
            layers.append(layer)
        longer = dataclasses.replace(cache, layers=tuple(layers), length=cache.length + T)
        return self._normalised(x_BTD, real), longer


def lean_decoder(decoder: Decoder, output: OutputProjection) -> Step:
    """One more id for each row -> logits of the next [N, V], and the longer cache, from fewer calls than modules need.

    It is made from the weights as they are now, and knows no dropout.
    """
    made = {block: lean_block(block) for block in dict.fromkeys(decoder.blocks)}  # type: ignore[arg-type]
    blocks = [made[block] for block in decoder.blocks]
    final_norm = None if decoder.final_norm is None else lean_norm(decoder.final_norm)
    logits = lean_output(output)

    def step(ids_N: Tensor, cache: DecoderCache) -> tuple[Tensor, DecoderCache]:
        mask = None
        if decoder.span is not None:
            mask = causal_mask(1, offset=cache.length, span=decoder.span, device=ids_N.device)
        memory_mask = None if cache.memory_mask.all() else cache.memory_mask
        x_ND = decoder.embedding(ids_N[:, None], offset=cache.length)[:, 0]
        layers = []
        for block, layer in zip(blocks, cache.layers, strict=True):
            x_ND, layer = block(x_ND, layer, mask, memory_mask)
            layers.append(layer)
        if final_norm is not None:
            x_ND = final_norm(x_ND)
        if decoder.scale != 1:
            x_ND = x_ND * decoder.scale
        longer = DecoderCache(tuple(layers), cache.memory_mask, cache.length + 1, cache.n_prefixes)
        return logits(x_ND), longer

    return step


class Transformer(EncoderDecoder):
    """Encoder and decoder of blocks."""

    config: TransformerConfig
    encoder: Encoder
    decoder: Decoder

    def lean_step(self) -> Step:
        """`step` with less around it, for as long as the weights stay as they are and there is no dropout."""
        return lean_decoder(self.decoder, self.output)


def build(config: TransformerConfig) -> Transformer:
    """Puts together the parts that the settings name, and draws the initial weights."""
    ahead = attention_positions(config, both_ways=True)
    # One self-attention for both stacks has one set of positions as well.
    behind = ahead if config.share_encoder_decoder else attention_positions(config, both_ways=False)
    encoder_blocks = build_layers(
        config, config.n_encoder_layers, lambda _: build_block(config, positions=ahead, cross=False)
    )

    def decoder_block(number: int) -> Block:
        shared_with = encoder_blocks[number] if config.share_encoder_decoder else None
        return build_block(config, positions=behind, cross=True, shared_with=shared_with)

    decoder_blocks = build_layers(config, config.n_decoder_layers, decoder_block)

    source_weight, target_weight, output_weight = tied_weights(config)
    source_positions = embedding_positions(config, config.source_vocab_size)
    target_positions = embedding_positions(config, config.target_vocab_size)
    if config.tie_embeddings in ("all", "inputs") and config.positions == "complex":
        target_positions = source_positions  # the frequencies belong to the words, like their vectors

    span = build_span(config)
    model = Transformer(
        config,
        Encoder(
            build_embedding(config, source_weight, source_positions),
            encoder_blocks,
            build_final_norm(config),
            span=span,
            layer_drop=config.layer_drop,
        ),
        Decoder(
            build_embedding(config, target_weight, target_positions),
            decoder_blocks,
            build_final_norm(config),
            span=span,
            scale=1.0 if config.output_scale == "one" else config.d_model**-0.5,
            layer_drop=config.layer_drop,
        ),
        OutputProjection(weight=output_weight, learned_bias=config.output_bias),
    )
    initialise(model)
    if config.init_by_depth:
        scale_by_depth(encoder_blocks, decoder_blocks)
    return model


def parameter_table(model: nn.Module) -> dict[str, int]:
    """How many parameters each part has; a shared one is counted once, where it is met first. `total` is the sum.

    Adapters do not count: whoever uses the model has them in the matrices that they adapt.
    """
    counts: dict[str, int] = {}
    added = {parameter for adapter in adapters(model) for parameter in adapter.parameters()}
    for name, parameter in model.named_parameters():
        if parameter in added:
            continue
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
