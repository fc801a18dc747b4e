"""Terms and how they are to be translated."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from attendo.errors import DataError
from attendo.text.corpus import read_lines, trim
from attendo.text.survivors import bounded, occurrences


@dataclass(frozen=True, slots=True)
class Term:
    """A source term as it stands in a text, and what its translation must be."""

    source: str
    target: str

    def forms(self) -> tuple[str, ...]:
        """How the target may be written: as it is given, or with a capital, as at the beginning of a sentence."""
        capital = self.target[:1].upper() + self.target[1:]
        return (self.target,) if capital == self.target else (self.target, capital)

    def times(self, text: str) -> int:
        """How often the target is in the text, as words of their own."""
        return sum(occurrences(form, text) for form in self.forms())


class Glossary:
    """Target terms by source terms.

    A source term in lower case is found in any case; one with capitals only as it is written. It is found as whole
    words only, except in scripts that have no spaces. Of terms that overlap the one that begins first is taken, and of
    those the longest.
    """

    def __init__(self, terms: Mapping[str, str]) -> None:
        self.terms: dict[str, str] = {}
        for given, target in terms.items():
            source = " ".join(given.split())
            if not source or not trim(target):
                raise DataError(f"the glossary's term {given!r} → {target!r}: both sides need a text.")
            if "\n" in target or "\r" in target:
                raise DataError(f"the glossary's term {target!r} has line breaks, and a translation is one line.")
            self.terms[source] = trim(target)
        longest_first = sorted(self.terms, key=lambda term: (-len(term), term))
        self._any = re.compile("|".join(map(_pattern, longest_first))) if self.terms else None

    def __bool__(self) -> bool:
        return bool(self.terms)

    def in_text(self, text: str) -> Iterator[Term]:
        """Every occurrence of a term, in the order of the text."""
        if self._any is None:
            return
        for match in self._any.finditer(text):
            found = " ".join(match.group().split())
            target = self.terms[found] if found in self.terms else self.terms[found.lower()]
            yield Term(found, target)


def read_glossary(path: str) -> Glossary:
    """A file of lines `source TAB target`; empty lines and lines that begin with # are left out."""
    terms: dict[str, str] = {}
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split("\t")
        if len(fields) != 2 or not all(map(str.strip, fields)):
            raise DataError(
                f"{path}, line {number}: {line[:60]!r} must be a source term, one tab, and its target term."
            )
        source, target = " ".join(fields[0].split()), fields[1].strip()
        if terms.get(source, target) != target:
            raise DataError(f"{path}, line {number}: {source!r} is there before, as {terms[source]!r}. Keep one.")
        terms[source] = target
    return Glossary(terms)


def _pattern(term: str) -> str:
    words = r"\s+".join(map(re.escape, term.split()))
    return bounded(words if term != term.lower() else f"(?i:{words})", term)
