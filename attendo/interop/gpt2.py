"""GPT-2: the decoder alone, with learned positions, pre-norm, a GELU by a tanh, and nothing added to the logits."""

from collections.abc import Iterator
from typing import Any

from attendo.interop.architecture import (
    ACTIVATIONS,
    VOCABULARY,
    Architecture,
    Entry,
    Form,
    Given,
    Same,
    Setting,
    Tied,
    Transposed,
    Unused,
    VocabularyRows,
    module,
    no_bias,
)
from attendo.interop.folder import Folder
from attendo.models.settings import GPTConfig

OUTPUT = "lm_head.weight"
_WORDS = "transformer.wte.weight"


def _said(folder: Folder) -> dict[str, Any]:
    said = dict(folder.config)
    if said.get("n_inner") is None:
        said["n_inner"] = 4 * said.get("n_embd", 768)
    return said


def _today(name: str) -> str:
    """Files of a model without its head, as those of the first GPT-2 are, leave out how all names begin."""
    return name if name.startswith("transformer.") or name == OUTPUT else f"transformer.{name}"


def output(config: GPTConfig, *, words: str) -> Iterator[Entry]:
    """What makes logits: the words' own vectors, or others; nothing is added to them."""
    if config.tie_embeddings:
        yield Tied(OUTPUT, to=words)
    else:
        yield Same("output.weight", OUTPUT, VocabularyRows("source"))
    yield Given("output.bias", no_bias("source"))


def _entries(config: GPTConfig) -> Iterator[Entry]:
    yield Same("decoder.embedding.weight", _WORDS, VocabularyRows("source"))
    yield Same("decoder.embedding.positions.weight", "transformer.wpe.weight")
    for number in range(config.n_layers):
        ours, theirs = f"decoder.blocks.{number}", f"transformer.h.{number}"
        for name, form in (("weight", Transposed()), ("bias", Form())):
            three = tuple(f"{ours}.attention.{one}.{name}" for one in ("query", "key", "value"))
            yield Same(three, f"{theirs}.attn.c_attn.{name}", form)
            yield Same(f"{ours}.attention.output.{name}", f"{theirs}.attn.c_proj.{name}", form)
            yield Same(f"{ours}.feed_forward.inner.{name}", f"{theirs}.mlp.c_fc.{name}", form)
            yield Same(f"{ours}.feed_forward.outer.{name}", f"{theirs}.mlp.c_proj.{name}", form)
        yield from module(f"{ours}.attention_residual.norm", f"{theirs}.ln_1")
        yield from module(f"{ours}.feed_forward_residual.norm", f"{theirs}.ln_2")
        yield Unused(f"{theirs}.attn.bias")  # the causal mask, which older files have as a tensor
        yield Unused(f"{theirs}.attn.masked_bias")
    yield from module("decoder.final_norm", "transformer.ln_f")
    yield from output(config, words=_WORDS)


GPT2 = Architecture(
    name="GPT-2",
    model_type="gpt2",
    class_name="GPT2LMHeadModel",
    task="language-model",
    kind=GPTConfig,
    implied={"positions": "learned", "norm_place": "pre", "embedding_scale": "one", "output_bias": False},
    settings=(
        Setting("d_model", "n_embd", 768),
        Setting("n_layers", "n_layer", 12),
        Setting("n_heads", "n_head", 12),
        Setting("d_ff", "n_inner", 3072),
        Setting("n_positions", "n_positions", 1024),
        Setting("activation", "activation_function", "gelu_new", words=ACTIVATIONS),
        Setting("norm_eps", "layer_norm_epsilon", 1e-5),
        Setting("tie_embeddings", "tie_word_embeddings", True),
        Setting("residual_dropout", "resid_pdrop", 0.1),
        Setting("attention_dropout", "attn_pdrop", 0.1),
    ),
    vocabularies=VOCABULARY,
    required={"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False},
    said=_said,
    usual=lambda config: {"embd_pdrop": config.residual_dropout},
    renamed=_today,
    entries=_entries,
)
