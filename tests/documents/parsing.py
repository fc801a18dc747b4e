"""Documents for tests, from text or from the files beside this one."""

from pathlib import Path

from attendo.documents.document import FORMATS, Document
from attendo.documents.inline import split_kept
from attendo.documents.passages import Passage

FILES = sorted((Path(__file__).parent / "files").iterdir())


def parsed(content: str, ending: str, *, retranslate: bool = False) -> Document:
    return Document(content, tuple(FORMATS[ending](content, retranslate)))


def texts(content: str, ending: str) -> list[str]:
    return [passage.text for passage in parsed(content, ending).passages]


def same(document: Document) -> str:
    """Filled with the passages' own texts."""
    return document.filled([passage.text for passage in document.passages])


def shout(passage: Passage) -> str:
    """A "translation": in capitals, but for what is kept."""
    return "".join(part if kept else part.upper() for part, kept in split_kept(passage.text, passage.keep))


def shouted(document: Document) -> str:
    return document.filled([shout(passage) for passage in document.passages])
