"""BERT: an encoder, with what tells hidden words, with labels, or alone.

RoBERTa's stack has the same names, and what is here serves it as well.
"""

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from torch import Tensor

from attendo.interop.architecture import (
    ACTIVATIONS,
    VOCABULARY,
    Architecture,
    Entry,
    Form,
    Orders,
    Same,
    Setting,
    Tied,
    Unused,
    VocabularyBias,
    VocabularyRows,
    module,
)
from attendo.interop.folder import Folder
from attendo.interop.labels import with_n_labels
from attendo.interop.sentence_vectors import SETTINGS as VECTORS
from attendo.interop.sentence_vectors import vector_files, with_vectors
from attendo.models.settings import BertConfig, ClassifierConfig, EncoderConfig

SIZES = (
    Setting("d_model", "hidden_size", 768),
    Setting("n_layers", "num_hidden_layers", 12),
    Setting("n_heads", "num_attention_heads", 12),
    Setting("d_ff", "intermediate_size", 3072),
    Setting("n_segments", "type_vocab_size", 2, refused=(0,)),
    Setting("norm_eps", "layer_norm_eps", 1e-12),
    Setting("residual_dropout", "hidden_dropout_prob", 0.1),
    Setting("attention_dropout", "attention_probs_dropout_prob", 0.1),
)
N_LABELS = Setting("n_labels", "num_labels", 2, in_config=False)  # it follows from their names
POOLER = Setting("pooler", "add_pooling_layer", True, in_config=False)
REQUIRED = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
FILLING = {**REQUIRED, "tie_word_embeddings": True}
ACTIVATION = Setting("activation", "hidden_act", "gelu", words=ACTIVATIONS)
# What fills a gap is made by a GELU in attendo, whatever the layers have, and in BERT by what these have.
_GELU = dataclasses.replace(ACTIVATION, words=(("gelu", "gelu"),))
_POSITIONS = Setting("n_positions", "max_position_embeddings", 512)


class Reversed(Form):
    """The rows in the other order: with them the first of two labels says that a text follows, with us the second."""

    def ours(self, theirs: Tensor, orders: Orders | None) -> Tensor:  # noqa: ARG002
        return theirs.flip(0)

    def theirs(self, ours: Tensor, orders: Orders | None) -> Tensor:  # noqa: ARG002
        return ours.flip(0)


def encoder(config: EncoderConfig, stack: str, *, positions: Form | None = None) -> Iterator[Entry]:
    """The embeddings and the layers; `stack` is how their names begin."""
    ours, theirs = "encoder.embedding", f"{stack}embeddings"
    yield Same(f"{ours}.weight", f"{theirs}.word_embeddings.weight", VocabularyRows("source"))
    yield Same(f"{ours}.positions.weight", f"{theirs}.position_embeddings.weight", positions or Form())
    if config.n_segments:
        yield Same(f"{ours}.segments.weight", f"{theirs}.token_type_embeddings.weight")
    yield from module(f"{ours}.norm", f"{theirs}.LayerNorm")
    yield Unused(f"{theirs}.position_ids")
    post = config.norm_place == "post"
    yield from layers(
        config.n_layers,
        f"{stack}encoder.layer",
        query="attention.self.query",
        key="attention.self.key",
        value="attention.self.value",
        output="attention.output.dense",
        attention_norm="attention.output.LayerNorm" if post else "attention.LayerNorm",
        inner="intermediate.dense",
        outer="output.dense",
        feed_forward_norm="output.LayerNorm" if post else "intermediate.LayerNorm",
    )
    if not post:
        yield from module("encoder.final_norm", f"{stack}LayerNorm")


def layers(
    n_layers: int,
    stack: str,
    *,
    query: str,
    key: str,
    value: str,
    output: str,
    attention_norm: str,
    inner: str,
    outer: str,
    feed_forward_norm: str,
) -> Iterator[Same]:
    """The layers of an encoder; `stack` is how their names begin, and the others what each module is called there."""
    names = {
        "attention.query": query,
        "attention.key": key,
        "attention.value": value,
        "attention.output": output,
        "attention_residual.norm": attention_norm,
        "feed_forward.inner": inner,
        "feed_forward.outer": outer,
        "feed_forward_residual.norm": feed_forward_norm,
    }
    for number in range(n_layers):
        for ours, theirs in names.items():
            yield from module(f"encoder.blocks.{number}.{ours}", f"{stack}.{number}.{theirs}")


def not_used(*modules: str) -> Iterator[Entry]:
    """Layers that a file may have left from a model with another head."""
    for name in modules:
        yield Unused(f"{name}.weight")
        yield Unused(f"{name}.bias")


def with_pooler(folder: Folder, stack: str) -> dict[str, Any]:
    """What the files say of a model without a head: whether there is a pooler, only its tensors say."""
    there = any(name.removeprefix(stack).startswith("pooler.") for name in folder.shapes)
    return with_vectors(folder, {**folder.config, "add_pooling_layer": there})


def today(name: str) -> str:
    """The first files call a norm's gain and bias gamma and beta."""
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def base(stack: str) -> Callable[[str], str]:
    """A model without a head has no beginning of its names in common; one that was saved with its head has."""
    return lambda name: today(name).removeprefix(stack)


def _masked(config: BertConfig) -> Iterator[Entry]:
    yield from encoder(config, "bert.")
    head, words = "cls.predictions", "bert.embeddings.word_embeddings.weight"
    yield from module("head.inner", f"{head}.transform.dense")
    yield from module("head.norm", f"{head}.transform.LayerNorm")
    yield Same("output.bias", f"{head}.bias", VocabularyBias("source"))
    yield Tied(f"{head}.decoder.weight", to=words)
    yield Tied(f"{head}.decoder.bias", to=f"{head}.bias")
    if config.next_sentence:
        yield from module("pooler.inner", "bert.pooler.dense")
        for name in ("weight", "bias"):
            yield Same(f"follows.{name}", f"cls.seq_relationship.{name}", Reversed())
    else:
        yield from not_used("bert.pooler.dense", "cls.seq_relationship")


def _labels(config: ClassifierConfig) -> Iterator[Entry]:
    yield from encoder(config, "bert.")
    yield from module("pooler.inner", "bert.pooler.dense")
    yield from module("labels", "classifier")


def _alone(config: BertConfig) -> Iterator[Entry]:
    yield from encoder(config, "")
    if config.pooler:
        yield from module("pooler.inner", "pooler.dense")


MASKED_BERT = Architecture(
    name="BERT",
    model_type="bert",
    class_name="BertForMaskedLM",
    task="masked-language-model",
    kind=BertConfig,
    implied={"positions": "learned"},
    settings=(*SIZES, _GELU, _POSITIONS, *VECTORS),
    vocabularies=VOCABULARY,
    required=FILLING,
    said=lambda folder: with_vectors(folder, folder.config),
    files=vector_files,
    renamed=today,
    entries=_masked,
)

PRETRAINED_BERT = dataclasses.replace(
    MASKED_BERT,
    class_name="BertForPreTraining",
    implied={**MASKED_BERT.implied, "next_sentence": True},
)

LABELLING_BERT = dataclasses.replace(
    MASKED_BERT,
    name="BERT with labels",
    class_name="BertForSequenceClassification",
    task="classify",
    kind=ClassifierConfig,
    settings=(*SIZES, ACTIVATION, _POSITIONS, *VECTORS, N_LABELS),
    required=REQUIRED,
    said=with_n_labels,
    files=lambda _: {},  # its vectors are for its labels
    entries=_labels,
)

BERT = dataclasses.replace(
    MASKED_BERT,
    class_name="BertModel",
    implied={**MASKED_BERT.implied, "mask_head": False},
    settings=(*SIZES, ACTIVATION, _POSITIONS, *VECTORS, POOLER),
    required=REQUIRED,
    said=partial(with_pooler, stack="bert."),
    renamed=base("bert."),
    entries=_alone,
)
