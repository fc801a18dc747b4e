"""What Marian, BART, M2M100 and their kin have in common: the names of their stacks, and of their sizes."""

from collections.abc import Iterator

from attendo.interop.architecture import ACTIVATIONS, Entry, Same, Setting, Tied, VocabularyRows, module
from attendo.models.settings import TransformerConfig

SHARED = "model.shared.weight"
OUTPUT = "lm_head.weight"


def sizes(*, layers: int, d_model: int, d_ff: int, n_heads: int, activation: str, scale: bool) -> tuple[Setting, ...]:
    """Sizes, activation and rates; what is given is what they are where config.json does not say."""
    return (
        Setting("d_model", "d_model", d_model),
        Setting("n_encoder_layers", "encoder_layers", layers),
        Setting("n_decoder_layers", "decoder_layers", layers),
        Setting("d_ff", ("encoder_ffn_dim", "decoder_ffn_dim"), d_ff),
        Setting("n_heads", ("encoder_attention_heads", "decoder_attention_heads"), n_heads),
        Setting("activation", "activation_function", activation, words=ACTIVATIONS),
        Setting("embedding_scale", "scale_embedding", scale, words=(("root", True), ("one", False))),
        Setting("residual_dropout", "dropout", 0.1),
        Setting("attention_dropout", "attention_dropout", 0.0),
        Setting("activation_dropout", "activation_dropout", 0.0),
        Setting("layer_drop", ("encoder_layerdrop", "decoder_layerdrop"), 0.0),
    )


def embeddings() -> Iterator[Entry]:
    """One matrix for source, target and output."""
    yield Same("encoder.embedding.weight", SHARED, VocabularyRows("target"))
    for name in ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", OUTPUT):
        yield Tied(name, to=SHARED)


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
