"""Markdown (CommonMark with GitHub's tables, task lists and struck-out text): paragraphs, headings, cells are passages.

markdown-it says what is a block and what is markup inside it; where that stands in the file is found again here.
"""

import re
import string
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise
from typing import Any, Literal

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from attendo.documents.inline import Inline, Piece, Role, escaped, in_place, inline_of, on_one_line
from attendo.documents.passages import Passage

_LINE_END = re.compile(r"\r\n?|\n")
_FRONT_MATTER = re.compile(
    r"""---[ \t]*\r?\n(?=[ \t]*(?:\#|["']?[\w.-]+["']?[ \t]*:|---)).*?^(?:---|\.\.\.)[ \t]*\r?$"""
    r"""|\+\+\+[ \t]*\r?\n.*?^\+\+\+[ \t]*\r?$""",
    re.DOTALL | re.MULTILINE,
)
# GitHub's markup that markdown-it takes for text: footnotes; alerts, which have a line of their own.
_FOOTNOTE = re.compile(r"\[\^[^\]\s]+\]:?")
_ALERT = re.compile(r"\[![A-Z]+\][ \t]*(?:\n|\Z)")
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9-]*)[^>]*?(/?)>")
# How a link ends whose text is also the name of its target.
_SHORTCUTS = ("]", "][]")
_VOID = frozenset(("br", "hr", "img", "input", "wbr"))
_KEPT = frozenset(("code", "kbd", "samp", "svg", "tt", "var"))
# What is escaped, if need be: nothing; what is markup inside a line; all that can be escaped.
_LEVELS = ("", "\\`*_[]<&|~", string.punctuation)

_Rule = Callable[[StateInline, bool], bool]


@dataclass(frozen=True)
class _Markup:
    """A stretch of a block's text that is more than plain text.

    role: None where it ends a passage
    text: what stands for it in the passage, where that is something else
    image: where it is one
    """

    start: int
    end: int
    role: Role | None
    text: str | None = None
    spare: bool = False
    image: Token | None = None


@dataclass(frozen=True)
class _Block:
    """A paragraph, heading or cell.

    text: without the marks of quotes and lists
    offsets: where each of its characters, and its end, stands in the content
    before, after: what makes a block of its kind out of a text
    """

    text: str
    offsets: list[int]
    before: str
    after: str


class _Markdown(MarkdownIt):
    def validateLink(self, url: str) -> bool:  # noqa: ARG002 (nothing is shown in a browser here)
        return True


class _State(StateInline):
    """Notes where each token begins."""

    def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
        token = super().push(ttype, tag, nesting)
        token.meta["start"] = self.pos
        return token


def passages(content: str) -> list[Passage]:
    environment: dict[str, Any] = {"references": {}}
    found = []
    for block in _blocks(content, environment):
        for pieces in _pieces(content, block, environment):
            inline = inline_of(content, pieces, partial(_escape, string.punctuation))
            if inline:
                before = _kept(piece for piece in pieces if piece.end <= inline.start)
                after = _kept(piece for piece in pieces if piece.start >= inline.end)
                frame = (block.before + before, after + block.after)
                found.append(in_place(content, inline, partial(_written, inline, frame, environment)))
    return found


def _blocks(content: str, environment: dict[str, Any]) -> Iterator[_Block]:
    """All blocks with text in them. Notes the references, of which all are known when the first block is."""
    front = _FRONT_MATTER.match(content)
    lines = list(_lines(content, front.end() if front else 0))
    parser = _parser()
    tokens: list[Token] = []
    parser.block.parse("\n".join(line for _, line in lines), parser, environment, tokens)
    row, column = -1, 0
    for before, token in pairwise(tokens):
        if token.type != "inline" or token.map is None:
            continue
        first, last = token.map
        if before.type in ("th_open", "td_open"):
            row, column = first, column if first == row else 0
            offsets = _cell_offsets(lines[first], token.content, column)
            column = offsets[-1] - lines[first][0]
            yield _Block(token.content, offsets, "|", "|\n|-|")
        else:
            mark = "# " if before.markup.startswith("#") else ""
            yield _Block(token.content, _offsets(lines[first:last], token.content), mark, "")


def _lines(content: str, at: int) -> Iterator[tuple[int, str]]:
    """(start, text without its end) of each line, the text as markdown-it wants it."""
    while at < len(content):
        match = _LINE_END.search(content, at)
        end = match.start() if match else len(content)
        yield at, content[at:end].replace("\0", "\ufffd")
        at = match.end() if match else len(content)


def _offsets(lines: Sequence[tuple[int, str]], text: str) -> list[int]:
    """Where each character of a block's text, and its end, stands in the content.

    A block's text has no marks of quotes and lists: each of its lines is the last part of a line of the file, but for
    white space and the closing # of a heading.
    """
    parts = text.split("\n")
    bodies = [part.lstrip(" \t") for part in parts]
    # White space that markdown-it takes from the ends can be whole lines.
    shift = next(n for n in range(len(lines)) if bodies[0] in lines[n][1])
    offsets: list[int] = []
    for (start, line), part, body in zip(lines[shift:], parts, bodies, strict=False):
        begin = start + line.rindex(body)
        offsets += [begin] * (len(part) - len(body)) + list(range(begin, begin + len(body) + 1))
    return offsets


def _cell_offsets(line: tuple[int, str], text: str, column: int) -> list[int]:
    """The same for a cell of a table, whose text has | for \\|; `column`: where the cell before it ended."""
    start, row = line
    at = start + row.index(text.replace("|", "\\|"), column)
    offsets = []
    for character in text:
        offsets.append(at)
        at += 2 if character == "|" else 1
    return [*offsets, at]


def _pieces(content: str, block: _Block, environment: dict[str, Any]) -> Iterator[list[Piece]]:
    """The pieces of each passage of a block. A line break that is shown as one ends a passage.

    An image is a mark in a passage; where a block has nothing but images, their descriptions are its passages.
    """
    text, offsets = block.text, block.offsets
    markup = [*_markup(text, environment), _Markup(len(text), len(text), None)]
    between = (text[before.end : mark.start] for before, mark in pairwise([_Markup(0, 0, None), *markup]))
    if not any(map(str.strip, between)) and not any(mark.role in (Role.TEXT, Role.WORD) for mark in markup):
        markup = [part for mark in markup for part in _described(mark, text, environment)]
    pieces: list[Piece] = []
    at = 0
    for mark in markup:
        if at < mark.start:
            pieces.append(Piece(offsets[at], offsets[mark.start], on_one_line(text[at : mark.start])))
        if mark.role is None:
            yield pieces
            pieces = []
        else:
            start, end = offsets[mark.start], offsets[mark.end]
            raw = text[mark.start : mark.end]
            kept = on_one_line(raw) if "\n" in raw else content[start:end]
            pieces.append(Piece(start, end, kept if mark.text is None else mark.text, mark.role, mark.spare))
        at = mark.end


def _markup(text: str, environment: dict[str, Any]) -> list[_Markup]:
    """All markup of a block's text, in the order of its places."""
    state = _State(text, _tracing_parser(), environment, [])
    state.md.inline.tokenize(state)
    for rule in state.md.inline.ruler2.getRules(""):
        rule(state)
    found = [_Markup(*match.span(), Role.MARK) for match in _FOOTNOTE.finditer(text)]
    found += [_Markup(*match.span(), None) for match in _ALERT.finditer(text)]
    closing = _closing_tags(state.tokens)
    opened: list[Token] = []
    at = 0
    while at < len(state.tokens):
        token = state.tokens[at]
        at = closing.get(at, at)
        if token.type == "link_open":
            opened.append(token)
        elif token.type == "link_close":
            found += _link(opened.pop(), token, text)
        else:
            found += _markup_of(token, state.tokens[at])
        at += 1
    apart: list[_Markup] = []
    for mark in sorted(found, key=lambda mark: (mark.start, -mark.end)):
        if not apart or mark.start >= apart[-1].end:
            apart.append(mark)
    return apart


def _link(first: Token, last: Token, text: str) -> list[_Markup]:
    start, end = last.meta["start"], last.meta["end"]
    if first.info == "auto":
        return [_Markup(start, end, Role.WORD)]
    label = first.meta["start"]
    if text[start:end] not in _SHORTCUTS:
        return [_Markup(label - 1, label, Role.OPEN), _Markup(start, end, Role.CLOSE)]
    # Its text is also the name of its target, which must not be translated: [text] is written [text][text].
    named = f"][{on_one_line(text[label:start])}]"
    return [_Markup(label - 1, label, Role.WORD, "["), _Markup(start, end, Role.WORD, named)]


def _markup_of(token: Token, last: Token) -> Iterator[_Markup]:
    """What one token is; `last`: the token it is kept up to."""
    if "start" not in token.meta:
        return
    start, end = token.meta["start"], last.meta["end"]
    match token.type:
        case "code_inline":
            yield _Markup(start, end, Role.WORD)
        case "em_open" | "s_open":
            yield _Markup(start, end, Role.OPEN, spare=True)
        case "em_close" | "s_close":
            yield _Markup(start, end, Role.CLOSE, spare=True)
        case "strong_open":  # the second of two marks
            yield _Markup(start - 1, end, Role.OPEN, spare=True)
        case "strong_close":  # the first of two
            yield _Markup(start, end + 1, Role.CLOSE, spare=True)
        case "text_special":
            yield _Markup(start, end, Role.TEXT, token.content)
        case "hardbreak":
            yield _Markup(start, end, None)
        case "html_inline":
            yield _Markup(start, end, Role.WORD if token is not last else _tag_role(token.content))
        case "image":
            yield _Markup(start, end, Role.MARK, image=token)


def _described(mark: _Markup, text: str, environment: dict[str, Any]) -> list[_Markup]:
    """An image taken apart, so that its description is a passage, unless that is the name of its target."""
    if mark.image is None:
        return [mark]
    begin = mark.start + len("![")
    over = begin + len(mark.image.content)
    if text[over : mark.end] in _SHORTCUTS:
        return [mark]
    inside = [
        replace(part, start=part.start + begin, end=part.end + begin)
        for part in _markup(mark.image.content, environment)
    ]
    return [_Markup(mark.start, begin, None), *inside, _Markup(over, mark.end, None)]


def _closing_tags(tokens: Sequence[Token]) -> dict[int, int]:
    """For each tag whose element is kept with what is inside it, the place of the tag that closes it."""
    closing: dict[int, int] = {}
    following: dict[str, int] = {}
    for i in range(len(tokens) - 1, -1, -1):
        tag = _TAG.fullmatch(tokens[i].content) if tokens[i].type == "html_inline" else None
        if tag and tag[1]:
            following[tag[2].lower()] = i
        elif tag and tag[2].lower() in _KEPT and tag[2].lower() in following:
            closing[i] = following[tag[2].lower()]
    return closing


def _tag_role(tag: str) -> Role:
    match = _TAG.fullmatch(tag)
    if match is None or match[3] or match[2].lower() in _VOID:
        return Role.MARK
    return Role.CLOSE if match[1] else Role.OPEN


@cache
def _parser() -> MarkdownIt:
    return _Markdown("commonmark", {"maxNesting": 100, "tasklists": True}).enable(["table", "strikethrough"])


@cache
def _tracing_parser() -> MarkdownIt:
    """A parser whose inline tokens tell where they stand."""
    parser = _Markdown("commonmark", {"maxNesting": 100}).enable(["table", "strikethrough"])
    ruler = parser.inline.ruler
    for name, rule in zip(ruler.get_active_rules(), ruler.getRules(""), strict=True):
        ruler.at(name, partial(_traced, rule))
    parser.inline.ruler2.disable("fragments_join")  # it would throw away where marks stand
    return parser


def _traced(rule: _Rule, state: StateInline, silent: bool) -> bool:
    """A rule that notes where its tokens end."""
    first, at = len(state.tokens), state.pos
    if not rule(state, silent):
        return False
    for token in state.tokens[first:]:
        if token.type == "text" and "start" in token.meta and "end" not in token.meta:  # marks, pushed one by one
            token.meta["start"], at = at, at + len(token.content)
            token.meta["end"] = at
        token.meta.setdefault("end", state.pos)
    return True


def _tidied(parts: Sequence[tuple[str, bool]], marks: Collection[str]) -> list[tuple[str, bool]]:
    """Emphasis as Markdown wants it: around something, and with white space outside its marks."""
    tidied: list[tuple[str, bool]] = []
    opened: dict[str, int] = {}  # where the marks stand that are still open
    for part, kept in parts:
        inside = bool(tidied) and tidied[-1][1] and opened.get(tidied[-1][0]) == len(tidied) - 1
        if not (kept and part in marks):
            body = part.lstrip() if inside and not kept else part
            if body != part:
                opened[tidied[-1][0]] += 1
                tidied.insert(-1, (part[: -len(body)] if body else part, False))
            if body:
                tidied.append((body, kept))
        elif part not in opened:
            opened[part] = len(tidied)
            tidied.append((part, True))
        elif opened.pop(part) == len(tidied) - 1:
            tidied.pop()
        else:
            text, is_kept = tidied.pop()
            body = text if is_kept else text.rstrip()
            tidied += [(body, is_kept), (part, True), (text[len(body) :], False)]
    return tidied


def _kept(pieces: Iterator[Piece]) -> str:
    return "".join(piece.text for piece in pieces if piece.role is not Role.TEXT)


def _escape(characters: str, text: str) -> str:
    return "".join(f"\\{character}" if character in characters else character for character in text)


def _written(inline: Inline, frame: tuple[str, str], environment: dict[str, Any], translation: str) -> str:
    """With as little escaped as can be: shown as if all were."""
    parts = _tidied(inline.parts(translation), {piece.text for piece in inline.pieces if piece.spare})
    written = [escaped(parts, partial(_escape, level)) for level in _LEVELS]
    before, after = frame
    shown = _parser().render(before + written[-1] + after, dict(environment))
    return next(text for text in written if _parser().render(before + text + after, dict(environment)) == shown)
