"""What is refused, and how."""

import copy
import dataclasses
import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from attendo.serving import log
from attendo.serving.keys import Key, Keys
from attendo.serving.limits import Limits
from tests.serving.running import running

SMALL = Limits(
    body_bytes=2000, characters=100, sentences=5, beam=3, max_length=17, terms=2, requests=3, queue=7, seconds=30
)


@pytest.fixture(scope="module")
def strict(tiny):
    with running({"numerals": tiny}, limits=SMALL) as found:
        yield found


@pytest.mark.parametrize(
    ("question", "status", "limit", "value"),
    [
        ({"text": "x" * 2100}, 413, "body_bytes", 2000),
        ({"text": "one " * 26}, 422, "characters", 100),
        ({"text": ["one"] * 6}, 422, "sentences", 5),
        ({"text": "One. Two. Three. Four. Five. Six."}, 422, "sentences", 5),
        ({"text": "one.", "beam": 4}, 422, "beam", 3),
        ({"text": "one.", "beam": 10**300}, 422, "beam", 3),
        ({"text": "one.", "max_length": 18}, 422, "max_length", 17),
        ({"text": "one.", "glossary": {"a": "b", "c": "d", "e": "f"}}, 422, "terms", 2),
        ({"text": "one.", "glossary": {"a": "b" * 100}}, 422, "characters", 100),
    ],
)
def test_a_request_past_a_limit(strict, question, status, limit, value):
    reply = strict.post("/v1/translate", question)
    assert reply.status == status
    assert (reply.json()["limit"], reply.json()["value"]) == (limit, value)
    assert str(value) in reply.json()["error"]
    assert f'attendo_refusals_total{{limit="{limit}"}}' in strict.get("/metrics").body.decode()


def test_what_is_just_within_the_limits(strict):
    question = {"text": ["one."] * 5, "beam": 3, "max_length": 17, "glossary": {"a": "b", "c": "d"}}
    assert strict.post("/v1/translate", question).status == 200


def test_the_other_paths_have_limits_too(strict):
    assert strict.post("/v1/translate/stream", {"text": "one " * 26}).json()["limit"] == "characters"
    assert strict.post("/v1/score", {"text": "one " * 20, "translation": "eins" * 20}).json()["limit"] == "characters"
    assert strict.post("/v1/score", {"text": ["1"] * 6, "translation": ["1"] * 6}).json()["limit"] == "sentences"
    long = {"text": "one", "translation": "xq" * 40}
    assert strict.post("/v1/score", long).json()["limit"] == "max_length"
    question = {"q": "one " * 26, "source": "en", "target": "de"}
    assert strict.post("/translate", question).json()["limit"] == "characters"
    assert strict.post("/detect", {"q": "one " * 26}).json()["limit"] == "characters"


def test_a_body_that_does_not_say_its_length(strict):
    connection = strict.connection()
    parts = (b'{"text": "' + b"x" * 1000 for _ in range(5))
    connection.request("POST", "/v1/translate", parts, {"Content-Type": "application/json"}, encode_chunked=True)
    response = connection.getresponse()
    assert response.status == 413
    assert json.loads(response.read())["limit"] == "body_bytes"
    connection.close()


WAITS = 10.0  # seconds: an answer in less has not waited for a search


def waiting(tiny, monkeypatch):
    """A translator whose searches wait for a signal, and the signal."""
    other, signal = copy.copy(tiny), threading.Event()

    def search(sentences, *arguments, **options):
        signal.wait(WAITS)
        return tiny.search(sentences, *arguments, **options)

    monkeypatch.setattr(other, "search", search)
    return other, signal


def test_a_server_that_is_too_busy_refuses_at_once(tiny, monkeypatch):
    translator, signal = waiting(tiny, monkeypatch)
    with running({"slow": translator}, limits=SMALL) as server, ThreadPoolExecutor(3) as pool:
        under_way = [pool.submit(server.post, "/v1/translate", {"text": "one."}) for _ in range(3)]
        server.until(lambda: server.service.open == 3)
        for path, question in (
            ("/v1/translate", {"text": "one."}),
            ("/v1/translate/stream", {"text": "one."}),
            ("/v1/score", {"text": "one.", "translation": "eins."}),
            ("/translate", {"q": "one.", "source": "en", "target": "de"}),
        ):
            began = time.monotonic()
            reply = server.post(path, question)
            assert time.monotonic() - began < WAITS / 2
            assert (reply.status, reply.json()["limit"], reply.json()["value"]) == (503, "requests", 3)
            assert int(reply.headers["retry-after"]) >= 1
        assert server.get("/health").status == 200
        signal.set()
        assert [one.result().status for one in under_way] == [200] * 3


def test_a_full_queue(tiny, monkeypatch):
    with running({"numerals": tiny}, limits=SMALL) as server:
        monkeypatch.setattr(type(server.service.queue), "waiting", property(lambda _: 3))
        assert server.post("/v1/translate", {"text": ["one."] * 4}).status == 200
        reply = server.post("/v1/translate", {"text": ["one."] * 5})
        assert (reply.status, reply.json()["limit"], reply.json()["value"]) == (503, "queue", 7)
        assert int(reply.headers["retry-after"]) >= 1


def test_a_request_that_takes_too_long(tiny, monkeypatch):
    translator, signal = waiting(tiny, monkeypatch)
    with running({"slow": translator}, limits=Limits(seconds=0.3)) as server:
        began = time.monotonic()
        reply = server.post("/v1/translate", {"text": "one."})
        assert 0.3 <= time.monotonic() - began < WAITS / 2
        assert (reply.status, reply.json()["limit"], reply.json()["value"]) == (503, "seconds", 0.3)
        assert int(reply.headers["retry-after"]) >= 1
        assert server.service.queue.waiting == server.service.open == 0
        signal.set()


def test_what_would_take_too_long_is_refused_at_once(tiny):
    with running({"numerals": tiny}, limits=Limits(seconds=2)) as server:
        assert server.post("/v1/translate", {"text": "one."}).status == 200
        server.service.queue._speed = 1.0
        reply = server.post("/v1/translate", {"text": "one."})
        assert (reply.status, reply.json()["limit"]) == (503, "seconds")


def test_a_body_that_never_comes(tiny):
    with running({"numerals": tiny}, limits=Limits(seconds=0.3)) as server:
        connection = server.connection()
        connection.putrequest("POST", "/v1/translate")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", "100")
        connection.endheaders()
        response = connection.getresponse()
        assert (response.status, json.loads(response.read())["limit"]) == (408, "seconds")
        connection.close()


def test_keys(tiny):
    keys = Keys([Key.of("seldom", 2), Key.of("often")])
    question = {"text": "one."}
    with running({"numerals": tiny}, keys=keys) as server:
        for path in ("/health", "/ready", "/metrics", "/languages", "/openapi.json"):
            assert server.get(path).status == 200
        for path in ("/v1/translate", "/v1/translate/stream", "/v1/score"):
            reply = server.post(path, {**question, **({"translation": "eins."} if path == "/v1/score" else {})})
            assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer")
            assert "needs an API key" in reply.json()["error"]
        assert server.post("/v1/translate", question, Authorization="Bearer wrong").status == 401
        assert server.post("/v1/translate", question, Authorization="Basic often").status == 401
        for _ in range(5):
            assert server.post("/v1/translate", question, Authorization="Bearer often").status == 200
        for status in (200, 200, 429):
            reply = server.post("/v1/translate", question, Authorization="Bearer seldom")
            assert reply.status == status
        assert (reply.json()["limit"], reply.json()["value"]) == ("requests_per_minute", 2)
        assert 1 <= int(reply.headers["retry-after"]) <= 30
        libre = {"q": "one.", "source": "en", "target": "de"}
        assert server.post("/translate", libre).status == 401
        assert server.post("/translate", {**libre, "api_key": "wrong"}).status == 401
        assert server.post("/translate", {**libre, "api_key": "often"}).json() == {"translatedText": "eins."}
        assert server.post("/detect", {"q": "one."}).status == 401
        assert server.form("/detect", "q=one&api_key=often").status == 200


def logged(caplog):
    return [json.loads(log.JsonLines().format(record)) for record in caplog.records]


@pytest.mark.parametrize("log_text", [False, True])
def test_the_log_has_no_text_unless_asked_for(tiny, caplog, log_text):
    caplog.set_level("INFO", "attendo.serving")
    with running({"numerals": tiny}, log_text=log_text) as server:
        reply = server.post("/v1/translate", {"text": ["one two.", "five."]}, Authorization="Bearer sesame")
        server.get("/health")
        server.until(lambda: len(caplog.records) >= 3)
    _, request, health = logged(caplog)[:3]
    assert request["event"] == "request"
    assert request["id"] == reply.headers["x-request-id"]
    assert (request["method"], request["path"], request["status"]) == ("POST", "/v1/translate", 200)
    assert (request["model"], request["texts"], request["characters"]) == ("numerals", 2, 13)
    assert request["client"] == "127.0.0.1"
    assert request["ms"] > 0
    assert (health["path"], "model" in health) == ("/health", False)
    assert ("text" in request) is log_text
    words = json.dumps(logged(caplog))
    assert ("five" in words) is log_text
    assert "sesame" not in words


def test_the_documented_limits_are_the_defaults():
    text = (Path(__file__).parent.parent.parent / "docs/serving.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `--limit-([\w-]+)` \| .+? \| ([\d.]+) \| .+ \|$", text, re.MULTILINE)
    assert {name.replace("-", "_"): float(value) for name, value in rows} == dataclasses.asdict(Limits())
