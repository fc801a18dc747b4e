import math

import pytest
import torch
from torch import nn

from attendo.models.transformer import Transformer, TransformerConfig, build
from attendo.nn.init import initialise


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


@pytest.mark.parametrize("norm", ["layernorm", "rmsnorm"])
def test_every_parameter_is_set_whatever_it_was(norm: str) -> None:
    torch.manual_seed(4)
    model = small(norm=norm, norm_place="pre", positions="learned", activation="swiglu", tie_embeddings="none")
    for parameter in model.parameters():
        nn.init.constant_(parameter, math.nan)
    initialise(model)
    for name, parameter in model.named_parameters():
        assert parameter.isfinite().all(), name


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
