"""RoBERTa: BERT with one kind of segments, two separators between texts, and positions that begin after the padding's.

XLM-RoBERTa and CamemBERT are the same with other vocabularies. RoBERTa with its norms before the layers is what BERT is
in attendo unless it is told otherwise.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from attendo.interop.architecture import Architecture, Entry, Same, Setting, Tied, VocabularyBias, module
from attendo.interop.bert import (
    FILLING,
    N_LABELS,
    REQUIRED,
    SIZES,
    VOCABULARY,
    base,
    encoder,
    not_used,
    today,
    with_pooler,
    without_pooler,
)
from attendo.interop.folder import Folder
from attendo.interop.labels import with_n_labels, without_n_labels
from attendo.interop.sentence_vectors import SETTINGS as VECTORS
from attendo.interop.sentence_vectors import vector_files, with_vectors, without_vectors
from attendo.models.settings import BertConfig, ClassifierConfig

_POSITIONS = (Setting("n_positions", "n_positions", 512), Setting("position_offset", "position_offset", 2))


def _with_positions(said: Mapping[str, Any]) -> dict[str, Any]:
    """The first position has the vector after that of the padding's id."""
    offset = said.get("pad_token_id", 1) + 1
    return {**said, "position_offset": offset, "n_positions": said.get("max_position_embeddings", 512) - offset}


def _without_positions(values: Mapping[str, Any]) -> dict[str, Any]:
    told = dict(values)
    offset, n_positions = told.pop("position_offset"), told.pop("n_positions")
    return {**told, "pad_token_id": offset - 1, "max_position_embeddings": offset + n_positions}


def _with_labels(folder: Folder) -> dict[str, Any]:
    return _with_positions(with_n_labels(folder))


def _masked(config: BertConfig) -> Iterator[Entry]:
    yield from encoder(config, "roberta.")
    yield from module("head.inner", "lm_head.dense")
    yield from module("head.norm", "lm_head.layer_norm")
    yield Same("output.bias", "lm_head.bias", VocabularyBias("source"))
    yield Tied("lm_head.decoder.weight", to="roberta.embeddings.word_embeddings.weight")
    yield Tied("lm_head.decoder.bias", to="lm_head.bias")
    yield from not_used("roberta.pooler.dense")


def _labels(config: ClassifierConfig) -> Iterator[Entry]:
    yield from encoder(config, "roberta.")
    yield from module("pooler.inner", "classifier.dense")
    yield from module("labels", "classifier.out_proj")
    yield from not_used("roberta.pooler.dense")


def _alone(config: BertConfig) -> Iterator[Entry]:
    yield from encoder(config, "")
    if config.pooler:
        yield from module("pooler.inner", "pooler.dense")


MASKED_ROBERTA = Architecture(
    name="RoBERTa",
    model_type="roberta",
    class_name="RobertaForMaskedLM",
    task="masked-language-model",
    kind=BertConfig,
    implied={"positions": "learned", "n_separators": 2},
    settings=(*SIZES, *_POSITIONS, *VECTORS),
    vocabularies=VOCABULARY,
    required=FILLING,
    said=lambda folder: with_vectors(folder, _with_positions(folder.config)),
    told=lambda values: without_vectors(_without_positions(values)),
    renamed=today,
    entries=_masked,
)

LABELLING_ROBERTA = dataclasses.replace(
    MASKED_ROBERTA,
    name="RoBERTa with labels",
    class_name="RobertaForSequenceClassification",
    task="classify",
    kind=ClassifierConfig,
    settings=(*MASKED_ROBERTA.settings, N_LABELS),
    required=REQUIRED,
    said=_with_labels,
    told=lambda values: without_vectors(without_n_labels(_without_positions(values))),
    entries=_labels,
)

ROBERTA = dataclasses.replace(
    MASKED_ROBERTA,
    class_name="RobertaModel",
    implied={**MASKED_ROBERTA.implied, "mask_head": False},
    settings=(*MASKED_ROBERTA.settings, Setting("pooler", "add_pooling_layer", True)),
    required=REQUIRED,
    said=lambda folder: _with_positions(with_pooler(folder, "roberta.")),
    told=lambda values: without_pooler(_without_positions(values)),
    files=vector_files,
    renamed=base("roberta."),
    entries=_alone,
)
