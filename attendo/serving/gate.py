"""What every request goes through, whatever it asks for: its size, a number of its own, the log, the metrics."""

import asyncio
import time
import uuid
from collections.abc import Collection

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attendo.errors import AttendoError
from attendo.serving import log
from attendo.serving.limits import Refusal
from attendo.serving.service import Service
from attendo.serving.wire import problem, refusal, refused

METHODS = ("GET", "HEAD", "POST", "OPTIONS")
GONE = 499  # nginx's status for a client that did not wait for its answer
HEARD = 16  # times the largest body is read of a larger one, for nobody: a client that still sends hears no answer


class ClientGoneError(Exception):
    """Nobody waits for the answer any more."""


class Gate:
    """Reads the body of what is welcome, as far as it may be, before anything else looks at it, and sees every answer.

    endpoints: the paths there are; all others share a label in the metrics. working: those that need the models. What
    an endpoint puts into the scope's `facts` gets into the log.
    """

    def __init__(self, app: ASGIApp, *, service: Service, endpoints: Collection[str], working: Collection[str]) -> None:
        self.app = app
        self.service = service
        self.limits = service.limits
        self.metrics = service.metrics
        self.endpoints = frozenset(endpoints)
        self.working = frozenset(working)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        number = uuid.uuid4().hex[:16]
        facts = scope["facts"] = {}
        status = GONE

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                more = [(b"x-request-id", number.encode()), (b"x-content-type-options", b"nosniff")]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        instead: Response | None = None
        try:
            if scope["path"] in self.working:  # refusing must cost little, or a server that is too busy gets busier
                self.service.require_welcome()
            await self.app(scope, await self._with_body(receive), sent)
        except ClientGoneError:
            pass
        except Refusal as error:
            self.metrics.refusal(error.limit or str(error.status))
            instead = refusal(error)
        except AttendoError as error:
            instead = refused(422, problem(str(error)))
        except Exception as error:
            self.metrics.error()
            log.failure("error", error, id=number, path=scope["path"])
            instead = refused(500, problem(f"a fault of the server; its log has it under {number}."))
        if instead is not None and status == GONE:  # no answer has begun
            await instead(scope, receive, sent)
        seconds = time.perf_counter() - began
        endpoint = scope["path"] if scope["path"] in self.endpoints else "other"
        method = scope["method"] if scope["method"] in METHODS else "other"
        self.metrics.request(endpoint=endpoint, method=method, status=status, seconds=seconds)
        log.event(
            "request",
            id=number,
            client=scope["client"][0] if scope["client"] else None,
            method=scope["method"],
            path=scope["path"],
            status=status,
            ms=round(1000 * seconds, 1),
            **facts,
        )

    async def _with_body(self, receive: Receive) -> Receive:
        """A `receive` that has the whole body at once, and then goes on as the given one."""
        try:
            async with asyncio.timeout(self.limits.seconds):
                whole: Message | None = {"type": "http.request", "body": await self._body(receive), "more_body": False}
        except TimeoutError:
            raise Refusal(
                408,
                f"the body did not come within {self.limits.seconds:g} seconds.",
                limit="seconds",
                value=self.limits.seconds,
            ) from None

        async def received() -> Message:
            nonlocal whole
            if whole is None:
                return await receive()
            message, whole = whole, None
            return message

        return received

    async def _body(self, receive: Receive) -> bytes:
        most = self.limits.body_bytes
        body, length, more = bytearray(), 0, True
        while more and length <= HEARD * most:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            part, more = message.get("body", b""), message.get("more_body", False)
            length += len(part)
            if length <= most:
                body += part
        self.limits.require("body_bytes", length, "body, in bytes", status=413)
        try:
            body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Refusal(400, f"the body is not UTF-8: its byte {error.start} cannot be there.") from None
        return bytes(body)
