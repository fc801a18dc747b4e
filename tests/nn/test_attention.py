"""Suffixes: B batch, H heads, G heads of keys and values, T queries, S keys, K key size, V value size, D d_model."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attendo.nn.attention import (
    Additive,
    BranchedHeads,
    DotProduct,
    MultiHeadAttention,
    Scoring,
    additive_scores,
    attention_weights,
    dot_product_scores,
    explicit_attention,
    fused_attention,
    joint_keys_values,
    weighted_values,
)
from attendo.nn.cache import KeysValues
from attendo.nn.feed_forward import build_feed_forward
from attendo.nn.masks import ChunkSpan, WindowSpan, causal_mask, padding_mask, span_mask
from attendo.nn.positions import AttentionPositions, BucketPositions, RotaryPositions, ShawPositions

B, H, T, S, K, V = 2, 3, 5, 7, 11, 13
D = 21  # a multiple of H where torch.nn is the reference
LENGTHS = torch.tensor([7, 4])
SCALE = 1 / math.sqrt(K)


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


def keep(name: str) -> Tensor | None:
    """Masks of T queries, the last of S positions."""
    padding, offset = padding_mask(LENGTHS, S), S - T
    masks = {
        "none": None,
        "padding": padding,
        "causal": causal_mask(T, offset=offset),
        "both": causal_mask(T, offset=offset) & padding,
        "window": span_mask(padding, WindowSpan(1))[:, :, offset:],
        "chunk": span_mask(padding, ChunkSpan(2, 1))[:, :, offset:],
        "causal window": causal_mask(T, offset=offset, span=WindowSpan(1)),
        "causal chunk": causal_mask(T, offset=offset, span=ChunkSpan(2, 1)),
    }
    return masks[name]


MASKS = ["none", "padding", "causal", "both", "window", "chunk", "causal window", "causal chunk"]


def randomise(module: nn.Module) -> None:
    """Also the biases, which begin as zeros and would hide that they are left out."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.3)


@pytest.mark.parametrize("mask_name", MASKS)
@pytest.mark.parametrize("bias_rows", [None, (), (B,)], ids=["no bias", "bias", "bias of each row"])
@pytest.mark.parametrize(("n_heads", "n_key_heads"), [(H, H), (6, 1), (6, 2), (6, 3)])
@pytest.mark.parametrize("value_size", [K, V])
def test_fused_equals_explicit_forward_and_backward(
    mask_name: str,
    bias_rows: tuple[int, ...] | None,
    n_heads: int,
    n_key_heads: int,
    value_size: int,
) -> None:
    torch.manual_seed(1)
    queries = torch.randn(B, n_heads, T, K, requires_grad=True)
    keys = torch.randn(B, n_key_heads, S, K, requires_grad=True)
    values = torch.randn(B, n_key_heads, S, value_size, requires_grad=True)
    inputs, upstream, bias = [queries, keys, values], torch.randn(B, n_heads, T, value_size), None
    if bias_rows is not None:
        bias = torch.randn(*bias_rows, n_heads, T, S, requires_grad=True)
        inputs.append(bias)
    fused = fused_attention(queries, keys, values, scale=SCALE, mask=keep(mask_name), bias=bias)
    explicit = explicit_attention(queries, keys, values, scale=SCALE, mask=keep(mask_name), bias=bias)
    close(fused, explicit)
    for of_fused, of_explicit in zip(
        torch.autograd.grad(fused, inputs, upstream), torch.autograd.grad(explicit, inputs, upstream), strict=True
    ):
        close(of_fused, of_explicit)


@pytest.mark.parametrize("positions", [AttentionPositions, lambda: RotaryPositions(d_key=4)], ids=["none", "rotary"])
@pytest.mark.parametrize(
    "parts", [{}, {"share_query_key": True}, {"n_key_heads": 1}, {"value_rank": 2}], ids=lambda parts: str(parts)
)
def test_one_product_for_queries_keys_and_values(
    parts: dict[str, Any], positions: Callable[[], AttentionPositions]
) -> None:
    """With gradients they come from one product, without from three; the gradients are those of three."""
    torch.manual_seed(3)
    attention = MultiHeadAttention(d_model=D, n_heads=H, d_key=4, d_value=5, positions=positions(), **parts)
    randomise(attention)
    x_BTD = torch.randn(B, T, D)
    mask, upstream = causal_mask(T), torch.randn(B, T, D)
    together, attended = attention(x_BTD, mask=mask)
    with torch.no_grad():
        alone, attended_alone = attention(x_BTD, mask=mask)
    close(together, alone)
    close(attended.keys_NHTK, attended_alone.keys_NHTK)
    close(attended.values_NHTK, attended_alone.values_NHTK)
    parameters = list(attention.parameters())
    apart, _ = attention(x_BTD, mask=mask, memory=attention.keys_values(x_BTD))
    for one, other in zip(
        torch.autograd.grad(together, parameters, upstream),
        torch.autograd.grad(apart, parameters, upstream),
        strict=True,
    ):
        close(one, other)


def test_one_product_for_the_memory_of_all_layers() -> None:
    torch.manual_seed(4)
    attentions = [MultiHeadAttention(d_model=D, n_heads=H, d_key=K, d_value=V, n_key_heads=n) for n in (1, 3)]
    for attention in attentions:
        randomise(attention)
    memory_BSD = torch.randn(B, S, D, requires_grad=True)

    def flat(apart: bool) -> Tensor:
        made = joint_keys_values(memory_BSD, attentions, apart=apart)
        return torch.cat([x.flatten() for one in made for x in (one.keys_NHTK, one.values_NHTK)])

    together, apart = flat(False), flat(True)
    close(together, apart)
    upstream = torch.randn_like(together)
    projections = [linear for attention in attentions for linear in (attention.key, attention.value)]
    inputs = [memory_BSD, *(parameter for linear in projections for parameter in linear.parameters())]
    for one, other in zip(
        torch.autograd.grad(together, inputs, upstream), torch.autograd.grad(apart, inputs, upstream), strict=True
    ):
        close(one, other)


def test_explicit_attention_is_its_formula() -> None:
    torch.manual_seed(2)
    queries, keys, values = torch.randn(B, 6, T, K), torch.randn(B, 2, S, K), torch.randn(B, 2, S, V)
    bias, mask = torch.randn(6, T, S), keep("both")
    assert mask is not None
    actual = explicit_attention(queries, keys, values, scale=0.3, mask=mask, bias=bias)
    for b in range(B):
        for h in range(6):
            for t in range(T):
                seen = [s for s in range(S) if mask.expand(B, 1, T, S)[b, 0, t, s]]
                key_head = h // 3  # each of two serves three
                exps = [
                    math.exp(0.3 * (queries[b, h, t] @ keys[b, key_head, s]).item() + bias[h, t, s].item())
                    for s in seen
                ]
                expected = torch.zeros(V)
                for s, exp in zip(seen, exps, strict=True):
                    expected += exp / sum(exps) * values[b, key_head, s]
                close(actual[b, h, t], expected)


@pytest.mark.parametrize(("module", "scale"), [(DotProduct(scale=SCALE), SCALE), (DotProduct(scale=1.0), 1.0)])
def test_scores_are_scaled_dot_products(module: DotProduct, scale: float) -> None:
    torch.manual_seed(2)
    queries, keys = torch.randn(B, H, T, K), torch.randn(B, H, S, K)
    scores = module(queries, keys)
    assert scores.shape == (B, H, T, S)
    expected = scale * sum(queries[1, 2, 3, k] * keys[1, 2, 1, k] for k in range(K))
    close(scores[1, 2, 3, 1], torch.as_tensor(expected))
    close(dot_product_scores(queries, keys, scale=scale), scores)


@pytest.mark.parametrize("n_key_heads", [6, 2, 1])
def test_additive_scores_are_bahdanaus_equation(n_key_heads: int) -> None:
    torch.manual_seed(2)
    queries, keys = torch.randn(B, 6, T, K), torch.randn(B, n_key_heads, S, K)
    scoring = Additive(n_heads=6, d_key=K)
    randomise(scoring)
    scores = scoring(queries, keys)
    assert scores.shape == (B, 6, T, S)
    close(additive_scores(queries, keys, scoring.direction), scores)
    for b in range(B):
        for h in range(6):
            for t in range(T):
                for s in range(S):
                    hidden = torch.tanh(queries[b, h, t] + keys[b, h * n_key_heads // 6, s])
                    expected = sum(scoring.direction[h, k] * hidden[k] for k in range(K))
                    close(scores[b, h, t, s], torch.as_tensor(expected))


def test_scaling_keeps_the_variance_of_scores_at_one() -> None:
    torch.manual_seed(3)
    module = MultiHeadAttention(d_model=17, n_heads=1, d_key=67, d_value=3)
    scores = module.scoring(torch.randn(1, 1, 401, 67), torch.randn(1, 1, 409, 67))
    assert scores.var().item() == pytest.approx(1.0, abs=0.05)


def test_weights_sum_to_one_and_are_zero_where_the_mask_forbids() -> None:
    torch.manual_seed(4)
    mask = keep("both")
    assert mask is not None
    weights = attention_weights(torch.randn(B, H, T, S), mask=mask, bias=torch.randn(H, T, S))
    close(weights.sum(-1), torch.ones(B, H, T))
    forbidden = ~mask.expand_as(weights)
    assert forbidden.any()
    assert (weights[forbidden] == 0).all()
    assert (weights[~forbidden] > 0).all()


def packed(module: MultiHeadAttention, kind: str) -> Tensor:
    return torch.cat([module.get_parameter(f"{name}.{kind}") for name in ["query", "key", "value"]])


def paired_with_torch() -> tuple[MultiHeadAttention, nn.MultiheadAttention]:
    torch.manual_seed(5)
    ours = MultiHeadAttention(d_model=D, n_heads=H, d_key=D // H, d_value=D // H)
    randomise(ours)
    return ours, like_torch(ours)


def like_torch(ours: MultiHeadAttention) -> nn.MultiheadAttention:
    theirs = nn.MultiheadAttention(D, H, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(packed(ours, "weight"))
        theirs.in_proj_bias.copy_(packed(ours, "bias"))
        theirs.out_proj.weight.copy_(ours.get_parameter("output.weight"))
        theirs.out_proj.bias.copy_(ours.get_parameter("output.bias"))
    return theirs


def gradient(module: nn.Module, name: str) -> Tensor:
    grad = module.get_parameter(name).grad
    assert grad is not None
    return grad


def gradients_agree(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    for kind in ["weight", "bias"]:
        grads = [gradient(ours, f"{name}.{kind}") for name in ["query", "key", "value"]]
        close(torch.cat(grads), gradient(theirs, f"in_proj_{kind}"))
        close(gradient(ours, f"output.{kind}"), gradient(theirs, f"out_proj.{kind}"))


@pytest.mark.parametrize("mask_name", ["none", "padding", "causal", "both"])
def test_self_attention_equals_torch(mask_name: str) -> None:
    ours, theirs = paired_with_torch()
    x, upstream = torch.randn(B, S, D), 0.1 * torch.randn(B, S, D)
    mask, their_padding, their_causal = None, None, None
    if mask_name in ("padding", "both"):
        mask = padding_mask(LENGTHS, S)
        their_padding = torch.arange(S) >= LENGTHS[:, None]
    if mask_name in ("causal", "both"):
        mask = causal_mask(S) if mask is None else mask & causal_mask(S)
        their_causal = torch.ones(S, S).triu(1).bool()
    actual, _ = ours(x, mask=mask)
    expected, expected_weights = theirs(
        x, x, x, key_padding_mask=their_padding, attn_mask=their_causal, average_attn_weights=False
    )
    close(actual, expected)
    close(ours.weights(x, mask=mask, memory=ours.keys_values(x)), expected_weights)
    actual.backward(upstream)
    expected.backward(upstream)
    gradients_agree(ours, theirs)


@pytest.mark.parametrize("padded", [False, True])
def test_cross_attention_equals_torch(padded: bool) -> None:
    ours, theirs = paired_with_torch()
    x, memory, upstream = torch.randn(B, T, D), torch.randn(B, S, D), 0.1 * torch.randn(B, T, D)
    actual, _ = ours(x, mask=padding_mask(LENGTHS, S) if padded else None, memory=ours.keys_values(memory))
    their_padding = torch.arange(S) >= LENGTHS[:, None] if padded else None
    expected, _ = theirs(x, memory, memory, key_padding_mask=their_padding, need_weights=False)
    close(actual, expected)
    actual.backward(upstream)
    expected.backward(upstream)
    gradients_agree(ours, theirs)


def test_key_and_value_sizes_of_their_own_equal_a_loop_over_heads() -> None:
    torch.manual_seed(6)
    d_model = 17  # no multiple of the heads
    module = MultiHeadAttention(d_model=d_model, n_heads=H, d_key=K, d_value=V)
    randomise(module)
    x, memory = torch.randn(B, T, d_model), torch.randn(B, S, d_model)
    actual, _ = module(x, mask=None, memory=module.keys_values(memory))
    expected = torch.zeros(B, T, d_model) + module.get_parameter("output.bias")
    value, value_bias = module.get_parameter("value.weight"), module.get_parameter("value.bias")
    for b in range(B):
        for h in range(H):
            of_keys, of_values = slice(h * K, (h + 1) * K), slice(h * V, (h + 1) * V)
            q_TK = x[b] @ module.query.weight[of_keys].T + module.query.bias[of_keys]
            k_SK = memory[b] @ module.key.weight[of_keys].T + module.key.bias[of_keys]
            v_SV = memory[b] @ value[of_values].T + value_bias[of_values]
            head_TV = F.softmax(q_TK @ k_SK.T / math.sqrt(K), dim=-1) @ v_SV
            expected[b] += head_TV @ module.get_parameter("output.weight")[:, of_values].T
    close(actual, expected)


def position_part(name: str) -> AttentionPositions:
    match name:
        case "rotary":
            return RotaryPositions(d_key=K - 1)
        case "shaw":
            return ShawPositions(d_key=K - 1, d_value=V, max_distance=2)
        case "t5":
            return BucketPositions(n_heads=6, n_buckets=4, max_distance=5, both_ways=False)
        case _:
            return AttentionPositions()


@pytest.mark.parametrize("positions", ["none", "rotary", "shaw", "t5"])
@pytest.mark.parametrize("scoring", [DotProduct(scale=0.4), Additive(n_heads=6, d_key=K - 1)], ids=["dot", "additive"])
@pytest.mark.parametrize("n_key_heads", [6, 2])
@pytest.mark.parametrize("parts", [[1, 1, 1, 1, 1, 1, 1], [2, 1, 4], [5, 2]], ids=str)
def test_past_appended_part_by_part_equals_the_whole_sequence(
    positions: str, scoring: Scoring, n_key_heads: int, parts: list[int]
) -> None:
    torch.manual_seed(7)
    module = MultiHeadAttention(
        d_model=17,
        n_heads=6,
        d_key=K - 1,
        d_value=V,
        n_key_heads=n_key_heads,
        scoring=scoring,
        positions=position_part(positions),
    )
    randomise(module)
    x = torch.randn(B, S, 17)
    whole, attended = module(x, mask=causal_mask(S))
    past: KeysValues | None = None
    outputs, seen = [], 0
    for part in parts:
        output, past = module(x[:, seen : seen + part], mask=causal_mask(part, offset=seen), past=past)
        outputs.append(output)
        seen += part
    close(torch.cat(outputs, dim=1), whole)
    assert past is not None
    assert past.keys_NHTK.shape == (B, n_key_heads, S, K - 1)
    close(past.keys_NHTK, attended.keys_NHTK)
    close(past.values_NHTK, attended.values_NHTK)


class Recorder(AttentionPositions):
    """Doubles what it turns, and notes the offsets that it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.offsets: list[tuple[str, int]] = []

    def turned(self, x_BHTK: Tensor, *, offset: int) -> Tensor:
        self.offsets.append(("turned", offset))
        return 2 * x_BHTK

    def bias(self, queries_BHTK: Tensor, *, scale: float, offset: int, n_keys: int) -> None:
        assert scale == SCALE
        assert n_keys == offset + queries_BHTK.shape[2]
        self.offsets.append(("bias", offset))

    def gathered(self, weights_BHTS: Tensor, *, offset: int) -> None:
        assert weights_BHTS.shape[-1] == offset + weights_BHTS.shape[2]
        self.offsets.append(("gathered", offset))


def test_positions_turn_queries_and_keys_and_not_values() -> None:
    torch.manual_seed(8)
    positions = Recorder()
    turned = MultiHeadAttention(d_model=17, n_heads=H, d_key=K, d_value=V, positions=positions)
    plain = MultiHeadAttention(d_model=17, n_heads=H, d_key=K, d_value=V)
    plain.load_state_dict(turned.state_dict())
    x = torch.randn(B, T, 17)
    close(turned.queries(x), 2 * plain.queries(x))
    close(turned.keys_values(x).keys_NHTK, 2 * plain.keys_values(x).keys_NHTK)
    close(turned.keys_values(x).values_NHTK, plain.keys_values(x).values_NHTK)


@pytest.mark.parametrize("needs_weights", [False, True])
def test_positions_are_asked_with_the_offset_of_the_past(needs_weights: bool) -> None:
    positions = Recorder()
    positions.needs_weights = needs_weights
    module = MultiHeadAttention(d_model=17, n_heads=H, d_key=K, d_value=V, positions=positions)
    x = torch.randn(B, T, 17)
    _, past = module(x, mask=None)
    module(x, mask=None, past=past)
    asked = ["turned", "turned", "bias"] + (["gathered"] if needs_weights else [])
    assert positions.offsets == [(name, offset) for offset in (0, T) for name in asked]


@pytest.mark.parametrize("positions", ["none", "rotary", "shaw", "t5"])
@pytest.mark.parametrize("n_key_heads", [6, 2, 1])
@pytest.mark.parametrize("scale", [1.0, 0.4])
def test_the_weights_alone_give_the_output(positions: str, n_key_heads: int, scale: float) -> None:
    """Output = W_O of the weighted values, and of what the positions add, whichever way it was computed."""
    torch.manual_seed(9)
    module = MultiHeadAttention(
        d_model=17,
        n_heads=6,
        d_key=K - 1,
        d_value=V,
        n_key_heads=n_key_heads,
        scoring=DotProduct(scale=scale),
        positions=position_part(positions),
    )
    randomise(module)
    x, mask = torch.randn(B, S, 17), span_mask(padding_mask(LENGTHS, S), WindowSpan(2))
    actual, attended = module(x, mask=mask)
    weights = module.weights(x, mask=mask)
    close(weights.sum(-1), torch.ones(B, 6, S))
    heads = weighted_values(weights, attended.values_NHTK)
    more = module.positions.gathered(weights, offset=0)
    assert (more is not None) == (positions == "shaw")
    close(actual, module.output(heads if more is None else heads + more))


def linear(module: nn.Module, name: str, x: Tensor) -> Tensor:
    return x @ module.get_parameter(f"{name}.weight").T + module.get_parameter(f"{name}.bias")


def test_additive_attention_is_its_formula() -> None:
    torch.manual_seed(10)
    scoring = Additive(n_heads=H, d_key=K)
    module = MultiHeadAttention(d_model=17, n_heads=H, d_key=K, d_value=V, scoring=scoring)
    randomise(module)
    x, memory = torch.randn(B, T, 17), torch.randn(B, S, 17)
    actual, _ = module(x, mask=padding_mask(LENGTHS, S), memory=module.keys_values(memory))
    expected = torch.zeros(B, T, H * V)
    for b in range(B):
        length = LENGTHS[b]
        for h in range(H):
            q_TK = linear(module, "query", x[b])[:, h * K : (h + 1) * K]
            k_SK = linear(module, "key", memory[b])[:length, h * K : (h + 1) * K]
            v_SV = linear(module, "value", memory[b])[:length, h * V : (h + 1) * V]
            for t in range(T):
                scores = torch.stack([scoring.direction[h] @ torch.tanh(q_TK[t] + k_K) for k_K in k_SK])
                expected[b, t, h * V : (h + 1) * V] = scores.softmax(0) @ v_SV
    close(actual, linear(module, "output", expected))


def moved_to_halves(projection: Tensor, d_key: int) -> Tensor:
    """The rows of each head in the order of Llama, which pairs feature i with i + d_key / 2."""
    to_halves = torch.cat((torch.arange(0, d_key, 2), torch.arange(1, d_key, 2)))
    return projection.unflatten(0, (-1, d_key))[:, to_halves].flatten(0, 1)


@pytest.mark.parametrize("n_key_heads", [1, 2, 3, 6])
def test_grouped_keys_equal_llamas(n_key_heads: int) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed: no Llama to compare with")
    from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaRotaryEmbedding

    torch.manual_seed(11)
    d_model, d_key = 18, 10  # Llama wants a multiple of the heads
    config = LlamaConfig(
        hidden_size=d_model,
        num_attention_heads=6,
        num_key_value_heads=n_key_heads,
        head_dim=d_key,
        attention_bias=True,
        attn_implementation="eager",
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    )
    theirs = LlamaAttention(config, layer_idx=0)
    ours = MultiHeadAttention(
        d_model=d_model,
        n_heads=6,
        d_key=d_key,
        d_value=d_key,
        n_key_heads=n_key_heads,
        positions=RotaryPositions(d_key=d_key),
    )
    randomise(ours)

    def as_theirs(name: str, tensor: Tensor) -> Tensor:
        return moved_to_halves(tensor, d_key) if name in ("query", "key") else tensor

    names = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "o_proj"}
    with torch.no_grad():
        for name, their_name in names.items():
            for kind in ["weight", "bias"]:
                weight = as_theirs(name, ours.get_parameter(f"{name}.{kind}"))
                theirs.get_parameter(f"{their_name}.{kind}").copy_(weight)
    x, upstream = torch.randn(B, S, d_model), 0.1 * torch.randn(B, S, d_model)
    mask = causal_mask(S) & padding_mask(LENGTHS, S)
    actual, _ = ours(x, mask=mask)
    expected, _ = theirs(
        x,
        position_embeddings=LlamaRotaryEmbedding(config)(x, torch.arange(S)[None]),
        attention_mask=torch.zeros(B, 1, S, S).masked_fill(~mask, -math.inf),
    )
    close(actual, expected)
    actual.backward(upstream)
    expected.backward(upstream)
    for name, their_name in names.items():
        for kind in ["weight", "bias"]:
            expected_grad = theirs.get_parameter(f"{their_name}.{kind}").grad
            close(as_theirs(name, gradient(ours, f"{name}.{kind}")), expected_grad)


@pytest.mark.parametrize("n_key_heads", [1, 2, 3])
@pytest.mark.parametrize("scoring", [DotProduct(scale=SCALE), Additive(n_heads=6, d_key=K)], ids=["dot", "additive"])
def test_grouped_keys_equal_all_heads_with_repeated_weights(n_key_heads: int, scoring: Scoring) -> None:
    torch.manual_seed(12)
    grouped = MultiHeadAttention(d_model=17, n_heads=6, d_key=K, d_value=V, n_key_heads=n_key_heads, scoring=scoring)
    full = MultiHeadAttention(d_model=17, n_heads=6, d_key=K, d_value=V, scoring=scoring)
    randomise(grouped)
    weights = grouped.state_dict()
    for name, size in [("key", K), ("value", V)]:
        for kind in ["weight", "bias"]:
            heads = weights[f"{name}.{kind}"].unflatten(0, (n_key_heads, size))
            copies = [heads[h * n_key_heads // 6] for h in range(6)]
            weights[f"{name}.{kind}"] = torch.cat(copies)
    full.load_state_dict(weights)
    x, memory = torch.randn(B, T, 17), torch.randn(B, S, 17)
    mask = padding_mask(LENGTHS, S)
    actual, _ = grouped(x, mask=mask, memory=grouped.keys_values(memory))
    expected, _ = full(x, mask=mask, memory=full.keys_values(memory))
    close(actual, expected)


def test_grouped_keys_have_fewer_parameters_and_a_smaller_cache() -> None:
    def made(n_key_heads: int) -> MultiHeadAttention:
        return MultiHeadAttention(d_model=17, n_heads=6, d_key=K, d_value=V, n_key_heads=n_key_heads)

    def count(module: nn.Module) -> int:
        return sum(parameter.numel() for parameter in module.parameters())

    assert count(made(6)) - count(made(1)) == 5 * (K + V) * (17 + 1)
    attended = made(1).keys_values(torch.randn(B, S, 17))
    assert attended.keys_NHTK.shape == (B, 1, S, K)
    assert attended.values_NHTK.shape == (B, 1, S, V)


@pytest.mark.parametrize("cross", [False, True])
def test_shared_query_and_key_equal_torch_with_equal_matrices(cross: bool) -> None:
    torch.manual_seed(13)
    ours = MultiHeadAttention(d_model=D, n_heads=H, d_key=D // H, d_value=D // H, share_query_key=True)
    randomise(ours)
    assert ours.key is ours.query
    assert sorted(name for name, _ in ours.named_parameters()) == sorted(
        f"{name}.{kind}" for name in ["query", "value", "output"] for kind in ["weight", "bias"]
    )
    theirs = like_torch(ours)
    x, upstream = torch.randn(B, S, D), 0.1 * torch.randn(B, S, D)
    memory = torch.randn(B, S, D) if cross else x
    actual, _ = ours(x, mask=padding_mask(LENGTHS, S), memory=ours.keys_values(memory) if cross else None)
    expected, _ = theirs(x, memory, memory, key_padding_mask=torch.arange(S) >= LENGTHS[:, None])
    close(actual, expected)
    actual.backward(upstream)
    expected.backward(upstream)
    for kind in ["weight", "bias"]:  # the gradient of one matrix is the sum of what it is as either
        of_query, of_key, _ = gradient(theirs, f"in_proj_{kind}").chunk(3)
        close(gradient(ours, f"query.{kind}"), of_query + of_key)


def test_shared_query_and_key_make_scores_symmetric() -> None:
    torch.manual_seed(14)
    module = MultiHeadAttention(d_model=17, n_heads=H, d_key=K, d_value=V, share_query_key=True)
    x = torch.randn(B, S, 17)
    scores = module.scoring(module.queries(x), module.keys_values(x).keys_NHTK)
    close(scores, scores.transpose(-1, -2))


def test_low_rank_values_equal_the_full_product() -> None:
    torch.manual_seed(15)
    rank = 2
    low = MultiHeadAttention(d_model=17, n_heads=H, d_key=K, d_value=V, value_rank=rank)
    full = MultiHeadAttention(d_model=17, n_heads=H, d_key=K, d_value=V)
    randomise(low)
    weights = low.state_dict()
    down, up = weights.pop("value.0.weight"), weights.pop("value.1.weight")
    assert down.shape == (rank, 17)
    assert up.shape == (H * V, rank)
    full.load_state_dict(weights | {"value.weight": up @ down, "value.bias": weights.pop("value.1.bias")})
    x = torch.randn(B, S, 17)
    (actual, attended), (expected, expected_attended) = low(x, mask=causal_mask(S)), full(x, mask=causal_mask(S))
    close(actual, expected)
    close(attended.values_NHTK, expected_attended.values_NHTK)
    n_low = sum(parameter.numel() for parameter in low.value.parameters())
    assert n_low == 17 * rank + rank * H * V + H * V


BRANCH_INNER = 4


def branched() -> BranchedHeads:
    torch.manual_seed(16)
    feed_forwards = [build_feed_forward("relu", d_model=17, d_ff=BRANCH_INNER, dropout=0.0) for _ in range(H)]
    module = BranchedHeads(d_model=17, d_value=V, feed_forwards=feed_forwards)
    randomise(module)
    return module


def test_branched_heads_are_the_papers_formula() -> None:
    """BranchedAttention = Σ_i α_i FFN_i(κ_i head_i W_Oⁱ), FFN_i(x) = max(0, x W₁ + b₁) W₂ + b₂."""
    module = branched()
    heads_BHTK = torch.randn(B, H, T, V)
    kappa, alpha = module.kappa.exp() / module.kappa.exp().sum(), module.alpha.exp() / module.alpha.exp().sum()
    expected = torch.zeros(B, T, 17)
    for i in range(H):
        inside = kappa[i] * linear(module, f"outputs.{i}", heads_BHTK[:, i])
        hidden = linear(module, f"feed_forwards.{i}.inner", inside).clamp(min=0)
        expected += alpha[i] * linear(module, f"feed_forwards.{i}.outer", hidden)
    close(module(heads_BHTK), expected)


def test_branched_attention_takes_in_the_heads_one_by_one() -> None:
    output = branched()
    module = MultiHeadAttention(d_model=17, n_heads=H, d_key=K, d_value=V, output=output)
    x, mask = torch.randn(B, S, 17), padding_mask(LENGTHS, S)
    actual, attended = module(x, mask=mask)
    heads = module.weights(x, mask=mask) @ attended.values_NHTK
    close(actual, output(heads))


def test_weights_of_branches_sum_to_one_also_after_learning() -> None:
    module = branched()
    before = module.kappa.softmax(0).detach(), module.alpha.softmax(0).detach()
    optimizer = torch.optim.SGD(module.parameters(), lr=5.0)
    module(torch.randn(B, H, T, V)).square().mean().backward()
    optimizer.step()
    for weights, old in zip((module.kappa.softmax(0), module.alpha.softmax(0)), before, strict=True):
        assert (weights - old).abs().max() > 1e-3
        assert (weights > 0).all()
        assert weights.sum().item() == pytest.approx(1, abs=1e-6)


def test_dropout_on_weights_acts_while_training_only() -> None:
    torch.manual_seed(17)
    module = MultiHeadAttention(d_model=17, n_heads=H, d_key=K, d_value=V, weight_dropout=0.5)
    x = torch.randn(B, T, 17)
    module.eval()
    rested, _ = module(x, mask=None)
    close(module(x, mask=None)[0], rested)
    module.train()
    trained = torch.stack([module(x, mask=None)[0] for _ in range(2000)])
    assert not torch.allclose(trained[0], rested)
    torch.testing.assert_close(trained.mean(0), rested, rtol=0, atol=0.03)  # its expectation is the weights themselves
