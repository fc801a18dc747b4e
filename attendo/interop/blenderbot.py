"""Blenderbot: pre-norm, with learned positions that are added to the embeddings and nothing on top of them."""

from collections.abc import Iterator

from attendo.interop.architecture import Architecture, Entry, Setting
from attendo.interop.stacks import (
    ONE_VOCABULARY,
    TIED,
    blocks,
    embeddings,
    embeddings_apart,
    learned_positions,
    logits_bias,
    sizes,
)
from attendo.models.settings import TransformerConfig


def _entries(config: TransformerConfig) -> Iterator[Entry]:
    yield from embeddings() if config.tie_embeddings == "all" else embeddings_apart()
    yield logits_bias()
    yield from learned_positions()
    yield from blocks(config)


BLENDERBOT = Architecture(
    name="Blenderbot",
    model_type="blenderbot",
    class_name="BlenderbotForConditionalGeneration",
    task="translate",
    kind=TransformerConfig,
    implied={"positions": "learned", "norm_place": "pre"},
    settings=(
        *sizes(activation="gelu", scale=False),
        TIED,
        Setting("n_positions", "max_position_embeddings", 128),
    ),
    vocabularies=ONE_VOCABULARY,
    # What a chatbot wants of `generate` is not for translations; unless config.json says otherwise, it would be so.
    usual=lambda _: {"encoder_no_repeat_ngram_size": 0, "forced_eos_token_id": None},
    entries=_entries,
)
