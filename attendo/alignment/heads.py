"""The heads of a model by name, and the same model without some of them.

A head is called by its attention, its layer and its number, from 1: `encoder.1.4` and `decoder.2.1` are of
self-attention, `cross.3.2` of the attention from the decoder to the encoder.
"""

import copy
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar, cast, get_args

import torch
from torch import nn

from attendo.errors import ConfigError
from attendo.models.family import Member
from attendo.models.settings import AttentionKind, LayerConfig, ModelConfig
from attendo.models.transformer import Stack
from attendo.models.vision import PictureEncoder
from attendo.nn.attention import BranchedHeads, JoinedHeads, MultiHeadAttention
from attendo.nn.block import Block

M = TypeVar("M", bound=nn.Module)
AMember = TypeVar("AMember", bound=Member)

KINDS: tuple[AttentionKind, ...] = get_args(AttentionKind)

_NAME = re.compile(r"(?:(encoder|decoder|cross)\.)?([0-9]{1,4})\.([0-9]{1,4})")


@dataclass(frozen=True, order=True)
class Head:
    """One head of one layer, both counted from 1."""

    kind: AttentionKind
    layer: int
    number: int

    def __str__(self) -> str:
        return f"{self.kind}.{self.layer}.{self.number}"


def kinds_of(config: ModelConfig) -> list[AttentionKind]:
    """The kinds of attention that such a model has."""
    return [kind for kind in KINDS if config.attentions[kind]]


def heads_of(config: ModelConfig) -> list[Head]:
    """Every head of such a model."""
    return [
        Head(kind, layer, number)
        for kind in KINDS
        for layer in range(1, config.attentions[kind] + 1)
        for number in range(1, config.n_heads + 1)
    ]


def parse_head(text: str, config: ModelConfig) -> Head:
    """The head of this name; `3.2` alone is `cross.3.2`, or of the only kind that there is."""
    match = _NAME.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"head {text[:40]!r}: must be called like cross.3.2, encoder.1.4 or decoder.2.1.")
    kinds = kinds_of(config)
    if not kinds:
        raise ConfigError(f"head {text[:40]!r}: this model has no attention. Leave it out.")
    head = Head(cast(AttentionKind, match[1] or kinds[-1]), int(match[2]), int(match[3]))
    if not (1 <= head.layer <= config.attentions[head.kind] and 1 <= head.number <= config.n_heads):
        there = ", ".join(f"{kind}.1.1 to {kind}.{config.attentions[kind]}.{config.n_heads}" for kind in kinds)
        raise ConfigError(f"head {text[:40]!r}: there is none. This model has {there}.")
    return head


def sharing_copy(module: M) -> M:
    """The module once more: its parts are new, its weights are the same tensors."""
    shared = {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())}
    return copy.deepcopy(module, shared)


def without_heads(model: AMember, heads: Iterable[Head]) -> AMember:
    """The model with the output of these heads zero: a copy that shares all other weights.

    What a head gives is multiplied by its columns of W_O, or if branched by a W_O of its own. Zeros there silence it.
    """
    if not isinstance(model.config, LayerConfig):
        raise ConfigError(
            f"without heads: only those of a Transformer can be switched off, and this model is of kind "
            f"{model.config.kind}. Leave them out."
        )
    quiet = sharing_copy(model)
    for head in heads:
        stack: Stack | PictureEncoder = getattr(quiet, "encoder" if head.kind == "encoder" else "decoder")
        block = sharing_copy(cast(Block, stack.blocks[head.layer - 1]))  # another layer may share it
        stack.blocks[head.layer - 1] = block
        _silence(cast(MultiHeadAttention, block.cross_attention if head.kind == "cross" else block.attention), head)
    return quiet


def _silence(attention: MultiHeadAttention, head: Head) -> None:
    output, place = attention.output, head.number - 1
    if isinstance(output, BranchedHeads):
        branch = cast(nn.Linear, output.outputs[place])
        branch.weight = nn.Parameter(torch.zeros_like(branch.weight), requires_grad=False)
        return
    assert isinstance(output, JoinedHeads)
    weight_DX = output.weight.detach().clone()
    weight_DX[:, place * attention.d_value : (place + 1) * attention.d_value] = 0
    output.weight = nn.Parameter(weight_DX, requires_grad=False)
