"""What pieces mean before any training: vectors from what stands near them, in their text and in its translation.

A model that begins with random vectors spends its first epoch finding out that `dog` is `Hund`. Counting shows most of
that in seconds: pieces that are translations of each other, or stand among the same neighbours, get vectors that are
alike (Levy, Goldberg & Dagan 2015, Improving Distributional Similarity with Lessons Learned from Word Embeddings).

Suffixes: V pieces of the tables, D d_model.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attendo.data.store import PairStore, Side

WINDOW = 4  # how far a neighbour is at most; one k pieces away counts 1/k
CLOSE = 4.0  # how much less a piece of the other side counts that stands elsewhere in its text
SMOOTHING = 0.75  # of how frequent a context is, so that rare ones do not outweigh all others
MOST_PAIRS = 50_000  # pairs that are counted
AT_ONCE = 2_000  # pairs that are counted together
EXTRA = 16  # dimensions more than are kept, for precision
ROUNDS = 3  # of the power iteration that finds them


Near = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]  # pieces, others near them, how near


@dataclass(frozen=True)
class Counts:
    """How often, weighted, a piece (of `rows`) stands near another (of `columns`); each two once, of `size` pieces."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    times: NDArray[np.float64]
    size: int


def related_vectors(
    pairs: PairStore, *, source_size: int, target_size: int, shared: bool, d_model: int
) -> tuple[Tensor, Tensor]:
    """Vectors for the pieces of both sides, [V, D] each; those of pieces that do not occur are zero.

    shared: both sides have the same pieces, and each piece has one vector for both.

        E = U √Σ  of the D largest singular values of  max(0, log p(i, j) / (p(i) p'(j))),   p'(j) ∝ n(j)^0.75

    The whole has mean 0 and standard deviation D^-½, as random vectors would have.
    """
    first_target = 0 if shared else source_size
    vectors_VD = _vectors(count(pairs, first_target=first_target, size=first_target + target_size), d_model)
    return vectors_VD[:source_size], vectors_VD[first_target:]


def neighbours_vectors(side: Side, *, size: int, d_model: int) -> Tensor:
    """The same for the pieces of texts that have no translation, from their neighbours alone, [V, D]."""
    return _vectors(_count(len(side), lambda some: _neighbours(side, some, 0), size), d_model)


def take_over(weight_VD: Tensor, vectors_VD: Tensor) -> None:
    """Gives an embedding the vectors of the pieces that occur; the others stay as they are."""
    seen_V = vectors_VD.any(dim=1)
    with torch.no_grad():
        weight_VD[seen_V] = vectors_VD[seen_V].to(weight_VD)


def _vectors(counts: Counts, d_model: int) -> Tensor:
    information_VV = positive_information(counts)
    vectors_VD = _singular(information_VV, d_model)
    seen_V = torch.zeros(counts.size, dtype=torch.bool)
    seen_V[information_VV.indices()[0]] = True
    vectors_VD[~seen_V] = 0
    known_VD = vectors_VD[seen_V] - vectors_VD[seen_V].mean(dim=0)
    vectors_VD[seen_V] = known_VD / known_VD.std() * d_model**-0.5
    return vectors_VD


def count(pairs: PairStore, *, first_target: int, size: int) -> Counts:
    """Of neighbours on each side, and of the two sides with each other. Target ids come after `first_target`."""

    def near(some: NDArray[np.int64]) -> Iterator[Near]:
        yield from _neighbours(pairs.source, some, 0)
        yield from _neighbours(pairs.target, some, first_target)
        yield _across(pairs, some, first_target)

    return _count(len(pairs), near, size)


def _count(n_texts: int, near: Callable[[NDArray[np.int64]], Iterable[Near]], size: int) -> Counts:
    chosen = np.unique(np.linspace(0, n_texts - 1, min(n_texts, MOST_PAIRS), dtype=np.int64))
    keys: list[NDArray[np.int64]] = []
    times: list[NDArray[np.float64]] = []
    for first in range(0, len(chosen), AT_ONCE):
        some = chosen[first : first + AT_ONCE]
        ones, others, weights = (np.concatenate(parts) for parts in zip(*near(some), strict=True))
        distinct, weights = _summed(np.minimum(ones, others) * size + np.maximum(ones, others), weights)
        keys.append(distinct)
        times.append(weights)
    distinct, weights = _summed(np.concatenate(keys), np.concatenate(times))
    lower, upper = distinct // size, distinct % size
    apart = lower != upper  # a piece with itself was counted once for both ways
    return Counts(
        np.concatenate([lower, upper[apart]]),
        np.concatenate([upper, lower[apart]]),
        np.concatenate([np.where(apart, weights, 2 * weights), weights[apart]]),
        size,
    )


def _neighbours(side: Side, chosen: NDArray[np.int64], first: int) -> Iterator[Near]:
    stored, lengths = side.end_to_end(chosen)
    ids, sentence = stored.astype(np.int64) + first, np.repeat(np.arange(len(chosen)), lengths)
    for distance in range(1, WINDOW + 1):
        together = sentence[distance:] == sentence[:-distance]
        left, right = ids[:-distance][together], ids[distance:][together]
        yield left, right, np.full(len(left), 1 / distance)


def _across(pairs: PairStore, chosen: NDArray[np.int64], first_target: int) -> Near:
    """Every piece of a source with every one of its target, the nearer the more: CLOSE e^(-CLOSE·δ) / shorter length.

    So a piece counts about as much with the other side as with its own.
    """
    source, n_source = pairs.source.end_to_end(chosen)
    target, n_target = pairs.target.end_to_end(chosen)
    products = n_source * n_target
    pair = np.repeat(np.arange(len(chosen)), products)
    within = np.arange(len(pair)) - np.repeat(np.cumsum(products) - products, products)
    i, j = within // n_target[pair], within % n_target[pair]
    starts = [np.cumsum(lengths) - lengths for lengths in (n_source, n_target)]
    apart = np.abs(i / n_source[pair] - j / n_target[pair])
    weight = CLOSE * np.exp(-CLOSE * apart) / np.minimum(n_source, n_target)[pair]
    rows = source[starts[0][pair] + i].astype(np.int64)
    columns = target[starts[1][pair] + j].astype(np.int64) + first_target
    return rows, columns, weight


def _summed(keys: NDArray[np.int64], weights: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    distinct, places = np.unique(keys, return_inverse=True)
    return distinct, np.bincount(places, weights=weights, minlength=len(distinct)).astype(np.float64)


def positive_information(counts: Counts) -> Tensor:
    """max(0, log p(i, j) / (p(i) p'(j))) where i and j occur together, as a sparse matrix, [V, V]."""
    of_rows = np.bincount(counts.rows, counts.times, counts.size)
    smoothed = np.bincount(counts.columns, counts.times, counts.size) ** SMOOTHING
    share = smoothed / smoothed.sum()
    information = np.log(counts.times / (of_rows[counts.rows] * share[counts.columns]))
    kept = information > 0
    places = torch.from_numpy(np.stack([counts.rows[kept], counts.columns[kept]]))
    values = torch.from_numpy(information[kept]).float()
    return torch.sparse_coo_tensor(places, values, (counts.size, counts.size), check_invariants=False).coalesce()


def _singular(matrix_VV: Tensor, n_dimensions: int) -> Tensor:
    """U √Σ of the largest singular values, [V, D], found by a power iteration that always begins in the same way."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        n_found = min(n_dimensions + EXTRA, matrix_VV.size(0))
        left_VD, values_D, _ = torch.svd_lowrank(matrix_VV, q=n_found, niter=ROUNDS)
    kept = min(n_dimensions, n_found)
    vectors_VD = left_VD[:, :kept] * values_D[:kept].sqrt()
    return torch.nn.functional.pad(vectors_VD, (0, n_dimensions - kept))
