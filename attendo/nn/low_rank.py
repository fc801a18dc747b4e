"""Low-rank adapters (LoRA, Hu et al. 2022): a trained matrix stays as it is, and a product of two small ones is added.

    W' = W + α/r · B A        W: [out, in], frozen;  A: [r, in], B: [out, r], trained

B begins with zeros, so that W' = W at first, and A as the weights of `nn.Linear` do. An adapted layer is the layer it
was, of which `weight` is W': whoever reads that, reads the sum, and merging is leaving the sum in the place of W.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from attendo.nn.adapters import DOWN, UP

_INSIDE = ".parametrizations.weight."
_ORIGINAL = f"{_INSIDE}original"


class LowRank(nn.Module):
    """W -> W + α/r · B A. `down` is A: [r, in], `up` is B: [out, r]."""

    def __init__(self, weight: Tensor, *, rank: int, alpha: float) -> None:
        super().__init__()
        n_out, n_in = weight.shape
        self.scale = alpha / rank
        self.down = nn.Parameter(weight.new_empty(rank, n_in))
        self.up = nn.Parameter(weight.new_zeros(n_out, rank))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))

    def forward(self, weight: Tensor) -> Tensor:
        return torch.addmm(weight, self.up, self.down, alpha=self.scale)


def add_adapters(
    model: nn.Module, *, rank: int, alpha: float, matrices: Sequence[str], but: Sequence[str] = ()
) -> list[str]:
    """Adapts every linear layer of one of these names, `query` or `value`, say.

    Nothing learns any more but adapters, and the parts of the model that are named in `but`. A layer that was frozen
    before gets none. Returns the names that belong to no layer.
    """
    frozen = {module for module in model.modules() if isinstance(module, nn.Linear) and not module.weight.requires_grad}
    for name, part in model.named_children():
        part.requires_grad_(name in but)
    found = set()
    for name, module in list(model.named_modules()):
        last = name.rpartition(".")[2]
        if isinstance(module, nn.Linear) and last in matrices:
            found.add(last)
            if module in frozen:
                continue
            adapter = LowRank(module.weight, rank=rank, alpha=alpha)
            parametrize.register_parametrization(module, "weight", adapter)
    return [name for name in matrices if name not in found]


def adapters(model: nn.Module) -> Iterator[LowRank]:
    return (part for part in model.modules() if isinstance(part, LowRank))


def adaptable(model: nn.Module) -> list[str]:
    """The last names of all linear layers."""
    return sorted({name.rpartition(".")[2] for name, module in model.named_modules() if isinstance(module, nn.Linear)})


def merge_adapters(model: nn.Module) -> None:
    """W' takes the place of W, and the model is a plain one, all of which learns."""
    for module in list(model.modules()):
        if isinstance(module, nn.Linear) and parametrize.is_parametrized(module, "weight"):
            parametrize.remove_parametrizations(module, "weight", leave_parametrized=True)
    model.requires_grad_(True)


def written(model: nn.Module, weights: Mapping[str, Tensor], *, merge: bool) -> dict[str, Tensor]:
    """The model's weights by name as a bundle has them.

    `merge`: W' alone. Otherwise W, and its adapter beside it.
    """
    plain: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if name.endswith(_ORIGINAL):
            layer = name.removesuffix(_ORIGINAL)
            plain |= _adapted(model.get_submodule(layer), f"{layer}.weight", tensor, merge=merge)
        elif _INSIDE not in name:
            plain[name] = tensor
    return plain


def _adapted(layer: nn.Module, name: str, weight: Tensor, *, merge: bool) -> dict[str, Tensor]:
    if merge:
        return {name: layer.weight.detach()}  # type: ignore[operator]
    adapter = next(adapters(layer))
    return {name: weight, name + DOWN: adapter.down.detach(), name + UP: adapter.scale * adapter.up.detach()}
