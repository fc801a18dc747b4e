"""The cost of a model, and of layers as a text grows, in words and as a page."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from attendo.evaluation.chart import Series, line_chart
from attendo.evaluation.report import page
from attendo.inspection.growth import Measurement
from attendo.models.settings import TransformerConfig

MEGABYTE = 2**20

STYLE = """
.cost th, .cost td { padding: .4rem 1.1rem; border-top: 1px solid var(--edge); }
.cost thead th { border-top: 0; white-space: nowrap; font-size: .85rem; font-weight: 500; color: var(--muted); }
.cost td + td, .cost th + th { text-align: end; font-variant-numeric: tabular-nums; white-space: nowrap; }
.scroll { overflow-x: auto; }
"""

NOTE = (
    "One layer of each kind, forth and back over one sequence: torch's MultiheadAttention, which holds its weights, "
    "and by the fused kernel, which does not; LSTM; Conv1d of 3 neighbours."
)
TIME, MEMORY = "milliseconds", "megabytes held at most"


def in_words(config: TransformerConfig, facts: Mapping[str, Any], measured: Sequence[Measurement]) -> list[str]:
    lines = [*_aligned(_cost_rows(facts)), "", _title(config), NOTE]
    for unit in (TIME, MEMORY):
        lines += ["", unit, *_aligned(_growth_rows(measured, unit))]
    return lines


def cost_page(name: str, config: TransformerConfig, facts: Mapping[str, Any], measured: Sequence[Measurement]) -> str:
    lengths = f"a source of {facts['source_length']:,} and a target of {facts['target_length']:,} pieces"
    body = [
        f"<h1>The cost of {escape(name)}</h1>",
        f'<p class="lead">Parameters, and multiply-adds of one pass over {lengths}.</p>',
        f'<h2>By part</h2><div class="card scroll">{_table(_cost_rows(facts))}</div>',
        f'<h2>As the text grows</h2><p class="lead">{escape(_title(config))} {escape(NOTE)}</p>',
        '<div class="charts" style="margin-top:1rem">',
        *(_chart(measured, unit) for unit in (TIME, MEMORY)),
        "</div>",
    ]
    return page(f"The cost of {name}", body, STYLE)


def _title(config: TransformerConfig) -> str:
    return f"Layers of width {config.d_model}, measured here."


def _cost_rows(facts: Mapping[str, Any]) -> list[list[str]]:
    total = facts["parts"][-1]["multiply_adds"]
    rows = [["part", "parameters", "multiply-adds", "share"]]
    for row in facts["parts"]:
        parameters, products = row["parameters"], row["multiply_adds"]
        rows.append(
            [
                row["part"],
                f"{parameters:,}" if parameters else "",
                f"{products:,}" if products else "",
                f"{products / total:.1%}" if products else "",
            ]
        )
    return rows


def _value(one: Measurement, unit: str) -> float:
    return one.milliseconds if unit == TIME else one.bytes / MEGABYTE


def _growth_rows(measured: Sequence[Measurement], unit: str) -> list[list[str]]:
    """Lengths down, layers across."""
    found = {(one.layer, one.length): one for one in measured}
    layers = list(dict.fromkeys(one.layer for one in measured))
    rows = [["length", *layers]]
    for length in dict.fromkeys(one.length for one in measured):
        rows.append([f"{length:,}", *(f"{_value(found[layer, length], unit):.2f}" for layer in layers)])
    return rows


def _chart(measured: Sequence[Measurement], unit: str) -> str:
    layers = list(dict.fromkeys(one.layer for one in measured))
    inks = {"attention": 0, "fused": 0, "LSTM": 1, "conv": 2}
    chart = line_chart(
        title=unit,
        x_label="length",
        y_label=unit,
        x_range=(0.0, float(max(one.length for one in measured))),
        series=[
            Series(
                name=layer,
                points=[(float(one.length), _value(one, unit)) for one in measured if one.layer == layer],
                ink=inks[layer],
                dashed=layer == "fused",
            )
            for layer in layers
        ],
        from_zero=True,
    )
    caption, table = f"<figcaption>{unit.capitalize()}</figcaption>", _table(_growth_rows(measured, unit))
    return f'<figure class="card">{caption}{chart}<div class="scroll">{table}</div></figure>'


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns side by side, the first at the left, the others at the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return lines


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *others = rows
    cells = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in others)
    return f'<table class="cost"><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>'
