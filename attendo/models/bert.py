"""The encoder alone: BERT (Devlin et al. 2019), which tells what is behind a mask, and the classifier made from it.

Suffixes: B batch, T positions, D d_model, V vocabulary, L labels.
"""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attendo.data.text_batch import NOTHING, TextBatch
from attendo.errors import ConfigError
from attendo.models.parts import (
    attention_positions,
    build_block,
    build_embedding,
    build_final_norm,
    build_layers,
    build_span,
    embedding_positions,
    layer_norm,
)
from attendo.models.prediction import Prediction
from attendo.models.settings import BertConfig, ClassifierConfig, EncoderConfig, PoolerName, TextPoolingName
from attendo.models.transformer import Encoder
from attendo.nn.convolution import Spans
from attendo.nn.dropout import Dropout
from attendo.nn.embedding import OutputProjection, Segments
from attendo.nn.init import initialise, scale_by_depth
from attendo.nn.linear import Linear
from attendo.nn.masks import padding_mask


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
        self.inner = Linear(d_model, d_model)
        self.norm = norm

    def forward(self, x_ND: Tensor) -> Tensor:
        return self.norm(F.gelu(self.inner(x_ND)))


class Pooler(nn.Module):
    """tanh(x W + b) of the vector that stands for the text, as `text_vectors` has it. [B, D]

    DistilBERT has max(0, x W + b) (Sanh et al. 2019).
    """

    def __init__(self, *, d_model: int, pooling: TextPoolingName, activation: PoolerName = "tanh") -> None:
        super().__init__()
        self.inner = Linear(d_model, d_model)
        self.pooling = pooling
        self.activation = torch.tanh if activation == "tanh" else F.relu

    def forward(self, x_BTD: Tensor, lengths_B: Tensor) -> Tensor:
        return self.activation(self.inner(text_vectors(x_BTD, lengths_B, self.pooling)))


class Bert(TextEncoder):
    """softmax(W head(encoder(ids))): what each id was before it was hidden; and on request whether the second text
    follows the first. Without a head, an encoder that gives vectors alone."""

    def __init__(
        self,
        config: BertConfig,
        encoder: Encoder,
        head: MaskHead | None,
        output: OutputProjection | None,
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
        return self.logits(self.vectors(batch))

    def logits(self, x_ND: Tensor) -> Tensor:
        """Of what was at positions with these vectors, [N, V]."""
        head, output = self._told()
        return output(head(x_ND))

    def predictions(self, batch: TextBatch) -> Iterable[Prediction]:
        """Of all that is asked. BERT's loss is the mean over what is hidden and the mean over the rows, added up."""
        assert batch.targets_BT is not None
        x_BTD, asked_BT = self.vectors(batch), batch.targets_BT != NOTHING
        head, output = self._told()
        yield Prediction(head(x_BTD[asked_BT]), output, batch.targets_BT[asked_BT])
        if self.follows is not None and batch.labels_B is not None:
            yield Prediction(self._of_rows(x_BTD, batch), self.follows, batch.labels_B, batch.label_weight)

    def follow_logits(self, batch: TextBatch, x_BTD: Tensor) -> Tensor | None:
        """Whether the second text of each row follows the first, [B, 2], from its vectors; None: it was not learned."""
        return None if self.follows is None else self.follows(self._of_rows(x_BTD, batch))

    def _of_rows(self, x_BTD: Tensor, batch: TextBatch) -> Tensor:
        assert self.pooler is not None  # it comes with what tells
        return self.pooler(x_BTD, batch.lengths_B)

    def _told(self) -> tuple[MaskHead, OutputProjection]:
        """What tells what is hidden."""
        if self.head is None or self.output is None:
            raise ConfigError(
                "model.mask_head = False: this model is an encoder alone, and tells nothing of what is hidden. Use it "
                "with attendo embed, or make a classifier of it with attendo train --task classify --from."
            )
        return self.head, self.output


class Classifier(TextEncoder):
    """softmax(W pooler(encoder(ids)) + b): the label of a text, or of two."""

    def __init__(self, config: ClassifierConfig, encoder: Encoder, pooler: Pooler | Spans, labels: nn.Linear) -> None:
        super().__init__(encoder)
        self.config = config
        self.pooler = pooler
        self.dropout = Dropout(config.residual_dropout if config.label_dropout is None else config.label_dropout)
        self.labels = labels

    def forward(self, batch: TextBatch) -> Tensor:
        """Logits of the labels, [B, L]."""
        return self.labels(self._pooled(batch))

    def predictions(self, batch: TextBatch) -> Iterable[Prediction]:
        assert batch.labels_B is not None
        yield Prediction(self._pooled(batch), self.labels, batch.labels_B)

    def evidence(self, batch: TextBatch) -> Tensor | None:
        """What each position adds to the logits, which their sum is, but for the bias, [B, T, L]; None: not told."""
        if not isinstance(self.pooler, Spans):
            return None
        return F.linear(self.pooler.shares(self.vectors(batch), batch.lengths_B), self.labels.weight)

    def _pooled(self, batch: TextBatch) -> Tensor:
        return self.dropout(self.pooler(self.vectors(batch), batch.lengths_B))


def text_vectors(x_BTD: Tensor, lengths_B: Tensor, pooling: TextPoolingName) -> Tensor:
    """The first vector of each text, or of those at real positions the mean, or of each feature the largest, [B, D]."""
    if pooling == "first":
        return x_BTD[:, 0]
    real_BT1 = padding_mask(lengths_B, x_BTD.shape[1])[:, 0, 0, :, None]
    if pooling == "max":
        return x_BTD.masked_fill(~real_BT1, -torch.inf).amax(dim=1)
    return (x_BTD * real_BT1).sum(1) / lengths_B[:, None]


def build_bert(config: BertConfig) -> Bert:
    """Puts together the parts that the settings name, and draws the initial weights."""
    encoder, size = _encoder(config), config.d_model
    model = Bert(
        config,
        encoder,
        MaskHead(d_model=size, norm=layer_norm(config)) if config.mask_head else None,
        OutputProjection(weight=encoder.embedding.weight) if config.mask_head else None,
        Pooler(d_model=size, pooling="first") if config.next_sentence or config.pooler else None,
        nn.Linear(size, 2) if config.next_sentence else None,
    )
    initialise(model)
    if config.init_by_depth:
        scale_by_depth(list(encoder.blocks))  # type: ignore[arg-type]
    return model


def build_classifier(config: ClassifierConfig) -> Classifier:
    """Puts together the parts that the settings name, and draws the initial weights."""
    encoder, size = _encoder(config), config.d_model
    pooler: Pooler | Spans
    if config.pooling == "spans":
        pooler = Spans(d_model=size, widths=config.span_widths, n_filters=config.n_filters)
        size = len(config.span_widths) * config.n_filters
    else:
        pooler = Pooler(d_model=size, pooling=config.pooling, activation=config.pooler_activation)
    model = Classifier(config, encoder, pooler, nn.Linear(size, config.n_labels))
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
            Segments(d_model=config.d_model, n_segments=config.n_segments) if config.n_segments else None,
        ),
        build_layers(config, config.n_layers, lambda _: build_block(config, positions=around, cross=False)),
        build_final_norm(config),
        span=build_span(config),
        layer_drop=config.layer_drop,
    )
