"""`attendo evaluate`"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from attendo.cli.options import (
    BUNDLE,
    ENSEMBLE,
    common,
    executing,
    given,
    only_given,
    paired,
    parse_columns,
    reporting,
    searching,
)
from attendo.cli.results import output
from attendo.errors import ConfigError

if TYPE_CHECKING:
    from attendo.bundle import Bundle


@click.command(name="evaluate")
@BUNDLE
@click.argument("source", type=click.Path())
@click.argument("target", type=click.Path(), required=False)
@ENSEMBLE
@click.option(
    "--against", type=click.Path(), help="Another bundle: is the difference real? By sacreBLEU's seed, or --seed."
)
@click.option("--literature", is_flag=True, help="Also Multi30K's metric: lowercased, normalised, Moses-tokenised.")
@click.option("--literature-reference", type=click.Path(), help="The data set's own lc.norm.tok reference for it.")
@click.option("--output", "output_path", type=click.Path(dir_okay=False), help="Keep the translations in this file.")
@click.option("--picture", type=click.Path(dir_okay=False), help="Draw a classifier's confusions into this .svg file.")
@paired
@executing
@searching(n_best=False)
@common("seed", "device", "quiet", "as_json")
def command(
    bundle: str,
    source: str,
    target: str | None,
    ensemble: tuple[str, ...],
    against: str | None,
    literature: bool,
    literature_reference: str | None,
    output_path: str | None,
    picture: str | None,
    columns: str | None,
    reverse: bool,
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
    """Score a translator on a test set: BLEU, chrF and TER by sacreBLEU with their signatures, and perplexity.

    SOURCE and TARGET are two text files; or SOURCE alone is a TSV or JSONL file with both. For a model of another task
    SOURCE is a test file like those it was trained on: perplexity of a text, or accuracy and F1 of a classifier.
    """
    from attendo.bundle import open_bundle
    from attendo.recipe import USED_BY

    opened = open_bundle(bundle)
    if opened.config.task not in ("translate", "denoise"):
        labels = opened.config.task in ("classify", "classify-images")
        if picture is not None and not labels:
            raise ConfigError(f"--picture {picture}: {bundle} has no labels to confuse. Leave it out.")
        used = ("columns", "picture") if labels else ()
        only_given(
            *("bundle", "source", "device", "quiet", "as_json", *used),
            otherwise=f"is for translators, and {bundle} is {USED_BY[opened.config.task][0]}",
        )
        if picture is not None and not picture.lower().endswith(".svg"):
            raise ConfigError(f"--picture {picture}: is an SVG file, so its name must end in .svg.")
        _appraise(opened, source, parse_columns(columns), picture, device, quiet, as_json)
        return
    if picture is not None:
        raise ConfigError(f"--picture {picture}: a translator has no confusions to draw. Leave it out.")
    from attendo.assessment import assess
    from attendo.decoding.search import SearchOptions
    from attendo.storage import write_file
    from attendo.text.corpus import CorpusFiles, read_lines, read_pairs
    from attendo.translator import load

    if seed is not None and not search["sample"] and not against:
        raise ConfigError(
            f"--seed {seed}: nothing is random here without --sample or --against. Add one, or leave out --seed."
        )
    options = SearchOptions(**search, **given(seed=seed))
    if output_path and not Path(output_path).parent.is_dir():
        raise ConfigError(f"--output {output_path}: there is no folder {Path(output_path).parent}. Create it first.")
    files = CorpusFiles(source=source, target=target, reverse=reverse, **given(columns=parse_columns(columns)))
    pairs = list(read_pairs(files))
    tokenised = list(read_lines(literature_reference)) if literature_reference else None
    with reporting(quiet) as reporter:
        how = {"engine": engine, "precision": precision, "device": device, "reporter": reporter}
        translator = load([bundle, *ensemble], **how)
        other = load(against, **how) if against else None
        found = assess(
            translator,
            [pair[0] for pair in pairs],
            [pair[1] for pair in pairs],
            options=options,
            max_length=max_length,
            batch_size=batch_size,
            batch_tokens=batch_tokens,
            literature=literature,
            tokenised_references=tokenised,
            against=other,
            names=(" + ".join([bundle, *ensemble]), str(against)),
            reporter=reporter,
            **given(seed=seed),
        )
    if output_path:
        write_file(Path(output_path), "".join(f"{line}\n" for line in found.translations))
    output(json.dumps(found.to_json(), ensure_ascii=False) if as_json else "\n".join(found.in_words()))


def _appraise(
    bundle: "Bundle",
    path: str,
    columns: tuple[int, int] | None,
    picture: str | None,
    device: Any,
    quiet: bool,
    as_json: bool,
) -> None:
    """What a model of another task than translation scores on a file."""
    from attendo.storage import write_file
    from attendo.tasks.choice import task_of

    appraise = task_of(bundle.config.task).appraise
    assert appraise is not None  # but for translators all tasks have it
    with reporting(quiet) as reporter:
        found = appraise(bundle, path, columns, device, reporter)
    if picture is not None:
        assert found.picture is not None  # of labels there is one
        write_file(Path(picture), found.picture)
    output(json.dumps(found.numbers, ensure_ascii=False) if as_json else "\n".join(found.lines))
