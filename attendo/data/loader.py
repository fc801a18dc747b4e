"""Batches without end, from any point: what comes at (epoch, position) depends on the seed alone."""

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from attendo.data.batch import Batch
from attendo.data.batching import epoch_plan
from attendo.data.store import PairStore

T = TypeVar("T")


@dataclass(frozen=True)
class Position:
    """A place in the data: the next batch to be read."""

    epoch: int = 0
    batch: int = 0


def batches_from(
    store: PairStore, position: Position, *, batch_tokens: int, seed: int
) -> Iterator[tuple[Batch, Position, float]]:
    """Yields (batch, the position after it, the epoch as a fraction), epoch after epoch.

    While one is used, the next is made.
    """
    return ahead(_batches(store, position, batch_tokens=batch_tokens, seed=seed))


def _batches(
    store: PairStore, position: Position, *, batch_tokens: int, seed: int
) -> Iterator[tuple[Batch, Position, float]]:
    source_lengths, target_lengths = store.source.lengths(), store.target.lengths()
    epoch, first = position.epoch, position.batch
    while True:
        plan = epoch_plan(source_lengths, target_lengths, batch_tokens=batch_tokens, seed=seed, epoch=epoch)
        for i in range(first, len(plan)):
            done = i + 1 == len(plan)
            after = Position(epoch + 1, 0) if done else Position(epoch, i + 1)
            yield store.batch(plan[i]), after, epoch + (i + 1) / len(plan)
        epoch, first = epoch + 1, 0


def ahead(endless: Iterator[T]) -> Generator[T, None, None]:
    """The same items, each made by a thread of its own while the one before is used: a disk may be slow."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="batches") as maker:
        upcoming = maker.submit(next, endless)
        while True:
            item = upcoming.result()
            upcoming = maker.submit(next, endless)
            yield item
