"""Results go to standard output, and nothing else does."""

import sys


class ReaderGoneError(Exception):
    """Nobody reads our results any more, as with `| head`. (For a broken pipe itself, click would end with 1.)"""


def output(text: str) -> None:
    """A line of results, in UTF-8 whatever the locale, ended by a line feed alone."""
    try:
        sys.stdout.buffer.write(text.encode("utf-8") + b"\n")
    except BrokenPipeError:
        raise ReaderGoneError from None
