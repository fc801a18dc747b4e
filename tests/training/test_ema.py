import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from attendo.bundle import weights_of
from attendo.training.ema import MovingAverage


class Small(nn.Module):
    """A matrix, and running statistics that each call moves on while training."""

    mean: Tensor
    variance: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(3, 5)
        self.register_buffer("mean", torch.zeros(5))
        self.register_buffer("variance", torch.ones(5))

    def forward(self, x_N3: Tensor) -> Tensor:
        return functional.batch_norm(self.line(x_N3), self.mean, self.variance, training=self.training)


def fresh() -> Small:
    torch.manual_seed(1)
    return Small()


def descend(model: Small, optimizer: torch.optim.Optimizer) -> None:
    model(torch.randn(7, 3) + 2).sin().sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def copied(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in weights.items()}


def test_it_is_the_formula() -> None:
    model = fresh()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    average = MovingAverage(weights_of(model), 0.4)
    expected = {name: tensor.double() for name, tensor in weights_of(model).items()}
    decays = []
    for t in range(1, 14):
        descend(model, optimizer)
        average.update(t)
        decays.append(min(0.4, (1 + t) / (10 + t)))
        for name, tensor in weights_of(model).items():
            expected[name] = decays[-1] * expected[name] + (1 - decays[-1]) * tensor.double()
    assert decays[0] == 2 / 11 and decays[-1] == 0.4  # warm-up, and after it
    assert expected.keys() == {"line.weight", "line.bias", "mean", "variance"}
    for name, tensor in average.weights.items():
        torch.testing.assert_close(tensor.double(), expected[name], rtol=1e-5, atol=1e-6, msg=name)


@pytest.mark.parametrize("decay", [0.9, 0.999])
def test_after_the_warm_up_it_is_that_of_torch(decay: float) -> None:
    model = fresh()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    theirs = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=True)
    theirs.update_parameters(model)  # the first call copies
    ours = MovingAverage(weights_of(model), decay)
    for t in range(20_000, 20_011):
        descend(model, optimizer)
        theirs.update_parameters(model)
        ours.update(t)
    expected = weights_of(theirs.module)
    assert expected.keys() == ours.weights.keys()
    for name, tensor in ours.weights.items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-6, atol=1e-7, msg=name)
        assert not torch.equal(tensor, weights_of(model)[name])


def test_in_use_the_model_has_the_average_and_then_its_own_again() -> None:
    model = fresh()
    average = MovingAverage(weights_of(model), 0.9)
    descend(model, torch.optim.SGD(model.parameters(), lr=0.05))
    average.update(1)
    own, averaged = copied(weights_of(model)), copied(average.weights)
    reference = copy.deepcopy(model)
    reference.load_state_dict(averaged)
    x_N3 = torch.randn(2, 3)
    with pytest.raises(KeyboardInterrupt), average.in_use():
        assert torch.equal(model.eval()(x_N3), reference.eval()(x_N3))
        raise KeyboardInterrupt
    for name, tensor in weights_of(model).items():
        assert torch.equal(tensor, own[name]), name
        assert torch.equal(average.weights[name], averaged[name]), name


def test_gradients_know_nothing_of_it() -> None:
    model = fresh()
    average = MovingAverage(weights_of(model), 0.9)
    average.update(1)
    with average.in_use():
        pass
    model(torch.randn(7, 3)).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert not any(tensor.requires_grad for tensor in average.weights.values())
