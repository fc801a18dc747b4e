import math
import re
from typing import get_args

import pytest
import torch
from torch import nn

from attendo.models.settings import PositionsName, TransformerConfig
from attendo.models.transformer import Transformer, build
from attendo.nn.init import initialise
from attendo.nn.names import NormName


def small(**settings: object) -> Transformer:
    sizes = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 97, "d_ff": 211, "n_heads": 3}
    sizes |= {"d_key": 31, "d_value": 37, "source_vocab_size": 409, "target_vocab_size": 409}
    return build(TransformerConfig(**{**sizes, **settings}))  # type: ignore[arg-type]


def std(tensor: torch.Tensor) -> float:
    return tensor.std().item()


@pytest.mark.parametrize("tied", ["all", "target", "none"])
def test_embeddings_have_the_spread_of_one_over_root_d_model(tied: str) -> None:
    torch.manual_seed(1)
    model = small(tie_embeddings=tied)
    weights = [model.encoder.embedding.weight, model.decoder.embedding.weight, model.output.weight]
    for weight in weights:
        assert std(weight) == pytest.approx(97**-0.5, rel=0.02)
        assert weight.mean().item() == pytest.approx(0, abs=0.002)
    assert len({id(weight) for weight in weights}) == {"all": 1, "target": 2, "none": 3}[tied]
    assert len({weight[0, 0].item() for weight in weights}) == {"all": 1, "target": 2, "none": 3}[tied]


def test_matrices_are_uniform_as_glorot() -> None:
    torch.manual_seed(2)
    for module in small(activation="swiglu").modules():
        if isinstance(module, nn.Linear):
            limit = math.sqrt(6 / (module.in_features + module.out_features))
            assert module.weight.abs().max() <= limit
            assert std(module.weight) == pytest.approx(limit / math.sqrt(3), rel=0.03)


def test_learned_positions_are_small() -> None:
    torch.manual_seed(3)
    model = small(positions="learned", n_positions=101)
    assert std(model.get_parameter("encoder.embedding.positions.weight")) == pytest.approx(0.02, rel=0.03)


EVERY_PART: list[dict[str, object]] = [
    *({"norm": norm, "norm_place": "sandwich"} for norm in get_args(NormName)),
    *({"positions": positions, "d_key": 32, "d_model": 98} for positions in get_args(PositionsName)),
    {"scoring": "additive", "value_rank": 5, "n_key_heads": 1},
    {"share_query_key": True, "share_layers": "all"},
    {"heads": "branched", "d_ff": 213, "activation": "swiglu"},
    {"tie_embeddings": "none", "activation": "swiglu"},
    {"share_encoder_decoder": True},
]


@pytest.mark.parametrize("settings", EVERY_PART, ids=lambda settings: "-".join(map(str, settings.values())))
def test_every_parameter_is_set_whatever_it_was(settings: dict[str, object]) -> None:
    torch.manual_seed(4)
    model = small(**settings)
    for parameter in model.parameters():
        nn.init.constant_(parameter, math.nan)
    initialise(model)
    for name, parameter in model.named_parameters():
        assert parameter.isfinite().all(), name


def is_glorot(weight: torch.Tensor) -> bool:
    limit = math.sqrt(6 / sum(weight.shape))
    return weight.abs().max().item() <= limit and std(weight) == pytest.approx(limit / math.sqrt(3), rel=0.1)


def test_vectors_of_relative_distances_are_uniform_as_glorot() -> None:
    torch.manual_seed(8)
    model = small(positions="shaw", max_distance=11)
    for n, side in [(31, "keys"), (37, "values")]:
        weight = model.get_parameter(f"encoder.blocks.0.attention.positions.{side}")
        assert weight.shape == (23, n)
        assert is_glorot(weight)


def test_directions_of_additive_scoring_are_uniform_as_glorot() -> None:
    torch.manual_seed(9)
    weight = small(scoring="additive", d_key=401).get_parameter("decoder.blocks.0.cross_attention.scoring.direction")
    assert weight.shape == (3, 401)
    assert is_glorot(weight)


def test_low_rank_values_are_uniform_as_glorot() -> None:
    torch.manual_seed(10)
    model = small(value_rank=13)
    for n in [0, 1]:
        assert is_glorot(model.get_parameter(f"encoder.blocks.0.attention.value.{n}.weight"))


def test_buckets_begin_without_a_preference() -> None:
    model = small(positions="t5")
    for side in ["encoder", "decoder"]:
        assert (model.get_parameter(f"{side}.blocks.0.attention.positions.weight") == 0).all()


def test_branches_begin_alike() -> None:
    model = small(heads="branched", d_ff=213)
    for name in ["encoder.blocks.0.attention", "decoder.blocks.0.cross_attention"]:
        for weights in ["kappa", "alpha"]:
            shares = model.get_parameter(f"{name}.output.{weights}").softmax(0)
            assert shares.tolist() == pytest.approx([1 / 3] * 3)


def test_complex_frequencies_begin_as_the_sinusoids() -> None:
    weight = small(d_model=98, positions="complex").get_parameter("encoder.embedding.positions.weight")
    assert weight.shape == (409, 49)
    for row in [weight[0], weight[408]]:
        assert row.tolist() == pytest.approx([10000 ** (-2 * i / 98) for i in range(49)], rel=1e-5)


def test_scalenorm_begins_with_the_root_of_d_model() -> None:
    gain = small(norm="scalenorm").get_parameter("decoder.blocks.0.cross_attention_residual.norm.gain")
    assert gain.tolist() == pytest.approx([math.sqrt(97)])


def test_batchnorm_begins_with_no_mean_and_unit_variance() -> None:
    model = small(norm="batchnorm")
    norm = model.get_submodule("encoder.blocks.0.attention_residual.norm")
    norm(torch.randn(3, 5, 97))
    initialise(model)
    values = {name: set(tensor.tolist()) for name, tensor in norm.state_dict().items()}
    assert values == {"weight": {1.0}, "bias": {0.0}, "running_mean": {0.0}, "running_variance": {1.0}}


def test_concatenated_positions_have_a_glorot_matrix() -> None:
    torch.manual_seed(11)
    model = small(positions="sinusoidal-concatenated")
    assert is_glorot(model.get_parameter("encoder.embedding.positions.projection.weight"))
    assert (model.get_parameter("encoder.embedding.positions.projection.bias") == 0).all()


@pytest.mark.parametrize(
    "settings",
    [
        {"n_encoder_layers": 4, "n_decoder_layers": 3},
        {"n_encoder_layers": 4, "n_decoder_layers": 4, "share_layers": "groups"},
        {"n_encoder_layers": 3, "n_decoder_layers": 3, "share_encoder_decoder": True},
    ],
)
def test_matrices_of_later_layers_begin_smaller(settings: dict[str, object]) -> None:
    models = []
    for by_depth in (False, True):
        torch.manual_seed(12)
        models.append(small(init_by_depth=by_depth, **settings))
    plain, scaled = (dict(model.named_parameters()) for model in models)
    for name, weight in plain.items():
        layer = re.search(r"coder\.blocks\.(\d)\..*(query|key|value|output|inner|outer)\.weight$", name)
        number = 1 if layer is None else int(layer[1]) + 1
        torch.testing.assert_close(scaled[name], weight / math.sqrt(number), msg=name)


def test_a_module_that_nothing_says_how_to_begin_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^Bilinear has parameters, and nothing here says how they begin"):
        initialise(nn.Sequential(nn.Linear(3, 5), nn.Bilinear(3, 5, 7)))
    initialise(nn.Sequential(nn.Linear(3, 5), nn.ReLU()))


def test_biases_are_zero_and_gains_one() -> None:
    torch.manual_seed(5)
    model = small(norm_place="pre")
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert (parameter == 0).all(), name
        elif "norm" in name:
            assert (parameter == 1).all(), name
        else:
            assert std(parameter) > 0, name


def test_initial_weights_follow_from_the_seed() -> None:
    def drawn(seed: int) -> dict[str, torch.Tensor]:
        torch.manual_seed(seed)
        return dict(small().named_parameters())

    first, again, other = drawn(6), drawn(6), drawn(7)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["encoder.embedding.weight"], other["encoder.embedding.weight"])


def test_a_shared_weight_is_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    normal = nn.init.normal_

    def counting(tensor: torch.Tensor, *, std: float) -> torch.Tensor:
        drawn.append(id(tensor))
        return normal(tensor, std=std)

    monkeypatch.setattr(nn.init, "normal_", counting)
    model = small(tie_embeddings="all")
    assert drawn == [id(model.output.weight)]
