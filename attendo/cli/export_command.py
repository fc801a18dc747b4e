"""`attendo export`"""

import json
from pathlib import Path

import click

from attendo.cli.options import BUNDLE, common
from attendo.cli.results import output
from attendo.errors import ConfigError

FORMATS = {
    "attendo": "the bundle alone, without what only training needs",
    "ctranslate2": "a folder for the ctranslate2 package",
    "onnx": "graphs for onnxruntime",
}


@click.command(name="export")
@BUNDLE
@click.option(
    "--to",
    "target",
    type=click.Choice(list(FORMATS)),
    required=True,
    help="; ".join(f"{name}: {words}" for name, words in FORMATS.items()) + ".",
)
@click.option("--out", type=click.Path(), required=True, help="What is written; it must not exist.")
@click.option("--precision", type=click.Choice(["float32", "int8"]), help="Of the matrices, for ctranslate2. [float32]")
@common("as_json")
def command(bundle: str, target: str, out: str, precision: str | None, as_json: bool) -> None:
    """Write a model for use elsewhere: as a small bundle, or as other runtimes load it."""
    from attendo.bundle import open_bundle

    if precision is not None and target != "ctranslate2":
        raise ConfigError(f"--precision {precision}: --to {target} has float32 only. Leave it out.")
    opened, path = open_bundle(bundle), Path(out)
    match target:
        case "attendo":
            opened.copy(path, opened.weights())
        case "ctranslate2":
            from attendo.interop.ctranslate2 import export_ctranslate2

            export_ctranslate2(opened, path, precision="int8" if precision == "int8" else "float32")
        case "onnx":
            from attendo.interop.onnx import export_onnx

            export_onnx(opened, path)
    key = "bundle" if target == "attendo" else "out"
    output(json.dumps({key: str(path)}) if as_json else str(path))
