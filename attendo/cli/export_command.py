"""`attendo export`"""

import json
from pathlib import Path

import click

from attendo.cli.options import BUNDLE, common
from attendo.cli.results import output
from attendo.engines.engine import Precision
from attendo.errors import ConfigError

FORMATS = {
    "attendo": "the bundle alone, without what only training needs",
    "huggingface": "a folder for transformers",
    "ctranslate2": "a folder for the ctranslate2 package",
    "onnx": "graphs for onnxruntime",
    "argos": "a package for Argos Translate",
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
@click.option(
    "--precision",
    type=click.Choice(["float32", "int8"]),
    help="Of the matrices, for ctranslate2 and argos. [float32]",
)
@click.option("--languages", nargs=2, metavar="FROM TO", help="For argos, such as en de. [those of the bundle]")
@common("as_json")
def command(
    bundle: str, target: str, out: str, precision: str | None, languages: tuple[str, str] | None, as_json: bool
) -> None:
    """Write a model for use elsewhere: as a small bundle, or as other runtimes load it."""
    from attendo.bundle import open_bundle

    if precision is not None and target not in ("ctranslate2", "argos"):
        raise ConfigError(f"--precision {precision}: --to {target} has float32 only. Leave it out.")
    if languages is not None and target != "argos":
        raise ConfigError(f"--languages {' '.join(languages)}: --to {target} names no languages. Leave it out.")
    numbers: Precision = "int8" if precision == "int8" else "float32"
    opened, path = open_bundle(bundle), Path(out)
    match target:
        case "attendo":
            opened.copy(path, opened.weights())
        case "huggingface":
            from attendo.interop.exporting import export_huggingface

            export_huggingface(opened, path)
        case "ctranslate2":
            from attendo.interop.ctranslate2 import export_ctranslate2

            export_ctranslate2(opened, path, precision=numbers)
        case "onnx":
            from attendo.interop.onnx import export_onnx

            export_onnx(opened, path)
        case "argos":
            from attendo.interop.argos import export_argos

            export_argos(opened, path, languages=languages, precision=numbers)
    key = "bundle" if target == "attendo" else "out"
    output(json.dumps({key: str(path)}) if as_json else str(path))
