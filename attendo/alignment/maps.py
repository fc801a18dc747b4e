"""Where every head of every layer looks, while a model reads a source and writes a given target.

The model is run by its explicit twin: the same weights and parts, but attention is computed by the equation instead of
the fused kernel, and each weight matrix is kept on its way from the softmax to the values. So these are the weights
that made the output, and the output is that of the model itself.

Suffixes: B sentences, H heads, T target positions, S source positions, D d_model.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from attendo.alignment.heads import Kind, sharing_copy
from attendo.bundle import Bundle
from attendo.data.batch import Batch
from attendo.errors import BundleError
from attendo.models.transformer import Transformer
from attendo.nn.attention import MultiHeadAttention
from attendo.nn.dropout import Dropout


@dataclass(frozen=True)
class AttentionMaps:
    """The weights of each layer, and the decoder's last vectors; a row belongs to who looks, and sums to one.

    Row t of `decoder` and `cross` is the position that has read what comes before target piece t, and writes it.
    """

    encoder: tuple[Tensor, ...]  # [B, H, S, S]
    decoder: tuple[Tensor, ...]  # [B, H, T, T]
    cross: tuple[Tensor, ...]  # [B, H, T, S]
    hidden_BTD: Tensor

    def of(self, kind: Kind) -> tuple[Tensor, ...]:
        return {"encoder": self.encoder, "decoder": self.decoder, "cross": self.cross}[kind]


class _Keeper(Dropout):
    """Stands where dropout on the weights does, drops nothing, and keeps what passes."""

    def __init__(self, kept: list[Tensor]) -> None:
        super().__init__(0.0)
        self.kept = kept

    def forward(self, x: Tensor) -> Tensor:
        self.kept.append(x)
        return x


def transformer_of(bundle: Bundle) -> Transformer:
    """The model of a bundle, or an error if it has no attention between two texts to look at."""
    model = bundle.require("translate", "denoise", verb="inspect").model()
    if not isinstance(model, Transformer):
        raise BundleError(
            f"{bundle.path} has a model of kind {bundle.config.model.kind}: only Transformers have heads to look at."
        )
    return model


def explicit_twin(model: Transformer, kept: list[Tensor]) -> Transformer:
    """The model with explicit attention throughout, which adds its weights to `kept`, in the order of computing."""
    twin = sharing_copy(model).eval()
    for module in twin.modules():
        if isinstance(module, MultiHeadAttention):
            module.scoring.fused = False
            module.weight_dropout = _Keeper(kept)
    return twin


def attention_maps(model: Transformer, batch: Batch) -> AttentionMaps:
    """All weights for given pairs. The encoder's layers come first, then self- and cross-attention by turns."""
    kept: list[Tensor] = []
    twin = explicit_twin(model, kept)
    with torch.inference_mode():
        hidden_BTD = twin.hidden(batch.source_BS, batch.source_lengths_B, batch.target_in_BT)
    first = len(twin.encoder.blocks)
    return AttentionMaps(tuple(kept[:first]), tuple(kept[first::2]), tuple(kept[first + 1 :: 2]), hidden_BTD)
