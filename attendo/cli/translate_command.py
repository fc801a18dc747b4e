"""`attendo translate`"""

import contextlib
import dataclasses
import functools
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from attendo.cli.options import BUNDLE, ENSEMBLE, common, executing, given, reporting, searching
from attendo.cli.results import flush, output, require_output
from attendo.errors import ConfigError, DataError

if TYPE_CHECKING:
    from attendo.decoding.search import SearchOptions
    from attendo.drafting import Translation


@click.command(name="translate")
@BUNDLE
@ENSEMBLE
@click.option("--text", help="One text to translate. [lines of standard input]")
@click.option("--prefix", help="What every translation begins with.")
@click.option("--prefixes", type=click.Path(), help="A file of what each begins with, line by line; empty is none.")
@click.option("--document", type=click.Path(), help="A file to translate whole: .txt, .md, .html, .srt, .po, .xliff.")
@click.option("--out", type=click.Path(), help="With --document: where its translation goes. [standard output]")
@click.option("--glossary", type=click.Path(), help="A file of terms that must be used: source TAB target.")
@click.option(
    "--alignments",
    type=click.Path(dir_okay=False),
    help="A file for the words that belong together, a line each: 0-0 1-2 is source-target, by number.",
)
@click.option("--no-split", is_flag=True, help="A line is one sentence to the model, however many are in it.")
@click.option("--no-check", is_flag=True, help="Do not look for lost numbers, placeholders, addresses and tags.")
@executing
@searching(n_best=True)
@common("seed", "device", "quiet", "as_json")
def command(
    bundle: str,
    ensemble: tuple[str, ...],
    text: str | None,
    prefix: str | None,
    prefixes: str | None,
    document: str | None,
    out: str | None,
    glossary: str | None,
    alignments: str | None,
    no_split: bool,
    no_check: bool,
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
    order they were drawn. With --document a file keeps its structure and is translated as a whole.
    """
    from attendo.bundle import open_bundle
    from attendo.cli.document import translate_document
    from attendo.cli.stream import arriving, standard_input
    from attendo.cli.telling import Telling
    from attendo.decoding.search import SearchOptions
    from attendo.text.corpus import decode_lines, read_lines
    from attendo.text.glossary import read_glossary
    from attendo.translator import load

    if seed is not None and not search["sample"]:
        raise ConfigError(f"--seed {seed}: nothing is random here without --sample. Add that, or leave out --seed.")
    if prefix is not None and prefixes is not None:
        raise ConfigError("--prefix is for all lines and --prefixes for each: give one of the two.")
    options = SearchOptions(**search, **given(seed=seed))
    if text is not None and "\n" in text and (no_split or alignments is not None or options.n_best > 1):
        raise ConfigError(
            "--text has line breaks, and with --no-split, --alignments or --n-best it must be one line. Give several "
            "lines on standard input."
        )
    if alignments is not None and options.n_best > 1:
        raise ConfigError("--alignments and --n-best: only the best translation of a line is aligned. Leave out one.")
    if glossary is not None and no_check:
        raise ConfigError("--glossary and --no-check: terms are found by looking. Leave out one of the two.")
    _check_document(
        document,
        out,
        text=text,
        alignments=alignments,
        prefix=prefix,
        prefixes=prefixes,
        as_json=as_json,
        no_check=no_check,
        options=options,
    )
    terms = None if glossary is None else read_glossary(glossary)
    how: dict[str, Any] = {
        "options": options,
        "max_length": max_length,
        "split": not no_split,
        "check": not no_check,
        "glossary": terms,
        "batch_size": batch_size,
        "batch_tokens": batch_tokens,
    }
    results_scroll_by = require_output().isatty()
    given_lines = standard_input() if text is None and document is None else None
    with reporting(quiet) as reporter, contextlib.ExitStack() as files:
        translator = load([bundle, *ensemble], engine=engine, precision=precision, device=device, reporter=reporter)
        if document is not None:
            translate_document(translator, document, out, how, reporter)
            return
        if alignments is not None:
            from attendo.alignment.aligner import Aligner

            how["align"] = Aligner.from_bundle(open_bundle(bundle), device=device, reporter=reporter)
        write_alignment = files.enter_context(_written(alignments))
        if given_lines is not None and sys.stdin.isatty():
            reporter.say(
                "Type or paste lines to translate, then Ctrl-D on a line of its own. (Or use --text, or < FILE.)"
            )
        lines = decode_lines(given_lines, "standard input") if given_lines is not None else iter([text or ""])
        pairs: Iterator[tuple[str, str | None]] = zip(lines, itertools.repeat(prefix), strict=False)
        if prefixes is not None:
            check = functools.partial(translator.drafter.encode_prefix, max_length=max_length)
            pairs = _paired(lines, read_lines(prefixes), prefixes, check)

        def translate() -> "Iterator[Translation]":
            for chunk in arriving(pairs) if text is None else [list(pairs)]:
                yield from translator.translate_many(
                    [line for line, _ in chunk],
                    prefixes=[beginning for _, beginning in chunk],
                    scores=as_json or options.n_best > 1,
                    **how,
                )
                flush()

        translations = translate()
        if given_lines is not None and not results_scroll_by:  # where they do, a bar would be in their way
            translations = reporter.track(translations, "Translating")
        told = False
        tell = Telling(reporter, "Line")
        for number, translation in enumerate(translations, start=1):
            tell.of(number, translation)
            write_alignment(translation)
            found = len(translation.candidates)
            if found < options.n_best and translation.source.strip() and not told:
                told = True
                reporter.say(
                    f"Line {number} has only {found} of the {options.n_best} translations asked for: the search found "
                    "no others. There may be more such lines."
                )
            if as_json:
                output(json.dumps(_facts(translation), ensure_ascii=False))
            elif options.n_best > 1:
                for candidate in translation.candidates:
                    output(f"{number}\t{candidate.score:.4f}\t{candidate.text}")
            else:
                output(translation.text)
        tell.terms()


@contextlib.contextmanager
def _written(path: str | None) -> "Iterator[Callable[[Translation], None]]":
    """Writes the alignment of each translation to a file, in Pharaoh's format, at once; or, without a file, nothing."""
    if path is None:
        yield lambda _: None
        return
    from attendo.alignment.links import pharaoh
    from attendo.storage import storage_errors

    file: TextIO | None = None
    with contextlib.ExitStack() as stack:

        def opened() -> TextIO:
            with storage_errors(Path(path)):
                return stack.enter_context(Path(path).open("w", buffering=1, encoding="utf-8", newline="\n"))

        def write(translation: "Translation") -> None:
            nonlocal file
            file = file or opened()  # not before there is something: what was there stays if nothing can be translated
            with storage_errors(Path(path)):
                file.write(pharaoh(translation.alignment or ()) + "\n")

        yield write
        file = file or opened()


def _check_document(
    document: str | None,
    out: str | None,
    *,
    text: str | None,
    alignments: str | None,
    prefix: str | None,
    prefixes: str | None,
    as_json: bool,
    no_check: bool,
    options: "SearchOptions",
) -> None:
    if document is None:
        if out is not None:
            raise ConfigError(f"--out {out}: is for a --document; for lines, use > {out}.")
        return
    for flag, used in (
        ("--text", text is not None),
        ("--alignments", alignments is not None),
        ("--prefix", prefix is not None),
        ("--prefixes", prefixes is not None),
        ("--json", as_json),
        ("--no-check", no_check),
        ("--n-best", options.n_best > 1),
    ):
        if used:
            raise ConfigError(f"--document and {flag} cannot be used together: leave out one of the two.")


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


def _facts(translation: "Translation") -> dict[str, Any]:
    """All of it, and the first candidate where most readers look; an alignment where one was asked for."""
    best = {"text": translation.text, "score": translation.score, "log_prob": translation.log_prob}
    facts = dataclasses.asdict(translation) | best
    if translation.alignment is None:
        del facts["alignment"]
    return facts
