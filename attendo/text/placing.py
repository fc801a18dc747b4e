"""Things that a model did not read, put into its translation where the words around them went.

A thing is a tag, an address, or whatever else must come out as it went in. Word alignment says which words of the
translation belong to which of the source. Then

- two tags that enclose words stand before the first and after the last word that belongs to one of these, and cross no
  others;
- anything else stands after what belongs to the word before it, or before what belongs to the word after it; after the
  last word of the source it stands after the last word of the translation, before its punctuation.

Where no word of the translation belongs to these, words in the same relative position do.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from attendo.text.survivors import UNDIVIDED
from attendo.text.tokenizer import SPACELESS

Span = tuple[int, int]  # where something begins and ends
SpanLinks = Sequence[tuple[Span, Span]]  # what belongs together in the source and in the translation
WordLinks = set[tuple[int, int]]  # the same in words, by their numbers

# Something undivided, a word, or a character that is neither; in scripts without spaces each character.
_UNIT = re.compile(
    rf"{UNDIVIDED}|{SPACELESS.pattern}|(?:(?!{SPACELESS.pattern})\w)+(?:['’-](?!{SPACELESS.pattern})\w+)*|\S"
)
_TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]*)")
_OPENING = "([{«„‹¿¡「『（"


@dataclass(frozen=True, slots=True)
class Thing:
    """What was taken out of a sentence, at this place of what is left of it. touches: a word to its left, its right."""

    text: str
    at: int
    touches: tuple[bool, bool] = (False, False)


@dataclass(slots=True)
class _Pair:
    """Two tags, by their numbers, and the units from start to end that they enclose in the translation."""

    first: int
    last: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Lone:
    """Things that stand together before a unit of the translation: one, or two tags with nothing between them."""

    text: str
    touches: tuple[bool, bool]
    slot: int
    owner: int = -1  # the first of the two tags that are around it in the source; -1: none are
    bound: bool = False  # belongs to something in another sentence, so that it may not stand inside a pair


def placed(things: Sequence[Thing], source: str, target: str, links: SpanLinks | None) -> str:
    """The target with all things of the source in it. links: None is not known."""
    ours, theirs = _Units(source), _Units(target)
    by_place = monotone(len(ours.words), len(theirs.words))
    words = by_place if links is None else ours.linked(theirs, links)
    partners = paired([thing.text for thing in things])
    pairs: list[_Pair] = []
    lones: list[_Lone] = []
    around: list[_Pair] = []
    number = latest = 0
    while number < len(things):
        thing, last = things[number], partners.get(number, -1)
        while around and around[-1].last <= number:
            around.pop()
        owner = around[-1].first if around else -1
        if last > number:
            inside = ours.between(thing.at, things[last].at)
            if inside and theirs.words:
                found = [other for one, other in words if one in inside]
                found = found or [other for one, other in by_place if one in inside]
                whole = source[thing.at : things[last].at]
                around.append(_Pair(number, last, *theirs.around(min(found), max(found), whole)))
                pairs.append(around[-1])
            else:  # nothing can stand between them: they stay together
                text = "".join(one.text for one in things[number : last + 1])
                touches = thing.touches[0], things[last].touches[1]
                lones.append(_Lone(text, touches, _slot(thing.at, ours, theirs, (words, by_place)), owner))
                number = last
        elif last < 0:
            role = _role(thing.text)[0] if _TAG.match(thing.text) else None
            slot = _slot(thing.at, ours, theirs, (words, by_place), after=role != "opens")
            if role is not None:  # its partner is in another sentence: these keep their order
                latest = slot = max(latest, slot)
            lones.append(_Lone(thing.text, thing.touches, slot, owner, role is not None))
        number += 1
    return _written(theirs, things, _uncrossed(pairs), lones)


def paired(texts: Sequence[str]) -> dict[int, int]:
    """The number of what closes for each thing that opens, and the other way round: `<b>` and `</b>`, `**` and `**`."""
    partners: dict[int, int] = {}
    opened: list[tuple[str, int]] = []
    by_name: defaultdict[str, list[int]] = defaultdict(list)
    for number, text in enumerate(texts):
        role, name = _role(text)
        if role in ("closes", "either") and by_name[name]:
            other = by_name[name][-1]
            while by_name[name] and by_name[name][-1] == other:  # what was opened since then has no partner
                by_name[opened.pop()[0]].pop()
            partners[number], partners[other] = other, number
        elif role in ("opens", "either"):
            opened.append((name, number))
            by_name[name].append(number)
    return partners


def monotone(n_source: int, n_target: int) -> WordLinks:
    """Words in the same relative position, each with one at least."""
    if not n_source or not n_target:
        return set()
    return {(one, one * n_target // n_source) for one in range(n_source)} | {
        (other * n_source // n_target, other) for other in range(n_target)
    }


def _role(text: str) -> tuple[Literal["opens", "closes", "either"] | None, str]:
    """What a thing does by itself, and what its partner does the other half of."""
    if tag := _TAG.match(text):
        return (None if text.endswith("/>") else "closes" if tag[1] else "opens"), tag[2]
    if text in ("[", "!["):
        return "opens", "["
    if text.startswith("]"):
        return "closes", "["
    return (None if any(map(str.isalnum, text)) else "either"), text


def _slot(at: int, ours: "_Units", theirs: "_Units", views: Sequence[WordLinks], *, after: bool = True) -> int:
    """The unit of the translation before which something stands that stood at this place of the source.

    views: which words belong together; where the first does not know, the next one does.
    """
    if not theirs.words:
        return len(theirs.spans)
    before, following = ours.beside(at)
    if following is None:
        return theirs.words[-1] + 1
    if before is None:
        return theirs.words[0]
    for links in views:
        left = [other for one, other in links if one == before]
        right = [other for one, other in links if one == following]
        if left and (after or not right):
            return theirs.words[max(left)] + 1
        if right:
            return theirs.words[min(right)]
    return theirs.words[-1] + 1


def _uncrossed(pairs: Iterable[_Pair]) -> list[_Pair]:
    """In the order in which they open; of two that would cross, the first ends where the other begins."""
    ordered = sorted(pairs, key=lambda one: (one.start, -one.end, one.first))
    stack: list[_Pair] = []
    for pair in ordered:
        while stack and stack[-1].end < pair.end:
            top = stack.pop()
            top.end = min(top.end, pair.start)
        stack.append(pair)
    return ordered


class _Units:
    """A text as its words and the characters between them. `words` are the numbers of the units that are words."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.spans = [match.span() for match in _UNIT.finditer(text)]
        self.words = [n for n, (start, end) in enumerate(self.spans) if any(map(str.isalnum, text[start:end]))]

    def linked(self, other: "_Units", links: SpanLinks) -> WordLinks:
        """Which words belong together, because parts of them do."""
        ours, theirs = self._owners(), other._owners()
        return {
            (ours[one], theirs[two])
            for (start, end), span in links
            for one in range(start, min(end, len(self.text)))
            for two in range(span[0], min(span[1], len(other.text)))
            if one in ours and two in theirs
        }

    def between(self, start: int, end: int) -> set[int]:
        """The words that are there, or begin or end there."""
        spans = [self.spans[number] for number in self.words]
        return {word for word, (first, last) in enumerate(spans) if first < end and last > start}

    def beside(self, at: int) -> tuple[int | None, int | None]:
        """The word before a place, and the one after it. A word around it is before it."""
        starts = [self.spans[number][0] for number in self.words]
        before = sum(start < at for start in starts)
        return (before - 1 if before else None), (before if before < len(starts) else None)

    def around(self, first: int, last: int, like: str) -> Span:
        """The units from one word to another, with the punctuation next to them that another text has at its ends."""
        start, end = self.words[first], self.words[last] + 1
        ends = re.match(r"\W*", like), re.search(r"\W*$", like)
        before, after = (match.group() if match else "" for match in ends)
        while start > 0 and self._touch(start) and self._is_mark(start - 1, before):
            start -= 1
        while end < len(self.spans) and self._touch(end) and self._is_mark(end, after):
            end += 1
        return start, end

    def gap(self, number: int) -> str:
        """The white space before a unit."""
        before = self.spans[number - 1][1] if number else 0
        return self.text[before : self.spans[number][0]]

    def unit(self, number: int) -> str:
        return self.text[slice(*self.spans[number])]

    def _touch(self, number: int) -> bool:
        return self.spans[number - 1][1] == self.spans[number][0]

    def _is_mark(self, number: int, marks: str) -> bool:
        return number not in self.words and self.unit(number) in marks

    def _owners(self) -> dict[int, int]:
        """The word of each character that is in one."""
        return {at: word for word, number in enumerate(self.words) for at in range(*self.spans[number])}


def _written(units: _Units, things: Sequence[Thing], pairs: Sequence[_Pair], lones: Iterable[_Lone]) -> str:
    """The translation from left to right: before each unit what closes, what is alone, white space, what opens."""
    n_slots = len(units.spans) + 1
    owners = {pair.first: pair for pair in pairs}
    outside = list(range(n_slots))  # where the pair that is around a slot ends
    for pair in pairs:
        for slot in range(pair.start + 1, pair.end):
            outside[slot] = max(outside[slot], pair.end)
    waiting: defaultdict[tuple[int, int], list[_Lone]] = defaultdict(list)  # by slot and the pair that they stay within
    for lone in lones:
        slot, owner = lone.slot, owners.get(lone.owner)
        if lone.bound:
            slot, owner = outside[slot], None
        elif owner is not None:
            slot = min(max(slot, owner.start), owner.end)
        edge = owner is not None and slot in (owner.start, owner.end)
        waiting[slot, lone.owner if edge else -1].append(lone)
    text = ""
    opening, opened = list(reversed(pairs)), list[_Pair]()
    for slot in range(n_slots):
        unit = units.unit(slot) if slot < n_slots - 1 else ""
        gap = units.gap(slot) if unit else ""
        while opened and opened[-1].end == slot:
            pair = opened.pop()
            text = _with_lones(text, waiting[slot, pair.first], "", "")[0] + things[pair.last].text
        text, space = _with_lones(text, waiting[slot, -1], gap, unit)
        text += space
        while opening and opening[-1].start == slot:
            pair = opening.pop()
            opened.append(pair)
            begun = things[pair.first].text
            within, space = _with_lones("", waiting[slot, pair.first], "", unit)
            text += begun + within + space
        text += unit
    return text


def _with_lones(text: str, lones: Iterable[_Lone], gap: str, unit: str) -> tuple[str, str]:
    """The text with what stands alone after it, and the white space from there to the next unit."""
    space = gap
    for lone in lones:
        last = text[-1:] or _OPENING[0]
        apart = not (last.isspace() or last in _OPENING or lone.touches[0])
        text += (" " if apart else "") + lone.text
        is_mark = not unit[:1].isalnum() and unit not in _OPENING
        if not unit or (is_mark and not gap) or lone.touches[1]:
            space = ""
        else:
            space = gap or " "
    return text, space
