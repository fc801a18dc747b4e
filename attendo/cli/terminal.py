"""How progress looks on a terminal: on standard error, so that results on standard output stay clean.

rich is imported for the first bar, since it takes longer than to translate a sentence.
"""

import sys
import time
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn, TaskID

T = TypeVar("T")

PLAIN_SECONDS = 15.0  # between two progress lines where nothing can be overwritten, as in a log file


class Terminal:
    """A `Reporter` for people. Where standard error is no terminal, progress becomes a line now and then."""

    def __init__(self) -> None:
        self.bar: Progress | None = None
        self.task: TaskID | None = None
        self.last_line = 0.0

    @cached_property
    def console(self) -> "Console":
        from rich.console import Console

        return Console(stderr=True, highlight=False, soft_wrap=True)

    @property
    def is_terminal(self) -> bool:
        return sys.stderr.isatty() and self.console.is_terminal

    def say(self, text: str) -> None:
        if self.is_terminal:
            self.console.print(text, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def track(self, items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
        if not self.is_terminal:
            yield from items
            return
        from rich.progress import TimeRemainingColumn

        self.close()  # two live lines would write over each other
        with self._progress(TimeRemainingColumn(compact=True)) as bar:
            task = bar.add_task(what, total=total)
            for item in items:
                yield item
                bar.advance(task)

    def progress(self, step: int, steps: int, text: str) -> None:
        if not self.is_terminal:
            if step == steps or time.monotonic() - self.last_line >= PLAIN_SECONDS:
                self.last_line = time.monotonic()
                self.say(f"step {step:,}/{steps:,}  {text}")
            return
        if self.bar is None:
            self.bar = self._progress()
            self.task = self.bar.add_task("", total=steps)
            self.bar.start()
        assert self.task is not None
        self.bar.update(self.task, completed=step, description=text)
        if step == steps:
            self.close()

    def close(self) -> None:
        """Ends the progress line, so that what is written next stands below it."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = self.task = None

    def _progress(self, *more: "ProgressColumn") -> "Progress":
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (TextColumn("{task.description}", markup=False), BarColumn(12), MofNCompleteColumn())
        return Progress(*columns, *more, console=self.console, transient=True)
