"""Many lines as one array of code points, so that a question is put to all of them at once.

Shapes: C characters (every line followed by its line feed), N lines, M words.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, starmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint32]
Hashes = NDArray[np.uint64]
Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]

# What a character is, as bits.
LETTER, DIGIT, MARK, SPACE, CONTROL, BREAK, HIDDEN, BOM, LOST, SPACELESS = (1 << n for n in range(10))
WORD = LETTER | DIGIT | MARK

LINE_FEED = 10
SYLLABLE = 4  # letters of other scripts that a character of a script without spaces stands for, more or less
STEM = 5  # characters of a word that its stem has: enough to tell words apart, few enough to forget most endings

_TOP = 0x32400  # no letters from here on
_BREAKS = "\x0b\x0c\r\x1c\x1d\x1e\x85\u2028\u2029"
_HIDDEN = "\u00ad\u180e\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069"
_SPACELESS = ((0xE00, 0xFFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3041, 0x30FF), (0x3400, 0x9FFF), (0x20000, _TOP))
# Long stretches of letters of one script, filled at once.
_UNIFORM = {(0x3400, 0x4DBF): "Han", (0x4E00, 0x9FFF): "Han", (0xAC00, 0xD7A3): "Hangul", (0x20000, _TOP - 1): "Han"}
# Letters whose names do not begin with their script's.
_SCRIPTS = {"Cjk": "Han", "Hiragana": "Kana", "Katakana": "Kana", "Katakana-Hiragana": "Kana", "Ideographic": "Han"}
_LATIN = {"Feminine", "Masculine", "Fullwidth", "Micro", "Kelvin", "Angstrom", "Double-Struck", "Script", "Modifier"}

_random = np.random.default_rng(20170612)
_MIXED = _random.integers(0, 2**64, size=_TOP, dtype=np.uint64)
_PLACES = _random.integers(0, 2**64, size=4096, dtype=np.uint64) | np.uint64(1)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Characters:
    """By code point: what it is, its small letter, its script's number; and the scripts by number."""

    kinds: NDArray[np.uint16]
    small: Codes
    scripts: NDArray[np.uint8]
    names: tuple[str, ...]


@cache
def characters() -> Characters:
    kinds = np.zeros(_TOP, dtype=np.uint16)
    small = np.arange(_TOP, dtype=np.uint32)
    scripts = np.zeros(_TOP, dtype=np.uint8)
    names = {"": 0}
    general = {"L": LETTER, "N": DIGIT, "M": MARK, "Z": SPACE}
    for (first_code, last_code), script in _UNIFORM.items():
        kinds[first_code : last_code + 1] = LETTER
        scripts[first_code : last_code + 1] = names.setdefault(script, len(names))
    uniform = [code for first_code, last_code in _UNIFORM for code in (first_code, last_code + 1)]
    for code in chain.from_iterable(starmap(range, zip([0, *uniform[1::2]], [*uniform[::2], _TOP], strict=True))):
        character = chr(code)
        category = unicodedata.category(character)
        kinds[code] = CONTROL if category == "Cc" else LOST if category == "Co" else general.get(category[0], 0)
        if category[0] == "L":
            first = unicodedata.name(character, "Other").split(" ")[0].title()
            script = _SCRIPTS.get(first, "Latin" if first in _LATIN else first)
            scripts[code] = names.setdefault(script, min(len(names), 255))
            lower = character.lower()
            small[code] = ord(lower) if len(lower) == 1 else code
    kinds[ord("\t")] = kinds[LINE_FEED] = SPACE
    for text, kind in ((_BREAKS, BREAK), (_HIDDEN, HIDDEN), ("\ufeff", BOM), ("\ufffd", LOST)):
        for character in text:
            kinds[ord(character)] = kind
    for first_code, last_code in _SPACELESS:
        kinds[first_code : last_code + 1] |= np.uint16(SPACELESS)
    kinds[~(kinds & WORD).astype(bool)] &= ~np.uint16(SPACELESS)
    return Characters(kinds, small, scripts, tuple(names)[:256])


@dataclass(frozen=True)
class Words:
    """Runs of letters, marks and digits; where a script has no spaces, each character by itself.

    hashes, stems (M,): of the whole word and of its beginning, in small letters
    lines (M,): the line each is on; starts (N+1,): the first word of each line
    plain (M,): made of letters, in a script with spaces
    """

    hashes: Hashes
    stems: Hashes
    lines: Numbers
    starts: Numbers
    plain: Mask

    @property
    def counts(self) -> Numbers:
        return np.diff(self.starts)


class Lines:
    """Lines of text, none of which has a line feed.

    text: all of them, each followed by a line feed
    codes (C,): its code points; starts, ends (N,): where each line begins, and where its line feed is
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self.text = "\n".join(lines) + "\n" if lines else ""
        self.codes: Codes = np.frombuffer(self.text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        self.ends: Numbers = np.flatnonzero(self.codes == LINE_FEED)
        self.starts: Numbers = np.concatenate([np.zeros(min(1, len(lines)), dtype=np.int64), self.ends[:-1] + 1])
        assert len(self.ends) == len(lines)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, number: int) -> str:
        return self.text[self.starts[number] : self.ends[number]]

    @property
    def lengths(self) -> Numbers:
        return self.ends - self.starts

    @cached_property
    def known(self) -> Codes:
        """(C,): code points within the tables."""
        return np.minimum(self.codes, _TOP - 1)

    @cached_property
    def kinds(self) -> NDArray[np.uint16]:
        return characters().kinds[self.known]

    @cached_property
    def small(self) -> Codes:
        return characters().small[self.known]

    def each(self, values: NDArray[Any]) -> NDArray[Any]:
        """(C,) → (N,): sums by line."""
        kind = values.dtype if values.dtype.kind in "uf" and values.dtype.itemsize == 8 else np.dtype(np.int64)
        totals = np.zeros(len(values) + 1, dtype=kind)
        np.cumsum(values, out=totals[1:], dtype=kind)
        return totals[self.ends] - totals[self.starts]

    def lines_at(self, places: NDArray[Any]) -> Numbers:
        """The lines on which characters stand."""
        return np.searchsorted(self.ends, places)

    def lines_where(self, there: Mask) -> Numbers:
        """(C,) → the lines with a character for which it is true, each once."""
        return np.unique(self.lines_at(np.flatnonzero(there)))

    def lines_with(self, *texts: str) -> Numbers:
        """The lines on which one of these texts stands, each once."""
        places = []
        for text in texts:
            place = self.text.find(text)
            while place >= 0:
                places.append(place)
                place = self.text.find(text, place + len(text))
        return np.unique(self.lines_at(np.array(places, dtype=np.int64)))

    def having(self, kind: int) -> Mask:
        """(N,): lines with a character of a kind."""
        return self.mask(self.lines_where((self.kinds & np.uint16(kind)) != 0))

    def mask(self, numbers: Numbers) -> Mask:
        """(N,): true for these lines."""
        found = np.zeros(len(self), dtype=np.bool_)
        found[numbers] = True
        return found

    def matching(self, pattern: re.Pattern[str], among: Numbers) -> Mask:
        """(N,): which of some lines have a pattern."""
        numbers = [number for number in among.tolist() if pattern.search(self[number])]
        return self.mask(np.array(numbers, dtype=np.int64))

    def sums(self, pattern: re.Pattern[str], among: Numbers, value: Callable[[str], int] = hash) -> Hashes:
        """(N,): what a pattern finds on some lines, for each as a sum of hashes, in which order does not matter."""
        total = np.zeros(len(self), dtype=np.uint64)
        for number in among.tolist():
            found = [value(match.group()) & 0xFFFFFFFFFFFFFFFF for match in pattern.finditer(self[number])]
            if found:
                total[number] = mix(np.array(found, dtype=np.uint64)).sum()
        return total

    @cached_property
    def words(self) -> Words:
        is_word = (self.kinds & np.uint16(WORD)) != 0
        alone = (self.kinds & np.uint16(SPACELESS)) != 0
        follows = np.zeros_like(is_word)
        follows[1:] = is_word[:-1] & ~alone[:-1]
        where = np.flatnonzero(is_word)
        begins = (~follows | alone)[where]
        firsts = np.flatnonzero(begins)
        lengths = np.diff(firsts, append=len(where))
        within = np.arange(len(where)) - np.repeat(firsts, lengths)
        weighed = _MIXED[self.small[where]] * _PLACES[within & 63]
        lines = self.lines_at(where[firsts])
        strange = (self.kinds[where] & np.uint16(DIGIT | SPACELESS)) != 0
        return Words(
            hashes=_joined(weighed, firsts),
            stems=_joined(np.where(within < STEM, weighed, np.uint64(0)), firsts),
            lines=lines,
            starts=np.searchsorted(lines, np.arange(len(self) + 1)),
            plain=_joined(strange.astype(np.uint64), firsts) == 0,
        )

    @cached_property
    def hashes(self) -> Hashes:
        """(N,): 64 bits of each line as it is."""
        places = np.arange(len(self.codes)) - np.repeat(self.starts, self.lengths + 1)
        mixed = _MIXED[self.known] ^ (self.codes * _GOLDEN)
        return self.each(mixed * _PLACES[places & 4095])

    @cached_property
    def skeletons(self) -> Hashes:
        """(N,): 64 bits of the letters and digits of each line, case aside."""
        is_word = (self.kinds & np.uint16(WORD)) != 0
        order = np.cumsum(is_word)
        places = order - np.repeat(order[self.starts] - is_word[self.starts], self.lengths + 1)
        return self.each(np.where(is_word, _MIXED[self.small] * _PLACES[places & 4095], np.uint64(0)))

    @cached_property
    def main_scripts(self) -> NDArray[np.uint8]:
        """(N,): the script that most of each line is written in; 0 where there are no letters."""
        table = characters()
        scripts = np.where(self.kinds & np.uint16(LETTER), table.scripts[self.known], np.uint8(0))
        main = np.zeros(len(self), dtype=np.uint8)
        most = np.zeros(len(self), dtype=np.int64)
        for script in np.flatnonzero(np.bincount(scripts, minlength=1)):
            if script:
                weight = SYLLABLE if np.any(self.kinds[scripts == script] & np.uint16(SPACELESS)) else 1
                count = weight * self.each(scripts == script)
                main[count > most] = script
                most = np.maximum(most, count)
        return main

    def script_counts(self) -> NDArray[np.int64]:
        """(256,): letters by script."""
        letters = self.known[(self.kinds & np.uint16(LETTER)) != 0]
        return np.bincount(characters().scripts[letters], minlength=256)


def mix(values: Hashes) -> Hashes:
    """Scatters 64 bits over 64 bits (splitmix64's last steps)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def gram_hashes(codes: Codes, length: int) -> Hashes:
    """(C,) → (C - length + 1,): 64 bits of every run of so many characters."""
    count = max(0, len(codes) - length + 1)
    total = np.zeros(count, dtype=np.uint64)
    for place in range(length):
        total += _MIXED[codes[place : place + count]] * _PLACES[place]
    return total


def _joined(values: Hashes, firsts: Numbers) -> Hashes:
    """Sums of the runs that begin at `firsts`."""
    return np.add.reduceat(values, firsts) if len(firsts) else np.zeros(0, dtype=np.uint64)
