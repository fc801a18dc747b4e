"""Which parts the settings choose, which layers share their weights, and which are left out of a step.

Suffixes: B batch, S source length, T target length.
"""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attendo.models import transformer
from attendo.models.parts import attention_positions, build_block, kept_layers
from attendo.models.settings import TransformerConfig
from attendo.models.transformer import Transformer, build, parameter_table
from attendo.nn.attention import Additive, BranchedHeads, DotProduct, JoinedHeads, MultiHeadAttention, Scoring
from attendo.nn.block import Block
from attendo.nn.masks import padding_mask
from attendo.nn.norm import BatchNorm, LayerNorm, PostNorm, PreNorm, RMSNorm, SandwichNorm, ScaleNorm
from attendo.nn.positions import (
    AttentionPositions,
    BucketPositions,
    ComplexPositions,
    ConcatenatedPositions,
    LearnedPositions,
    ShawPositions,
    SinusoidalPositions,
)
from tests.models.references import moved

from .test_transformer import close

B, S, T, V = 3, 11, 7, 31
LENGTHS = torch.tensor([11, 4, 8])
SIZES: dict[str, Any] = {
    "source_vocab_size": V,
    "target_vocab_size": V,
    "n_encoder_layers": 5,
    "n_decoder_layers": 5,
    "d_model": 18,
    "d_ff": 20,
    "n_heads": 5,
    "d_key": 6,
    "d_value": 13,
}
STACKS = ["encoder", "decoder"]


def tiny(**settings: Any) -> Transformer:
    torch.manual_seed(1)
    return moved(build(TransformerConfig(**{**SIZES, **settings})).eval())


def batch() -> tuple[Tensor, Tensor]:
    torch.manual_seed(2)
    return torch.randint(V, (B, S)), torch.randint(V, (B, T))


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def block_of(model: Transformer, side: str, number: int) -> Block:
    block = model.get_submodule(f"{side}.blocks.{number}")
    assert isinstance(block, Block)
    return block


def cross_attention_of(block: Block) -> MultiHeadAttention:
    assert block.cross_attention is not None
    return block.cross_attention


# Which parts


@pytest.mark.parametrize(
    ("positions", "kind"),
    [
        ("none", None),
        ("sinusoidal", SinusoidalPositions),
        ("sinusoidal-concatenated", ConcatenatedPositions),
        ("learned", LearnedPositions),
        ("complex", ComplexPositions),
        ("rotary", None),
        ("shaw", None),
        ("t5", None),
    ],
)
def test_positions_on_the_embeddings(positions: str, kind: type[nn.Module] | None) -> None:
    model = tiny(positions=positions)
    for embedding in [model.encoder.embedding, model.decoder.embedding]:
        if kind is None:
            assert embedding.positions is None
        else:
            assert type(embedding.positions) is kind


@pytest.mark.parametrize(
    ("scoring", "kind", "scale"),
    [("scaled-dot", DotProduct, 1 / math.sqrt(6)), ("dot", DotProduct, 1.0), ("additive", Additive, 1.0)],
)
def test_scoring_of_every_attention(scoring: str, kind: type[Scoring], scale: float) -> None:
    attentions = [module for module in tiny(scoring=scoring).modules() if isinstance(module, MultiHeadAttention)]
    assert len(attentions) == 15
    for attention in attentions:
        assert type(attention.scoring) is kind
        assert attention.scoring.scale == pytest.approx(scale)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("layernorm", LayerNorm), ("rmsnorm", RMSNorm), ("batchnorm", BatchNorm), ("scalenorm", ScaleNorm)],
)
@pytest.mark.parametrize(
    ("place", "line", "norms_of_a_line"), [("post", PostNorm, 1), ("pre", PreNorm, 1), ("sandwich", SandwichNorm, 2)]
)
def test_norms_stand_where_they_should(
    name: str, kind: type[nn.Module], place: str, line: type[nn.Module], norms_of_a_line: int
) -> None:
    model = tiny(norm=name, norm_place=place)
    n_lines = 5 * 2 + 5 * 3
    assert sum(type(module) is line for module in model.modules()) == n_lines
    n_final = 0 if place == "post" else 2
    assert sum(type(module) is kind for module in model.modules()) == n_lines * norms_of_a_line + n_final
    for stack in [model.encoder, model.decoder]:
        assert (stack.final_norm is None) == (place == "post")


def test_buckets_are_one_part_for_each_stack_and_vectors_of_distances_one_for_each_layer() -> None:
    def parts(positions: str, **settings: Any) -> tuple[list[AttentionPositions], list[AttentionPositions]]:
        model = tiny(positions=positions, **settings)
        encoder, decoder = ([block_of(model, side, n).attention.positions for n in range(5)] for side in STACKS)
        return encoder, decoder

    encoder, decoder = parts("t5")
    assert len(set(encoder)) == len(set(decoder)) == 1
    assert isinstance(encoder[0], BucketPositions)
    assert isinstance(decoder[0], BucketPositions)
    assert encoder[0].both_ways
    assert not decoder[0].both_ways
    encoder, decoder = parts("t5", share_encoder_decoder=True)
    assert len({*encoder, *decoder}) == 1
    encoder, decoder = parts("shaw")
    assert len({*encoder, *decoder}) == 10
    assert isinstance(encoder[0], ShawPositions)


def seen_by_the_encoder(model: Transformer) -> list[list[int]]:
    """For each position, which source positions its vector depends on."""
    source, _ = batch()
    vectors_1SD = torch.randn(1, S, 18, requires_grad=True)
    model.encoder.embedding.register_forward_hook(lambda *_: vectors_1SD)
    memory = model.encoder(source[:1], padding_mask(torch.tensor([S]), S))
    seen = []
    for t in range(S):
        (gradient,) = torch.autograd.grad(memory[0, t].square().sum(), vectors_1SD, retain_graph=True)
        seen.append(gradient[0].abs().amax(-1).nonzero().flatten().tolist())
    return seen


@pytest.mark.parametrize("n_layers", [1, 2])
def test_a_window_bounds_how_far_the_encoder_sees(n_layers: int) -> None:
    model = tiny(span="window", window=2, n_encoder_layers=n_layers)
    reach = 2 * n_layers  # each layer sees as far again
    expected = [[s for s in range(S) if abs(s - t) <= reach] for t in range(S)]
    assert seen_by_the_encoder(model) == expected


def test_chunks_bound_how_far_the_encoder_sees() -> None:
    model = tiny(span="chunk", chunk=3, left_chunks=1, n_encoder_layers=1)
    chunks = [range(0, 3), range(0, 6), range(3, 9), range(6, 11)]
    assert seen_by_the_encoder(model) == [list(chunks[t // 3]) for t in range(S)]


def test_without_a_span_the_encoder_sees_all() -> None:
    assert seen_by_the_encoder(tiny(n_encoder_layers=1)) == [list(range(S))] * S


@pytest.mark.parametrize("span", ["window", "chunk"])
def test_the_decoder_sees_all_of_the_source_and_a_span_of_the_target(span: str) -> None:
    model = tiny(span=span, window=1, chunk=2, left_chunks=0, n_encoder_layers=1, n_decoder_layers=1)
    source, target = batch()
    lengths = torch.full((B,), S)
    with torch.inference_mode():
        logits = model(source, lengths, target)
        for s in range(S):
            changed = source.clone()
            changed[:, s] = (changed[:, s] + 1) % V
            assert (model(changed, lengths, target) - logits).abs().amax(-1).min() > 0, s
        for changed_at in range(T):
            changed = target.clone()
            changed[:, changed_at] = (changed[:, changed_at] + 1) % V
            moved = (model(source, lengths, changed) - logits).abs().amax((0, 2)) > 1e-6
            last = changed_at + 1 if span == "window" else changed_at // 2 * 2 + 1
            assert moved.tolist() == [changed_at <= t <= last for t in range(T)]


# Branched heads


def test_branched_heads_take_the_place_of_the_feed_forward_network() -> None:
    model = tiny(heads="branched")
    for n in range(5):
        encoder_block, decoder_block = block_of(model, "encoder", n), block_of(model, "decoder", n)
        assert encoder_block.feed_forward is None
        assert decoder_block.feed_forward is None
        assert isinstance(encoder_block.attention.output, BranchedHeads)
        assert isinstance(decoder_block.attention.output, JoinedHeads)
        assert isinstance(cross_attention_of(decoder_block).output, BranchedHeads)
        assert len(encoder_block.attention.output.feed_forwards) == 5
        assert encoder_block.attention.output.feed_forwards[0].get_parameter("inner.weight").shape == (4, 18)


@pytest.mark.parametrize("cross", [False, True])
def test_a_branched_block_is_as_large_as_a_plain_one(cross: bool) -> None:
    def made(heads: str) -> Block:
        config = TransformerConfig(source_vocab_size=V, target_vocab_size=V, heads=heads)  # type: ignore[arg-type]
        with torch.device("meta"):
            return build_block(config, positions=attention_positions(config, both_ways=True), cross=cross)

    plain, branched = count(made("joined")), count(made("branched"))
    # Each of eight branches has biases after W_O and W₂, and two weights; the feed-forward network's norm is gone.
    assert branched - plain == 7 * 2 * 512 + 2 * 8 - 2 * 512
    assert branched == pytest.approx(plain, rel=0.005)


# Sharing


@pytest.mark.parametrize(
    ("settings", "pattern"),
    [
        ({"share_layers": "none"}, [0, 1, 2, 3, 4]),
        ({"share_layers": "groups", "layers_per_group": 1}, [0, 1, 2, 3, 4]),
        ({"share_layers": "groups", "layers_per_group": 2}, [0, 0, 1, 1, 2]),
        ({"share_layers": "groups", "layers_per_group": 3}, [0, 0, 0, 1, 1]),
        ({"share_layers": "groups", "layers_per_group": 7}, [0, 0, 0, 0, 0]),
        ({"share_layers": "all"}, [0, 0, 0, 0, 0]),
    ],
    ids=str,
)
def test_shared_layers_are_one_set_of_weights(settings: dict[str, Any], pattern: list[int]) -> None:
    model = tiny(**settings)
    one = tiny(n_encoder_layers=1, n_decoder_layers=1)
    n_sets = len(set(pattern))
    for side in STACKS:
        blocks = [block_of(model, side, n) for n in range(5)]
        distinct = list(dict.fromkeys(blocks))
        assert [distinct.index(block) for block in blocks] == pattern
        assert count(model.get_submodule(f"{side}.blocks")) == n_sets * count(one.get_submodule(f"{side}.blocks"))
    assert sum(parameter_table(model).values()) == 2 * count(model)


SHARED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"share_layers": "all"}, {"share_layers": "none"}),
    ({"share_layers": "groups", "positions": "shaw"}, {"share_layers": "none", "positions": "shaw"}),
    ({"share_encoder_decoder": True}, {}),
    ({"share_encoder_decoder": True, "share_layers": "groups"}, {}),
    ({"share_query_key": True}, {}),
    ({"tie_embeddings": "all"}, {"tie_embeddings": "none"}),
    ({"tie_embeddings": "target"}, {"tie_embeddings": "none"}),
    ({"tie_embeddings": "all", "positions": "complex"}, {"tie_embeddings": "target", "positions": "complex"}),
]


@pytest.mark.parametrize(("sharing", "apart"), SHARED, ids=[str(sharing) for sharing, _ in SHARED])
def test_the_gradient_of_a_shared_weight_is_the_sum_over_its_places(
    sharing: dict[str, Any], apart: dict[str, Any]
) -> None:
    shared, copies = tiny(**sharing), tiny(**apart)
    copies.load_state_dict(shared.state_dict())
    assert count(shared) < count(copies)
    source, target = batch()
    logits, of_copies = shared(source, LENGTHS, target), copies(source, LENGTHS, target)
    close(logits, of_copies)
    logits.square().mean().backward()
    of_copies.square().mean().backward()
    places: dict[nn.Parameter, set[nn.Parameter]] = {}
    for name, parameter in shared.named_parameters(remove_duplicate=False):
        places.setdefault(parameter, set()).add(copies.get_parameter(name))
    assert max(map(len, places.values())) > 1
    for parameter, of_places in places.items():
        gradients = [place.grad for place in of_places if place.grad is not None]
        assert len(gradients) == len(of_places)
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, torch.stack(gradients).sum(0), rtol=1e-4, atol=1e-5)


def test_encoder_and_decoder_share_attention_and_feed_forward_and_nothing_else() -> None:
    model = tiny(share_encoder_decoder=True, tie_embeddings="none", norm_place="pre", norm="batchnorm")
    for n in range(5):
        encoder_block, decoder_block = block_of(model, "encoder", n), block_of(model, "decoder", n)
        assert decoder_block.attention is encoder_block.attention
        assert decoder_block.feed_forward is encoder_block.feed_forward
        assert decoder_block.attention_residual is not encoder_block.attention_residual
        assert decoder_block.feed_forward_residual is not encoder_block.feed_forward_residual
        assert encoder_block.cross_attention is None
        assert cross_attention_of(decoder_block) is not encoder_block.attention
    in_encoder = {id(parameter) for parameter in model.encoder.parameters()}
    for name, parameter in model.decoder.named_parameters():
        is_shared = ".attention." in name or ".feed_forward." in name
        assert (id(parameter) in in_encoder) == is_shared, name


def test_encoder_and_decoder_share_by_groups_too() -> None:
    model = tiny(share_encoder_decoder=True, share_layers="groups", layers_per_group=2)
    for n in range(5):
        assert block_of(model, "decoder", n).attention is block_of(model, "encoder", n).attention
    assert len({block_of(model, "encoder", n).attention for n in range(5)}) == 3


@pytest.mark.parametrize(("tie_embeddings", "is_shared"), [("all", True), ("target", False), ("none", False)])
def test_frequencies_are_shared_as_the_words_are(tie_embeddings: str, is_shared: bool) -> None:
    model = tiny(positions="complex", tie_embeddings=tie_embeddings)
    assert (model.encoder.embedding.positions is model.decoder.embedding.positions) == is_shared


def test_the_memory_is_projected_once_for_each_set_of_weights() -> None:
    model = tiny(share_layers="groups")
    source, _ = batch()
    memories = [layer.memory for layer in model.encode(source, LENGTHS).layers]
    assert [memories[0] is memories[1], memories[1] is memories[2], memories[2] is memories[3]] == [True, False, True]


# LayerDrop


def test_layers_are_left_out_at_the_rate_while_training() -> None:
    torch.manual_seed(3)
    kept = torch.tensor([kept_layers(7, 0.3, training=True) for _ in range(3000)])
    assert kept.shape == (3000, 7)
    sigma = math.sqrt(0.3 * 0.7 / 3000)
    assert (kept.double().mean(0) - 0.7).abs().max() < 4 * sigma
    correlations = torch.corrcoef(kept.double().T) - torch.eye(7)
    assert correlations.abs().max() < 5 / math.sqrt(3000)


@pytest.mark.parametrize(("rate", "training"), [(0.0, True), (0.3, False)])
def test_all_layers_are_kept_and_nothing_is_drawn(rate: float, training: bool) -> None:
    state = torch.get_rng_state()
    assert kept_layers(7, rate, training=training) == [True] * 7
    assert torch.equal(torch.get_rng_state(), state)


def runs(model: Transformer) -> dict[str, int]:
    """How many layers of each stack run in one call, which counts one forward pass."""
    ran = dict.fromkeys(STACKS, 0)
    handles = []
    for side in STACKS:

        def count_run(*_: object, side: str = side) -> None:
            ran[side] += 1

        for n in range(5):
            handles.append(block_of(model, side, n).register_forward_hook(count_run))
    source, target = batch()
    model(source, LENGTHS, target)
    for handle in handles:
        handle.remove()
    return ran


def test_the_model_leaves_out_layers_in_training_alone() -> None:
    model = tiny(layer_drop=0.4, residual_dropout=0.0)
    assert runs(model) == {"encoder": 5, "decoder": 5}
    model.train()
    with torch.no_grad():
        source, target = batch()
        outputs = {round(model(source, LENGTHS, target).sum().item(), 4) for _ in range(8)}
    assert len(outputs) > 1
    assert runs(tiny(layer_drop=0.0, residual_dropout=0.0).train()) == {"encoder": 5, "decoder": 5}


def keep_only(monkeypatch: pytest.MonkeyPatch, kept: list[bool]) -> None:
    monkeypatch.setattr(transformer, "kept_layers", lambda *_, **__: kept)


def test_a_layer_left_out_gets_no_gradient_and_the_rest_is_a_shallower_model(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [True, False, True, True, False]
    model = tiny(layer_drop=0.4, residual_dropout=0.0, norm_place="pre").train()
    shallow = tiny(n_encoder_layers=3, n_decoder_layers=3, residual_dropout=0.0, norm_place="pre")
    weights = model.state_dict()
    numbers = dict(zip(range(3), [n for n in range(5) if kept[n]], strict=True))

    def deep_name(name: str) -> str:
        words = name.split(".")
        if words[1] == "blocks":
            words[2] = str(numbers[int(words[2])])
        return ".".join(words)

    shallow.load_state_dict({name: weights[deep_name(name)] for name in shallow.state_dict()})
    source, target = batch()
    expected = shallow(source, LENGTHS, target)
    keep_only(monkeypatch, kept)
    actual = model(source, LENGTHS, target)
    close(actual, expected)
    actual.square().mean().backward()
    for side in STACKS:
        for n in range(5):
            gradients = [parameter.grad is not None for parameter in block_of(model, side, n).parameters()]
            assert all(gradients) if kept[n] else not any(gradients)


@pytest.mark.parametrize("norm_place", ["post", "pre"])
def test_the_model_runs_with_all_layers_left_out(norm_place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_only(monkeypatch, [False] * 5)
    model = tiny(layer_drop=0.4, norm_place=norm_place).train()
    source, target = batch()
    logits = model(source, LENGTHS, target)
    assert logits.isfinite().all()
    logits.square().mean().backward()
    assert model.decoder.embedding.weight.grad is not None


def test_the_cache_has_an_entry_for_every_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [True, False, True, True, False]
    model = tiny(layer_drop=0.4).train()
    source, target = batch()
    keep_only(monkeypatch, kept)
    _, cache = model.decoder(target, model.encode(source, LENGTHS))
    assert cache.length == T
    assert [layer.past is not None for layer in cache.layers] == kept
    assert all(layer.memory is not None for layer in cache.layers)


def test_words_are_left_out_on_both_sides() -> None:
    torch.manual_seed(3)
    model, ids_BT = tiny(word_dropout=0.4, positions="none", residual_dropout=0.0).train(), torch.full((37, 41), 7)
    for embedding in (model.encoder.embedding, model.decoder.embedding):
        left_out = (embedding(ids_BT) == 0).all(-1).float().mean().item()
        assert left_out == pytest.approx(0.4, abs=0.05)
