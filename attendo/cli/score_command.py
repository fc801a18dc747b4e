"""`attendo score`"""

import json
from typing import Any

import click

from attendo.cli.options import BUNDLE, ENSEMBLE, common, executing, given, paired, parse_columns, reporting
from attendo.cli.results import output


@click.command(name="score")
@BUNDLE
@click.argument("source", type=click.Path())
@click.argument("target", type=click.Path(), required=False)
@ENSEMBLE
@click.option("--batch-size", type=click.IntRange(min=1), default=None, help="Sentences in a batch.")
@paired
@executing
@common("device", "quiet", "as_json")
def command(
    bundle: str,
    source: str,
    target: str | None,
    ensemble: tuple[str, ...],
    batch_size: int | None,
    columns: str | None,
    reverse: bool,
    engine: Any,
    precision: Any,
    device: Any,
    quiet: bool,
    as_json: bool,
) -> None:
    """Log probability that the translator gives to each pair: natural logarithm, the end of sentence included.

    SOURCE and TARGET are two text files; or SOURCE alone is a TSV or JSONL file with both.
    """
    from attendo.text.corpus import CorpusFiles, read_pairs
    from attendo.translator import load, perplexity

    files = CorpusFiles(source=source, target=target, reverse=reverse, **given(columns=parse_columns(columns)))
    pairs = list(read_pairs(files))
    with reporting(quiet) as reporter:
        translator = load([bundle, *ensemble], engine=engine, precision=precision, device=device, reporter=reporter)
        scores = translator.score(
            [pair[0] for pair in pairs], [pair[1] for pair in pairs], batch_size=batch_size, reporter=reporter
        )
        for score in scores:
            output(json.dumps(vars(score)) if as_json else f"{score.log_prob:.6f}")
        reporter.say(f"{len(scores):,} pairs, perplexity {perplexity(scores):.3f} per piece.")
