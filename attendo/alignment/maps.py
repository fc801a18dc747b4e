"""Where every head of every layer looks, while a model works.

The model is run by its explicit twin: the same weights and parts, but attention is computed by the equation instead of
the fused kernel, and each weight matrix is kept on its way from the softmax to the values. So these are the weights
that made the output, and the output is that of the model itself.

Suffixes: B sentences, H heads, T target positions, S source positions, D d_model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from attendo.alignment.heads import AMember, sharing_copy
from attendo.bundle import Bundle
from attendo.data.batch import Batch
from attendo.errors import BundleError
from attendo.models.encoder_decoder import EncoderDecoder
from attendo.models.settings import AttentionKind
from attendo.models.transformer import Transformer
from attendo.nn.attention import BareAttention, MultiHeadAttention
from attendo.nn.dropout import Dropout

R = TypeVar("R")


@dataclass(frozen=True)
class AttentionMaps(Generic[R]):
    """The weights of each layer, none where a model has no such attention; and what the model gave with them.

    A row belongs to who looks, and sums to one. In an encoder-decoder, row t of `decoder` and `cross` is the position
    that has read what comes before target piece t, and writes it.
    """

    encoder: tuple[Tensor, ...]  # [B, H, S, S]
    decoder: tuple[Tensor, ...]  # [B, H, T, T]
    cross: tuple[Tensor, ...]  # [B, H, T, S]
    result: R

    def of(self, kind: AttentionKind) -> tuple[Tensor, ...]:
        return {"encoder": self.encoder, "decoder": self.decoder, "cross": self.cross}[kind]


Maps = AttentionMaps[Any]


class _Keeper(Dropout):
    """Stands where dropout on the weights does, drops nothing, and keeps what passes."""

    def __init__(self, kept: list[Tensor]) -> None:
        super().__init__(0.0)
        self.kept = kept

    def forward(self, x: Tensor) -> Tensor:
        self.kept.append(x)
        return x


def translator_of(bundle: Bundle) -> EncoderDecoder:
    """The model of a bundle, or an error if it has no attention between two texts to look at."""
    model = bundle.require("translate", "denoise", verb="inspect").model()
    assert isinstance(model, EncoderDecoder)
    return model


def transformer_of(bundle: Bundle) -> Transformer:
    """The model of a bundle, or an error if it is no translator with heads that can be switched off."""
    model = bundle.require("translate", "denoise", verb="inspect --heads").model()
    if not isinstance(model, Transformer):
        raise BundleError(
            f"{bundle.path} has a model of kind {bundle.config.model.kind}: only a Transformer's heads can be ranked."
        )
    return model


def explicit_twin(model: AMember, kept: list[Tensor]) -> AMember:
    """The model with explicit attention throughout, which adds its weights to `kept`, in the order of computing."""
    twin = sharing_copy(model)
    twin.eval()
    for module in twin.modules():
        if isinstance(module, MultiHeadAttention | BareAttention):
            module.scoring.fused = False
            module.weight_dropout = _Keeper(kept)
    return twin


def watched(model: AMember, work: Callable[[AMember], R]) -> AttentionMaps[R]:
    """All weights that a model uses while it does some work once, and what comes of the work.

    The encoder's layers come first, then self- and cross-attention of the decoder, by turns where it has both.
    """
    kept: list[Tensor] = []
    twin = explicit_twin(model, kept)
    with torch.inference_mode():
        result = work(twin)
    layers = model.config.attentions
    encoder, later = kept[: layers["encoder"]], kept[layers["encoder"] :]
    decoder, cross = later[: layers["decoder"]], later[: layers["cross"]]
    if decoder and cross:
        decoder, cross = later[::2], later[1::2]
    return AttentionMaps(tuple(encoder), tuple(decoder), tuple(cross), result)


def attention_maps(model: EncoderDecoder, batch: Batch) -> AttentionMaps[Tensor]:
    """All weights for given pairs, and the decoder's last vectors, [B, T, D]."""
    return watched(model, lambda twin: twin.hidden(batch.source_BS, batch.source_lengths_B, batch.target_in_BT))
