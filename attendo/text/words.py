"""The words of a text: what stands between white space; in scripts without spaces each character."""

import re

from attendo.text.tokenizer import SPACELESS

_WORD = re.compile(rf"{SPACELESS.pattern}|(?:(?!{SPACELESS.pattern})\S)+")


def word_spans(text: str) -> list[tuple[int, int]]:
    """Where each word begins and ends. Where every script has spaces, the words are `text.split()`."""
    return [match.span() for match in _WORD.finditer(text)]
