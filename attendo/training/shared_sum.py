"""Vectors of several processes of one machine, added up in memory that all of them see.

What gloo sends through the loopback interface is copied into the kernel and out of it again; here each process reads
what the others have written. Linux only: elsewhere, and where there is no room, gloo does it.
"""

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

FOLDER = Path("/dev/shm")  # files in memory


class SharedSum:
    """Σ_r x_r of the ranks r, for vectors of `length` numbers of float32, in the order of the ranks everywhere.

    Each rank has two rows to write into, used in turns: while the others may still read one, it writes the other, and
    before it comes back to the first all have met. The sum is each rank's own, to do with what it likes.
    """

    def __init__(self, path: str, *, rank: int, size: int, length: int) -> None:
        rows = torch.from_file(path, shared=True, size=2 * size * length, dtype=torch.float32).view(2, size, length)
        self._rows = [list(turn) for turn in rows]
        self._rank = rank
        self._turn = 0
        self._sum = torch.empty(length)

    @property
    def mine(self) -> Tensor:
        """To be filled before `total`."""
        return self._rows[self._turn][self._rank]

    def total(self, meet: Callable[[], None]) -> Tensor:
        """The sum of what all have written into `mine`; `meet` returns when every rank has called it."""
        meet()
        first, second, *others = self._rows[self._turn]
        torch.add(first, second, out=self._sum)
        for other in others:
            self._sum += other
        self._turn = 1 - self._turn
        return self._sum


def reserve(*, size: int, length: int) -> str:
    """The path of a new file with room for a `SharedSum`; empty where there can be none."""
    if not (hasattr(os, "posix_fallocate") and os.access(FOLDER, os.W_OK)):
        return ""
    number, path = tempfile.mkstemp(prefix="attendo-", dir=FOLDER)
    try:
        os.posix_fallocate(number, 0, 2 * size * length * 4)  # writing what has no room would kill the process
    except OSError:
        release(path)
        return ""
    finally:
        os.close(number)
    return path


def release(path: str) -> None:
    """Leaves the memory to those that have it open already."""
    with contextlib.suppress(FileNotFoundError):
        Path(path).unlink()
