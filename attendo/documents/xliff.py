"""XLIFF 1.2 and 2.x: a target is made, or filled where it is empty, from its source.

Expat says whether the file is XML; where things stand in it, a regular expression finds.
"""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from xml.parsers import expat

from attendo.documents.inline import Inline, Piece, Role, escaped, inline_of, on_one_line
from attendo.documents.passages import Passage
from attendo.errors import DataError

_MARKUP = re.compile(
    r"<!--.*?-->|<\?.*?\?>|<!\[CDATA\[(?P<data>.*?)\]\]>"
    r"""|<!(?:[^>"']|"[^"]*"|'[^']*')*>"""
    r"""|<(?P<slash>/?)(?P<name>[^\s/>]+)(?P<attributes>(?:[^>"'/]|"[^"]*"|'[^']*'|/(?!>))*+)(?P<empty>/?)>""",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(r"""([^\s=]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WHITE = re.compile(r"[ \t]+")

_UNITS = frozenset(("trans-unit", "segment"))
_PARTS = frozenset(("source", "seg-source", "target"))
# What is inside these is the code of another format, or said to be no text.
_CODES = frozenset(("bpt", "ept", "it", "ph", "ut"))
# Empty elements that stand for words; others are borders of what they are written around.
_WORDS = frozenset(("cp", "x"))
_DONE = frozenset(("final", "reviewed", "signed-off", "translated"))
_NOT_BEGUN = frozenset(("initial", "needs-translation", "new"))


@dataclass(frozen=True)
class _Tag:
    """Also a comment or CDATA. name: without its prefix, empty where it is no element."""

    start: int
    end: int
    prefix: str = ""
    name: str = ""
    closes: bool = False
    empty: bool = False
    attributes: dict[str, str] = field(default_factory=dict)
    data: str | None = None


@dataclass(frozen=True)
class _Element:
    """A part of a unit: its first and its last tag, which are the same where it is empty.

    preserve: whether white space in it means something
    """

    first: int
    last: int
    preserve: bool


def passages(content: str, *, retranslate: bool = False) -> list[Passage]:
    """A passage for each unit without a target, or with an empty one, or one that is said to be not begun.

    With `retranslate` also for those that have a target, but for the ones said to be done. Where ``translate`` is
    "no", nothing is.
    """
    _check(content)
    tags = list(_tags(content))
    found = []
    for unit, parts in _units(tags):
        source = parts["seg-source"] if "seg-source" in parts else parts["source"]
        target = parts.get("target")
        if target and not _is_open(content, tags, unit, target, retranslate=retranslate):
            continue
        start, end = tags[source.first].end, tags[source.last].start
        inline = inline_of(content, list(_pieces(content, tags, source)), _escape)
        if inline:
            around = (content[start : inline.start], content[inline.end : end])
            found.append(_passage(content, tags, source, target, inline, around))
    return found


def _check(content: str) -> None:
    """Refuses what is no XML, no XLIFF, or declares entities, which could stand for anything of any length."""

    def doctype(_name: str, _system: str | None, _public: str | None, declares: int) -> None:
        if declares:
            raise DataError(
                f"line {parser.CurrentLineNumber}: the document type declares entities or elements of its own. "
                "Remove <!DOCTYPE …> with what is inside it."
            )

    def root(name: str, _attributes: dict[str, str]) -> None:
        parser.StartElementHandler = None
        if name.split(":")[-1] != "xliff":
            raise DataError(f"line {parser.CurrentLineNumber}: the first element is <{name}>, not <xliff>.")

    parser = expat.ParserCreate("utf-8")
    parser.StartDoctypeDeclHandler = doctype
    parser.StartElementHandler = root
    try:
        parser.Parse(content.encode("utf-8"), True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise DataError(
            f"line {error.lineno}: not XML ({reason}, at character {error.offset + 1} of the line). Repair it there."
        ) from None


def _tags(content: str) -> Iterator[_Tag]:
    for match in _MARKUP.finditer(content):
        if match["name"] is None:
            yield _Tag(*match.span(), data=match["data"])
            continue
        prefix, _, name = match["name"].rpartition(":")
        attributes = {name: first or second for name, first, second in _ATTRIBUTE.findall(match["attributes"])}
        yield _Tag(*match.span(), prefix, name, bool(match["slash"]), bool(match["empty"]), attributes)


def _units(tags: Sequence[_Tag]) -> Iterator[tuple[_Tag, dict[str, _Element]]]:
    """The units that may be translated, with their sources and targets. A unit's tag has what it inherits."""
    opened: list[_Tag] = [_Tag(0, 0, attributes={"translate": "yes", "xml:space": "default"})]
    firsts: list[int] = []
    parts: dict[str, _Element] = {}
    for i, tag in enumerate(tags):
        if not tag.name:
            continue
        if not tag.closes:
            inherited = {name: opened[-1].attributes[name] for name in ("translate", "xml:space")}
            tag = _Tag(tag.start, tag.end, tag.prefix, tag.name, attributes={**inherited, **tag.attributes})
            opened.append(tag)
            firsts.append(i)
            if tag.name in _UNITS:
                parts = {}
        if tag.closes or tags[i].empty:
            ended, first = opened.pop(), firsts.pop()
            if opened[-1].name in _UNITS and ended.name in _PARTS:
                parts[ended.name] = _Element(first, i, ended.attributes["xml:space"] == "preserve")
            elif ended.name in _UNITS and ended.attributes["translate"] != "no" and "source" in parts:
                yield ended, parts


def _is_open(content: str, tags: Sequence[_Tag], unit: _Tag, target: _Element, *, retranslate: bool) -> bool:
    """Whether a target may be written. The state is the target's in version 1.2, and the segment's in 2.x."""
    attributes = {**unit.attributes, **tags[target.first].attributes}
    state = attributes.get("state")
    if state in _DONE or attributes.get("approved") == "yes":
        return False
    empty = target.first == target.last or not content[tags[target.first].end : tags[target.last].start].strip()
    return empty or retranslate or state in _NOT_BEGUN


def _pieces(content: str, tags: Sequence[_Tag], source: _Element) -> Iterator[Piece]:
    at = tags[source.first].end
    depth = 0  # within an element that is kept with what is inside it
    start = 0
    for tag in tags[source.first + 1 : source.last + 1]:
        if not depth:
            if at < tag.start:
                yield Piece(at, tag.start, _text(content[at : tag.start], preserve=source.preserve))
            start = tag.start
        at = tag.end
        if depth or _is_kept(tag):
            depth += 0 if tag.empty or not tag.name else -1 if tag.closes else 1
            if not depth:
                yield Piece(start, tag.end, content[start : tag.end], Role.WORD)
        elif tag.data is not None:
            yield Piece(tag.start, tag.end, tag.data)
        elif tag is not tags[source.last]:
            yield Piece(tag.start, tag.end, content[tag.start : tag.end], _role(tag))


def _role(tag: _Tag) -> Role:
    if tag.empty or not tag.name:
        return Role.WORD if tag.name in _WORDS else Role.MARK
    return Role.CLOSE if tag.closes else Role.OPEN


def _is_kept(tag: _Tag) -> bool:
    if tag.closes or not tag.name:
        return False
    return tag.name in _CODES or tag.attributes.get("translate") == "no" or tag.attributes.get("mtype") == "protected"


def _passage(
    content: str,
    tags: Sequence[_Tag],
    source: _Element,
    target: _Element | None,
    inline: Inline,
    around: tuple[str, str],
) -> Passage:
    before, after = around
    if target is None:
        first = tags[source.first]
        start = end = tags[source.last].end
        name = f"{first.prefix}:target" if first.prefix else "target"
        before = f"{_indent(content, first.start)}<{name}>{before}"
        after = f"{after}</{name}>"
    elif target.first == target.last:
        empty = tags[target.first]
        start, end = empty.start, empty.end
        opening = content[start:end].removesuffix("/>").rstrip()
        before = f"{opening}>{before}"
        after = f"{after}</{opening[1:].split()[0]}>"
    else:
        start, end = tags[target.first].end, tags[target.last].start
    write = partial(_written, inline, before, after)
    return Passage(start=start, end=end, text=inline.text, keep=inline.keep, write=write)


def _indent(content: str, at: int) -> str:
    """The white space before a tag."""
    start = at
    while start and content[start - 1].isspace():
        start -= 1
    return content[start:at]


def _text(raw: str, *, preserve: bool) -> str:
    return html.unescape(raw if preserve else _WHITE.sub(" ", on_one_line(raw)))


def _escape(text: str) -> str:
    return html.escape(_NOT_XML.sub("\ufffd", text), quote=False)


def _written(inline: Inline, before: str, after: str, translation: str) -> str:
    return before + escaped(inline.parts(translation), _escape) + after
