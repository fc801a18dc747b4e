"""`attendo import`"""

import json

import click

from attendo.cli.options import common, reporting
from attendo.cli.results import output


@click.command(name="import")
@click.argument("folder", type=click.Path())
@click.option("--out", type=click.Path(), required=True, help="The new bundle's folder.")
@click.option("--source-language", metavar="NAME", help="For a model of many languages, by the name it has for it.")
@click.option("--target-language", metavar="NAME", help="The same: en, eng_Latn or en_XX; a T5 is told English.")
@common("quiet", "as_json")
def command(
    folder: str,
    out: str,
    source_language: str | None,
    target_language: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Make a bundle of a model from Hugging Face.

    FOLDER has config.json, model.safetensors and the files of a tokenizer. Nothing in it is executed.
    """
    from attendo.interop.importing import import_model

    with reporting(quiet) as reporter:
        bundle = import_model(
            folder, out=out, source_language=source_language, target_language=target_language, reporter=reporter
        )
    output(json.dumps({"bundle": str(bundle.path), "task": bundle.config.task}) if as_json else str(bundle.path))
