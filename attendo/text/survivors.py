"""What a translation must take over from its source as it stands: placeholders, numbers, addresses and tags."""

import re
from collections import Counter
from collections.abc import Iterable

# In the order in which they are looked for at a place: an address has numbers in it, a placeholder may have a number.
_URL = r"(?:https?|ftp)://[^\s<>\"'`]*[^\s<>\"'`.,;:!?()\[\]{}…]|www\.[^\s<>\"'`]*[^\s<>\"'`.,;:!?()\[\]{}…]"
_EMAIL = r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
_TAG = r"</?[A-Za-z][\w:.-]*(?:\s[^<>]*)?/?>"
_PLACEHOLDER = (
    r"\{\{[^{}\s][^{}]*\}\}|\$?\{[^{}\s]*\}"  # {{name}}, {name}, {0}, {}, ${name}
    r"|%\([^()\s]+\)[#0 +-]*\d*(?:\.\d+)?[sdifgeEGxXor]"  # %(name)s
    r"|%(?:\d+\$)?[#0+-]*\d*(?:\.\d+)?l{0,2}[sdifuxXgGeE@](?![^\W_])"  # %s, %1$d, %.2f, not the % of 5 %d…
)
_NUMBER = r"(?<![\w])[-+−]?\d+(?:[.,:/’'\u00a0\u202f]\d+)*(?![^\W_])|\d+(?:[.,:/]\d+)*"

_ALL = re.compile("|".join(f"(?:{pattern})" for pattern in (_URL, _EMAIL, _TAG, _PLACEHOLDER, _NUMBER)))
# What no tag may stand inside; numbers that are one word are not among it.
UNDIVIDED = "|".join((_URL, _EMAIL, _PLACEHOLDER, r"\d+(?:[.,:/’']\d+)+"))
_MAYBE = re.compile(r"[\d@<{%$]|://|www\.")  # without one of these there is nothing to look for
_TAGS = re.compile(_TAG)


def survivors(text: str) -> list[str]:
    """All of them, in the order of the text; what comes twice is there twice."""
    return [text[start:end] for start, end in survivor_spans(text)]


def survivor_spans(text: str) -> list[tuple[int, int]]:
    """Where each of them begins and ends."""
    if _MAYBE.search(text) is None:
        return []
    return [match.span() for match in _ALL.finditer(text)]


def has_words(text: str) -> bool:
    """Whether there is anything to translate: a letter outside of what survives."""
    rest = _ALL.sub("", text) if _MAYBE.search(text) else text
    return any(map(str.isalpha, rest))


def tags(text: str) -> list[str]:
    """The inline tags alone."""
    return _TAGS.findall(text) if "<" in text else []


def missing(wanted: Iterable[str], text: str) -> list[str]:
    """What of it the text has not, or not as often; a number inside a longer one does not count."""
    there: Counter[str] = Counter()
    lacking = []
    for one in wanted:
        if one not in there:
            there[one] = occurrences(one, text)
        if there[one] > 0:
            there[one] -= 1
        else:
            lacking.append(one)
    return lacking


def occurrences(wanted: str, text: str) -> int:
    """How often; where it begins or ends with a letter or digit, no other may touch it there."""
    if wanted not in text:
        return 0
    return sum(1 for _ in re.finditer(bounded(re.escape(wanted), wanted), text))


def bounded(pattern: str, text: str) -> str:
    """The pattern of a text, only where no letter or digit touches the text's own; scripts without spaces touch."""
    before = r"(?<![^\W_])" if has_border(text[:1]) else ""
    after = r"(?![^\W_])" if has_border(text[-1:]) else ""
    return before + pattern + after


def has_border(character: str) -> bool:
    """Whether it belongs to a word, which has something else before and after it."""
    return character.isalnum() and not "\u2e80" <= character <= "\u9fff" and not "\uac00" <= character <= "\ud7af"
