"""Standard input as it comes: read by a thread of its own, and handed over in chunks while more is being read."""

import contextlib
import itertools
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from queue import Empty, Queue
from typing import TypeVar, cast

from attendo.errors import ConfigError

T = TypeVar("T")

AT_ONCE = 5000  # lines that are sorted and translated together; so many more are read meanwhile, and no further ones
FIRST = 500  # of the first chunk, so that something is to be seen soon
SECONDS = 0.1  # that a line waits for others to come with it
PATIENCE = 0.5  # seconds of one wait for input; Windows hears of Ctrl-C only between two


@dataclass(frozen=True)
class _End:
    """After the last item, with what ended it, if that was an error."""

    error: BaseException | None


def arriving(
    items: Iterator[T], *, first: int = FIRST, at_once: int = AT_ONCE, seconds: float = SECONDS
) -> Iterator[list[T]]:
    """The items in chunks of at most `first`, then `at_once`: what has come within `seconds` of a chunk's first item.

    So an input that trickles is answered promptly, and one that is there already is cut into full chunks. An error of
    the input is raised after the chunk of what came before it.
    """
    queue: Queue[T | _End] = Queue(maxsize=at_once)

    def read() -> None:
        error: BaseException | None = None
        try:
            for item in items:
                queue.put(item)
        except BaseException as caught:
            error = caught
        queue.put(_End(error))

    threading.Thread(target=read, daemon=True).start()  # it may wait for ever: nothing waits for it
    for most in itertools.chain([first], itertools.repeat(at_once)):
        chunk: list[T] = []
        item = _next(queue)
        deadline = time.monotonic() + seconds
        while not isinstance(item, _End):
            chunk.append(item)
            if len(chunk) == most:
                break
            try:
                item = queue.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                break
        if chunk:
            yield chunk
        if isinstance(item, _End):
            if item.error is not None:
                raise item.error
            return


def _next(queue: "Queue[T]") -> T:
    """The next item, however long it takes."""
    while True:
        with contextlib.suppress(Empty):
            return queue.get(timeout=PATIENCE)


def standard_input() -> BufferedReader:
    """The bytes of standard input, by an object of its own.

    A thread that waits on sys.stdin holds its lock, without which Python cannot end.
    """
    if sys.stdin is None:
        raise ConfigError("standard input is closed. Use --text, or < FILE.")
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)  # it is not ours to close
    except OSError:  # there is no file behind it
        return cast(BufferedReader, sys.stdin.buffer)
