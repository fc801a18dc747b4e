"""What the benchmarks that train have in common: the data folder, runs that survive an interruption, their curves."""

import argparse
import datetime
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attendo
from attendo import machine
from attendo.bundle import Bundle
from attendo.recipe import RecipeName
from attendo.reporting import Reporter
from attendo.storage import write_file


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
    """A run that was interrupted is resumed, one that has finished is not trained again."""
    if not out.exists():
        return attendo.train(settings=settings, preset=preset, out=out, reporter=reporter)
    bundle = attendo.open_bundle(out)
    return bundle if bundle.scores() else attendo.resume(out, reporter=reporter)


def minutes(bundle: Bundle) -> float:
    """Of training."""
    return max(float(entry.get("minutes", 0.0)) for entry in bundle.read_log())


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
    return f"{found['processor']}, {found['threads']} threads, torch {found['torch']}"


def write_result(out: Path, title: str, table: list[str], results: Any) -> None:
    """RESULT.json and RESULT.md, with date and machine; the table is printed as well."""
    about: dict[str, Any] = {"date": datetime.date.today().isoformat(), "machine": machine.describe()}
    write_file(out / "RESULT.json", json.dumps({**about, "results": results}, indent=2) + "\n")
    lines = [f"# {title}", "", f"{about['date']}, {about['machine']['processor']}.", "", *table, ""]
    write_file(out / "RESULT.md", "\n".join(lines))
    print("\n".join(table))
