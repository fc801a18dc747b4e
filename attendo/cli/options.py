"""Options that several commands share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from attendo.cli.terminal import Terminal
from attendo.reporting import Reporter, Silent

F = TypeVar("F", bound=Callable[..., Any])

BUNDLE = click.argument("bundle", type=click.Path())


def common(command: F) -> F:
    """What every command understands."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Results as JSON, for machines."),
        click.option("--quiet", is_flag=True, help="No progress on standard error."),
        click.option("--seed", type=int, default=None, help="Seed of everything random. [default: 1]"),
        click.option(
            "--device",
            type=click.Choice(["auto", "cpu", "cuda", "mps"]),
            default="auto",
            show_default=True,
            help="Where to compute.",
        ),
    ):
        command = option(command)
    return command


def searching(command: F) -> F:
    """How translations are looked for."""
    for option in (
        click.option("--batch-tokens", type=click.IntRange(min=1), default=None, help="Source pieces in a batch."),
        click.option("--batch-size", type=click.IntRange(min=1), default=None, help="Sentences in a batch."),
        click.option("--max-length", type=click.IntRange(min=1), help="Longest translation, in pieces. [source + 50]"),
        click.option(
            "--stopping", type=click.Choice(["exact", "first"]), default="exact", show_default=True, help="When to end."
        ),
        click.option("--alpha", type=float, default=0.6, show_default=True, help="Strength of the gnmt penalty."),
        click.option(
            "--length-penalty",
            type=click.Choice(["gnmt", "average", "none"]),
            default="gnmt",
            show_default=True,
            help="How lengths are made comparable.",
        ),
        click.option("--n-best", type=click.IntRange(min=1), default=1, show_default=True, help="Translations a line."),
        click.option(
            "--beam", type=click.IntRange(min=1), default=5, show_default=True, help="Prefixes kept; 1 is greedy."
        ),
    ):
        command = option(command)
    return command


def reporter(quiet: bool) -> Reporter:
    return Silent() if quiet else Terminal()
