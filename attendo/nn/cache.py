"""What a decoder remembers between two steps, as a value that goes in and comes out.

Suffixes: N rows (prefixes), B sentences, W prefixes of each, H heads, T positions so far, S source length, K key size,
K' value size.
"""

from collections.abc import Callable, Sequence
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

    def contiguous(self) -> "KeysValues":
        return KeysValues(self.keys_NHTK.contiguous(), self.values_NHTK.contiguous())

    def aligned(self, x_NTD: Tensor) -> Tensor:
        """x with the prefixes that share a row of this memory one after the other, as if they were one: [B, W T, D]."""
        return x_NTD.reshape(self.keys_NHTK.shape[0], -1, x_NTD.shape[2])


@dataclass(frozen=True)
class LayerCache:
    """One layer: its own past, which grows, and for a decoder the memory's keys and values, computed once.

    A recurrence or a convolution remembers a `state` that does not grow, tensors with a row for each prefix.
    """

    past: KeysValues | None = None
    memory: KeysValues | None = None
    state: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class DecoderCache:
    """All layers, the mask over the memory [B, 1, 1, S], and how many positions have been decoded.

    The past has a row for each prefix, N = B * W, the memory one for each sentence: the W prefixes of a sentence stand
    side by side and share it, and reordering them leaves it alone. Layers that share their weights share it as well.
    """

    layers: tuple[LayerCache, ...]
    memory_mask: Tensor
    length: int
    n_prefixes: int = 1  # W

    def select(self, rows: Tensor) -> "DecoderCache":
        """The cache of the given rows; repeats and omissions are allowed (a beam is reordered, a sentence ends)."""
        sentences = rows // self.n_prefixes
        runs, counts = sentences.unique_consecutive(return_counts=True)
        n_prefixes = int(counts[0]) if len(counts) else 1
        if (counts == n_prefixes).all():
            sentences = runs
        else:  # as when one of several draws has ended: each row has its sentence for itself
            n_prefixes = 1
        device, past_rows = self.memory_mask.device, rows.to(self.memory_mask.device)
        pasts = [None if layer.past is None else layer.past.select(past_rows) for layer in self.layers]
        states = [tuple(tensor.index_select(0, past_rows) for tensor in layer.state) for layer in self.layers]
        memories, mask = [layer.memory for layer in self.layers], self.memory_mask
        if not torch.equal(sentences, torch.arange(len(mask), device=sentences.device)):
            sentences = sentences.to(device)
            memories = _for_each(memories, lambda memory: memory.select(sentences))
            mask = mask.index_select(0, sentences)
        return DecoderCache(tuple(map(LayerCache, pasts, memories, states)), mask, self.length, n_prefixes)

    def contiguous(self) -> "DecoderCache":
        """The same with the memory's keys and values laid out head by head, which pays where many steps read them."""
        memories = _for_each([layer.memory for layer in self.layers], KeysValues.contiguous)
        layers = tuple(
            LayerCache(layer.past, memory, layer.state) for layer, memory in zip(self.layers, memories, strict=True)
        )
        return DecoderCache(layers, self.memory_mask, self.length, self.n_prefixes)


def _for_each(
    memories: Sequence[KeysValues | None], change: Callable[[KeysValues], KeysValues]
) -> list[KeysValues | None]:
    """Each changed, and those that are one before are one after."""
    changed = {id(memory): change(memory) for memory in memories if memory is not None}
    return [None if memory is None else changed[id(memory)] for memory in memories]
