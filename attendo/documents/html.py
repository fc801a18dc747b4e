"""HTML: text between block elements is a passage, with inline tags kept inside it."""

import html
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from attendo.documents.inline import Inline, Piece, Role, escaped, in_place, inline_of, on_one_line
from attendo.documents.passages import Passage

_S = r" \t\n\r\f"
_ATTRIBUTE = rf"""([^{_S}/>][^{_S}/>=]*+)(?:[{_S}]*+=[{_S}]*+("[^"]*+"|'[^']*+'|[^{_S}>"'][^{_S}>]*+)?+)?+"""
_ATTRIBUTES = re.compile(_ATTRIBUTE)
_MARKUP = re.compile(
    r"<!--(?:-?>|.*?(?:--!?>|\Z))"
    rf"|<(?P<slash>/?)(?P<name>[a-zA-Z][^{_S}/>]*+)(?P<attributes>(?:[{_S}/]*+{_ATTRIBUTE})*+)[{_S}/]*+>"
    r"|<(?:[!?]|/(?![a-zA-Z]))[^>]*+(?:>|\Z)"
    r"|</?[a-zA-Z].*\Z",  # a tag that never ends
    re.DOTALL,
)
_WHITE = re.compile(r"[ \t\f]+")

# Elements that stand in a line of text; any other ends a passage.
_INLINE = re.compile(
    "a|abbr|acronym|b|bdi|bdo|big|cite|code|data|del|dfn|em|font|i|img|ins|kbd|label|map|mark|math|nobr|output|q|rb|rp|rt|"
    "ruby|s|samp|small|span|strike|strong|sub|sup|svg|time|tt|u|var|wbr"
)
_VOID = re.compile("area|base|br|col|embed|frame|hr|img|input|keygen|link|meta|param|source|track|wbr")
# What is inside these is no markup.
_RAW = re.compile("iframe|noembed|noframes|plaintext|script|style|textarea|title|xmp")
# What is inside these is not translated.
_KEPT = re.compile(f"code|kbd|math|pre|samp|svg|template|tt|var|(?!title)(?:{_RAW.pattern})")

_TRANSLATED = frozenset(("alt", "aria-label", "placeholder", "title"))
_DESCRIPTIONS = frozenset(("description", "og:title", "og:description", "twitter:title", "twitter:description"))


@dataclass(frozen=True)
class _Tag:
    """Also a comment, a doctype: anything that is no text. name: in lower case, empty where it is no element."""

    start: int
    end: int
    name: str = ""
    closes: bool = False
    attributes: tuple[int, int] = (0, 0)

    @property
    def opens(self) -> bool:
        return bool(self.name) and not self.closes and not _VOID.fullmatch(self.name)


def passages(content: str) -> list[Passage]:
    tags = list(_tags(content))
    ends = _ends(content, tags)
    found: list[Passage] = []
    outside: list[_Tag] = []
    pieces: list[Piece] = []
    at = 0

    def finish() -> None:
        inline = inline_of(content, pieces, _escape)
        if inline:
            found.append(in_place(content, inline, partial(_written, inline)))
        pieces.clear()

    i = 0
    while i < len(tags):
        tag = tags[i]
        kept = tag.opens and _is_kept(content, tag)
        i, end = ends[i] if kept else (i + 1, tag.end)
        if at < tag.start:
            pieces.append(Piece(at, tag.start, _text(content[at : tag.start])))
        if tag.name and not _INLINE.fullmatch(tag.name):
            finish()
        else:
            pieces.append(Piece(tag.start, end, on_one_line(content[tag.start : end]), _role(tag, kept=kept)))
        if not kept:
            outside.append(tag)
        at = end
    if at < len(content):
        pieces.append(Piece(at, len(content), _text(content[at:])))
    finish()
    places = [passage.start for passage in found]
    for tag in outside:
        before = bisect_right(places, tag.start) - 1
        if before < 0 or found[before].end <= tag.start:  # else it is kept inside a passage, attributes and all
            found += _attribute_passages(content, tag)
    return sorted(found, key=lambda passage: passage.start)


def _tags(content: str) -> Iterator[_Tag]:
    at = 0
    while match := _MARKUP.search(content, at):
        at = match.end()
        if match["name"] is None:
            yield _Tag(*match.span())
            continue
        tag = _Tag(*match.span(), match["name"].lower(), bool(match["slash"]), match.span("attributes"))
        yield tag
        if _RAW.fullmatch(tag.name) and not tag.closes:
            closing = re.compile(rf"</{tag.name}(?=[{_S}/>])", re.IGNORECASE).search(content, at)
            at = closing.start() if closing else len(content)


def _ends(content: str, tags: Sequence[_Tag]) -> dict[int, tuple[int, int]]:
    """For each tag that opens, (the place among the tags, the place in the content) at which its element is over.

    Where none closes it, that is the next tag of its name.
    """
    ends: dict[int, tuple[int, int]] = {}
    opened: dict[str, list[int]] = {}
    for i, tag in enumerate(tags):
        if tag.opens:
            opened.setdefault(tag.name, []).append(i)
        elif tag.closes and opened.setdefault(tag.name, []):
            ends[opened[tag.name].pop()] = (i + 1, tag.end)
    following: dict[str, tuple[int, int]] = {}
    for i, tag in reversed(list(enumerate(tags))):
        if tag.opens:
            ends.setdefault(i, following.setdefault(tag.name, (len(tags), len(content))))
        following[tag.name] = (i, tag.start)
    return ends


def _is_kept(content: str, tag: _Tag) -> bool:
    return bool(_KEPT.fullmatch(tag.name)) or any(
        (name == "translate" and content[start:end].lower() == "no")
        or (name == "class" and "notranslate" in content[start:end].split())
        for name, start, end in _attributes(content, tag)
    )


def _role(tag: _Tag, *, kept: bool) -> Role:
    if kept:
        return Role.MARK if tag.name == "svg" else Role.WORD
    return Role.CLOSE if tag.closes else Role.OPEN if tag.opens else Role.MARK


def _attributes(content: str, tag: _Tag) -> Iterator[tuple[str, int, int]]:
    """(name, start and end of the value without quotation marks)"""
    for match in _ATTRIBUTES.finditer(content, *tag.attributes):
        if match[2]:
            quoted = match[2][0] in "\"'"
            yield match[1].lower(), match.start(2) + quoted, match.end(2) - quoted


def _attribute_passages(content: str, tag: _Tag) -> Iterator[Passage]:
    if tag.closes or tag.attributes[0] == tag.attributes[1]:
        return
    attributes = list(_attributes(content, tag))
    described = tag.name == "meta" and any(
        name in ("name", "property") and content[start:end].lower() in _DESCRIPTIONS for name, start, end in attributes
    )
    for name, start, end in attributes:
        if name in _TRANSLATED or (described and name == "content"):
            inline = inline_of(content, [Piece(start, end, _text(content[start:end]))], _escape)
            if inline:
                mark = content[start - 1] if content[start - 1] in "\"'" else ""
                yield in_place(content, inline, partial(_written_value, mark))


def _text(raw: str) -> str:
    return html.unescape(_WHITE.sub(" ", on_one_line(raw)))


def _escape(text: str) -> str:
    return html.escape(text, quote=False).replace("\xa0", "&nbsp;")


def _written(inline: Inline, translation: str) -> str:
    return escaped(inline.parts(translation), _escape)


def _written_value(mark: str, translation: str) -> str:
    """Inside its quotation marks, or with some where it had none."""
    if not mark:
        return f'"{_written_value(chr(34), translation)}"'
    return _escape(translation).replace(mark, "&quot;" if mark == '"' else "&#39;")
