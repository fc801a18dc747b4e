"""What was found in a corpus, as one HTML page: every fault with its samples, and what the corpus is made of."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from attendo.evaluation.chart import Point, Series, line_chart
from attendo.evaluation.report import page, summary_table

ACTIONS = {"drop": "dropped by --clean", "repair": "repaired by --clean", "report": "only reported"}
SIDES = ("source", "target")

STYLE = """
.faults { display: grid; gap: 1rem; }
.fault { padding: 1rem 1.1rem; }
.fault h3 { margin: 0; font-size: 1rem; }
.fault p { margin: .2rem 0 .6rem; color: var(--muted); }
.fault .broken { color: var(--ink-1); }
.fault td { padding: .3rem .8rem .3rem 0; border-top: 1px solid var(--edge); white-space: pre-wrap; width: 46%; }
.fault td.line { width: 8%; color: var(--muted); font-variant-numeric: tabular-nums; }
.fault .note { color: var(--muted); font-size: .85rem; }
@media (max-width: 44rem) { .fault td, .fault td.line { display: block; width: auto; } }
"""


def data_report(found: Mapping[str, Any]) -> str:
    """The page for what `attendo check --json` prints."""
    title = found["source"] if found["target"] is None else f"{found['source']} and {found['target']}"
    n = found["pairs"]
    broken = "Something is broken. " if found["broken"] else ""
    lead = f"{broken}Nothing was found in {found['sound']:,} of {n:,} pairs ({found['sound'] / n:.1%})."
    body = [f"<h1>{escape(title)}</h1>", f'<p class="lead">{escape(lead)}</p>']
    body.append(f"<h2>Summary</h2>{summary_table(_summary(found))}")
    if found["parting"]:
        body.append(_parting(found["parting"]))
    if found["findings"]:
        faults = "".join(map(_fault, found["findings"]))
        body.append(f'<h2>What was found</h2><div class="faults">{faults}</div>')
    body.append(f'<h2>What is in it</h2><div class="charts">{"".join(_charts(found["facts"]))}</div>')
    return page(title, body, STYLE)


def _summary(found: Mapping[str, Any]) -> dict[str, str]:
    n, facts, cleaned = found["pairs"], found["facts"], found["cleaned"]
    rows = {
        "pairs": f"{n:,}",
        "cleaning would drop": f"{found['dropped_by_clean']:,} ({found['dropped_by_clean'] / n:.2%})",
        "cleaning would repair": f"{found['repaired_by_clean']:,} ({found['repaired_by_clean'] / n:.2%})",
    }
    if cleaned:
        rows["cleaned"] = f"{cleaned['kept']:,} kept in {cleaned['folder']}, {cleaned['dropped']:,} dropped"
    for side in SIDES:
        one = facts[side]
        rows[f"{side} words"] = (
            f"{one['words']:,}, {one['distinct_words']:,} distinct, {one['words_seen_once']:.0%} of them seen once"
        )
        rows[f"{side} scripts"] = ", ".join(f"{name} {share:.2%}" for name, share in one["scripts"].items())
    for name, shares in facts["unseen_words"].items():
        rows[f"words of the {name} set never seen here"] = (
            f"source {shares['source']:.1%}, target {shares['target']:.1%}"
        )
    return rows


def _fault(fault: Mapping[str, Any]) -> str:
    rows = "".join(
        f'<tr><td class="line">{sample["number"]:,}</td><td dir="auto">{_text(sample["source"])}</td>'
        f'<td dir="auto">{_text(sample["target"])}{_note(sample["note"])}</td></tr>'
        for sample in fault["samples"]
    )
    broken = '<span class="broken">broken:</span> ' if fault["broken"] else ""
    share = f"{fault['count']:,} ({fault['share']:.2%}), {ACTIONS[fault['action']]}"
    return (
        f'<section class="card fault"><h3>{broken}{escape(fault["title"])}: {share}</h3><p>{escape(fault["why"])}</p>'
        f"<table><tbody>{rows}</tbody></table></section>"
    )


def _parting(parting: Mapping[str, Any]) -> str:
    lead = (
        f"The files have {parting['n_source']:,} and {parting['n_target']:,} lines. Most likely they part at line "
        f"{parting['line']:,}."
    )
    rows = "".join(
        f'<tr><td class="line">{number + 1:,}</td><td dir="auto">{_text(source)}</td>'
        f'<td dir="auto">{_text(target)}</td></tr>'
        for number, source, target in parting["beside"]
    )
    return (
        f'<h2>Where the files part</h2><section class="card fault"><p>{escape(lead)}</p>'
        f"<table><tbody>{rows}</tbody></table></section>"
    )


def _charts(facts: Mapping[str, Any]) -> Iterator[str]:
    counts = {side: facts[side]["lines_by_words"] for side in SIDES}
    longest = max((number for side in SIDES for number, count in enumerate(counts[side]) if count), default=1)
    lengths = {
        side: [(float(n), float(count)) for n, count in enumerate(counts[side][: longest + 1])] for side in SIDES
    }
    yield _figure("Lines by length", "words", "lines", lengths, from_zero=True)
    growth = {side: [(0.0, 0.0), *((float(x), float(y)) for x, y in facts[side]["growth"])] for side in SIDES}
    yield _figure("Vocabulary growth", "words read", "distinct words", growth, from_zero=True)
    if facts["pieces_per_word"]:
        pieces = {side: [(float(row["vocab_size"]), row[side]) for row in facts["pieces_per_word"]] for side in SIDES}
        yield _figure("Pieces a word", "vocabulary", "pieces", pieces, from_zero=False)


def _figure(title: str, x_label: str, y_label: str, lines: Mapping[str, Sequence[Point]], *, from_zero: bool) -> str:
    chart = line_chart(
        title=title,
        x_label=x_label,
        y_label=y_label,
        x_range=(0.0, max(1.0, *(x for points in lines.values() for x, _ in points))),
        series=[Series(name=name, points=points, ink=ink) for ink, (name, points) in enumerate(lines.items())],
        from_zero=from_zero,
    )
    return f'<figure class="card"><figcaption>{escape(title)}</figcaption>{chart}</figure>'


def _text(text: str) -> str:
    """Its invisible characters visible; a NUL could not be in a page at all."""
    return escape("".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in text))


def _note(note: str) -> str:
    return f'<br><span class="note">{escape(note)}</span>' if note else ""
