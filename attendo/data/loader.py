"""Batches without end, from any point: what comes at (epoch, position) depends on the seed alone."""

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

from attendo.data.batch import AnyBatch
from attendo.data.batching import Indices, Lengths, epoch_plan

T = TypeVar("T")
B = TypeVar("B", bound=AnyBatch)
B_co = TypeVar("B_co", bound=AnyBatch, covariant=True)


@dataclass(frozen=True)
class Position:
    """A place in the data: the next batch to be read."""

    epoch: int = 0
    batch: int = 0


class Examples(Protocol[B_co]):
    """What batches are made of: a store as it is, or cut into other pieces in each epoch."""

    def lengths(self, epoch: int) -> tuple[Lengths, Lengths]:
        """Of all sources and of all targets; rows without a target have the length 0 there."""
        ...

    def batch(self, indices: Indices, epoch: int) -> B_co: ...


Pairs = Examples[AnyBatch]


def batches_from(
    pairs: Examples[B], position: Position, *, batch_tokens: int, seed: int
) -> Iterator[tuple[B, Position, float]]:
    """Yields (batch, the position after it, the epoch as a fraction), epoch after epoch.

    While one is used, the next is made.
    """
    return ahead(_batches(pairs, position, batch_tokens=batch_tokens, seed=seed))


def _batches(
    pairs: Examples[B], position: Position, *, batch_tokens: int, seed: int
) -> Iterator[tuple[B, Position, float]]:
    epoch, first = position.epoch, position.batch
    while True:
        plan = epoch_plan(*pairs.lengths(epoch), batch_tokens=batch_tokens, seed=seed, epoch=epoch)
        for i in range(first, len(plan)):
            done = i + 1 == len(plan)
            after = Position(epoch + 1, 0) if done else Position(epoch, i + 1)
            yield pairs.batch(plan[i], epoch), after, epoch + (i + 1) / len(plan)
        epoch, first = epoch + 1, 0


def ahead(endless: Iterator[T]) -> Generator[T, None, None]:
    """The same items, each made by a thread of its own while the one before is used: a disk may be slow."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="batches") as maker:
        upcoming = maker.submit(next, endless)
        while True:
            item = upcoming.result()
            upcoming = maker.submit(next, endless)
            yield item
