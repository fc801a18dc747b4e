"""Faults of single pairs: what can be said of a pair without knowing the others."""

import re
import unicodedata
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from attendo.doctor.files import Chunk
from attendo.doctor.findings import Findings
from attendo.doctor.lines import (
    BOM,
    BREAK,
    CONTROL,
    DIGIT,
    HIDDEN,
    LETTER,
    LOST,
    SPACE,
    SPACELESS,
    SYLLABLE,
    Lines,
    Mask,
)
from attendo.doctor.repair import ENTITY, MOJIBAKE

LONGEST_WORDS, LONGEST_CHARACTERS = 200, 1200
FEWEST_LETTERS = 2
FEWEST_COPIED_LETTERS = 12  # shorter ones are names and numbers, the same in both languages
REPETITIONS = 3
LONGEST_PERIOD = 4  # words of what is repeated
LONGEST_RUN = 5  # of one character

URL = re.compile(r"(?:\w+://|www\.)[^\s<>\"]+")
EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{2,24}){1,4}")
TAG = re.compile(r"</?[a-zA-Z][\w:-]{0,30}(?:\s[^<>\n]{0,200})?/?>")
PLACEHOLDER = re.compile(
    r"\$?\{\{?[^{}\n]{0,40}\}?\}|(?<![\w%])%(?:\d{1,2}\$)?[-+0#]?\d{0,3}(?:\.\d{1,2})?[sdifuxXc@](?![\w])|%\(\w{1,40}\)[sd]"
    rf"|{TAG.pattern}"
)
NUMBER = re.compile(r"\d+(?:[.,'’\u00a0\u202f]\d+)*")
# Numbers, and before them whatever has digits of its own and is compared by itself.
_NUMBER_OR_OTHER = re.compile("|".join(one.pattern for one in (URL, EMAIL, PLACEHOLDER, ENTITY, NUMBER)))

_BRACKETS = ("([{（［｛【《", ")]}）］｝】》")
_QUOTES = '"“”„‟«»「」『』'


def check_pairs(chunk: Chunk) -> Findings:
    """What is wrong with the pairs of a chunk, each by itself; with what reading has found."""
    found = Findings(chunk.found.copy())
    for name, where in _faults(chunk.source, chunk.target):
        found.mark(name, where)
    return found


def _faults(source: Lines, target: Lines) -> Iterator[tuple[str, Mask]]:
    sides = (source, target)
    letters = [side.each((side.kinds & np.uint16(LETTER)) != 0) for side in sides]
    visible = [side.each((side.kinds & np.uint16(SPACE | CONTROL | BREAK | HIDDEN | BOM)) == 0) for side in sides]
    spaceless = [side.each((side.kinds & np.uint16(SPACELESS)) != 0) for side in sides]
    words = [side.words.counts for side in sides]

    for name, kind in (
        ("lost_characters", LOST),
        ("bom", BOM),
        ("control_characters", CONTROL),
        ("hidden_characters", HIDDEN),
        ("line_breaks", BREAK),
    ):
        yield name, source.having(kind) | target.having(kind)
    yield "mojibake", _garbled(source) | _garbled(target)
    yield "not_nfc", _not_nfc(source) | _not_nfc(target)

    yield "empty", np.minimum(*visible) == 0
    yield "identical", (source.skeletons == target.skeletons) & (letters[0] >= FEWEST_COPIED_LETTERS)
    fewest = [np.where(count > 0, 1, FEWEST_LETTERS) for count in spaceless]
    yield "too_short", (letters[0] < fewest[0]) | (letters[1] < fewest[1])
    signs = [seen - count for seen, count in zip(visible, letters, strict=True)]
    weights = [count + (SYLLABLE - 1) * more for count, more in zip(letters, spaceless, strict=True)]
    yield "symbols", (weights[0] < signs[0]) | (weights[1] < signs[1])
    yield "too_long", np.maximum(*words) > LONGEST_WORDS
    yield "too_long", np.maximum(source.lengths, target.lengths) > LONGEST_CHARACTERS

    for name, pattern, hints in (
        ("urls", URL, ("://", "www.")),
        ("emails", EMAIL, ("@",)),
        ("placeholders", PLACEHOLDER, ("{", "%", "<")),
    ):
        held = [side.sums(pattern, side.lines_with(*hints)) for side in sides]
        yield name, held[0] != held[1]
    yield "digits", numbers_of(source) != numbers_of(target)
    tagged = [side.matching(TAG, side.lines_with("<")) for side in sides]
    coded = [side.matching(ENTITY, side.lines_with("&")) for side in sides]
    yield "markup", tagged[0] & tagged[1]
    yield "entities", coded[0] | coded[1]
    yield "brackets", _open(source) != _open(target)
    yield "quotes", _count(source, _QUOTES) % 2 != _count(target, _QUOTES) % 2
    yield "spaces", _gaps(source) | _gaps(target)
    yield "repeated_words", _repeats_words(source) | _repeats_words(target)
    yield "repeated_characters", _repeats_characters(source) | _repeats_characters(target)


def _not_nfc(lines: Lines) -> Mask:
    if unicodedata.is_normalized("NFC", lines.text):
        return np.zeros(len(lines), dtype=np.bool_)
    return np.fromiter((not unicodedata.is_normalized("NFC", lines[n]) for n in range(len(lines))), dtype=np.bool_)


def _garbled(lines: Lines) -> Mask:
    """(N,): lines with mojibake, which begins with one of the characters C2 … F4 and goes on with one above 7F."""
    begins = (lines.codes[:-1] >= 0xC2) & (lines.codes[:-1] <= 0xF4) & (lines.codes[1:] >= 0x80)
    return lines.matching(MOJIBAKE, lines.lines_where(begins))


def _gaps(lines: Lines) -> Mask:
    blank = (lines.codes == ord(" ")) | (lines.codes == ord("\t"))
    gaps = lines.codes == ord("\t")
    gaps[1:] |= blank[1:] & blank[:-1]
    return lines.mask(lines.lines_where(gaps))


def numbers_of(lines: Lines) -> NDArray[np.uint64]:
    """(N,): the numbers of each line as one sum, however their digits are grouped."""
    among = lines.lines_where((lines.kinds & np.uint16(DIGIT)) != 0)
    return lines.sums(_NUMBER_OR_OTHER, among, _number)


def _number(text: str) -> int:
    """A number as it is whatever groups its digits; 0 for what only has digits inside."""
    if not NUMBER.fullmatch(text):
        return 0
    return int("".join(filter(str.isdecimal, text))[:30]) + 1


def _open(lines: Lines) -> NDArray[np.int64]:
    """(N,): brackets opened and not closed, by shape, as one number."""
    balance = np.zeros(len(lines), dtype=np.int64)
    for weight, (opening, closing) in enumerate(zip(*_BRACKETS, strict=True)):
        balance += (_count(lines, opening) - _count(lines, closing)) << (6 * (weight % 4))
    return balance


def _count(lines: Lines, characters: str) -> NDArray[np.int64]:
    """(N,): how often these characters occur."""
    count = np.zeros(len(lines), dtype=np.int64)
    for character in characters:
        if character in lines.text:
            np.add.at(count, lines.lines_at(np.flatnonzero(lines.codes == ord(character))), 1)
    return count


def _repeats_words(lines: Lines) -> Mask:
    """(N,): lines with the same one to four words three times in a row."""
    words = lines.words
    found = np.zeros(len(lines), dtype=np.bool_)
    for period in range(1, LONGEST_PERIOD + 1):
        same = (words.hashes[period:] == words.hashes[:-period]) & (words.lines[period:] == words.lines[:-period])
        same &= words.plain[period:]
        long_enough = _run_ends(same, (REPETITIONS - 1) * period)
        found[words.lines[period:][long_enough]] = True
    return found


def _repeats_characters(lines: Lines) -> Mask:
    same = (lines.codes[1:] == lines.codes[:-1]) & ((lines.kinds[1:] & np.uint16(DIGIT | SPACE)) == 0)
    ends = np.flatnonzero(_run_ends(same, LONGEST_RUN - 1))
    found = np.zeros(len(lines), dtype=np.bool_)
    found[lines.lines_at(ends)] = True
    return found


def _run_ends(values: Mask, length: int) -> Mask:
    """Where the last `length` values are all true."""
    totals = np.concatenate([[0], np.cumsum(values)])
    ends = np.zeros(len(values), dtype=np.bool_)
    if len(values) >= length:
        ends[length - 1 :] = totals[length:] - totals[:-length] == length
    return ends
