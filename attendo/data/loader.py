"""Batches without end, from any point: what comes at (epoch, position) depends on the seed alone."""

from collections.abc import Iterator
from dataclasses import dataclass

from attendo.data.batch import Batch
from attendo.data.batching import epoch_plan
from attendo.data.store import PairStore


@dataclass(frozen=True)
class Position:
    """A place in the data: the next batch to be read."""

    epoch: int = 0
    batch: int = 0


def batches_from(
    store: PairStore, position: Position, *, batch_tokens: int, seed: int
) -> Iterator[tuple[Batch, Position, float]]:
    """Yields (batch, the position after it, the epoch as a fraction), epoch after epoch."""
    source_lengths, target_lengths = store.source.lengths(), store.target.lengths()
    epoch, first = position.epoch, position.batch
    while True:
        plan = epoch_plan(source_lengths, target_lengths, batch_tokens=batch_tokens, seed=seed, epoch=epoch)
        for i in range(first, len(plan)):
            done = i + 1 == len(plan)
            after = Position(epoch + 1, 0) if done else Position(epoch, i + 1)
            yield store.batch(plan[i]), after, epoch + (i + 1) / len(plan)
        epoch, first = epoch + 1, 0
