import pytest
import torch
from torch import Tensor, nn

from attendo.nn.norm import NormName, NormPlace, Residual, build_norm

B, T, D = 2, 3, 7


def test_layernorm_is_its_formula() -> None:
    torch.manual_seed(1)
    norm = build_norm("layernorm", D)
    gain, bias = torch.randn(D), torch.randn(D)
    norm.load_state_dict({"weight": gain, "bias": bias})
    x = 3 * torch.randn(B, T, D) + 2
    centred = x - x.mean(-1, keepdim=True)
    expected = centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * gain + bias
    torch.testing.assert_close(norm(x), expected, rtol=1e-5, atol=1e-5)


def test_rmsnorm_is_its_formula() -> None:
    torch.manual_seed(2)
    norm = build_norm("rmsnorm", D)
    gain = torch.randn(D)
    norm.load_state_dict({"weight": gain})
    x = 3 * torch.randn(B, T, D) + 2
    expected = x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * gain
    torch.testing.assert_close(norm(x), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("name", "epsilon"), [("layernorm", 1e-5), ("rmsnorm", 1e-6)])
def test_epsilon_decides_where_nothing_varies(name: NormName, epsilon: float) -> None:
    x = 1e-3 * torch.tensor([[1.0, -1.0, 1.0, -1.0]])
    expected = x / (1e-6 + epsilon) ** 0.5
    torch.testing.assert_close(build_norm(name, 4)(x), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("place", ["pre", "post"])
def test_residual_places_the_norm(place: NormPlace) -> None:
    torch.manual_seed(3)
    norm, sublayer = nn.LayerNorm(D), nn.Linear(D, D)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    x = 3 * torch.randn(B, T, D) + 2
    actual = Residual(norm=norm, place=place, dropout=0.0)(x, sublayer)
    expected = x + sublayer(norm(x)) if place == "pre" else norm(x + sublayer(x))
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("place", ["pre", "post"])
def test_residual_drops_from_the_sublayer_and_not_from_the_line(place: NormPlace) -> None:
    torch.manual_seed(4)
    residual = Residual(norm=nn.Identity(), place=place, dropout=0.5)
    x = torch.full((B, T, 401), 3.0)

    def sublayer(x: Tensor) -> Tensor:
        return torch.ones_like(x)

    assert set(residual(x, sublayer).unique().tolist()) == {3.0, 5.0}
    assert set(residual.eval()(x, sublayer).unique().tolist()) == {4.0}
