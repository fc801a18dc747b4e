"""`attendo embed`"""

import json
from pathlib import Path
from typing import Any

import click

from attendo.cli.options import BUNDLE, common, reporting
from attendo.cli.results import output
from attendo.errors import ConfigError


@click.command(name="embed")
@BUNDLE
@click.option("--text", help="One text. [lines of standard input]")
@click.option("--pooling", type=click.Choice(["mean", "first"]), help="Of vectors. [as the model says]")
@click.option("--unit/--any-length", default=None, help="Vectors of length one. [as the model says]")
@click.option("--out", type=click.Path(dir_okay=False), help="A .npy file for all vectors. [JSON lines]")
@common("device", "quiet")
def command(
    bundle: str, text: str | None, pooling: Any, unit: bool | None, out: str | None, device: Any, quiet: bool
) -> None:
    """The vector of each text, by a masked language model or a classifier: a line of JSON for each line in.

    With --out, a matrix with a row for each text, as numpy reads it.
    """
    from attendo.bundle import open_bundle
    from attendo.cli.stream import standard_input
    from attendo.filler import Embedder, npy
    from attendo.storage import write_file
    from attendo.text.corpus import decode_lines

    if out is not None and not out.endswith(".npy"):
        raise ConfigError(f"--out {out}: vectors are written as numpy writes them, so the name has to end in .npy.")
    opened = open_bundle(bundle).require("masked-language-model", "classify", verb="embed")
    texts = [text] if text is not None else list(decode_lines(standard_input(), "standard input"))
    with reporting(quiet) as reporter:
        embedder = Embedder.from_bundle(opened, device=device)
        vectors = embedder.embed(texts, pooling=pooling, unit=unit, reporter=reporter)
    if out is not None:
        write_file(Path(out), npy(vectors))
        output(out)
        return
    for one, vector in zip(texts, vectors.tolist(), strict=True):
        output(json.dumps({"text": one, "vector": vector}, ensure_ascii=False))
