import math
from collections.abc import Callable
from typing import get_args

import pytest
import torch
from torch import Tensor, nn

from attendo.nn.feed_forward import build_feed_forward
from attendo.nn.names import ActivationName

B, T, D, F = 2, 3, 5, 7


def gelu(x: Tensor) -> Tensor:
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


def silu(x: Tensor) -> Tensor:
    return x / (1 + torch.exp(-x))


def relu(x: Tensor) -> Tensor:
    return x * (x > 0)


def squared_relu(x: Tensor) -> Tensor:
    return x * x * (x > 0)


def randomised(name: ActivationName) -> tuple[nn.Module, dict[str, Tensor]]:
    torch.manual_seed(1)
    module = build_feed_forward(name, d_model=D, d_ff=F, dropout=0.0)
    weights = {key: torch.randn_like(value) for key, value in module.state_dict().items()}
    module.load_state_dict(weights)
    return module, weights


@pytest.mark.parametrize(
    ("name", "activation"), [("relu", relu), ("gelu", gelu), ("silu", silu), ("relu2", squared_relu)]
)
def test_feed_forward_is_its_formula(name: ActivationName, activation: Callable[[Tensor], Tensor]) -> None:
    module, w = randomised(name)
    x = torch.randn(B, T, D)
    inner = activation(x @ w["inner.weight"].T + w["inner.bias"])
    torch.testing.assert_close(module(x), inner @ w["outer.weight"].T + w["outer.bias"], rtol=1e-5, atol=1e-5)


def test_swiglu_is_its_formula() -> None:
    module, w = randomised("swiglu")
    x = torch.randn(B, T, D)
    inner = silu(x @ w["inner.weight"].T + w["inner.bias"]) * (x @ w["gate.weight"].T + w["gate.bias"])
    torch.testing.assert_close(module(x), inner @ w["outer.weight"].T + w["outer.bias"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", get_args(ActivationName))
def test_dropout_stands_between_activation_and_outer_layer(name: ActivationName) -> None:
    torch.manual_seed(2)
    module = build_feed_forward(name, d_model=D, d_ff=F, dropout=0.5)
    seen: list[Tensor] = []
    outer = module.get_submodule("outer")
    outer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    x = torch.randn(B, T, D)
    module.eval()(x)
    module.train()(x)
    rested, trained = seen
    active = rested != 0
    dropped = trained[active] == 0
    assert 0 < dropped.sum() < active.sum()
    torch.testing.assert_close(trained[active][~dropped], 2 * rested[active][~dropped])
