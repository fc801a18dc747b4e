"""Text ↔ pieces ↔ ids.

The work is done by the Hugging Face `tokenizers` library, hidden behind one small class. A vocabulary is laid out as

    0 <pad>, 1 <s>, 2 </s>, 3 <unk>, then (BPE, characters) the 256 bytes <0x00> … <0xFF>, then what was learned.

The control pieces are plain entries that no text can reach: the library is given no added tokens, and letters,
numbers and punctuation never share a learned piece, so a typed ``</s>`` is "<", "/", "s" and ">" even where the
training text is full of it.
"""

import json
import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from attendo.errors import BundleError, ConfigError, DataError

if TYPE_CHECKING:  # translating does without numpy, which takes long to import
    from numpy.typing import NDArray

PAD, BOS, EOS, UNK = 0, 1, 2, 3
CONTROLS = ("<pad>", "<s>", "</s>", "<unk>")

Kind = Literal["bpe", "wordpiece", "characters", "imported"]

SMALLEST_VOCAB_SIZE = 300

_SPACE = "▁"
_CONTINUING = "##"
_BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
_LONGEST_PIECE = 16
_LONGEST_RUN = 64
_MOST_LINES = 1_000_000

# Where a piece may not reach across, as in SentencePiece: from one word, script, number or punctuation into the next.
# CJK and kana are one script, and so are the scripts in the third line, which hardly ever meet within a word. The
# length limit bounds the work for scripts without spaces and for junk. "#" stands alone so that no word begins with
# "##", which would look like WordPiece's mark of a continuation.
_CJK = r"\p{Han}\p{Hiragana}\p{Katakana}ー"
_RUNS = "|".join(
    (
        rf"▁?[{_CJK}]{{1,{_LONGEST_RUN}}}",
        rf"▁?\p{{Latin}}[\p{{Latin}}\p{{M}}]{{0,{_LONGEST_RUN - 1}}}",
        rf"▁?[\p{{L}}&&[^{_CJK}\p{{Latin}}]][\p{{L}}\p{{M}}&&[^{_CJK}\p{{Latin}}]]{{0,{_LONGEST_RUN - 1}}}",
        rf"▁?\p{{N}}{{1,{_LONGEST_RUN}}}",
        "▁?#",
        rf"▁?[^\p{{L}}\p{{N}}#▁]{{1,{_LONGEST_RUN}}}",
    )
)

# Scripts written without spaces: Thai, Lao, Tibetan, Myanmar, Khmer, kana, Han.
SPACELESS = re.compile("[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]")


class Tokenizer:
    """One side's tokenizer; get one by `train_tokenizer` or `Tokenizer.from_json`.

    kind "bpe": byte-pair encoding in SentencePiece's form: "▁" for a space and before the first word; a character
        that is not in the vocabulary becomes its UTF-8 bytes. `<unk>` never occurs.
    kind "characters": the same without merges.
    kind "wordpiece": longest match from the left, a piece inside a word is marked "##"; a character that is not in
        the vocabulary becomes one `<unk>`.

    Round trip: decode(encode(text)) == text for every text, white space of all kinds included, except that

    - one leading space is lost (it is the one that the first "▁" stands for);
    - U+2581 "▁" comes back as a space;
    - with WordPiece, characters outside the vocabulary are lost.

    For BPE-dropout, which the library has without a seed, see `bpe_dropout.Merger`.
    """

    kind: Kind
    vocab_size: int
    before: tuple[int, ...] = ()  # ids that every text begins with

    def __init__(self, library: tokenizers.Tokenizer) -> None:
        vocab = library.get_vocab(with_added_tokens=False)
        self._library = library
        self._pieces = sorted(vocab, key=vocab.__getitem__)
        if isinstance(library.model, models.WordPiece):
            self.kind = "wordpiece"
        elif isinstance(library.pre_tokenizer, pre_tokenizers.Metaspace):
            self.kind = "characters"
        else:
            self.kind = "bpe"
        self.vocab_size = len(self._pieces)
        # What each piece spells. In bytes, since a character may be spelled by several byte pieces.
        self._spelled = [b""] * len(CONTROLS)
        for piece in self._pieces[len(CONTROLS) :]:
            if self.kind == "wordpiece":
                piece = piece.removeprefix(_CONTINUING)
            self._spelled.append(piece.replace(_SPACE, " ").encode())
        if self.kind != "wordpiece":
            self._spelled[len(CONTROLS) : len(CONTROLS) + 256] = [bytes([byte]) for byte in range(256)]

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without `<s>` and `</s>`."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of many texts at once, on all cores."""
        return self.encode_inside(texts)

    def encode_inside(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of what is to stand inside a text, without those that every text begins or ends with.

        The environment variable TOKENIZERS_PARALLELISM is left alone: unset, the library uses all cores and knows to
        stop doing so in a forked child, where its threads are gone.
        """
        try:
            return self._cut(texts)
        except (TypeError, UnicodeEncodeError):
            for text in texts:
                if not _is_unicode(text):
                    raise DataError(
                        f"{text[:60]!r} has half of a surrogate pair, which no UTF-8 text can hold. Remove it."
                    ) from None
            raise

    def encode_after(self, text: str) -> list[int]:
        """The ids of what is to stand inside a text right after something else, with no space between them.

        It is cut together with a neighbour that it shares no piece with; where it does all the same, as after a space.
        """
        for neighbour in ".)q" if text[:1].isalnum() else "aq":
            before, both = self.encode_inside([neighbour, neighbour + text])
            if both[: len(before)] == before:
                return both[len(before) :]
        return self.encode_inside([text])[0]

    def _cut(self, texts: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._library.encode_batch_fast(list(texts), add_special_tokens=False)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text that the ids spell. Control ids spell nothing; bytes that are not UTF-8 become U+FFFD."""
        return self._joined(ids).decode("utf-8", errors="replace").removeprefix(" ")

    def _joined(self, ids: Sequence[int]) -> bytes:
        spelled = self._spelled
        return b"".join([spelled[id] for id in ids])

    def _lead(self, text: str) -> int:
        """How many spaces at the beginning of what pieces spell are not part of the text."""
        return int(text.startswith(" "))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces of the vocabulary behind the ids, control pieces included."""
        return [self._pieces[id] for id in ids]

    def spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Where each piece stands in the text that the ids spell: its first character, and the one after its last.

        A character that several pieces spell is in the span of each. `<unk>` stands for one character, so that with
        `ids = encode(text)` these are places in the text itself.
        """
        spelled = [b"?" if id == UNK else self._spelled[id] for id in ids]
        begun = [0]  # characters that begin before each byte; one begins at every byte that does not continue it
        whole = b"".join(spelled)
        for byte in whole:
            begun.append(begun[-1] + (byte & 0xC0 != 0x80))
        lead = self._lead(whole.decode(errors="replace"))
        spans, at = [], 0
        for part in spelled:
            end = at + len(part)
            first = begun[at + 1] - 1 if part else begun[at]
            spans.append((max(0, first - lead), max(0, begun[end] - lead)))
            at = end
        return spans

    def places(self, text: str, ids: Sequence[int]) -> list[tuple[int, int]]:  # noqa: ARG002 (it is what they spell)
        """`spans` in the text that the ids were made of, or that they spell."""
        return self.spans(ids)

    def joining_ids(self) -> frozenset[int]:
        """The ids that go on with a word, were one right before them: they begin with a letter or digit, no space."""
        mark = _CONTINUING if self.kind == "wordpiece" else ""
        return frozenset(
            id_
            for id_, (piece, spelled) in enumerate(zip(self._pieces, self._spelled, strict=True))
            if piece.startswith(mark) and spelled.decode(errors="replace")[:1].isalnum()
        )

    def spellings(self) -> list[str]:
        """What each id spells, with the space before it, if it has one; U+FFFD for a part of a character."""
        return [spelled.decode("utf-8", errors="replace") for spelled in self._spelled]

    def continuing(self) -> list[bool]:
        """For each id whether its piece says that it goes on with a word, as WordPiece's do."""
        return [self.kind == "wordpiece" and piece.startswith(_CONTINUING) for piece in self._pieces]

    def merges(self) -> list[tuple[str, str]]:
        """What BPE learned, in order: (left, right) pieces that become the piece left + right. Others: none."""
        model = json.loads(self.to_json())["model"]
        return [(left, right) for left, right in model.get("merges", [])]

    def smaller(self, vocab_size: int) -> "Tokenizer":
        """What BPE had learned when its vocabulary was only so large."""
        pieces = self._pieces[len(CONTROLS) + len(_BYTES) : vocab_size]
        known = set(pieces)
        merges = [(left, right) for left, right in self.merges() if {left, right, left + right} <= known]
        return Tokenizer(_assemble_bpe(pieces, merges, _words()))

    def unknown_share(self, ids: "NDArray[Any]") -> float:
        """The share of ids that stand for unknown characters: bytes, or `<unk>`."""
        last = UNK if self.kind == "wordpiece" else UNK + len(_BYTES)
        return float(((ids >= UNK) & (ids <= last)).mean()) if len(ids) else 0.0

    def to_json(self) -> str:
        """The content of `tokenizer.json`, which the library itself reads too, to the same ids."""
        return self._library.to_str()

    @classmethod
    def from_json(cls, text: str) -> "Tokenizer":
        """The tokenizer that `to_json` wrote."""
        try:
            library = tokenizers.Tokenizer.from_str(text)
        except Exception as error:  # the library has no class of its own for this
            raise BundleError(
                f"tokenizer.json is damaged: {error}. Take it from a copy of the bundle, or train again."
            ) from None
        fault = _fault(library)
        if fault is not None:
            raise BundleError(
                f"tokenizer.json was not written by attendo: {fault}. A bundle needs the tokenizer it was trained with."
            )
        return cls(library)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        return f"Tokenizer(kind={self.kind!r}, vocab_size={self.vocab_size})"


def train_tokenizer(lines: Iterable[str], *, kind: Kind, vocab_size: int) -> Tokenizer:
    """Learn a tokenizer from text; the same lines give the same tokenizer, byte for byte.

    `vocab_size` is the whole vocabulary, and an upper bound: a small text has no more to learn. Of more than a million
    lines a fixed random million is used. The most frequent characters get pieces of their own, as many as fit into
    half of what is learned (all of it for "characters"); the others are left to bytes, or to `<unk>` with WordPiece.
    """
    if vocab_size < SMALLEST_VOCAB_SIZE:
        raise ConfigError(
            f"tokenizer.vocab_size={vocab_size}: it has to be at least {SMALLEST_VOCAB_SIZE}, as the control pieces "
            "and the 256 bytes come before anything learned. Choose a larger size, or none to have it chosen."
        )
    sample = _sample(lines)
    match kind:
        case "bpe":
            n_learned = vocab_size - len(CONTROLS) - len(_BYTES)
            alphabet = _alphabet(sample, most=n_learned // 2)
            pieces, merges = _learn(sample, alphabet, n_learned)
            library = _assemble_bpe(pieces, merges, _words())
        case "characters":
            alphabet = _alphabet(sample, most=vocab_size - len(CONTROLS) - len(_BYTES))
            library = _assemble_bpe(alphabet, [], _metaspace())  # nothing to merge, so no borders to respect
        case "wordpiece":
            n_learned = vocab_size - len(CONTROLS)
            alphabet = _alphabet(sample, most=n_learned // 3)  # each twice: at the beginning of a word and inside
            pieces, _ = _learn(sample, alphabet, n_learned, continuing=_CONTINUING)
            library = _assemble_wordpiece(pieces, alphabet)
        case _:
            raise ConfigError(
                f"tokenizer.kind={kind!r}: it has to be bpe, wordpiece or characters; imported ones come with --from."
            )
    return Tokenizer(library)


def choose_vocab_size(words: int) -> int:
    """7.2 √words, a multiple of 80 from 560 to 32,000; `words` of both sides together.

    The distinct words of a text grow about so with its length (Heaps' law), and the constant gives 5,920 for
    the 29,000 pairs of Multi30K. Matrices of so many columns are multiplied faster than of any other number.
    """
    return min(max(round(7.2 * math.sqrt(words) / 80) * 80, 560), 32_000)


def count_words(text: str) -> int:
    """Words between white space; where a script has no spaces, two characters count as one word."""
    words = len(text.split())
    return words if text.isascii() else words + len(SPACELESS.findall(text)) // 2


def _sample(lines: Iterable[str]) -> list[str]:
    """All lines, or a million of them, each with the same chance (Vitter's algorithm R with a fixed seed)."""
    sample: list[str] = []
    generator = random.Random(0)
    for seen, line in enumerate(lines, start=1):
        if seen <= _MOST_LINES:
            sample.append(line)
        elif (place := generator.randrange(seen)) < _MOST_LINES:
            sample[place] = line
    return sample


def _alphabet(sample: Sequence[str], *, most: int) -> list[str]:
    """The `most` most frequent characters, in code point order; among equally frequent ones the lower code point.

    Counted here because the library's own limit drops equally frequent characters in no fixed order.
    """
    counts: Counter[str] = Counter()
    for line in sample:
        counts.update(line)
    if not counts:
        raise DataError("There is no text to learn a tokenizer from: every line is empty.")
    for space in (" ", _SPACE):
        counts.pop(space, None)
    frequent = sorted(counts, key=lambda character: (-counts[character], character))
    return sorted([_SPACE, *frequent[: most - 1]])


def _learn(
    sample: Sequence[str], alphabet: Sequence[str], n_pieces: int, *, continuing: str = ""
) -> tuple[list[str], list[tuple[str, str]]]:
    """(pieces in the order they were learned, beginning with the alphabet; merges), by the library's trainer."""
    trainer = trainers.BpeTrainer(
        vocab_size=n_pieces,
        min_frequency=2,
        max_token_length=_LONGEST_PIECE,
        initial_alphabet=list(alphabet),
        limit_alphabet=len(alphabet),
        continuing_subword_prefix=continuing,
        # Equally frequent pairs are merged in the order of their ids. Left alone, the trainer numbers the continuing
        # characters in the order of a hash table; named beforehand, they have fixed ids, and all are in.
        special_tokens=[continuing + character for character in alphabet],
        show_progress=False,  # it would write to standard output
    )
    library = tokenizers.Tokenizer(models.BPE())
    library.pre_tokenizer = _words()
    library.train_from_iterator(sample, trainer)
    model = json.loads(library.to_str())["model"]
    vocab: dict[str, int] = model["vocab"]
    return sorted(vocab, key=vocab.__getitem__), [(left, right) for left, right in model["merges"]]


def _assemble_bpe(
    pieces: Sequence[str], merges: list[tuple[str, str]], cuts: pre_tokenizers.PreTokenizer
) -> tokenizers.Tokenizer:
    model = models.BPE(
        vocab=_numbered(*CONTROLS, *_BYTES, *pieces), merges=merges, byte_fallback=True, unk_token=CONTROLS[UNK]
    )
    library = tokenizers.Tokenizer(model)
    library.pre_tokenizer = cuts
    library.decoder = decoders.Sequence(
        [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return library


def _assemble_wordpiece(pieces: Sequence[str], alphabet: Sequence[str]) -> tokenizers.Tokenizer:
    model = models.WordPiece(
        vocab=_numbered(*CONTROLS, *pieces),
        unk_token=CONTROLS[UNK],
        continuing_subword_prefix=_CONTINUING,
        max_input_chars_per_word=_LONGEST_RUN + 1,
    )
    library = tokenizers.Tokenizer(model)
    # The model gives up on a whole word for one unknown character; cut out, that character alone is unknown.
    known = "".join(rf"\x{{{ord(character):X}}}" for character in alphabet)
    library.pre_tokenizer = _words(pre_tokenizers.Split(tokenizers.Regex(f"[^{known}]"), "isolated"))
    library.decoder = decoders.Sequence(
        [
            decoders.Replace(tokenizers.Regex(f"^{_CONTINUING}"), ""),
            decoders.Replace(_SPACE, " "),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return library


def _numbered(*pieces: str) -> dict[str, int]:
    return {piece: id for id, piece in enumerate(pieces)}


def _metaspace() -> pre_tokenizers.Metaspace:
    return pre_tokenizers.Metaspace(replacement=_SPACE, prepend_scheme="always", split=True)


def _words(*more: pre_tokenizers.PreTokenizer) -> pre_tokenizers.Sequence:
    """What is cut apart before any pieces are looked for."""
    return pre_tokenizers.Sequence([_metaspace(), pre_tokenizers.Split(tokenizers.Regex(_RUNS), "isolated"), *more])


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _fault(library: tokenizers.Tokenizer) -> str | None:
    """What would make a tokenizer behave differently from what `Tokenizer` promises; None if nothing does."""
    parts: dict[str, Any] = json.loads(library.to_str())
    model = parts["model"]
    if model["type"] not in ("BPE", "WordPiece"):
        return f"its model is {model['type']}, neither BPE nor WordPiece"
    if any(parts[name] for name in ("added_tokens", "normalizer", "post_processor", "truncation", "padding")):
        return "it has added tokens, or changes the text or the ids"
    pieces = sorted(model["vocab"], key=model["vocab"].__getitem__)
    if sorted(model["vocab"].values()) != list(range(len(pieces))):
        return "its ids are not 0, 1, 2, … without gaps"
    first = CONTROLS if model["type"] == "WordPiece" else (*CONTROLS, *_BYTES)
    if tuple(pieces[: len(first)]) != first:
        return "its vocabulary does not begin with " + ", ".join(CONTROLS)
    if model["type"] == "BPE" and not model["byte_fallback"]:
        return "it has no byte fallback"
    if model.get("dropout"):
        return "it has dropout"
    cuts = parts["pre_tokenizer"] or {}
    metaspace = (cuts.get("pretokenizers") or [cuts])[0]
    if metaspace.get("type") != "Metaspace" or metaspace.get("prepend_scheme") != "always":
        return "it does not mark spaces with ▁"
    return None
