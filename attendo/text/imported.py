"""A tokenizer that others have trained, with our ids.

It is kept as JSON with these keys:

    kind      "imported"
    library   what cuts a text, in ids of its own: JSON of the `tokenizers` library, as text, or a SentencePiece file
              in base64
    ids       for each of those the id of ours
    pieces    the piece of each of our ids, as people are to see it; the first four are the control pieces
    spelling  how a piece is written: "bytes" (GPT-2's letters, one for each byte), "spaces" (▁ is a space), "stripped"
              (the same, and a text neither begins nor ends with one) or "words" (WordPiece: a space before each piece
              that has no ##)
    bytes     whether the piece <0x41> is the byte of that number
    silent    ids that spell nothing: languages, masks, fillers
    before    ids that every text begins with: its language, or their own beginning of a text
    after     ids that every text ends with, before </s>

What the control pieces are called no text can reach: in the library they have names that no text has.
"""

import base64
import functools
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import tokenizers

from attendo.errors import BundleError
from attendo.text.tokenizer import CONTROLS, UNK, Tokenizer

if TYPE_CHECKING:  # only those who have such a file wait for it
    from sentencepiece import SentencePieceProcessor

Spelling = Literal["bytes", "spaces", "stripped", "words"]

_SPACE = "▁"
_CONTINUING = "##"
# What the WordPiece decoder of the library writes without the space before it.
_CLOSE = (".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re")


class ImportedTokenizer(Tokenizer):
    """A tokenizer of theirs; get one by `imported_from_json`.

    It may change a text before it looks for pieces, as it did when the model was trained: decode(encode(text)) is the
    text up to that (letter case, kinds of spaces, characters that are written in several ways).
    """

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values
        self._cutter = _opened(values["library"])
        self._ids: list[int] = values["ids"]
        self._pieces = values["pieces"]
        self.kind = "imported"
        self.vocab_size = len(self._pieces)
        self.before: tuple[int, ...] = tuple(values["before"])
        self._after: list[int] = values["after"]
        self._spelling: Spelling = values["spelling"]
        silent = {*range(len(CONTROLS)), *values["silent"]}
        self._spelled = [
            b"" if id in silent else _spelled(piece, self._spelling, values["bytes"])
            for id, piece in enumerate(self._pieces)
        ]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [[*self.before, *ids, *self._after] for ids in self.encode_inside(texts)]

    def _cut(self, texts: Sequence[str]) -> list[list[int]]:
        ours = self._ids
        return [[ours[id] for id in ids] for ids in self._cutter.cut(texts)]

    def decode(self, ids: Sequence[int]) -> str:
        text = self._joined(ids).decode("utf-8", errors="replace")
        return text[self._lead(text) :].rstrip(" " if self._spelling == "stripped" else "")

    def _lead(self, text: str) -> int:
        match self._spelling:
            case "bytes":
                return 0
            case "stripped":
                return len(text) - len(text.lstrip(" "))
            case _:
                return int(text.startswith(" "))

    def places(self, text: str, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Where each piece stands in a text, which may be written otherwise than the pieces are."""
        inside = [(self._ids[id], span) for id, span in self._cutter.placed(text)]
        if [*self.before, *(id for id, _ in inside), *self._after] != list(ids):
            return self.spans(ids)  # of a text that they spell
        return [(0, 0)] * len(self.before) + [span for _, span in inside] + [(len(text), len(text))] * len(self._after)

    def joining_ids(self) -> frozenset[int]:
        return frozenset(
            id_ for id_, spelled in enumerate(self._spelled) if spelled.decode(errors="replace")[:1].isalnum()
        )

    def continuing(self) -> list[bool]:
        return [self._spelling == "words" and piece.startswith(_CONTINUING) for piece in self._pieces]

    def merges(self) -> list[tuple[str, str]]:
        return []

    def unknown_share(self, ids: Any) -> float:
        return float((ids == UNK).mean()) if len(ids) else 0.0

    def to_json(self) -> str:
        return json.dumps(self._values, ensure_ascii=False)


def imported_from_json(values: dict[str, Any]) -> ImportedTokenizer:
    """The tokenizer of such JSON, checked."""
    if fault := _fault(values):
        raise _damaged(fault)
    return ImportedTokenizer(values)


def _fault(values: dict[str, Any]) -> str | None:
    lists = {name: values.get(name) for name in ("ids", "pieces", "silent", "before", "after")}
    for name, value in lists.items():
        if not isinstance(value, list):
            return f"{name} is no list"
    pieces = lists.pop("pieces") or []
    if tuple(pieces[: len(CONTROLS)]) != CONTROLS or not all(isinstance(piece, str) for piece in pieces):
        return "its pieces do not begin with " + ", ".join(CONTROLS)
    for name, value in lists.items():
        if not all(isinstance(id, int) and 0 <= id < len(pieces) for id in value or ()):
            return f"{name} has an id that is none of its {len(pieces):,} pieces"
    if values.get("spelling") not in get_args(Spelling):
        return f"its spelling is {values.get('spelling')!r}"
    if not isinstance(values.get("library"), str) or not isinstance(values.get("bytes"), bool):
        return "library or bytes is missing"
    size = len(_opened(values["library"]))
    return None if len(values["ids"]) == size else f"ids are {len(values['ids']):,} for {size:,} pieces of its library"


class _Library:
    """A tokenizer of the `tokenizers` library."""

    def __init__(self, text: str) -> None:
        self._library = tokenizers.Tokenizer.from_str(text)

    def __len__(self) -> int:
        return self._library.get_vocab_size(with_added_tokens=True)

    def cut(self, texts: Sequence[str]) -> list[list[int]]:
        return [one.ids for one in self._library.encode_batch_fast(list(texts), add_special_tokens=False)]

    def placed(self, text: str) -> list[tuple[int, tuple[int, int]]]:
        found = self._library.encode(text, add_special_tokens=False)
        return list(zip(found.ids, found.offsets, strict=True))


class _SentencePiece:
    """A SentencePiece file."""

    def __init__(self, content: str) -> None:
        self._processor = opened_sentencepiece(base64.b64decode(content, validate=True))

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    def cut(self, texts: Sequence[str]) -> list[list[int]]:
        found: list[list[int]] = self._processor.encode(list(texts), num_threads=1)
        return found

    def placed(self, text: str) -> list[tuple[int, tuple[int, int]]]:
        found = self._processor.encode(text, out_type="offset_mapping")
        return list(zip(found["ids"], found["offsets"], strict=True))


def opened_sentencepiece(content: bytes) -> "SentencePieceProcessor":
    """A SentencePiece file, read by its own library; a `ValueError` says why it is none."""
    from sentencepiece import SentencePieceProcessor

    try:
        return SentencePieceProcessor(model_proto=content)
    except (RuntimeError, OSError, TypeError) as error:
        raise ValueError(str(error)) from None


@functools.lru_cache(maxsize=2)  # a large one takes seconds, and mostly both sides have the same
def _opened(library: str) -> _Library | _SentencePiece:
    try:
        return _Library(library) if library.startswith("{") else _SentencePiece(library)
    except Exception as error:  # the libraries have no class of their own for this
        raise _damaged(error) from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # the `tokenizers` library's, which is no Exception
            raise
        raise _damaged(error) from None


def _damaged(fault: object) -> BundleError:
    return BundleError(f"the imported tokenizer is damaged: {fault}. Get it again from where it came.")


def _spelled(piece: str, spelling: Spelling, bytewise: bool) -> bytes:
    match spelling:
        case "bytes":
            if all(letter in _BYTES for letter in piece):
                return bytes(_BYTES[letter] for letter in piece)
            return piece.encode()
        case "spaces" | "stripped":
            if bytewise and len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
                return bytes([int(piece[3:5], 16)])
            return piece.replace(_SPACE, " ").encode()
        case "words":
            if piece.startswith(_CONTINUING):
                return piece.removeprefix(_CONTINUING).encode()
            return (piece if piece in _CLOSE else f" {piece}").encode()


def _letters_of_bytes() -> dict[str, int]:
    """GPT-2's letter for each byte: itself where it is printed, and otherwise the next of those from U+0100 on."""
    printed = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printed]
    return {chr(byte): byte for byte in printed} | {chr(0x100 + place): byte for place, byte in enumerate(others)}


_BYTES = _letters_of_bytes()
