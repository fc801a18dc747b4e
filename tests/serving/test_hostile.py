"""Bodies that nobody in their right mind would send: refused with JSON, never a fault, and nothing hangs."""

import contextlib
import json
import random
import socket
import string
import time
from collections import Counter

import pytest

PATHS = (
    "/v1/translate",
    "/v1/translate/stream",
    "/v1/alternatives",
    "/v1/document",
    "/v1/score",
    "/translate",
    "/detect",
)
STREAMS = ("/v1/translate/stream", "/v1/document")
KINDS = ("application/json", "application/x-www-form-urlencoded", "text/plain", "multipart/form-data", "", "x" * 300)
TEXTS = (
    "<script>alert(1)</script> one",
    "{{7*7}} ${7*7} %s%n {name!r} __import__('os')",
    "../../../../etc/passwd",
    "'; DROP TABLE models; --",
    "\u202eevif\u202c \u200fone\u200e \ufeff",
    "\x00\x01\x02\x07\x1b[31m\x7f\x85",
    "\ud800 half",
    "one\r\nSet-Cookie: x=1\r\n\r\n",
    "\U0010ffff\ufffe\uffff",
    "e\u0301" * 50,
    "a" * 300,
    "." * 500,
    "<" * 500,
    "<b>" * 60 + "one" + "</b>" * 60,
    "٣ ௧ Ⅳ ① one",
    " \n\t\u2028\u3000 ",
    "https://" + "a" * 500 + " one",
    "{" * 200 + "}" * 200,
)
NUMBERS: tuple[object, ...] = (0, -1, 1, 2, 10**18, 10**400, -(10**30), 1.5, 1e308, True, None, "7", [], {})


def nested(depth: int) -> bytes:
    return b'{"text": ' + b"[" * depth + b"]" * depth + b"}"


BROKEN = (
    b"",
    b"{",
    b'{"text": "one"',
    b"\xff\xfe\x00\x00",
    b'{"text": "\xc3\x28"}',
    b'{"text": "\xed\xa0\x80"}',
    b'{"text": "\\ud800"}',
    b'{"text": NaN}',
    b'{"text": "one", "beam": NaN}',
    b'{"text": "one", "beam": Infinity}',
    b'{"text": "one", "beam": 1e400}',
    b'{"text": "one", "beam": ' + b"9" * 5000 + b"}",
    b'{"\\ud800": 1}',
    b'{"text": "one", "text": "two"}',
    b'\xef\xbb\xbf{"text": "one"}',
    '{"text": "one"}'.encode("utf-16"),
    b"null",
    b"[]",
    b'"one"',
    nested(100),
    nested(50_000),
    b"{" * 50_000,
    b'{"a":' * 20_000,
    b"q=%ff%fe&source=en&target=de",
    b"q=one&q=two&source=auto&target=de&alternatives=1e9",
    b"&" * 20_000,
    b"q=" + b"%" * 5000,
    b"%00=%00",
)
FINE = (b'{"text": "one", "text": "two"}', b'\xef\xbb\xbf{"text": "one"}')  # the last one wins; a byte order mark


FIELDS = {
    "/v1/translate": ("text", "model", "source", "target", "beam", "n_best", "max_length", "prefix", "glossary"),
    "/v1/translate/stream": ("text", "model", "source", "target", "max_length", "prefix", "glossary"),
    "/v1/alternatives": ("text", "sentence", "prefix", "model", "source", "target", "glossary"),
    "/v1/document": ("name", "content", "model", "source", "target", "glossary"),
    "/v1/score": ("text", "translation", "model", "source", "target"),
    "/translate": ("q", "source", "target", "format", "alternatives", "api_key"),
    "/detect": ("q", "api_key"),
}
NEEDED = {"text", "translation", "q", "name", "content"}
FITTING = {
    "model": "numerals",
    "source": "en",
    "target": "de",
    "beam": 3,
    "n_best": 2,
    "max_length": 5,
    "format": "html",
    "sentence": 0,
    "name": "a.html",
}


def question(generator: random.Random, path: str) -> dict[str, object]:
    """Some of the fields that a path has, with values that fit, look odd, or cannot be."""

    def text() -> str:
        return generator.choice(TEXTS)

    values: dict[str, object] = {}
    for name in FIELDS[path]:
        if (
            name not in NEEDED
            and not (path == "/translate" and name in ("source", "target"))
            and generator.random() < 0.7
        ):
            continue
        kind = generator.random()
        if kind < 0.1:
            values[name] = generator.choice(NUMBERS)
        elif name == "glossary":
            values[name] = {generator.choice(["one", text()]): text()}
        elif name in FITTING and kind < 0.9:
            values[name] = FITTING[name]
        else:
            values[name] = [text(), text()] if kind > 0.9 else text()
    if generator.random() < 0.1:
        values[generator.choice(string.ascii_letters)] = text()
    return values


def body(generator: random.Random, path: str) -> bytes:
    """A broken one, or a question, as it is or with bytes changed."""
    if generator.random() < 0.15:
        return generator.choice(BROKEN)
    asked = json.dumps(question(generator, path), ensure_ascii=generator.random() < 0.5)
    found = bytearray(asked.encode("utf-8", "surrogatepass"))
    if generator.random() < 0.3:
        for _ in range(generator.randint(1, 4)):
            found[generator.randrange(len(found))] = generator.randrange(256)
    return bytes(found)


def attack(server, n: int, *, seed: int, paths: tuple[str, ...] = PATHS) -> None:
    generator = random.Random(seed)
    statuses: Counter[int] = Counter()
    connection = server.connection()
    for _ in range(n):
        path, kind = generator.choice(paths), generator.choice((KINDS[0],) * 20 + KINDS)
        sent = body(generator, path)
        began = time.monotonic()
        connection.request("POST", path, sent, {"Content-Type": kind})
        response = connection.getresponse()
        answer = response.read()
        assert time.monotonic() - began < 20
        statuses[response.status] += 1
        assert response.status < 500, (path, kind, sent[:300], answer)
        if response.status == 200 and path in STREAMS:
            assert answer.startswith(b"event: ")
        elif response.status == 200:
            assert json.loads(answer)
        else:
            assert isinstance(json.loads(answer)["error"], str)
    connection.close()
    assert min(statuses[200], statuses[422], statuses[400]) > n / 20, statuses
    assert server.get("/ready").status == 200
    server.until(lambda: server.service.open == 0 and server.service.queue.waiting == 0)


def test_a_few_hundred_hostile_bodies(server):
    attack(server, 300, seed=1, paths=tuple(path for path in PATHS if path != "/v1/alternatives"))  # which takes long


@pytest.mark.proof
def test_ten_thousand_hostile_bodies(server):
    attack(server, 10_000, seed=2)


@pytest.mark.parametrize("broken", BROKEN, ids=range(len(BROKEN)))
@pytest.mark.parametrize("path", ["/v1/translate", "/translate"])
def test_every_broken_body_is_refused(server, path, broken):
    reply = server.post(path, broken)
    if broken in FINE and path == "/v1/translate":
        assert reply.status == 200
        return
    assert reply.status in (400, 422), reply.body
    assert isinstance(reply.json()["error"], str)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/translate HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/translate HTTP/1.1\r\nHost: a\r\nContent-Length: " + b"9" * 40 + b"\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /%ff%00%2e%2e/ HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
    ids=range(6),
)
def test_what_is_hardly_http(server, request_bytes):
    answer = b""
    began = time.monotonic()
    with socket.create_connection(server.address, timeout=30) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(request_bytes)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(1000)
    assert time.monotonic() - began < 20
    assert answer == b"" or answer.split()[1].startswith(b"4"), answer
    assert server.get("/health").status == 200
