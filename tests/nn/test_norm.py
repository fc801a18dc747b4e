"""Suffixes: B batch, T positions, D d_model, N real positions."""

import math
from typing import get_args

import pytest
import torch
from torch import Tensor, nn

from attendo.nn.names import NormName, NormPlace
from attendo.nn.norm import (
    BatchNorm,
    LayerNorm,
    PostNorm,
    PreNorm,
    SandwichNorm,
    ScaleNorm,
    build_norm,
    build_residual,
)

B, T, D = 2, 3, 7
LENGTHS = torch.tensor([3, 1])
REAL = torch.arange(T) < LENGTHS[:, None]


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


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


def test_scalenorm_is_its_formula() -> None:
    torch.manual_seed(3)
    norm = build_norm("scalenorm", D)
    norm.load_state_dict({"gain": torch.tensor([1.7])})
    x = 3 * torch.randn(B, T, D) + 2
    y = norm(x)
    for b in range(B):
        for t in range(T):
            close(y[b, t], 1.7 * x[b, t] / math.sqrt(sum(value**2 for value in x[b, t].tolist())))


def test_scalenorm_begins_with_the_papers_gain_and_has_one_parameter() -> None:
    norm = ScaleNorm(D)
    assert [parameter.tolist() for parameter in norm.parameters()] == [pytest.approx([math.sqrt(D)])]
    x = torch.randn(B, T, D, generator=torch.Generator().manual_seed(4))
    close(norm(x).square().mean(-1), torch.ones(B, T))


def test_scalenorm_of_nothing_is_nothing() -> None:
    x = torch.zeros(B, T, D, requires_grad=True)
    y = ScaleNorm(D)(x)
    assert (y == 0).all()
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("name", ["layernorm", "rmsnorm", "scalenorm"])
def test_norms_over_features_leave_other_positions_alone(name: NormName) -> None:
    torch.manual_seed(5)
    norm, x = build_norm(name, D), torch.randn(B, T, D)
    assert torch.equal(norm(x, real=REAL), norm(x))
    close(norm(x)[1, 2], norm(x[1, 2]))


# BatchNorm against torch.nn.BatchNorm1d, which is given the real positions alone


def paired_batch_norms() -> tuple[BatchNorm, nn.BatchNorm1d]:
    torch.manual_seed(6)
    ours, theirs = BatchNorm(D), nn.BatchNorm1d(D)
    weight, bias = torch.randn(D), torch.randn(D)
    ours.load_state_dict({**ours.state_dict(), "weight": weight, "bias": bias})
    theirs.load_state_dict({**theirs.state_dict(), "weight": weight, "bias": bias})
    return ours, theirs


def running_statistics_agree(ours: BatchNorm, theirs: nn.BatchNorm1d) -> None:
    assert theirs.running_mean is not None
    assert theirs.running_var is not None
    close(ours.running_mean, theirs.running_mean)
    close(ours.running_variance, theirs.running_var)


@pytest.mark.parametrize("padded", [True, False])
def test_batchnorm_equals_torch_on_the_real_positions(padded: bool) -> None:
    ours, theirs = paired_batch_norms()
    for step in range(5):
        size = 3 + step
        lengths = torch.randint(1, size + 1, (4,)) if padded else torch.full((4,), size)
        real = torch.arange(size) < lengths[:, None]
        x = (3 * torch.randn(4, size, D) + step).requires_grad_()
        packed_ND = x.detach()[real].requires_grad_()
        upstream = torch.randn(4, size, D)
        actual, expected = ours(x, real=real if padded else None), theirs(packed_ND)
        close(actual[real], expected)
        of_ours = torch.autograd.grad(actual, [x, ours.weight, ours.bias], upstream)
        of_theirs = torch.autograd.grad(expected, [packed_ND, theirs.weight, theirs.bias], upstream[real])
        close(of_ours[0][real], of_theirs[0])
        close(of_ours[1], of_theirs[1])
        close(of_ours[2], of_theirs[2])
        running_statistics_agree(ours, theirs)
    ours.eval()
    theirs.eval()
    x = torch.randn(B, T, D)
    expected = theirs(x.flatten(0, 1)).unflatten(0, (B, T))
    close(ours(x, real=REAL)[REAL], expected[REAL])
    close(ours(x), expected)
    running_statistics_agree(ours, theirs)


def test_padding_has_no_influence_on_batchnorm_and_gets_none() -> None:
    ours, _ = paired_batch_norms()
    again, _ = paired_batch_norms()
    x = torch.randn(B, T, D)
    other = torch.where(REAL[..., None], x, 1000.0).requires_grad_()
    y, of_other = ours(x, real=REAL), again(other, real=REAL)
    assert torch.equal(of_other, y)
    assert (y[~REAL] == 0).all()
    assert torch.equal(again.running_mean, ours.running_mean)
    assert torch.equal(again.running_variance, ours.running_variance)
    of_other.square().sum().backward()
    assert other.grad is not None
    assert (other.grad[~REAL] == 0).all()
    assert other.grad[REAL].abs().max() > 0


def test_batchnorm_at_rest_takes_every_position_alone() -> None:
    ours, _ = paired_batch_norms()
    for _ in range(3):
        ours(2 * torch.randn(B, T, D) + 1, real=REAL)
    ours.eval()
    x = torch.randn(B, T, D)
    y = ours(x, real=REAL)
    for b in range(B):
        for t in range(T):
            normal = (x[b, t] - ours.running_mean) / (ours.running_variance + 1e-5).sqrt()
            close(y[b, t], normal * ours.weight + ours.bias)
    close(ours(x[1:, 2:]), y[1:, 2:])


def test_one_real_position_has_no_variance_and_leaves_the_statistics_as_they_are() -> None:
    ours, _ = paired_batch_norms()
    ours(2 * torch.randn(B, T, D) + 1)
    mean, variance = ours.running_mean.clone(), ours.running_variance.clone()
    x = torch.randn(1, T, D, requires_grad=True)
    y = ours(x, real=torch.tensor([[True, False, False]]))
    close(y[0, 0], (x[0, 0] - mean) / (variance + 1e-5).sqrt() * ours.weight + ours.bias)
    assert torch.equal(ours.running_mean, mean)
    assert torch.equal(ours.running_variance, variance)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


# Where the norm stands


def random_norm(name: NormName = "layernorm") -> nn.Module:
    norm = build_norm(name, D)
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    return norm


@pytest.mark.parametrize("name", get_args(NormName))
@pytest.mark.parametrize("place", get_args(NormPlace))
def test_residual_places_the_norm(place: NormPlace, name: NormName) -> None:
    torch.manual_seed(7)
    residual, sublayer = build_residual(place, lambda: build_norm(name, D), dropout=0.0).eval(), nn.Linear(D, D)
    for parameter in residual.parameters():
        nn.init.normal_(parameter)
    x = 3 * torch.randn(B, T, D) + 2
    norm = residual.get_submodule("norm")
    match place:
        case "post":
            assert isinstance(residual, PostNorm)
            expected = norm(x + sublayer(x))
        case "pre":
            assert isinstance(residual, PreNorm)
            expected = x + sublayer(norm(x))
        case "sandwich":
            assert isinstance(residual, SandwichNorm)
            assert residual.norm_after is not norm
            expected = x + residual.norm_after(sublayer(norm(x)))
    close(residual(x, sublayer), expected)


def test_sandwich_has_two_norms_that_differ() -> None:
    torch.manual_seed(8)
    norm, norm_after, sublayer = random_norm("layernorm"), random_norm("rmsnorm"), nn.Linear(D, D)
    x = 3 * torch.randn(B, T, D) + 2
    centred = x - x.mean(-1, keepdim=True)
    before = centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()
    inside = sublayer(before * norm.get_parameter("weight") + norm.get_parameter("bias"))
    after = inside / (inside.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * norm_after.get_parameter("weight")
    close(SandwichNorm(norm=norm, norm_after=norm_after, dropout=0.0)(x, sublayer), x + after)


@pytest.mark.parametrize("place", get_args(NormPlace))
def test_residual_tells_every_norm_which_positions_are_real(place: NormPlace) -> None:
    torch.manual_seed(9)
    residual = build_residual(place, lambda: build_norm("batchnorm", D), dropout=0.0)
    x = torch.randn(B, T, D)
    other = torch.where(REAL[..., None], x, 1000.0)
    y, of_other = residual(x, torch.sin, real=REAL), residual(other, torch.sin, real=REAL)
    assert torch.equal(y[REAL], of_other[REAL])


class NoNorm(nn.Module):
    def forward(self, x_BTD: Tensor, *, real: Tensor | None = None) -> Tensor:  # noqa: ARG002
        return x_BTD


@pytest.mark.parametrize(
    "residual",
    [
        PreNorm(norm=NoNorm(), dropout=0.5),
        PostNorm(norm=NoNorm(), dropout=0.5),
        SandwichNorm(norm=NoNorm(), norm_after=NoNorm(), dropout=0.5),
    ],
    ids=["pre", "post", "sandwich"],
)
def test_residual_drops_from_the_sublayer_and_not_from_the_line(residual: nn.Module) -> None:
    torch.manual_seed(10)
    x = torch.full((B, T, 401), 3.0)

    def sublayer(x: Tensor) -> Tensor:
        return torch.ones_like(x)

    assert set(residual(x, sublayer).unique().tolist()) == {3.0, 5.0}
    assert set(residual.eval()(x, sublayer).unique().tolist()) == {4.0}


def test_sandwich_drops_after_its_second_norm() -> None:
    """Dropout before it would be normalised away: what is kept would not be doubled."""
    torch.manual_seed(11)
    residual = SandwichNorm(norm=NoNorm(), norm_after=LayerNorm(401), dropout=0.5)
    x = torch.randn(B, T, 401)
    added = residual(x, torch.sin) - x
    kept = added != 0
    assert 0 < kept.sum() < kept.numel()
    close(added[kept], 2 * residual.norm_after(x.sin())[kept])
