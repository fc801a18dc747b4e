"""What a server says: one JSON object a line, on standard error."""

import datetime
import json
import logging
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

LOGGER = logging.getLogger("attendo.serving")


class JsonLines(logging.Formatter):
    """time, level and event, then whatever facts came with it."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        line: dict[str, Any] = {
            "time": when.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line)


class Logged:
    """A `Reporter` whose lines go to the log, too."""

    def say(self, text: str) -> None:
        LOGGER.info(text)

    def track(self, items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:  # noqa: ARG002
        yield from items

    def progress(self, step: int, steps: int, text: str) -> None:
        pass


def configure(*, quiet: bool) -> None:
    """Lines of attendo and uvicorn go to standard error; quiet: only what went wrong."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("attendo", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(logging.WARNING if quiet else logging.INFO)


def event(what: str, **facts: Any) -> None:
    LOGGER.info(what, extra={"facts": facts})


def failure(what: str, error: BaseException, **facts: Any) -> None:
    LOGGER.error(what, exc_info=error, extra={"facts": facts})
