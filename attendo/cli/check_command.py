"""`attendo check`"""

import json
from pathlib import Path

import click

from attendo.cli.options import common, given, paired, parse_columns, reporting
from attendo.cli.results import flush, output
from attendo.errors import ConfigError

BROKEN = 1


@click.command(name="check")
@click.argument("source", type=click.Path())
@click.argument("target", type=click.Path(), required=False)
@click.option("--clean", "clean_path", type=click.Path(), help="Write the corpus without its faults into this folder.")
@click.option("--html", "html_path", type=click.Path(dir_okay=False), help="Also write the report as one HTML page.")
@click.option("--valid", nargs=2, metavar="SOURCE TARGET", help="Validation files. (One TSV: name it twice.)")
@click.option("--test", nargs=2, metavar="SOURCE TARGET", help="Test files, as well not to be in training.")
@click.option(
    "--languages", nargs=2, metavar="SOURCE TARGET", help="Languages to take from a TMX file. [its first two]"
)
@click.option("--quick", is_flag=True, help="One reading: without languages, word tables, shifts and near duplicates.")
@paired
@common("quiet", "as_json")
def command(
    source: str,
    target: str | None,
    clean_path: str | None,
    html_path: str | None,
    valid: tuple[str, str] | None,
    test: tuple[str, str] | None,
    languages: tuple[str, str] | None,
    quick: bool,
    columns: str | None,
    reverse: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Find what is wrong with pairs of text, and clean them.

    SOURCE and TARGET are two text files; or SOURCE alone is a TSV, JSONL or TMX file with both. Each may be compressed
    (.gz). Ends with 1 when something is broken: unequal files, bytes that are not UTF-8, shifted stretches.
    """
    from attendo.doctor.cleaning import clean
    from attendo.doctor.examination import examine
    from attendo.doctor.report import in_words, to_json
    from attendo.evaluation.data_report import data_report
    from attendo.storage import require_new, write_file
    from attendo.text.corpus import CorpusFiles

    if html_path and not Path(html_path).parent.is_dir():
        raise ConfigError(f"--html {html_path}: there is no folder {Path(html_path).parent}. Create it first.")
    if clean_path:
        require_new(Path(clean_path), option="--clean")
    how = {"reverse": reverse, "languages": languages, **given(columns=parse_columns(columns))}
    files = CorpusFiles(source=source, target=target, **how)
    valid_files, test_files = (
        pair and CorpusFiles(source=pair[0], target=None if pair[0] == pair[1] else pair[1], **how)
        for pair in (valid, test)
    )
    with reporting(quiet) as reporter:
        examination = examine(files, valid=valid_files, test=test_files, quick=quick, reporter=reporter)
        cleaned = (
            clean(examination, Path(clean_path), valid=valid_files, test=test_files, reporter=reporter)
            if clean_path
            else None
        )
    facts = to_json(examination, cleaned)
    if html_path:
        write_file(Path(html_path), data_report(facts))
    output(json.dumps(facts, ensure_ascii=False) if as_json else "\n".join(in_words(examination, cleaned)))
    if examination.broken:
        flush()
        raise SystemExit(BROKEN)
