"""The optimizer, and its state as named tensors."""

import torch
from torch import Tensor, nn

from attendo.errors import BundleError
from attendo.training.settings import TrainingConfig


def build_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """Adam (Kingma & Ba 2015) or AdamW (Loshchilov & Hutter 2019); decay acts on matrices, not on biases and gains."""
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, lr=0.0, betas=(config.beta1, config.beta2), eps=config.epsilon, fused=True)


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
