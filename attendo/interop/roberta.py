"""RoBERTa: BERT with one kind of segments, two separators between texts, and positions that begin after the padding's.

XLM-RoBERTa is the same with another vocabulary. RoBERTa-PreLayerNorm has its norms before the layers, as attendo's own
encoders have unless they are told otherwise: it is what those are exported as.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from attendo.interop.architecture import (
    VOCABULARY,
    Architecture,
    Entry,
    Form,
    Orders,
    Same,
    Setting,
    Tied,
    VocabularyBias,
    module,
)
from attendo.interop.bert import (
    ACTIVATION,
    FILLING,
    N_LABELS,
    POOLER,
    REQUIRED,
    SIZES,
    base,
    encoder,
    not_used,
    today,
    with_pooler,
)
from attendo.interop.labels import with_n_labels
from attendo.interop.sentence_vectors import SETTINGS as VECTORS
from attendo.interop.sentence_vectors import vector_files, with_vectors
from attendo.models.settings import BertConfig, ClassifierConfig, EncoderConfig

_POSITIONS = (Setting("n_positions", "n_positions", 512), Setting("position_offset", "position_offset", 2))
_NORMS_FIRST = "roberta_prelayernorm."
_PADDING = 0  # our id


@dataclass(frozen=True)
class RowsBefore(Form):
    """Theirs has so many rows more, which stand for no position, before ours."""

    n_rows: int

    def ours(self, theirs: Tensor, orders: Orders | None) -> Tensor:  # noqa: ARG002
        return theirs[self.n_rows :]

    def theirs(self, ours: Tensor, orders: Orders | None) -> Tensor:  # noqa: ARG002
        return F.pad(ours, (0, 0, self.n_rows, 0))


def _with_positions(said: Mapping[str, Any]) -> dict[str, Any]:
    """The first position has the vector after that of the padding's id."""
    offset = said.get("pad_token_id", 1) + 1
    return {**said, "position_offset": offset, "n_positions": said.get("max_position_embeddings", 512) - offset}


def _without_positions(values: Mapping[str, Any]) -> dict[str, Any]:
    told = dict(values)
    offset, n_positions = told.pop("position_offset") or _PADDING + 1, told.pop("n_positions")
    return {**told, "pad_token_id": offset - 1, "max_position_embeddings": offset + n_positions}


def _encoder(config: EncoderConfig, stack: str) -> Iterator[Entry]:
    """A model of ours whose positions begin with the first row gets one before it, for the padding."""
    return encoder(config, stack, positions=None if config.position_offset else RowsBefore(_PADDING + 1))


def _masked(config: BertConfig, *, stack: str) -> Iterator[Entry]:
    yield from _encoder(config, stack)
    yield from module("head.inner", "lm_head.dense")
    yield from module("head.norm", "lm_head.layer_norm")
    yield Same("output.bias", "lm_head.bias", VocabularyBias("source"))
    yield Tied("lm_head.decoder.weight", to=f"{stack}embeddings.word_embeddings.weight")
    yield Tied("lm_head.decoder.bias", to="lm_head.bias")
    yield from not_used(f"{stack}pooler.dense")


def _labels(config: ClassifierConfig, *, stack: str) -> Iterator[Entry]:
    yield from _encoder(config, stack)
    yield from module("pooler.inner", "classifier.dense")
    yield from module("labels", "classifier.out_proj")
    yield from not_used(f"{stack}pooler.dense")


def _alone(config: BertConfig) -> Iterator[Entry]:
    yield from _encoder(config, "")
    if config.pooler:
        yield from module("pooler.inner", "pooler.dense")


MASKED_ROBERTA = Architecture(
    name="RoBERTa",
    model_type="roberta",
    class_name="RobertaForMaskedLM",
    task="masked-language-model",
    kind=BertConfig,
    implied={"positions": "learned", "n_separators": 2},
    settings=(*SIZES, ACTIVATION, *_POSITIONS, *VECTORS),
    vocabularies=VOCABULARY,
    required=FILLING,
    said=lambda folder: with_vectors(folder, _with_positions(folder.config)),
    told=_without_positions,
    files=vector_files,
    renamed=today,
    entries=partial(_masked, stack="roberta."),
)

LABELLING_ROBERTA = dataclasses.replace(
    MASKED_ROBERTA,
    name="RoBERTa with labels",
    class_name="RobertaForSequenceClassification",
    task="classify",
    kind=ClassifierConfig,
    settings=(*MASKED_ROBERTA.settings, N_LABELS),
    required=REQUIRED,
    said=lambda folder: _with_positions(with_n_labels(folder)),
    files=lambda _: {},  # its vectors are for its labels
    entries=partial(_labels, stack="roberta."),
)

ROBERTA = dataclasses.replace(
    MASKED_ROBERTA,
    class_name="RobertaModel",
    implied={**MASKED_ROBERTA.implied, "mask_head": False},
    settings=(*MASKED_ROBERTA.settings, POOLER),
    required=REQUIRED,
    said=lambda folder: _with_positions(with_pooler(folder, "roberta.")),
    renamed=base("roberta."),
    entries=_alone,
)

XLM_ROBERTAS = tuple(
    dataclasses.replace(one, name=f"XLM-{one.name}", model_type="xlm-roberta", class_name=f"XLM{one.class_name}")
    for one in (MASKED_ROBERTA, LABELLING_ROBERTA, ROBERTA)
)

_PRE = {"positions": "learned", "norm_place": "pre"}
# How many separators stand between two texts is not in config.json: theirs have two, attendo's own one.
_SEPARATORS = Setting("n_separators", "n_separators", 2, in_config=False)

MASKED_PRE_ROBERTA = dataclasses.replace(
    MASKED_ROBERTA,
    name="RoBERTa-PreLayerNorm",
    model_type="roberta-prelayernorm",
    class_name="RobertaPreLayerNormForMaskedLM",
    implied=_PRE,
    settings=(*MASKED_ROBERTA.settings, _SEPARATORS),
    entries=partial(_masked, stack=_NORMS_FIRST),
)

LABELLING_PRE_ROBERTA = dataclasses.replace(
    LABELLING_ROBERTA,
    name="RoBERTa-PreLayerNorm with labels",
    model_type="roberta-prelayernorm",
    class_name="RobertaPreLayerNormForSequenceClassification",
    implied=_PRE,
    settings=(*LABELLING_ROBERTA.settings, _SEPARATORS),
    entries=partial(_labels, stack=_NORMS_FIRST),
)
