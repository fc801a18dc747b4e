"""Suffixes: B batch, H heads, T queries, S keys, K key size, V value size, D d_model."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attendo.nn.attention import (
    MultiHeadAttention,
    attention_scores,
    attention_weights,
    explicit_attention,
    fused_attention,
)
from attendo.nn.cache import KeysValues
from attendo.nn.masks import causal_mask, padding_mask
from attendo.nn.positions import RotaryPositions

B, H, T, S, K, V = 2, 3, 5, 7, 11, 13
D = 21  # a multiple of H where torch.nn is the reference
LENGTHS = torch.tensor([7, 4])


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


def keep(name: str) -> Tensor | None:
    masks = {"none": None, "padding": padding_mask(LENGTHS, S), "causal": causal_mask(S)[:, :, S - T :]}
    return masks[name] if name != "both" else causal_mask(S)[:, :, S - T :] & padding_mask(LENGTHS, S)


def randomise(module: nn.Module) -> None:
    """Also the biases, which begin as zeros and would hide that they are left out."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.3)


@pytest.mark.parametrize("mask_name", ["none", "padding", "causal", "both"])
@pytest.mark.parametrize("value_size", [K, V])
def test_fused_equals_explicit_forward_and_backward(mask_name: str, value_size: int) -> None:
    torch.manual_seed(1)
    queries, keys = torch.randn(B, H, T, K, requires_grad=True), torch.randn(B, H, S, K, requires_grad=True)
    values = torch.randn(B, H, S, value_size, requires_grad=True)
    inputs, upstream = [queries, keys, values], torch.randn(B, H, T, value_size)
    fused = fused_attention(queries, keys, values, keep(mask_name))
    explicit = explicit_attention(queries, keys, values, keep(mask_name))
    close(fused, explicit)
    for of_fused, of_explicit in zip(
        torch.autograd.grad(fused, inputs, upstream), torch.autograd.grad(explicit, inputs, upstream), strict=True
    ):
        close(of_fused, of_explicit)


def test_scores_are_dot_products_over_root_of_key_size() -> None:
    torch.manual_seed(2)
    queries, keys = torch.randn(B, H, T, K), torch.randn(B, H, S, K)
    scores = attention_scores(queries, keys, keep("padding"))
    assert scores.shape == (B, H, T, S)
    expected = sum(queries[1, 2, 3, k] * keys[1, 2, 1, k] for k in range(K)) / math.sqrt(K)
    close(scores[1, 2, 3, 1], torch.as_tensor(expected))
    assert (scores[1, ..., 4:] == -math.inf).all()
    assert scores[0].isfinite().all()


def test_scaling_keeps_the_variance_of_scores_at_one() -> None:
    torch.manual_seed(3)
    scores = attention_scores(torch.randn(1, 1, 401, 67), torch.randn(1, 1, 409, 67), None)
    assert scores.var().item() == pytest.approx(1.0, abs=0.05)


def test_weights_sum_to_one_and_are_zero_where_the_mask_forbids() -> None:
    torch.manual_seed(4)
    mask = keep("both")
    assert mask is not None
    weights = attention_weights(torch.randn(B, H, T, K), torch.randn(B, H, S, K), mask)
    close(weights.sum(-1), torch.ones(B, H, T))
    forbidden = ~mask.expand_as(weights)
    assert forbidden.any()
    assert (weights[forbidden] == 0).all()
    assert (weights[~forbidden] > 0).all()


def paired_with_torch() -> tuple[MultiHeadAttention, nn.MultiheadAttention]:
    torch.manual_seed(5)
    ours = MultiHeadAttention(d_model=D, n_heads=H, d_key=D // H, d_value=D // H)
    theirs = nn.MultiheadAttention(D, H, batch_first=True)
    randomise(ours)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
        theirs.out_proj.weight.copy_(ours.output.weight)
        theirs.out_proj.bias.copy_(ours.output.bias)
    return ours, theirs


def gradients_agree(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    grads = [ours.query.weight.grad, ours.key.weight.grad, ours.value.weight.grad]
    close(torch.cat([g for g in grads if g is not None]), theirs.in_proj_weight.grad)  # type: ignore[arg-type]
    grads = [ours.query.bias.grad, ours.key.bias.grad, ours.value.bias.grad]
    close(torch.cat([g for g in grads if g is not None]), theirs.in_proj_bias.grad)  # type: ignore[arg-type]
    close(ours.output.weight.grad, theirs.out_proj.weight.grad)  # type: ignore[arg-type]
    close(ours.output.bias.grad, theirs.out_proj.bias.grad)  # type: ignore[arg-type]


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
    expected = torch.zeros(B, T, d_model) + module.output.bias
    for b in range(B):
        for h in range(H):
            of_keys, of_values = slice(h * K, (h + 1) * K), slice(h * V, (h + 1) * V)
            q_TK = x[b] @ module.query.weight[of_keys].T + module.query.bias[of_keys]
            k_SK = memory[b] @ module.key.weight[of_keys].T + module.key.bias[of_keys]
            v_SV = memory[b] @ module.value.weight[of_values].T + module.value.bias[of_values]
            head_TV = F.softmax(q_TK @ k_SK.T / math.sqrt(K), dim=-1) @ v_SV
            expected[b] += head_TV @ module.output.weight[:, of_values].T
    close(actual, expected)


@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("parts", [[1, 1, 1, 1, 1, 1, 1], [2, 1, 4], [5, 2]])
def test_past_appended_part_by_part_equals_the_whole_sequence(rotary: bool, parts: list[int]) -> None:
    torch.manual_seed(7)
    rotation = RotaryPositions(d_key=K - 1) if rotary else None
    module = MultiHeadAttention(d_model=17, n_heads=H, d_key=K - 1, d_value=V, rotation=rotation)
    randomise(module)
    x = torch.randn(B, S, 17)
    whole, attended = module(x, mask=causal_mask(S))
    past: KeysValues | None = None
    outputs, seen = [], 0
    for part in parts:
        mask = causal_mask(seen + part)[:, :, seen:]
        output, past = module(x[:, seen : seen + part], mask=mask, past=past)
        outputs.append(output)
        seen += part
    close(torch.cat(outputs, dim=1), whole)
    assert past is not None
    close(past.keys_NHTK, attended.keys_NHTK)
    close(past.values_NHTK, attended.values_NHTK)


class Recorder:
    """A rotation that doubles, and notes what it was asked for."""

    def __init__(self) -> None:
        self.offsets: list[int] = []

    def __call__(self, x_BHTK: Tensor, *, offset: int) -> Tensor:
        self.offsets.append(offset)
        return 2 * x_BHTK


def test_rotation_is_applied_to_queries_and_keys_and_not_to_values() -> None:
    torch.manual_seed(8)
    rotation = Recorder()
    turned = MultiHeadAttention(d_model=17, n_heads=H, d_key=K, d_value=V, rotation=rotation)
    plain = MultiHeadAttention(d_model=17, n_heads=H, d_key=K, d_value=V)
    plain.load_state_dict(turned.state_dict())
    x = torch.randn(B, T, 17)
    close(turned.queries(x), 2 * plain.queries(x))
    close(turned.keys_values(x).keys_NHTK, 2 * plain.keys_values(x).keys_NHTK)
    close(turned.keys_values(x).values_NHTK, plain.keys_values(x).values_NHTK)
    rotation.offsets.clear()
    _, past = turned(x, mask=None)
    turned(x, mask=None, past=past)
    assert rotation.offsets == [0, 0, T, T]


def test_dropout_on_weights_acts_while_training_only() -> None:
    torch.manual_seed(9)
    module = MultiHeadAttention(d_model=17, n_heads=H, d_key=K, d_value=V, weight_dropout=0.5)
    x = torch.randn(B, T, 17)
    module.eval()
    rested, _ = module(x, mask=None)
    close(module(x, mask=None)[0], rested)
    module.train()
    trained = torch.stack([module(x, mask=None)[0] for _ in range(2000)])
    assert not torch.allclose(trained[0], rested)
    torch.testing.assert_close(trained.mean(0), rested, rtol=0, atol=0.03)  # its expectation is the weights themselves
