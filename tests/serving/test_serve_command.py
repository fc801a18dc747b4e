"""`attendo serve` as a process: signals, restarts, what it says."""

import json
import logging
import signal
import socket
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.cli.command import attendo
from tests.numerals import sentence_pairs
from tests.serving.running import PATIENCE, Client, Reply, process

SENTENCES = [source for source, _ in sentence_pairs(600, seed=3)]
LONG = {"text": SENTENCES, "beam": 10, "n_best": 5}


@pytest.fixture(autouse=True)
def logging_as_before():
    """The command sets up the log of its process, which here is the tests' own."""
    loggers = [logging.getLogger(name) for name in ("attendo", "uvicorn")]
    before = [(one.handlers, one.propagate, one.level) for one in loggers]
    yield
    for one, (handlers, propagate, level) in zip(loggers, before, strict=True):
        one.handlers, one.propagate = handlers, propagate
        one.setLevel(level)


def test_signals_and_restarts(trained):
    """SIGKILL loses what is under way and nothing else; SIGTERM finishes it, refuses new work, and ends with 0."""
    with ThreadPoolExecutor(2) as pool:
        with process(trained.path, "--port", 0) as (killed, client):
            _, port = client.address
            before = client.post("/v1/translate", {"text": "five green."}).json()["translations"]
            under_way = long_work(pool, client)
            killed.send_signal(signal.SIGKILL)
            assert killed.wait(PATIENCE) == -signal.SIGKILL
            assert under_way.exception(PATIENCE) is not None
        with process(f"mine={trained.path}", "--port", port) as (ended, client):
            assert client.url == f"http://127.0.0.1:{port}"
            again = client.post("/v1/translate", {"text": "five green.", "model": "mine"}).json()["translations"]
            assert [one["text"] for one in again] == [one["text"] for one in before] == ["fünf grün."]
            under_way = long_work(pool, client)
            ended.send_signal(signal.SIGTERM)
            while client.get("/ready").status == 200:
                assert not under_way.done()
            refused = client.post("/v1/translate", {"text": "one."})
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            assert "is stopping" in refused.json()["error"]
            assert client.get("/health").status == 200
            finished = under_way.result(PATIENCE)
            assert finished.status == 200
            assert len(finished.json()["translations"]) == len(SENTENCES)
            assert ended.wait(PATIENCE) == 0
            assert ended.stderr is not None
            said = [json.loads(line) for line in ended.stderr]
            assert [line["path"] for line in said if line["event"] == "request"].count("/v1/translate") == 3
            assert said[-1]["event"] == "stopped"


def long_work(pool: ThreadPoolExecutor, client: Client) -> Future[Reply]:
    """A request that takes long, once the server has it."""
    under_way = pool.submit(client.post, "/v1/translate", LONG)
    while b"attendo_open_requests 1.0" not in client.get("/metrics").body:
        assert not under_way.done()
    return under_way


def test_a_port_that_is_taken(trained):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = attendo("serve", trained.path, "--port", port)
    assert (result.code, result.out) == (2, "")
    assert f"--host 127.0.0.1 --port {port}: cannot listen there: Address already in use." in result.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["serve"], 2, "Missing argument 'BUNDLE...'"),
        (["serve", "nowhere", "--port", "0"], 4, "there is no folder nowhere"),
        (["serve", "a/x", "b/x"], 2, "is called 'x' already"),
        (["serve", "x", "--api-keys", "nowhere"], 2, "--api-keys nowhere: the file cannot be read"),
        (["serve", "x", "--limit-beam", "0"], 2, "0 is not in the range x>=1"),
        (["serve", "x", "--port", "70000"], 2, "70000 is not in the range"),
    ],
)
def test_what_cannot_be_served(arguments, code, words):
    result = attendo(
        *arguments, *([] if arguments == ["serve"] else ["--port", "0"][: 2 * ("--port" not in arguments)])
    )
    assert (result.code, result.out) == (code, "")
    assert words in result.err


def test_help_waits_for_nothing_heavy():
    code = "import sys; from attendo.cli.main import run; sys.argv[1:] = ['serve', '--help']\n"
    code += "try:\n    run()\nfinally:\n"
    code += "    sys.exit(bool({'torch', 'fastapi', 'uvicorn', 'pydantic', 'ctranslate2'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "--limit-requests" in done.stdout
