"""`attendo translate`"""

import dataclasses
import itertools
import json
import sys
from collections.abc import Iterator
from io import BufferedReader
from typing import Any, cast

import click

from attendo.cli.options import BUNDLE, ENSEMBLE, common, given, reporting, searching
from attendo.cli.results import output
from attendo.errors import ConfigError, DataError

LINES_AT_ONCE = 10_000  # read, sorted and translated together; memory does not grow with the input


@click.command(name="translate")
@BUNDLE
@ENSEMBLE
@click.option("--text", help="One text to translate. [lines of standard input]")
@click.option("--prefix", help="What every translation begins with.")
@click.option("--prefixes", type=click.Path(), help="A file of what each begins with, line by line; empty is none.")
@searching(n_best=True)
@common("seed", "device", "quiet", "as_json")
def command(
    bundle: str,
    ensemble: tuple[str, ...],
    text: str | None,
    prefix: str | None,
    prefixes: str | None,
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
    from attendo.text.corpus import decode_lines, read_lines
    from attendo.translator import load

    if seed is not None and not search["sample"]:
        raise ConfigError(f"--seed {seed}: nothing is random here without --sample. Add that, or leave out --seed.")
    if prefix is not None and prefixes is not None:
        raise ConfigError("--prefix is for all lines and --prefixes for each: give one of the two.")
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
        begun = zip(lines, itertools.repeat(prefix), strict=False)
        pairs = begun if prefixes is None else _paired(lines, read_lines(prefixes), prefixes)
        translations = (
            translation
            for chunk in iter(lambda: list(itertools.islice(pairs, LINES_AT_ONCE)), [])
            for translation in translator.translate_many(
                [line for line, _ in chunk],
                options=options,
                max_length=max_length,
                prefixes=[beginning for _, beginning in chunk],
                batch_size=batch_size,
                reporter=reporter,
                **given(batch_tokens=batch_tokens),
            )
        )
        told = False
        for number, translation in enumerate(translations, start=1):
            if translation.parts > 1:
                reporter.say(
                    f"Line {number} is longer than the {translator.max_length} pieces the model was trained for: "
                    f"translated in {translation.parts} parts."
                )
            found = len(translation.candidates)
            if found < options.n_best and translation.source.strip() and not told:
                told = True
                reporter.say(
                    f"Line {number} has only {found} of the {options.n_best} translations asked for: the search found "
                    "no others. There may be more such lines."
                )
            if as_json:
                output(json.dumps(dataclasses.asdict(translation) | _best(translation), ensure_ascii=False))
            elif options.n_best > 1:
                for candidate in translation.candidates:
                    output(f"{number}\t{candidate.score:.4f}\t{candidate.text}")
            else:
                output(translation.text)


def _paired(lines: Iterator[str], prefixes: Iterator[str], path: str) -> Iterator[tuple[str, str]]:
    """Each line with its prefix, read side by side."""
    for number, (prefix, line) in enumerate(itertools.zip_longest(prefixes, lines)):
        if prefix is None or line is None:
            more, fewer = ("the input", path) if prefix is None else (path, "the input")
            raise DataError(
                f"--prefixes {path}: {fewer} ends after line {number}, and {more} goes on. Give one prefix for each "
                "line, an empty one where there is none."
            )
        yield line, prefix


def _best(translation: Any) -> dict[str, Any]:
    """The first candidate, where most readers look."""
    return {"text": translation.text, "score": translation.score, "log_prob": translation.log_prob}
