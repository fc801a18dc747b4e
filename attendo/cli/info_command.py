"""`attendo info`"""

import json
from typing import Any

import click

from attendo.cli.options import common
from attendo.cli.results import output
from attendo.errors import ConfigError


@click.command(name="info")
@click.argument("bundle", type=click.Path(), required=False)
@click.option("--preset", type=click.Choice(["tiny", "small", "base", "big"]), help="A size that is not trained yet.")
@click.option("--vocab-size", type=click.IntRange(min=1), default=32_000, show_default=True, help="With --preset.")
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="With --preset: model.d_key=16.")
@common("as_json")
def command(
    bundle: str | None,
    preset: Any,
    vocab_size: int,
    assignments: tuple[str, ...],
    as_json: bool,
) -> None:
    """What a bundle is: sizes, parameters, data, scores, how it was trained. Or the parameters of a preset."""
    from attendo.inspection.parameters import bundle_facts, preset_facts

    if (bundle is None) == (preset is None):
        raise ConfigError("give a bundle's folder or --preset, one of the two: attendo info runs/en-de-1")
    facts = bundle_facts(bundle) if bundle is not None else preset_facts(preset, vocab_size, assignments)
    output(json.dumps(facts, ensure_ascii=False, indent=None) if as_json else "\n".join(_lines(facts)))


def _lines(facts: dict[str, Any], indent: str = "") -> list[str]:
    """Nested facts as an indented list, numbers with thousands marked."""
    lines = []
    width = max((len(key) for key in facts), default=0)
    for key, value in facts.items():
        if isinstance(value, dict):
            lines += [f"{indent}{key}", *_lines(value, indent + "  ")]
        elif value is not None:
            shown = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
            shown = f"{value:.4g}" if isinstance(value, float) else shown
            shown = ", ".join(map(str, value)) if isinstance(value, list) else shown
            lines.append(f"{indent}{key:<{width}}  {shown}")
    return lines
