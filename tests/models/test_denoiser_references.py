"""The Transformer with T5's and with BART's parts against Hugging Face's models with the same weights.

Logits over padded batches to 1e-5, of whole targets and step by step with a cache.
"""

import math

import pytest
import torch
from torch import nn
from transformers import BartConfig, BartForConditionalGeneration, T5Config, T5ForConditionalGeneration

from attendo.models.settings import TransformerConfig
from attendo.models.transformer import Transformer, build
from tests.models.references import Tensors, filled, moved, weights_in

B, S, T, V, HEADS, D_FF, ENCODER_LAYERS, DECODER_LAYERS = 5, 13, 7, 31, 3, 17, 2, 3
SOURCE_LENGTHS = torch.tensor([13, 4, 8, 1, 6])


def t5() -> tuple[Transformer, nn.Module]:
    size, d_key = 37, 11
    torch.manual_seed(2)
    theirs_config = T5Config(
        vocab_size=V,
        d_model=size,
        d_kv=d_key,
        d_ff=D_FF,
        num_layers=ENCODER_LAYERS,
        num_decoder_layers=DECODER_LAYERS,
        num_heads=HEADS,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=11,
        feed_forward_proj="relu",
        tie_word_embeddings=True,
    )
    reference = moved(T5ForConditionalGeneration(theirs_config).eval())
    theirs = weights_in(reference)
    # T5 reads E and writes with E / √d_model; attendo reads with E √d_model and writes with E.
    weights: Tensors = {
        "encoder.embedding.weight": theirs["shared.weight"] / math.sqrt(size),
        "output.bias": torch.zeros(V),
    }
    for side, layers, last in (("encoder", ENCODER_LAYERS, 1), ("decoder", DECODER_LAYERS, 2)):
        buckets = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        weights[f"{side}.blocks.0.attention.positions.weight"] = theirs[buckets]
        weights[f"{side}.final_norm.weight"] = theirs[f"{side}.final_layer_norm.weight"]
        for i in range(layers):
            parts = [("attention", 0, "SelfAttention"), ("cross_attention", 1, "EncDecAttention")]
            for part, number, name in parts[:last]:
                there = f"{side}.block.{i}.layer.{number}"
                for mine, letter in (("query", "q"), ("key", "k"), ("value", "v"), ("output", "o")):
                    matrix = theirs[f"{there}.{name}.{letter}.weight"]
                    weights[f"{side}.blocks.{i}.{part}.{mine}.weight"] = matrix
                    weights[f"{side}.blocks.{i}.{part}.{mine}.bias"] = torch.zeros(len(matrix))
                weights[f"{side}.blocks.{i}.{part}_residual.norm.weight"] = theirs[f"{there}.layer_norm.weight"]
            there = f"{side}.block.{i}.layer.{last}"
            for mine, name in (("inner", "wi"), ("outer", "wo")):
                matrix = theirs[f"{there}.DenseReluDense.{name}.weight"]
                weights[f"{side}.blocks.{i}.feed_forward.{mine}.weight"] = matrix
                weights[f"{side}.blocks.{i}.feed_forward.{mine}.bias"] = torch.zeros(len(matrix))
            weights[f"{side}.blocks.{i}.feed_forward_residual.norm.weight"] = theirs[f"{there}.layer_norm.weight"]
    config = TransformerConfig(
        source_vocab_size=V,
        target_vocab_size=V,
        n_encoder_layers=ENCODER_LAYERS,
        n_decoder_layers=DECODER_LAYERS,
        d_model=size,
        d_ff=D_FF,
        n_heads=HEADS,
        d_key=d_key,
        d_value=d_key,
        positions="t5",
        n_buckets=8,
        bucket_distance=11,
        scoring="dot",
        norm="rmsnorm",
        norm_place="pre",
    )
    return filled(build(config).eval(), weights), reference


def bart() -> tuple[Transformer, nn.Module]:
    size = 39
    torch.manual_seed(2)
    theirs_config = BartConfig(
        vocab_size=V,
        d_model=size,
        encoder_layers=ENCODER_LAYERS,
        decoder_layers=DECODER_LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=D_FF,
        decoder_ffn_dim=D_FF,
        max_position_embeddings=19,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        forced_eos_token_id=None,
    )
    reference = moved(BartForConditionalGeneration(theirs_config).eval())
    theirs = weights_in(reference)
    weights: Tensors = {"output.bias": reference.final_logits_bias[0].detach()}
    weights["encoder.embedding.weight"] = theirs["model.shared.weight"]
    for side, layers in (("encoder", ENCODER_LAYERS), ("decoder", DECODER_LAYERS)):
        weights[f"{side}.embedding.positions.weight"] = theirs[f"model.{side}.embed_positions.weight"][2:]
        for what in ("weight", "bias"):
            weights[f"{side}.embedding.norm.{what}"] = theirs[f"model.{side}.layernorm_embedding.{what}"]
        parts = [("attention", "self_attn")] + [("cross_attention", "encoder_attn")] * (side == "decoder")
        for i in range(layers):
            ours, there = f"{side}.blocks.{i}", f"model.{side}.layers.{i}"
            names = {"feed_forward.inner": "fc1", "feed_forward.outer": "fc2"}
            names["feed_forward_residual.norm"] = "final_layer_norm"
            for part, name in parts:
                names[f"{part}_residual.norm"] = f"{name}_layer_norm"
                for mine, letter in (
                    ("query", "q_proj"),
                    ("key", "k_proj"),
                    ("value", "v_proj"),
                    ("output", "out_proj"),
                ):
                    names[f"{part}.{mine}"] = f"{name}.{letter}"
            for mine, name in names.items():
                for what in ("weight", "bias"):
                    weights[f"{ours}.{mine}.{what}"] = theirs[f"{there}.{name}.{what}"]
    config = TransformerConfig(
        source_vocab_size=V,
        target_vocab_size=V,
        n_encoder_layers=ENCODER_LAYERS,
        n_decoder_layers=DECODER_LAYERS,
        d_model=size,
        d_ff=D_FF,
        n_heads=HEADS,
        positions="learned",
        n_positions=19,
        activation="gelu",
        embedding_scale="one",
        embedding_norm=True,
    )
    return filled(build(config).eval(), weights), reference


@pytest.mark.parametrize("make", [t5, bart])
def test_logits_over_padded_batches_with_a_cache_and_without(make) -> None:
    ours, reference = make()
    torch.manual_seed(1)
    source, target = torch.randint(3, V, (B, S)), torch.randint(3, V, (B, T))
    real = torch.arange(S) < SOURCE_LENGTHS[:, None]
    source[~real] = 0
    with torch.no_grad():
        expected = reference(input_ids=source, attention_mask=real.long(), decoder_input_ids=target).logits
        torch.testing.assert_close(ours(source, SOURCE_LENGTHS, target), expected, rtol=0, atol=1e-5)
        step, cache = ours.lean_step(), ours.encode(source, SOURCE_LENGTHS)
        slow = cache
        for t in range(T):
            logits, cache = step(target[:, t], cache)
            torch.testing.assert_close(logits, expected[:, t], rtol=0, atol=1e-5)
            logits, slow = ours.step(target[:, t], slow)
            torch.testing.assert_close(logits, expected[:, t], rtol=0, atol=1e-5)
