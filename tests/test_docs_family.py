"""docs/family.md names the settings of each model that are its own, with their defaults."""

import dataclasses
import re
from pathlib import Path

import pytest

from attendo.config import Settings
from attendo.data.noise_settings import BartNoise, MaskNoise, PictureNoise, SpanNoise
from attendo.models.settings import (
    BertConfig,
    ClassifierConfig,
    ConvolutionalConfig,
    EncoderConfig,
    GPTConfig,
    LayerConfig,
    RecurrentConfig,
    VisionConfig,
)

from .test_docs_settings import written

DOCUMENT = (Path(__file__).parent.parent / "docs/family.md").read_text(encoding="utf-8")
# What follows from the tokenizer, or from the pictures.
FOLLOWING = {"vocab_size", "source_vocab_size", "target_vocab_size", "n_labels", "height", "width", "mean", "deviation"}


def documented(section: str, group: str) -> dict[str, str]:
    text = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert text is not None, section
    return dict(re.findall(rf"^\| `{group}\.(\w+)` \| (.+?) \|.*\|$", text[1], re.MULTILINE))


def own(kind: type[Settings], base: type[Settings] | None = None) -> dict[str, str]:
    """The settings that a kind has, or has with another default, beside those of its base."""
    before = {field.name: field.default for field in dataclasses.fields(base)} if base else {}
    return {
        field.name: written(field.default)
        for field in dataclasses.fields(kind)
        if (field.name not in before or before[field.name] != field.default)
        and not (field.name in FOLLOWING and field.default is dataclasses.MISSING)
    }


@pytest.mark.parametrize(
    ("section", "group", "expected"),
    [
        ("Language models", "model", own(GPTConfig, LayerConfig)),
        ("Masked language models", "noise", own(MaskNoise)),
        ("Masked language models", "model", own(BertConfig, EncoderConfig)),
        ("Classifiers", "model", own(ClassifierConfig, EncoderConfig) | own(EncoderConfig, LayerConfig)),
        ("Denoising", "noise", own(SpanNoise) | own(BartNoise)),
        ("Recurrent translators", "model", own(RecurrentConfig)),
        ("Convolutional translators", "model", own(ConvolutionalConfig)),
        ("Pictures", "model", own(VisionConfig, LayerConfig)),
        ("Pictures", "noise", own(PictureNoise)),
    ],
)
def test_the_settings_of_each_model_are_documented(section: str, group: str, expected: dict[str, str]) -> None:
    assert documented(section, group) == expected
