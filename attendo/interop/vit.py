"""The Vision Transformer, which tells the label of a picture by a learned vector that stands before its patches."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from attendo.errors import ForeignError
from attendo.interop.architecture import (
    ACTIVATIONS,
    Architecture,
    Entry,
    Form,
    Orders,
    Same,
    Setting,
    module,
)
from attendo.interop.bert import N_LABELS, layers, not_used
from attendo.interop.folder import Folder
from attendo.interop.labels import with_n_labels
from attendo.models.settings import VisionConfig

PREPROCESSOR = "preprocessor_config.json"

_BILINEAR = 2  # its number in Pillow
_WHITE = 255
_CHANNELS = (1, 3)  # grey, or red, green and blue


@dataclass(frozen=True)
class OnePicture(Form):
    """Theirs begins with so many axes of one, for the pictures of a batch."""

    n_axes: int

    def ours(self, theirs: Tensor, orders: Orders | None) -> Tensor:  # noqa: ARG002
        return theirs.flatten(0, self.n_axes)

    def theirs(self, ours: Tensor, orders: Orders | None) -> Tensor:  # noqa: ARG002
        return ours[(None,) * self.n_axes]


@dataclass(frozen=True)
class PatchColumns(Form):
    """What the numbers of a patch are multiplied by: ours [D, channels · size · size], theirs as a convolution."""

    n_channels: int
    size: int

    def ours(self, theirs: Tensor, orders: Orders | None) -> Tensor:  # noqa: ARG002
        return theirs.flatten(1)

    def theirs(self, ours: Tensor, orders: Orders | None) -> Tensor:  # noqa: ARG002
        return ours.unflatten(1, (self.n_channels, self.size, self.size))


def _said(folder: Folder) -> dict[str, Any]:
    """With both sides of a picture, and the scale of its pixels, which another file has."""
    said = with_n_labels(folder)
    size, patch = said.get("image_size", 224), said.get("patch_size", 16)
    said["image_height"], said["image_width"] = [size, size] if isinstance(size, int) else size
    if not isinstance(patch, int):
        raise ForeignError(f"{folder.path / 'config.json'}: patch_size = {patch!r}: attendo's patches are squares.")
    return {**said, **_scale(folder, said)}


def _scale(folder: Folder, said: Mapping[str, Any]) -> dict[str, Any]:
    """How they get from pixels to what goes in: (factor · pixel - mean) / deviation."""
    values, where = folder.json(PREPROCESSOR), folder.path / PREPROCESSOR
    asked = {"height": said["image_height"], "width": said["image_width"]}
    size = values.get("size", asked)
    size = {"height": size, "width": size} if isinstance(size, int) else size
    known = {"do_resize": True, "do_center_crop": False, "do_pad": False, "resample": _BILINEAR, "size": asked}
    for key, expected in known.items():
        given = size if key == "size" else values.get(key)
        if given is not None and given != expected:
            raise ForeignError(
                f"{where}: {key} = {given!r} is something that attendo has not: it brings a picture to the size that "
                f"the model knows, bilinearly, and there {key} is {expected!r}."
            )
    n_channels = said.get("num_channels", 3)
    if n_channels not in _CHANNELS:
        raise ForeignError(
            f"{folder.path / 'config.json'}: num_channels = {n_channels!r}: attendo's pictures have 1, which is grey, "
            "or 3, red, green and blue. A model of others cannot be used here."
        )
    factor = values.get("rescale_factor", 1 / _WHITE) if values.get("do_rescale", True) else 1.0
    normalised = values.get("do_normalize", True)
    mean = values.get("image_mean", [0.5] * n_channels) if normalised else [0.0] * n_channels
    deviation = values.get("image_std", [0.5] * n_channels) if normalised else [1.0] * n_channels
    return {"pixel_mean": [one / factor for one in mean], "pixel_deviation": [one / factor for one in deviation]}


def _told(values: dict[str, Any]) -> dict[str, Any]:
    told = dict(values)
    mean, _ = told.pop("pixel_mean"), told.pop("pixel_deviation")
    size = [told.pop("image_height"), told.pop("image_width")]
    return {**told, "image_size": size[0] if size[0] == size[1] else size, "num_channels": len(mean)}


def _files(config: VisionConfig) -> dict[str, Any]:
    return {
        PREPROCESSOR: {
            "image_processor_type": "ViTImageProcessor",
            "do_resize": True,
            "size": {"height": config.height, "width": config.width},
            "resample": _BILINEAR,
            "do_rescale": True,
            "rescale_factor": 1 / _WHITE,
            "do_normalize": True,
            "image_mean": [one / _WHITE for one in config.mean],
            "image_std": [one / _WHITE for one in config.deviation],
        }
    }


def _entries(config: VisionConfig) -> Iterator[Entry]:
    ours, theirs = "encoder.patches", "vit.embeddings"
    yield Same(f"{ours}.token", f"{theirs}.cls_token", OnePicture(2))
    yield Same(f"{ours}.positions.weight", f"{theirs}.position_embeddings", OnePicture(1))
    cut = PatchColumns(n_channels=len(config.mean), size=config.patch)
    yield Same(f"{ours}.projection.weight", f"{theirs}.patch_embeddings.projection.weight", cut)
    yield Same(f"{ours}.projection.bias", f"{theirs}.patch_embeddings.projection.bias")
    yield from layers(
        config.n_layers,
        "vit.encoder.layer",
        query="attention.attention.query",
        key="attention.attention.key",
        value="attention.attention.value",
        output="attention.output.dense",
        attention_norm="layernorm_before",
        inner="intermediate.dense",
        outer="output.dense",
        feed_forward_norm="layernorm_after",
    )
    yield from module("encoder.final_norm", "vit.layernorm")
    yield from module("labels", "classifier")
    yield from not_used("vit.pooler.dense")


VIT = Architecture(
    name="ViT",
    model_type="vit",
    class_name="ViTForImageClassification",
    task="classify-images",
    kind=VisionConfig,
    implied={"norm_place": "pre"},
    settings=(
        Setting("d_model", "hidden_size", 768),
        Setting("n_layers", "num_hidden_layers", 12),
        Setting("n_heads", "num_attention_heads", 12),
        Setting("d_ff", "intermediate_size", 3072),
        Setting("activation", "hidden_act", "gelu", words=ACTIVATIONS),
        Setting("norm_eps", "layer_norm_eps", 1e-12),
        Setting("patch", "patch_size", 16),
        Setting("height", "image_height", 224),
        Setting("width", "image_width", 224),
        Setting("mean", "pixel_mean", ()),
        Setting("deviation", "pixel_deviation", ()),
        Setting("residual_dropout", "hidden_dropout_prob", 0.0),
        Setting("attention_dropout", "attention_probs_dropout_prob", 0.0),
        N_LABELS,
    ),
    vocabularies=(),
    required={"qkv_bias": True},
    said=_said,
    told=_told,
    files=_files,
    entries=_entries,
)
