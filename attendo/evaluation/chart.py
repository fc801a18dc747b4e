"""Line charts as SVG text: pure functions from numbers to a string, no drawing library, no scripts.

Colours come from the page through `STYLE` and the variables it names, so that one chart serves light and dark.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

# A narrow drawing keeps its text legible when a phone shrinks it to the width of the screen.
WIDTH, HEIGHT = 400, 250
LEFT, RIGHT, BOTTOM = 60, 18, 44
TOP, TOP_WITH_LEGEND = 16, 40
# A line of many points shows its dots only under the pointer, and has tooltips at some of them.
MOST_DOTS = 30
MOST_TOOLTIPS = 120

STYLE = """
.chart { display: block; width: 100%; height: auto; font: 12px system-ui, sans-serif; }
.chart text { fill: var(--muted); }
.chart .tick { font-variant-numeric: tabular-nums; }
.chart .grid { stroke: var(--grid); }
.chart .axis { stroke: var(--axis); }
.chart .line { fill: none; stroke: var(--ink); stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
.chart .dashed { stroke-dasharray: 5 5; stroke-width: 1.75; }
.chart .dot { fill: var(--ink); }
.chart .hidden { opacity: 0; }
.chart .reach { fill: transparent; }
.chart .point:hover .dot { opacity: 1; stroke: var(--text); stroke-width: 1.5; }
.chart .ink-0 { --ink: var(--ink-0); }
.chart .ink-1 { --ink: var(--ink-1); }
.chart .ink-2 { --ink: var(--ink-2); }
"""

Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Series:
    """A named line through `points`, (x, y) in rising x; a value that is not finite leaves a gap.

    `ink` is 0, 1 or 2: the page's variable `--ink-0` … colours it.
    """

    name: str
    points: Sequence[Point]
    ink: int = 0
    dashed: bool = False


def line_chart(
    *,
    title: str,
    x_label: str,
    y_label: str,
    x_range: tuple[float, float],
    series: Sequence[Series],
    from_zero: bool = False,
) -> str:
    """One `<svg>` element: grid, round ticks, labelled axes, lines, tooltips at the points, a legend for several.

    The x axis is `x_range`, of which the second must be larger, so that charts under each other can share it. The y
    axis follows the data; `from_zero` keeps zero on it, for quantities whose size matters and not only their course.
    """
    finite = [point for line in series for point in line.points if _finite(point)]
    label = escape(f"{title}: {', '.join(line.name for line in series)}; by {x_label}")
    parts = [
        f'<svg class="chart" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{label}">'
    ]
    if not finite:
        parts.append(_text(WIDTH / 2, HEIGHT / 2, "nothing to draw yet", anchor="middle"))
        return "".join([*parts, "</svg>"])

    (x_low, x_high), top = x_range, TOP_WITH_LEGEND if len(series) > 1 else TOP
    x_ticks = nice_ticks(x_low, x_high, 7)
    heights = [y for _, y in finite] + [0.0] * from_zero
    y_ticks = nice_ticks(min(heights), max(heights), 5)
    y_low, y_high = y_ticks[0], y_ticks[-1]

    def place(point: Point) -> Point:
        across, up = (point[0] - x_low) / (x_high - x_low), (point[1] - y_low) / (y_high - y_low)
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - top - BOTTOM)

    for tick, name in zip(y_ticks, tick_labels(y_ticks), strict=True):
        _, y = place((x_low, tick))
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(_text(LEFT - 8, y + 4, name, anchor="end", css="tick"))
    for tick, name in zip(x_ticks, tick_labels(x_ticks), strict=True):
        if x_low <= tick <= x_high:
            x, y = place((tick, y_low))
            parts.append(f'<path class="axis" d="M{x:.1f} {y:.1f}v5"/>')
            parts.append(_text(x, y + 18, name, anchor="middle", css="tick"))
    parts.append(f'<path class="axis" d="M{LEFT} {HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>')
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x_label, anchor="middle"))
    parts.append(
        f'<g transform="translate(14 {(top + HEIGHT - BOTTOM) / 2:g}) rotate(-90)">'
        f"{_text(0, 0, y_label, anchor='middle')}</g>"
    )
    if len(series) > 1:
        parts.extend(_legend(series))
    for line in series:
        parts.extend(_line(line, x_label, place))
    return "".join([*parts, "</svg>"])


def nice_ticks(low: float, high: float, count: int) -> list[float]:
    """At most `count` steps (and one for the ends) of 1, 2 or 5 times a power of ten, around `low` to `high`.

    The first tick is ≤ `low`, the last ≥ `high`; there are at least two, also for low = high.
    """
    if low == high:
        margin = abs(low) / 10 or 1.0
        low, high = low - margin, high + margin
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    # A hair of tolerance, lest 0.30000000000000004 be one step more than 0.3.
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """Short labels with as many decimals as the step needs: 0.5 1.0 1.5; 5k 10k 15k; 1e-4 2e-4."""
    largest, step = max(map(abs, ticks)), ticks[1] - ticks[0]
    if largest >= 1e9 or largest < 1e-2:
        exponent = math.floor(math.log10(largest))
        unit, suffix = 10.0**exponent, f"e{exponent}"
    else:
        unit, suffix = (1e6, "M") if largest >= 1e6 else (1e3, "k") if largest >= 1e4 else (1.0, "")
    decimals = max(0, -math.floor(math.log10(step / unit) + 1e-9))
    return [f"{tick / unit:.{decimals}f}{suffix}" if tick else "0" for tick in ticks]


def _line(series: Series, x_label: str, place: Callable[[Point], Point]) -> Iterator[str]:
    """The path, in pieces where values are missing, and its points with their tooltips."""
    path = []
    for drawable, piece in groupby(series.points, key=_finite):
        if drawable:
            placed = [f"{x:.1f} {y:.1f}" for x, y in map(place, piece)]
            # h0: a piece of a single point is drawn too, as a dot.
            path.append(f"M{'L'.join(placed)}h0")
    css = "line dashed" if series.dashed else "line"
    yield f'<g class="ink-{series.ink}"><path class="{css}" d="{"".join(path)}"/>'
    points = [point for point in series.points if _finite(point)]
    dot = "dot" if len(points) <= MOST_DOTS and not series.dashed else "dot hidden"
    every = max(1, math.ceil(len(points) / MOST_TOOLTIPS))
    # Counted from the end, so that the last point always has its tooltip.
    for point in points[::-1][::every][::-1]:
        x, y = place(point)
        yield (
            f'<g class="point"><title>{escape(f"{series.name}: {point[1]:.6g} at {x_label} {point[0]:,g}")}</title>'
            f'<circle class="reach" cx="{x:.1f}" cy="{y:.1f}" r="8"/>'
            f'<circle class="{dot}" cx="{x:.1f}" cy="{y:.1f}" r="3"/></g>'
        )
    yield "</g>"


def _legend(series: Sequence[Series]) -> Iterator[str]:
    x = float(LEFT)
    for line in series:
        css = "line dashed" if line.dashed else "line"
        yield f'<g class="ink-{line.ink}"><path class="{css}" d="M{x:g} 18h20"/></g>'
        yield _text(x + 27, 22, line.name)
        x += 27 + 6.5 * len(line.name) + 20


def _text(x: float, y: float, content: str, *, anchor: str = "start", css: str = "label") -> str:
    return f'<text class="{css}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(content)}</text>'


def _finite(point: Point) -> bool:
    return math.isfinite(point[0]) and math.isfinite(point[1])
