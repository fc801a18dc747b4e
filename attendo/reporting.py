"""How long work tells what it is doing: the library speaks to a `Reporter`, the command line decides how it looks."""

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

T = TypeVar("T")


class Reporter(Protocol):
    """Where progress goes. Results never go here."""

    def say(self, text: str) -> None:
        """A line that stays."""

    def track(self, items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
        """The same items, with a progress bar while they are consumed."""

    def progress(self, step: int, steps: int, text: str) -> None:
        """The one line of a training run, replaced by the next."""


class Silent:
    """Says nothing."""

    def say(self, text: str) -> None:
        pass

    def track(self, items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:  # noqa: ARG002
        yield from items

    def progress(self, step: int, steps: int, text: str) -> None:
        pass


def duration(seconds: float) -> str:
    """A time as people say it: 45 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def lost_ends(n_cut: int, n: int, *, max_length: int) -> str:
    """That of n texts so many were too long for a model."""
    return f"{n_cut:,} of {n:,} texts lost their end: longer than {max_length} pieces."
