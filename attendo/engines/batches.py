"""Which sentences are translated together."""

from collections.abc import Sequence


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
