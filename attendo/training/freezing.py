"""Layers that stay as they are."""

from torch import nn

from attendo.errors import ConfigError


def freeze(model: nn.Module, n_layers: int) -> None:
    """The first `n_layers` blocks of the encoder learn nothing, nor do the embeddings below them; 0: all learn."""
    if n_layers == 0:
        return
    encoder = getattr(model, "encoder", None)
    blocks = getattr(encoder, "blocks", None)
    if encoder is None or blocks is None:
        raise ConfigError(f"training.frozen_layers = {n_layers}: a {type(model).__name__} has no encoder of layers.")
    if n_layers > len(blocks):
        raise ConfigError(f"training.frozen_layers = {n_layers}: the encoder has {len(blocks)} layers.")
    for part in (encoder.embedding, *blocks[:n_layers]):
        part.requires_grad_(False)
