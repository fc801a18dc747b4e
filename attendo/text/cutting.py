"""A text cut into sentences, with what lies around them, and what each of their translations must hold.

    text = lead · sentence₁ · gap₁ · sentence₂ · gap₂ …

Lead and gaps are white space, and markup at the ends of a sentence; they are kept as they are. Markup inside a sentence
(`<b>`) is taken out of what the model reads and is required of what it writes; placeholders, numbers and addresses stay
in, and are looked for in the translation.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from attendo.errors import DataError
from attendo.text.corpus import trim
from attendo.text.glossary import Glossary, Term
from attendo.text.sentences import split_sentences
from attendo.text.survivors import has_words, missing, survivors, tags

# Where there is none of these, a text is one sentence: a mark that may end one with something after it, a line break,
# or white space at the ends.
_SEVERAL = re.compile(r"[.!?…։؟۔।]\S*\s+\S|[。！？｡]\s*[^\s」』）”’]|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]|^\s|\s$")

_FIRST_MARK = 0x100000  # private characters stand for markup while a text is cut
_WORDLIKE = re.compile(r"[`\w{%$@]")  # what begins so is read as a word; anything else that is kept is markup


@dataclass(frozen=True, slots=True)
class Markup:
    """A tag, or what is one in another format, between the two characters that are next to it: "" is the end."""

    text: str
    left: str
    right: str

    def placed(self, text: str, start: int) -> tuple[str, int]:
        """The text with this tag, looked for from `start`, close to what it belongs to; and where it ends now."""
        place = text.find(self.text, start)
        if place < 0:
            return text, start
        before, after = text[:place], text[place + len(self.text) :]
        touches = self.left.isalnum(), self.right.isalnum()
        if touches == (False, True):  # it opens
            after = after.lstrip()
        elif touches == (True, False):  # it closes
            before = before.rstrip()
        elif self.left.isspace() and self.right.isspace():
            before, after = before.rstrip() + " ", " " + after.lstrip()
        return before + self.text + after, len(before) + len(self.text)


@dataclass(frozen=True, slots=True)
class Wish:
    """What the translation of a sentence must hold."""

    text: str  # the sentence as the model reads it
    markup: tuple[Markup, ...] = ()
    kept: tuple[str, ...] = ()
    terms: tuple[Term, ...] = ()

    def lost(self, translation: str) -> list[str]:
        """What of it the translation has not."""
        lacking = missing([*(one.text for one in self.markup), *self.kept], translation)
        return lacking + [term.target for term in self.lost_terms(translation)]

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
    """A sentence without white space and markup at its ends. `marked`: with a mark for each thing that is kept."""

    marked: str
    marks: dict[str, str]  # what each mark stands for
    read: str  # what the model reads
    markup: tuple[Markup, ...] = ()

    @classmethod
    def of(cls, marked: str, marks: dict[str, str]) -> "Core":
        if not marks:
            return cls(marked, marks, marked)
        read, markup = [], []
        for place, character in enumerate(marked):
            if character not in marks:
                read.append(character)
            elif _WORDLIKE.match(marks[character]):
                read.append(marks[character])
            else:
                left = _next_to(marked, range(place - 1, -1, -1), marks)
                right = _next_to(marked, range(place, len(marked)), marks)
                markup.append(Markup(marks[character], left, right))
        return cls(marked, marks, "".join(read), tuple(markup))

    def wish(self, glossary: Glossary | None) -> Wish:
        kept, text = [], self.marked
        for mark in [mark for mark in self.marks if mark in text]:
            text = text.replace(mark, " ")  # what is in something that is kept need not be looked for again
            kept += [self.marks[mark]] if _WORDLIKE.match(self.marks[mark]) else []
        terms = tuple(glossary.in_text(self.read)) if glossary else ()
        return Wish(self.read, self.markup, (*kept, *survivors(text)), terms)


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
        return cls("", (Core(line, {}, line),), ("",)) if line and not line.isspace() else cls("", (), ())


def _next_to(marked: str, places: range, marks: dict[str, str]) -> str:
    """The first character there that is not a mark; "" if there is none."""
    return next((marked[place] for place in places if marked[place] not in marks), "")


def cut_text(text: str, keep: Sequence[str], language: str) -> Cut:
    marks: dict[str, str] = {}
    if keep or "<" in text:
        text, marks = _marked(text, [*keep] or tags(text))
    sentences = split_sentences(text, language) if _SEVERAL.search(text) else [(text, "")]
    cores: list[Core] = []
    around = [""]  # what lies before the first, and after each
    for sentence, space in sentences:
        before, middle, after = _without_ends(sentence, marks)
        around[-1] += before
        if middle:
            cores.append(Core.of(middle, marks))
            around.append("")
        around[-1] += after + space
    lead, *gaps = (_unmarked(one, marks) for one in around)
    return Cut(lead, tuple(cores), tuple(gaps))


def _marked(text: str, keep: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The text with a character of its own for each thing that is kept, in order; and what each stands for."""
    free = (chr(code) for code in range(_FIRST_MARK, 0x10FFFE) if chr(code) not in text)
    marks: dict[str, str] = {}
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


def _unmarked(text: str, marks: dict[str, str]) -> str:
    return "".join([marks.get(character, character) for character in text]) if marks else text


def _without_ends(sentence: str, marks: dict[str, str]) -> tuple[str, str, str]:
    """(white space and markup before, what is between, the same after); words that are kept stay between."""

    def outside(character: str) -> bool:
        return character.isspace() or (character in marks and not _WORDLIKE.match(marks[character]))

    first, last = 0, len(sentence)
    while first < last and outside(sentence[first]):
        first += 1
    while last > first and outside(sentence[last - 1]):
        last -= 1
    if not has_words(sentence[first:last]):  # marks are no letters
        return sentence, "", ""
    return sentence[:first], sentence[first:last], sentence[last:]
