"""The Vision Transformer (Dosovitskiy et al. 2021): an encoder whose words are patches of a picture.

Suffixes: B batch, C channels, Y and X pixels down and across, T positions, D d_model, L labels.
"""

from collections.abc import Iterable

from torch import Tensor, nn

from attendo.data.picture_batch import PictureBatch
from attendo.models.parts import (
    attention_positions,
    build_block,
    build_final_norm,
    build_layers,
    kept_layers,
)
from attendo.models.prediction import Prediction
from attendo.models.settings import PoolingName, VisionConfig
from attendo.nn.block import Block
from attendo.nn.init import initialise, scale_by_depth
from attendo.nn.patches import GridPositions, Patches
from attendo.nn.positions import LearnedPositions


class PictureEncoder(nn.Module):
    """Patches, then blocks in which each sees all others: [B, C, Y, X] -> [B, T, D]."""

    def __init__(
        self, patches: Patches, blocks: Iterable[Block], final_norm: nn.Module | None, *, layer_drop: float
    ) -> None:
        super().__init__()
        self.patches = patches
        self.blocks = nn.ModuleList(blocks)
        self.final_norm = final_norm
        self.layer_drop = layer_drop

    def forward(self, pixels_BCYX: Tensor) -> Tensor:
        x_BTD = self.patches(pixels_BCYX)
        kept = kept_layers(len(self.blocks), self.layer_drop, training=self.training)
        for block in (block for block, stays in zip(self.blocks, kept, strict=True) if stays):
            x_BTD, _ = block(x_BTD, mask=None)
        return x_BTD if self.final_norm is None else self.final_norm(x_BTD)


class VisionTransformer(nn.Module):
    """softmax(W pooled(encoder(pixels)) + b): the label of a picture. Pixels are from 0 to 255."""

    def __init__(self, config: VisionConfig, encoder: PictureEncoder, labels: nn.Linear) -> None:
        super().__init__()
        self.config = config
        self.encoder = encoder
        self.pooling: PoolingName = config.pooling
        self.labels = labels

    def forward(self, pixels_BCYX: Tensor) -> Tensor:
        """Logits of the labels, [B, L]."""
        return self.labels(self._pooled(pixels_BCYX))

    def predictions(self, batch: PictureBatch) -> Iterable[Prediction]:
        yield Prediction(self._pooled(batch.pixels_BCYX), self.labels, batch.labels_B)

    def _pooled(self, pixels_BCYX: Tensor) -> Tensor:
        x_BTD = self.encoder(pixels_BCYX)
        return x_BTD[:, 0] if self.pooling == "first" else x_BTD.mean(dim=1)


def build(config: VisionConfig) -> VisionTransformer:
    """Puts together the parts that the settings name, and draws the initial weights."""
    around = attention_positions(config, both_ways=True)
    blocks = build_layers(config, config.n_layers, lambda _: build_block(config, positions=around, cross=False))
    model = VisionTransformer(
        config,
        PictureEncoder(
            Patches(
                d_model=config.d_model,
                size=config.patch,
                mean=config.mean,
                deviation=config.deviation,
                token=config.pooling == "first",
                positions=_positions(config),
                dropout=config.residual_dropout,
            ),
            blocks,
            build_final_norm(config),
            layer_drop=config.layer_drop,
        ),
        nn.Linear(config.d_model, config.n_labels),
    )
    initialise(model)
    if config.init_by_depth:
        scale_by_depth(blocks)
    return model


def _positions(config: VisionConfig) -> nn.Module | None:
    rows, columns = config.grid
    match config.positions:
        case "learned":
            n_positions = rows * columns + (config.pooling == "first")
            return LearnedPositions(d_model=config.d_model, n_positions=n_positions)
        case "sinusoidal":
            return GridPositions(d_model=config.d_model, rows=rows, columns=columns)
        case _:
            return None
