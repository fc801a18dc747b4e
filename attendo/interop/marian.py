"""MarianMT: the paper's Transformer, post-norm, with sines before cosines and a bias on the logits."""

from collections.abc import Iterator

from attendo.interop.architecture import (
    Architecture,
    Entry,
    Same,
    Setting,
    Tied,
    Unused,
    VocabularyBias,
    VocabularyRows,
)
from attendo.interop.stacks import OUTPUT, blocks, embeddings, sizes
from attendo.models.settings import TransformerConfig


def _entries(config: TransformerConfig) -> Iterator[Entry]:
    if config.tie_embeddings == "all":
        yield from embeddings()
    else:
        yield Same("encoder.embedding.weight", "model.encoder.embed_tokens.weight", VocabularyRows("source"))
        yield Same("decoder.embedding.weight", "model.decoder.embed_tokens.weight", VocabularyRows("target"))
        yield Tied(OUTPUT, to="model.decoder.embed_tokens.weight")
    yield Same("output.bias", "final_logits_bias", VocabularyBias("target", n_axes=1), optional=True)
    yield Unused("model.encoder.embed_positions.weight")
    yield Unused("model.decoder.embed_positions.weight")
    yield from blocks(config)


MARIAN = Architecture(
    name="Marian",
    model_type="marian",
    class_name="MarianMTModel",
    task="translate",
    kind=TransformerConfig,
    implied={"sinusoid_layout": "halves"},
    settings=(
        *sizes(layers=12, d_model=1024, d_ff=4096, n_heads=16, activation="gelu", scale=False),
        Setting("tie_embeddings", "share_encoder_decoder_embeddings", True, words=(("all", True), ("target", False))),
    ),
    vocabularies=(("source_vocab_size", "source", "vocab_size"), ("target_vocab_size", "target", "decoder_vocab_size")),
    required={"tie_word_embeddings": True},
    written={"max_position_embeddings": 1024},
    entries=_entries,
)
