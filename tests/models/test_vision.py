"""The Vision Transformer. Suffixes: B batch, C channels, Y and X pixels down and across, T positions, L labels."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import ViTConfig, ViTForImageClassification

from attendo.alignment.maps import watched
from attendo.config import from_dict, to_dict
from attendo.data.picture_batch import PictureBatch
from attendo.errors import ConfigError
from attendo.inspection.rollout import picture_rollout, rollout
from attendo.models.family import build_model
from attendo.models.settings import VisionConfig
from attendo.models.vision import VisionTransformer, build
from attendo.nn.patches import GridPositions, patches_of
from tests.models.references import moved

B, Y, X, PATCH, L = 13, 6, 9, 3, 17
SIZES: dict[str, Any] = {
    "n_labels": L,
    "height": Y,
    "width": X,
    "mean": (20.0, 30.0, 50.0),
    "deviation": (70.0, 90.0, 110.0),
    "patch": PATCH,
    "d_model": 22,
    "d_ff": 19,
    "n_heads": 2,
    "n_layers": 3,
    "norm_place": "pre",
    "activation": "gelu",
}


def close(actual: Tensor, expected: Tensor, atol: float = 1e-5) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=atol)


def tiny(**settings: Any) -> VisionTransformer:
    torch.manual_seed(1)
    return moved(build(VisionConfig(**{**SIZES, **settings})).eval())


def pixels() -> Tensor:
    torch.manual_seed(2)
    return 255 * torch.rand(B, 3, Y, X)


def both() -> tuple[VisionTransformer, ViTForImageClassification]:
    """Ours and Hugging Face's, with the same weights."""
    D, F, H, layers = 55, 37, 5, 2
    config = ViTConfig(
        hidden_size=D,
        intermediate_size=F,
        num_attention_heads=H,
        num_hidden_layers=layers,
        image_size=(Y, X),
        patch_size=PATCH,
        num_channels=3,
        hidden_act="gelu",
        layer_norm_eps=1e-5,
        num_labels=L,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    torch.manual_seed(5)
    theirs = moved(ViTForImageClassification(config).eval())
    ours = tiny(d_model=D, d_ff=F, n_heads=H, n_layers=layers)
    ours.load_state_dict(_translated(theirs.state_dict()))
    return ours, theirs


def test_equal_to_hugging_face_with_the_same_weights() -> None:
    ours, theirs = both()
    with torch.inference_mode():
        x = (pixels() - ours.encoder.patches.mean) / ours.encoder.patches.deviation
        close(ours(pixels()), theirs(pixel_values=x).logits, atol=1e-4)


def _translated(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Hugging Face's names and shapes -> ours."""
    ours: dict[str, Tensor] = {}
    for name, tensor in theirs.items():
        words = name.removeprefix("vit.")
        for old, new in RENAMED:
            words = words.replace(old, new)
        if name.endswith("cls_token"):
            tensor = tensor[0, 0]
        elif name.endswith("position_embeddings"):
            tensor = tensor[0]
        elif tensor.ndim == 4:
            tensor = tensor.flatten(1)
        ours[words] = tensor
    return ours


RENAMED = (
    ("embeddings.cls_token", "encoder.patches.token"),
    ("embeddings.position_embeddings", "encoder.patches.positions.weight"),
    ("embeddings.patch_embeddings.projection", "encoder.patches.projection"),
    ("layers.", "encoder.blocks."),
    ("attention.q_proj", "attention.query"),
    ("attention.k_proj", "attention.key"),
    ("attention.v_proj", "attention.value"),
    ("attention.o_proj", "attention.output"),
    ("mlp.fc1", "feed_forward.inner"),
    ("mlp.fc2", "feed_forward.outer"),
    ("layernorm_before", "attention_residual.norm"),
    ("layernorm_after", "feed_forward_residual.norm"),
    ("layernorm.", "encoder.final_norm."),
    ("classifier", "labels"),
)


def test_patches_are_cut_row_by_row() -> None:
    numbered = torch.arange(3 * Y * X, dtype=torch.float32).view(1, 3, Y, X)
    cut = patches_of(numbered, PATCH)
    assert cut.shape == (1, 6, 27)
    for patch, (y, x) in enumerate([(0, 0), (0, 3), (0, 6), (3, 0), (3, 3), (3, 6)]):
        close(cut[0, patch], numbered[0, :, y : y + 3, x : x + 3].flatten())


def test_sinusoids_tell_rows_and_columns_apart() -> None:
    positions = GridPositions(d_model=8, rows=2, columns=3)
    table = positions(torch.zeros(1, 6, 8))[0].view(2, 3, 8)
    assert torch.equal(table[0, :, :4], table[0, :1, :4].expand(3, -1))  # one row: the same first half
    assert torch.equal(table[:, 1, 4:], table[:1, 1, 4:].expand(2, -1))  # one column: the same second half
    assert len(table.flatten(0, 1).unique(dim=0)) == 6
    with_token = positions(torch.zeros(1, 7, 8))[0]
    assert torch.equal(with_token[0], torch.zeros(8))
    assert torch.equal(with_token[1:], table.flatten(0, 1))


@pytest.mark.parametrize("pooling", ["first", "mean"])
@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "none"])
def test_every_parameter_learns_and_a_picture_stands_alone(pooling: str, positions: str) -> None:
    model = tiny(pooling=pooling, positions=positions)
    together = model(pixels())
    assert together.shape == (B, L)
    for b in range(B):
        close(model(pixels()[b : b + 1])[0], together[b])
    batch = PictureBatch(pixels_BCYX=pixels(), labels_B=torch.arange(B))
    ((hidden, labels, target, _),) = model.predictions(batch)
    torch.nn.functional.cross_entropy(labels(hidden), target).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        if not name.endswith("key.bias"):
            assert parameter.grad.abs().max() > 0, name


def test_without_positions_the_order_of_the_patches_does_not_matter() -> None:
    shuffled = pixels().unflatten(3, (3, PATCH)).flip(3).flatten(3)  # the columns of patches in another order
    for positions, same in (("none", True), ("learned", False), ("sinusoidal", False)):
        model = tiny(positions=positions)
        with torch.inference_mode():
            assert torch.allclose(model(pixels()), model(shuffled), atol=1e-4) == same


def test_the_config_determines_the_model() -> None:
    config = VisionConfig(**SIZES, pooling="mean")
    again = from_dict(VisionConfig, to_dict(config))
    assert again == config
    with torch.device("meta"):
        assert build_model(again).state_dict().keys() == tiny(pooling="mean").state_dict().keys()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"patch": 4}, "patch = 4: must divide height"),
        ({"mean": (1.0,)}, "deviation"),
        ({"mean": (1.0, 2.0)}, "mean = .*must be a list of 1 or 3 numbers"),
        ({"positions": "t5"}, "positions = 't5': patches stand in rows and columns"),
        ({"positions": "sinusoidal", "d_model": 21, "d_key": 3, "d_value": 3}, "d_model = 21: must be even"),
        ({"span": "window"}, "span = 'window'"),
    ],
)
def test_what_cannot_be_is_said(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        VisionConfig(**{**SIZES, **settings})


def test_rollout_is_the_product_of_the_papers_matrices() -> None:
    """Abnar & Zuidema (2020): Ã_l = A_l Ã_{l-1}, A = 0.5 W + 0.5 I, W the mean over heads; a loop over indices."""
    H, T, layers = 3, 5, 2
    torch.manual_seed(3)
    weights = [torch.randn(B, H, T, T, dtype=torch.float64).softmax(-1) for _ in range(layers)]
    found = rollout(weights)
    expected = torch.zeros(B, T, T, dtype=torch.float64)
    for b in range(B):
        first, second = (
            [
                [0.5 * sum(w[b, h, i, j].item() for h in range(H)) / H + 0.5 * (i == j) for j in range(T)]
                for i in range(T)
            ]
            for w in weights
        )
        for i in range(T):
            for j in range(T):
                expected[b, i, j] = sum(second[i][k] * first[k][j] for k in range(T))
    close(found, expected)
    close(found.sum(-1), torch.ones(B, T, dtype=torch.float64))


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_rollout_of_a_picture_is_abnars_and_zuidemas(pooling: str) -> None:
    """In numpy, as their code has it: the mean over heads, the identity added, rows that sum to one, products."""
    model = tiny(pooling=pooling)
    maps = watched(model, lambda twin: twin(pixels()))
    T = 6 + (pooling == "first")
    assert [one.shape for one in maps.encoder] == [(B, 2, T, T)] * 3
    found = picture_rollout(maps.encoder, model.config.grid, token=pooling == "first")
    assert found.shape == (B, 2, 3)
    for b in range(B):
        joint = np.eye(T)
        for layer in maps.encoder:
            mixed = layer[b].double().numpy().mean(axis=0) + np.eye(T)
            joint = mixed / mixed.sum(axis=1, keepdims=True) @ joint
        row = joint[0, 1:] if pooling == "first" else joint.sum(axis=0) / T
        assert found[b].numpy() == pytest.approx(row.reshape(2, 3), abs=1e-6)
