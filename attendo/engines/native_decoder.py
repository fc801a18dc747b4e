"""A model's encoder and decoder in C for the searches of attendo/decoding: a step of decoding in one call.

Suffixes: N prefixes, V vocabulary.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from attendo.bundle import weights_of
from attendo.decoding.search import Ids
from attendo.engines.native_model import native_parts, servable
from attendo.errors import BundleError
from attendo.models.encoder_decoder import EncoderDecoder
from attendo.models.settings import TransformerConfig
from attendo.native.search import Model, Prefixes, no_prefixes
from attendo.nn.embedding import aligned_rows
from attendo.text.tokenizer import EOS


class NativePrefixes:
    """What a search keeps of its prefixes, as it keeps a `DecoderCache`."""

    def __init__(self, prefixes: Prefixes) -> None:
        self.prefixes = prefixes

    @property
    def length(self) -> int:
        return self.prefixes.length

    def select(self, rows_M: Tensor) -> "NativePrefixes":
        return NativePrefixes(self.prefixes.select(rows_M.numpy()))


class NativeDecoder:
    """`encode` and `step` of a model with the weights that it has now."""

    def __init__(self, model: Model, *, n_positions: int) -> None:
        self.n_positions = n_positions  # that its tables have
        self._model = model
        self._like = torch.empty(0)

    def start(self, sources: Sequence[Ids]) -> NativePrefixes:
        return NativePrefixes(no_prefixes(self._model, [(*source, EOS) for source in sources]))

    def step(self, ids_N: Tensor, state: NativePrefixes) -> tuple[Tensor, NativePrefixes]:
        logits_NV = aligned_rows(len(ids_N), self._model.vocab_size, self._like)
        longer = state.prefixes.longer(ids_N.numpy(), logits_NV.data_ptr(), logits_NV.stride(0))
        return logits_NV, NativePrefixes(longer)


def native_decoder(model: EncoderDecoder, device: torch.device) -> NativeDecoder | None:
    """None where torch has to do it: elsewhere than on a CPU, with parts or weights of another kind."""
    config = model.config
    if device.type != "cpu" or not isinstance(config, TransformerConfig) or servable(config) is not None:
        return None
    weights = weights_of(model)
    if any(tensor.dtype != torch.float32 for tensor in weights.values()):
        return None
    try:
        parts = native_parts(config, {name: tensor.numpy() for name, tensor in weights.items()})
    except BundleError:  # there are adapters, or a layer that is shared has lost a head
        return None
    return NativeDecoder(Model(parts), n_positions=len(parts.decoder.places_TD))
