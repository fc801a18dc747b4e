"""What a decoder remembers between two steps, as a value that goes in and comes out.

Suffixes: N rows (sentences x beam), H heads, T positions so far, S source length, K key size, K' value size.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class KeysValues:
    """The keys and values of one attention."""

    keys_NHTK: Tensor
    values_NHTK: Tensor

    def append(self, new: "KeysValues") -> "KeysValues":
        """These positions, followed by new ones."""
        return KeysValues(
            torch.cat((self.keys_NHTK, new.keys_NHTK), dim=2),
            torch.cat((self.values_NHTK, new.values_NHTK), dim=2),
        )

    def select(self, rows: Tensor) -> "KeysValues":
        return KeysValues(self.keys_NHTK.index_select(0, rows), self.values_NHTK.index_select(0, rows))


@dataclass(frozen=True)
class LayerCache:
    """One layer: its own past, which grows, and for a decoder the memory's keys and values, computed once."""

    past: KeysValues | None = None
    memory: KeysValues | None = None

    def select(self, rows: Tensor) -> "LayerCache":
        past = None if self.past is None else self.past.select(rows)
        return LayerCache(past, None if self.memory is None else self.memory.select(rows))


@dataclass(frozen=True)
class DecoderCache:
    """All layers, the mask over the memory [N, 1, 1, S], and how many positions have been decoded."""

    layers: tuple[LayerCache, ...]
    memory_mask: Tensor
    length: int

    def select(self, rows: Tensor) -> "DecoderCache":
        """The cache of the given rows; repeats and omissions are allowed (a beam is reordered, a sentence ends)."""
        layers = tuple(layer.select(rows) for layer in self.layers)
        return DecoderCache(layers, self.memory_mask.index_select(0, rows), self.length)
