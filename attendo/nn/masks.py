"""Masks are values: boolean tensors in which True means "may attend". They combine with `&`.

How far a self-attention sees is a part, a `Span`. Suffixes: B batch, T queries, S keys.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


def padding_mask(lengths_B: Tensor, size: int) -> Tensor:
    """True at the real positions of each sequence: mask[b, 0, 0, s] = s < lengths[b], [B, 1, 1, S]."""
    positions_S = torch.arange(size, device=lengths_B.device)
    return (positions_S < lengths_B[:, None])[:, None, None, :]


class Span(Protocol):
    """Which keys a query sees, by their positions alone. Where a span is None, all are seen."""

    def mask(self, queries_T1: Tensor, keys_S: Tensor) -> Tensor:
        """True where the key of that position may be seen by the query of that position: [T, S]."""


@dataclass(frozen=True)
class WindowSpan:
    """|s - t| <= size: the neighbours on each side (Beltagy et al. 2020)."""

    size: int

    def mask(self, queries_T1: Tensor, keys_S: Tensor) -> Tensor:
        return (keys_S - queries_T1).abs() <= self.size


@dataclass(frozen=True)
class ChunkSpan:
    """The own chunk of `size` positions and `left` chunks before it.

    floor(t / size) - left <= floor(s / size) <= floor(t / size): nothing after the own chunk is seen, so that an
    encoder can begin before its input has ended.
    """

    size: int
    left: int

    def mask(self, queries_T1: Tensor, keys_S: Tensor) -> Tensor:
        behind_TS = queries_T1 // self.size - keys_S // self.size
        return (behind_TS >= 0) & (behind_TS <= self.left)


def span_mask(real_B11S: Tensor, span: Span | None) -> Tensor:
    """The real keys within the span of queries at the same positions: [B, 1, 1 or T, S].

    A position always sees itself: padding that saw nothing at all would become NaN, and spread.
    """
    if span is None:
        return real_B11S
    positions_S = torch.arange(real_B11S.shape[-1], device=real_B11S.device)
    itself_TS = torch.eye(positions_S.shape[0], dtype=torch.bool, device=real_B11S.device)
    return (real_B11S & span.mask(positions_S[:, None], positions_S)) | itself_TS


def causal_mask(
    n_queries: int, *, offset: int = 0, span: Span | None = None, device: torch.device | None = None
) -> Tensor:
    """True where a position may look, at itself and what came before: mask[0, 0, t, s] = s <= t, [1, 1, T, S].

    The queries stand at positions offset, offset + 1, …; there are as many keys as the last query may see. A span
    narrows what is seen of them.
    """
    queries_T1 = torch.arange(offset, offset + n_queries, device=device)[:, None]
    keys_S = torch.arange(offset + n_queries, device=device)
    mask_TS = keys_S <= queries_T1
    return (mask_TS if span is None else mask_TS & span.mask(queries_T1, keys_S))[None, None]
