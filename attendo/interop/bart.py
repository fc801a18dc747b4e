"""BART, post-norm, and mBART, pre-norm: learned positions, of which the first two stand for none, and a norm on top."""

from collections.abc import Iterator
from typing import Any

from attendo.interop.architecture import Architecture, Entry, Setting
from attendo.interop.folder import Folder, said_id
from attendo.interop.stacks import (
    ONE_VOCABULARY,
    blocks,
    embedding_norms,
    embeddings,
    learned_positions,
    logits_bias,
    sizes,
)
from attendo.models.settings import TransformerConfig

_PARTS = {"positions": "learned", "position_offset": 2, "embedding_norm": True}
_SETTINGS = (*sizes(activation="gelu", scale=False), Setting("n_positions", "max_position_embeddings", 1024))


def _entries(config: TransformerConfig) -> Iterator[Entry]:
    yield from embeddings()
    yield logits_bias()
    yield from learned_positions()
    yield from embedding_norms()
    yield from blocks(config)


BART = Architecture(
    name="BART",
    model_type="bart",
    class_name="BartForConditionalGeneration",
    task="translate",
    kind=TransformerConfig,
    implied=_PARTS,
    settings=_SETTINGS,
    vocabularies=ONE_VOCABULARY,
    required={"tie_word_embeddings": True},
    entries=_entries,
)


def _with_end(folder: Folder) -> dict[str, Any]:
    """What config.json says, and how a source ends: </s> where decoding starts with that (50 languages) or with <s>
    (what was trained here), and a language behind it where decoding starts with a language (25 of them)."""
    start, *others = (said_id(folder, key) for key in ("decoder_start_token_id", "eos_token_id", "bos_token_id"))
    return {**folder.config, "read_end": start in others}


MBART = Architecture(
    name="mBART",
    model_type="mbart",
    class_name="MBartForConditionalGeneration",
    task="translate",
    kind=TransformerConfig,
    implied={**_PARTS, "norm_place": "pre"},
    settings=(*_SETTINGS, Setting("read_end", "read_end", True, in_config=False)),
    vocabularies=ONE_VOCABULARY,
    required={"tie_word_embeddings": True},
    said=_with_end,
    entries=_entries,
)
