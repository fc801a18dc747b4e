"""Which sentences are translated together, and which batches at the same time."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Batch = Sequence[int]
T = TypeVar("T")


def sorted_batches(lengths: Sequence[int], *, batch_size: int | None, batch_tokens: int) -> list[list[int]]:
    """Sentences of like length together, longest first: at most so many sentences and positions."""
    batches: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        longest = lengths[batches[-1][0]] + 1 if batches else 0
        full = not batches or len(batches[-1]) == batch_size or (len(batches[-1]) + 1) * longest > batch_tokens
        if full:
            batches.append([])
        batches[-1].append(i)
    return batches


def side_by_side(
    work: Callable[[Batch], T], batches: Sequence[Batch], *, workers: int, prepare: Callable[[], None] | None = None
) -> Iterator[tuple[Batch, T]]:
    """Each batch with what becomes of it, in so many threads, each of which prepares itself; for one none is needed."""
    if min(workers, len(batches)) < 2:
        yield from ((batch, work(batch)) for batch in batches)
        return
    with ThreadPoolExecutor(workers, initializer=prepare) as pool:
        try:
            yield from zip(batches, pool.map(work, batches), strict=True)
        finally:
            pool.shutdown(cancel_futures=True)  # nobody wants the rest any more
