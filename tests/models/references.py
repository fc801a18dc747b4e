"""What a model is compared with needs the same weights, and none that a mistake could leave unseen."""

from typing import TypeVar

import torch
from torch import Tensor, nn

Tensors = dict[str, Tensor]
M = TypeVar("M", bound=nn.Module)


def moved(model: M) -> M:
    """With every weight that is trained a little elsewhere, so that no bias is zero and no gain one."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def weights_in(model: nn.Module) -> Tensors:
    return {name: tensor.detach() for name, tensor in model.named_parameters()}


def filled(model: M, weights: Tensors) -> M:
    """With these weights, which must be all of its own and no others."""
    parameters = dict(model.named_parameters())
    assert parameters.keys() == weights.keys()
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])
    return model
