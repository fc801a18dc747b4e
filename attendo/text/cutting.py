"""A text cut into sentences, with what lies around them, and what each of their translations must hold.

    text = lead · sentence₁ · gap₁ · sentence₂ · gap₂ …

Lead and gaps are white space, and markup at the ends of a sentence; they are kept as they are. Markup inside a sentence
(`<b>`) is taken out of what the model reads, and is placed in what it writes (`placing`); placeholders, numbers and
addresses stay in, and are looked for in the translation.
"""

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace

from attendo.errors import DataError
from attendo.text.corpus import trim
from attendo.text.glossary import Glossary, Term
from attendo.text.placing import Thing, paired
from attendo.text.sentences import split_sentences
from attendo.text.survivors import has_border, has_words, missing, survivor_spans, survivors, tags

# Where there is none of these, a text is one sentence: a mark that may end one with something after it, a line break,
# or white space at the ends.
_SEVERAL = re.compile(r"[.!?…։؟۔।]\S*\s+\S|[。！？｡]\s*[^\s」』）”’]|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]|^\s|\s$")

_FIRST_MARK = 0x100000  # private characters stand for markup while a text is cut
_WORDLIKE = re.compile(r"[`\w{%$@]")  # what begins so is read as a word; anything else that is kept is markup
_BRACKETS = ("()", "[]", "“”", "„“", "«»", "（）")
_CLOSING = ".,;:!?…)]}»”。，、；：！？）"


@dataclass(frozen=True, slots=True)
class Wish:
    """What the translation of a sentence must hold."""

    text: str  # the sentence as the model reads it
    kept: tuple[str, ...] = ()
    terms: tuple[Term, ...] = ()

    def lost(self, translation: str) -> list[str]:
        """What of it the translation has not."""
        return missing(self.kept, translation) + [term.target for term in self.lost_terms(translation)]

    def lost_terms(self, translation: str) -> list[Term]:
        left = {term: term.times(translation) for term in self.terms}
        lacking = []
        for term in self.terms:
            left[term] -= 1
            if left[term] < 0:
                lacking.append(term)
        return lacking


@dataclass(frozen=True, slots=True)
class Core:
    """A sentence without white space and markup at its ends. `marked`: with a mark for each thing that is kept.

    marks: what each stands for. taken: those that the model does not read. things: what they stand for, to be placed.
    """

    marked: str
    marks: dict[str, str]
    taken: frozenset[str]
    read: str  # what the model reads
    things: tuple[Thing, ...] = ()

    @classmethod
    def of(cls, marked: str, marks: dict[str, str], taken: frozenset[str]) -> "Core":
        if not marks:
            return cls(marked, marks, taken, marked)
        left = _words_beside(marked, taken)
        right = _words_beside(marked[::-1], taken)[::-1]
        taken_here = [character for character in marked if character in taken]
        partners = paired([marks[character] for character in taken_here])
        lone = {one for number, one in enumerate(taken_here) if number not in partners}
        read, things = "", []
        for place, character in enumerate(marked):
            after_thing = place > 0 and marked[place - 1] in taken
            if character in taken:
                things.append(Thing(marks[character], len(read), (left[place], right[place])))
                after = next((one for one in marked[place:] if one not in taken), "")
                if character in lone and left[place] and right[place] and has_border(read[-1:]) and has_border(after):
                    read += " "  # it stands between two words
            elif character.isspace() and after_thing and read[-1:] in ("", " "):
                pass  # the two spaces around a thing are one without it
            else:
                if after_thing and character in _CLOSING:
                    read = read.rstrip(" ")
                read += marks.get(character, character)
        read = read.rstrip(" ")
        return cls(marked, marks, taken, read, tuple(replace(one, at=min(one.at, len(read))) for one in things))

    def kept(self) -> tuple[str, ...]:
        """What the model reads and its translation must hold."""
        words = [self.marks[mark] for mark in self.marks if mark in self.marked and mark not in self.taken]
        # What is in something that is kept need not be looked for again.
        return (*words, *survivors(self._unmarked))

    def wish(self, glossary: Glossary | None) -> Wish:
        return Wish(self.read, self.kept(), tuple(glossary.in_text(self.read)) if glossary else ())

    def lifted(self, wanted: Container[str]) -> "Core":
        """The same without these of what is kept, which are to be placed; brackets around one go with it."""
        marks, taken = dict(self.marks), set(self.taken)
        free, unmarked = _free(self.marked, marks), self._unmarked
        words = [(i, i + 1) for i, one in enumerate(self.marked) if one not in taken and marks.get(one, "") in wanted]
        others = [(start, end) for start, end in survivor_spans(unmarked) if unmarked[start:end] in wanted]
        parts, done = [], 0
        for start, end in sorted(words + others):
            if start > done and self.marked[start - 1] + self.marked[end : end + 1] in _BRACKETS:
                start, end = start - 1, end + 1
            mark = next(free)
            marks[mark] = _unmarked(self.marked[start:end], self.marks)
            taken.add(mark)
            parts += [self.marked[done:start], mark]
            done = end
        return Core.of("".join([*parts, self.marked[done:]]), marks, frozenset(taken))

    @property
    def _unmarked(self) -> str:
        """With a space for each mark."""
        return "".join(" " if one in self.marks else one for one in self.marked) if self.marks else self.marked


@dataclass(frozen=True, slots=True)
class Cut:
    """A text's sentences, and what lies before and between them."""

    lead: str
    cores: tuple[Core, ...]
    gaps: tuple[str, ...]

    @classmethod
    def whole(cls, text: str) -> "Cut":
        """Not cut at all; white space at the ends is left out, as it is in training."""
        line = trim(text)
        return cls("", (Core.of(line, {}, frozenset()),), ("",)) if line and not line.isspace() else cls("", (), ())


def _words_beside(marked: str, taken: Container[str]) -> list[bool]:
    """For each character whether a word touches it from the left, what is taken out left aside.

    A mark of something that is read is a word.
    """
    beside, last = [], " "
    for character in marked:
        beside.append(last.isalnum() or ord(last) >= _FIRST_MARK)
        last = last if character in taken else character
    return beside


def cut_text(text: str, keep: Sequence[str], language: str) -> Cut:
    marks: dict[str, str] = {}
    if keep or "<" in text:
        text, marks = _marked(text, [*keep] or tags(text))
    taken = frozenset(mark for mark, one in marks.items() if not _WORDLIKE.match(one))
    sentences = split_sentences(text, language) if _SEVERAL.search(text) else [(text, "")]
    cores: list[Core] = []
    around = [""]  # what lies before the first, and after each
    for sentence, space in sentences:
        before, middle, after = _without_ends(sentence, taken)
        around[-1] += before
        if middle:
            cores.append(Core.of(middle, marks, taken))
            around.append("")
        around[-1] += after + space
    lead, *gaps = (_unmarked(one, marks) for one in around)
    return Cut(lead, tuple(cores), tuple(gaps))


def _marked(text: str, keep: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The text with a character of its own for each thing that is kept, in order; and what each stands for."""
    marks: dict[str, str] = {}
    free = _free(text, marks)
    parts, place = [], 0
    for one in keep:
        found = text.find(one, place)
        if found < 0:
            raise DataError(
                f"{one!r} is to be kept, and is not in the text {text[:60]!r} after what is kept before it."
            )
        mark = next(free)
        marks[mark] = one
        parts += [text[place:found], mark]
        place = found + len(one)
    return "".join([*parts, text[place:]]), marks


def _free(text: str, marks: dict[str, str]) -> Iterator[str]:
    """Characters that are neither in the text nor marks."""
    return (one for one in map(chr, range(_FIRST_MARK, 0x10FFFE)) if one not in text and one not in marks)


def _unmarked(text: str, marks: dict[str, str]) -> str:
    return "".join([marks.get(character, character) for character in text]) if marks else text


def _without_ends(sentence: str, taken: Container[str]) -> tuple[str, str, str]:
    """(white space and markup before, what is between, the same after); words that are kept stay between."""

    def outside(character: str) -> bool:
        return character.isspace() or character in taken

    first, last = 0, len(sentence)
    while first < last and outside(sentence[first]):
        first += 1
    while last > first and outside(sentence[last - 1]):
        last -= 1
    if not has_words(sentence[first:last]):  # marks are no letters
        return sentence, "", ""
    return sentence[:first], sentence[first:last], sentence[last:]
