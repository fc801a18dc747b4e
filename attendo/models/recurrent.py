"""The models before the Transformer: a recurrent encoder, and a recurrent decoder with attention.

With E the words' vectors, h_1, …, h_S the encoder's states, which are the memory, and s_t the decoder's:

    h      = LSTM(E[x_1], …, E[x_S]), from both ends       s_0 = tanh(W₀ mean(h) + b₀)
    s_t    = LSTM(s_{t-1}, E[y_{t-1}])
    a_ts   = softmax_s(score(s_t, h_s))                    c_t = W_O Σ_s a_ts W_V h_s
    s̃_t    = tanh(W_c [c_t ; s_t] + b_c)                   p(y_t) = softmax(E s̃_t + b)

score(s, h) is what `scoring` names: `additive` is Bahdanau et al. (2015), v · tanh(W_Q s + W_K h); `dot` is Luong et
al. (2015), (W_Q s) · (W_K h), their `general` with W = W_Qᵀ W_K; `scaled-dot` the same divided by √d_key. As in Luong's
model attention comes after the recurrence, and nothing of it goes into the next state: so a whole target goes through
each layer in one call, and through attention in one product. In Bahdanau's model c_t goes into the state.

Suffixes: B batch, S source length, T target length, D d_model.
"""

import dataclasses
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from attendo.models.encoder_decoder import CachedDecoder, EncoderDecoder, tied_weights
from attendo.models.parts import build_scoring
from attendo.models.settings import CellName, RecurrentConfig
from attendo.nn.attention import MultiHeadAttention
from attendo.nn.cache import DecoderCache, LayerCache
from attendo.nn.dropout import Dropout
from attendo.nn.embedding import Embedding, OutputProjection
from attendo.nn.init import initialise
from attendo.nn.recurrence import BothWays, Recurrence


class RecurrentEncoder(nn.Module):
    """Embedding, then layers that read it from one end or from both."""

    def __init__(self, embedding: Embedding, layers: Iterable[Recurrence | BothWays], *, dropout: float) -> None:
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(layers)
        self.dropout = Dropout(dropout)

    def forward(self, source_BS: Tensor, real_B11S: Tensor) -> Tensor:
        """The ids, and the mask of the real ones -> [B, S, D]."""
        lengths_B = real_B11S.sum(dim=(1, 2, 3))
        x_BSD = self.embedding(source_BS)
        for layer in self.layers:
            y_BSD = layer(x_BSD, lengths_B) if isinstance(layer, BothWays) else layer(x_BSD)[0]
            x_BSD = self.dropout(y_BSD)
        return x_BSD


class RecurrentDecoder(CachedDecoder):
    """Embedding, recurrent layers, and attention to the memory from the last of them."""

    def __init__(
        self,
        embedding: Embedding,
        layers: Iterable[Recurrence],
        attention: MultiHeadAttention,
        *,
        d_model: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(layers)
        self.attention = attention
        self.first = nn.Linear(d_model, len(self.layers) * d_model)  # W₀ of each layer
        self.joined = nn.Linear(2 * d_model, d_model)  # W_c
        self.dropout = Dropout(dropout)

    def start(self, memory_BSD: Tensor, memory_mask: Tensor) -> DecoderCache:
        """The states that the mean of the memory gives, and the memory's keys and values."""
        real_BS1 = memory_mask[:, 0, 0, :, None].to(memory_BSD.dtype)
        mean_BD = (memory_BSD * real_BS1).sum(1) / real_BS1.sum(1)
        states = self.first(mean_BD).tanh().chunk(len(self.layers), dim=-1)
        memory = self.attention.keys_values(memory_BSD)
        layers = [LayerCache(state=self._state(layer, h)) for layer, h in zip(self.layers, states, strict=True)]
        layers[-1] = dataclasses.replace(layers[-1], memory=memory)
        return DecoderCache(tuple(layers), memory_mask, 0)

    def forward(
        self,
        target_BT: Tensor,
        cache: DecoderCache,
        real: Tensor | None = None,  # noqa: ARG002
    ) -> tuple[Tensor, DecoderCache]:
        x_BTD = self.embedding(target_BT)
        layers = []
        for number, (recurrence, layer) in enumerate(zip(self.layers, cache.layers, strict=True)):
            x_BTD, state = recurrence(self.dropout(x_BTD) if number else x_BTD, layer.state)
            layers.append(dataclasses.replace(layer, state=state))
        context_BTD = self._context(x_BTD, cache)
        joined_BTD = self.joined(torch.cat((context_BTD, x_BTD), dim=-1)).tanh()
        longer = dataclasses.replace(cache, layers=tuple(layers), length=cache.length + target_BT.shape[1])
        return self.dropout(joined_BTD), longer

    def _context(self, x_BTD: Tensor, cache: DecoderCache) -> Tensor:
        memory = cache.layers[-1].memory
        assert memory is not None  # as `start` has made it
        context_BTD, _ = self.attention(memory.aligned(x_BTD), mask=cache.memory_mask, memory=memory)
        return context_BTD.view_as(x_BTD)

    def _state(self, layer: nn.Module, h_BD: Tensor) -> tuple[Tensor, ...]:
        """The first state whose h is given; what an LSTM keeps beside it begins with zeros."""
        is_lstm = isinstance(layer, Recurrence) and isinstance(layer.layer, nn.LSTM)
        return (h_BD.contiguous(), torch.zeros_like(h_BD)) if is_lstm else (h_BD.contiguous(),)


class RecurrentModel(EncoderDecoder):
    """Encoder and decoder of recurrent layers."""

    config: RecurrentConfig
    encoder: RecurrentEncoder
    decoder: RecurrentDecoder


def build(config: RecurrentConfig) -> RecurrentModel:
    """Puts together the parts that the settings name, and draws the initial weights."""
    size, dropout = config.d_model, config.dropout
    source_weight, target_weight, output_weight = tied_weights(config)

    def embedding(weight: nn.Parameter) -> Embedding:
        return Embedding(weight=weight, positions=None, dropout=dropout, word_dropout=config.word_dropout)

    def encoder_layer() -> Recurrence | BothWays:
        if not config.both_ways:
            return _recurrence(config.cell, size, size)
        return BothWays(_recurrence(config.cell, size, size // 2), _recurrence(config.cell, size, size // 2))

    d_head = size // config.n_heads
    model = RecurrentModel(
        config,
        RecurrentEncoder(
            embedding(source_weight), [encoder_layer() for _ in range(config.n_encoder_layers)], dropout=dropout
        ),
        RecurrentDecoder(
            embedding(target_weight),
            [_recurrence(config.cell, size, size) for _ in range(config.n_decoder_layers)],
            MultiHeadAttention(
                d_model=size,
                n_heads=config.n_heads,
                d_key=d_head,
                d_value=d_head,
                scoring=build_scoring(config.scoring, n_heads=config.n_heads, d_key=d_head),
            ),
            d_model=size,
            dropout=dropout,
        ),
        OutputProjection(weight=output_weight),
    )
    initialise(model)
    return model


def _recurrence(cell: CellName, size_in: int, size: int) -> Recurrence:
    kind = {"lstm": nn.LSTM, "gru": nn.GRU}[cell]
    return Recurrence(kind(size_in, size, batch_first=True))
