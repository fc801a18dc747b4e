"""`attendo evaluate`"""

import json
from typing import Any

import click

from attendo.cli.options import BUNDLE, common, reporter, searching
from attendo.cli.terminal import output


@click.command(name="evaluate")
@BUNDLE
@click.argument("source", type=click.Path())
@click.argument("target", type=click.Path(), required=False)
@click.option("--against", type=click.Path(), help="Another bundle: is the difference real?")
@click.option("--literature", is_flag=True, help="Also Multi30K's metric: lowercased, normalised, Moses-tokenised.")
@click.option("--literature-reference", type=click.Path(), help="The data set's own lc.norm.tok reference for it.")
@click.option("--output", "output_path", type=click.Path(), help="Keep the translations in this file.")
@searching
@common
def command(
    bundle: str,
    source: str,
    target: str | None,
    against: str | None,
    literature: bool,
    literature_reference: str | None,
    output_path: str | None,
    beam: int,
    n_best: int,
    length_penalty: Any,
    alpha: float,
    stopping: Any,
    max_length: int | None,
    batch_size: int | None,
    batch_tokens: int | None,
    seed: int | None,
    device: Any,
    quiet: bool,
    as_json: bool,
) -> None:
    """Score a translator on a test set: BLEU, chrF and TER by sacreBLEU with their signatures, and perplexity."""
    from pathlib import Path

    from attendo.decoding.search import SearchOptions
    from attendo.engines.torch_engine import BATCH_TOKENS
    from attendo.evaluation.literature import literature_bleu
    from attendo.evaluation.scores import score_corpus
    from attendo.evaluation.significance import compare
    from attendo.storage import write_file
    from attendo.text.corpus import CorpusFiles, read_lines, read_pairs
    from attendo.translator import load, perplexity

    options = SearchOptions(beam=beam, n_best=n_best, length_penalty=length_penalty, alpha=alpha, stopping=stopping)
    pairs = list(read_pairs(CorpusFiles(source=source, target=target)))
    sources, references = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    tokenised = list(read_lines(literature_reference)) if literature_reference else None
    report = reporter(quiet)
    translator = load(bundle, device=device)
    other = load(against, device=device) if against else None

    def translations(of: Any) -> list[str]:
        found = of.translate_many(
            sources,
            options=options,
            max_length=max_length,
            batch_size=batch_size,
            batch_tokens=batch_tokens or BATCH_TOKENS,
            reporter=report,
        )
        return [translation.text for translation in found]

    language = translator.languages[1] if translator.languages else ""
    hypotheses = translations(translator)
    if output_path:
        write_file(Path(output_path), "".join(f"{line}\n" for line in hypotheses))
    scores = score_corpus(hypotheses, references, target_language=language)
    found: dict[str, Any] = {
        **scores.to_json(),
        "perplexity": perplexity(translator.score(sources, references, reporter=report)),
        "beam": beam,
    }
    lines = [one.detail + f"   {one.signature}" for one in (scores.bleu, scores.chrf, scores.ter)]
    lines.append(f"perplexity = {found['perplexity']:.3f} per piece")
    if literature or literature_reference:
        score = literature_bleu(
            hypotheses, references_tokenised=tokenised, references=references, language=language or "en"
        )
        found["literature"] = score.to_json()
        lines.append(f"literature's {score.name} = {score.score:.2f}   {score.signature}")
    if other is not None:
        comparison = compare(
            hypotheses,
            translations(other),
            references,
            names=(bundle, str(against)),
            target_language=language,
            **({} if seed is None else {"seed": seed}),
        )
        found["against"] = comparison.to_json()
        lines.append(comparison.verdict)
    output(json.dumps(found, ensure_ascii=False) if as_json else "\n".join(lines))
