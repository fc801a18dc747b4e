"""Bundles of format 1 that were written before a part existed open as what they were: same keys, same tensors."""

from attendo.config import from_dict
from attendo.models.settings import TransformerConfig
from attendo.models.transformer import build

# As config.yaml had it when there were three kinds of positions and two norms.
EARLIER = {
    "source_vocab_size": 331,
    "target_vocab_size": 331,
    "n_encoder_layers": 2,
    "n_decoder_layers": 1,
    "d_model": 16,
    "d_ff": 24,
    "n_heads": 2,
    "d_key": None,
    "d_value": None,
    "norm": "layernorm",
    "norm_place": "pre",
    "positions": "learned",
    "sinusoid_layout": "interleaved",
    "n_positions": 307,
    "activation": "swiglu",
    "tie_embeddings": "target",
    "residual_dropout": 0.25,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
}


def tensors() -> dict[str, list[int]]:
    def linear(name: str, outputs: int, inputs: int) -> dict[str, list[int]]:
        return {f"{name}.weight": [outputs, inputs], f"{name}.bias": [outputs]}

    def attention(name: str) -> dict[str, list[int]]:
        parts = [linear(f"{name}.{part}", 16, 16) for part in ("query", "key", "value", "output")]
        return {key: shape for part in parts for key, shape in part.items()}

    def norm(name: str) -> dict[str, list[int]]:
        return {f"{name}.weight": [16], f"{name}.bias": [16]}

    def block(name: str, *, cross: bool) -> dict[str, list[int]]:
        return {
            **attention(f"{name}.attention"),
            **(attention(f"{name}.cross_attention") if cross else {}),
            **linear(f"{name}.feed_forward.inner", 24, 16),
            **linear(f"{name}.feed_forward.gate", 24, 16),
            **linear(f"{name}.feed_forward.outer", 16, 24),
            **norm(f"{name}.attention_residual.norm"),
            **(norm(f"{name}.cross_attention_residual.norm") if cross else {}),
            **norm(f"{name}.feed_forward_residual.norm"),
        }

    return {
        "encoder.embedding.weight": [331, 16],
        "encoder.embedding.positions.weight": [307, 16],
        **block("encoder.blocks.0", cross=False),
        **block("encoder.blocks.1", cross=False),
        **norm("encoder.final_norm"),
        "decoder.embedding.weight": [331, 16],
        "decoder.embedding.positions.weight": [307, 16],
        **block("decoder.blocks.0", cross=True),
        **norm("decoder.final_norm"),
        "output.bias": [331],
    }


def test_an_earlier_config_gives_the_tensors_it_gave() -> None:
    model = build(from_dict(TransformerConfig, EARLIER))
    assert {name: list(tensor.shape) for name, tensor in model.named_parameters()} == tensors()
    assert not set(model.state_dict()) - {name for name, _ in model.named_parameters(remove_duplicate=False)}
