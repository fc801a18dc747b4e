"""The encoder alone: BERT (Devlin et al. 2019), which tells what is behind a mask, and the classifier made from it.

Suffixes: B batch, T positions, D d_model, V vocabulary, L labels.
"""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attendo.data.text_batch import NOTHING, TextBatch
from attendo.models.parts import (
    attention_positions,
    build_block,
    build_embedding,
    build_final_norm,
    build_layers,
    build_span,
    embedding_positions,
)
from attendo.models.settings import BertConfig, ClassifierConfig, EncoderConfig, PoolingName
from attendo.models.transformer import Encoder
from attendo.nn.dropout import Dropout
from attendo.nn.embedding import OutputProjection, Segments
from attendo.nn.init import initialise, scale_by_depth
from attendo.nn.masks import padding_mask
from attendo.nn.norm import build_norm

Prediction = tuple[Tensor, OutputProjection | nn.Linear, Tensor]


class TextEncoder(nn.Module):
    """Vectors of a text, each of which has seen all of it. Rows are `<s> text </s>` or `<s> text </s> text </s>`."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def vectors(self, batch: TextBatch) -> Tensor:
        """[B, T, D]"""
        mask = padding_mask(batch.lengths_B, batch.ids_BT.shape[1])
        return self.encoder(batch.ids_BT, mask, batch.segments_BT)


class MaskHead(nn.Module):
    """norm(GELU(x W + b)): what stands between the encoder and the output."""

    def __init__(self, *, d_model: int, norm: nn.Module) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, d_model)
        self.norm = norm

    def forward(self, x_ND: Tensor) -> Tensor:
        return self.norm(F.gelu(self.inner(x_ND)))


class Pooler(nn.Module):
    """tanh(x W + b) of the vector that stands for the text: its first, or the mean of all real ones. [B, D]"""

    def __init__(self, *, d_model: int, pooling: PoolingName) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, d_model)
        self.pooling = pooling

    def forward(self, x_BTD: Tensor, lengths_B: Tensor) -> Tensor:
        x_BD = x_BTD[:, 0] if self.pooling == "first" else mean_vectors(x_BTD, lengths_B)
        return self.inner(x_BD).tanh()


class Bert(TextEncoder):
    """softmax(W head(encoder(ids))): what each id was before it was hidden; and on request whether the second text
    follows the first."""

    def __init__(
        self,
        config: BertConfig,
        encoder: Encoder,
        head: MaskHead,
        output: OutputProjection,
        pooler: Pooler | None,
        follows: nn.Linear | None,
    ) -> None:
        super().__init__(encoder)
        self.config = config
        self.head = head
        self.output = output
        self.pooler = pooler
        self.follows = follows

    def forward(self, batch: TextBatch) -> Tensor:
        """Logits of what each id was, [B, T, V]."""
        return self.output(self.head(self.vectors(batch)))

    def predictions(self, batch: TextBatch) -> Iterable[Prediction]:
        """(vectors, what makes logits of them, what should come out) of all that is asked."""
        assert batch.targets_BT is not None
        x_BTD, asked_BT = self.vectors(batch), batch.targets_BT != NOTHING
        yield self.head(x_BTD[asked_BT]), self.output, batch.targets_BT[asked_BT]
        if self.pooler is not None and self.follows is not None and batch.labels_B is not None:
            yield self.pooler(x_BTD, batch.lengths_B), self.follows, batch.labels_B


class Classifier(TextEncoder):
    """softmax(W pooler(encoder(ids)) + b): the label of a text, or of two."""

    def __init__(self, config: ClassifierConfig, encoder: Encoder, pooler: Pooler, labels: nn.Linear) -> None:
        super().__init__(encoder)
        self.config = config
        self.pooler = pooler
        self.dropout = Dropout(config.residual_dropout)
        self.labels = labels

    def forward(self, batch: TextBatch) -> Tensor:
        """Logits of the labels, [B, L]."""
        return self.labels(self._pooled(batch))

    def predictions(self, batch: TextBatch) -> Iterable[Prediction]:
        assert batch.labels_B is not None
        yield self._pooled(batch), self.labels, batch.labels_B

    def _pooled(self, batch: TextBatch) -> Tensor:
        return self.dropout(self.pooler(self.vectors(batch), batch.lengths_B))


def mean_vectors(x_BTD: Tensor, lengths_B: Tensor) -> Tensor:
    """The mean of the vectors at real positions, [B, D]."""
    real_BT1 = padding_mask(lengths_B, x_BTD.shape[1])[:, 0, 0, :, None]
    return (x_BTD * real_BT1).sum(1) / lengths_B[:, None]


def build_bert(config: BertConfig) -> Bert:
    """Puts together the parts that the settings name, and draws the initial weights."""
    encoder, size = _encoder(config), config.d_model
    model = Bert(
        config,
        encoder,
        MaskHead(d_model=size, norm=build_norm(config.norm, size)),
        OutputProjection(weight=encoder.embedding.weight),
        Pooler(d_model=size, pooling="first") if config.next_sentence else None,
        nn.Linear(size, 2) if config.next_sentence else None,
    )
    initialise(model)
    if config.init_by_depth:
        scale_by_depth(list(encoder.blocks))  # type: ignore[arg-type]
    return model


def build_classifier(config: ClassifierConfig) -> Classifier:
    """Puts together the parts that the settings name, and draws the initial weights."""
    encoder, size = _encoder(config), config.d_model
    model = Classifier(config, encoder, Pooler(d_model=size, pooling=config.pooling), nn.Linear(size, config.n_labels))
    initialise(model)
    if config.init_by_depth:
        scale_by_depth(list(encoder.blocks))  # type: ignore[arg-type]
    return model


def _encoder(config: EncoderConfig) -> Encoder:
    around = attention_positions(config, both_ways=True)
    weight = nn.Parameter(torch.empty(config.vocab_size, config.d_model))
    return Encoder(
        build_embedding(
            config,
            weight,
            embedding_positions(config, config.vocab_size),
            Segments(d_model=config.d_model, n_segments=2),
        ),
        build_layers(config, config.n_layers, lambda _: build_block(config, positions=around, cross=False)),
        build_final_norm(config),
        span=build_span(config),
        layer_drop=config.layer_drop,
    )
