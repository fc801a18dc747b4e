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
    work: Callable[[Batch], T], batches: Sequence[Batch], pool: ThreadPoolExecutor
) -> Iterator[tuple[Batch, T]]:
    """Each batch with what becomes of it, by the threads of a pool; one alone needs none of them.

    Where nobody wants the rest any more, what has not begun is left out.
    """
    if len(batches) < 2:
        yield from ((batch, work(batch)) for batch in batches)
        return
    results = pool.map(work, batches)
    try:
        yield from zip(batches, results, strict=True)
    finally:
        results.close()  # type: ignore[attr-defined]  # it is a generator
