"""Threads that compute while the event loop answers."""

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

NICE = 5


def stand_back() -> None:
    """Lets the event loop go first on a busy machine, also before the threads that this one starts.

    Only Linux has a niceness for each thread.
    """
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


class _End:
    """After the last item, with what ended it, if that was an error."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


@contextlib.asynccontextmanager
async def iterated(pool: ThreadPoolExecutor, start: Callable[[], Iterator[T]]) -> AsyncIterator[AsyncIterator[T]]:
    """The items of an iterator, each as soon as there is one. Left early, the iterator is closed at its next item."""
    loop = asyncio.get_running_loop()
    items: asyncio.Queue[T | _End] = asyncio.Queue()
    left = threading.Event()

    def run() -> None:
        error: BaseException | None = None
        try:
            for item in start():
                if left.is_set():
                    return
                loop.call_soon_threadsafe(items.put_nowait, item)
        except BaseException as caught:
            error = caught
        finally:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(items.put_nowait, _End(error))

    async def read() -> AsyncIterator[T]:
        while not isinstance(item := await items.get(), _End):
            yield item
        if item.error is not None:
            raise item.error

    running = pool.submit(run)
    try:
        yield read()
    finally:
        left.set()
        running.cancel()
