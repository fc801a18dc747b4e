"""GPT against Hugging Face's GPT-2 and Llama with the same weights: logits of padded batches, with a cache too."""

import pytest
import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from attendo.models.gpt import GPT, build
from attendo.models.settings import GPTConfig
from tests.models.references import Tensors, filled, moved, weights_in

B, T, V, LAYERS = 5, 11, 31, 3
LENGTHS = torch.tensor([11, 4, 7, 1, 6])


def gpt2() -> tuple[GPT, nn.Module]:
    size, d_ff, heads = 38, 17, 2
    torch.manual_seed(2)
    theirs_config = GPT2Config(vocab_size=V, n_positions=13, n_embd=size, n_layer=LAYERS, n_head=heads, n_inner=d_ff)
    reference = moved(GPT2LMHeadModel(theirs_config).eval())
    theirs = weights_in(reference)
    weights: Tensors = {
        "decoder.embedding.weight": theirs["transformer.wte.weight"],
        "decoder.embedding.positions.weight": theirs["transformer.wpe.weight"],
        "decoder.final_norm.weight": theirs["transformer.ln_f.weight"],
        "decoder.final_norm.bias": theirs["transformer.ln_f.bias"],
        "output.bias": torch.zeros(V),
    }
    for i in range(LAYERS):
        ours, there = f"decoder.blocks.{i}", f"transformer.h.{i}"
        joint, bias = theirs[f"{there}.attn.c_attn.weight"].T, theirs[f"{there}.attn.c_attn.bias"]
        for part, matrix, vector in zip(("query", "key", "value"), joint.chunk(3), bias.chunk(3), strict=True):
            weights[f"{ours}.attention.{part}.weight"], weights[f"{ours}.attention.{part}.bias"] = matrix, vector
        for mine, name in (
            ("attention.output", "attn.c_proj"),
            ("feed_forward.inner", "mlp.c_fc"),
            ("feed_forward.outer", "mlp.c_proj"),
        ):
            weights[f"{ours}.{mine}.weight"] = theirs[f"{there}.{name}.weight"].T
            weights[f"{ours}.{mine}.bias"] = theirs[f"{there}.{name}.bias"]
        for mine, name in (("attention_residual", "ln_1"), ("feed_forward_residual", "ln_2")):
            for what in ("weight", "bias"):
                weights[f"{ours}.{mine}.norm.{what}"] = theirs[f"{there}.{name}.{what}"]
    config = GPTConfig(
        vocab_size=V,
        n_layers=LAYERS,
        d_model=size,
        d_ff=d_ff,
        n_heads=heads,
        positions="learned",
        n_positions=13,
        norm_place="pre",
        activation="gelu-tanh",
        embedding_scale="one",
    )
    return filled(build(config).eval(), weights), reference


def in_pairs(matrix: Tensor, d_key: int) -> Tensor:
    """Llama turns features i and i + d/2 together, attendo 2i and 2i + 1: the rows of each head in that order."""
    return matrix.view(-1, 2, d_key // 2, matrix.shape[-1]).transpose(1, 2).reshape(matrix.shape)


def llama() -> tuple[GPT, nn.Module]:
    size, d_ff, heads, key_heads, d_key = 52, 23, 4, 2, 26
    torch.manual_seed(2)
    theirs_config = LlamaConfig(
        vocab_size=V,
        hidden_size=size,
        intermediate_size=d_ff,
        num_hidden_layers=LAYERS,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        head_dim=d_key,
        max_position_embeddings=19,
        rms_norm_eps=1e-6,
    )
    reference = moved(LlamaForCausalLM(theirs_config).eval())
    theirs = weights_in(reference)
    weights: Tensors = {
        "decoder.embedding.weight": theirs["model.embed_tokens.weight"],
        "decoder.final_norm.weight": theirs["model.norm.weight"],
        "output.weight": theirs["lm_head.weight"],
        "output.bias": torch.zeros(V),
    }
    for i in range(LAYERS):
        ours, there = f"decoder.blocks.{i}", f"model.layers.{i}"
        for mine, name in (
            ("attention.query", "self_attn.q_proj"),
            ("attention.key", "self_attn.k_proj"),
            ("attention.value", "self_attn.v_proj"),
            ("attention.output", "self_attn.o_proj"),
            ("feed_forward.inner", "mlp.gate_proj"),
            ("feed_forward.gate", "mlp.up_proj"),
            ("feed_forward.outer", "mlp.down_proj"),
        ):
            matrix = theirs[f"{there}.{name}.weight"]
            turned = mine in ("attention.query", "attention.key")
            weights[f"{ours}.{mine}.weight"] = in_pairs(matrix, d_key) if turned else matrix
            weights[f"{ours}.{mine}.bias"] = torch.zeros(len(matrix))
        for mine, name in (("attention", "input_layernorm"), ("feed_forward", "post_attention_layernorm")):
            weights[f"{ours}.{mine}_residual.norm.weight"] = theirs[f"{there}.{name}.weight"]
    config = GPTConfig(
        vocab_size=V,
        n_layers=LAYERS,
        d_model=size,
        d_ff=d_ff,
        n_heads=heads,
        n_key_heads=key_heads,
        d_key=d_key,
        d_value=d_key,
        positions="rotary",
        norm="rmsnorm",
        norm_place="pre",
        activation="swiglu",
        embedding_scale="one",
        tie_embeddings=False,
    )
    return filled(build(config).eval(), weights), reference


@pytest.mark.parametrize("make", [gpt2, llama])
def test_logits_over_padded_batches_with_a_cache_and_without(make) -> None:
    ours, reference = make()
    torch.manual_seed(1)
    ids, real = torch.randint(0, V, (B, T)), torch.arange(T) < LENGTHS[:, None]
    ids[~real] = 0
    with torch.no_grad():
        expected = reference(input_ids=ids, attention_mask=real.long()).logits
        torch.testing.assert_close(ours(ids)[real], expected[real], rtol=0, atol=1e-5)
        # Theirs with the padding before the texts, where only its mask keeps it from being seen.
        before = real.flip(1)
        left = torch.zeros_like(ids)
        left[before] = ids[real]
        places = (before.cumsum(1) - 1).clamp(min=0)
        shifted = reference(input_ids=left, attention_mask=before.long(), position_ids=places).logits
        torch.testing.assert_close(ours(ids)[real], shifted[before], rtol=0, atol=1e-5)

        steps, cache = ours.lean_step(), ours.start(B)
        slow = ours.read(ids[:, :4], ours.start(B))
        for t in range(T):
            logits, cache = steps(ids[:, t], cache)
            seen = real[:, t]
            torch.testing.assert_close(logits[seen], expected[:, t][seen], rtol=0, atol=1e-5)
            if t >= 4:  # after the first four at once
                logits, slow = ours.step(ids[:, t], slow)
                torch.testing.assert_close(logits[seen], expected[:, t][seen], rtol=0, atol=1e-5)


def test_the_future_is_not_seen() -> None:
    ours, _ = gpt2()
    torch.manual_seed(3)
    ids = torch.randint(0, V, (2, T))
    other = ids.clone()
    other[:, 7:] = (other[:, 7:] + 1) % V
    torch.testing.assert_close(ours(ids)[:, :7], ours(other)[:, :7], rtol=0, atol=1e-6)
    assert not torch.allclose(ours(ids)[:, 7:], ours(other)[:, 7:])
