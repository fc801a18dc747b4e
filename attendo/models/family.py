"""Which file builds the model of which settings."""

from typing import overload

from torch import nn

from attendo.models import bert, convolutional, gpt, recurrent, transformer, vision
from attendo.models.encoder_decoder import EncoderDecoder
from attendo.models.settings import (
    BertConfig,
    ClassifierConfig,
    ConvolutionalConfig,
    GPTConfig,
    ModelConfig,
    RecurrentConfig,
    TransformerConfig,
    TranslationConfig,
    VisionConfig,
)

Member = EncoderDecoder | gpt.GPT | bert.Bert | bert.Classifier | vision.VisionTransformer


@overload
def build_model(config: TranslationConfig) -> EncoderDecoder: ...
@overload
def build_model(config: ModelConfig) -> nn.Module: ...
def build_model(config: ModelConfig) -> nn.Module:
    """The model that the settings describe, with its initial weights."""
    match config:
        case TransformerConfig():
            return transformer.build(config)
        case RecurrentConfig():
            return recurrent.build(config)
        case VisionConfig():
            return vision.build(config)
        case ConvolutionalConfig():
            return convolutional.build(config)
        case GPTConfig():
            return gpt.build(config)
        case BertConfig():
            return bert.build_bert(config)
        case ClassifierConfig():
            return bert.build_classifier(config)
        case _:
            raise TypeError(f"{type(config).__name__} are the settings of no model that is known here.")
