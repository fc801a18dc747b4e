"""What Marian, BART, M2M100 and their kin have in common: the names of their stacks, and of their sizes."""

from collections.abc import Iterator

import torch

from attendo.interop.architecture import (
    ACTIVATIONS,
    Entry,
    Same,
    Setting,
    Side,
    Tied,
    Unused,
    VocabularyBias,
    VocabularyRows,
    module,
)
from attendo.models.settings import TransformerConfig

# One vocabulary, and one size of it.
ONE_VOCABULARY: tuple[tuple[str, Side, str], ...] = (
    ("source_vocab_size", "source", "vocab_size"),
    ("target_vocab_size", "target", "vocab_size"),
)
N_POSITIONS = 1024  # of sinusoids, which have an end there; more where texts are longer
SHARED = "model.shared.weight"
OUTPUT = "lm_head.weight"
# Whether source, target and output have one matrix or one each.
TIED = Setting("tie_embeddings", "tie_word_embeddings", True, words=(("all", True), ("none", False)))


def sizes(
    *, activation: str, scale: bool, attention_dropout: float = 0.0, layer_drop: float = 0.0
) -> tuple[Setting, ...]:
    """Sizes, activation and rates; what is given here is what they are where config.json does not say."""
    return (
        Setting("d_model", "d_model", 1024),
        Setting("n_encoder_layers", "encoder_layers", 12),
        Setting("n_decoder_layers", "decoder_layers", 12),
        Setting("d_ff", ("encoder_ffn_dim", "decoder_ffn_dim"), 4096),
        Setting("n_heads", ("encoder_attention_heads", "decoder_attention_heads"), 16),
        Setting("activation", "activation_function", activation, words=ACTIVATIONS),
        Setting("embedding_scale", "scale_embedding", scale, words=(("root", True), ("one", False))),
        Setting("residual_dropout", "dropout", 0.1),
        Setting("attention_dropout", "attention_dropout", attention_dropout),
        Setting("activation_dropout", "activation_dropout", 0.0),
        Setting("layer_drop", "encoder_layerdrop", layer_drop),
    )


def embeddings() -> Iterator[Entry]:
    """One matrix for source, target and output."""
    yield Same("encoder.embedding.weight", SHARED, VocabularyRows("target"))
    for name in ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", OUTPUT):
        yield Tied(name, to=SHARED)


def embeddings_apart() -> Iterator[Entry]:
    """A matrix each for source, target and output; there is a fourth, which nobody reads."""
    yield Same("encoder.embedding.weight", "model.encoder.embed_tokens.weight", VocabularyRows("source"))
    yield Same("decoder.embedding.weight", "model.decoder.embed_tokens.weight", VocabularyRows("target"))
    yield Same("output.weight", OUTPUT, VocabularyRows("target"))
    yield Unused(SHARED, written=lambda said: torch.zeros(said["vocab_size"], said["d_model"]))


def logits_bias() -> Entry:
    return Same("output.bias", "final_logits_bias", VocabularyBias("target", n_axes=1), optional=True)


def sinusoids(name: str) -> Iterator[Entry]:
    """The tables that both toolkits compute, and that older files have."""
    for side in ("encoder", "decoder"):
        yield Unused(f"model.{side}.embed_positions.{name}")


def learned_positions() -> Iterator[Entry]:
    for side in ("encoder", "decoder"):
        yield Same(f"{side}.embedding.positions.weight", f"model.{side}.embed_positions.weight")


def embedding_norms() -> Iterator[Entry]:
    for side in ("encoder", "decoder"):
        yield from module(f"{side}.embedding.norm", f"model.{side}.layernorm_embedding")


def blocks(config: TransformerConfig) -> Iterator[Entry]:
    """The layers of both stacks, and the norms after them where there are some."""
    for side, n_layers in (("encoder", config.n_encoder_layers), ("decoder", config.n_decoder_layers)):
        for number in range(n_layers):
            ours, theirs = f"{side}.blocks.{number}", f"model.{side}.layers.{number}"
            yield from attention(f"{ours}.attention", f"{theirs}.self_attn")
            if side == "decoder":
                yield from attention(f"{ours}.cross_attention", f"{theirs}.encoder_attn")
            yield from module(f"{ours}.feed_forward.inner", f"{theirs}.fc1")
            yield from module(f"{ours}.feed_forward.outer", f"{theirs}.fc2")
            yield from module(f"{ours}.feed_forward_residual.norm", f"{theirs}.final_layer_norm")
        if config.norm_place != "post":
            yield from module(f"{side}.final_norm", f"model.{side}.layer_norm")


def attention(ours: str, theirs: str) -> Iterator[Entry]:
    """Four matrices, and the norm of the line they stand in."""
    names = (
        ("query", "q_proj"),
        ("key", "k_proj"),
        ("value", "v_proj"),
        ("output", "out_proj"),
    )
    for our_name, their_name in names:
        yield from module(f"{ours}.{our_name}", f"{theirs}.{their_name}")
    yield from module(f"{ours}_residual.norm", f"{theirs}_layer_norm")
