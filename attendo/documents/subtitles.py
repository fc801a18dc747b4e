"""SRT subtitles: the lines of a cue are a passage; numbers, times and tags are kept.

7
00:01:02,345 --> 00:01:04,000
<i>Have you seen
the other one?</i>
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import partial

from attendo.documents.inline import Inline, Piece, Role, in_place, inline_of, is_dense, on_one_line
from attendo.documents.passages import Passage
from attendo.errors import DataError

_LINE = re.compile(r"([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_CLOCK = r"\s*\d+:\d{1,2}:\d{1,2}[,.]\d{1,3}"
_TIMES = re.compile(rf"{_CLOCK}\s*-->{_CLOCK}.*")
_TAG = re.compile(r"<[^<>\r\n]*>|\{\\[^{}\r\n]*\}")
_DASH = re.compile(r"\s*[-‐–—]\s*(?=[^\s-])")
_LINE_END = re.compile(r"\r\n|\r|\n")

Span = tuple[int, int]


def passages(content: str) -> list[Passage]:
    """Everything that follows a line with times, up to the next cue. A file without any such line is an error."""
    lines = [match.span(1) for match in _LINE.finditer(content)]
    cues = [i for i, (start, end) in enumerate(lines) if _TIMES.fullmatch(content, start, end)]
    if not cues and content.strip():
        raise DataError(
            "line 1: no cue begins here or anywhere below. Subtitles have lines with times, such as "
            "00:01:02,345 --> 00:01:04,000: give an .srt file."
        )
    found = []
    for cue, following in zip(cues, [*cues, len(lines)][1:], strict=True):
        numbered = following < len(lines) and content[slice(*lines[following - 1])].strip().isdigit()
        for start, end in _speeches(content, lines[cue + 1 : following - numbered]):
            inline = inline_of(content, list(_pieces(content, start, end)), str)
            if inline:
                broken = _LINE_END.findall(content, inline.start, inline.end)
                found.append(in_place(content, inline, partial(_written, inline, broken)))
    return found


def _speeches(content: str, lines: Sequence[Span]) -> Iterator[Span]:
    """Lines in a row, cut where a line begins with a dash: another person speaks."""
    first, before = None, 0
    for start, end in [*lines, (len(content), len(content))]:
        dash = _DASH.match(content, start, end)
        blank = not content[start:end].strip()
        if first is not None and (dash or blank):
            yield first, before
            first = None
        if first is None and not blank:
            first = dash.end() if dash else start
        before = end


def _pieces(content: str, start: int, end: int) -> Iterator[Piece]:
    for tag in _TAG.finditer(content, start, end):
        if tag.start() > start:
            yield Piece(start, tag.start(), on_one_line(content[start : tag.start()]))
        role = Role.MARK if tag[0].startswith("{") else Role.CLOSE if tag[0].startswith("</") else Role.OPEN
        yield Piece(*tag.span(), tag[0], role)
        start = tag.end()
    if start < end:
        yield Piece(start, end, on_one_line(content[start:end]))


def _written(inline: Inline, broken: Sequence[str], translation: str) -> str:
    """On as many lines as there were, of about the same length; on fewer where there are not enough words."""
    parts = inline.parts(translation)
    text = "".join(part for part, _ in parts)
    cuts = _cuts(_places(parts), sum(len(part) for part, kept in parts if not kept), len(broken) + 1)
    written, at = "", 0
    for (start, end), line_end in zip(cuts, broken, strict=False):
        written += text[at:start] + line_end
        at = end
    return written + text[at:]


def _places(parts: Sequence[tuple[str, bool]]) -> Iterator[tuple[int, Span]]:
    """Where a line can end: how many characters are shown before it, and what the line break stands for."""
    at = shown = 0
    for part, kept in parts:
        if not kept:
            for i, character in enumerate(part):
                if character == " ":
                    yield shown + i, (at + i, at + i + 1)
                elif i and character.isalpha() and is_dense(character) and is_dense(part[i - 1]):
                    yield shown + i, (at + i, at + i)
            shown += len(part)
        at += len(part)


def _cuts(places: Iterator[tuple[int, Span]], length: int, n_lines: int) -> list[Span]:
    """The places nearest to 1/n, 2/n, … of the length, all different."""
    found = list(places)
    cuts: list[Span] = []
    least = 0
    for line in range(1, min(n_lines, len(found) + 1)):
        target = length * line / n_lines
        most = len(found) - (min(n_lines, len(found) + 1) - line)
        i = bisect_left(found, target, key=lambda place: place[0])
        if i and (i == len(found) or target - found[i - 1][0] <= found[i][0] - target):
            i -= 1
        i = min(max(i, least), most)
        cuts.append(found[i][1])
        least = i + 1
    return cuts
