"""Between HTTP and the service: who may ask, whether they still wait for the answer, and what the log is told."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from starlette.requests import Request

from attendo.serving.gate import ClientGoneError
from attendo.serving.keys import Keys
from attendo.serving.service import Service

T = TypeVar("T")


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
