"""Sizes with a name. `base` and `big` are the paper's; `tiny` and `small` suit a few thousand to a million pairs."""

from typing import Any, Literal, get_args

PresetName = Literal["tiny", "small", "base", "big"]
PRESETS: tuple[str, ...] = get_args(PresetName)

Sizes = dict[str, Any]


def tiny() -> Sizes:
    """2.1 million parameters with a vocabulary of 6,000."""
    return {
        "n_encoder_layers": 4,
        "n_decoder_layers": 4,
        "d_model": 128,
        "d_ff": 256,
        "n_heads": 4,
        "norm_place": "pre",
        "residual_dropout": 0.25,
    }


def small() -> Sizes:
    """15 million parameters with a vocabulary of 16,000."""
    return {
        "n_encoder_layers": 6,
        "n_decoder_layers": 6,
        "d_model": 256,
        "d_ff": 1024,
        "n_heads": 4,
        "norm_place": "pre",
        "residual_dropout": 0.2,
    }


def base() -> Sizes:
    """The paper's base model, 65 million parameters: what `TransformerConfig` is by itself."""
    return {
        "n_encoder_layers": 6,
        "n_decoder_layers": 6,
        "d_model": 512,
        "d_ff": 2048,
        "n_heads": 8,
        "norm_place": "post",
        "residual_dropout": 0.1,
    }


def big() -> Sizes:
    """The paper's big model, 213 million parameters."""
    return {**base(), "d_model": 1024, "d_ff": 4096, "n_heads": 16, "residual_dropout": 0.3}


def sizes(name: PresetName) -> Sizes:
    match name:
        case "tiny":
            return tiny()
        case "small":
            return small()
        case "base":
            return base()
        case "big":
            return big()
