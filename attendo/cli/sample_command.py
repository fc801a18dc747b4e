"""`attendo sample`"""

import dataclasses
import json
from pathlib import Path

import click

from attendo.cli.options import common
from attendo.cli.results import output


@click.command(name="sample")
@click.argument("directory", type=click.Path())
@click.option("--pairs", type=click.IntRange(min=1), default=20_000, show_default=True, help="Training pairs to write.")
@common("seed", "quiet", "as_json")
def command(
    directory: str,
    pairs: int,
    seed: int | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Write the built-in English-German corpus: train, valid and test, each .en and .de."""
    from attendo.sample import write_sample

    summary = write_sample(Path(directory), pairs=pairs, seed=1 if seed is None else seed)
    facts = dataclasses.asdict(summary) | {"directory": directory}
    output(json.dumps(facts) if as_json else directory)
    if not quiet:
        click.echo(f"Train on it: attendo train {directory}/train.en {directory}/train.de", err=True)
