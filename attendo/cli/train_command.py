"""`attendo train`"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from attendo.cli.options import common, given, paired, parse_columns, reporting
from attendo.cli.results import output
from attendo.config import merge, parse_assignments, read_yaml
from attendo.errors import ConfigError
from attendo.training.settings import BOUNDS

if TYPE_CHECKING:
    from attendo.recipe import TaskName

TASKS = ["translate", "language-model", "masked-language-model", "classify", "denoise", "classify-images"]


@click.command(name="train")
@click.argument("files", type=click.Path(), nargs=-1, metavar="[SOURCE [TARGET] | FILE…]")
@click.option("--task", type=click.Choice(TASKS), help="What to learn. [translate]")
@click.option("--style", type=click.Choice(["t5", "bart"]), help="With --task denoise: how text is spoiled. [t5]")
@click.option(
    "--model", "kind", type=click.Choice(["transformer", "rnn", "conv"]), help="Of a translator. [transformer]"
)
@click.option("--out", type=click.Path(), help="Folder of the new bundle. [runs/LANGUAGES-N]")
@click.option("--from", "adapt_from", type=click.Path(), help="Start from this trained bundle, keeping its tokenizer.")
@click.option(
    "--lora", type=click.IntRange(min=1), metavar="RANK", help="With --from: only adapters of that rank learn."
)
@click.option("--resume", "resume_path", type=click.Path(), help="Go on with an interrupted run.")
@click.option(
    "--preset",
    type=click.Choice(["auto", "tiny", "small", "base", "big", "llama"]),
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
@click.option("--minutes", type=float, help="At most so long, all included; a measurement fixes the steps.")
@click.option(
    "--effort",
    type=click.Choice(["quick", "normal", "thorough"]),
    help="At most 10, 60 or 150 minutes, and what makes the most of them.",
)
@click.option("--languages", nargs=2, metavar="SOURCE TARGET", help="Language codes. [from the files]")
@click.option("--valid-source", type=click.Path(), help="Validation text. [a part of the data, held out]")
@click.option("--valid-target", type=click.Path(), help="Its other side.")
@click.option("--tensorboard", is_flag=True, help="Also write curves for TensorBoard, into the run's tensorboard/.")
@click.option("--processes", type=click.IntRange(min=1), help="That share every batch. [measured]")
@click.option("--threads", type=click.IntRange(min=1), help="Of each process. [cores / processes]")
@paired
@common("seed", "device", "quiet", "as_json")
def command(
    files: tuple[str, ...],
    task: str | None,
    style: str | None,
    kind: str | None,
    out: str | None,
    adapt_from: str | None,
    lora: int | None,
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
    """Train a translator from pairs of text; with --task, another model from other files.

    SOURCE and TARGET are two text files, line by line translations of each other; or SOURCE alone is a TSV, JSONL
    or TMX file with both. Each may be compressed (.gz). Nothing else is needed.

    language-model, masked-language-model and denoise learn from any number of text FILEs, classify from a TSV of labels
    and texts, classify-images from a folder.
    """
    from attendo import run
    from attendo.training.team import rank_in_environment

    if resume_path is not None:
        paths = (*files, valid_source, valid_target, config_path, out, adapt_from)
        values = (task, style, kind, lora, steps, epochs, minutes, effort, languages, columns, seed, processes, threads)
        flags = (assignments, reverse, tensorboard, preset != "auto")
        if any(value is not None for value in (*paths, *values)) or any(flags):
            raise ConfigError(
                "--resume takes everything from the run's folder: leave out files, settings and bounds. "
                f"To train a finished translator further: attendo train SOURCE TARGET --from {resume_path}"
            )
        with reporting(quiet) as reporter:
            bundle = run.resume(resume_path, device=device, reporter=reporter)
    else:
        read, assigned = read_yaml(Path(config_path)) if config_path else {}, parse_assignments(assignments)
        for_task = task or assigned.get("task") or read.get("task") or "translate"
        for option, value, its in (("--style", style, "denoise"), ("--model", kind, "translate")):
            if value is not None and for_task != its:
                raise ConfigError(f"{option} {value}: belongs to the task {its}, and this is {for_task}. Leave it out.")
        data = given(
            **_files(files, for_task),
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
            lora_rank=lora,
            tensorboard=tensorboard or None,
            processes=processes,
            threads=threads,
        )
        settings = _layered(
            read,
            {"data": data, "training": training, **given(task=task, seed=seed, adapt_from=adapt_from)},
            {"noise": {"kind": style}} if style is not None else {},
            {"model": {"kind": kind}} if kind is not None else {},
            assigned,
        )
        if not files and config_path is None and not assignments:
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
        click.echo(f"The bundle is {bundle.path}. {_what_next(bundle.config.task, bundle.path)}", err=True)


def _what_next(task: "TaskName", path: Path) -> str:
    from attendo.recipe import USED_BY

    if task == "denoise":  # it mends text that was damaged in its own way, which nobody has
        return f"Teach it what to write with pairs of text: attendo train SOURCE TARGET --from {path}"
    verb = USED_BY[task][1]
    example = "PICTURE…" if task == "classify-images" else '--prompt "…"' if verb == "generate" else '--text "…"'
    return f"Try it: attendo {verb} {path} {example}"


def _files(files: tuple[str, ...], task: str) -> dict[str, Any]:
    """The settings that name the files: a source and a target, or for other tasks any number."""
    if task != "translate":
        return {"source": files[0], "more": files[1:] or None} if files else {}
    if len(files) > 2:
        raise ConfigError(f"{files[2]}: a translator learns from two files, source and target. Leave out the others.")
    return dict(zip(("source", "target"), files, strict=False))


def _layered(*layers: dict[str, Any]) -> dict[str, Any]:
    """The layers merged, the last one winning; what belongs together is replaced together.

    A bound on the length of training replaces all earlier bounds; new files replace the old ones and their languages.
    """
    settings: dict[str, Any] = {}
    for layer in layers:
        for group, names, belonging in (
            ("training", BOUNDS, (*BOUNDS, "last_step")),
            ("data", ("source",), ("target", "more", "languages", "valid_source", "valid_target")),
        ):
            new = layer.get(group)
            if isinstance(new, dict) and any(new.get(name) is not None for name in names):
                old = settings.get(group, {})
                settings[group] = {key: value for key, value in old.items() if key not in belonging}
        settings = merge(settings, layer)
    return settings
