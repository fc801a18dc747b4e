"""Pegasus: what Marian is, pre-norm."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from attendo.errors import ForeignError
from attendo.interop.architecture import Architecture, Entry, Same, Setting, Unused, VocabularyRows
from attendo.interop.stacks import ONE_VOCABULARY, OUTPUT, SHARED, blocks, embeddings, logits_bias, sizes
from attendo.models.settings import TransformerConfig
from attendo.nn.positions import sinusoids

_MOST_POSITIONS = 100_000  # of a table; what claims more is damaged


def _entries(config: TransformerConfig) -> Iterator[Entry]:
    def table(said: Mapping[str, Any]) -> Tensor:
        """The sinusoids, which their files hold."""
        n_positions = said["max_position_embeddings"]
        if not isinstance(n_positions, int) or not 1 <= n_positions <= _MOST_POSITIONS:
            raise ForeignError(
                f"max_position_embeddings = {n_positions!r} was read with this Pegasus, and must be a number from 1 to "
                f"{_MOST_POSITIONS:,}. Import it again from a folder that is whole."
            )
        return sinusoids(n_positions, config.d_model, layout="halves")

    yield from embeddings() if config.tie_embeddings == "all" else _apart()
    yield logits_bias()
    for side in ("encoder", "decoder"):
        yield Unused(f"model.{side}.embed_positions.weight", written=table)
    yield from blocks(config)


def _apart() -> Iterator[Entry]:
    """A matrix each for source, target and output; there is a fourth, which nobody reads."""
    yield Same("encoder.embedding.weight", "model.encoder.embed_tokens.weight", VocabularyRows("source"))
    yield Same("decoder.embedding.weight", "model.decoder.embed_tokens.weight", VocabularyRows("target"))
    yield Same("output.weight", OUTPUT, VocabularyRows("target"))
    yield Unused(SHARED, written=lambda said: torch.zeros(said["vocab_size"], said["d_model"]))


PEGASUS = Architecture(
    name="Pegasus",
    model_type="pegasus",
    class_name="PegasusForConditionalGeneration",
    task="translate",
    kind=TransformerConfig,
    implied={"sinusoid_layout": "halves", "norm_place": "pre"},
    settings=(
        *sizes(activation="gelu", scale=False),
        Setting("tie_embeddings", "tie_word_embeddings", True, words=(("all", True), ("none", False))),
    ),
    vocabularies=ONE_VOCABULARY,
    usual=lambda _: {"max_position_embeddings": 1024},
    entries=_entries,
)
