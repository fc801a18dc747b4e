import math

import pytest
import torch
from torch import Tensor

from attendo.errors import DataError
from attendo.nn.positions import Layout, LearnedPositions, RotaryPositions, SinusoidalPositions, sinusoids

B, H, T = 2, 3, 5


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


@pytest.mark.parametrize(
    ("module", "shape"),
    [(SinusoidalPositions(d_model=6), (B, 300, 6)), (RotaryPositions(d_key=6), (B, H, 300, 6))],
    ids=["sinusoidal", "rotary"],
)
def test_a_table_grown_while_translating_serves_training_in_its_own_type(
    module: SinusoidalPositions | RotaryPositions, shape: tuple[int, ...]
) -> None:
    module.bfloat16()
    with torch.inference_mode():
        assert module(torch.ones(shape, dtype=torch.bfloat16)).dtype == torch.bfloat16
    x = torch.ones(shape, dtype=torch.bfloat16, requires_grad=True)
    module(x).sum().backward()
    assert x.grad is not None


def test_tables_are_not_part_of_the_weights() -> None:
    assert not SinusoidalPositions(d_model=6).state_dict()
    assert not RotaryPositions(d_key=6).state_dict()


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
    rotate = RotaryPositions(d_key=14)
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
    turned = RotaryPositions(d_key=6)(x, offset=2)
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
    rotate = RotaryPositions(d_key=d_key)
    torch.testing.assert_close(rotate(queries, offset=offset)[..., to_halves], their_queries, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(rotate(keys, offset=offset)[..., to_halves], their_keys, rtol=1e-5, atol=1e-5)
