"""Input that trickles is answered promptly, input that rushes comes in chunks, and no more is read than is needed."""

import contextlib
import itertools
import queue
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import IO

import pytest

from attendo.cli import stream
from attendo.cli.stream import FIRST, arriving
from tests.untrained import sentences, untrained_bundle

SECONDS = 60.0  # that a test waits for what must come


def test_what_is_there_comes_in_full_chunks():
    chunks = list(arriving(iter(range(23)), first=7, at_once=7, seconds=SECONDS))
    assert chunks == [list(range(7)), list(range(7, 14)), list(range(14, 21)), [21, 22]]
    assert list(arriving(iter([]), at_once=7)) == []
    assert list(arriving(iter(range(7)), first=7, at_once=7, seconds=SECONDS)) == [list(range(7))]


def test_the_first_chunk_is_smaller():
    chunks = list(arriving(iter(range(23)), first=3, at_once=9, seconds=SECONDS))
    assert chunks == [list(range(3)), list(range(3, 12)), list(range(12, 21)), [21, 22]]


def test_it_waits_as_long_as_it_takes(monkeypatch):
    monkeypatch.setattr(stream, "PATIENCE", 0.01)
    typed: queue.Queue[int | None] = queue.Queue()
    chunks = arriving(iter(typed.get, None), seconds=0.01)
    threading.Timer(0.2, typed.put, [7]).start()
    assert next(chunks) == [7]
    typed.put(None)
    assert list(chunks) == []


def test_what_trickles_does_not_wait_for_more():
    typed: queue.Queue[int | None] = queue.Queue()
    chunks = arriving(iter(typed.get, None), at_once=1000, seconds=0.01)
    for number in range(3):
        typed.put(number)
        assert next(chunks) == [number]
    typed.put(None)
    assert list(chunks) == []


def test_a_steady_trickle_is_not_collected_for_ever():
    going = threading.Event()

    def steady() -> Iterator[int]:
        for number in itertools.count():
            if going.is_set():
                return
            time.sleep(0.01)
            yield number

    chunks = arriving(steady(), first=10**6, at_once=10**6, seconds=0.2)
    assert len(next(chunks)) < 1000
    going.set()


def test_no_more_is_read_than_the_next_chunk():
    read = []

    def endless() -> Iterator[int]:
        for number in itertools.count():
            read.append(number)
            yield number

    chunks = arriving(endless(), first=11, at_once=11)
    for taken in range(1, 6):
        next(chunks)
        time.sleep(0.02)
        assert len(read) <= 11 * taken + 11 + 1  # what was taken, what waits, and one in the hand


def test_an_error_comes_after_what_came_before_it():
    def broken() -> Iterator[int]:
        yield from range(9)
        raise KeyError("here")

    chunks = arriving(broken(), first=7, at_once=7, seconds=SECONDS)
    assert next(chunks) == list(range(7))
    assert next(chunks) == [7, 8]
    with pytest.raises(KeyError, match="here"):
        next(chunks)


# --- the real command -------------------------------------------------------------------------------------------------

COMMAND = """
import sys
sys.argv = ["attendo", *sys.argv[1:]]
from attendo.cli.main import run
try:
    run()
finally:
    heavy = {"torch", "numpy", "transformers", "sacrebleu", "sacremoses", "rich", "pandas"}
    print("heavy:", *sorted(heavy & {name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    bundle = untrained_bundle(tmp_path_factory.mktemp("bundle") / "run")
    return bundle.path


def started(*arguments: object) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", COMMAND, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize("aligned", [False, True])
def test_a_line_is_answered_before_the_next_one_comes(path, tmp_path, aligned):
    more = ["--alignments", tmp_path / "align"] if aligned else []
    with started("translate", path, *more) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        answers: queue.Queue[bytes] = queue.Queue()

        def read(lines: IO[bytes]) -> None:
            for line in lines:
                answers.put(line)

        threading.Thread(target=read, args=[process.stdout], daemon=True).start()
        for number, line in enumerate(sentences(3), start=1):
            process.stdin.write(line.encode() + b"\n")
            process.stdin.flush()
            assert answers.get(timeout=SECONDS).endswith(b"\n")
            assert not aligned or (tmp_path / "align").read_bytes().count(b"\n") == number
        process.stdin.close()
        assert process.wait(SECONDS) == 0
        assert answers.empty()


def test_it_ends_while_the_input_is_still_open(path):
    """Nobody reads any more, and nothing more is typed: the thread that waits for input keeps nobody."""
    with started("translate", path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"one.\n")
        process.stdin.flush()
        assert process.stdout.readline()
        process.stdout.close()
        process.stdin.write(b"two.\n")
        process.stdin.flush()
        assert process.wait(SECONDS) == 0
        assert process.stderr is not None
        assert b"Fatal" not in process.stderr.read()


@pytest.mark.parametrize("arguments", [["--text", "one two."], [], ["--beam", 1], ["--precision", "int8"]])
def test_the_fast_path_imports_nothing_heavy(path, arguments):
    with started("translate", path, "--quiet", *arguments) as process:
        out, err = process.communicate(b"one two.\nthree.\n", SECONDS)
    assert process.returncode == 0
    assert out.count(b"\n") == (1 if "--text" in arguments else 2)
    assert err == b"heavy: numpy\n"


def test_making_the_copy_needs_no_torch(tmp_path):
    bundle = untrained_bundle(tmp_path / "run")
    with started("translate", bundle.path, "--text", "one two.", "--engine", "ctranslate2", "--beam", 1) as process:
        _, err = process.communicate(b"", SECONDS)
    assert err == b"heavy: numpy\n"
    assert (bundle.path / "ctranslate2" / "model.bin").exists()


def test_scoring_needs_no_torch(path, tmp_path):
    (tmp_path / "pairs.tsv").write_text("one.\teins.\ntwo three.\tzwei drei.\n")
    with started("score", path, tmp_path / "pairs.tsv", "--quiet") as process:
        out, err = process.communicate(b"", SECONDS)
    assert out.count(b"\n") == 2
    assert err == b"heavy: numpy\n"


@pytest.mark.skipif(sys.platform == "win32", reason="closed by a POSIX shell")
@pytest.mark.parametrize(
    ("closed", "arguments", "words"),
    [
        ("<&-", [], b"attendo: standard input is closed. Use --text, or < FILE.\n"),
        (">&-", [], b"attendo: standard output is closed, so there is no place for results. Use > FILE.\n"),
        (">&-", ["--text", "one."], b"attendo: standard output is closed, so there is no place for results."),
    ],
)
def test_a_closed_standard_stream_is_said(path, closed, arguments, words):
    command = shlex.join([sys.executable, "-m", "attendo", "translate", str(path), *arguments])
    run = subprocess.run(["sh", "-c", f"exec {command} {closed}"], input=b"one.\n", capture_output=True, check=False)
    assert run.returncode == 2
    assert run.stderr.startswith(words)
    assert run.stderr.count(b"\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to send")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_ends_soon_in_the_midst_of_much_work(path, number, code):
    """What was to be done takes minutes, and none of it is done any more."""
    with started("translate", path, "--beam", 20, "--batch-size", 1) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        soon = "\n" * (FIRST - 1)  # all but one line of the first chunk
        lines = soon + "".join(f"{line}\n" for line in sentences(500)) * 20
        threading.Thread(target=feed, args=[process.stdin, lines.encode()], daemon=True).start()
        assert process.stdout.readline()
        began = time.monotonic()
        process.send_signal(number)
        # Its output stays open: a process that finds it closed first ends for that reason, with 0.
        assert process.wait(SECONDS) == code
        assert time.monotonic() - began < 30


def feed(stdin: IO[bytes], content: bytes) -> None:
    with contextlib.suppress(OSError):
        stdin.write(content)
