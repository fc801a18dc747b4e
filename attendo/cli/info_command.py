"""`attendo info`"""

import dataclasses
import json
import shutil
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from attendo.cli.options import common, reporting
from attendo.cli.results import output
from attendo.errors import ConfigError

if TYPE_CHECKING:
    from attendo.inspection.parts import Part

VOCAB_SIZE = 32_000
LENGTH = 50


@click.command(name="info")
@click.argument("bundle", type=click.Path(), required=False)
@click.option("--preset", type=click.Choice(["tiny", "small", "base", "big"]), help="A size that is not trained yet.")
@click.option("--vocab-size", type=click.IntRange(min=1), help=f"With --preset. [{VOCAB_SIZE}]")
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="With --preset: model.d_key=16.")
@click.option("--parts", is_flag=True, help="The catalogue of parts: what each is, its paper, where the notes have it.")
@click.option("--cost", is_flag=True, help="Parameters and multiply-adds by part; time and memory by length, measured.")
@click.option("--length", type=click.IntRange(min=1), help=f"With --cost: pieces of source and target. [{LENGTH}]")
@click.option("--out", type=click.Path(dir_okay=False), help="With --cost: a page with the tables and the plots.")
@common("quiet", "as_json")
def command(
    bundle: str | None,
    preset: Any,
    vocab_size: int | None,
    assignments: tuple[str, ...],
    parts: bool,
    cost: bool,
    length: int | None,
    out: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """What a bundle is: sizes, parameters, data, scores, how it was trained.

    Or the parameters of a preset, or every part that a model can be made of. With --cost, what a bundle, a preset or
    the model of a config file costs to compute; without any of them, the paper's base model.
    """
    if cost:
        if parts or (bundle is not None and preset is not None):
            raise ConfigError("--cost is of one model: give a bundle's folder, a config file or --preset, one of them.")
        _cost(bundle, preset, vocab_size, assignments, length or LENGTH, out, quiet, as_json)
        return
    if length is not None or out is not None:
        raise ConfigError("--length and --out go with --cost: add that, or leave them out.")
    if (bundle is not None) + (preset is not None) + parts != 1:
        raise ConfigError("give a bundle's folder, --preset or --parts, one of the three: attendo info runs/en-de-1")
    if preset is None and (vocab_size is not None or assignments):
        raise ConfigError("--vocab-size and --set go with --preset, a size that is not trained yet: leave them out.")
    if parts:
        from attendo.inspection.parts import PARTS

        rows = [dataclasses.asdict(part) for part in PARTS]
        output(json.dumps(rows, ensure_ascii=False) if as_json else "\n".join(_catalogue(PARTS)))
        return
    from attendo.inspection.parameters import bundle_facts, preset_facts

    facts = bundle_facts(bundle) if bundle is not None else preset_facts(preset, vocab_size or VOCAB_SIZE, assignments)
    output(json.dumps(facts, ensure_ascii=False, indent=None) if as_json else "\n".join(_lines(facts)))


def _cost(
    path: str | None,
    preset: Any,
    vocab_size: int | None,
    assignments: tuple[str, ...],
    length: int,
    out: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    from attendo.inspection.cost import cost_facts
    from attendo.inspection.cost_report import cost_page, in_words
    from attendo.inspection.growth import measure
    from attendo.inspection.parameters import file_config, preset_config
    from attendo.storage import write_file

    if path is None:
        config = preset_config(preset or "base", vocab_size or VOCAB_SIZE, assignments)
    elif vocab_size is not None or assignments:
        raise ConfigError("--vocab-size and --set go with --preset, a size that is not trained yet: leave them out.")
    else:
        config = file_config(path, VOCAB_SIZE)
    facts = cost_facts(config, length, length)
    with reporting(quiet) as reporter:
        measured = measure(config.d_model, config.n_heads, reporter)
    if out is not None:
        write_file(
            Path(out), cost_page(Path(path).resolve().name if path else preset or "base", config, facts, measured)
        )
    growth = [dataclasses.asdict(one) for one in measured]
    output(json.dumps({**facts, "growth": growth}) if as_json else "\n".join(in_words(config, facts, measured)))


def _lines(facts: dict[str, Any], indent: str = "") -> list[str]:
    """Nested facts as an indented list, numbers with thousands marked."""
    lines = []
    width = max((len(key) for key in facts), default=0)
    for key, value in facts.items():
        if isinstance(value, dict):
            lines += [f"{indent}{key}", *_lines(value, indent + "  ")]
        elif value is not None:
            shown = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
            shown = f"{value:.4g}" if isinstance(value, float) else shown
            shown = ", ".join(map(str, value)) if isinstance(value, list) else shown
            lines.append(f"{indent}{key:<{width}}  {shown}")
    return lines


def _catalogue(parts: "Iterable[Part]") -> list[str]:
    """The parts by group, each with what is to be said of it, no wider than the terminal."""
    from attendo.inspection.parts import EXACT, INTRODUCTION

    lines = _wrapped(INTRODUCTION)
    for group, members in groupby(parts, key=lambda part: part.group):
        lines += ["", group]
        for part in members:
            marks = [*["default"] * part.default, *["not fused"] * (part.fused is False)]
            lines += ["", f"  {part.setting}" + (f"  ({', '.join(marks)})" if marks else "")]
            lines += _wrapped(part.what, "    ")
            if part.exact != EXACT:
                lines += _wrapped(part.exact, "    ")
            lines += [*_wrapped(part.paper, "    paper  "), *_wrapped(part.notes, "    notes  ")]
    return lines


def _wrapped(text: str, label: str = "") -> list[str]:
    """Lines that begin under the label's end. A Chinese character is two columns wide, which `textwrap` ignores."""
    from rich.console import Console
    from rich.text import Text

    width = max(20, min(100, shutil.get_terminal_size().columns) - len(label))
    lines = [line.plain.rstrip() for line in Text(text).wrap(Console(width=width), width)]
    return [(label if number == 0 else " " * len(label)) + line for number, line in enumerate(lines)]
