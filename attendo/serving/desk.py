"""Between HTTP and the service: who may ask, whether they still wait for the answer, and what the log is told."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from attendo.errors import AttendoError
from attendo.serving import log, wire
from attendo.serving.gate import ClientGoneError
from attendo.serving.keys import Keys
from attendo.serving.limits import Refusal
from attendo.serving.service import Service

T = TypeVar("T")
Event = tuple[str, wire.Answer]


class Desk:
    """keys: who may ask for work; None is everybody. log_text: texts get into the log."""

    def __init__(self, service: Service, *, keys: Keys | None = None, log_text: bool = False) -> None:
        self.service = service
        self.keys = keys
        self.log_text = log_text

    def admit(self, request: Request, key: str | None = None) -> None:
        """Refuses whoever has no key, in a header or as given here."""
        if self.keys is not None:
            scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
            self.keys.admit(bearer.strip() if scheme.lower() == "bearer" else key)

    async def require_key(self, request: Request) -> None:
        """The same, as what a path depends on; a plain function would be given a thread for each request."""
        self.admit(request)

    def note(self, request: Request, model: str, texts: Sequence[str]) -> None:
        """What the log is told of a request."""
        facts = request.scope["facts"]
        facts |= {"model": model, "texts": len(texts), "characters": sum(map(len, texts))}
        if self.log_text:
            facts["text"] = list(texts)

    async def work(self, request: Request, call: Callable[[], Awaitable[T]]) -> T:
        """What a call gives, if it is let in, in time, while the client waits for it."""

        async def admitted() -> T:
            async with self.service.admitted():
                return await call()

        return await unless_gone(request, admitted())

    async def stream(self, request: Request, events: AsyncGenerator[Event]) -> Response:
        """Server-sent events, each as it comes, under the same conditions.

        What is refused before the first is refused with a status; if something fails later, the last event is `error`.
        """
        coming: asyncio.Queue[Event | Exception | None] = asyncio.Queue()

        async def produce() -> None:
            end: Exception | None = None
            try:
                async with self.service.admitted(), contextlib.aclosing(events):
                    async for event in events:
                        coming.put_nowait(event)
            except Exception as error:
                end = error
            coming.put_nowait(end)

        producing = asyncio.create_task(produce())
        try:
            first = await unless_gone(request, coming.get())
            if isinstance(first, Exception):
                raise first
        except BaseException:
            producing.cancel()
            raise

        async def sent() -> AsyncIterator[bytes]:
            event: Event | Exception | None = first
            try:
                while isinstance(event, tuple):
                    yield wire.server_sent(*event)
                    event = await coming.get()
                if event is not None:
                    yield wire.server_sent("error", self._problem(request, event))
            finally:
                producing.cancel()

        # nginx would gather the events otherwise.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(sent(), media_type="text/event-stream", headers=headers)

    def _problem(self, request: Request, error: Exception) -> wire.Problem:
        if isinstance(error, Refusal):
            return wire.problem(str(error), limit=error.limit, value=error.value)
        if isinstance(error, AttendoError):
            return wire.problem(str(error))
        self.service.metrics.error()
        log.failure("error", error, path=request.url.path)
        return wire.problem("a fault of the server.")


async def unless_gone(request: Request, work: Awaitable[T]) -> T:
    """The result of some work, which is dropped if the client goes away."""
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientGoneError
        return working.result()
    finally:
        working.cancel()
        gone.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
