"""Suffixes: B batch, S source length, T target length, V vocabulary."""

import copy
import functools
import itertools
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from attendo.config import from_dict, to_dict
from attendo.errors import ConfigError, DataError
from attendo.models import presets
from attendo.models.settings import PositionsName, ScoringName, TransformerConfig
from attendo.models.transformer import Transformer, build, parameter_table
from attendo.nn.dropout import Dropout
from attendo.nn.names import ActivationName, NormName, NormPlace
from attendo.nn.positions import AttentionPositions, BucketPositions, RotaryPositions, ShawPositions
from tests.models.references import moved

B, S, T = 3, 11, 7
V = 31
LENGTHS = torch.tensor([11, 4, 8])
SIZES: dict[str, Any] = {
    "source_vocab_size": V,
    "target_vocab_size": V,
    "n_encoder_layers": 2,
    "n_decoder_layers": 3,
    "d_model": 17,
    "d_ff": 19,
    "n_heads": 5,
    "d_key": 6,
    "d_value": 13,
}


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


def tiny(**settings: Any) -> Transformer:
    """A model at rest whose biases and gains differ from zero and one, so that none can be forgotten."""
    torch.manual_seed(1)
    return moved(build(TransformerConfig(**{**SIZES, **settings})).eval())


def settled(**settings: Any) -> Transformer:
    """The same after as many training passes as BatchNorm needs for statistics that fit; other norms keep none."""
    return copy.deepcopy(_settled(tuple(settings.items())))


@functools.cache
def _settled(settings: tuple[tuple[str, Any], ...]) -> Transformer:
    model = tiny(**dict(settings))
    if model.config.norm == "batchnorm":
        model.train()
        with torch.no_grad():
            for _ in range(40):
                source, target = torch.randint(V, (B, S)), torch.randint(V, (B, T))
                model.hidden(source, LENGTHS, target, torch.tensor([7, 3, 5]))
    return model.eval()


def batch(target_vocab_size: int = V) -> tuple[Tensor, Tensor]:
    torch.manual_seed(2)
    return torch.randint(V, (B, S)), torch.randint(target_vocab_size, (B, T))


def one_of(key: str, names: tuple[str, ...], **others: Any) -> list[dict[str, Any]]:
    return [{key: name, **others} for name in names]


# Each part by itself, then what could come into each other's way. Sizes are changed where a part needs it.
PARTS: list[dict[str, Any]] = [
    *one_of("positions", get_args(PositionsName), d_model=18),
    {"positions": "sinusoidal-concatenated", "sinusoid_layout": "halves"},
    {"positions": "shaw", "max_distance": 2},
    {"positions": "t5", "n_buckets": 4, "bucket_distance": 3},
    {"positions": "complex", "d_model": 18, "tie_embeddings": "target"},
    *one_of("scoring", get_args(ScoringName)),
    {"share_query_key": True},
    {"n_key_heads": 1},
    {"n_heads": 6, "n_key_heads": 2},
    {"value_rank": 3},
    {"heads": "branched", "d_ff": 20, "activation": "gelu"},  # a branch of four ReLUs may be at rest as a whole
    {"span": "window", "window": 1},
    {"span": "window", "window": 3},
    {"span": "chunk", "chunk": 2, "left_chunks": 0},
    {"span": "chunk", "chunk": 3, "left_chunks": 1},
    *one_of("norm", get_args(NormName), norm_place="post"),
    *one_of("norm", get_args(NormName), norm_place="pre"),
    *one_of("norm", get_args(NormName), norm_place="sandwich"),
    *one_of("activation", get_args(ActivationName)),
    {"share_layers": "all"},
    {"share_layers": "groups", "layers_per_group": 2},
    {"share_encoder_decoder": True, "n_encoder_layers": 3},
    {"share_encoder_decoder": True, "n_encoder_layers": 3, "positions": "t5", "share_layers": "groups"},
    {"layer_drop": 0.3},
    {"positions": "shaw", "n_heads": 6, "n_key_heads": 2, "span": "chunk", "chunk": 3, "scoring": "dot"},
    {"positions": "t5", "scoring": "additive", "n_key_heads": 1, "span": "window", "window": 2, "value_rank": 2},
    {"positions": "rotary", "heads": "branched", "d_ff": 20, "activation": "silu", "norm_place": "sandwich"},
    {"heads": "branched", "d_ff": 20, "activation": "silu", "norm": "batchnorm", "norm_place": "sandwich"},
    {"positions": "rotary", "share_query_key": True, "span": "window", "window": 2, "share_layers": "all"},
    {"positions": "complex", "d_model": 18, "norm": "batchnorm", "layer_drop": 0.3, "activation": "swiglu"},
]


def name_of(settings: dict[str, Any]) -> str:
    return "-".join(f"{key}={value}" for key, value in settings.items() if key not in ("d_model", "d_ff"))


each_part = pytest.mark.parametrize("settings", PARTS, ids=name_of)


@each_part
def test_step_by_step_equals_the_whole_target_with_each_part(settings: dict[str, Any]) -> None:
    model = settled(**settings)
    source, target = batch()
    with torch.inference_mode():
        whole = model(source, LENGTHS, target)
        cache = model.encode(source, LENGTHS)
        for t in range(T):
            logits, cache = model.step(target[:, t], cache)
            close(logits, whole[:, t])
        assert cache.length == T
        assert len(cache.layers) == 3
        cache = model.encode(source, LENGTHS)
        first, cache = model.decoder(target[:, :2], cache)
        rest, cache = model.decoder(target[:, 2:], cache)
        close(model.output(torch.cat((first, rest), dim=1)), whole)


@each_part
def test_neighbours_and_padding_do_not_change_a_sentence_with_each_part(settings: dict[str, Any]) -> None:
    assert_sentences_stand_alone(settled(**settings))


@each_part
def test_the_future_does_not_change_the_past_with_each_part(settings: dict[str, Any]) -> None:
    model = settled(**settings)
    source, target = batch()
    changed = target.clone()
    changed[:, 4:] = (changed[:, 4:] + 1) % V
    with torch.inference_mode():
        logits, other = model(source, LENGTHS, target), model(source, LENGTHS, changed)
    close(other[:, :4], logits[:, :4])
    assert (other[:, 4:] - logits[:, 4:]).abs().amax(-1).min() > 1e-3


@each_part
def test_every_parameter_of_each_part_learns(settings: dict[str, Any]) -> None:
    model = settled(**settings)
    source, target = batch()
    model(source, LENGTHS, target).square().mean().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        if not name.endswith("key.bias"):  # it moves all scores of a row alike, which softmax does not see
            assert parameter.grad.abs().max() > 0, name


@each_part
def test_training_with_padding_stays_finite_with_each_part(settings: dict[str, Any]) -> None:
    model = tiny(**settings, attention_dropout=0.1, activation_dropout=0.1).train()
    source, target = batch()
    lengths = torch.tensor([11, 1, 2])
    model.hidden(source, lengths, target, torch.tensor([7, 1, 3])).square().mean().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("norm_place", get_args(NormPlace))
def test_padding_has_no_influence_on_norms_over_the_batch(norm_place: str) -> None:
    source, target = batch()
    lengths = torch.tensor([7, 3, 5])
    padding, target_padding = torch.arange(S) >= LENGTHS[:, None], torch.arange(T) >= lengths[:, None]
    settings = {"norm": "batchnorm", "norm_place": norm_place, "residual_dropout": 0.0}
    model, other = tiny(**settings).train(), tiny(**settings).train()
    vectors = model.hidden(source, LENGTHS, target, lengths)
    of_other = other.hidden(source.masked_fill(padding, 5), LENGTHS, target.masked_fill(target_padding, 5), lengths)
    close(of_other[~target_padding], vectors[~target_padding])
    for name, tensor in model.state_dict().items():
        close(other.state_dict()[name], tensor)
    means = [tensor for name, tensor in model.state_dict().items() if name.endswith("running_mean")]
    assert len(means) == {"post": 13, "pre": 15, "sandwich": 28}[norm_place]
    assert all(tensor.abs().max() > 0 for tensor in means)


@each_part
def test_the_config_determines_each_part(settings: dict[str, Any]) -> None:
    config = TransformerConfig(**{**SIZES, **settings})
    again = from_dict(TransformerConfig, to_dict(config))
    assert again == config
    with torch.device("meta"):
        model = build(again)
    assert all(tensor.is_meta for tensor in model.state_dict().values())
    assert model.state_dict().keys() == tiny(**settings).state_dict().keys()
    table = parameter_table(model)
    assert table["total"] == sum(parameter.numel() for parameter in model.parameters())


COMBINATIONS = list(
    itertools.product(
        ["post", "pre"],
        ["sinusoidal", "learned", "rotary"],
        ["relu", "gelu", "silu", "swiglu"],
        ["all", "target", "none"],
    )
)


@pytest.mark.parametrize(("norm_place", "positions", "activation", "tie_embeddings"), COMBINATIONS)
def test_step_by_step_equals_the_whole_target(
    norm_place: str, positions: str, activation: str, tie_embeddings: str
) -> None:
    target_vocab_size = V if tie_embeddings == "all" else 29
    model = tiny(
        norm_place=norm_place,
        positions=positions,
        activation=activation,
        tie_embeddings=tie_embeddings,
        target_vocab_size=target_vocab_size,
    )
    source, target = batch(target_vocab_size)
    with torch.inference_mode():
        whole = model(source, LENGTHS, target)
        assert whole.shape == (B, T, target_vocab_size)
        cache = model.encode(source, LENGTHS)
        for t in range(T):
            logits, cache = model.step(target[:, t], cache)
            close(logits, whole[:, t])
    assert cache.length == T


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
@pytest.mark.parametrize("norm", ["layernorm", "rmsnorm"])
def test_a_prefix_at_once_and_the_rest_after_equals_the_whole_target(positions: str, norm: str) -> None:
    model = tiny(positions=positions, norm=norm)
    source, target = batch()
    with torch.inference_mode():
        whole = model.hidden(source, LENGTHS, target)
        cache = model.encode(source, LENGTHS)
        first, cache = model.decoder(target[:, :2], cache)
        rest, cache = model.decoder(target[:, 2:], cache)
    close(torch.cat((first, rest), dim=1), whole)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "shaw", "t5"])
def test_select_reorders_repeats_and_leaves_out_rows(positions: str) -> None:
    model = tiny(positions=positions)
    source, target = batch()
    rows = torch.tensor([2, 0, 2, 2, 0])  # a beam: the last sentence thrice, the second gone
    with torch.inference_mode():
        cache = model.encode(source, LENGTHS)
        for t in range(3):
            _, cache = model.step(target[:, t], cache)
        cache = cache.select(rows)
        logits, cache = model.step(target[rows, 3], cache)
        expected = model(source[rows], LENGTHS[rows], target[rows, :4])[:, 3]
    close(logits, expected)
    assert cache.length == 4


def test_select_before_the_first_step() -> None:
    model = tiny()
    source, target = batch()
    rows = torch.tensor([1, 1, 0])
    with torch.inference_mode():
        logits, _ = model.step(target[rows, 0], model.encode(source, LENGTHS).select(rows))
        close(logits, model(source, LENGTHS, target)[rows, 0])


def test_the_prefixes_of_a_sentence_share_its_memory() -> None:
    model = tiny(share_layers="all")
    source, target = batch()
    rows = torch.arange(B).repeat_interleave(5)
    with torch.inference_mode():
        start = model.encode(source, LENGTHS)
        wide = start.select(rows)
        _, wide = model.step(target[rows, 0], wide)
        order = torch.tensor([3, 0, 4, 4, 1])  # within each sentence
        reordered = wide.select((torch.arange(B)[:, None] * 5 + order).flatten())
        fewer = wide.select(torch.arange(5, 5 * B))  # the first sentence is done
        uneven = wide.select(torch.arange(1, 5 * B))  # one of its prefixes is
    for cache in (start, wide, reordered):
        assert all(layer.memory is start.layers[0].memory for layer in cache.layers)
    assert [len(cache.memory_mask) for cache in (wide, reordered, fewer, uneven)] == [B, B, B - 1, 5 * B - 1]
    assert len({id(layer.memory) for layer in fewer.layers}) == 1
    with torch.inference_mode():
        for cache, kept in ((reordered, rows), (fewer, rows[5:]), (uneven, rows[1:])):
            logits, _ = model.step(target[kept, 1], cache)
            close(logits, model(source, LENGTHS, target)[kept, 1])


def assert_sentences_stand_alone(model: Transformer) -> None:
    source, target = batch()
    with torch.inference_mode():
        together = model(source, LENGTHS, target)
        for b, length in enumerate(LENGTHS.tolist()):
            alone = model(source[b : b + 1, :length], LENGTHS[b : b + 1], target[b : b + 1])
            close(together[b], alone[0])
        padding = torch.arange(S) >= LENGTHS[:, None]
        close(model(source.masked_fill(padding, 5), LENGTHS, target), together)
        wider = torch.cat((source, source), dim=1)
        close(model(wider, LENGTHS, target), together)


@pytest.mark.parametrize("norm_place", ["post", "pre"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_neighbours_and_padding_do_not_change_a_sentence(norm_place: str, positions: str) -> None:
    assert_sentences_stand_alone(tiny(norm_place=norm_place, positions=positions))


def test_the_future_does_not_change_the_past() -> None:
    model = tiny()
    source, target = batch()
    changed = target.clone()
    changed[:, 4:] = (changed[:, 4:] + 1) % V
    with torch.inference_mode():
        logits, other = model(source, LENGTHS, target), model(source, LENGTHS, changed)
    close(other[:, :4], logits[:, :4])
    assert (other[:, 4:] - logits[:, 4:]).abs().amax(-1).min() > 1e-3


def test_every_source_position_counts() -> None:
    model = tiny()
    source, target = batch()
    with torch.inference_mode():
        logits = model(source, LENGTHS, target)
        for s in range(4):
            changed = source.clone()
            changed[:, s] = (changed[:, s] + 1) % V
            assert (model(changed, LENGTHS, target) - logits).abs().amax((1, 2)).min() > 1e-4


@pytest.mark.parametrize("positions", [name for name in get_args(PositionsName) if name != "none"])
def test_positions_count(positions: str) -> None:
    model = tiny(positions=positions, d_model=18)
    source, target = batch()
    lengths = torch.full((B,), S)
    with torch.inference_mode():
        difference = model(source, lengths, target) - model(source.flip(1), lengths, target)
    assert difference.abs().amax((1, 2)).min() > 1e-3


def test_without_positions_the_encoder_takes_a_sentence_for_a_bag() -> None:
    """Equivariance: words in another order give the same vectors in that order, and the decoder the same logits."""
    model = tiny(positions="none")
    source, target = batch()
    lengths, order = torch.full((B,), S), torch.randperm(S)
    every = torch.ones(B, 1, 1, S, dtype=torch.bool)
    with torch.inference_mode():
        close(model.encoder(source[:, order], every), model.encoder(source, every)[:, order])
        close(model(source[:, order], lengths, target), model(source, lengths, target))


def test_longer_than_learned_positions_is_an_error() -> None:
    model = tiny(positions="learned", n_positions=S)
    source, _ = batch()
    with pytest.raises(DataError, match=r"12 pieces.*11 positions"):
        model(source, LENGTHS, torch.zeros(B, 12, dtype=torch.long))


DROPOUTS = {
    "residual_dropout": ["embedding.dropout", "attention_residual.dropout", "feed_forward_residual.dropout"],
    "attention_dropout": ["attention.weight_dropout"],
    "activation_dropout": ["feed_forward.dropout"],
}


@pytest.mark.parametrize("setting", DROPOUTS)
@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_each_dropout_setting_reaches_its_places(setting: str, activation: str) -> None:
    rates = {**dict.fromkeys(DROPOUTS, 0.0), setting: 0.25}
    model = tiny(activation=activation, **rates)
    for name, module in model.named_modules():
        if isinstance(module, Dropout):
            assert module.rate == (0.25 if name.endswith(tuple(DROPOUTS[setting])) else 0.0), name
    source, target = batch()
    rested = model(source, LENGTHS, target)
    assert not torch.allclose(model.train()(source, LENGTHS, target), rested)


def test_dropout_follows_from_the_seed_and_every_parameter_learns() -> None:
    model = tiny(
        residual_dropout=0.1, attention_dropout=0.1, activation_dropout=0.1, positions="learned", tie_embeddings="none"
    )
    source, target = batch()
    model.train()
    torch.manual_seed(3)
    first, second = model(source, LENGTHS, target), model(source, LENGTHS, target)
    assert not torch.allclose(first, second)
    torch.manual_seed(3)
    assert torch.equal(model(source, LENGTHS, target), first)
    first.square().mean().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        if not name.endswith("key.bias"):  # it moves all scores of a row alike, which softmax does not see
            assert parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize(("tie_embeddings", "n_matrices"), [("all", 1), ("target", 2), ("none", 3)])
def test_tied_embeddings_are_one_parameter(tie_embeddings: str, n_matrices: int) -> None:
    model = tiny(tie_embeddings=tie_embeddings)
    weights = [model.encoder.embedding.weight, model.decoder.embedding.weight, model.output.weight]
    assert len({id(weight) for weight in weights}) == n_matrices
    table = parameter_table(model)
    assert table["total"] == sum(parameter.numel() for parameter in model.parameters())
    assert sum(table.get(part, 0) // (V * 17) for part in ["encoder.embedding", "decoder.embedding", "output"]) == (
        n_matrices
    )


@pytest.mark.parametrize(
    ("positions", "part"), [("rotary", RotaryPositions), ("shaw", ShawPositions), ("t5", BucketPositions)]
)
def test_relative_positions_are_in_self_attention_only(positions: str, part: type[AttentionPositions]) -> None:
    model = tiny(positions=positions)
    assert model.encoder.embedding.positions is None
    assert model.decoder.embedding.positions is None
    for name, module in model.named_modules():
        if name.endswith("attention"):
            kind = AttentionPositions if name.endswith("cross_attention") else part
            assert type(module.positions) is kind, name


def on_meta(**settings: Any) -> dict[str, int]:
    with torch.device("meta"):
        model = build(TransformerConfig(**settings))
    assert all(parameter.is_meta for parameter in model.parameters())
    return parameter_table(model)


def shared(vocab_size: int) -> dict[str, Any]:
    return {"source_vocab_size": vocab_size, "target_vocab_size": vocab_size}


@pytest.mark.parametrize(
    ("settings", "millions"),
    [
        ({}, 65),
        ({"d_key": 16}, 58),
        ({"d_key": 32}, 60),
        ({"n_encoder_layers": 2, "n_decoder_layers": 2}, 36),
        ({"n_encoder_layers": 4, "n_decoder_layers": 4}, 50),
        ({"n_encoder_layers": 8, "n_decoder_layers": 8}, 80),
        ({"d_model": 256, "d_key": 32, "d_value": 32}, 28),
        ({"d_model": 1024, "d_key": 128, "d_value": 128}, 168),
        ({"d_ff": 1024}, 53),
        ({"d_ff": 4096}, 90),
    ],
)
def test_parameters_are_those_of_the_papers_table_3(settings: dict[str, int], millions: int) -> None:
    total = on_meta(**shared(41_000), **{**presets.base(), **settings})["total"]
    assert total == pytest.approx(millions * 1e6, abs=1e6)


def test_parameters_of_the_papers_big_model() -> None:
    assert on_meta(**shared(37_000), **presets.big())["total"] == pytest.approx(213e6, abs=1.5e6)


def test_parameter_table_counts_each_part() -> None:
    table = on_meta(**{**SIZES, "tie_embeddings": "target", "target_vocab_size": 29, "norm_place": "pre"})
    attention = 2 * (17 * 30 + 30) + (17 * 65 + 65) + (65 * 17 + 17)
    feed_forward = (17 * 19 + 19) + (19 * 17 + 17)
    assert table == {
        "encoder.embedding": V * 17,
        "encoder.attention": 2 * attention,
        "encoder.feed_forward": 2 * feed_forward,
        "encoder.norm": (2 * 2 + 1) * 2 * 17,
        "decoder.embedding": 29 * 17,
        "decoder.attention": 3 * attention,
        "decoder.cross_attention": 3 * attention,
        "decoder.feed_forward": 3 * feed_forward,
        "decoder.norm": (3 * 3 + 1) * 2 * 17,
        "output": 29,
        "total": sum(number for part, number in table.items() if part != "total"),
    }


def config(**settings: Any) -> TransformerConfig:
    return from_dict(TransformerConfig, {**shared(V), **settings}, where="model.")


CONFLICTS: list[tuple[dict[str, Any], str, dict[str, Any]]] = [  # refused, the message, and a change that helps
    ({"d_model": 17}, r"d_model = 17: must be a multiple of n_heads \(8\) unless", {"d_key": 3, "d_value": 5}),
    ({"positions": "rotary", "d_key": 3}, r"positions = 'rotary': .*d_key \(3\) must be even", {"d_key": 4}),
    (
        {"positions": "complex", "d_model": 17, "d_key": 3, "d_value": 5},
        r"positions = 'complex': .*d_model \(17\) must be even",
        {"d_model": 18},
    ),
    (
        {"positions": "rotary", "scoring": "additive"},
        r"positions = 'rotary': .*scoring is 'additive'",
        {"scoring": "dot"},
    ),
    ({"positions": "shaw", "scoring": "additive"}, r"positions = 'shaw': .*scoring is 'additive'", {"positions": "t5"}),
    (
        {"positions": "t5", "n_buckets": 32, "bucket_distance": 16},  # the 16 nearest positions behind are exact
        r"bucket_distance = 16: must be more than half of n_buckets \(32\)",
        {"bucket_distance": 17},
    ),
    ({"n_key_heads": 3}, r"n_key_heads = 3: must divide n_heads \(8\)", {"n_heads": 6, "d_model": 510}),
    ({"n_key_heads": 16}, r"n_key_heads = 16: must divide n_heads \(8\)", {"n_key_heads": 8}),
    (
        {"share_query_key": True, "n_key_heads": 2},
        r"share_query_key = True: .*n_heads \(8\).*n_key_heads \(2\)",
        {"n_key_heads": 8},
    ),
    ({"value_rank": 512}, r"value_rank = 512: must be less than the 512", {"value_rank": 511}),
    ({"value_rank": 64, "n_key_heads": 1}, r"value_rank = 64: must be less than the 64", {"n_key_heads": 2}),
    ({"value_rank": 40, "d_value": 5}, r"value_rank = 40: must be less than the 40", {"value_rank": 39}),
    ({"heads": "branched", "d_ff": 100}, r"heads = 'branched': .*d_ff \(100\).*n_heads \(8\)", {"d_ff": 104}),
    ({"norm": "batchnorm", "share_layers": "all"}, r"norm = 'batchnorm': .*share_layers 'all'", {"norm": "rmsnorm"}),
    (
        {"norm": "batchnorm", "share_layers": "groups"},
        r"norm = 'batchnorm': .*share_layers 'groups'",
        {"share_layers": "none"},
    ),
    (
        {"target_vocab_size": 29},
        r"tie_embeddings = 'all': .*31 source and 29 target",
        {"tie_embeddings": "target"},
    ),
    (
        {"share_encoder_decoder": True, "n_encoder_layers": 2},
        r"share_encoder_decoder = True: .*there are 2 and 6",
        {"n_decoder_layers": 2},
    ),
    (
        {"share_encoder_decoder": True, "heads": "branched"},
        r"share_encoder_decoder = True: with branched heads .*use heads 'joined'",
        {"heads": "joined"},
    ),
]


@pytest.mark.parametrize(
    ("settings", "words", "remedy"), CONFLICTS, ids=[words.split(":")[0] for _, words, _ in CONFLICTS]
)
def test_what_cannot_go_together_is_refused(settings: dict[str, Any], words: str, remedy: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"^model\.{words}"):
        config(**settings)
    config(**{**settings, **remedy})


def test_sizes_of_a_head_may_be_given() -> None:
    assert config(d_model=17, d_key=3, d_value=5).key_size == 3
    assert config(d_model=17, d_key=3, d_value=5).value_size == 5
    assert config().key_size == config().value_size == 64


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("n_heads", 0, "at least 1"),
        ("d_key", 0, "at least 1"),
        ("n_key_heads", 0, "at least 1"),
        ("value_rank", 0, "at least 1"),
        ("window", 0, "at least 1"),
        ("chunk", 0, "at least 1"),
        ("left_chunks", -1, "at least 0"),
        ("max_distance", 0, "at least 1"),
        ("n_buckets", 2, "an even number of at least 4"),
        ("n_buckets", 7, "an even number of at least 4"),
        ("layers_per_group", 0, "at least 1"),
        ("layer_drop", 1.0, "less than 1"),
        ("residual_dropout", 1.0, "less than 1"),
    ],
)
def test_impossible_sizes(key: str, value: float, rule: str) -> None:
    with pytest.raises(ConfigError, match=rf"^model\.{key} = {value}: .*{rule}"):
        config(**{key: value})


def test_the_config_determines_the_model() -> None:
    settings = config(d_model=24, n_heads=3, norm="rmsnorm", activation="swiglu", positions="rotary")
    again = from_dict(TransformerConfig, to_dict(settings))
    assert again == settings
    with torch.device("meta"):
        names = build(settings).state_dict()
        assert build(again).state_dict().keys() == names.keys()
