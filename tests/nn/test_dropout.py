import math

import pytest
import torch
from torch import Tensor

from attendo.nn.dropout import Dropout, random_bytes


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_rate_and_expectation(rate: float) -> None:
    torch.manual_seed(1)
    n = 1_000_003  # not a multiple of eight
    y = Dropout(rate)(torch.ones(n))
    rounded = round(rate * 256) / 256
    assert abs(rounded - rate) <= 1 / 512
    sigma = math.sqrt(rounded * (1 - rounded) / n)
    assert abs((y == 0).double().mean().item() - rounded) < 4 * sigma
    assert y.unique().tolist() == pytest.approx([0, 1 / (1 - rounded)])
    assert abs(y.double().mean().item() - 1) < 4 * sigma / (1 - rounded)


def test_every_place_in_a_word_of_eight_bytes_is_drawn_alike() -> None:
    torch.manual_seed(2)
    n = 2**17
    bytes_N8 = random_bytes(torch.empty(n, 8)).double()
    assert bytes_N8.min() == 0
    assert bytes_N8.max() == 255
    sigma = math.sqrt((256**2 - 1) / 12 / n)
    assert (bytes_N8.mean(0) - 127.5).abs().max() < 4 * sigma
    correlations = torch.corrcoef(bytes_N8.T) - torch.eye(8)
    assert correlations.abs().max() < 4 / math.sqrt(n)


def test_backward_uses_the_mask_of_forward() -> None:
    torch.manual_seed(3)
    x = torch.randn(11, 13, requires_grad=True)
    y = Dropout(0.4)(x)
    upstream = torch.randn(11, 13)
    (gradient,) = torch.autograd.grad(y, x, upstream)
    torch.testing.assert_close(gradient, upstream * (y / x).detach())
    assert (gradient == 0).any()
    assert (gradient != 0).any()


def test_gradient_equals_finite_differences() -> None:
    x = torch.randn(5, 7, dtype=torch.float64, requires_grad=True, generator=torch.Generator().manual_seed(4))

    def with_the_same_mask(x: Tensor) -> Tensor:
        torch.manual_seed(4)
        return Dropout(0.4)(x).sin()

    assert torch.autograd.gradcheck(with_the_same_mask, (x,))


def test_masks_follow_from_the_seed_and_differ_from_call_to_call() -> None:
    dropout, x = Dropout(0.3), torch.ones(1009)
    torch.manual_seed(5)
    first, second = dropout(x), dropout(x)
    torch.manual_seed(5)
    assert torch.equal(dropout(x), first)
    assert torch.equal(dropout(x), second)
    assert not torch.equal(first, second)


def test_masks_go_on_from_a_saved_generator() -> None:
    dropout, x = Dropout(0.3), torch.ones(1009)
    torch.manual_seed(6)
    dropout(x)
    state = torch.get_rng_state()
    expected = dropout(x)
    torch.set_rng_state(state)
    assert torch.equal(dropout(x), expected)


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_identity_in_evaluation_draws_nothing(rate: float) -> None:
    x = torch.randn(3, 5)
    state = torch.get_rng_state()
    assert Dropout(rate).eval()(x) is x
    assert torch.equal(torch.get_rng_state(), state)


def test_rate_zero_is_the_identity_while_training() -> None:
    x = torch.randn(3, 5)
    assert Dropout(0.0).train()(x) is x


def test_a_rate_near_one_keeps_something() -> None:
    torch.manual_seed(7)
    y = Dropout(0.9999)(torch.ones(100_003))
    assert y.isfinite().all()
    assert y.max() == 256


def test_noncontiguous_input_is_masked_where_it_stands() -> None:
    torch.manual_seed(8)
    wide = torch.randn(7, 11, 5)
    x = wide.transpose(0, 2)[:, ::2].requires_grad_()
    assert not x.is_contiguous()
    y = Dropout(0.5)(x)
    assert y.shape == x.shape
    kept = y != 0
    torch.testing.assert_close(y[kept], 2 * x[kept])
    assert 0.2 < kept.double().mean() < 0.8
    y.sum().backward()
    torch.testing.assert_close(x.grad, 2 * kept.float())
    assert torch.equal(wide.transpose(0, 2)[:, ::2], x), "the input was written to"


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,)])
def test_odd_shapes(shape: tuple[int, ...]) -> None:
    assert Dropout(0.5)(torch.ones(shape)).shape == shape


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_type_is_kept(dtype: torch.dtype) -> None:
    assert Dropout(0.5)(torch.ones(7, dtype=dtype)).dtype == dtype
