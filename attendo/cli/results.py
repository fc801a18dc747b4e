"""Results go to standard output, and nothing else does."""

import contextlib
import sys
from collections.abc import Iterator
from typing import TextIO

from attendo.errors import ConfigError


class ReaderGoneError(Exception):
    """Nobody reads our results any more, as with `| head`. (For a broken pipe itself, click would end with 1.)"""


def output(text: str) -> None:
    """A line of results, in UTF-8 whatever the locale, ended by a line feed alone."""
    raw_output(text + "\n")


def raw_output(text: str) -> None:
    """Results just as they are, in UTF-8."""
    with _somebody_reads():
        require_output().buffer.write(text.encode("utf-8"))


def flush() -> None:
    """Hands over what was written so far, to whoever waits for it."""
    with _somebody_reads():
        require_output().buffer.flush()


def require_output() -> TextIO:
    """Standard output, which whoever starts a command can close."""
    if sys.stdout is None:
        raise ConfigError("standard output is closed, so there is no place for results. Use > FILE.")
    return sys.stdout


@contextlib.contextmanager
def _somebody_reads() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise ReaderGoneError from None
