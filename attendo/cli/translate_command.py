"""`attendo translate`"""

import dataclasses
import itertools
import json
import sys
from io import BufferedReader
from typing import Any, cast

import click

from attendo.cli.options import BUNDLE, ENSEMBLE, common, given, reporting, searching
from attendo.cli.results import output
from attendo.errors import ConfigError

LINES_AT_ONCE = 10_000  # read, sorted and translated together; memory does not grow with the input


@click.command(name="translate")
@BUNDLE
@ENSEMBLE
@click.option("--text", help="One text to translate. [lines of standard input]")
@click.option("--prefix", default="", help="What every translation begins with.")
@searching
@common("seed", "device", "quiet", "as_json")
def command(
    bundle: str,
    ensemble: tuple[str, ...],
    text: str | None,
    prefix: str,
    search: dict[str, Any],
    max_length: int | None,
    batch_size: int | None,
    batch_tokens: int | None,
    seed: int | None,
    device: Any,
    quiet: bool,
    as_json: bool,
) -> None:
    """Translate lines of text: one line out for each line in, in the same order.

    With --n-best, each line gives its translations best first as `number TAB score TAB text`; with --sample in the
    order they were drawn.
    """
    from attendo.decoding.search import SearchOptions
    from attendo.text.corpus import decode_lines
    from attendo.translator import load

    options = SearchOptions(**search, **given(seed=seed))
    if text is not None and "\n" in text:
        raise ConfigError("--text is one line, and this text has line breaks. Give several lines on standard input.")
    translator = load([bundle, *ensemble], device=device)
    with reporting(quiet) as reporter:
        if text is None and sys.stdin.isatty():
            reporter.say(
                "Type or paste lines to translate, then Ctrl-D on a line of its own. (Or use --text, or < FILE.)"
            )
        typed = cast(BufferedReader, sys.stdin.buffer)
        lines = decode_lines(typed, "standard input") if text is None else iter([text])
        translations = (
            translation
            for chunk in iter(lambda: list(itertools.islice(lines, LINES_AT_ONCE)), [])
            for translation in translator.translate_many(
                chunk,
                options=options,
                max_length=max_length,
                prefixes=[prefix] * len(chunk),
                batch_size=batch_size,
                reporter=reporter,
                **given(batch_tokens=batch_tokens),
            )
        )
        for number, translation in enumerate(translations, start=1):
            if translation.parts > 1:
                reporter.say(
                    f"Line {number} is longer than the {translator.max_length} pieces the model was trained for: "
                    f"translated in {translation.parts} parts."
                )
            if as_json:
                output(json.dumps(dataclasses.asdict(translation) | _best(translation), ensure_ascii=False))
            elif options.n_best > 1:
                for candidate in translation.candidates:
                    output(f"{number}\t{candidate.score:.4f}\t{candidate.text}")
            else:
                output(translation.text)


def _best(translation: Any) -> dict[str, Any]:
    """The first candidate, where most readers look."""
    return {"text": translation.text, "score": translation.score, "log_prob": translation.log_prob}
