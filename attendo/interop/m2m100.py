"""M2M100, and NLLB, which is one: pre-norm, with fairseq's sinusoids and no bias on the logits."""

from collections.abc import Iterator

from attendo.interop.architecture import Architecture, Entry, Given, no_bias
from attendo.interop.stacks import N_POSITIONS, ONE_VOCABULARY, blocks, embeddings, sinusoids, sizes
from attendo.models.settings import TransformerConfig


def _entries(config: TransformerConfig) -> Iterator[Entry]:
    yield from embeddings()
    yield Given("output.bias", no_bias())
    yield from sinusoids("weights")
    yield from blocks(config)


M2M100 = Architecture(
    name="M2M100",
    model_type="m2m_100",
    class_name="M2M100ForConditionalGeneration",
    task="translate",
    kind=TransformerConfig,
    implied={"sinusoid_layout": "fairseq", "norm_place": "pre", "output_bias": False},
    settings=sizes(activation="relu", scale=True, attention_dropout=0.1, layer_drop=0.05),
    vocabularies=ONE_VOCABULARY,
    # Its positions are counted from the id of the padding on.
    required={"tie_word_embeddings": True, "pad_token_id": 1},
    usual=lambda _: {"max_position_embeddings": N_POSITIONS},
    entries=_entries,
)
