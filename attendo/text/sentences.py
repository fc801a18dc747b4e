"""A text's sentences."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

# What ends a line ends a sentence. The white space after it belongs to what is between sentences.
_LINE = re.compile(r"[^\n\r\v\f\x85\u2028\u2029]+")
# So much of a line is looked at in one piece: the time to find sentences grows faster than the text.
_WINDOW = 10_000

Part = tuple[str, str]
"""A sentence, and the white space that follows it."""


def split_sentences(text: str, language: str) -> list[Part]:
    """(sentence, white space that follows it), which joined give back the text exactly.

    White space at the beginning of a text follows an empty sentence; otherwise no sentence is empty, and none begins or
    ends with white space. A line break always ends a sentence. `language`: a code such as ``en`` or ``pt-BR``, which
    decides about abbreviations; one that `sentencex` does not know is treated as English, whose rules also end
    sentences at the marks of other scripts.
    """
    from sentencex import segment

    base = re.split("[-_]", language.lower())[0]
    spans = [span for line in _LINE.finditer(text) for span in _spans(line[0], line.start(), partial(segment, base))]
    if not spans:
        return [("", text)] if text else []
    starts = [start for start, _ in spans]
    parts = [
        (text[start:end], text[end:then]) for (start, end), then in zip(spans, [*starts[1:], len(text)], strict=True)
    ]
    return [("", text[: starts[0]]), *parts] if starts[0] else parts


def _spans(line: str, offset: int, segment: Callable[[str], list[str]]) -> Iterator[tuple[int, int]]:
    """Where the sentences of a line begin and end, from `offset` on."""
    starts = list(_starts(line, segment))
    for start, then in zip(starts, [*starts[1:], len(line)], strict=True):
        part = line[start:then]
        sentence = part.strip()
        if sentence:
            begin = offset + start + len(part) - len(part.lstrip())
            yield begin, begin + len(sentence)


def _starts(line: str, segment: Callable[[str], list[str]]) -> Iterator[int]:
    # sentencex takes UTF-8: half of a surrogate pair, which has none, is shown to it as a question mark.
    line = line.encode("utf-8", "replace").decode("utf-8")
    at, size = 0, _WINDOW
    while at + size < len(line):
        *starts, last = _found(segment(line[at : at + size]), line[at : at + size])
        if starts:  # the last sentence may go on after the window
            yield from (at + start for start in starts)
            at, size = at + last, _WINDOW
        else:
            size *= 2
    yield from (at + start for start in _found(segment(line[at:]), line[at:]))


def _found(sentences: Sequence[str], text: str) -> list[int]:
    """Where sentences begin in a text, whatever white space was taken from them; the first at its beginning."""
    starts, at = [], 0
    for core in map(str.strip, sentences):
        start = text.find(core, at)
        if core and start >= 0:
            starts.append(start)
            at = start + len(core)
    return [0, *starts[1:]]
