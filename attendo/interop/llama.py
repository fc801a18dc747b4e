"""Llama: the decoder alone, with rotary positions, RMSNorm before each sublayer, SwiGLU, and mostly no biases."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from attendo.errors import ForeignError
from attendo.interop.architecture import (
    VOCABULARY,
    Architecture,
    Entry,
    Form,
    Orders,
    Same,
    Setting,
    Unused,
    VocabularyRows,
)
from attendo.interop.folder import Folder
from attendo.interop.gpt2 import output
from attendo.models.settings import GPTConfig

_WORDS = "model.embed_tokens.weight"


@dataclass(frozen=True)
class TurnedRows(Form):
    """The rows of queries or keys, whose features are turned in pairs: theirs i and i + d_key/2, ours 2i and 2i + 1."""

    d_key: int

    def ours(self, theirs: Tensor, orders: Orders | None) -> Tensor:  # noqa: ARG002
        return theirs.unflatten(0, (-1, 2, self.d_key // 2)).transpose(1, 2).flatten(0, 2)

    def theirs(self, ours: Tensor, orders: Orders | None) -> Tensor:  # noqa: ARG002
        return ours.unflatten(0, (-1, self.d_key // 2, 2)).transpose(1, 2).flatten(0, 2)


def _said(folder: Folder) -> dict[str, Any]:
    """With the base of its rotary positions, which stands in one of two places, and what follows from other sizes."""
    said = dict(folder.config)
    turning = said.pop("rope_parameters", None) or said.pop("rope_scaling", None) or {}
    kind = turning.get("rope_type", turning.get("type", "default"))
    if kind != "default":
        raise ForeignError(
            f"{folder.path / 'config.json'}: rotary positions of the kind {kind!r} are something that attendo has not: "
            "it knows 'default', where all turn by the same rule."
        )
    said["rope_theta"] = turning.get("rope_theta", said.get("rope_theta", 10000.0))
    heads = said.setdefault("num_attention_heads", 32)
    if said.get("head_dim") is None:
        said["head_dim"] = said.get("hidden_size", 4096) // heads
    if said.get("num_key_value_heads") is None:
        said["num_key_value_heads"] = heads
    return said


def _told(values: dict[str, Any]) -> dict[str, Any]:
    told = dict(values)
    return {**told, "rope_parameters": {"rope_type": "default", "rope_theta": told["rope_theta"]}}


def _entries(config: GPTConfig) -> Iterator[Entry]:
    yield Same("decoder.embedding.weight", _WORDS, VocabularyRows("source"))
    turned, plain = TurnedRows(config.key_size), Form()
    for number in range(config.n_layers):
        ours, theirs = f"decoder.blocks.{number}", f"model.layers.{number}"
        for one, name, form in (
            ("attention.query", "self_attn.q_proj", turned),
            ("attention.key", "self_attn.k_proj", turned),
            ("attention.value", "self_attn.v_proj", plain),
            ("attention.output", "self_attn.o_proj", plain),
            ("feed_forward.inner", "mlp.gate_proj", plain),
            ("feed_forward.gate", "mlp.up_proj", plain),
            ("feed_forward.outer", "mlp.down_proj", plain),
        ):
            for what in ("weight", "bias") if config.biases else ("weight",):
                yield Same(f"{ours}.{one}.{what}", f"{theirs}.{name}.{what}", form)
        yield Same(f"{ours}.attention_residual.norm.weight", f"{theirs}.input_layernorm.weight")
        yield Same(f"{ours}.feed_forward_residual.norm.weight", f"{theirs}.post_attention_layernorm.weight")
        yield Unused(f"{theirs}.self_attn.rotary_emb.inv_freq")
    yield Same("decoder.final_norm.weight", "model.norm.weight")
    yield from output(config, words=_WORDS)


LLAMA = Architecture(
    name="Llama",
    model_type="llama",
    class_name="LlamaForCausalLM",
    task="language-model",
    kind=GPTConfig,
    implied={
        "positions": "rotary",
        "norm": "rmsnorm",
        "norm_place": "pre",
        "activation": "swiglu",
        "embedding_scale": "one",
        "output_bias": False,
    },
    settings=(
        Setting("d_model", "hidden_size", 4096),
        Setting("n_layers", "num_hidden_layers", 32),
        Setting("n_heads", "num_attention_heads", 32),
        Setting("n_key_heads", "num_key_value_heads", 32),
        Setting("d_key", "head_dim", 128),
        Setting("d_value", "head_dim", 128),
        Setting("d_ff", "intermediate_size", 11008),
        Setting("rotary_base", "rope_theta", 10000.0),
        Setting("norm_eps", "rms_norm_eps", 1e-6),
        Setting("biases", ("attention_bias", "mlp_bias"), False),
        Setting("tie_embeddings", "tie_word_embeddings", False),
        Setting("attention_dropout", "attention_dropout", 0.0),
    ),
    vocabularies=VOCABULARY,
    required={"hidden_act": "silu"},
    said=_said,
    told=_told,
    entries=_entries,
)
