"""What is shown is what the model used: the fused kernel's output follows from the weights, whatever the parts."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attendo.alignment.maps import attention_maps
from attendo.data.batch import Batch, make_batch
from attendo.models.transformer import Transformer
from attendo.nn.attention import MultiHeadAttention
from tests.untrained import VOCAB_SIZE, untrained_model

SOURCES, TARGETS = [[5, 6, 7, 8, 9, 10], [11, 12, 13]], [[14, 15, 16, 17], [18, 19]]

PARTS: dict[str, dict[str, Any]] = {
    **{
        f"positions {name}": {"positions": name, "max_distance": 2}
        for name in ("none", "sinusoidal", "sinusoidal-concatenated", "learned", "rotary", "shaw", "t5", "complex")
    },
    "unscaled": {"scoring": "dot"},
    "additive": {"scoring": "additive"},
    "sizes of their own": {"d_key": 5, "d_value": 7},
    "grouped": {"n_heads": 6, "n_key_heads": 2},
    "low rank": {"value_rank": 11},
    "one matrix": {"share_query_key": True},
    "branched": {"heads": "branched", "d_ff": 21},
    "window": {"span": "window", "window": 1},
    "chunk": {"span": "chunk", "chunk": 2},
    "pre-norm": {"norm_place": "pre", "norm": "rmsnorm"},
    "batch norm": {"norm": "batchnorm"},
    "one layer": {"share_layers": "all"},
    "one stack": {"share_encoder_decoder": True, "n_encoder_layers": 3},
    "shaw, additive span": {"positions": "shaw", "span": "window", "norm_place": "sandwich"},
}


def model_of(parts: dict[str, Any]) -> Transformer:
    """In float64, so that equal is equal."""
    sizes = {"n_encoder_layers": 2, "n_decoder_layers": 3}
    return untrained_model(VOCAB_SIZE, **{**sizes, **parts}).double()


@pytest.fixture(scope="module")
def batch() -> Batch:
    return make_batch(SOURCES, TARGETS)


def used(model: Transformer, batch: Batch) -> tuple[Tensor, list[tuple[MultiHeadAttention, Tensor, Tensor]]]:
    """(hidden, of each attention in the order of computing: the module, its values and its output), as it runs."""
    seen: list[tuple[MultiHeadAttention, Tensor, Tensor]] = []

    def note(module: nn.Module, _: Any, result: Any) -> None:
        assert isinstance(module, MultiHeadAttention)
        seen.append((module, result[1].values_NHTK, result[0]))

    hooks = [module.register_forward_hook(note) for module in model.modules() if isinstance(module, MultiHeadAttention)]
    with torch.inference_mode():
        hidden = model.hidden(batch.source_BS, batch.source_lengths_B, batch.target_in_BT)
    for hook in hooks:
        hook.remove()
    return hidden, seen


@pytest.mark.parametrize("name", PARTS)
def test_the_models_output_follows_from_the_weights(name, batch):
    model = model_of(PARTS[name])
    hidden, seen = used(model, batch)
    maps = attention_maps(model, batch)
    torch.testing.assert_close(maps.hidden_BTD, hidden, rtol=1e-9, atol=1e-9)
    in_turn = [*maps.encoder, *(one for both in zip(maps.decoder, maps.cross, strict=True) for one in both)]
    assert len(in_turn) == len(seen) == model.config.n_encoder_layers + 2 * model.config.n_decoder_layers
    for weights, (module, values, output) in zip(in_turn, seen, strict=True):
        values = values.repeat_interleave(weights.shape[1] // values.shape[1], dim=1)
        heads = torch.einsum("bhts,bhsk->bhtk", weights, values)
        with torch.inference_mode():
            more = module.positions.gathered(weights, offset=0)
            computed = module.output(heads if more is None else heads + more)
        torch.testing.assert_close(computed, output, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["positions sinusoidal", "positions shaw", "window", "one stack"])
def test_weights_are_shares_of_what_may_be_seen(name, batch):
    model = model_of(PARTS[name])
    maps = attention_maps(model, batch)
    S, T, H = 7, 5, model.config.n_heads
    shapes = {"encoder": (2, H, S, S), "decoder": (2, H, T, T), "cross": (2, H, T, S)}
    for kind, shape in shapes.items():
        for weights in maps.of(kind):  # type: ignore[arg-type]
            assert weights.shape == shape
            torch.testing.assert_close(weights.sum(-1), torch.ones(shape[:3], dtype=torch.float64))
    assert not any(weights[1, :, :, 4:].any() for weights in maps.cross)  # padding
    assert not any(weights.triu(1).any() for weights in maps.decoder)  # the future


def test_the_weights_are_those_of_torchs_own_attention(batch):
    """The first layer's, whose input is the embedding."""
    model = model_of({"n_heads": 3, "d_model": 30})
    attention = model.encoder.blocks[0].attention
    assert isinstance(attention, MultiHeadAttention)
    theirs = nn.MultiheadAttention(30, 3, batch_first=True, dtype=torch.float64)
    with torch.inference_mode():
        projections = (attention.query, attention.key, attention.value)
        theirs.in_proj_weight.copy_(torch.cat([one.weight for one in projections]))  # type: ignore[misc]
        theirs.in_proj_bias.copy_(torch.cat([one.bias for one in projections]))  # type: ignore[misc]
        x = model.encoder.embedding(batch.source_BS)
        padding = torch.arange(7) >= batch.source_lengths_B[:, None]
        _, expected = theirs(x, x, x, key_padding_mask=padding, average_attn_weights=False)
    torch.testing.assert_close(attention_maps(model, batch).encoder[0], expected, rtol=0, atol=1e-12)


def test_the_model_stays_as_it_is(batch):
    model = model_of({"positions": "rotary"})
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    first = attention_maps(model, batch)
    assert all(module.scoring.fused for module in model.modules() if isinstance(module, MultiHeadAttention))
    again = attention_maps(model, batch)
    assert all(torch.equal(a, b) for a, b in zip(first.cross, again.cross, strict=True))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
