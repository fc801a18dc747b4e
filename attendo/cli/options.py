"""Options that several commands share."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

import click
from click.core import ParameterSource

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
        "seed": {"type": int, "help": "Seed of whatever is random here. [1]"},
        "device": {"type": device, "default": "auto", "show_default": True, "help": "Where to compute."},
    }

    def decorate(command: F) -> F:
        for name, attributes in options.items():
            flag = "--json" if name == "as_json" else f"--{name}"
            command = click.option(flag, name, expose_value=name in used, **attributes)(command)
        return command

    return decorate


def searching(
    *, n_best: bool, length: str = "Longest translation, in pieces, a prefix counted. [source or prefix + 50]"
) -> Callable[[F], F]:
    """How translations are looked for; the `SearchOptions` that were given are handed over together, as `search`.

    n_best: whether the command has a use for several translations of a line. length: what --max-length is.
    """
    several = {"type": click.IntRange(min=1), "help": "Translations a line; at most the beam, unless --sample. [1]"}
    options: dict[str, dict[str, Any]] = {
        "--beam": {"type": click.IntRange(min=1), "help": "Prefixes kept; 1 is greedy. [5]"},
        **({"--n-best": several} if n_best else {}),
        "--length-penalty": {
            "type": click.Choice(["average", "gnmt", "power", "none"]),
            "help": "How lengths are made comparable. [average]",
        },
        "--alpha": {"type": float, "help": "Strength of gnmt and power. [0.6]"},
        "--stopping": {
            "type": click.Choice(["first", "heuristic", "exact"]),
            "help": "When a beam ends; the last two not by ctranslate2. [first]",
        },
        "--no-repeat-ngram": {
            "type": int,
            "metavar": "N",
            "help": "No run of N pieces comes twice, within a part of a long line. [off]",
        },
        "--diversity-groups": {
            "type": int,
            "metavar": "N",
            "help": "Groups that avoid each other; must divide the beam: --beam 6 --diversity-groups 3. [1]",
        },
        "--diversity": {"type": float, "help": "How much they do, in log probability. [0.5]"},
        "--sample": {"is_flag": True, "help": "Draw pieces by their probability; see --seed."},
        "--temperature": {"type": float, "help": "Of sampling: below 1 the likely becomes likelier. [1]"},
        "--top-k": {"type": int, "metavar": "N", "help": "Sample from the N likeliest pieces. [all]"},
        "--top-p": {"type": float, "help": "Sample from the likeliest pieces that together have this share. [all]"},
    }
    flags = {flag.removeprefix("--").replace("-", "_"): flag for flag in options}

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def wrapped(**values: Any) -> Any:
            search = given(**{name: values.pop(name) for name in flags})
            for name in ("beam", "stopping"):
                if search["sample"] and name in search:
                    raise ConfigError(
                        f"--{name} cannot be used with --sample, which has no beam. Leave out one of them."
                    )
            with _spelled_as({**flags, "max_length": "--max-length"}):
                return command(search=search, **values)

        decorated: Any = wrapped
        for option in (
            click.option("--batch-tokens", type=click.IntRange(min=1), default=None, help="Source pieces in a batch."),
            click.option("--batch-size", type=click.IntRange(min=1), default=None, help="Sentences in a batch."),
            click.option("--max-length", type=click.IntRange(min=1), help=length),
            *(click.option(flag, **attributes) for flag, attributes in reversed(options.items())),
        ):
            decorated = option(decorated)
        return cast(F, decorated)

    return decorate


def executing(command: F) -> F:
    """What runs the model; handed over as `engine` and `precision`."""

    @functools.wraps(command)
    def wrapped(**values: Any) -> Any:
        with _spelled_as({"engine": "--engine", "precision": "--precision"}):
            return command(**values)

    decorated: Any = wrapped
    for flag, choices, default, words in (
        ("--precision", ["float32", "int8"], "float32", "int8: faster, less exact, by a fast engine."),
        ("--engine", ["auto", "native", "ctranslate2", "torch"], "auto", "auto: the fastest that can."),
    ):
        decorated = click.option(flag, type=click.Choice(choices), default=default, show_default=True, help=words)(
            decorated
        )
    return cast(F, decorated)


@contextlib.contextmanager
def _spelled_as(flags: Mapping[str, str]) -> Iterator[None]:
    """An error that begins with a setting's name begins with the option's instead."""
    try:
        yield
    except ConfigError as error:
        name, equals, rest = str(error).partition(" = ")
        if name not in flags:
            raise
        raise ConfigError(f"{flags[name]}{equals}{rest}") from None


def paired(command: F) -> F:
    """Which side is which in files of pairs."""
    for option in (
        click.option("--reverse", is_flag=True, help="From the second side to the first."),
        click.option(
            "--columns", metavar="N,M", help="Columns of a TSV file: source and target, or label and text. [1,2]"
        ),
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


def only_given(*used: str, otherwise: str) -> None:
    """Refuses what the command line says beside the parameters `used`: it would be taken for nothing."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in used or context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        told = parameter.opts[0] if isinstance(parameter, click.Option) else name.upper()
        value = "" if getattr(parameter, "is_flag", False) else f" {_as_typed(context.params.get(name))}"
        raise ConfigError(f"{told}{value}: {otherwise}. Leave it out.")


def _as_typed(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def given(**values: Any) -> dict[str, Any]:
    """The options that were used; the others leave their defaults to whoever takes them."""
    return {key: value for key, value in values.items() if value is not None}


@contextlib.contextmanager
def reporting(quiet: bool) -> Iterator[Reporter]:
    """Where progress goes; however the work ends, no progress line is left on the screen."""
    if quiet:
        yield Silent()
        return
    from attendo.cli.terminal import Terminal

    terminal = Terminal()
    try:
        yield terminal
    finally:
        terminal.close()
