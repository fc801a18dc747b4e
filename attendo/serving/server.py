"""An application on a port, until a signal comes."""

import gc
import socket
import sys
from types import FrameType

import uvicorn
from fastapi import FastAPI

from attendo.errors import ConfigError
from attendo.serving import log
from attendo.serving.service import Service

KEEP_ALIVE = 75  # seconds of an idle connection: longer than a proxy keeps it, or that would use a dead one
SWITCH = 0.001  # seconds after which a thread that computes lets the one go on that answers


class Server(uvicorn.Server):
    """After SIGTERM or Ctrl-C new work is refused, what is under way is finished, and the server ends.

    A second signal ends it at once. uvicorn itself would close its port first, so that nobody would be told why, and
    would end by the signal.
    """

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        for one in sockets or ():
            log.event("serving", url=_url(one), models=list(self.service.models.translators))

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.service.stopping:
            self.should_exit = self.force_exit = True
        self.service.stopping = True

    async def on_tick(self, counter: int) -> bool:
        if self.service.stopping and not self.service.open:
            self.should_exit = True
        return await super().on_tick(counter)


def bound(host: str, port: int) -> socket.socket:
    """A socket on this address; port 0 is any that is free."""
    # With the protocol spelled out asyncio knows that it is TCP, and has small answers sent without a delay.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise ConfigError(
            f"--host {host} --port {port}: cannot listen there: {error.strerror or error}. Choose another address or "
            "port, or end what listens there."
        ) from None
    return made


def serve(app: FastAPI, service: Service, at: socket.socket) -> None:
    """Answers until a signal comes and what is under way then is done."""
    sys.setswitchinterval(SWITCH)
    gc.collect()
    gc.freeze()  # what is loaded stays; to look through it again and again would hold up all for a tenth of a second
    server(app, service).run(sockets=[at])
    log.event("stopped")


def server(app: FastAPI, service: Service) -> Server:
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="on",
        ws="none",
        timeout_keep_alive=KEEP_ALIVE,
        server_header=False,
    )
    return Server(config, service)


def _url(at: socket.socket) -> str:
    host, port = at.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
