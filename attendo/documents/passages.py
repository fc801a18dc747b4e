"""What of a document is translated, and how a translation gets to its place."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Passage:
    """A piece of a document to be translated as a text of its own.

    start, end: where its translation stands in the content; what stands there now is replaced
    text: plain, unescaped, and without the line breaks that mean nothing; inline markup stands in it as in the document
    keep: the substrings of `text`, in order, that must come out unchanged: tags, code, link targets, placeholders
    write: a translation → what stands in the content from `start` to `end`, escaped but for what is kept
    """

    start: int
    end: int
    text: str
    keep: tuple[str, ...] = ()
    write: Callable[[str], str] = field(repr=False, compare=False)


@dataclass(frozen=True)
class Document:
    """A file's content, and its passages in the order of their places, none of which overlap."""

    content: str
    passages: tuple[Passage, ...]

    def filled(self, translations: Sequence[str]) -> str:
        """The content with a translation for each passage; everything outside the passages is copied as it is."""
        parts, at = [], 0
        for passage, translation in zip(self.passages, translations, strict=True):
            parts += [self.content[at : passage.start], passage.write(translation)]
            at = passage.end
        return "".join([*parts, self.content[at:]])
