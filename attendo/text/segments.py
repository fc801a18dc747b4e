"""Cutting a text that is too long for the model, at the most sensible places there are."""

import re
from collections.abc import Callable, Iterator

# From the best place to cut to the worst: after a sentence, after a clause, between words, anywhere.
_CUTS = (
    re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])\s*"),
    re.compile(r"(?<=[,;:–—)])\s+|(?<=[，、；：])\s*"),
    re.compile(r"\s+"),
    re.compile(r"(?<=.)(?=.)", re.DOTALL),
)

Part = tuple[str, str]  # a text, and the white space that followed it
Span = tuple[int, int]  # where something begins and ends


def split_long(text: str, *, limit: int, count: Callable[[str], int]) -> list[Part]:
    """Parts of at most `limit` pieces, as `count` counts them; the parts and their spaces together are the text.

    A part is longer only where a single character is. `count` is asked about O(log n) texts for each part, none of them
    much longer than it.
    """
    spans = list(_packed(text, (0, len(text)), 0, lambda start, end: count(text[start:end]) <= limit))
    following = [start for start, _ in spans[1:]] + [len(text)]
    return [(text[start:end], text[end:then]) for (start, end), then in zip(spans, following, strict=True)]


def _packed(text: str, span: Span, level: int, fits: Callable[[int, int], bool]) -> Iterator[Span]:
    """As many units of this level together as fit; a unit that does not fit alone is cut at the next level."""
    if level == len(_CUTS) or fits(*span):
        yield span
        return
    units = list(_units(text, span, _CUTS[level]))
    first = 0
    while first < len(units):
        start, end = units[first]
        n = _most(lambda n: fits(units[first][0], units[first + n - 1][1]), len(units) - first)  # noqa: B023 (used at once)
        if n == 0:
            yield from _packed(text, (start, end), level + 1, fits)
        else:
            yield start, units[first + n - 1][1]
        first += max(n, 1)


def _most(fits: Callable[[int], bool], n: int) -> int:
    """The largest number up to n that fits, where all smaller ones fit too: doubled until too much, then bisected."""
    low, high = 0, 1
    while high <= n and fits(high):
        low, high = high, 2 * high
    high = min(high, n + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _units(text: str, span: Span, cut: re.Pattern[str]) -> Iterator[Span]:
    """What lies between the cuts."""
    start, end = span
    for match in cut.finditer(text, start, end):
        if match.start() > start:
            yield start, match.start()
            start = match.end()
    if start < end:
        yield start, end
