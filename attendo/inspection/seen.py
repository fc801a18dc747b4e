"""What everything that is looked into has to show: the weights of every head, and who looks at what in them.

Suffixes: B sentences, H heads, T who looks, S what is looked at.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from attendo.alignment.heads import KINDS, AMember, Head, parse_head, without_heads
from attendo.alignment.maps import Maps
from attendo.errors import ConfigError
from attendo.models.settings import AttentionKind

ALTERNATIVES = 5
_NAME = re.compile(rf"({'|'.join(KINDS)})(?:\.([0-9]{{1,4}}))?(?:\.([0-9]{{1,4}}))?")


@dataclass(frozen=True)
class Choice:
    """A piece that could be written, with log p(piece | what is known)."""

    piece: str
    log_prob: float

    def to_json(self) -> dict[str, Any]:
        return {"piece": self.piece, "log_prob": self.log_prob, "probability": math.exp(self.log_prob)}


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The weights that a model used while it worked once, on one thing; and the heads that were switched off."""

    maps: Maps
    without: tuple[Head, ...] = ()

    def labels(self, kind: AttentionKind) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Who looks, and what is looked at: the names of a map's rows and columns."""
        raise NotImplementedError

    @property
    def kinds(self) -> list[AttentionKind]:
        """Those that the model has."""
        return [kind for kind in KINDS if self.maps.of(kind)]

    def weights(self, kind: AttentionKind) -> list[Tensor]:
        """[H, T, S] of each layer."""
        return [layer_BHTS[0].float().cpu() for layer_BHTS in self.maps.of(kind)]

    def map(self, name: str) -> tuple[AttentionKind, Tensor]:
        """The weights [T, S] of a head, `encoder.2.1`, the mean of a layer's, `encoder.2`, or of all of a kind."""
        match = _NAME.fullmatch(name.strip())
        if match is None:
            raise ConfigError(f"map {name[:40]!r}: must be called like encoder.2.1, encoder.2 or encoder.")
        kind = cast(AttentionKind, match[1])
        layer, head = (None if number is None else int(number) for number in match.groups()[1:])
        layers = self.weights(kind)
        if not self.kinds:
            raise ConfigError(f"map {name[:40]!r}: this model has no attention. Leave it out.")
        known = layer is None or 1 <= layer <= len(layers)
        if not layers or not known or (head is not None and not 1 <= head <= len(layers[0])):
            raise ConfigError(f"map {name[:40]!r}: there is none. This model has {self._there()}.")
        weights_HTS = torch.cat(layers if layer is None else [layers[layer - 1]])
        return kind, weights_HTS.mean(dim=0) if head is None else weights_HTS[head - 1]

    def attention(self) -> dict[str, Any]:
        """All weights as plain values."""
        return {kind: self._plain(kind) for kind in self.kinds}

    def _plain(self, kind: AttentionKind) -> dict[str, Any]:
        rows, columns = self.labels(kind)
        weights = [rounded(layer_HTS) for layer_HTS in self.weights(kind)]
        return {"rows": list(rows), "columns": list(columns), "weights": weights}

    def _there(self) -> str:
        return ", ".join(
            f"{kind}.1.1 to {kind}.{len(self.maps.of(kind))}.{self.maps.of(kind)[0].shape[1]}" for kind in self.kinds
        )


def quietened(model: AMember, without: Sequence[Head | str]) -> tuple[AMember, tuple[Head, ...]]:
    """The model without some heads, and which they are."""
    heads = tuple(dict.fromkeys(parse_head(head, model.config) if isinstance(head, str) else head for head in without))
    return (without_heads(model, heads) if heads else model), heads


def rounded(weights: Tensor) -> Any:
    """Nested lists, to four decimals."""
    return (weights.double() * 10_000).round().div(10_000).tolist()
