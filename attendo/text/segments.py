"""Cutting a text that is too long for the model, at the most sensible places there are."""

import re
from collections.abc import Callable, Iterator

# From the best place to cut to the worst: after a sentence, after a clause, between words, anywhere.
_CUTS = (
    re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])"),
    re.compile(r"(?<=[,;:–—)])\s+|(?<=[，、；：])"),
    re.compile(r"\s+"),
    re.compile(r"(?<=.)(?=.)", re.DOTALL),
)

Part = tuple[str, str]  # a text, and the white space that followed it


def split_long(text: str, *, limit: int, count: Callable[[str], int]) -> list[Part]:
    """Parts of at most `limit` pieces, as `count` counts them; the parts and their spaces together are the text."""
    return list(_packed(text, "", 0, limit, count))


def _packed(text: str, space: str, level: int, limit: int, count: Callable[[str], int]) -> Iterator[Part]:
    if count(text) <= limit or level == len(_CUTS) or len(text) <= 1:
        yield text, space
        return
    units = list(_units(text, space, _CUTS[level]))
    packed, packed_space, size = "", "", 0
    for unit, unit_space in units:
        n = count(unit)
        if packed and size + n > limit:
            yield packed, packed_space
            packed, packed_space, size = "", "", 0
        if n > limit:
            yield from _packed(unit, unit_space, level + 1, limit, count)
        else:
            packed, packed_space, size = packed + packed_space + unit, unit_space, size + n
    if packed:
        yield packed, packed_space


def _units(text: str, space: str, cut: re.Pattern[str]) -> Iterator[Part]:
    """The pieces between cuts, each with the white space of the cut after it, the last one with `space`."""
    start = 0
    for match in cut.finditer(text):
        if match.start() > start:
            yield text[start : match.start()], match.group()
            start = match.end()
    if start < len(text):
        yield text[start:], space
