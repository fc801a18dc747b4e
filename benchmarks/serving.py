"""How much `attendo serve` bears: many clients beside one, then three times as much as it can do.

    python -m benchmarks.serving BUNDLE TEXT [--clients 64] [--seconds 60]

TEXT has a sentence a line, which every client asks for one at a time, beginning at a place of its own. The server is a
process of its own on the loopback interface, and the clients are one more, which shares the machine's cores with it
(and so uses uvloop, as the server does).
Greedily and with beam 5, first one client asks for so many seconds, then all of them, each as soon as it has its
answer. Every answer is compared with what the same bundle gives offline. Then requests come at a rate three times as
high as that of all clients, whether or not there are answers: how quickly does the server refuse, and how long do those
wait that it accepts? The memory is the server's own, once a second.

Prints Markdown, and ends with 1 if an answer was wrong or a request failed for another reason than a limit.
"""

import argparse
import asyncio
import contextlib
import datetime
import json
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import uvloop

import attendo
from attendo import machine
from attendo.text.corpus import read_lines

SEARCHES = {"greedy": 1, "beam 5": 5}
LIMITS = {"greedy": 2.5, "beam 5": 2.0}  # times the throughput of one client, at least
OVERLOAD = 3
REFUSED_MS = 100
WARM_UP = 10.0  # seconds


@dataclass
class Seen:
    """What became of the requests of one measurement; times in seconds."""

    seconds: float = 0.0
    answered: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    wrong: int = 0
    failed: int = 0
    memory: list[int] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return len(self.answered) / self.seconds


@dataclass(frozen=True)
class Question:
    """A request, and the text that its answer must have."""

    request: bytes
    text: str


class Connections:
    """Connections to the server that are kept, as many as are needed at the same time."""

    def __init__(self, host: str, port: int) -> None:
        self.address = (host, port)
        self.idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        reader, writer = self.idle.pop() if self.idle else await asyncio.open_connection(*self.address)
        try:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
            )
            body = await reader.readexactly(length)
        except BaseException:
            writer.close()
            raise
        self.idle.append((reader, writer))
        return int(head.split(b" ", 2)[1]), body

    def close(self) -> None:
        for _, writer in self.idle:
            writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", help="folder of a trained translation model")
    parser.add_argument("text", help="a file with a sentence per line")
    parser.add_argument("--lines", type=int, default=1000, help="only the first so many")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each measurement")
    parser.add_argument("--options", nargs="*", default=[], help="further options of attendo serve")
    arguments = parser.parse_args()
    lines = [line for line in read_lines(arguments.text) if line.strip()][: arguments.lines]
    translator = attendo.load(arguments.bundle)
    offline = {
        name: [one.text for one in translator.translate_many(lines, beam=beam)] for name, beam in SEARCHES.items()
    }
    del translator
    print(
        f"{datetime.date.today().isoformat()}, {machine.describe()['processor']}, {machine.cores()} cores; "
        f"`{' '.join(['python -m benchmarks.serving', *sys.argv[1:]])}`; {len(lines):,} sentences.",
        "",
        "| search | clients | requests a second | p50, ms | p99, ms | wrong | failed | memory, MB, first to last |",
        "|---|---|---|---|---|---|---|---|",
        sep="\n",
        flush=True,
    )
    good = True
    for name, beam in SEARCHES.items():
        with serving(arguments.bundle, arguments.options) as (process, address):
            questions = [question(line, beam, text) for line, text in zip(lines, offline[name], strict=True)]
            good &= uvloop.run(measure(name, questions, process.pid, address, arguments.clients, arguments.seconds))
    sys.exit(not good)


async def measure(
    name: str, questions: Sequence[Question], pid: int, address: tuple[str, int], clients: int, seconds: float
) -> bool:
    """Prints what was seen; whether every answer was right."""
    await closed(questions, pid, address, clients, WARM_UP)
    alone = await closed(questions, pid, address, 1, seconds)
    together = await closed(questions, pid, address, clients, seconds)
    for n_clients, seen in ((1, alone), (clients, together)):
        print_row(name, str(n_clients), seen)
    over = await opened(questions, pid, address, OVERLOAD * together.rate, seconds)
    print_row(f"{name}, {OVERLOAD} times as many requests", f"{OVERLOAD * together.rate:.0f} a second", over)
    times, waits = together.rate / alone.rate, quantile(over.answered, 99) / quantile(together.answered, 99)
    print(
        f"| {name} | | {times:.2f} times one client's (wanted: {LIMITS[name]}) | | | | | |",
        f"| {name}, overload | | {len(over.refused):,} of {len(over.refused) + len(over.answered):,} refused, p95 "
        f"after {1000 * quantile(over.refused, 95):.0f} ms (wanted: {REFUSED_MS}) | | {waits:.2f} times "
        f"that of {clients} clients (wanted: 2) | | | |",
        sep="\n",
        flush=True,
    )
    return not any(seen.wrong or seen.failed for seen in (alone, together, over))


def print_row(name: str, clients: str, seen: Seen) -> None:
    memory = [f"{size / 1e6:.0f}" for size in seen.memory]
    print(
        f"| {name} | {clients} | {seen.rate:.1f} | {1000 * quantile(seen.answered, 50):.1f} | "
        f"{1000 * quantile(seen.answered, 99):.1f} | {seen.wrong} | {seen.failed} | "
        f"{memory[0]} to {memory[-1]}, most {max(seen.memory) / 1e6:.0f} |",
        flush=True,
    )


async def closed(
    questions: Sequence[Question], pid: int, address: tuple[str, int], clients: int, seconds: float
) -> Seen:
    """So many clients, each of which asks again as soon as it has its answer."""
    seen = Seen()

    async def client(number: int, connections: Connections) -> None:
        place = number * len(questions) // clients
        while time.perf_counter() < end:
            await ask(connections, questions[place % len(questions)], seen)
            place += 1

    async with measured(seen, pid, address) as connections:
        end = time.perf_counter() + seconds
        await asyncio.gather(*(client(number, connections) for number in range(clients)))
    return seen


async def opened(
    questions: Sequence[Question], pid: int, address: tuple[str, int], rate: float, seconds: float
) -> Seen:
    """Requests at a rate, answered or not."""
    seen = Seen()
    async with measured(seen, pid, address) as connections:
        began = time.perf_counter()
        n_asked, waiting = 0, set[asyncio.Task[None]]()  # what is answered is let go, or collecting garbage takes long
        while (elapsed := time.perf_counter() - began) < seconds:
            while n_asked < elapsed * rate:
                task = asyncio.create_task(ask(connections, questions[n_asked % len(questions)], seen))
                waiting.add(task)
                task.add_done_callback(waiting.discard)
                n_asked += 1
            await asyncio.sleep(0.001)
        await asyncio.gather(*waiting)
    return seen


@contextlib.asynccontextmanager
async def measured(seen: Seen, pid: int, address: tuple[str, int]) -> AsyncIterator[Connections]:
    """The time and the server's memory of the requests within this block."""

    async def watch() -> None:
        while True:
            seen.memory.append(memory_of(pid))
            await asyncio.sleep(1)

    connections = Connections(*address)
    watching = asyncio.create_task(watch())
    began = time.perf_counter()
    await asyncio.sleep(0)
    try:
        yield connections
    finally:
        seen.seconds = time.perf_counter() - began
        watching.cancel()
        connections.close()


async def ask(connections: Connections, question: Question, seen: Seen) -> None:
    began = time.perf_counter()
    try:
        status, body = await connections.ask(question.request)
    except (OSError, asyncio.IncompleteReadError):
        seen.failed += 1
        return
    spent = time.perf_counter() - began
    if status == 200:
        seen.answered.append(spent)
        seen.wrong += json.loads(body)["translations"][0]["text"] != question.text
    elif status == 503:
        seen.refused.append(spent)
    else:
        seen.failed += 1


def question(line: str, beam: int, text: str) -> Question:
    body = json.dumps({"text": line, "beam": beam}).encode()
    head = "POST /v1/translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    return Question(head.encode() + body, text)


@contextlib.contextmanager
def serving(bundle: str, options: Sequence[str]) -> Iterator[tuple[subprocess.Popen[bytes], tuple[str, int]]]:
    command = [sys.executable, "-m", "attendo", "serve", bundle, "--port", "0", *options]
    with Path("/dev/null").open("wb") as nowhere, subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        url = next((said["url"] for said in map(json.loads, process.stderr) if said["event"] == "serving"), None)
        if url is None:
            sys.exit("the server did not start")
        # Its log is read and let go, or the pipe would be full at some time.
        reading = subprocess.Popen(["cat"], stdin=process.stderr, stdout=nowhere)
        try:
            yield process, (urlsplit(url).hostname or "", urlsplit(url).port or 0)
        finally:
            process.terminate()
            process.wait()
            reading.wait()


def memory_of(pid: int) -> int:
    """Bytes of a process that are its own, or all it has where the system does not tell them apart."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
    return 0


def quantile(values: Sequence[float], percent: int) -> float:
    if len(values) < 2:
        return values[0] if values else float("nan")
    return statistics.quantiles(values, n=100)[percent - 1]


if __name__ == "__main__":
    main()
