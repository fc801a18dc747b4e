"""`attendo average`"""

import json
from pathlib import Path

import click

from attendo.cli.options import BUNDLE, common
from attendo.cli.results import output


@click.command(name="average")
@BUNDLE
@click.option("--last", type=click.IntRange(min=1), default=5, show_default=True, help="How many checkpoints.")
@click.option("--out", type=click.Path(), required=True, help="Folder of the new bundle.")
@common("quiet", "as_json")
def command(
    bundle: str,
    last: int,
    out: str,
    quiet: bool,
    as_json: bool,
) -> None:
    """Average the weights of a run's last checkpoints into a new bundle."""
    from attendo.bundle import average_last, open_bundle

    averaged, steps = average_last(open_bundle(bundle), last, Path(out))
    output(json.dumps({"bundle": str(averaged.path), "steps": steps}) if as_json else str(averaged.path))
    if not quiet:
        click.echo(f"Averaged the checkpoints of steps {', '.join(f'{step:,}' for step in steps)}.", err=True)
