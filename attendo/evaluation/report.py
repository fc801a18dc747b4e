"""A training run as one HTML page: what was trained, how it went, and what it translates worst.

The page needs nothing but itself: style and drawings are inside, there are no scripts, nothing is fetched.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape

from attendo.evaluation.chart import STYLE as CHART_STYLE
from attendo.evaluation.chart import Point, Series, line_chart

STYLE = """
:root {
  color-scheme: light dark;
  --page: #f5f6f8; --surface: #ffffff; --text: #1b1f27; --muted: #5b6472; --grid: #e8eaef; --axis: #a9b0bc;
  --edge: #e1e4ea; --ink-0: #2463c7; --ink-1: #c8560a; --ink-2: #6b7280; --track: #e6e9ef;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #12151b; --surface: #1a1e26; --text: #e6e9ef; --muted: #a2abba; --grid: #282d38; --axis: #59616f;
    --edge: #2a303b; --ink-0: #6ea3f5; --ink-1: #f2964b; --ink-2: #98a1b0; --track: #2c323d;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 72rem; padding: 2rem clamp(1rem, 4vw, 2.5rem) 4rem;
  background: var(--page); color: var(--text); font: 16px/1.55 system-ui, sans-serif;
}
h1 { margin: 0; font-size: clamp(1.5rem, 4vw, 2rem); line-height: 1.2; overflow-wrap: anywhere; }
h2 { margin: 2.5rem 0 .8rem; font-size: 1.15rem; }
.lead { margin: .5rem 0 0; color: var(--muted); max-width: 46rem; }
.card { background: var(--surface); border: 1px solid var(--edge); border-radius: 10px; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: start; vertical-align: top; overflow-wrap: anywhere; }
.summary th, .summary td { padding: .45rem 1.1rem; border-top: 1px solid var(--edge); }
.summary tr:first-child > * { border-top: 0; }
.summary th { width: 14rem; font-weight: 500; color: var(--muted); }
.charts { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
figure { margin: 0; padding: .9rem 1rem .6rem; }
figcaption { font-weight: 600; }
.samples th, .samples td { padding: .65rem 1.1rem; border-top: 1px solid var(--edge); }
.samples thead th { border-top: 0; font-size: .85rem; font-weight: 500; color: var(--muted); }
.samples td { width: 30%; }
.samples td.bleu { width: 10%; min-width: 6.5rem; font-variant-numeric: tabular-nums; }
.bar { display: block; height: 4px; margin-top: .35rem; border-radius: 2px; background: var(--track); }
.bar i { display: block; height: 100%; border-radius: 2px; background: var(--ink-0); }
@media (max-width: 44rem) {
  .summary tr, .summary th, .summary td { display: block; width: auto; }
  .summary tr { padding: .45rem 1.1rem; border-top: 1px solid var(--edge); }
  .summary th, .summary td { padding: 0; border: 0; }
  .summary th { font-size: .85rem; }
  figure { padding: .8rem .6rem .4rem; }
  .samples thead { display: none; }
  .samples tr { display: block; padding: .8rem 1.1rem; border-top: 1px solid var(--edge); }
  .samples tbody tr:first-child { border-top: 0; }
  .samples td, .samples td.bleu { display: block; width: auto; padding: .2rem 0; border: 0; }
  .samples td::before { content: attr(data-name); display: block; font-size: .8rem; color: var(--muted); }
}
"""


def training_report(
    *,
    title: str,
    entries: Sequence[Mapping[str, object]],
    summary: Mapping[str, str],
    samples: Sequence[Mapping[str, str]],
) -> str:
    """The page for the lines of a run's log, `entries`, of which the events `progress` and `validation` are drawn.

    `samples` have the keys source, reference, translation and bleu; they are shown worst first.
    """
    body = [f"<h1>{escape(title)}</h1>"]
    if any(entry.get("event") in ("progress", "validation") for entry in entries):
        body.append(f'<p class="lead">{escape(_lead(entries))}</p>')
        charts = f'<h2>Training</h2><div class="charts">{"".join(_charts(entries))}</div>'
    else:
        body.append('<p class="lead">Nothing was logged yet.</p>')
        charts = ""
    if summary:
        body.append(f"<h2>Summary</h2>{summary_table(summary)}")
    body.append(charts)
    if samples:
        body.append(f"<h2>Sample translations, worst first</h2>{_samples_table(samples)}")
    return page(title, body)


def page(title: str, body: Sequence[str], style: str = "") -> str:
    """A whole page of these parts, which needs nothing but itself."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}{CHART_STYLE}{style}</style>\n</head>\n<body>\n"
        + "\n".join(part for part in body if part)
        + "\n</body>\n</html>\n"
    )


def _last_step(entries: Sequence[Mapping[str, object]]) -> float:
    return max(
        (step for event in ("progress", "validation") for step, _ in curve(entries, event, "step")),
        default=0.0,
    )


def _lead(entries: Sequence[Mapping[str, object]]) -> str:
    """The run in a line or two, as far as it was logged."""
    epochs = [value for _, value in curve(entries, "progress", "epoch") if math.isfinite(value)]
    words = [f"{_last_step(entries):,.0f} steps" + (f", {epochs[-1]:.1f} epochs." if epochs else ".")]
    scored = [(value, step) for step, value in curve(entries, "validation", "bleu") if math.isfinite(value)]
    if scored:
        best, step = max(scored, key=lambda pair: pair[0])
        words.append(f"Best validation BLEU: {best:.2f}, at step {step:,.0f}.")
    baselines = [value for _, value in curve(entries, "validation", "baseline_bleu") if math.isfinite(value)]
    if baselines:
        words.append(f"Copying the source would score {baselines[-1]:.2f}.")
    return " ".join(words)


def _charts(entries: Sequence[Mapping[str, object]]) -> list[str]:
    last_step = _last_step(entries)

    def figure(title: str, y_label: str, *series: Series, from_zero: bool) -> str:
        chart = line_chart(
            title=title,
            x_label="step",
            y_label=y_label,
            x_range=(0.0, max(1.0, last_step)),
            series=series,
            from_zero=from_zero,
        )
        return f'<figure class="card"><figcaption>{escape(title)}</figcaption>{chart}</figure>'

    def line(name: str, event: str, key: str, *, ink: int, dashed: bool = False) -> Series:
        return Series(name=name, points=curve(entries, event, key), ink=ink, dashed=dashed)

    scored = []
    if curve(entries, "validation", "accuracy"):
        accuracy = line("told right", "validation", "accuracy", ink=1)
        scored.append(figure("Validation accuracy", "share", accuracy, from_zero=True))
    if curve(entries, "validation", "bleu") or not curve(entries, "validation", "loss"):
        scored.append(
            figure(
                "Validation BLEU",
                "BLEU",
                line("translations", "validation", "bleu", ink=1),
                line("source copied", "validation", "baseline_bleu", ink=2, dashed=True),
                from_zero=True,
            )
        )
    return [
        figure(
            "Loss",
            "nats per token",
            line("training", "progress", "loss", ink=0),
            line("validation", "validation", "loss", ink=1),
            from_zero=False,
        ),
        *scored,
        figure("Learning rate", "learning rate", line("learning rate", "progress", "lr", ink=0), from_zero=True),
        figure(
            "Speed",
            "tokens per second",
            line("tokens per second", "progress", "tokens_per_second", ink=0),
            from_zero=True,
        ),
    ]


def curve(entries: Sequence[Mapping[str, object]], event: str, key: str) -> list[Point]:
    """(step, value) of one event in order of steps. Of a step logged twice, as a resumed run does, the later counts."""
    values = {
        _number(entry.get("step")): _number(entry[key])
        for entry in entries
        if entry.get("event") == event and key in entry
    }
    return sorted((step, value) for step, value in values.items() if math.isfinite(step))


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def summary_table(summary: Mapping[str, str]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td dir="auto">{escape(value)}</td></tr>'
        for name, value in summary.items()
    )
    return f'<div class="card"><table class="summary"><tbody>{rows}</tbody></table></div>'


def _samples_table(samples: Sequence[Mapping[str, str]]) -> str:
    columns = ("source", "reference", "translation")
    rows = []
    for sample in sorted(samples, key=lambda sample: float(sample["bleu"])):
        cells = "".join(f'<td dir="auto" data-name="{column}">{escape(sample[column])}</td>' for column in columns)
        share = min(100.0, max(0.0, float(sample["bleu"])))
        rows.append(
            f'<tr>{cells}<td class="bleu" data-name="sentence BLEU">{float(sample["bleu"]):.1f}'
            f'<span class="bar"><i style="width: {share:.0f}%"></i></span></td></tr>'
        )
    head = "".join(f'<th scope="col">{name}</th>' for name in (*columns, "sentence BLEU"))
    return (
        f'<div class="card"><table class="samples"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
