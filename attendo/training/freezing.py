"""What stays as it is: layers, and a start from nothing."""

import contextlib
from collections.abc import Iterator

from torch import Tensor, nn

from attendo.errors import ConfigError
from attendo.models.encoder_decoder import EncoderDecoder
from attendo.text.tokenizer import BOS


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
    below = encoder.patches if hasattr(encoder, "patches") else encoder.embedding
    for part in (below, *blocks[:n_layers]):
        part.requires_grad_(False)


@contextlib.contextmanager
def zero_start(model: nn.Module) -> Iterator[None]:
    """E[<s>] stays zero meanwhile, if it is: it has no gradient, and so Adam, decay and averages leave it alone.

    In a Marian decoding starts from a vector of zeros whatever its weights are, and runtimes for Marian count on that.
    """
    target = model.tables()[1] if isinstance(model, EncoderDecoder) else None
    if target is None or not target.requires_grad or target[BOS].any():
        yield
        return
    handle = target.register_post_accumulate_grad_hook(_without_start)
    try:
        yield
    finally:
        handle.remove()


def _without_start(table_VD: Tensor) -> None:
    assert table_VD.grad is not None
    table_VD.grad[BOS] = 0
