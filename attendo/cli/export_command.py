"""`attendo export`"""

import json
from pathlib import Path

import click

from attendo.cli.options import BUNDLE, common
from attendo.cli.results import output


@click.command(name="export")
@BUNDLE
@click.option("--to", "target", type=click.Choice(["attendo"]), required=True, help="attendo: the bundle alone.")
@click.option("--out", type=click.Path(), required=True, help="The new folder.")
@common("as_json")
def command(
    bundle: str,
    target: str,  # noqa: ARG001 (there is one choice so far)
    out: str,
    as_json: bool,
) -> None:
    """Write a bundle without what only training needs: checkpoints, optimizer state, log."""
    from attendo.bundle import open_bundle

    opened = open_bundle(bundle)
    small = opened.copy(Path(out), opened.weights())
    output(json.dumps({"bundle": str(small.path)}) if as_json else str(small.path))
