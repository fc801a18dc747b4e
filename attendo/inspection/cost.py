"""What a model costs: parameters and multiply-adds of each part, for a source and a target of given lengths.

Counted is one pass over a sentence pair as in scoring: the encoder reads S positions, the decoder all T at once. Only
products of matrices are counted, as is the custom; norms, softmax and activations are left out. With n positions and
the sizes of the paper, attention's projections take 4 n d² multiply-adds and its scores and sums 2 n² d.
"""

from collections.abc import Iterator
from typing import Any

import torch

from attendo.models.settings import TransformerConfig
from attendo.models.transformer import build, parameter_table

# What happens between positions has no parameters, and alone grows with the square of the length.
BETWEEN = "scores and sums"

_OF_A_STACK = (
    "embedding",
    *("attention", f"attention: {BETWEEN}", "cross_attention", f"cross_attention: {BETWEEN}"),
    *("feed_forward", "norm"),
)
PARTS = (*(f"{stack}.{part}" for stack in ("encoder", "decoder") for part in _OF_A_STACK), "output")


def cost_facts(config: TransformerConfig, source_length: int, target_length: int) -> dict[str, Any]:
    """The parts with their parameters and multiply-adds, in the order of computing, and the total."""
    with torch.device("meta"):
        parameters = parameter_table(build(config))
    total = parameters.pop("total")
    products = multiply_adds(config, source_length, target_length)
    rows = [
        {"part": part, "parameters": parameters.get(part, 0), "multiply_adds": products.get(part, 0)}
        for part in PARTS
        if part in parameters or part in products
    ]
    rows.append({"part": "total", "parameters": total, "multiply_adds": sum(products.values())})
    return {"source_length": source_length, "target_length": target_length, "parts": rows}


def multiply_adds(config: TransformerConfig, S: int, T: int) -> dict[str, int]:
    """By part, with the names of `parameter_table`; what happens between positions stands by itself."""
    layers = {"encoder": config.n_encoder_layers, "decoder": config.n_decoder_layers}
    found = {
        "encoder.embedding": _embedding(config, S),
        **dict(_attention(config, "encoder.attention", S, S, layers["encoder"], last=True)),
        "encoder.feed_forward": _feed_forward(config, S) * layers["encoder"],
        "decoder.embedding": _embedding(config, T),
        **dict(_attention(config, "decoder.attention", T, T, layers["decoder"])),
        **dict(_attention(config, "decoder.cross_attention", T, S, layers["decoder"], last=True, cross=True)),
        "decoder.feed_forward": _feed_forward(config, T) * layers["decoder"],
        "output": T * config.d_model * config.target_vocab_size,
    }
    return {part: products for part, products in found.items() if products}


def _embedding(config: TransformerConfig, n: int) -> int:
    """A vector is looked up; only concatenated positions multiply."""
    return n * 2 * config.d_model * config.d_model if config.positions == "sinusoidal-concatenated" else 0


def _attention(
    config: TransformerConfig, name: str, T: int, S: int, n_layers: int, *, last: bool = False, cross: bool = False
) -> Iterator[tuple[str, int]]:
    """From T queries to S keys. `last`: a feed-forward network follows, which branched heads have inside."""
    D, H, G = config.d_model, config.n_heads, config.n_key_heads or config.n_heads
    d_key, d_value = config.key_size, config.value_size
    value_rank = config.value_rank
    values = S * D * G * d_value if value_rank is None else S * value_rank * (D + G * d_value)
    queries = (T * D * H * d_key + T * H * d_value * D) * n_layers  # and what the heads give
    # Layers that are one make the memory's keys and values once.
    keys = (S * D * G * d_key + values) * (_n_different(config, n_layers) if cross else n_layers)
    if last and config.heads == "branched":
        queries += _matrices(config) * T * D * config.d_ff * n_layers
    between = T * S * H * (d_key + d_value)
    if config.positions == "shaw" and not cross:
        between += T * H * (2 * config.max_distance + 1) * (d_key + d_value)
    yield name, queries + keys
    yield f"{name}: {BETWEEN}", between * n_layers


def _n_different(config: TransformerConfig, n_layers: int) -> int:
    """Layers that do not share their weights."""
    size = {"none": 1, "groups": config.layers_per_group, "all": n_layers}[config.share_layers]
    return -(-n_layers // size)


def _feed_forward(config: TransformerConfig, n: int) -> int:
    return 0 if config.heads == "branched" else _matrices(config) * n * config.d_model * config.d_ff


def _matrices(config: TransformerConfig) -> int:
    """Of a feed-forward network."""
    return 3 if config.activation in ("swiglu", "geglu") else 2
