"""T5, v1.0 (one matrix for words and output, ReLU) and v1.1 (an output of its own, gated GELU).

Pre-norm with RMSNorm, no biases, scores without a scale, and a number for each distance, the same in all layers.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from attendo.interop.architecture import (
    Architecture,
    Entry,
    Given,
    Same,
    Setting,
    Tied,
    Unused,
    VocabularyRows,
    no_bias,
)
from attendo.interop.folder import Folder
from attendo.interop.stacks import ONE_VOCABULARY
from attendo.models.settings import TransformerConfig

_SHARED, _OUTPUT = "shared.weight", "lm_head.weight"


def _said(folder: Folder) -> Mapping[str, Any]:
    """What config.json leaves out follows from the rest of it, and whether the output is tied, from the file.

    Older versions of the toolkit tie the output, and scale what goes into it, where `tie_word_embeddings` is true;
    newer ones say of the scale apart, and tie the output unless the file has one of its own.
    """
    said = dict(folder.config)
    tied = said.get("tie_word_embeddings", True)
    said.setdefault("scale_decoder_outputs", tied)
    said["tie_word_embeddings"] = _OUTPUT not in folder.shapes
    if said.get("num_decoder_layers") is None and "num_layers" in said:
        said["num_decoder_layers"] = said["num_layers"]
    return said


def _entries(config: TransformerConfig) -> Iterator[Entry]:
    yield Same("encoder.embedding.weight", _SHARED, VocabularyRows("target"))
    for side in ("encoder", "decoder"):
        yield Tied(f"{side}.embed_tokens.weight", to=_SHARED)
    if config.tie_embeddings == "inputs":
        yield Same("output.weight", _OUTPUT, VocabularyRows("target"))
    yield Given("output.bias", no_bias())
    for side, n_layers in (("encoder", config.n_encoder_layers), ("decoder", config.n_decoder_layers)):
        first = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        yield Same(f"{side}.blocks.0.attention.positions.weight", first)
        for number in range(n_layers):
            yield from _block(
                config, f"{side}.blocks.{number}", f"{side}.block.{number}.layer", cross=side == "decoder"
            )
        yield Same(f"{side}.final_norm.weight", f"{side}.final_layer_norm.weight")
    # Files of the first models have one that no version of the toolkit has used.
    yield Unused("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight")


def _block(config: TransformerConfig, ours: str, theirs: str, *, cross: bool) -> Iterator[Entry]:
    attentions = [("attention", "SelfAttention"), ("cross_attention", "EncDecAttention")][: 2 if cross else 1]
    for place, (our_name, their_name) in enumerate(attentions):
        for one, letter in (("query", "q"), ("key", "k"), ("value", "v"), ("output", "o")):
            yield Same(f"{ours}.{our_name}.{one}.weight", f"{theirs}.{place}.{their_name}.{letter}.weight")
        yield Same(f"{ours}.{our_name}_residual.norm.weight", f"{theirs}.{place}.layer_norm.weight")
    last = f"{theirs}.{len(attentions)}"
    gated = config.activation in ("geglu", "swiglu")
    inner = (("inner", "wi_0"), ("gate", "wi_1")) if gated else (("inner", "wi"),)
    for one, name in (*inner, ("outer", "wo")):
        yield Same(f"{ours}.feed_forward.{one}.weight", f"{last}.DenseReluDense.{name}.weight")
    yield Same(f"{ours}.feed_forward_residual.norm.weight", f"{last}.layer_norm.weight")


T5 = Architecture(
    name="T5",
    model_type="t5",
    class_name="T5ForConditionalGeneration",
    task="translate",
    kind=TransformerConfig,
    implied={
        "positions": "t5",
        "scoring": "dot",
        "norm": "rmsnorm",
        "norm_place": "pre",
        "biases": False,
        "output_bias": False,
        "embedding_scale": "one",
    },
    settings=(
        Setting("d_model", "d_model", 512),
        Setting("d_ff", "d_ff", 2048),
        Setting("n_heads", "num_heads", 8),
        Setting("d_key", "d_kv", 64),
        Setting("d_value", "d_kv", 64),
        Setting("n_encoder_layers", "num_layers", 6),
        Setting("n_decoder_layers", "num_decoder_layers", 6),
        Setting("n_buckets", "relative_attention_num_buckets", 32),
        Setting("bucket_distance", "relative_attention_max_distance", 128),
        Setting("norm_eps", "layer_norm_epsilon", 1e-6),
        Setting(
            "activation",
            "feed_forward_proj",
            "relu",
            words=(
                ("relu", "relu"),
                ("gelu", "gelu"),
                ("silu", "silu"),
                ("geglu", "gated-gelu"),
                ("swiglu", "gated-silu"),
            ),
        ),
        Setting("tie_embeddings", "tie_word_embeddings", True, words=(("all", True), ("inputs", False))),
        Setting("output_scale", "scale_decoder_outputs", True, words=(("root", True), ("one", False))),
        Setting("attention_dropout", "dropout_rate", 0.1),
        Setting("activation_dropout", "dropout_rate", 0.1),
        Setting("residual_dropout", "dropout_rate", 0.1),
    ),
    vocabularies=ONE_VOCABULARY,
    said=_said,
    entries=_entries,
)
