"""From a bundle's weights to attendo's own library: the variables of CTranslate2, with heads in whole registers."""

from collections.abc import Mapping

import numpy as np

from attendo import native
from attendo.engines.ctranslate2_limits import representable
from attendo.engines.ctranslate2_model import Array, Variables, model_variables, norm_epsilon
from attendo.engines.engine import Precision
from attendo.models.settings import ModelConfig, TransformerConfig
from attendo.native.search import Attention, FeedForward, Layer, Matrix, Norm, Norms, Parts, Stack, has_bytes


def native_parts(config: TransformerConfig, weights: Mapping[str, Array]) -> Parts:
    """The parts of a model that `servable` has nothing against."""
    read = _Variables(config, model_variables(config, weights, multiple=native.lanes()))
    return Parts(
        encoder=read.stack("encoder", config.n_encoder_layers),
        decoder=read.stack("decoder", config.n_decoder_layers),
        logits=read.matrix("decoder/projection"),
        n_heads=config.n_heads,
        d_head=read.d_head,
        norm_place=config.norm_place,
        activation=read.number("encoder/activation"),
        epsilon=norm_epsilon(config),
        scale=read.real("decoder/layer_0/self_attention/queries_scale"),
        output_scale=read.real("decoder/scale_outputs") if config.output_scale == "root" else 1.0,
    )


def servable(config: ModelConfig, precision: Precision = "float32") -> str | None:
    """Why attendo's own library cannot run such a model, in a sentence; None: it can."""
    if native.name() is None:
        return "attendo was installed without its compiled library, or ATTENDO_NATIVE=0 turns it off"
    if precision == "int8" and not has_bytes():
        return "in int8 it needs a processor with AVX512-VNNI"
    if reason := representable(config, "attendo's own library"):
        return reason
    assert isinstance(config, TransformerConfig)  # all that is representable
    if config.positions in ("rotary", "shaw", "t5"):
        return f"positions '{config.positions}' are worked in by attention, and it knows only those that are added"
    return None


class _Variables:
    """Reads the variables as parts."""

    def __init__(self, config: TransformerConfig, variables: Variables) -> None:
        self.config = config
        self.variables = variables
        self.d_head = self.number("encoder/layer_0/self_attention/head_dim")

    def stack(self, side: str, n_layers: int) -> Stack:
        name = f"{side}/embeddings_0" if side == "encoder" else f"{side}/embeddings"
        words_VD = self._array(f"{name}/weight")
        if self.number(f"{side}/scale_embeddings"):
            words_VD = words_VD * np.float32(np.sqrt(self.config.d_model))
        return Stack(
            words_VD=words_VD,
            places_TD=self._array(f"{side}/position_encodings/encodings"),
            embedded=self._norm(f"{side}/layernorm_embedding") if self.config.embedding_norm else None,
            layers=tuple(self._layer(side, f"{side}/layer_{number}") for number in range(n_layers)),
            last=None if self.config.norm_place == "post" else self._norm(f"{side}/layer_norm"),
        )

    def _layer(self, side: str, name: str) -> Layer:
        inner = self.matrix(f"{name}/ffn/linear_0")
        gate = self.matrix(f"{name}/ffn/linear_0_noact") if self.config.activation in ("swiglu", "geglu") else None
        return Layer(
            attention=self._attention(name, "self_attention"),
            to_memory=self._attention(name, "attention") if side == "decoder" else None,
            feed_forward=FeedForward(
                norms=self._norms(name, "ffn"), inner=inner, gate=gate, outer=self.matrix(f"{name}/ffn/linear_1")
            ),
        )

    def _attention(self, layer: str, kind: str) -> Attention:
        """Queries, keys and values are in one matrix, or the queries in one of their own."""
        name = f"{layer}/{kind}"
        n_joined = 1 if kind == "self_attention" else 2
        joined = [self.matrix(f"{name}/linear_{number}") for number in range(n_joined)]
        weight = np.concatenate([one.weight for one in joined])
        biases = [one.bias for one in joined if one.bias is not None]
        bias = np.concatenate(biases) if biases else None
        queries = slice(self.config.n_heads * self.d_head)
        others = slice(queries.stop, None)
        return Attention(
            norms=self._norms(layer, kind),
            query=Matrix(weight[queries], None if bias is None else bias[queries]),
            keys_values=Matrix(weight[others], None if bias is None else bias[others]),
            output=self.matrix(f"{name}/linear_{n_joined}"),
        )

    def _norms(self, layer: str, sublayer: str) -> Norms:
        if self.config.norm_place != "sandwich":
            return (self._norm(f"{layer}/{sublayer}/layer_norm"),)
        names = {
            "self_attention": ("input_layer_norm", "post_attention_layer_norm"),
            "attention": ("external_pre_encoder_attention_layer_norm", "external_post_encoder_attention_layer_norm"),
            "ffn": ("pre_feedforward_layer_norm", "post_feedforward_layer_norm"),
        }
        first, second = names[sublayer]
        return self._norm(f"{layer}/{first}"), self._norm(f"{layer}/{second}")

    def _norm(self, name: str) -> Norm:
        return Norm(self._array(f"{name}/gamma"), self._array(f"{name}/beta") if self._has(f"{name}/beta") else None)

    def matrix(self, name: str) -> Matrix:
        bias = self._array(f"{name}/bias") if self._has(f"{name}/bias") else None
        return Matrix(self._array(f"{name}/weight"), bias)

    def _has(self, name: str) -> bool:
        return name in self.variables

    def _array(self, name: str) -> Array:
        return np.asarray(self.variables[name], np.float32)

    def number(self, name: str) -> int:
        return int(self.variables[name])

    def real(self, name: str) -> float:
        return float(self.variables[name])
