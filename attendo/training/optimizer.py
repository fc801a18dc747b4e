"""The optimizer, and its state as named tensors."""

from typing import Any

import torch
from torch import Tensor, nn

from attendo.errors import BundleError
from attendo.nn.positions import BucketPositions, ComplexPositions
from attendo.training.muon import Muon
from attendo.training.settings import TrainingConfig
from attendo.training.team import Team


def build_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """Adam (Kingma & Ba 2015), AdamW (Loshchilov & Hutter 2019) or Muon; decay acts on matrices, not biases and gains.

    Tables of biases and of frequencies are not matrices in that sense: zero means something there. Muon has the
    matrices of linear layers; embeddings, of which most rows have no gradient at a time, are left to Adam.
    """
    tables = {
        parameter
        for module in model.modules()
        if isinstance(module, BucketPositions | ComplexPositions)
        for parameter in module.parameters(recurse=False)
    }
    linear = {module.weight for module in model.modules() if isinstance(module, nn.Linear)}
    learning = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in learning if p.ndim > 1 and p not in tables]
    others = [p for p in learning if p.ndim <= 1 or p in tables]
    decay = config.weight_decay
    groups: list[dict[str, Any]] = [
        {"params": matrices, "weight_decay": decay},
        {"params": others, "weight_decay": 0.0},
    ]
    if config.optimizer == "muon":
        groups = [
            {"params": [p for p in matrices if p in linear], "weight_decay": decay, "orthogonal": True},
            {"params": [p for p in matrices if p not in linear], "weight_decay": decay, "orthogonal": False},
            {"params": others, "weight_decay": 0.0, "orthogonal": False},
        ]
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "muon": Muon}[config.optimizer]
    built = kind(groups, lr=0.0, betas=(config.beta1, config.beta2), eps=config.epsilon, fused=True)
    if isinstance(built, Muon):
        built.low = config.mixed_precision == "bfloat16"
    return built


def clipped_step(optimizer: torch.optim.Optimizer, clip_norm: float, team: Team) -> None:
    """A step with gradients scaled so that their common norm is at most `clip_norm`; 0: as they are.

    What `nn.utils.clip_grad_norm_` and a step do, but the fused kernel scales while it reads, without a pass before it.
    """
    assert optimizer.defaults["fused"]  # others would not see the scale
    if isinstance(optimizer, Muon):
        optimizer.team = team
    if clip_norm:
        parameters = (parameter for group in optimizer.param_groups for parameter in group["params"])
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        # The kernel divides by it. GradScaler hands its scale over in the same way.
        optimizer.grad_scale = ((norm + 1e-6) / clip_norm).clamp(min=1)  # type: ignore[attr-defined]
    optimizer.step()
    if clip_norm:
        del optimizer.grad_scale  # type: ignore[attr-defined]


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """`name:what` -> the tensor the optimizer keeps for that parameter."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    return {
        f"{names[parameter]}:{what}": value
        for parameter, kept in optimizer.state.items()
        for what, value in kept.items()
    }


def restore_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """The inverse of `optimizer_tensors`."""
    parameters = dict(model.named_parameters())
    for key, value in tensors.items():
        name, _, what = key.rpartition(":")
        if name not in parameters:
            raise BundleError(f"the training state has {key}, and the model has no parameter {name}.")
        parameter = parameters[name]
        optimizer.state[parameter][what] = value.to(parameter.device).clone()
