"""`attendo generate`"""

import json
from typing import Any

import click

from attendo.cli.options import BUNDLE, common, given, searching
from attendo.cli.results import flush, output, raw_output
from attendo.errors import ConfigError


@click.command(name="generate")
@BUNDLE
@click.option("--prompt", default="", help="What the text begins with; for a masked language model, with [MASK] in it.")
@click.option("--top", type=click.IntRange(min=1), help="With [MASK]: so many guesses. [5]")
@searching(n_best=True, length="Longest text, in pieces, the prompt not counted. [200]")
@common("seed", "device", "as_json")
def command(
    bundle: str,
    prompt: str,
    top: int | None,
    search: dict[str, Any],
    max_length: int | None,
    batch_size: int | None,
    batch_tokens: int | None,
    seed: int | None,
    device: Any,
    as_json: bool,
) -> None:
    """Continue a text with a language model, or fill the gaps of one with a masked language model.

    A continuation is drawn (--sample is meant where no --beam is given) and written as it comes; with --beam it is
    looked for. `[MASK]` in a prompt is filled with the likeliest pieces, best first: `probability TAB piece TAB text`.
    """
    from attendo.bundle import open_bundle
    from attendo.decoding.search import SearchOptions

    for name, value in (("--batch-size", batch_size), ("--batch-tokens", batch_tokens)):
        if value is not None:
            raise ConfigError(f"{name} {value}: there is one prompt, and no batch. Leave it out.")
    opened = open_bundle(bundle).require("language-model", "masked-language-model", verb="generate")
    if opened.config.task == "masked-language-model":
        from attendo.filler import Filler

        for name, value in {**search, **given(max_length=max_length, seed=seed)}.items():
            if value is not False:  # --sample, which was not given
                flag = f"--{name.replace('_', '-')}"
                raise ConfigError(
                    f"{flag}: gaps are filled with their likeliest pieces, and nothing is searched for or "
                    "drawn. Leave it out, or give --top."
                )
        gaps = Filler.from_bundle(opened, device=device).fill(prompt, **given(top=top))
        if as_json:
            output(json.dumps([[vars(guess) for guess in gap] for gap in gaps], ensure_ascii=False))
            return
        for number, gap in enumerate(gaps, start=1):
            for guess in gap:
                place = f"{number}\t" if len(gaps) > 1 else ""
                output(f"{place}{guess.probability:.4f}\t{guess.piece}\t{guess.text}")
        return
    if top is not None:
        raise ConfigError(f"--top {top}: is for the gaps of a masked language model. For as many texts give --n-best.")
    from attendo.generator import Generator

    drawn = search["sample"] or "beam" not in search
    options = SearchOptions(**{**search, "sample": drawn}, **given(seed=seed))
    generator = Generator.from_bundle(opened, device=device)
    if not as_json and options.n_best == 1 and (options.sample or options.beam == 1):
        raw_output(prompt)
        for text in generator.stream(prompt, options=options, **given(max_length=max_length)):
            raw_output(text)
            flush()
        output("")
        return
    for one in generator.generate(prompt, options=options, **given(max_length=max_length)):
        output(json.dumps({"prompt": prompt, **vars(one)}, ensure_ascii=False) if as_json else prompt + one.text)
