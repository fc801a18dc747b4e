"""Options that several commands share."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import click

from attendo.cli.terminal import Terminal
from attendo.errors import ConfigError
from attendo.reporting import Reporter, Silent

F = TypeVar("F", bound=Callable[..., Any])

BUNDLE = click.argument("bundle", type=click.Path())
ENSEMBLE = click.option(
    "--ensemble",
    multiple=True,
    type=click.Path(),
    help="Another bundle of the same tokenizer, to decide together; may be repeated.",
)


def common(*used: str) -> Callable[[F], F]:
    """What every command understands; it is handed only what it uses."""
    device = click.Choice(["auto", "cpu", "cuda", "mps"])
    options: dict[str, dict[str, Any]] = {
        "as_json": {"is_flag": True, "help": "Results as JSON, for machines."},
        "quiet": {"is_flag": True, "help": "No progress on standard error."},
        "seed": {"type": int, "help": "Seed of whatever is random here."},
        "device": {"type": device, "default": "auto", "show_default": True, "help": "Where to compute."},
    }

    def decorate(command: F) -> F:
        for name, attributes in options.items():
            flag = "--json" if name == "as_json" else f"--{name}"
            command = click.option(flag, name, expose_value=name in used, **attributes)(command)
        return command

    return decorate


def searching(command: F) -> F:
    """How translations are looked for; what `SearchOptions` takes is handed over together, as `search`."""
    options: dict[str, dict[str, Any]] = {
        "--beam": {
            "type": click.IntRange(min=1),
            "default": 5,
            "show_default": True,
            "help": "Prefixes kept; 1 is greedy.",
        },
        "--n-best": {
            "type": click.IntRange(min=1),
            "default": 1,
            "show_default": True,
            "help": "Translations a line.",
        },
        "--length-penalty": {
            "type": click.Choice(["gnmt", "average", "none"]),
            "default": "gnmt",
            "show_default": True,
            "help": "How lengths are made comparable.",
        },
        "--alpha": {"type": float, "default": 0.6, "show_default": True, "help": "Strength of the gnmt penalty."},
        "--stopping": {
            "type": click.Choice(["exact", "first"]),
            "default": "exact",
            "show_default": True,
            "help": "When to end.",
        },
        "--no-repeat-ngram": {"type": int, "metavar": "N", "help": "No run of N pieces comes twice. [off]"},
        "--diversity-groups": {"type": int, "metavar": "N", "help": "Groups of the beam that avoid each other. [1]"},
        "--diversity": {"type": float, "help": "How much they do, in log probability. [0.5]"},
        "--sample": {"is_flag": True, "help": "Draw pieces by their probability; see --seed."},
        "--temperature": {"type": float, "help": "Of sampling: below 1 the likely becomes likelier. [1]"},
        "--top-k": {"type": int, "metavar": "N", "help": "Sample from the N likeliest pieces. [all]"},
        "--top-p": {"type": float, "help": "Sample from the likeliest pieces that together have this share. [all]"},
    }
    names = [flag.removeprefix("--").replace("-", "_") for flag in options]

    @functools.wraps(command)
    def wrapped(**values: Any) -> Any:
        return command(search=given(**{name: values.pop(name) for name in names}), **values)

    decorated: Any = wrapped
    for option in (
        click.option("--batch-tokens", type=click.IntRange(min=1), default=None, help="Source pieces in a batch."),
        click.option("--batch-size", type=click.IntRange(min=1), default=None, help="Sentences in a batch."),
        click.option("--max-length", type=click.IntRange(min=1), help="Longest translation, in pieces. [source + 50]"),
        *(click.option(flag, **attributes) for flag, attributes in reversed(options.items())),
    ):
        decorated = option(decorated)
    return cast(F, decorated)


def paired(command: F) -> F:
    """Which side is which in files of pairs."""
    for option in (
        click.option("--reverse", is_flag=True, help="From the second side to the first."),
        click.option("--columns", metavar="N,M", help="Source and target column of a TSV file. [1,2]"),
    ):
        command = option(command)
    return command


def parse_columns(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    parts = text.split(",")
    if len(parts) != 2 or not all(part.strip().isdecimal() for part in parts):
        raise ConfigError(f"--columns {text}: must be two numbers with a comma between, such as 1,2.")
    return int(parts[0]), int(parts[1])


def given(**values: Any) -> dict[str, Any]:
    """The options that were used; the others leave their defaults to whoever takes them."""
    return {key: value for key, value in values.items() if value is not None}


@contextlib.contextmanager
def reporting(quiet: bool) -> Iterator[Reporter]:
    """Where progress goes; however the work ends, no progress line is left on the screen."""
    if quiet:
        yield Silent()
        return
    terminal = Terminal()
    try:
        yield terminal
    finally:
        terminal.close()
