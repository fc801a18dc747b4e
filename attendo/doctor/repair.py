"""Repairs that cannot do harm: each leaves a sound text as it is."""

import html
import re
import unicodedata

# The characters that Windows-1252 and Latin-1 make of the bytes 0x80 … 0xBF, which in UTF-8 only follow others.
_FOLLOWING = "\u0080-\u00bf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"
# What UTF-8 looks like when it was read as Windows-1252: European letters and marks; then, twice in a row, letters of
# other alphabets and of Chinese and its neighbours; pictures; a byte order mark.
MOJIBAKE = re.compile(
    f"[ÂÃÄÅ][{_FOLLOWING}]|â[\u0080-\u0084€‚ƒ„][{_FOLLOWING}]|(?:[Æ-ß][{_FOLLOWING}]){{2,}}"
    f"|(?:[ã-ï][{_FOLLOWING}]{{2}}){{2,}}|ð[{_FOLLOWING}]{{3}}|ï»¿"
)
_TIMES_GARBLED = 3

ENTITY = re.compile(r"&(?:[a-zA-Z]{2,8}|#\d{1,6}|#x[0-9a-fA-F]{1,5});")

_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\ufeff\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069]"
)
_GAPS = re.compile("[ \t]{2,}|\t")


def repair(text: str) -> str:
    """The text without mojibake, invisible and control characters, entities and gaps, in NFC."""
    while True:  # what an entity stood for can be one of the others
        better = _ungarbled(text)
        better = _UNSEEN.sub("", better)
        better = ENTITY.sub(lambda match: html.unescape(match.group()).replace("\n", " "), better)
        better = _GAPS.sub(" ", unicodedata.normalize("NFC", better)).strip(" \t")
        if better == text:
            return text
        text = better


def _ungarbled(text: str) -> str:
    for _ in range(_TIMES_GARBLED):
        better = MOJIBAKE.sub(lambda match: _decoded(match.group()), text)
        if better == text:
            break
        text = better
    return text


def _decoded(garbled: str) -> str:
    """What the characters were before their bytes were read as Windows-1252; unchanged where that makes no sense."""
    try:
        return b"".join(map(_byte, garbled)).decode()
    except UnicodeError:
        return garbled


def _byte(character: str) -> bytes:
    try:
        return character.encode("windows-1252")
    except UnicodeEncodeError:
        return character.encode("latin-1")
