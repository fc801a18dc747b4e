"""`attendo translate`"""

import dataclasses
import functools
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from attendo.cli.options import BUNDLE, ENSEMBLE, common, executing, given, reporting, searching
from attendo.cli.results import flush, output, require_output
from attendo.errors import ConfigError, DataError

if TYPE_CHECKING:
    from attendo.translator import Translation


@click.command(name="translate")
@BUNDLE
@ENSEMBLE
@click.option("--text", help="One text to translate. [lines of standard input]")
@click.option("--prefix", help="What every translation begins with.")
@click.option("--prefixes", type=click.Path(), help="A file of what each begins with, line by line; empty is none.")
@executing
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
    engine: Any,
    precision: Any,
    device: Any,
    quiet: bool,
    as_json: bool,
) -> None:
    """Translate lines of text: one line out for each line in, in the same order, while more lines come.

    With --n-best, each line gives its translations best first as `number TAB score TAB text`; with --sample in the
    order they were drawn.
    """
    from attendo.cli.stream import arriving, standard_input
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
    results_scroll_by = require_output().isatty()
    given_lines = standard_input() if text is None else None
    with reporting(quiet) as reporter:
        translator = load([bundle, *ensemble], engine=engine, precision=precision, device=device, reporter=reporter)
        if given_lines is not None and sys.stdin.isatty():
            reporter.say(
                "Type or paste lines to translate, then Ctrl-D on a line of its own. (Or use --text, or < FILE.)"
            )
        lines = decode_lines(given_lines, "standard input") if given_lines is not None else iter([text or ""])
        pairs: Iterator[tuple[str, str | None]] = zip(lines, itertools.repeat(prefix), strict=False)
        if prefixes is not None:
            check = functools.partial(translator.encode_prefix, max_length=max_length)
            pairs = _paired(lines, read_lines(prefixes), prefixes, check)

        def translate() -> "Iterator[Translation]":
            for chunk in arriving(pairs) if text is None else [list(pairs)]:
                yield from translator.translate_many(
                    [line for line, _ in chunk],
                    options=options,
                    max_length=max_length,
                    prefixes=[beginning for _, beginning in chunk],
                    scores=as_json or options.n_best > 1,
                    batch_size=batch_size,
                    batch_tokens=batch_tokens,
                )
                flush()

        translations = translate()
        if given_lines is not None and not results_scroll_by:  # where they do, a bar would be in their way
            translations = reporter.track(translations, "Translating")
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


def _paired(
    lines: Iterator[str], prefixes: Iterator[str], path: str, check: Callable[[str], object]
) -> Iterator[tuple[str, str]]:
    """Each line with its prefix, read side by side, as far as each prefix can be used."""
    for number, (prefix, line) in enumerate(itertools.zip_longest(prefixes, lines)):
        if prefix is None or line is None:
            more, fewer = ("the input", path) if prefix is None else (path, "the input")
            raise DataError(
                f"--prefixes {path}: {fewer} ends after line {number}, and {more} goes on. Give one prefix for each "
                "line, an empty one where there is none."
            )
        try:
            check(prefix)
        except (ConfigError, DataError) as error:
            raise DataError(f"--prefixes {path}, line {number + 1}: {error}") from None
        yield line, prefix


def _best(translation: Any) -> dict[str, Any]:
    """The first candidate, where most readers look."""
    return {"text": translation.text, "score": translation.score, "log_prob": translation.log_prob}
