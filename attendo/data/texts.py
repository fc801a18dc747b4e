"""From files of plain text to ids on disk: for models that learn from text alone.

A store of texts is one of pairs whose targets are empty. What is held out for validation is the end of each file, so
that it is a text as well.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from attendo.data.prepare import Prepared, open_prepared, tokenizers_key
from attendo.data.store import StoreWriter, in_parts
from attendo.errors import DataError
from attendo.reporting import Reporter
from attendo.storage import sha256, storage_errors
from attendo.text.corpus import read_lines, reading, trim
from attendo.text.pair import TokenizerPair
from attendo.text.tokenizer import EOS, Kind, choose_vocab_size, count_words, train_tokenizer

FORMAT = 1
CHUNK = 200_000  # characters of a text that are tokenised at once
AT_ONCE = 20_000  # lines

Unit = Literal["text", "line"]


@dataclass(frozen=True)
class Split:
    """Of one file: how many lines are for training, and how many there are."""

    path: str
    n_training: int
    n_lines: int


def prepare_texts(
    files: Sequence[str],
    valid_file: str | None,
    *,
    unit: Unit,
    share: float,
    most: int,
    tokenizers: TokenizerPair | None,
    kind: Kind,
    vocab_size: int | None,
    max_length: int,
    cache: Path,
    reporter: Reporter,
) -> Prepared:
    """Finds the texts in the cache, or reads them and puts them there.

    unit "text": a file is one text with all its white space, which ends with EOS. "line": each line is one, without
    white space at its ends; one longer than `max_length` is stored in parts, an empty one not at all.
    share, most: of each file's characters ("text") or lines ("line"), held out from its end where there is no
    `valid_file`.
    """
    digest = _fingerprint(files)
    valid_digest = None if valid_file is None else _fingerprint([valid_file])
    length = max_length if unit == "line" else None
    learning = tokenizers_key(tokenizers, kind, vocab_size)
    key = ["texts", FORMAT, unit, share, most, digest, valid_digest, *learning, length]
    folder = cache / sha256(json.dumps(key).encode())[:16]
    found = open_prepared(folder)
    if found is not None:
        reporter.say(f"Using the tokenised text of an earlier run ({folder}).")
        return found

    splits, n_words = [], 0
    for path in files:
        sizes = [(len(line) + 1, count_words(line)) for line in reporter.track(read_lines(path), f"Reading {path}")]
        n_words += sum(words for _, words in sizes)
        lengths = [size for size, _ in sizes] if unit == "text" else [1] * len(sizes)
        splits.append(Split(path, _first_lines(lengths, 0.0 if valid_file else share, most), len(lengths)))
    if tokenizers is None:
        vocab_size = vocab_size or choose_vocab_size(n_words)
        lines = reporter.track(_training_lines(splits, unit), "Learning pieces", sum(one.n_training for one in splits))
        both = train_tokenizer(lines, kind=kind, vocab_size=vocab_size)
        tokenizers = TokenizerPair(both, both)
    valid = _valid_texts(splits, valid_file, unit)
    with storage_errors(folder), StoreWriter(folder) as writer:
        n_rows = 0
        for texts in _batches(splits, unit, reporter):
            rows = [ids or [EOS] for ids in tokenizers.source.encode_inside(texts)]
            if unit == "line":
                rows = in_parts(rows, max_length)
            n_rows += len(rows)
            writer.append(rows, [[] for _ in rows])
        n_tokens = writer.ends["source"]
        if n_tokens == 0 or not any(text for text, _ in valid):
            raise DataError(
                f"{', '.join(files)}: {n_tokens} pieces are left for training and {len(valid)} texts for validation, "
                "and both need some. Give more text, in several lines, or a file with --valid-source."
            )
        facts = {
            "texts": {"rows": n_rows, "held_out": len(valid)},
            "tokens_per_epoch": {"source": n_tokens},
            "words": n_words,
            "vocab_size": vocab_size,
            "fingerprint": digest,
            "validation": "held out" if valid_file is None else valid_file,
            "validation_fingerprint": valid_digest,
            "in_words": {
                "tokenizer": f"{tokenizers.source.kind}, {tokenizers.source.vocab_size:,} pieces",
                "training text": f"{n_tokens:,} pieces, {n_words:,} words in all, of {', '.join(files)}",
                "validation text": "the end of each file" if valid_file is None else valid_file,
            },
        }
        writer.finish({"facts": facts, "valid": valid, "tokenizers": tokenizers.files()})
    prepared = open_prepared(folder)
    if prepared is None:
        raise DataError(f"the tokenised text in {folder} vanished while it was in use. Start again.")
    return prepared


def _fingerprint(files: Sequence[str]) -> str:
    """SHA-256 of the bytes of the files, as they are stored, in their order."""
    digests = []
    for path in files:
        with reading(path, unzip=False) as stream:
            digests.append(hashlib.file_digest(stream, "sha256").hexdigest())
    return sha256(" ".join(digests).encode())


def _first_lines(sizes: Sequence[int], share: float, most: int) -> int:
    """How many lines come before the last ones that hold at most this share of the size, and at most so much of it."""
    left = min(share * sum(sizes), most)
    count = len(sizes)
    while count and sizes[count - 1] <= left:
        left -= sizes[count - 1]
        count -= 1
    return count


def _training_lines(splits: Sequence[Split], unit: Unit) -> Iterator[str]:
    """What a tokenizer is learned from: what is held out stays unseen. Line ends belong to a text."""
    for split in splits:
        for number, line in enumerate(read_lines(split.path)):
            if number < split.n_training:
                yield f"{line}\n" if unit == "text" else trim(line)


def _valid_texts(splits: Sequence[Split], valid_file: str | None, unit: Unit) -> list[tuple[str, str]]:
    if valid_file is not None:
        splits = [Split(valid_file, 0, 0)]
    found: list[tuple[str, str]] = []
    for split in splits:
        lines = [line for number, line in enumerate(read_lines(split.path)) if number >= split.n_training]
        if unit == "text":
            found.append(("".join(f"{line}\n" for line in lines), ""))
        else:
            found += [(trim(line), "") for line in lines if line.strip()]
    return found


def _batches(splits: Sequence[Split], unit: Unit, reporter: Reporter) -> Iterator[list[str]]:
    """Texts to be tokenised at once; an empty one stands for the end of a file."""
    for split in splits:
        numbered = zip(range(split.n_training), read_lines(split.path), strict=False)
        lines = (line for _, line in reporter.track(numbered, "Tokenising", split.n_training))
        if unit == "text":
            yield from ([chunk] for chunk in chunks(f"{line}\n" for line in lines))
            yield [""]
            continue
        batch: list[str] = []
        for line in lines:
            if line.strip():
                batch.append(trim(line))
            if len(batch) == AT_ONCE:
                yield batch
                batch = []
        yield batch


def chunks(lines: Iterator[str], size: int = CHUNK) -> Iterator[str]:
    """The lines joined, in parts of about `size` characters, each of which ends right before a space.

    So the tokenizer, which puts a space before a text that has none, makes of the parts what it makes of the whole.
    """
    kept: list[str] = []
    count = 0
    for line in lines:
        kept.append(line)
        count += len(line)
        if count < size:
            continue
        text = "".join(kept)
        place = text.rfind(" ", 1)
        if place > 0:
            yield text[:place]
            kept, count = [text[place:]], len(text) - place
    if count:
        yield "".join(kept)
