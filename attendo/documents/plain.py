"""Plain text: each line is a passage, without the white space at its ends."""

import re

from attendo.documents.inline import Piece, in_place, inline_of
from attendo.documents.passages import Passage

_LINE = re.compile(r"[^\r\n]+")


def passages(content: str) -> list[Passage]:
    """Nothing in plain text is markup, and nothing is escaped."""
    lines = (inline_of(content, [Piece(*match.span(), match[0])], str) for match in _LINE.finditer(content))
    return [in_place(content, line, str) for line in lines if line]
