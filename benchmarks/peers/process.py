"""One process tree at a time: run to its end, with its memory sampled and the load before it noted."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.environments import ROOT

SAMPLES_PER_SECOND = 5
LONGEST_SECONDS = 3600.0
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
LAST_LINES = 30


@dataclass(frozen=True, kw_only=True)
class Ran:
    """How a process tree went. peak_pss: the highest sum over all its processes, in bytes; 0 if it was not sampled."""

    seconds: float
    peak_pss: int
    load_before: float
    output: str


class Failed(Exception):
    """A process ended with an error; the message has the end of what it said."""


def run(
    command: Sequence[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    until: Callable[[], bool] | None = None,
    sample: bool = False,
    stop: bool = False,
    stdin: str = "",
) -> Ran:
    """Runs a command in the project's folder, in a session of its own, without inherited thread settings.

    `until` ends the sampling of memory: what comes after it is not the thing measured. With `stop` it ends the process.
    """
    variables = {name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES}
    variables |= {
        "PYTHONPATH": str(ROOT),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "true",
        **(environment or {}),
    }
    load, peak, watching, stopped = os.getloadavg()[0], 0, sample or stop, False
    # Both channels go to a file: a pipe that nobody reads would stop the process once it is full.
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as typed:
        typed.write(stdin.encode())
        typed.seek(0)
        began = time.perf_counter()
        process = subprocess.Popen(
            [str(word) for word in command],
            env=variables,
            cwd=ROOT,
            stdin=typed,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            while True:
                try:
                    process.wait(timeout=1 / SAMPLES_PER_SECOND if watching else LONGEST_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    if not watching or time.perf_counter() - began > LONGEST_SECONDS:
                        raise
                if sample:
                    peak = max(peak, pss_of_tree(process.pid))
                watching = not (until is not None and until())
                if stop and not watching:
                    process.terminate()
                    stopped = True
            seconds = time.perf_counter() - began
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        said.seek(0)
        output = said.read().decode(errors="replace")
    if process.returncode and not stopped:
        end = "\n".join(output.splitlines()[-LAST_LINES:])
        raise Failed(f"{' '.join(str(word) for word in command)}\nended with {process.returncode}:\n{end}")
    return Ran(seconds=seconds, peak_pss=peak, load_before=load, output=output)


def pss_of_tree(root: int) -> int:
    """Σ PSS over a process and all that came from it, in bytes: memory that several share is counted once."""
    return sum(_pss(folder) for folder in _processes(root))


def _processes(root: int) -> Iterator[Path]:
    """Those of the process's session, and of the sessions of those it started."""
    families: dict[int, tuple[int, int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                # The name in parentheses may have spaces; state, ppid, pgrp and session come after it.
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended meanwhile
                continue
            families[int(folder.name)] = int(fields[1]), int(fields[3])
    sessions = {root, *(session for parent, session in families.values() if parent == root)}
    yield from (Path("/proc") / str(pid) for pid, (_, session) in families.items() if session in sessions)


def _pss(folder: Path) -> int:
    try:
        for line in (folder / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
