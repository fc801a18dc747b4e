from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attendo.errors import BundleError, ConfigError
from attendo.models.settings import TransformerConfig
from attendo.models.transformer import build
from attendo.training.optimizer import build_optimizer, clipped_step, optimizer_tensors, restore_optimizer
from attendo.training.settings import TrainingConfig
from attendo.training.team import Team

RATE = 0.01


class Line(nn.Module):
    """A matrix of ones and a vector of ones."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.ones(3, 5))
        self.vector = nn.Parameter(torch.ones(7))


def stepped(gradients: list[float], **settings: Any) -> Line:
    """The parameters after one step for each gradient, which is the same for all of them."""
    model = Line()
    optimizer = build_optimizer(model, TrainingConfig(**settings))
    for gradient in gradients:
        for group in optimizer.param_groups:
            group["lr"] = RATE
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, gradient)
        optimizer.step()
    return model


def adam(gradients: list[float], *, beta1: float, beta2: float, epsilon: float, decay: float = 0.0) -> float:
    """One parameter, from 1, by the equations of Kingma & Ba (2015), with the decay of Loshchilov & Hutter (2019)."""
    value, m, v = 1.0, 0.0, 0.0
    for t, gradient in enumerate(gradients, start=1):
        m, v = beta1 * m + (1 - beta1) * gradient, beta2 * v + (1 - beta2) * gradient**2
        value -= RATE * ((m / (1 - beta1**t)) / ((v / (1 - beta2**t)) ** 0.5 + epsilon) + decay * value)
    return value


GRADIENTS = [0.5, -0.2, 0.9, 0.1]


def test_adam_is_the_papers() -> None:
    model = stepped(GRADIENTS)
    expected = adam(GRADIENTS, beta1=0.9, beta2=0.98, epsilon=1e-9)
    torch.testing.assert_close(model.matrix.detach(), torch.full((3, 5), expected))
    torch.testing.assert_close(model.vector.detach(), torch.full((7,), expected))


@pytest.mark.parametrize("optimizer_name", ["adam", "adamw"])
@pytest.mark.parametrize("clip_norm", [0.0, 0.7, 1e3])
def test_a_clipped_step_is_clipping_and_a_step(optimizer_name: str, clip_norm: float) -> None:
    """Gradients above the norm, below it and not clipped; one parameter has none."""

    def trained(fast: bool) -> list[Tensor]:
        generator, model = torch.Generator().manual_seed(1), Line()
        model.unused = nn.Parameter(torch.ones(2))
        optimizer = build_optimizer(model, TrainingConfig(optimizer=optimizer_name))  # type: ignore[arg-type]
        for scale in (5.0, 0.01, 2.0):
            for group in optimizer.param_groups:
                group["lr"] = RATE
            for parameter in (model.matrix, model.vector):
                parameter.grad = scale * torch.randn(parameter.shape, generator=generator)
            if fast:
                clipped_step(optimizer, clip_norm, Team())
            else:
                if clip_norm:
                    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
                optimizer.step()
        return [*model.parameters(), *optimizer_tensors(model, optimizer).values()]

    for one, other in zip(trained(True), trained(False), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


def test_betas_and_epsilon_are_settings() -> None:
    model = stepped(GRADIENTS, beta1=0.5, beta2=0.7, epsilon=0.1)
    expected = adam(GRADIENTS, beta1=0.5, beta2=0.7, epsilon=0.1)
    torch.testing.assert_close(model.vector.detach(), torch.full((7,), expected))


def test_adamw_decays_matrices_and_not_vectors() -> None:
    model = stepped(GRADIENTS, optimizer="adamw", weight_decay=0.3)
    moments = {"beta1": 0.9, "beta2": 0.98, "epsilon": 1e-9}
    torch.testing.assert_close(model.matrix.detach(), torch.full((3, 5), adam(GRADIENTS, **moments, decay=0.3)))
    torch.testing.assert_close(model.vector.detach(), torch.full((7,), adam(GRADIENTS, **moments)))


def test_adamw_without_decay_is_adam() -> None:
    assert torch.equal(stepped(GRADIENTS, optimizer="adamw").matrix, stepped(GRADIENTS).matrix)


def test_adam_with_decay_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"weight_decay = 0\.3.*adamw"):
        TrainingConfig(optimizer="adam", weight_decay=0.3)


def test_state_by_name_and_back() -> None:
    model = Line()
    optimizer = build_optimizer(model, TrainingConfig())
    assert optimizer_tensors(model, optimizer) == {}
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 0.5)
    optimizer.step()
    tensors = optimizer_tensors(model, optimizer)
    assert set(tensors) == {
        f"{name}:{what}" for name in ("matrix", "vector") for what in ("step", "exp_avg", "exp_avg_sq")
    }
    assert tensors["matrix:exp_avg"].shape == (3, 5)

    another = Line()
    fresh = build_optimizer(another, TrainingConfig())
    restore_optimizer(another, fresh, tensors)
    restored: dict[str, Tensor] = optimizer_tensors(another, fresh)
    assert {key: value.tolist() for key, value in restored.items()} == {k: v.tolist() for k, v in tensors.items()}
    # A copy: what is done to the one is not done to the other.
    tensors["matrix:exp_avg"].zero_()
    assert restored["matrix:exp_avg"].count_nonzero() == 15


def test_state_of_shared_modules_is_there_once() -> None:
    def shared() -> nn.ModuleList:
        line = Line()
        return nn.ModuleList([line, Line(), line])

    model = shared()
    optimizer = build_optimizer(model, TrainingConfig())
    for n, parameter in enumerate(model.parameters()):
        parameter.grad = torch.full_like(parameter, 0.5 + n)
    optimizer.step()
    tensors = optimizer_tensors(model, optimizer)
    assert {key.partition(":")[0] for key in tensors} == {"0.matrix", "0.vector", "1.matrix", "1.vector"}

    another = shared()
    fresh = build_optimizer(another, TrainingConfig())
    restore_optimizer(another, fresh, tensors)
    restored = optimizer_tensors(another, fresh)
    assert {key: value.tolist() for key, value in restored.items()} == {k: v.tolist() for k, v in tensors.items()}


def test_state_of_another_model_is_refused() -> None:
    model = Line()
    with pytest.raises(BundleError, match="no parameter other"):
        restore_optimizer(model, build_optimizer(model, TrainingConfig()), {"other:exp_avg": torch.zeros(2)})


@pytest.mark.parametrize("positions", ["t5", "complex"])
def test_tables_in_which_zero_means_something_do_not_decay(positions: Any) -> None:
    """Biases of distances, and the frequencies of words, which at zero would be no positions at all."""
    config = TransformerConfig(source_vocab_size=11, target_vocab_size=11, d_model=8, n_heads=2, positions=positions)
    model = build(config)
    decayed, others = build_optimizer(model, TrainingConfig(optimizer="adamw", weight_decay=0.1)).param_groups
    names = {parameter: name for name, parameter in model.named_parameters()}
    assert len(decayed["params"]) + len(others["params"]) == len(names)
    assert not [name for parameter in decayed["params"] if "positions" in (name := names[parameter])]
    assert [name for parameter in others["params"] if "positions" in (name := names[parameter])]
