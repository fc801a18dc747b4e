"""gettext's PO files: the empty msgstr of an entry is filled from its msgid.

#: main.c:17
#, c-format
msgid "%d file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from attendo.documents.inline import Inline, Piece, Role, escaped, inline_of
from attendo.documents.passages import Passage
from attendo.errors import DataError

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_STRING = re.compile(r'\s*(?:(msgctxt|msgid|msgid_plural|msgstr|msgstr\[\d+\])\s*)?("(?:[^"\\]|\\.)*+")\s*')
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPED = str.maketrans(
    {"\\": "\\\\", '"': '\\"', **{character: f"\\{letter}" for letter, character in _ESCAPES.items()}}
)

# What a program puts its values in the place of, and tags.
_KEPT = re.compile(
    r"%L\d{1,2}"  # Qt: %L1
    r"|%(?:\(\w+\))?(?:\d+\$)?[-+#0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|ll|[hlqjztL])?[a-zA-Z@%]"  # %s, %Y
    r"|%\d{1,2}"  # Qt: %1
    r"|\$?\{\{?\s*[\w.\[\]]*(?:![rsa])?(?::[^{}\s]*)?\s*\}?\}"  # {name}, {0:.2f}, ${name}, {{ name }}
    r"|</?[A-Za-z][^<>]*>"
)


@dataclass
class _String:
    """The text after a keyword. start, end: from its first quotation mark to its last."""

    start: int
    end: int
    parts: list[str]

    @property
    def text(self) -> str:
        return "".join(self.parts)


@dataclass
class _Entry:
    line: int
    flags: set[str] = field(default_factory=set)
    strings: dict[str, _String] = field(default_factory=dict)


def passages(content: str, *, retranslate: bool = False) -> list[Passage]:
    """A passage for each msgstr that is empty, or for all of them; never of the header, nor of what is fuzzy.

    Obsolete entries are comments. The first of several plural forms has the singular as its source, the others, and an
    only form, have the plural.
    """
    line_end = "\r\n" if "\r\n" in content else "\n"
    found = []
    for entry in _entries(content):
        source = entry.strings["msgid"]
        if "fuzzy" in entry.flags or not source.text:
            continue
        targets = {keyword: string for keyword, string in entry.strings.items() if keyword.startswith("msgstr")}
        for keyword, target in targets.items():
            text = source.text
            if "msgid_plural" in entry.strings and (keyword != "msgstr[0]" or len(targets) == 1):
                text = entry.strings["msgid_plural"].text
            inline = inline_of(text, list(_pieces(text)), str)
            if inline and (retranslate or not target.text):
                write = partial(_written, text, inline, line_end)
                found.append(
                    Passage(start=target.start, end=target.end, text=inline.text, keep=inline.keep, write=write)
                )
    return found


def _entries(content: str) -> Iterator[_Entry]:
    entry = _Entry(line=1)
    keyword = ""
    for number, line in enumerate(_LINE.finditer(content), start=1):
        text = line[0].strip()
        if not text or text.startswith("#"):
            keyword = ""
            if text and any(name.startswith("msgstr") for name in entry.strings):
                yield _checked(entry)
                entry = _Entry(line=number)
            if text.startswith("#,"):
                entry.flags |= {flag.strip() for flag in text[2:].split(",")}
            elif text.startswith("#~"):
                entry.flags.clear()  # they were those of the obsolete entry
            continue
        string = _STRING.fullmatch(line[0])
        if string is None:
            raise DataError(
                f'line {number}: "{text[:40]}" is no comment and no string in quotation marks after msgid, msgstr or '
                "another keyword of a PO file. Repair it; `msgfmt --check` finds more of the kind."
            )
        start, end = line.start() + string.start(2), line.start() + string.end(2)
        if string[1] in ("msgctxt", "msgid") and any(name.startswith("msgstr") for name in entry.strings):
            yield _checked(entry)
            entry = _Entry(line=number)
        if string[1] in entry.strings:
            raise DataError(f"line {number}: {string[1]} stands in this entry twice. Put an msgid before it.")
        if string[1]:
            keyword = string[1]
            entry.strings[keyword] = _String(start, end, [_unescaped(string[2])])
        elif keyword:
            entry.strings[keyword].end = end
            entry.strings[keyword].parts.append(_unescaped(string[2]))
        else:
            raise DataError(f"line {number}: a string without a keyword. Put msgid or msgstr before it, or remove it.")
    if entry.strings:
        yield _checked(entry)


def _checked(entry: _Entry) -> _Entry:
    for keyword in ("msgid", "msgstr"):
        if not any(name.startswith(keyword) for name in entry.strings if name != "msgid_plural"):
            raise DataError(
                f"line {entry.line}: the entry that begins here has no {keyword}. Add it, or remove the entry."
            )
    return entry


def _pieces(text: str) -> Iterator[Piece]:
    at = 0
    for kept in _KEPT.finditer(text):
        yield Piece(at, kept.start(), text[at : kept.start()])
        yield Piece(*kept.span(), kept[0], _role(kept[0]))
        at = kept.end()
    yield Piece(at, len(text), text[at:])


def _role(kept: str) -> Role:
    if not kept.startswith("<"):
        return Role.WORD
    return Role.CLOSE if kept.startswith("</") else Role.MARK if kept.endswith("/>") else Role.OPEN


def _written(text: str, inline: Inline, line_end: str, translation: str) -> str:
    """As string literals, one for each line; with the white space and tags at the ends of the source."""
    whole = text[: inline.start] + escaped(inline.parts(translation), str) + text[inline.end :]
    lines = _LINE.findall(whole) if whole.count("\n") > whole.endswith("\n") else [whole]
    literals = [f'"{line.translate(_ESCAPED)}"' for line in lines]
    return line_end.join(['""', *literals] if len(literals) > 1 else literals)


def _unescaped(literal: str) -> str:
    return _ESCAPE.sub(_character, literal[1:-1])


def _character(escape: re.Match[str]) -> str:
    octal, hexadecimal, letter = escape.groups()
    if letter is None:
        return chr(int(octal, 8) if octal else int(hexadecimal, 16))
    return _ESCAPES.get(letter, letter)
