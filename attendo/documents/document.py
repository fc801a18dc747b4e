"""Files whose text is translated and whose structure is kept: text, Markdown, HTML, subtitles, PO, XLIFF.

A format finds where the text stands and never writes the rest anew, so what is outside the passages is the same to the
byte.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from attendo.documents import html, markdown, plain, po, subtitles, xliff
from attendo.documents.passages import Document, Passage
from attendo.errors import ConfigError, DataError
from attendo.text.corpus import read_lines

__all__ = ["FORMATS", "Document", "Passage", "parse_document", "read_document"]

FORMATS: dict[str, Callable[[str, bool], list[Passage]]] = {
    "txt": lambda content, _: plain.passages(content),
    "md": lambda content, _: markdown.passages(content),
    "markdown": lambda content, _: markdown.passages(content),
    "html": lambda content, _: html.passages(content),
    "htm": lambda content, _: html.passages(content),
    "srt": lambda content, _: subtitles.passages(content),
    "po": lambda content, retranslate: po.passages(content, retranslate=retranslate),
    "xliff": lambda content, retranslate: xliff.passages(content, retranslate=retranslate),
    "xlf": lambda content, retranslate: xliff.passages(content, retranslate=retranslate),
}
"""By the ending of a file's name: (content, whether to translate again what has a translation) → passages"""


def read_document(path: str | Path, format: str | None = None, *, retranslate: bool = False) -> Document:
    """A document and its passages.

    format: one of `FORMATS`; None: by the ending of the file's name
    retranslate: also what a PO or XLIFF file has a translation of, unless that is said to be final
    """
    format = _format(str(path), format)
    return parse_document(str(path), _content(path), format, retranslate=retranslate)


def parse_document(name: str, content: str, format: str | None = None, *, retranslate: bool = False) -> Document:
    """The same of a document that is at hand; by `name` it is called in errors, and nothing is looked for there."""
    format = _format(name, format)
    mark = content[: content.startswith("\ufeff")]
    try:
        passages = FORMATS[format](content[len(mark) :], retranslate)
    except DataError as error:
        raise DataError(f"{name}, {error}") from None
    except RecursionError:
        raise DataError(f"{name}: its markup is nested too deeply. Take it apart.") from None
    return Document(content, tuple(replace(p, start=p.start + len(mark), end=p.end + len(mark)) for p in passages))


def _format(name: str, format: str | None) -> str:
    if format is None:
        format = Path(name).suffix.lower().removeprefix(".")
        if format not in FORMATS:
            endings = ", ".join(f".{ending}" for ending in FORMATS)
            raise DataError(
                f"{name}: documents end in {endings}, and this file does not. Rename it, or name its format."
            )
    elif format not in FORMATS:
        raise ConfigError(f"format={format}: there is no such format of documents. Choose one of {', '.join(FORMATS)}.")
    return format


def _content(path: str | Path) -> str:
    """The text of a file: byte order mark and line ends as they are."""
    try:
        return Path(path).read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        for _ in read_lines(str(path)):
            pass  # says what is wrong, and in which line
        raise DataError(f"{path}: cannot be read ({error}).") from None
