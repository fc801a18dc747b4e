"""What the benchmarks that train have in common: the data folder, runs that survive an interruption, their curves."""

import argparse
import datetime
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attendo
from attendo import machine
from attendo.bundle import Bundle
from attendo.pace import variant_in_words
from attendo.recipe import RecipeName
from attendo.reporting import Reporter
from attendo.storage import write_file

Key = TypeVar("Key")


def add_data(parser: argparse.ArgumentParser, holds: str) -> None:
    parser.add_argument(
        "data", nargs="?", type=Path, default=os.environ.get("ATTENDO_DATA"), help=f"folder that holds {holds}"
    )


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    arguments = parser.parse_args()
    if arguments.data is None:
        parser.error("give the data folder, or set ATTENDO_DATA")
    return arguments


def multi30k(data: Path, source: str, target: str) -> dict[str, str]:
    """The files of Multi30K's training and validation parts, as settings have them."""
    corpus = data / "multi30k"
    return {
        "source": str(corpus / f"train.{source}.gz"),
        "target": str(corpus / f"train.{target}.gz"),
        "valid_source": str(corpus / f"val.{source}.gz"),
        "valid_target": str(corpus / f"val.{target}.gz"),
    }


def trained(out: Path, settings: Mapping[str, Any], reporter: Reporter, *, preset: RecipeName = "auto") -> Bundle:
    """A run that was interrupted is resumed, one that has finished is not trained again.

    What it took from the first file to the last score is kept beside it, as `OUT.minutes`.
    """
    if not out.exists():
        began = time.monotonic()
        bundle = attendo.train(settings=settings, preset=preset, out=out, reporter=reporter)
        write_file(_taken(out), f"{(time.monotonic() - began) / 60:.2f}\n")
        return bundle
    bundle = attendo.open_bundle(out)
    asked, had = settings.get("training", {}), bundle.config.training
    for bound, before in (("minutes", had.minutes), ("epochs", had.epochs)):
        wanted = asked.get(bound)
        if wanted != before and (bound == "minutes" or wanted is not None):  # epochs may be the preset's own
            raise SystemExit(
                f"{out} is a run of {before} {bound}, and not of {wanted}. Choose another folder with --out."
            )
    return bundle if bundle.scores() else attendo.resume(out, reporter=reporter)


def side_by_side(
    modules: Mapping[Key, Sequence[str]], *, at_once: int, cores: Sequence[int] | None = None
) -> Iterator[tuple[Key, bool]]:
    """Runs each of these by `python -m`, so many at a time, and says of each when it ends whether it did its work.

    cores: only these, by number; each run has its share of them. What runs is asked to save what it has when this ends.
    """
    there = sorted(cores or (os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(machine.cores())))
    share = max(1, len(there) // at_once)
    free = [there[place * share : (place + 1) * share] for place in range(min(at_once, len(there)))]
    waiting = list(modules)
    running: dict[Key, tuple[subprocess.Popen[bytes], list[int]]] = {}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no run is left behind
    try:
        while waiting or running:
            while waiting and free:
                key, mine = waiting.pop(0), free.pop(0)
                pinned = ["taskset", "-c", ",".join(map(str, mine))] if sys.platform == "linux" else []
                command = [*pinned, sys.executable, "-m", *modules[key]]
                environment = {**os.environ, "OMP_NUM_THREADS": str(share)}
                running[key] = subprocess.Popen(command, env=environment), mine
            for key in [key for key, (process, _) in running.items() if process.poll() is not None]:
                process, mine = running.pop(key)
                free.append(mine)
                yield key, process.returncode == 0
            time.sleep(1)
    finally:
        for process, _ in running.values():
            process.terminate()
        for process, _ in running.values():
            process.wait()


def folder_name(words: str) -> str:
    """For a run that is called so."""
    return re.sub("[^a-z0-9=._]+", "-", words.lower()).strip("-")


def minutes(bundle: Bundle) -> float:
    """Of training."""
    return max(float(entry.get("minutes", 0.0)) for entry in bundle.read_log())


def minutes_in_all(bundle: Bundle) -> str:
    """From the first file to the last score, in words; a run that was interrupted does not know."""
    taken = _taken(bundle.path)
    return taken.read_text().strip() if taken.exists() else "not known"


def _taken(out: Path) -> Path:
    return out.with_name(f"{out.name}.minutes")


def curve(bundle: Bundle, figure: str) -> list[dict[str, Any]]:
    """The figure at each validation, over minutes."""
    return [
        {"minutes": entry["minutes"], "step": entry["step"], figure: round(entry[figure], 5)}
        for entry in bundle.read_log()
        if entry["event"] == "validation"
    ]


def conditions(bundle: Bundle) -> str:
    """The machine, in words."""
    found = bundle.data()["machine"]
    split = variant_in_words(bundle.config.training)
    return f"{found['processor']}, {split}, torch {found['torch']}"


def write_result(out: Path, title: str, table: list[str], results: Any) -> None:
    """RESULT.json and RESULT.md, with date and machine; the table is printed as well."""
    about: dict[str, Any] = {"date": datetime.date.today().isoformat(), "machine": machine.describe()}
    write_file(out / "RESULT.json", json.dumps({**about, "results": results}, indent=2) + "\n")
    lines = [f"# {title}", "", f"{about['date']}, {about['machine']['processor']}.", "", *table, ""]
    write_file(out / "RESULT.md", "\n".join(lines))
    print("\n".join(table))
