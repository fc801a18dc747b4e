"""Text with markup inside: what of it is a passage, and how its markup gets into the translation."""

import re
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cached_property
from itertools import groupby

from attendo.documents.passages import Passage

# White space at the ends of a passage stays outside it. A no-break space is text.
_WHITE = " \t\n\r\f\v\u3000\u2028\u2029"
_LINE_BREAK = re.compile(r"[ \t\f]*[\r\n][ \t\f\r\n]*")
# Kana and ideographs, with their punctuation and full-width forms; not Hangul, which has spaces.
_DENSE = (("\u3000", "\u9fff"), ("\uf900", "\ufaff"), ("\uff00", "\uffef"), ("\U00020000", "\U0003ffff"))


class Role(Enum):
    """What a piece is in its passage; all but text is kept."""

    TEXT = auto()
    OPEN = auto()  # markup before text, which a CLOSE belongs to
    CLOSE = auto()
    MARK = auto()  # markup by itself, no part of the sentence: an image, a position
    WORD = auto()  # a part of the sentence: code, a placeholder


@dataclass(frozen=True)
class Piece:
    """A stretch of the content.

    text: plain where it is text, else as it stands in the document
    spare: left out of a translation that has lost its place, where other markup is put at the end
    """

    start: int
    end: int
    text: str
    role: Role = Role.TEXT
    spare: bool = False


@dataclass(frozen=True)
class Inline:
    """Pieces in a row that are translated together, without markup around them all."""

    pieces: tuple[Piece, ...]

    @property
    def start(self) -> int:
        return self.pieces[0].start

    @property
    def end(self) -> int:
        return self.pieces[-1].end

    @cached_property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    @cached_property
    def keep(self) -> tuple[str, ...]:
        return tuple(piece.text for piece in self.pieces if piece.role is not Role.TEXT)

    def parts(self, translation: str) -> list[tuple[str, bool]]:
        """A translation cut into (part, is kept), each kept string as often as in the text.

        What was lost is put at the end; and where tags are lost or crossed, all of them, in the order of the text, so
        that a document stays well-formed whatever a translation is.
        """
        for in_order in (True, False):  # ** and * can be told apart by either
            parts = split_kept(translation, self.keep, in_order=in_order)
            found = [part for part, kept in parts if kept]
            lost = Counter(self.keep) - Counter(found)
            if not lost and self._nests(found):
                return parts
        markup = [piece for piece in self.pieces if piece.role not in (Role.TEXT, Role.WORD)]
        if any(lost[piece.text] for piece in markup) or not self._nests(found):
            moved = {piece.text for piece in markup}
            parts = [(part, kept) for part, kept in parts if not (kept and part in moved)]
            parts += [(piece.text, True) for piece in markup if not piece.spare]
        for piece in self.pieces:
            if piece.role is Role.WORD and lost[piece.text]:
                lost[piece.text] -= 1
                parts += [(" ", False), (piece.text, True)]
        return parts

    def _nests(self, found: Sequence[str]) -> bool:
        """Whether tags open and close as they do in the text, in this order or another."""
        partners = _partners(self.pieces)
        pairs = {(self.pieces[first].text, self.pieces[last].text) for first, last in partners.items() if first < last}
        return _unpaired(found, pairs) == _unpaired(self.keep, pairs)


def inline_of(content: str, pieces: Sequence[Piece], escape: Callable[[str], str]) -> Inline | None:
    """The pieces of one passage; None where there is no letter to translate.

    Markup and white space around the whole stay outside. Text that looks like a kept string of the same passage is
    itself kept, escaped: otherwise nobody could tell them apart in a translation.
    """
    pieces = _trimmed(content, _merged(pieces))
    if not any(piece.role is Role.TEXT and any(map(str.isalpha, piece.text)) for piece in pieces):
        return None
    for _ in range(3):  # what was escaped can look like a kept string again
        inline = Inline(tuple(pieces))
        if _joined(inline.pieces) == _joined_parts(split_kept(inline.text, inline.keep, often=True)):
            return inline
        pieces = [part for piece in pieces for part in _told_apart(piece, inline.keep, escape)]
    return None


def in_place(content: str, inline: Inline, write: Callable[[str], str]) -> Passage:
    """A passage whose translation stands where its text stood. The text itself is written as it stood, to the byte."""
    raw = content[inline.start : inline.end]

    def written(translation: str) -> str:
        return raw if translation == inline.text else write(on_one_line(translation))

    return Passage(start=inline.start, end=inline.end, text=inline.text, keep=inline.keep, write=written)


def escaped(parts: Sequence[tuple[str, bool]], escape: Callable[[str], str]) -> str:
    return "".join(part if kept else escape(part) for part, kept in parts)


def split_kept(
    text: str, keep: Sequence[str], *, often: bool = False, in_order: bool = False
) -> list[tuple[str, bool]]:
    """(part, is kept), from the left; each as often as it is in `keep`, or `often`.

    Where several fit it is the longest, or if `in_order` the one that comes next in `keep`.
    """
    if not keep:
        return [(text, False)]
    places: dict[str, deque[int]] = {}
    for place, kept in enumerate(keep):
        places.setdefault(kept, deque()).append(place)
    lengths = sorted(set(map(len, places)), reverse=True)
    beginnings = re.compile("[" + re.escape("".join({kept[0] for kept in places})) + "]")
    parts: list[tuple[str, bool]] = []
    done = at = following = 0
    while match := beginnings.search(text, at):
        start = match.start()
        candidates = [text[start : start + n] for n in lengths]
        fitting = [part for part in candidates if places.get(part)]
        if not fitting:
            at = start + 1
            continue
        part = next((part for part in fitting if in_order and places[part][0] == following), fitting[0])
        if not often:
            following = places[part].popleft() + 1
        parts += [(text[done:start], False), (part, True)]
        done = at = start + len(part)
    return [part for part in [*parts, (text[done:], False)] if part[0]]


def on_one_line(text: str) -> str:
    """Line breaks become spaces, or nothing between characters of scripts that are written without spaces."""

    def between(match: re.Match[str]) -> str:
        start, end = match.span()
        inside = start > 0 and end < len(text)
        return "" if inside and is_dense(text[start - 1]) and is_dense(text[end]) else " "

    return _LINE_BREAK.sub(between, text)


def is_dense(character: str) -> bool:
    """Chinese and Japanese characters and punctuation: no space stands between two of them."""
    return any(first <= character <= last for first, last in _DENSE)


def _merged(pieces: Sequence[Piece]) -> list[Piece]:
    """Text in a row as one piece."""
    merged: list[Piece] = []
    for is_text, row in groupby(pieces, key=lambda piece: piece.role is Role.TEXT):
        same = list(row)
        text = "".join(piece.text for piece in same)
        merged += [Piece(same[0].start, same[-1].end, text)] if is_text else same
    return merged


def _trimmed(content: str, pieces: Sequence[Piece]) -> list[Piece]:
    """Without what stands before the first and after the last text, but for tags that open or close inside."""
    solid = [i for i, piece in enumerate(pieces) if _is_solid(piece)]
    if not solid:
        return []
    first, last = solid[0], solid[-1]
    partners = _partners(pieces)
    before = [i for i in range(first) if i in partners and first < partners[i] <= last]
    after = [i for i in range(last + 1, len(pieces)) if i in partners and first <= partners[i] < last]
    kept = list(pieces[min(before, default=first) : max(after, default=last) + 1])
    if kept[0].role is Role.TEXT:
        raw = content[kept[0].start : kept[0].end]
        start = kept[0].end - len(raw.lstrip(_WHITE))
        kept[0] = replace(kept[0], start=start, text=kept[0].text.lstrip(_WHITE))
    if kept[-1].role is Role.TEXT:
        raw = content[kept[-1].start : kept[-1].end]
        end = kept[-1].start + len(raw.rstrip(_WHITE))
        kept[-1] = replace(kept[-1], end=end, text=kept[-1].text.rstrip(_WHITE))
    return kept


def _is_solid(piece: Piece) -> bool:
    return piece.role is Role.WORD or (piece.role is Role.TEXT and bool(piece.text.strip(_WHITE)))


def _partners(pieces: Sequence[Piece]) -> dict[int, int]:
    """The place of what closes for each that opens, and the other way round."""
    partners: dict[int, int] = {}
    opened: list[int] = []
    for i, piece in enumerate(pieces):
        if piece.role is Role.OPEN:
            opened.append(i)
        elif piece.role is Role.CLOSE and opened:
            partners[i] = opened.pop()
            partners[partners[i]] = i
    return partners


def _unpaired(found: Sequence[str], pairs: set[tuple[str, str]]) -> Counter[str]:
    """What of a row of markup opens or closes without a partner."""
    openers, closers = {first for first, _ in pairs}, {last for _, last in pairs}
    unpaired: Counter[str] = Counter()
    opened: list[str] = []
    for part in found:
        if opened and (opened[-1], part) in pairs:
            opened.pop()
        elif part in openers:
            opened.append(part)
        elif part in closers:
            unpaired[part] += 1
    return unpaired + Counter(opened)


def _told_apart(piece: Piece, keep: Sequence[str], escape: Callable[[str], str]) -> list[Piece]:
    """A piece of text, in which what looks like a kept string is kept, escaped."""
    if piece.role is not Role.TEXT:
        return [piece]
    alike = split_kept(piece.text, keep, often=True)
    return [
        replace(piece, text=escape(part), role=Role.WORD) if kept else replace(piece, text=part) for part, kept in alike
    ]


def _joined(pieces: Sequence[Piece]) -> list[tuple[str, bool]]:
    return _joined_parts([(piece.text, piece.role is not Role.TEXT) for piece in pieces if piece.text])


def _joined_parts(parts: Sequence[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Neighbours of the same kind as one: where the border between two kept strings lies does not matter."""
    return [("".join(part for part, _ in same), kept) for kept, same in groupby(parts, key=lambda part: part[1])]
