"""From attendo's weights to the folder that CTranslate2 loads, in numpy alone: torch is not needed for it.

    model.bin               all variables, in float32; int8 is a matter of loading, unless it is asked for
    config.json             control tokens, the norm's epsilon, n_positions
    source_vocabulary.json  } a token for each id
    target_vocabulary.json  }

CTranslate2 works with strings, and for our engine a token is the id in digits, so that nothing depends on the pieces.
EOS of the source has a name of its own, SOURCE_END: a source that CTranslate2 finds to be EOS alone it would not
translate.

The names of the variables are those of ctranslate2.specs, which cannot be used itself: it imports torch.

Suffixes: V vocabulary, D d_model, H heads, G heads of keys and values, K head size, T positions.
"""

import hashlib
import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attendo.engines.ctranslate2_limits import SOURCE_END, n_positions, representable
from attendo.engines.engine import Precision
from attendo.errors import BundleError, ConfigError
from attendo.models.settings import TransformerConfig
from attendo.nn.names import Layout
from attendo.text.tokenizer import BOS, EOS, PAD, UNK

Array = NDArray[np.float32]
Variables = dict[str, NDArray[Any] | np.generic]  # generic: a single number


_FORMAT, _SPECIFICATION, _REVISION = 6, "TransformerSpec", 7
_TYPES = ("float32", "int8", "int16", "int32")  # the numbers that CTranslate2 gives to types
# And to activations; those with a gate have the number of what the gate is made by.
_ACTIVATIONS = {"relu": 0, "gelu-tanh": 1, "geglu": 1, "silu": 2, "swiglu": 2, "gelu": 3}
# ScaleNorm divides by a length, with nothing added to it; this little keeps a vector of zeros from becoming NaN.
_EPSILONS = {"layernorm": 1e-5, "rmsnorm": 1e-6, "scalenorm": 1e-12}


@dataclass(frozen=True)
class Pieces:
    """The tokens of a model that others are to use: what their tokenizer calls each id.

    model_type: the kind of model that their tokenizer is of at Hugging Face, where AutoTokenizer needs to know it. Such
        a tokenizer ends a source by itself; with others the model adds EOS to it.
    """

    source: Sequence[str]
    target: Sequence[str]
    model_type: str | None = None


def write_model(
    config: TransformerConfig,
    weights: Mapping[str, Array],
    folder: Path,
    *,
    pieces: Pieces | None = None,
    precision: Precision = "float32",
) -> None:
    """Writes the weights, named as in a bundle, into an existing folder that CTranslate2 can load.

    Weights that are not those of such a model are refused.

    pieces: for others instead of our engine. What that does in each call, the model then does by itself: EOS is added
    to a source, unless their tokenizer does so, and PAD, BOS and UNK cannot come.
    precision: of the matrices in the file.
    """
    variables = model_variables(config, weights)
    digits = [str(id) for id in range(config.target_vocab_size)]
    source = [SOURCE_END if id == EOS else str(id) for id in range(config.source_vocab_size)]
    tokens = pieces or Pieces(source, digits)
    if pieces is not None:
        variables["decoder/projection/bias"] = _without_controls(weights["output.bias"])
    if precision == "int8":
        variables = _quantized(variables)
    _write_variables(folder / "model.bin", variables)
    about = {
        "unk_token": tokens.target[UNK],
        "bos_token": tokens.target[BOS],
        "eos_token": tokens.target[EOS],
        "decoder_start_token": tokens.target[BOS],
        "add_source_bos": False,
        "add_source_eos": pieces is not None and pieces.model_type is None,  # our engine does that, by SOURCE_END
        "layer_norm_epsilon": norm_epsilon(config),
        "n_positions": n_positions(config),  # not for CTranslate2 but for the engine
    }
    if pieces is not None and pieces.model_type is not None:
        about["model_type"] = pieces.model_type
    named = (("config", about), ("source_vocabulary", tokens.source), ("target_vocabulary", tokens.target))
    for name, content in named:
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


def model_variables(config: TransformerConfig, weights: Mapping[str, Array], *, multiple: int = 1) -> Variables:
    """Every variable of the model by CTranslate2's name, from weights named as in a bundle.

    multiple: heads have a multiple of so many numbers, those that are not their own being zero.
    """
    if reason := representable(config):
        raise ConfigError(f"CTranslate2 cannot run this model: {reason}. Use the torch engine.")
    own = _Weights(config, weights)
    variables = _variables(config, own, multiple)
    if unknown := weights.keys() - own.met:
        raise BundleError(f"the bundle has the tensor {min(unknown)}, unlike the model its config describes.")
    return variables


def _without_controls(bias_V: Array) -> Array:
    """The output's bias with which PAD, BOS and UNK never come."""
    changed_V = bias_V.copy()
    changed_V[[PAD, BOS, UNK]] = -1e9
    return changed_V


def _quantized(variables: Variables) -> Variables:
    """Each matrix W as bytes round(s W), with s = 127 / max |W| of each row, as CTranslate2 does it when loading."""
    found: Variables = {}
    for name, array in variables.items():
        found[name] = array
        if name.endswith("/weight"):
            matrix = np.asarray(array)
            largest = np.abs(matrix).max(axis=1)
            scale = (127 / np.where(largest == 0, 127, largest)).astype(np.float32)
            found[name] = np.rint(matrix * scale[:, None]).astype(np.int8)
            found[f"{name}_scale"] = scale
    return found


def norm_epsilon(config: TransformerConfig) -> float:
    """What keeps the norms of the variables from dividing by zero."""
    return config.norm_eps if config.norm_eps and config.norm != "scalenorm" else _EPSILONS[config.norm]


class _Weights:
    """A bundle's weights by any of their names: what is shared is stored only under the name that is met first."""

    def __init__(self, config: TransformerConfig, weights: Mapping[str, Array]) -> None:
        self.config = config
        self.weights = weights
        self.met: set[str] = set()
        n_layers = {"encoder": config.n_encoder_layers, "decoder": config.n_decoder_layers}
        self.group = {
            side: {"none": 1, "groups": config.layers_per_group, "all": n}[config.share_layers]
            for side, n in n_layers.items()
        }

    def __getitem__(self, name: str) -> Array:
        stored = self._stored(name)
        if stored not in self.weights:
            raise BundleError(f"the bundle lacks the tensor {stored}, unlike the model its config describes.")
        array, expected = self.weights[stored], self._shape(stored)
        if array.shape != expected:
            raise BundleError(f"the bundle's tensor {stored} has shape {array.shape} instead of {expected}.")
        self.met.add(stored)
        return array.astype(np.float32, copy=False)

    def _shape(self, name: str) -> tuple[int, ...]:
        """Of the tensor that is stored under a name. Matrices are [out, in], and a bias is as long as its matrix."""
        config, D = self.config, self.config.d_model
        keys, values = config.key_size, config.value_size
        n_heads, n_key_heads = config.n_heads, config.n_key_heads or config.n_heads
        vocab_size = config.source_vocab_size if name.startswith("encoder.") else config.target_vocab_size
        shapes = {
            "embedding": (vocab_size, D),
            "embedding.positions": (config.position_offset + config.n_positions, D),  # learned
            "positions.projection": (D, 2 * D),
            "attention.query": (n_heads * keys, D),
            "attention.key": (n_key_heads * keys, D),
            "attention.value": (n_key_heads * values, D),
            "value.0": (config.value_rank or 0, D),
            "value.1": (n_key_heads * values, config.value_rank or 0),
            "attention.output": (D, n_heads * values),
            "attention.positions": (config.n_buckets, n_heads),  # t5
            "feed_forward.inner": (config.d_ff, D),
            "feed_forward.gate": (config.d_ff, D),
            "feed_forward.outer": (D, config.d_ff),
            "output": (vocab_size, D),
        }
        owner, _, what = name.rpartition(".")
        last = ".".join(owner.split(".")[-2:]).replace("cross_attention.", "attention.")
        last = last if last in shapes else owner.rpartition(".")[2]
        if last not in shapes:  # a norm
            return (1,) if what == "gain" else (D,)
        if what in ("keys", "values"):  # shaw
            return 2 * config.max_distance + 1, keys if what == "keys" else values
        return shapes[last] if what == "weight" else shapes[last][:1]

    def _stored(self, name: str) -> str:
        config = self.config
        if name == "output.weight" and config.tie_embeddings in ("all", "target"):
            name = "decoder.embedding.weight"
        if name == "decoder.embedding.weight" and config.tie_embeddings in ("all", "inputs"):
            return "encoder.embedding.weight"
        side, blocks, rest = name.partition(".blocks.")
        if not blocks:
            return name
        number, part = rest.split(".", 1)
        first = int(number) // self.group[side] * self.group[side]
        if config.share_encoder_decoder and part.startswith(("attention.", "feed_forward.")):
            side = "encoder"
        if config.positions == "t5" and part == "attention.positions.weight":
            first = 0  # one part for all layers of a stack
        if config.share_query_key:
            part = part.replace("attention.key.", "attention.query.")
        return f"{side}.blocks.{first}.{part}"


# --- the variables -------------------------------------------------------------------------------------------------


def _variables(config: TransformerConfig, weights: _Weights, multiple: int = 1) -> Variables:
    """Every variable of the model, by CTranslate2's name."""
    found: Variables = {
        "encoder/embeddings_merge": np.int8(0),
        "encoder/multi_query_attention": np.int8(0),
        "decoder/alignment_layer": np.int16(-1),
        "decoder/alignment_heads": np.int16(1),
        "decoder/start_from_zero_embedding": np.int8(0),
        "decoder/alibi": np.int8(0),
        "decoder/alibi_use_positive_positions": np.int8(0),
        "decoder/scale_alibi": np.int8(0),
        "decoder/projection/weight": weights["output.weight"],
        "decoder/projection/bias": weights["output.bias"],
    }
    if config.output_scale == "root":
        found["decoder/scale_outputs"] = np.float32(config.d_model**-0.5)
    for side, n_layers in (("encoder", config.n_encoder_layers), ("decoder", config.n_decoder_layers)):
        found[f"{side}/num_heads"] = np.int16(config.n_heads)
        found[f"{side}/pre_norm"] = np.int8(config.norm_place != "post")
        found[f"{side}/activation"] = np.int8(_ACTIVATIONS[config.activation])
        found |= _embedding(config, weights, side)
        if config.norm_place != "post":
            found |= _norm(weights, f"{side}.final_norm", f"{side}/layer_norm", config)
        for number in range(n_layers):
            found |= _layer(config, weights, f"{side}.blocks.{number}.", f"{side}/layer_{number}/", multiple)
    return found


def _embedding(config: TransformerConfig, weights: _Weights, side: str) -> Variables:
    """E √D, or E alone, to which the table of positions is added, unless attention knows them; then perhaps a norm."""
    embedding_VD, scaled = weights[f"{side}.embedding.weight"], config.embedding_scale == "root"
    limit = n_positions(config)
    table_TD: Array | None = None
    if config.positions == "learned":
        table_TD = weights[f"{side}.embedding.positions.weight"][config.position_offset :]
    elif limit is not None:
        table_TD = sinusoids(limit, config.d_model, layout=config.sinusoid_layout)
    if config.positions == "none":
        table_TD = np.zeros_like(table_TD)
    elif config.positions == "sinusoidal-concatenated" and table_TD is not None:
        size = math.sqrt(config.d_model) if scaled else 1.0
        learned = (weights[f"{side}.embedding.positions.projection.{name}"] for name in ("weight", "bias"))
        embedding_VD, table_TD = added_positions(size * embedding_VD, table_TD, *learned)
        scaled = False
    name = f"{side}/embeddings_0" if side == "encoder" else f"{side}/embeddings"
    found: Variables = {f"{name}/weight": embedding_VD, f"{side}/scale_embeddings": np.int8(scaled)}
    if config.embedding_norm:
        found |= _norm(weights, f"{side}.embedding.norm", f"{side}/layernorm_embedding", config)
    if table_TD is not None:
        found[f"{side}/position_encodings/encodings"] = table_TD
    return found


def added_positions(words_VD: Array, table_TD: Array, matrix: Array, bias_D: Array) -> tuple[Array, Array]:
    """Vectors of words and of places whose sum is what concatenated positions make of both: [V, D] and [T, D].

    [E ; P] Wᵀ + b, with W = [W₁ ; W₂]: [D, 2 D], is the sum of E W₁ᵀ and of P W₂ᵀ + b.
    """
    of_words_DD, of_places_DD = np.split(matrix.astype(np.float64), 2, axis=1)
    places_TD = table_TD @ of_places_DD.T + bias_D
    return (words_VD @ of_words_DD.T).astype(np.float32), places_TD.astype(np.float32)


def sinusoids(n_positions: int, d_model: int, *, layout: Layout) -> Array:
    """PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos(the same angle): [T, D].

    The twin of `attendo.nn.positions.sinusoids`, which says what the layouts are.
    """
    if layout == "fairseq":
        half = d_model // 2
        frequencies = np.exp(-math.log(10000.0) * np.arange(half, dtype=np.float64) / (half - 1))
        angles = np.arange(2, n_positions + 2, dtype=np.float64)[:, None] * frequencies
        both = np.concatenate((np.sin(angles), np.cos(angles)), axis=1)
        return np.pad(both, ((0, 0), (0, d_model % 2))).astype(np.float32)
    exponents = np.arange(0, d_model, 2, dtype=np.float64) / d_model
    angles = np.arange(n_positions, dtype=np.float64)[:, None] * np.exp(-math.log(10000.0) * exponents)
    sines, cosines = np.sin(angles), np.cos(angles[:, : d_model // 2])
    table = np.concatenate((sines, cosines), axis=1)
    if layout == "interleaved":
        table[:, 0::2], table[:, 1::2] = sines, cosines
    return table.astype(np.float32)


def _layer(config: TransformerConfig, weights: _Weights, block: str, layer: str, multiple: int) -> Variables:
    """One block, `encoder.blocks.0.` -> `encoder/layer_0/`."""
    cross = block.startswith("decoder")
    size = max(config.key_size, config.value_size)
    size += -size % multiple
    found = _attention(config, weights, f"{block}attention.", f"{layer}self_attention/", size, cross=False)
    if cross:
        found |= _attention(config, weights, f"{block}cross_attention.", f"{layer}attention/", size, cross=True)
    linears = {"linear_0": "inner", "linear_1": "outer"}
    if config.activation in ("swiglu", "geglu"):
        linears["linear_0_noact"] = "gate"
    for name, own in linears.items():
        for what in _parts(config):
            found[f"{layer}ffn/{name}/{what}"] = weights[f"{block}feed_forward.{own}.{what}"]
    for own, name in _norm_places(config, cross=cross):
        found |= _norm(weights, f"{block}{own}", f"{layer}{name}", config)
    if cross:
        found[f"{layer}layer_scalar"] = np.float32(1)
    return found


def _norm_places(config: TransformerConfig, *, cross: bool) -> Iterator[tuple[str, str]]:
    """(name in attendo, name in CTranslate2) of each norm of a block."""
    if config.norm_place == "sandwich":
        places = {
            "attention": ("input_layer_norm", "post_attention_layer_norm"),
            "feed_forward": ("pre_feedforward_layer_norm", "post_feedforward_layer_norm"),
        }
        if cross:
            places["cross_attention"] = (
                "external_pre_encoder_attention_layer_norm",
                "external_post_encoder_attention_layer_norm",
            )
        for own, (before, after) in places.items():
            yield f"{own}_residual.norm", before
            yield f"{own}_residual.norm_after", after
        return
    yield "attention_residual.norm", "self_attention/layer_norm"
    yield "feed_forward_residual.norm", "ffn/layer_norm"
    if cross:
        yield "cross_attention_residual.norm", "attention/layer_norm"


def _norm(weights: _Weights, own: str, name: str, config: TransformerConfig) -> Variables:
    """With a bias it is LayerNorm, without RMSNorm: g x / |x| is RMSNorm with the gain g / √D in every feature."""
    if config.norm == "scalenorm":
        gain = weights[f"{own}.gain"] / np.float32(math.sqrt(config.d_model))
        return {f"{name}/gamma": np.repeat(gain, config.d_model)}
    found: Variables = {f"{name}/gamma": weights[f"{own}.weight"]}
    if config.norm == "layernorm":
        found[f"{name}/beta"] = weights[f"{own}.bias"]
    return found


def _attention(
    config: TransformerConfig, weights: _Weights, own: str, name: str, size: int, *, cross: bool
) -> Variables:
    """Queries, keys and values in one matrix, or, in cross-attention, queries in one and the others in another.

    CTranslate2's queries, keys and values have heads of one `size`. Smaller ones are filled up with zeros, which
    changes no product. Where a head of keys serves several of queries it is written once for each of them, and a value
    matrix in two factors is written as their product.
    """
    n_key_heads = config.n_key_heads or config.n_heads

    def heads(matrix: Array, n_heads: int) -> Array:
        """[n_heads * K, …] -> [H * size, …]"""
        matrix_HK = matrix.reshape(n_heads, -1, *matrix.shape[1:]).repeat(config.n_heads // n_heads, axis=0)
        return _filled(matrix_HK, size, axis=1).reshape(-1, *matrix.shape[1:])

    value = f"{own}value"
    if config.value_rank is None:
        value_matrix = weights[f"{value}.weight"]
    else:
        value_matrix = (weights[f"{value}.1.weight"].astype(np.float64) @ weights[f"{value}.0.weight"]).astype("f4")
        value = f"{value}.1"
    parts = _parts(config)
    query = [heads(weights[f"{own}query.{what}"], config.n_heads) for what in parts]
    key = [heads(weights[f"{own}key.{what}"], n_key_heads) for what in parts]
    values = [heads(one, n_key_heads) for one in (value_matrix, *(weights[f"{value}.{what}"] for what in parts[1:]))]
    joined = [query, [np.concatenate(pair) for pair in zip(key, values, strict=True)]]
    if not cross:
        joined = [[np.concatenate(pair) for pair in zip(*joined, strict=True)]]
    output_DHK = weights[f"{own}output.weight"].reshape(config.d_model, config.n_heads, -1)
    output = _filled(output_DHK, size, axis=2).reshape(config.d_model, -1)
    joined.append([output, *(weights[f"{own}output.{what}"] for what in parts[1:])])

    scale = 1 / math.sqrt(config.key_size) if config.scoring == "scaled-dot" else 1.0
    found: Variables = {f"{name}queries_scale": np.float32(scale), f"{name}head_dim": np.int32(size)}
    for number, arrays in enumerate(joined):
        found |= {f"{name}linear_{number}/{what}": array for what, array in zip(parts, arrays, strict=True)}
    if not cross and config.positions == "rotary":
        found[f"{name}rotary_dim"] = np.int32(config.key_size)
        found[f"{name}rotary_interleave"] = np.int8(1)
        found[f"{name}rotary_base"] = np.float32(config.rotary_base)
    if not cross and config.positions == "t5":
        buckets = weights[f"{own}positions.weight"]
        if config.share_encoder_decoder and own.startswith("decoder"):
            buckets = buckets[: len(buckets) // 2]  # the other half is for keys after the query, which it never sees
        found[f"{name}relative_attention_bias"] = buckets
        found[f"{name}relative_attention_max_distance"] = np.int32(config.bucket_distance)
    if not cross and config.positions == "shaw":
        for what in ("keys", "values"):
            found[f"{name}relative_position_{what}"] = _filled(weights[f"{own}positions.{what}"], size, axis=1)
    return found


def _parts(config: TransformerConfig) -> tuple[str, ...]:
    """What a linear layer in a block has."""
    return ("weight", "bias") if config.biases else ("weight",)


def _filled(array: Array, size: int, *, axis: int) -> Array:
    """The array with zeros at the end of one axis, up to `size`."""
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, size - array.shape[axis])
    return np.pad(array, widths)


# --- the file ------------------------------------------------------------------------------------------------------


def _write_variables(path: Path, variables: Variables) -> None:
    """CTranslate2's binary format: the variables, then the names of those that are equal to another."""
    first: dict[Any, str] = {}
    own: list[str] = []
    same: list[tuple[str, str]] = []
    for name in sorted(variables):
        array = variables[name]
        key = (array.shape, hashlib.sha256(array.tobytes()).digest()) if array.ndim else name
        if first.setdefault(key, name) == name:
            own.append(name)
        else:
            same.append((name, first[key]))
    with path.open("wb") as file:
        file.write(struct.pack("<I", _FORMAT) + _string(_SPECIFICATION) + struct.pack("<I", _REVISION))
        file.write(struct.pack("<I", len(own)))
        for name in own:
            array = variables[name]
            file.write(_string(name) + struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape))
            file.write(struct.pack("<BI", _TYPES.index(array.dtype.name), array.nbytes) + array.tobytes())
        file.write(struct.pack("<I", len(same)))
        for name, other in same:
            file.write(_string(name) + _string(other))


def _string(text: str) -> bytes:
    return struct.pack("<H", len(text) + 1) + text.encode("ascii") + b"\0"
