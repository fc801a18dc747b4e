"""Muon against its equations by singular values, and against torch's own, which iterates in bfloat16."""

import math

import pytest
import torch
from torch import Tensor, nn

from attendo.models.settings import TransformerConfig
from attendo.models.transformer import build
from attendo.training.muon import COEFFICIENTS, ITERATIONS, Muon, orthogonal
from attendo.training.optimizer import build_optimizer, clipped_step, optimizer_tensors, restore_optimizer
from attendo.training.settings import TrainingConfig
from attendo.training.team import Team

SHAPES = [(5, 7), (7, 5), (6, 6), (1, 4)]


def by_singular_values(matrix: Tensor) -> Tensor:
    """U f(S) Vᵀ, where f is the polynomial a s + b s³ + c s⁵, applied as often as the iteration is."""
    u, s, v = torch.linalg.svd(matrix / matrix.norm(), full_matrices=False)
    a, b, c = COEFFICIENTS
    for _ in range(ITERATIONS):
        s = a * s + b * s**3 + c * s**5
    return u @ s.diag() @ v


@pytest.mark.parametrize("shape", SHAPES)
def test_the_iteration_is_a_polynomial_of_the_singular_values(shape: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(3)
    matrices = torch.randn(3, *shape, generator=generator, dtype=torch.float64)
    for matrix, ours in zip(matrices, orthogonal(list(matrices), low=False), strict=True):
        torch.testing.assert_close(ours, by_singular_values(matrix), rtol=1e-9, atol=1e-9)
        # Singular values far below the largest take more iterations.
        assert torch.linalg.svdvals(ours).max() < 1.3


def test_in_bfloat16_those_of_one_shape_go_together() -> None:
    generator = torch.Generator().manual_seed(4)
    matrices = [torch.randn(shape, generator=generator) for shape in (*SHAPES, *SHAPES[::-1])]
    for matrix, ours in zip(matrices, orthogonal(matrices, low=True), strict=True):
        assert ours.shape == matrix.shape and ours.dtype == matrix.dtype
        torch.testing.assert_close(ours, by_singular_values(matrix), rtol=0, atol=0.03)


def test_a_gradient_of_zero_moves_nothing() -> None:
    assert not orthogonal([torch.zeros(3, 5)], low=False)[0].any()


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("shape", SHAPES)
def test_steps_are_those_of_torchs_muon(shape: tuple[int, int], decay: float) -> None:
    generator = torch.Generator().manual_seed(5)
    start, gradients = torch.randn(shape, generator=generator), torch.randn(4, *shape, generator=generator)
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    our_optimizer = Muon([{"params": [ours], "weight_decay": decay, "orthogonal": True}], lr=0.01, fused=True)
    their_optimizer = torch.optim.Muon([theirs], lr=0.01, weight_decay=decay, adjust_lr_fn="match_rms_adamw")
    for gradient in gradients:
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        our_optimizer.step()
        their_optimizer.step()
    # Theirs has the gradient weighted by 1 - μ where ours has not, and direction alone counts; bfloat16 has 3 digits.
    torch.testing.assert_close(
        ours.detach(), theirs.detach(), rtol=0, atol=4 * 0.01 * 0.2 * math.sqrt(max(shape)) * 0.02
    )
    assert (ours - start).abs().max() > 0.003


def model() -> nn.Module:
    torch.manual_seed(1)
    sizes = {"source_vocab_size": 19, "target_vocab_size": 19, "n_encoder_layers": 1, "n_decoder_layers": 1}
    return build(TransformerConfig(**sizes, d_model=6, d_ff=8, n_heads=2))  # type: ignore[arg-type]


def with_gradients(network: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in network.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)


def stepped(name: str, n: int = 3) -> nn.Module:
    network = model()
    optimizer = build_optimizer(network, TrainingConfig(optimizer=name))  # type: ignore[arg-type]
    for group in optimizer.param_groups:
        group["lr"] = 0.01
    for seed in range(n):
        with_gradients(network, seed)
        clipped_step(optimizer, 0.5, Team())
        optimizer.zero_grad(set_to_none=True)
    return network


def test_matrices_of_linear_layers_move_by_muon_and_all_else_by_adam() -> None:
    start, by_muon, by_adam = model(), stepped("muon"), stepped("adamw")
    linear = {f"{name}.weight" for name, module in start.named_modules() if isinstance(module, nn.Linear)}
    before = dict(start.named_parameters())
    for (name, ours), theirs in zip(by_muon.named_parameters(), by_adam.parameters(), strict=True):
        assert (ours != before[name]).any()
        assert torch.allclose(ours, theirs, rtol=1e-5, atol=1e-7) == (name not in linear), name


def test_clipping_scales_what_the_momentum_adds_up() -> None:
    """A large gradient that is clipped weighs as much as a small one that was clipped to the same."""
    weights = []
    for size in (1.0, 1000.0):
        layer = nn.Linear(5, 7, bias=False)
        nn.init.ones_(layer.weight)
        optimizer = build_optimizer(layer, TrainingConfig(optimizer="muon"))
        optimizer.param_groups[0]["lr"] = 0.01
        for number, scale in enumerate((size, 1.0)):
            generator = torch.Generator().manual_seed(number)
            layer.weight.grad = scale * torch.randn(layer.weight.shape, generator=generator)
            clipped_step(optimizer, 0.1, Team())
        weights.append(layer.weight.detach().clone())
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-4, atol=1e-5)


def test_it_goes_on_from_saved_tensors() -> None:
    whole = stepped("muon", 5)
    network = model()
    optimizer = build_optimizer(network, TrainingConfig(optimizer="muon"))
    for seed in range(5):
        if seed == 2:
            kept = {key: value.clone() for key, value in optimizer_tensors(network, optimizer).items()}
            optimizer = build_optimizer(network, TrainingConfig(optimizer="muon"))
            restore_optimizer(network, optimizer, kept)
        for group in optimizer.param_groups:
            group["lr"] = 0.01
        with_gradients(network, seed)
        clipped_step(optimizer, 0.5, Team())
    for ours, theirs in zip(network.parameters(), whole.parameters(), strict=True):
        assert torch.equal(ours, theirs)
