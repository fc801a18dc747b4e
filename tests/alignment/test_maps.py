"""What is shown is what the model used: the fused kernel's output follows from the weights, whatever the parts."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attendo.alignment.maps import attention_maps, watched
from attendo.data.batch import Batch, make_batch
from attendo.data.text_batch import segments_batch
from attendo.models.family import Member, build_model
from attendo.models.settings import (
    BertConfig,
    ClassifierConfig,
    ConvolutionalConfig,
    GPTConfig,
    ModelConfig,
    RecurrentConfig,
    VisionConfig,
)
from attendo.models.transformer import Transformer
from attendo.nn.attention import BareAttention, MultiHeadAttention
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


Work = Callable[[Any], Tensor]
Attention = MultiHeadAttention | BareAttention


def used(model: Member, work: Work) -> tuple[Tensor, list[tuple[Attention, Tensor, Tensor]]]:
    """(what comes of the work, of each attention in the order of computing: the module, its values and its output)."""
    seen: list[tuple[Attention, Tensor, Tensor]] = []

    def note(module: nn.Module, inputs: Any, result: Any) -> None:
        if isinstance(module, MultiHeadAttention):
            seen.append((module, result[1].values_NHTK, result[0]))
        elif isinstance(module, BareAttention):
            seen.append((module, inputs[1].values_NHTK, result))

    hooks = [module.register_forward_hook(note) for module in model.modules()]
    with torch.inference_mode():
        result = work(model)
    for hook in hooks:
        hook.remove()
    return result, seen


def check(model: Member, work: Work) -> list[Tensor]:
    """The model gives what its twin does, and each attention what follows from the weights by hand; these in turn."""
    expected, seen = used(model, work)
    maps = watched(model, work)
    torch.testing.assert_close(maps.result, expected, rtol=1e-9, atol=1e-9)
    in_turn = [*maps.encoder]
    if maps.decoder and maps.cross:
        in_turn += [one for both in zip(maps.decoder, maps.cross, strict=True) for one in both]
    else:
        in_turn += [*maps.decoder, *maps.cross]
    assert len(in_turn) == len(seen) == sum(model.config.attentions.values())
    for weights, (module, values, output) in zip(in_turn, seen, strict=True):
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:3], dtype=torch.float64))
        values = values.repeat_interleave(weights.shape[1] // values.shape[1], dim=1)
        computed = torch.einsum("bhts,bhsk->bhtk", weights, values)
        if isinstance(module, MultiHeadAttention):
            with torch.inference_mode():
                more = module.positions.gathered(weights, offset=0)
                computed = module.output(computed if more is None else computed + more)
        torch.testing.assert_close(computed, output, rtol=1e-9, atol=1e-9)
    return in_turn


@pytest.mark.parametrize("name", PARTS)
def test_the_models_output_follows_from_the_weights(name, batch):
    model = model_of(PARTS[name])
    assert attention_maps(model, batch).result.shape == (2, 5, model.config.d_model)
    check(model, lambda one: one.hidden(batch.source_BS, batch.source_lengths_B, batch.target_in_BT))


SIZES: dict[str, Any] = {"d_model": 30, "d_ff": 23, "n_heads": 3, "n_layers": 2}
SIDES: dict[str, Any] = {"source_vocab_size": 31, "target_vocab_size": 31}
LAYERS: dict[str, Any] = {"n_encoder_layers": 2, "n_decoder_layers": 3}
PIXELS: dict[str, Any] = {"n_labels": 7, "height": 6, "width": 9, "mean": (20.0,), "deviation": (70.0,), "patch": 3}
# Of each model: its settings, what it is given, and the shapes of its maps: how many, heads, rows, columns.
FAMILY: dict[str, tuple[ModelConfig, str, tuple[int, ...]]] = {
    "gpt": (GPTConfig(vocab_size=31, positions="learned", n_positions=11, **SIZES), "ids", (2, 3, 5, 5)),
    "llama": (
        GPTConfig(vocab_size=31, positions="rotary", **SIZES | {"n_heads": 4, "n_key_heads": 2, "d_model": 32}),
        "ids",
        (2, 4, 5, 5),
    ),
    "bert": (BertConfig(vocab_size=31, **SIZES), "texts", (2, 3, 7, 7)),
    "classifier": (ClassifierConfig(vocab_size=31, n_labels=5, pooling="mean", **SIZES), "texts", (2, 3, 7, 7)),
    "vit": (VisionConfig(**PIXELS, **SIZES), "pixels", (2, 3, 7, 7)),
    "vit, mean": (VisionConfig(**PIXELS, **SIZES, pooling="mean"), "pixels", (2, 3, 6, 6)),
    "gru": (RecurrentConfig(**SIDES, **LAYERS, d_model=26, cell="gru", n_heads=2), "pairs", (1, 2, 5, 7)),
    "lstm": (RecurrentConfig(**SIDES, d_model=26, scoring="additive"), "pairs", (1, 1, 5, 7)),
    "conv": (ConvolutionalConfig(**SIDES, **LAYERS, d_model=13, n_positions=17), "pairs", (3, 1, 5, 7)),
}


@pytest.mark.parametrize("name", FAMILY)
def test_every_model_of_the_family_uses_what_is_shown(name, batch):
    config, given, (n_layers, *shape) = FAMILY[name]
    torch.manual_seed(3)
    model: Any = build_model(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    texts = segments_batch([[5, 6, 7], [8]], [[9], []])
    works: dict[str, Work] = {
        "ids": lambda one: one(batch.target_in_BT),
        "texts": lambda one: one(texts),
        "pixels": lambda one: one(255 * torch.rand(2, 1, 6, 9, dtype=torch.float64, generator=torch.Generator())),
        "pairs": lambda one: one(batch.source_BS, batch.source_lengths_B, batch.target_in_BT),
    }
    weights = check(model, works[given])
    assert [one.shape for one in weights] == [(2, *shape)] * n_layers


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
