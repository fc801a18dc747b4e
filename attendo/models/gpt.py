"""The decoder alone: GPT (Radford et al. 2018), which continues texts.

With learned positions, pre-norm and GELU it is GPT-2; with rotary positions, RMSNorm, SwiGLU and fewer heads of keys
than of queries it is Llama (Touvron et al. 2023).

Suffixes: B batch, T positions, D d_model, V vocabulary, N rows.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from attendo.data.text_batch import NOTHING, TextBatch
from attendo.models.encoder_decoder import Step
from attendo.models.parts import (
    attention_positions,
    build_block,
    build_embedding,
    build_final_norm,
    build_layers,
    build_span,
    embedding_positions,
)
from attendo.models.prediction import Prediction
from attendo.models.settings import GPTConfig
from attendo.models.transformer import Decoder, lean_decoder
from attendo.nn.cache import DecoderCache, LayerCache
from attendo.nn.embedding import OutputProjection
from attendo.nn.init import initialise, scale_by_depth
from attendo.nn.masks import padding_mask


class GPT(nn.Module):
    """p(text) = Π_t softmax(W decoder(id_<t))_{id_t}."""

    def __init__(self, config: GPTConfig, decoder: Decoder, output: OutputProjection) -> None:
        super().__init__()
        self.config = config
        self.decoder = decoder
        self.output = output

    def start(self, n_rows: int) -> DecoderCache:
        """The cache of so many rows before the first position. There is no memory, so its mask is of no positions."""
        nothing = torch.ones(n_rows, 1, 1, 0, dtype=torch.bool, device=self.output.weight.device)
        return DecoderCache(tuple(LayerCache() for _ in self.decoder.blocks), nothing, 0)

    def hidden(self, ids_BT: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """The vectors [B, T, D] of whole texts; the lengths are needed in training only, by norms over the batch."""
        real_BT = None if lengths_B is None else padding_mask(lengths_B, ids_BT.shape[1])[:, 0, 0]
        vectors_BTD, _ = self.decoder(ids_BT, self.start(ids_BT.shape[0]), real_BT)
        return vectors_BTD

    def forward(self, ids_BT: Tensor) -> Tensor:
        """Logits of the id after each position, [B, T, V]."""
        return self.output(self.hidden(ids_BT))

    def predictions(self, batch: TextBatch) -> Iterable[Prediction]:
        """Of all that is asked."""
        assert batch.targets_BT is not None
        asked_BT = batch.targets_BT != NOTHING
        vectors_BTD = self.hidden(batch.ids_BT, batch.lengths_B)
        yield Prediction(vectors_BTD[asked_BT], self.output, batch.targets_BT[asked_BT])

    def read(self, ids_BT: Tensor, cache: DecoderCache) -> DecoderCache:
        """The cache after these ids, which have come after those it has seen."""
        return self.decoder(ids_BT, cache)[1] if ids_BT.shape[1] else cache

    def step(self, ids_N: Tensor, cache: DecoderCache) -> tuple[Tensor, DecoderCache]:
        """One more id for each row -> logits of the next [N, V], and the longer cache."""
        vectors_N1D, cache = self.decoder(ids_N[:, None], cache)
        return self.output.aligned(vectors_N1D[:, 0]), cache

    def lean_step(self) -> Step:
        """`step` with less around it, for as long as the weights stay as they are and there is no dropout."""
        return lean_decoder(self.decoder, self.output)


def build(config: GPTConfig) -> GPT:
    """Puts together the parts that the settings name, and draws the initial weights."""
    behind = attention_positions(config, both_ways=False)
    blocks = build_layers(config, config.n_layers, lambda _: build_block(config, positions=behind, cross=False))
    weight = nn.Parameter(torch.empty(config.vocab_size, config.d_model))
    output = weight if config.tie_embeddings else nn.Parameter(torch.empty(config.vocab_size, config.d_model))
    decoder = Decoder(
        build_embedding(config, weight, embedding_positions(config, config.vocab_size)),
        blocks,
        build_final_norm(config),
        span=build_span(config),
        layer_drop=config.layer_drop,
    )
    model = GPT(config, decoder, OutputProjection(weight=output, learned_bias=config.output_bias))
    initialise(model)
    if config.init_by_depth:
        scale_by_depth(blocks)
    return model
