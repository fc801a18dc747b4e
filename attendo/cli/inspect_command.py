"""`attendo inspect`"""

import json
import shutil
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from attendo.cli.options import BUNDLE, common, given, paired, parse_columns, reporting
from attendo.cli.results import output
from attendo.errors import ConfigError, DataError
from attendo.reporting import Reporter

if TYPE_CHECKING:
    from attendo.bundle import Bundle
    from attendo.inspection.inspector import Inspection
    from attendo.inspection.reading import Reading

PAIRS = 1000


@click.command(name="inspect")
@BUNDLE
@click.argument("source", type=click.Path(), required=False)
@click.argument("target_file", metavar="[TARGET]", type=click.Path(), required=False)
@click.option("--text", "--prompt", "text", help="What to look into; of several sentences the one of --sentence.")
@click.option("--target", help="A translation of it to look at. [the model's own]")
@click.option("--sentence", type=click.IntRange(min=1), help="Which sentence of --text. [1]")
@click.option("--map", "map_name", metavar="MAP", help="Show encoder.2.1, the mean of encoder.2, or of encoder, …")
@click.option("--out", type=click.Path(file_okay=False), help="A folder for the maps, as PNG and as inside.html.")
@click.option(
    "--without-head", multiple=True, metavar="HEAD", help="Switch off cross.3.2, or 3.2 for short, encoder.1.4, …"
)
@click.option("--beam", type=click.IntRange(min=1), help="Prefixes kept; 1 is greedy. [5; with --bleu 1]")
@click.option("--heads", is_flag=True, help="Rank all heads by the loss on SOURCE and TARGET without them.")
@click.option("--bleu", is_flag=True, help="With --heads: by BLEU, which takes longer.")
@click.option("--pairs", type=click.IntRange(min=1), help=f"With --heads: at most so many. [{PAIRS}]")
@paired
@common("device", "quiet", "as_json")
def command(
    bundle: str,
    source: str | None,
    target_file: str | None,
    text: str | None,
    target: str | None,
    sentence: int | None,
    map_name: str | None,
    out: str | None,
    without_head: tuple[str, ...],
    beam: int | None,
    heads: bool,
    bleu: bool,
    pairs: int | None,
    columns: str | None,
    reverse: bool,
    device: Any,
    quiet: bool,
    as_json: bool,
) -> None:
    """Look inside a model at work: where each word looks, how sure each piece is, what the beam considered.

    A translator translates --text, any other model reads it (two texts have a tab between), or the picture SOURCE. With
    --out, the attention of every layer and head as pictures and as one page. With --heads, a test set instead of a
    sentence: SOURCE and TARGET, as for `attendo evaluate`, and what each head is worth.
    """
    if heads:
        _refuse("--heads", text=text, target=target, sentence=sentence, out=out, without_head=without_head or None)
        _refuse("--heads", map=map_name)
        if source is None:
            raise ConfigError("--heads needs a test set: attendo inspect RUN test.en test.de --heads")
        if beam is not None and not bleu:
            raise ConfigError(f"--beam {beam}: without --bleu nothing is searched. Add that, or leave out --beam.")
        _rank(bundle, source, target_file, columns, reverse, bleu, beam or 1, pairs or PAIRS, device, quiet, as_json)
        return
    for flag, used in (
        ("--bleu", bleu),
        ("--pairs", pairs is not None),
        ("--columns", columns is not None),
        ("--reverse", reverse),
        ("TARGET", target_file is not None),
    ):
        if used:
            raise ConfigError(f"{flag} goes with --heads: add that, or give a sentence with --text.")
    from attendo.bundle import open_bundle

    with reporting(quiet) as reporter:
        opened = open_bundle(bundle)
        seen: Inspection | Reading
        if opened.config.task in ("translate", "denoise"):
            seen = _translation(opened, source, text, target, sentence, without_head, beam, device, reporter)
        else:
            for flag, value in (("--target", target), ("--sentence", sentence), ("--beam", beam)):
                if value is not None:
                    raise ConfigError(f"{flag} {value}: {bundle} does not translate. Leave it out.")
            seen = _reading(opened, source, text, without_head, device)
        _show(opened, seen, map_name, out, reporter, as_json)


def _refuse(flag: str, **others: object) -> None:
    for name, value in others.items():
        if value is not None:
            raise ConfigError(f"{flag} and --{name.replace('_', '-')} cannot be used together: leave out one of them.")


def _translation(
    bundle: "Bundle",
    source: str | None,
    text: str | None,
    target: str | None,
    sentence: int | None,
    without_head: tuple[str, ...],
    beam: int | None,
    device: Any,
    reporter: Reporter,
) -> "Inspection":
    from attendo.decoding.search import SearchOptions
    from attendo.inspection.inspector import Inspector

    if source is not None:
        raise ConfigError("SOURCE goes with --heads: add that, or give a sentence with --text.")
    if text is None:
        raise ConfigError('give a sentence: attendo inspect RUN --text "A man rides a bicycle."')
    if target is not None and sentence is not None:
        raise ConfigError("--target is for the whole --text as one sentence: leave out --sentence.")
    if target is not None and beam is not None:
        raise ConfigError(f"--beam {beam}: with --target nothing is searched. Leave out one of the two.")
    inspector, number = Inspector.from_bundle(bundle, device=device, reporter=reporter), sentence or 1
    sentences = [text] if target is not None else inspector.sentences(text)
    if not sentences or not text.strip():
        raise DataError(f"--text {text[:60]!r}: there are no words to look at.")
    if number > len(sentences):
        raise ConfigError(f"--sentence {number}: --text has {len(sentences)}.")
    if len(sentences) > 1:
        reporter.say(f"Sentence {number} of {len(sentences)}; --sentence chooses another.")
    options = SearchOptions(**given(beam=beam))
    return inspector.inspect(sentences[number - 1], target=target, options=options, without=without_head)


def _reading(
    bundle: "Bundle", source: str | None, text: str | None, without_head: tuple[str, ...], device: Any
) -> "Reading":
    from attendo.inspection.reading import read

    if bundle.config.task == "classify-images":
        if source is None or text is not None:
            raise ConfigError(f"{bundle.path} is a classifier of pictures: give a file, attendo inspect RUN one.png")
        return read(bundle, source, without=without_head, device=device)
    if source is not None or text is None:
        raise ConfigError(f'{bundle.path} reads texts: give one, attendo inspect RUN --text "A man rides a bicycle."')
    return read(bundle, text, without=without_head, device=device)


def _show(
    bundle: "Bundle",
    seen: "Inspection | Reading",
    map_name: str | None,
    out: str | None,
    reporter: Reporter,
    as_json: bool,
) -> None:
    from attendo.inspection.telling import in_words

    width = shutil.get_terminal_size().columns
    lines = in_words(seen, width, map_name)
    if out is not None:
        from attendo.inspection.page import inspection_page
        from attendo.inspection.pictures import write_pictures
        from attendo.storage import write_file

        written = write_pictures(seen, Path(out))
        write_file(Path(out) / "inside.html", inspection_page(seen, name=bundle.path.resolve().name))
        pictures = "a picture" if len(written) == 1 else f"{len(written)} pictures"
        reporter.say(f"{Path(out) / 'inside.html'} and {pictures} written.")
    output(json.dumps(seen.to_json(), ensure_ascii=False) if as_json else "\n".join(lines))


def _rank(
    bundle: str,
    source: str,
    target: str | None,
    columns: str | None,
    reverse: bool,
    bleu: bool,
    beam: int,
    most: int,
    device: Any,
    quiet: bool,
    as_json: bool,
) -> None:
    from attendo.bundle import open_bundle
    from attendo.inspection.ranking import rank_heads
    from attendo.text.corpus import CorpusFiles, read_pairs

    files = CorpusFiles(source=source, target=target, reverse=reverse, **given(columns=parse_columns(columns)))
    pairs = list(islice(read_pairs(files), most))
    with reporting(quiet) as reporter:
        found = rank_heads(
            open_bundle(bundle),
            [one for one, _ in pairs],
            [one for _, one in pairs],
            with_bleu=bleu,
            beam=beam,
            device=device,
            reporter=reporter,
        )
    output(json.dumps(found.to_json(), ensure_ascii=False) if as_json else "\n".join(found.in_words()))
