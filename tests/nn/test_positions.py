"""Suffixes: B batch, H heads, T queries or positions, S keys, K head size, D d_model."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from attendo.errors import DataError
from attendo.nn.attention import DotProduct, MultiHeadAttention
from attendo.nn.masks import causal_mask, padding_mask
from attendo.nn.names import Layout
from attendo.nn.positions import (
    AttentionPositions,
    BucketPositions,
    ComplexPositions,
    ConcatenatedPositions,
    LearnedPositions,
    RotaryPositions,
    ShawPositions,
    SinusoidalPositions,
    relative_distances,
    sinusoids,
)

B, H, T, S = 2, 3, 5, 7


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


def naive_sinusoids(n_positions: int, d_model: int, layout: Layout) -> Tensor:
    table = torch.zeros(n_positions, d_model, dtype=torch.float64)
    for position in range(n_positions):
        for feature in range(d_model):
            angle = position / 10000 ** (2 * (feature // 2) / d_model)
            value = math.sin(angle) if feature % 2 == 0 else math.cos(angle)
            first_cosine = (d_model + 1) // 2
            column = feature if layout == "interleaved" else feature // 2 + (feature % 2) * first_cosine
            table[position, column] = value
    return table.float()


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
@pytest.mark.parametrize("d_model", [1, 2, 12, 13])
def test_sinusoids_equal_the_formula(layout: Layout, d_model: int) -> None:
    torch.testing.assert_close(
        sinusoids(31, d_model, layout=layout), naive_sinusoids(31, d_model, layout), rtol=0, atol=1e-7
    )


@pytest.mark.parametrize("d_model", [12, 13])
def test_halves_equal_marians_table(d_model: int) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed: no Marian to compare with")
    from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

    theirs = MarianSinusoidalPositionalEmbedding(31, d_model).create_weight()
    torch.testing.assert_close(sinusoids(31, d_model, layout="halves"), theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_sinusoids_are_added_from_the_offset_on_and_grow_with_the_text(layout: Layout) -> None:
    torch.manual_seed(1)
    module = SinusoidalPositions(d_model=7, layout=layout)
    table = naive_sinusoids(600, 7, layout)
    for offset, length in [(0, 5), (3, 5), (250, 11), (0, 599), (599, 1), (2, 3)]:
        x = torch.randn(B, length, 7)
        torch.testing.assert_close(module(x, offset=offset), x + table[offset : offset + length], rtol=0, atol=1e-6)


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_concatenated_sinusoids_are_projected_with_the_word(layout: Layout) -> None:
    torch.manual_seed(1)
    module = ConcatenatedPositions(d_model=7, layout=layout)
    weight, bias, table = torch.randn(7, 14), torch.randn(7), naive_sinusoids(300, 7, layout)
    module.load_state_dict({"projection.weight": weight, "projection.bias": bias})
    for offset, length in [(0, T), (3, T), (290, 10)]:
        x = torch.randn(B, length, 7)
        expected = torch.zeros(B, length, 7)
        for t in range(length):
            expected[:, t] = x[:, t] @ weight[:, :7].T + weight[:, 7:] @ table[offset + t] + bias
        close(module(x, offset=offset), expected)


def test_added_sinusoids_are_a_special_case_of_concatenated_ones() -> None:
    torch.manual_seed(1)
    module = ConcatenatedPositions(d_model=7)
    identities = torch.cat((torch.eye(7), torch.eye(7)), dim=1)
    module.load_state_dict({"projection.weight": identities, "projection.bias": torch.zeros(7)})
    x = torch.randn(B, T, 7)
    close(module(x, offset=3), SinusoidalPositions(d_model=7)(x, offset=3))


SINUSOIDAL, CONCATENATED = SinusoidalPositions(d_model=6), ConcatenatedPositions(d_model=6)
ROTARY = RotaryPositions(d_key=6)


@pytest.mark.parametrize(
    ("module", "call", "shape"),
    [
        (SINUSOIDAL, SINUSOIDAL, (B, 300, 6)),
        (CONCATENATED, CONCATENATED, (B, 300, 6)),
        (ROTARY, lambda x: ROTARY.turned(x, offset=0), (B, H, 300, 6)),
    ],
    ids=["sinusoidal", "concatenated", "rotary"],
)
def test_a_table_grown_while_translating_serves_training_in_its_own_type(
    module: torch.nn.Module, call: Callable[[Tensor], Tensor], shape: tuple[int, ...]
) -> None:
    module.bfloat16()
    with torch.inference_mode():
        assert call(torch.ones(shape, dtype=torch.bfloat16)).dtype == torch.bfloat16
    x = torch.ones(shape, dtype=torch.bfloat16, requires_grad=True)
    call(x).sum().backward()
    assert x.grad is not None


def test_tables_are_not_part_of_the_weights() -> None:
    assert not SinusoidalPositions(d_model=6).state_dict()
    assert not RotaryPositions(d_key=6).state_dict()
    assert set(ConcatenatedPositions(d_model=6).state_dict()) == {"projection.weight", "projection.bias"}


def test_learned_positions_are_added_from_the_offset_on() -> None:
    torch.manual_seed(2)
    module = LearnedPositions(d_model=7, n_positions=11)
    torch.nn.init.normal_(module.weight)
    x = torch.randn(B, T, 7)
    torch.testing.assert_close(module(x), x + module.weight[:5])
    torch.testing.assert_close(module(x, offset=6), x + module.weight[6:11])


@pytest.mark.parametrize(("offset", "length"), [(0, 12), (7, 5)])
def test_more_positions_than_learned_is_an_error_that_says_what_to_do(offset: int, length: int) -> None:
    module = LearnedPositions(d_model=7, n_positions=11)
    with pytest.raises(DataError, match=r"12 pieces.*11 positions.*n_positions"):
        module(torch.zeros(B, length, 7), offset=offset)


def test_rotary_dot_product_depends_on_distance_alone() -> None:
    torch.manual_seed(3)
    rotate = RotaryPositions(d_key=14).turned
    query, key = torch.randn(1, 1, 1, 14), torch.randn(1, 1, 1, 14)

    def product(query_position: int, key_position: int) -> float:
        return (rotate(query, offset=query_position) * rotate(key, offset=key_position)).sum().item()

    for distance in [0, 1, 5, 40]:
        products = [product(start + distance, start) for start in [0, 1, 13, 300]]
        assert products == pytest.approx([products[0]] * 4, abs=1e-4)
    assert abs(product(5, 0) - product(0, 0)) > 0.1
    assert abs(product(5, 0) - product(0, 5)) > 0.1  # the direction counts too


def test_rotary_turns_each_pair_by_its_angle() -> None:
    torch.manual_seed(4)
    x = torch.randn(B, H, T, 6)
    turned = RotaryPositions(d_key=6).turned(x, offset=2)
    for t in range(T):
        for i in range(3):
            angle = (t + 2) * 10000 ** (-2 * i / 6)
            turn = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
            expected = x[:, :, t, 2 * i : 2 * i + 2] @ turn.T
            torch.testing.assert_close(turned[:, :, t, 2 * i : 2 * i + 2], expected, rtol=1e-5, atol=1e-6)


def test_rotary_equals_llama_after_moving_pairs_to_halves() -> None:
    pytest.importorskip("transformers", reason="transformers is not installed: no Llama to compare with")
    from transformers.models.llama.modeling_llama import LlamaConfig, LlamaRotaryEmbedding, apply_rotary_pos_emb

    torch.manual_seed(5)
    d_key, offset = 14, 7
    queries, keys = torch.randn(B, H, T, d_key), torch.randn(B, H, T, d_key)
    to_halves = torch.cat((torch.arange(0, d_key, 2), torch.arange(1, d_key, 2)))
    config = LlamaConfig(
        hidden_size=H * d_key,
        num_attention_heads=H,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    )
    cos, sin = LlamaRotaryEmbedding(config)(queries, torch.arange(offset, offset + T)[None])
    their_queries, their_keys = apply_rotary_pos_emb(queries[..., to_halves], keys[..., to_halves], cos, sin)
    rotate = RotaryPositions(d_key=d_key).turned
    torch.testing.assert_close(rotate(queries, offset=offset)[..., to_halves], their_queries, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(rotate(keys, offset=offset)[..., to_halves], their_keys, rtol=1e-5, atol=1e-5)


def test_no_positions_in_attention_change_nothing() -> None:
    x = torch.randn(B, H, T, 6)
    nothing = AttentionPositions()
    assert nothing.turned(x, offset=3) is x
    assert nothing.bias(x, scale=0.5, offset=3, n_keys=8) is None
    assert nothing.gathered(x, offset=3) is None
    assert not list(nothing.parameters())


@pytest.mark.parametrize("offset", [0, 4])
def test_relative_distances_are_key_minus_query(offset: int) -> None:
    distances = relative_distances(T, S, offset=offset, device=torch.device("cpu"))
    assert distances.tolist() == [[s - (offset + t) for s in range(S)] for t in range(T)]


# Shaw et al. 2018


def shaw_attention(
    module: MultiHeadAttention, shaw: ShawPositions, x_BSD: Tensor, *, causal: bool, first: int = 0
) -> Tensor:
    """Equations 1, 3 and 4 of the paper, one query and key at a time, of the queries from `first` on."""
    d_key, d_value = shaw.keys.shape[1], shaw.values.shape[1]
    k = shaw.max_distance
    rows = []
    for x_SD in x_BSD:
        heads = []
        for h in range(H):
            of_keys, of_values = slice(h * d_key, (h + 1) * d_key), slice(h * d_value, (h + 1) * d_value)
            q_SK, k_SK, v_SV = module.query(x_SD)[:, of_keys], module.key(x_SD)[:, of_keys], module.value(x_SD)
            outputs = []
            for i in range(first, len(x_SD)):
                seen = range(i + 1 if causal else len(x_SD))
                clipped = {j: max(-k, min(k, j - i)) + k for j in seen}
                e = torch.stack([q_SK[i] @ (k_SK[j] + shaw.keys[clipped[j]]) / math.sqrt(d_key) for j in seen])
                alpha = e.exp() / e.exp().sum()
                parts = [alpha[j] * (v_SV[j, of_values] + shaw.values[clipped[j]]) for j in seen]
                outputs.append(torch.stack(parts).sum(0))
            heads.append(torch.stack(outputs))
        rows.append(torch.cat(heads, dim=-1))
    return torch.stack(rows) @ module.get_parameter("output.weight").T + module.get_parameter("output.bias")


def with_shaw(max_distance: int) -> tuple[MultiHeadAttention, ShawPositions]:
    torch.manual_seed(6)
    shaw = ShawPositions(d_key=11, d_value=13, max_distance=max_distance)
    module = MultiHeadAttention(d_model=17, n_heads=H, d_key=11, d_value=13, positions=shaw)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.3)
    return module, shaw


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("max_distance", [1, 3, 40])
def test_shaw_is_the_papers_double_loop(max_distance: int, causal: bool) -> None:
    module, shaw = with_shaw(max_distance)
    x, upstream = torch.randn(B, S, 17), torch.randn(B, S, 17)
    actual, _ = module(x, mask=causal_mask(S) if causal else None)
    expected = shaw_attention(module, shaw, x, causal=causal)
    close(actual, expected)
    parameters = list(module.parameters())
    for of_ours, of_loop in zip(
        torch.autograd.grad(actual, parameters, upstream),
        torch.autograd.grad(expected, parameters, upstream),
        strict=True,
    ):
        torch.testing.assert_close(of_ours, of_loop, rtol=1e-4, atol=1e-5)
    (of_values,) = torch.autograd.grad(module(x, mask=None)[0], shaw.values, upstream)
    used = min(max_distance, S - 1)
    assert (of_values.abs().amax(-1) > 0).sum() == 2 * used + 1, "each distance has a vector of its own"


@pytest.mark.parametrize("seen", [1, 4])
def test_shaw_after_a_past_is_the_papers_double_loop(seen: int) -> None:
    module, shaw = with_shaw(2)
    x = torch.randn(B, S, 17)
    _, past = module(x[:, :seen], mask=causal_mask(seen))
    actual, _ = module(x[:, seen:], mask=causal_mask(S - seen, offset=seen), past=past)
    close(actual, shaw_attention(module, shaw, x, causal=True, first=seen))


# T5


@pytest.mark.parametrize("both_ways", [True, False])
@pytest.mark.parametrize(
    ("n_buckets", "max_distance"), [(32, 128), (32, 17), (4, 3), (6, 5), (8, 11), (10, 50), (64, 300), (16, 1000)]
)
def test_buckets_equal_t5s(n_buckets: int, max_distance: int, both_ways: bool) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed: no T5 to compare with")
    from transformers.models.t5.modeling_t5 import T5Attention

    module = BucketPositions(n_heads=H, n_buckets=n_buckets, max_distance=max_distance, both_ways=both_ways)
    distances = torch.arange(-300, 301)
    expected = T5Attention._relative_position_bucket(
        distances, bidirectional=both_ways, num_buckets=n_buckets, max_distance=max_distance
    )
    assert torch.equal(module.buckets(distances), expected)
    assert 0 <= expected.min() <= expected.max() < n_buckets


@pytest.mark.parametrize("both_ways", [True, False])
@pytest.mark.parametrize("offset", [0, 4])
def test_bucket_bias_is_one_number_for_each_head_and_distance(both_ways: bool, offset: int) -> None:
    torch.manual_seed(7)
    module = BucketPositions(n_heads=H, n_buckets=8, max_distance=11, both_ways=both_ways)
    torch.nn.init.normal_(module.weight)
    bias = module.bias(torch.randn(B, H, T, 3), scale=0.1, offset=offset, n_keys=S)
    assert bias.shape == (H, T, S)
    for t in range(T):
        for s in range(S):
            (bucket,) = module.buckets(torch.tensor([s - t - offset])).tolist()
            assert torch.equal(bias[:, t, s], module.weight[bucket])


@pytest.mark.parametrize("both_ways", [True, False])
def test_attention_with_buckets_equals_t5s(both_ways: bool) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed: no T5 to compare with")
    from transformers.models.t5.modeling_t5 import T5Attention, T5Config

    torch.manual_seed(8)
    length, d_model, d_key = 29, 17, 11
    config = T5Config(
        d_model=d_model,
        d_kv=d_key,
        num_heads=H,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=13,
        is_decoder=not both_ways,
        attn_implementation="eager",
        dropout_rate=0.0,
    )
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    positions = BucketPositions(n_heads=H, n_buckets=8, max_distance=13, both_ways=both_ways)
    ours = MultiHeadAttention(
        d_model=d_model, n_heads=H, d_key=d_key, d_value=d_key, scoring=DotProduct(scale=1.0), positions=positions
    )
    names = {"query": "q", "key": "k", "value": "v", "output": "o", "positions": "relative_attention_bias"}
    with torch.no_grad():
        for name, parameter in ours.named_parameters():
            parameter.zero_() if name.endswith("bias") else parameter.normal_(std=0.3)  # T5 has no biases
        for name, their_name in names.items():
            theirs.get_parameter(f"{their_name}.weight").copy_(ours.get_parameter(f"{name}.weight"))
    mask = padding_mask(torch.tensor([length, 11]), length)
    if not both_ways:
        mask = mask & causal_mask(length)
    x, upstream = torch.randn(B, length, d_model), 0.1 * torch.randn(B, length, d_model)
    expected = theirs(x, mask=torch.zeros(mask.shape).masked_fill(~mask, -math.inf))[0]
    actual, _ = ours(x, mask=mask)
    close(actual, expected)
    actual.backward(upstream)
    expected.backward(upstream)
    for name, their_name in names.items():
        of_ours, of_theirs = (
            ours.get_parameter(f"{name}.weight").grad,
            theirs.get_parameter(f"{their_name}.weight").grad,
        )
        assert of_ours is not None
        close(of_ours, of_theirs)


# Complex


@pytest.mark.parametrize("offset", [0, 4])
def test_complex_positions_turn_every_word_by_frequencies_of_its_own(offset: int) -> None:
    torch.manual_seed(9)
    module = ComplexPositions(vocab_size=31, d_model=14)
    torch.nn.init.normal_(module.weight)
    ids, x = torch.randint(31, (B, T)), torch.randn(B, T, 14, requires_grad=True)
    upstream = torch.randn(B, T, 14)
    actual = module(x, ids, offset=offset)

    frequencies = module.weight.detach().clone().requires_grad_()
    z_BTK = torch.view_as_complex(x.unflatten(-1, (7, 2)))
    rows = []
    for t in range(T):
        rows.append(z_BTK[:, t] * torch.exp(1j * frequencies[ids[:, t]] * (t + offset)))
    expected = torch.view_as_real(torch.stack(rows, dim=1)).flatten(-2)
    close(actual, expected)
    of_ours = torch.autograd.grad(actual, [x, module.weight], upstream)
    for of_part, of_formula in zip(of_ours, torch.autograd.grad(expected, [x, frequencies], upstream), strict=True):
        torch.testing.assert_close(of_part, of_formula, rtol=1e-5, atol=1e-4)
    assert of_ours[1][ids[0, 1]].abs().min() > 0


def test_complex_positions_keep_the_amplitude() -> None:
    torch.manual_seed(10)
    module = ComplexPositions(vocab_size=31, d_model=14)
    x = torch.randn(B, T, 14)
    turned = module(x, torch.randint(31, (B, T)), offset=3)
    close(turned.unflatten(-1, (7, 2)).norm(dim=-1), x.unflatten(-1, (7, 2)).norm(dim=-1))


def test_complex_frequencies_are_the_sinusoids_at_first() -> None:
    """So that a word whose vector is all i begins as -sin and cos of the sinusoids' angles."""
    module = ComplexPositions(vocab_size=31, d_model=14)
    i = torch.tensor([0.0, 1.0]).repeat(7).expand(1, T, 14)
    table = naive_sinusoids(T, 14, "interleaved").unflatten(-1, (7, 2))
    expected = torch.stack((-table[..., 0], table[..., 1]), dim=-1).flatten(-2)
    close(module(i, torch.full((1, T), 5)), expected[None])
