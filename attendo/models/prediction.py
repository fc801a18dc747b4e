"""What a model tells of a batch, as the loss asks for it."""

from typing import NamedTuple

from torch import Tensor, nn

from attendo.nn.embedding import OutputProjection


class Prediction(NamedTuple):
    """Vectors, what makes logits of them, and what should come out: [N, D], a linear layer, [N].

    weight: how much the loss of each counts.
    """

    vectors_ND: Tensor
    output: OutputProjection | nn.Linear
    target_N: Tensor
    weight: float = 1.0
