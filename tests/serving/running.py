"""The real server on a free port: in a thread of the test's own process, or as a process."""

import contextlib
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from attendo.serving.app import build
from attendo.serving.keys import Keys
from attendo.serving.limits import Limits
from attendo.serving.models import Models
from attendo.serving.server import bound, server
from attendo.serving.service import Service
from attendo.translator import Translator

PATIENCE = 60  # seconds, on a busy machine


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Asks a server, each time by a connection of its own."""

    def __init__(self, url: str) -> None:
        self.url = url
        split = urlsplit(url)
        self.address = (split.hostname or "", split.port or 0)

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(*self.address, timeout=PATIENCE)

    def ask(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Reply:
        with contextlib.closing(self.connection()) as connection:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())

    def get(self, path: str) -> Reply:
        return self.ask("GET", path)

    def post(self, path: str, question: object, **headers: str) -> Reply:
        """A question as JSON, or bytes that pretend to be."""
        body = question if isinstance(question, bytes) else json.dumps(question).encode()
        return self.ask("POST", path, body, {"Content-Type": "application/json", **headers})

    def form(self, path: str, body: str) -> Reply:
        return self.ask("POST", path, body.encode(), {"Content-Type": "application/x-www-form-urlencoded"})

    def events(self, path: str, question: object) -> list[tuple[str, Any]]:
        """(event, data) of a stream."""
        reply = self.post(path, question)
        assert reply.status == 200, reply.body
        assert reply.headers["content-type"].startswith("text/event-stream")
        found = []
        for block in reply.body.decode().removesuffix("\n\n").split("\n\n"):
            event, data = block.split("\n")
            found.append((event.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
        return found


class Running(Client):
    """A server in this process."""

    def __init__(self, url: str, service: Service) -> None:
        super().__init__(url)
        self.service = service

    def until(self, condition: Any) -> None:
        """Waits until something is so."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, "it never came to be"
            time.sleep(0.005)


@contextlib.contextmanager
def running(
    translators: Mapping[str, Translator],
    *,
    limits: Limits | None = None,
    keys: Keys | None = None,
    cors: tuple[str, ...] = (),
    log_text: bool = False,
) -> Iterator[Running]:
    service = Service(Models(translators), limits or Limits())
    with bound("127.0.0.1", 0) as at:
        one = server(build(service, keys=keys, cors=cors, log_text=log_text), service)
        thread = threading.Thread(target=one.run, kwargs={"sockets": [at]}, daemon=True)
        thread.start()
        client = Running(f"http://127.0.0.1:{at.getsockname()[1]}", service)
        client.until(lambda: one.started)
        try:
            yield client
        finally:
            one.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()


@contextlib.contextmanager
def process(*arguments: object) -> Iterator[tuple[subprocess.Popen[bytes], Client]]:
    """`attendo serve` by itself, once it listens."""
    command = [sys.executable, "-m", "attendo", "serve", *map(str, arguments)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=dict(os.environ)) as started:
        try:
            assert started.stderr is not None
            for line in started.stderr:
                said = json.loads(line)
                if said["event"] == "serving":
                    break
            else:
                raise AssertionError(f"it ended with {started.wait()}")
            yield started, Client(said["url"])
        finally:
            started.kill()
