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


def recurrent_sizes(name: PresetName) -> Sizes:
    """Of a recurrent model; `tiny` has 2.9 million parameters with a vocabulary of 6,000."""
    layers = {"n_encoder_layers": 1, "n_decoder_layers": 1} if name == "tiny" else {}
    widths: dict[PresetName, int] = {"tiny": 256, "small": 512, "base": 1024, "big": 1536}
    return {"n_encoder_layers": 2, "n_decoder_layers": 2, "d_model": widths[name], "dropout": 0.3, **layers}


def convolutional_sizes(name: PresetName) -> Sizes:
    """Of a convolutional model; `tiny` has 4.8 million parameters with a vocabulary of 6,000."""
    widths: dict[PresetName, int] = {"tiny": 256, "small": 512, "base": 512, "big": 768}
    layers: dict[PresetName, int] = {"tiny": 4, "small": 6, "base": 15, "big": 15}
    n_layers = layers[name]
    return {"n_encoder_layers": n_layers, "n_decoder_layers": n_layers - 1, "d_model": widths[name], "dropout": 0.2}


def vision_sizes(name: PresetName, height: int, width: int) -> Sizes:
    """Of a Vision Transformer; `tiny` has 0.5 million parameters and suits digits, `base` and `big` are the paper's.

    A patch is as large as divides both sides, up to 8 pixels in the smaller models and the paper's 16 in the larger
    ones: with half the side there are four times the patches, and in the same time a model learns less.
    """
    layers: dict[PresetName, Sizes] = {
        "tiny": {"d_model": 128, "d_ff": 256, "n_heads": 4, "n_layers": 4},
        "small": {"d_model": 256, "d_ff": 512, "n_heads": 4, "n_layers": 6},
        "base": {"d_model": 768, "d_ff": 3072, "n_heads": 12, "n_layers": 12},
        "big": {"d_model": 1024, "d_ff": 4096, "n_heads": 16, "n_layers": 24},
    }
    largest = 8 if name in ("tiny", "small") else 16
    patch = next(side for side in range(largest, 0, -1) if height % side == width % side == 0)
    # Plain Vision Transformers do better with the mean of all patches than with a token (Beyer et al. 2022).
    shared = {"norm_place": "pre", "activation": "gelu", "pooling": "mean", "residual_dropout": 0.1}
    return {**shared, **layers[name], "patch": patch}
