"""Which architectures there are, and which of them a folder is of."""

from attendo.errors import ForeignError
from attendo.interop.architecture import Architecture
from attendo.interop.bart import BART, MBART
from attendo.interop.bert import BERT, LABELLING_BERT, MASKED_BERT, PRETRAINED_BERT
from attendo.interop.blenderbot import BLENDERBOT
from attendo.interop.distilbert import DISTILBERT, LABELLING_DISTILBERT, MASKED_DISTILBERT
from attendo.interop.folder import Folder
from attendo.interop.gpt2 import GPT2
from attendo.interop.llama import LLAMA
from attendo.interop.m2m100 import M2M100
from attendo.interop.marian import MARIAN
from attendo.interop.pegasus import PEGASUS
from attendo.interop.roberta import (
    LABELLING_PRE_ROBERTA,
    LABELLING_ROBERTA,
    MASKED_PRE_ROBERTA,
    MASKED_ROBERTA,
    ROBERTA,
    XLM_ROBERTAS,
)
from attendo.interop.t5 import T5
from attendo.interop.vit import VIT

ARCHITECTURES: tuple[Architecture, ...] = (
    MARIAN,
    BART,
    MBART,
    M2M100,
    PEGASUS,
    BLENDERBOT,
    T5,
    MASKED_BERT,
    PRETRAINED_BERT,
    LABELLING_BERT,
    BERT,
    MASKED_ROBERTA,
    LABELLING_ROBERTA,
    ROBERTA,
    *XLM_ROBERTAS,
    MASKED_PRE_ROBERTA,
    LABELLING_PRE_ROBERTA,
    MASKED_DISTILBERT,
    LABELLING_DISTILBERT,
    DISTILBERT,
    GPT2,
    LLAMA,
    VIT,
)


def architecture_of(folder: Folder) -> Architecture:
    """The architecture that config.json names, by its class and its type."""
    names, kind = folder.config.get("architectures"), folder.config.get("model_type")
    asked = names[0] if isinstance(names, list) and names else None
    for one in ARCHITECTURES:
        if (one.class_name, one.model_type) == (asked, kind):
            return one
    known = ", ".join(one.class_name for one in ARCHITECTURES)
    raise ForeignError(
        f"{folder.path / 'config.json'} is of the architecture {asked!r} (model_type {kind!r}), which attendo has not. "
        f"It knows {known}."
    )
