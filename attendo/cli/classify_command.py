"""`attendo classify`"""

import json
from typing import Any

import click

from attendo.cli.options import BUNDLE, common, reporting
from attendo.cli.results import output
from attendo.errors import ConfigError


@click.command(name="classify")
@BUNDLE
@click.argument("pictures", type=click.Path(), nargs=-1)
@click.option("--text", help="One text, or two with a tab between. [lines of standard input]")
@common("device", "quiet", "as_json")
def command(bundle: str, pictures: tuple[str, ...], text: str | None, device: Any, quiet: bool, as_json: bool) -> None:
    """Tell the label of each text, or of each picture: one line out for each, as `label TAB probability`.

    PICTURES are files, for a classifier of pictures.
    """
    from attendo.bundle import open_bundle

    opened = open_bundle(bundle).require("classify", "classify-images", verb="classify")
    with reporting(quiet) as reporter:
        if opened.config.task == "classify-images":
            from attendo.pictures import PictureClassifier

            if not pictures or text is not None:
                raise ConfigError(
                    f"{bundle} is a classifier of pictures: give their files, attendo classify {bundle} FILE…"
                )
            items: list[str] = list(pictures)
            found = PictureClassifier.from_bundle(opened, device=device).classify(items, reporter=reporter)
        else:
            from attendo.classifier import TextClassifier
            from attendo.cli.stream import standard_input
            from attendo.text.corpus import decode_lines

            if pictures:
                raise ConfigError(f"{bundle} is a classifier of texts: give --text, or lines on standard input.")
            items = [text] if text is not None else list(decode_lines(standard_input(), "standard input"))
            classifier = TextClassifier.from_bundle(opened, device=device)
            found = classifier.classify([item.split("\t") for item in items], reporter=reporter)
    for item, one in zip(items, found, strict=True):
        about = {"picture" if pictures else "text": item, **vars(one)}
        output(json.dumps(about, ensure_ascii=False) if as_json else f"{one.label}\t{one.probability:.4f}")
