"""Initial values, all in one place.

Matrices: uniform as Glorot & Bengio (2010); embeddings: normal with standard deviation d_model^-0.5, so that scaled by
√d_model they have unit variance and, used as output projection, give logits of unit variance; learned positions: normal
with 0.02; biases: zero; gains of norms: one.
"""

from torch import nn

from attendo.nn.embedding import Embedding, OutputProjection
from attendo.nn.positions import LearnedPositions


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
            case LearnedPositions():
                nn.init.normal_(module.weight, std=0.02)
            case nn.Linear():
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
            case nn.LayerNorm() | nn.RMSNorm():
                module.reset_parameters()
            case _:
                pass
