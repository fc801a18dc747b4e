from typing import get_args

import pytest
import torch

from attendo.models.presets import PRESETS, PresetName, base, big, sizes, small, tiny
from attendo.models.settings import TransformerConfig
from attendo.models.transformer import build, parameter_table


def test_base_is_what_the_config_is_by_itself() -> None:
    by_itself = TransformerConfig(source_vocab_size=41, target_vocab_size=41)
    assert TransformerConfig(source_vocab_size=41, target_vocab_size=41, **base()) == by_itself


def test_big_is_the_papers() -> None:
    assert big() == {**base(), "d_model": 1024, "d_ff": 4096, "n_heads": 16, "residual_dropout": 0.3}


def test_every_name_has_its_sizes() -> None:
    assert get_args(PresetName) == PRESETS
    assert [sizes("tiny"), sizes("small"), sizes("base"), sizes("big")] == [tiny(), small(), base(), big()]


@pytest.mark.parametrize(
    ("name", "vocab_size", "millions", "within"),
    [("tiny", 6_000, 2.1, 0.05), ("small", 16_000, 15.2, 0.05), ("base", 41_000, 65, 1), ("big", 37_000, 213, 1.5)],
)
def test_parameters(name: PresetName, vocab_size: int, millions: float, within: float) -> None:
    with torch.device("meta"):
        model = build(TransformerConfig(source_vocab_size=vocab_size, target_vocab_size=vocab_size, **sizes(name)))
    assert parameter_table(model)["total"] / 1e6 == pytest.approx(millions, abs=within)
