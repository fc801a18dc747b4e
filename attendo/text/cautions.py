"""Signs that a translation may have gone wrong, seen from the two texts alone."""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

CautionKind = Literal["repetition", "length", "copied", "lost", "cut", "long"]

_LONGEST_REPEATED = 8  # words
_TIMES = 3
_RATIO = 3.0  # of lengths in pieces
_SHORT = 12  # pieces: below this, ratios say nothing
_COPIED_WORDS = 4


@dataclass(frozen=True, slots=True)
class Caution:
    """One of them, in words."""

    kind: CautionKind
    message: str


def repetition(source: str, target: str) -> Caution | None:
    """A run of words that comes several times one after the other, and not so in the source."""
    words = target.split() if " " in target else list(target)
    if (run := _repeated(words)) is None:
        return None
    sources = source.split() if " " in source else list(source)
    if _repeated(sources) is not None:
        return None
    joined = (" " if " " in target else "").join(run)
    return Caution("repetition", f"{joined!r} comes {_TIMES} times or more one after the other")


def _repeated(words: list[str]) -> list[str] | None:
    """The shortest run that comes `_TIMES` times in a row; single characters must be letters."""
    most = Counter(words).most_common(1)
    if not most or most[0][1] < _TIMES:
        return None
    for n in range(1, _LONGEST_REPEATED + 1):
        for start in range(len(words) - _TIMES * n + 1):
            run = words[start : start + n]
            if any(word[0].isalnum() for word in run) and words[start : start + _TIMES * n] == run * _TIMES:
                return run
    return None


def odd_length(n_source: int, n_target: int) -> Caution | None:
    """Counted in pieces."""
    if max(n_source, n_target) < _SHORT or 1 / _RATIO <= (n_target + 1) / (n_source + 1) <= _RATIO:
        return None
    return Caution("length", f"{n_target} pieces for a source of {n_source}")


def copied(source: str, target: str) -> Caution | None:
    if source.casefold() != target.casefold() or sum(word.isalpha() for word in source.split()) < _COPIED_WORDS:
        return None
    return Caution("copied", "the translation is the source")
