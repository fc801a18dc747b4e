"""Pegasus: what Marian is, pre-norm."""

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from attendo.errors import ForeignError
from attendo.interop.architecture import Architecture, Entry, Unused
from attendo.interop.stacks import (
    N_POSITIONS,
    ONE_VOCABULARY,
    TIED,
    blocks,
    embeddings,
    embeddings_apart,
    logits_bias,
    sizes,
)
from attendo.models.settings import TransformerConfig
from attendo.nn.positions import sinusoids

_MOST_POSITIONS = 100_000  # of a table; what claims more is damaged


def _entries(config: TransformerConfig) -> Iterator[Entry]:
    def table(said: Mapping[str, Any]) -> Tensor:
        """The sinusoids, which their files hold."""
        n_positions = said["max_position_embeddings"]
        if not isinstance(n_positions, int) or not 1 <= n_positions <= _MOST_POSITIONS:
            raise ForeignError(
                f"max_position_embeddings = {n_positions!r} was read with this Pegasus, and must be a number from 1 to "
                f"{_MOST_POSITIONS:,}. Import it again from a folder that is whole."
            )
        return sinusoids(n_positions, config.d_model, layout="halves")

    yield from embeddings() if config.tie_embeddings == "all" else embeddings_apart()
    yield logits_bias()
    for side in ("encoder", "decoder"):
        yield Unused(f"model.{side}.embed_positions.weight", written=table)
    yield from blocks(config)


PEGASUS = Architecture(
    name="Pegasus",
    model_type="pegasus",
    class_name="PegasusForConditionalGeneration",
    task="translate",
    kind=TransformerConfig,
    implied={"sinusoid_layout": "halves", "norm_place": "pre"},
    settings=(*sizes(activation="gelu", scale=False), TIED),
    vocabularies=ONE_VOCABULARY,
    usual=lambda _: {"max_position_embeddings": N_POSITIONS},
    entries=_entries,
)
