"""`attendo train`"""

import json
from pathlib import Path
from typing import Any

import click

from attendo.cli.options import common, given, paired, parse_columns, reporting
from attendo.cli.results import output
from attendo.config import merge, parse_assignments, read_yaml
from attendo.errors import ConfigError
from attendo.training.settings import BOUNDS


@click.command(name="train")
@click.argument("source", type=click.Path(), required=False)
@click.argument("target", type=click.Path(), required=False)
@click.option("--out", type=click.Path(), help="Folder of the new bundle. [runs/LANGUAGES-N]")
@click.option("--from", "adapt_from", type=click.Path(), help="Start from this trained bundle, keeping its tokenizer.")
@click.option("--resume", "resume_path", type=click.Path(), help="Go on with an interrupted run.")
@click.option(
    "--preset",
    type=click.Choice(["auto", "tiny", "small", "base", "big"]),
    default="auto",
    show_default=True,
    help="Size and recipe.",
)
@click.option(
    "--config", "config_path", type=click.Path(), help="Settings from a YAML file, such as a run's config.yaml."
)
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="One setting: model.d_model=256.")
@click.option("--steps", type=click.IntRange(min=1), help="Train for so many updates.")
@click.option("--epochs", type=float, help="Train for so many passes over the data.")
@click.option("--minutes", type=float, help="Train for about so long; fixes a number of steps after a measurement.")
@click.option(
    "--effort",
    type=click.Choice(["quick", "normal", "thorough"]),
    help="At most 10, 60 or 150 minutes, and what makes the most of them.",
)
@click.option("--languages", nargs=2, metavar="SOURCE TARGET", help="Language codes. [from the files]")
@click.option("--valid-source", type=click.Path(), help="Validation text. [2 % of the pairs, at most 1,000]")
@click.option("--valid-target", type=click.Path(), help="Its other side.")
@click.option("--tensorboard", is_flag=True, help="Also write curves for TensorBoard, into the run's tensorboard/.")
@click.option("--processes", type=click.IntRange(min=1), help="That share every batch. [measured]")
@click.option("--threads", type=click.IntRange(min=1), help="Of each process. [cores / processes]")
@paired
@common("seed", "device", "quiet", "as_json")
def command(
    source: str | None,
    target: str | None,
    out: str | None,
    adapt_from: str | None,
    resume_path: str | None,
    preset: Any,
    config_path: str | None,
    assignments: tuple[str, ...],
    steps: int | None,
    epochs: float | None,
    minutes: float | None,
    effort: Any,
    languages: tuple[str, str] | None,
    valid_source: str | None,
    valid_target: str | None,
    tensorboard: bool,
    processes: int | None,
    threads: int | None,
    columns: str | None,
    reverse: bool,
    seed: int | None,
    device: Any,
    quiet: bool,
    as_json: bool,
) -> None:
    """Train a translator from pairs of text.

    SOURCE and TARGET are two text files, line by line translations of each other; or SOURCE alone is a TSV, JSONL
    or TMX file with both. Each may be compressed (.gz). Nothing else is needed.
    """
    from attendo import run
    from attendo.training.team import rank_in_environment

    if resume_path is not None:
        files = (source, valid_source, valid_target, config_path, out, adapt_from)
        values = (steps, epochs, minutes, effort, languages, columns, seed, processes, threads)
        flags = (assignments, reverse, tensorboard, preset != "auto")
        if any(value is not None for value in (*files, *values)) or any(flags):
            raise ConfigError(
                "--resume takes everything from the run's folder: leave out files, settings and bounds. "
                f"To train a finished translator further: attendo train SOURCE TARGET --from {resume_path}"
            )
        with reporting(quiet) as reporter:
            bundle = run.resume(resume_path, device=device, reporter=reporter)
    else:
        data = given(
            source=source,
            target=target,
            languages=languages,
            columns=parse_columns(columns),
            reverse=reverse or None,
            valid_source=valid_source,
            valid_target=valid_target,
        )
        training = given(
            steps=steps,
            epochs=epochs,
            minutes=minutes,
            tensorboard=tensorboard or None,
            processes=processes,
            threads=threads,
        )
        settings = _layered(
            read_yaml(Path(config_path)) if config_path else {},
            {"data": data, "training": training, **given(seed=seed, adapt_from=adapt_from)},
            parse_assignments(assignments),
        )
        if source is None and config_path is None and not assignments:
            raise ConfigError("give the files to train on: attendo train SOURCE TARGET (or --config with data.source).")
        with reporting(quiet) as reporter:
            bundle = run.train(
                settings=settings, preset=preset, effort=effort, out=out, device=device, reporter=reporter
            )
    if rank_in_environment() > 0:  # torchrun has started several, and one of them speaks for all
        return
    scores = {"bundle": str(bundle.path), **bundle.scores()}
    output(json.dumps(scores, ensure_ascii=False) if as_json else str(bundle.path))
    if not quiet:
        click.echo(f'The bundle is {bundle.path}. Try it: attendo translate {bundle.path} --text "…"', err=True)


def _layered(*layers: dict[str, Any]) -> dict[str, Any]:
    """The layers merged, the last one winning; what belongs together is replaced together.

    A bound on the length of training replaces all earlier bounds; new files replace the old ones and their languages.
    """
    settings: dict[str, Any] = {}
    for layer in layers:
        for group, names, belonging in (
            ("training", BOUNDS, BOUNDS),
            ("data", ("source",), ("target", "languages", "valid_source", "valid_target")),
        ):
            new = layer.get(group)
            if isinstance(new, dict) and any(new.get(name) is not None for name in names):
                old = settings.get(group, {})
                settings[group] = {key: value for key, value in old.items() if key not in belonging}
        settings = merge(settings, layer)
    return settings
