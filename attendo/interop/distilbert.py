"""DistilBERT: BERT with half of the layers, and without segments."""

import dataclasses
from collections.abc import Iterator

from attendo.interop.architecture import (
    ACTIVATIONS,
    VOCABULARY,
    Architecture,
    Entry,
    Same,
    Setting,
    Tied,
    Unused,
    VocabularyBias,
    VocabularyRows,
    module,
)
from attendo.interop.bert import N_LABELS, base, layers, today
from attendo.interop.labels import with_n_labels
from attendo.interop.sentence_vectors import SETTINGS as VECTORS
from attendo.interop.sentence_vectors import vector_files, with_vectors
from attendo.models.settings import BertConfig, ClassifierConfig, EncoderConfig

_SETTINGS = (
    Setting("d_model", "dim", 768),
    Setting("n_layers", "n_layers", 6),
    Setting("n_heads", "n_heads", 12),
    Setting("d_ff", "hidden_dim", 3072),
    Setting("n_positions", "max_position_embeddings", 512),
    Setting("residual_dropout", "dropout", 0.1),
    Setting("attention_dropout", "attention_dropout", 0.1),
    *VECTORS,
)
_ACTIVATION = Setting("activation", "activation", "gelu", words=ACTIVATIONS)


def _encoder(config: EncoderConfig, stack: str) -> Iterator[Entry]:
    ours, theirs = "encoder.embedding", f"{stack}embeddings"
    yield Same(f"{ours}.weight", f"{theirs}.word_embeddings.weight", VocabularyRows("source"))
    yield Same(f"{ours}.positions.weight", f"{theirs}.position_embeddings.weight")
    yield from module(f"{ours}.norm", f"{theirs}.LayerNorm")
    yield Unused(f"{theirs}.position_ids")
    yield from layers(
        config.n_layers,
        f"{stack}transformer.layer",
        query="attention.q_lin",
        key="attention.k_lin",
        value="attention.v_lin",
        output="attention.out_lin",
        attention_norm="sa_layer_norm",
        inner="ffn.lin1",
        outer="ffn.lin2",
        feed_forward_norm="output_layer_norm",
    )


def _masked(config: BertConfig) -> Iterator[Entry]:
    yield from _encoder(config, "distilbert.")
    yield from module("head.inner", "vocab_transform")
    yield from module("head.norm", "vocab_layer_norm")
    yield Same("output.bias", "vocab_projector.bias", VocabularyBias("source"))
    yield Tied("vocab_projector.weight", to="distilbert.embeddings.word_embeddings.weight")


def _labels(config: ClassifierConfig) -> Iterator[Entry]:
    yield from _encoder(config, "distilbert.")
    yield from module("pooler.inner", "pre_classifier")
    yield from module("labels", "classifier")


MASKED_DISTILBERT = Architecture(
    name="DistilBERT",
    model_type="distilbert",
    class_name="DistilBertForMaskedLM",
    task="masked-language-model",
    kind=BertConfig,
    implied={"positions": "learned", "n_segments": 0, "norm_eps": 1e-12},
    settings=(*_SETTINGS, dataclasses.replace(_ACTIVATION, words=(("gelu", "gelu"),))),
    vocabularies=VOCABULARY,
    required={"tie_word_embeddings": True},
    said=lambda folder: with_vectors(folder, folder.config),
    files=vector_files,
    renamed=today,
    entries=_masked,
)

LABELLING_DISTILBERT = dataclasses.replace(
    MASKED_DISTILBERT,
    name="DistilBERT with labels",
    class_name="DistilBertForSequenceClassification",
    task="classify",
    kind=ClassifierConfig,
    implied={**MASKED_DISTILBERT.implied, "pooler_activation": "relu"},
    settings=(*_SETTINGS, _ACTIVATION, N_LABELS),
    required={},
    said=with_n_labels,
    files=lambda _: {},  # its vectors are for its labels
    entries=_labels,
)

DISTILBERT = dataclasses.replace(
    MASKED_DISTILBERT,
    class_name="DistilBertModel",
    implied={**MASKED_DISTILBERT.implied, "mask_head": False},
    settings=(*_SETTINGS, _ACTIVATION),
    required={},
    renamed=base("distilbert."),
    entries=lambda config: _encoder(config, ""),
)
