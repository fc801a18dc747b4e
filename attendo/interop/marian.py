"""MarianMT: the paper's Transformer, post-norm, with sines before cosines and a bias on the logits."""

from collections.abc import Iterator

from attendo.interop.architecture import Architecture, Entry, Same, Setting, Tied, VocabularyRows
from attendo.interop.stacks import N_POSITIONS, OUTPUT, blocks, embeddings, logits_bias, sinusoids, sizes
from attendo.models.settings import TransformerConfig


def _entries(config: TransformerConfig) -> Iterator[Entry]:
    if config.tie_embeddings == "all":
        yield from embeddings()
    else:
        yield Same("encoder.embedding.weight", "model.encoder.embed_tokens.weight", VocabularyRows("source"))
        yield Same("decoder.embedding.weight", "model.decoder.embed_tokens.weight", VocabularyRows("target"))
        yield Tied(OUTPUT, to="model.decoder.embed_tokens.weight")
    yield logits_bias()
    yield from sinusoids("weight")
    yield from blocks(config)


MARIAN = Architecture(
    name="Marian",
    model_type="marian",
    class_name="MarianMTModel",
    task="translate",
    kind=TransformerConfig,
    implied={"sinusoid_layout": "halves"},
    settings=(
        *sizes(activation="gelu", scale=False),
        Setting("tie_embeddings", "share_encoder_decoder_embeddings", True, words=(("all", True), ("target", False))),
    ),
    vocabularies=(("source_vocab_size", "source", "vocab_size"), ("target_vocab_size", "target", "decoder_vocab_size")),
    required={"tie_word_embeddings": True},
    usual=lambda _: {"max_position_embeddings": N_POSITIONS},
    entries=_entries,
)
