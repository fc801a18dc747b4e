import math
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from attendo.evaluation.report import training_report

VOID = {"meta", "br", "link", "img", "hr", "input"}
SVG = re.compile(r"<svg.*?</svg>", re.DOTALL)


class Page(HTMLParser):
    """Fails on tags that do not balance; keeps the text of each cell and the tags seen."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.cells: list[str] = []
        self.attributes: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.extend(name for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "td":
            self.cells.append("")

    def handle_startendtag(self, tag, attrs):  # noqa: ARG002
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "td" in self.open:
            self.cells[-1] += data


def progress(step: int, **values: object) -> dict[str, object]:
    return {"event": "progress", "step": step, **values}


def validation(step: int, **values: object) -> dict[str, object]:
    return {"event": "validation", "step": step, **values}


ENTRIES = [
    {"event": "start", "seed": 3},
    progress(100, epoch=0.5, loss=7.5, lr=1e-4, tokens_per_second=9000.0),
    progress(200, epoch=1.0, loss=5.0, lr=2e-4, tokens_per_second=9500.0),
    validation(200, loss=5.5, perplexity=245.0, bleu=11.25, baseline_bleu=3.5),
    progress(300, epoch=1.5, loss=4.0, lr=1.6e-4, tokens_per_second=9400.0),
    validation(300, loss=4.6, perplexity=99.0, bleu=17.5, baseline_bleu=3.5),
]
SAMPLES = [
    {"source": "A dog.", "reference": "Ein Hund.", "translation": "Ein Hund.", "bleu": "100.0"},
    {"source": "A cat.", "reference": "Eine Katze.", "translation": "Ein Kater.", "bleu": "9.5"},
    {"source": "Rain.", "reference": "Regen.", "translation": "", "bleu": "0.0"},
]


def report(entries=ENTRIES, summary=None, samples=SAMPLES, title="en → de") -> str:
    summary = {"model": "4 + 4 layers"} if summary is None else summary
    return training_report(title=title, entries=entries, summary=summary, samples=samples)


def charts(html: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(svg) for svg in SVG.findall(html)]


def tooltips(svg: ElementTree.Element) -> list[str | None]:
    return [title.text for title in svg.iter("{http://www.w3.org/2000/svg}title")]


def test_a_run_gives_four_charts_with_its_numbers():
    html = report()
    Page(html)
    loss, bleu, rate, speed = charts(html)
    assert {"training: 7.5 at step 100", "validation: 4.6 at step 300"} <= set(tooltips(loss))
    assert {"translations: 17.5 at step 300", "source copied: 3.5 at step 200"} <= set(tooltips(bleu))
    assert tooltips(rate)[1] == "learning rate: 0.0002 at step 200"
    assert tooltips(speed)[-1] == "tokens per second: 9400 at step 300"
    assert "300 steps, 1.5 epochs. Best validation BLEU: 17.50, at step 300." in html
    assert "Copying the source would score 3.50." in html


def test_summary_and_samples_are_there_worst_first():
    cells = Page(report()).cells
    assert cells[0] == "4 + 4 layers"
    rows = [cells[start : start + 4] for start in (1, 5, 9)]
    assert rows == [
        ["Rain.", "Regen.", "", "0.0"],
        ["A cat.", "Eine Katze.", "Ein Kater.", "9.5"],
        ["A dog.", "Ein Hund.", "Ein Hund.", "100.0"],
    ]


def test_every_text_is_escaped():
    evil = '"><script>alert(1)</script>&amp;'
    sample = {"source": evil, "reference": evil, "translation": evil, "bleu": "1.0"}
    html = report(summary={evil: evil}, samples=[sample], title=evil)
    page = Page(html)
    assert "script" not in page.tags
    assert page.cells == [evil, evil, evil, evil, "1.0"]
    assert "<script" not in html


def test_the_page_needs_nothing_but_itself():
    html = report()
    page = Page(html)
    assert "http" not in html.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    assert not {"src", "href", "onload", "onclick"} & set(page.attributes)
    assert "url(" not in html
    assert "@import" not in html
    assert "prefers-color-scheme: dark" in html
    assert '<meta name="viewport"' in html


@pytest.mark.parametrize("entries", [[], [{"event": "start"}, {"unknown": 1}]])
def test_an_empty_log_is_said(entries):
    html = report(entries=entries, samples=[])
    Page(html)
    assert "Nothing was logged yet." in html
    assert charts(html) == []


def test_what_is_not_translated_has_no_bleu_but_may_have_an_accuracy():
    html = report(entries=[validation(7, loss=3.0)])
    assert len(charts(html)) == 3 and "BLEU" not in html.partition("Training</h2>")[2].partition("Sample")[0]
    html = report(entries=[validation(7, loss=3.0, accuracy=0.5)])
    assert len(charts(html)) == 4 and "Validation accuracy" in html


def test_a_single_entry_of_either_kind_is_enough():
    for entry in (ENTRIES[1], ENTRIES[3], progress(1)):
        html = report(entries=[entry])
        Page(html)
        assert len(charts(html)) == 4


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None, "NaN"])
def test_values_that_are_no_numbers_leave_gaps(value):
    bad = [
        progress(400, epoch=value, loss=value, lr=value, tokens_per_second=value),
        validation(400, loss=value, bleu=value, baseline_bleu=value),
        progress(500, loss=3.5),
        {"event": "progress", "step": value, "loss": 1.0},
        {"event": "progress", "loss": 1.0},
    ]
    html = report(entries=ENTRIES + bad)
    Page(html)
    loss, *_ = charts(html)
    assert len(tooltips(loss)) == 6
    assert "training: 3.5 at step 500" in tooltips(loss)
    assert "500 steps, 1.5 epochs. Best validation BLEU: 17.50" in html


def test_steps_repeated_after_a_resumption_are_drawn_once_in_order():
    html = report(entries=[*ENTRIES, progress(200, loss=5.25), progress(250, loss=4.5)])
    training = [text for text in tooltips(charts(html)[0]) if text and text.startswith("training")]
    assert training == [
        "training: 7.5 at step 100",
        "training: 5.25 at step 200",
        "training: 4.5 at step 250",
        "training: 4 at step 300",
    ]
