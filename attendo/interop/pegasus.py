"""Pegasus: what Marian is, pre-norm."""

from collections.abc import Iterator

from attendo.interop.architecture import Architecture, Entry, Unused
from attendo.interop.stacks import ONE_VOCABULARY, blocks, embeddings, logits_bias, sizes
from attendo.models.settings import TransformerConfig
from attendo.nn.positions import sinusoids

_N_POSITIONS = 1024  # of the tables, which their files hold


def _entries(config: TransformerConfig) -> Iterator[Entry]:
    yield from embeddings()
    yield logits_bias()
    for side in ("encoder", "decoder"):
        yield Unused(
            f"model.{side}.embed_positions.weight",
            written=lambda: sinusoids(_N_POSITIONS, config.d_model, layout="halves"),
        )
    yield from blocks(config)


PEGASUS = Architecture(
    name="Pegasus",
    model_type="pegasus",
    class_name="PegasusForConditionalGeneration",
    task="translate",
    kind=TransformerConfig,
    implied={"sinusoid_layout": "halves", "norm_place": "pre"},
    settings=sizes(activation="gelu", scale=False),
    vocabularies=ONE_VOCABULARY,
    required={"tie_word_embeddings": True},
    written={"max_position_embeddings": _N_POSITIONS},
    entries=_entries,
)
