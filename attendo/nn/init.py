"""Initial values, all in one place.

Matrices: uniform as Glorot & Bengio (2010), as are the vectors of relative distances and of additive scoring;
embeddings: normal with standard deviation d_model^-0.5, so that scaled by √d_model they have unit variance and, used as
output projection, give logits of unit variance; learned positions, segments and the token before the patches of a
picture: normal with 0.02; convolutions, whose output is gated: normal with variance 4 / n for n inputs (Gehring et al.
2017); biases, those of distances too, and what the branches' weights are the softmax of: zero; norms, recurrences and
the frequencies of complex vectors: as they say themselves.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from attendo.nn.attention import Additive, BranchedHeads
from attendo.nn.block import Block
from attendo.nn.embedding import Embedding, OutputProjection, Segments
from attendo.nn.norm import BatchNorm, LayerNorm, RMSNorm, ScaleNorm
from attendo.nn.patches import Patches
from attendo.nn.positions import BucketPositions, ComplexPositions, LearnedPositions, ShawPositions


def initialise(model: nn.Module) -> None:
    """Sets every parameter of the model, drawing from torch's generator in the order of `model.modules()`."""
    drawn: set[int] = set()  # a shared weight is drawn once
    for module in model.modules():
        match module:
            case Embedding() | OutputProjection():
                if id(module.weight) not in drawn:
                    drawn.add(id(module.weight))
                    nn.init.normal_(module.weight, std=module.weight.shape[1] ** -0.5)
                if isinstance(module, OutputProjection):
                    nn.init.zeros_(module.bias)
            case Patches():
                if module.token is not None:
                    nn.init.normal_(module.token, std=0.02)
            case LearnedPositions() | Segments():
                nn.init.normal_(module.weight, std=0.02)
            case nn.Linear():
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            case nn.Conv1d():
                nn.init.normal_(module.weight, std=2 / module.weight[0].numel() ** 0.5)
                nn.init.zeros_(module.bias)  # type: ignore[arg-type]
            case ShawPositions():
                nn.init.xavier_uniform_(module.keys)
                nn.init.xavier_uniform_(module.values)
            case Additive():
                nn.init.xavier_uniform_(module.direction)
            case BucketPositions():
                nn.init.zeros_(module.weight)
            case BranchedHeads():
                nn.init.zeros_(module.kappa)
                nn.init.zeros_(module.alpha)
            case LayerNorm() | RMSNorm() | BatchNorm() | ScaleNorm() | ComplexPositions() | nn.LSTM() | nn.GRU():
                module.reset_parameters()
            case _:
                if next(module.parameters(recurse=False), None) is not None:
                    raise TypeError(f"{type(module).__name__} has parameters, and nothing here says how they begin.")


@torch.no_grad()
def scale_by_depth(*stacks: Sequence[Block]) -> None:
    """Divides the matrices in the l-th layer of a stack by √l (Zhang et al. 2019), so that deep stacks train.

    Each layer adds to the variance of what passes by it; with these, later layers add less. A weight that several
    layers share is divided for the first of them.
    """
    scaled: set[Tensor] = set()
    for stack in stacks:
        for number, block in enumerate(stack, start=1):
            for module in block.modules():
                if isinstance(module, nn.Linear) and module.weight not in scaled:
                    scaled.add(module.weight)
                    module.weight.mul_(number**-0.5)
