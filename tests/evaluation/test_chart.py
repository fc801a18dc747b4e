import math
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attendo.evaluation.chart import HEIGHT, WIDTH, Series, line_chart, nice_ticks, tick_labels

SVG = "{http://www.w3.org/2000/svg}"


def draw(*series: Series, x_range: tuple[float, float] = (0, 1000), from_zero: bool = False) -> ElementTree.Element:
    svg = line_chart(
        title="a <b> & c", x_label="step", y_label="loss", x_range=x_range, series=series, from_zero=from_zero
    )
    return ElementTree.fromstring(svg)


def texts(svg: ElementTree.Element) -> list[str | None]:
    return [element.text for element in svg.iter(f"{SVG}text")]


def test_a_chart_has_ticks_labels_legend_and_tooltips():
    svg = draw(
        Series(name="training", points=[(0, 8.0), (500, 3.5), (1000, 2.25)]),
        Series(name="validation", points=[(500, 4.0), (1000, 3.0)], ink=1, dashed=True),
    )
    assert {"step", "loss", "training", "validation", "0", "200", "1000", "2", "8"} <= set(texts(svg))
    titles = [element.text for element in svg.iter(f"{SVG}title")]
    assert "training: 2.25 at step 1,000" in titles
    assert len(titles) == 5
    dashed = [path for path in svg.iter(f"{SVG}path") if path.get("class") == "line dashed"]
    assert len(dashed) == 2, "the line and its legend"


def test_points_are_where_their_values_say():
    svg = draw(Series(name="x", points=[(0, 0.0), (1000, 10.0)]))
    low, high = [circle for circle in svg.iter(f"{SVG}circle") if circle.get("class") == "dot"]
    x_of, y_of = (lambda circle: float(circle.get("cx", "nan"))), (lambda circle: float(circle.get("cy", "nan")))
    assert 0 < x_of(low) < x_of(high) < WIDTH
    assert 0 < y_of(high) < y_of(low) < HEIGHT
    middle = next(iter(draw(Series(name="x", points=[(500, 5.0), (0, 0.0), (1000, 10.0)])).iter(f"{SVG}circle")))
    assert x_of(middle) == pytest.approx((x_of(low) + x_of(high)) / 2, abs=0.1)
    assert y_of(middle) == pytest.approx((y_of(low) + y_of(high)) / 2, abs=0.1)


@pytest.mark.parametrize("hole", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_leaves_a_gap(hole):
    svg = draw(Series(name="x", points=[(0, 1.0), (250, 2.0), (500, hole), (750, 3.0), (1000, 4.0)]))
    (line,) = [path for path in svg.iter(f"{SVG}path") if path.get("class") == "line"]
    assert line.get("d", "").count("M") == 2
    assert len(list(svg.iter(f"{SVG}title"))) == 4
    assert "nan" not in ElementTree.tostring(svg, "unicode")


@pytest.mark.parametrize("points", [[], [(1, math.nan)], [(1, math.inf), (2, math.nan)]])
def test_nothing_to_draw_is_said(points):
    assert texts(draw(Series(name="x", points=points))) == ["nothing to draw yet"]


@pytest.mark.parametrize("value", [0.0, 7.0, -3.0, 1e-9])
def test_a_single_point_is_drawn_inside(value):
    svg = draw(Series(name="x", points=[(1000, value)]))
    (dot,) = [circle for circle in svg.iter(f"{SVG}circle") if circle.get("class") == "dot"]
    assert 0 < float(dot.get("cy", "nan")) < HEIGHT


def test_many_points_keep_the_whole_line_but_few_tooltips():
    svg = draw(Series(name="x", points=[(step, 1.0 + step) for step in range(997)]))
    titles = [element.text for element in svg.iter(f"{SVG}title")]
    assert 100 <= len(titles) <= 120
    assert titles[-1] == "x: 997 at step 996"
    (line,) = [path for path in svg.iter(f"{SVG}path") if path.get("class") == "line"]
    assert line.get("d", "").count("L") == 996


def test_from_zero_keeps_zero_on_the_axis():
    points = [(0, 10.0), (1000, 11.0)]
    assert "0.0" not in texts(draw(Series(name="x", points=points), x_range=(1, 1000)))
    assert "0" in texts(draw(Series(name="x", points=points), x_range=(1, 1000), from_zero=True))


def test_text_is_escaped():
    svg = draw(Series(name="<script>", points=[(0, 1.0)]), Series(name="&", points=[]))
    assert {"<script>", "&"} <= set(texts(svg))
    assert svg.get("aria-label") == "a <b> & c: <script>, &; by step"


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0, 37, ["0", "10", "20", "30", "40"]),
        (1.7, 3.9, ["1.5", "2.0", "2.5", "3.0", "3.5", "4.0"]),
        (0, 14000, ["0", "5k", "10k", "15k"]),
        (0, 2.6e6, ["0", "1M", "2M", "3M"]),
        (0, 5e-4, ["0", "1e-4", "2e-4", "3e-4", "4e-4", "5e-4"]),
        (0, 0.3, ["0", "0.1", "0.2", "0.3"]),
        (7, 7, ["6.0", "6.5", "7.0", "7.5", "8.0"]),
        (0, 4e12, ["0", "1e12", "2e12", "3e12", "4e12"]),
    ],
)
def test_ticks_are_round_numbers(low, high, labels):
    assert tick_labels(nice_ticks(low, high, 5)) == labels


def test_rounding_errors_add_no_step():
    assert tick_labels(nice_ticks(0, 0.1 + 0.2, 3)) == ["0", "0.1", "0.2", "0.3"]


@given(st.floats(-1e12, 1e12), st.floats(-1e12, 1e12), st.integers(3, 11))
def test_ticks_surround_the_data_and_labels_differ(a, b, count):
    low, high = min(a, b), max(a, b)
    if high - low < 1e-9 * max(abs(low), abs(high)) and low != high:
        return  # closer than any measurement; labels could not tell such ticks apart
    ticks = nice_ticks(low, high, count)
    step = ticks[1] - ticks[0]
    assert 2 <= len(ticks) <= count + 2
    assert ticks[0] <= low + 1e-6 * step
    assert ticks[-1] >= high - 1e-6 * step
    labels = tick_labels(ticks)
    assert len(set(labels)) == len(labels)
