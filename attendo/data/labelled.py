"""Texts with labels: from a TSV file to ids on disk, and to batches.

A store of labelled texts is one of pairs: the source is the text, the target the number of its label and then the ids
of a second text, if there is one.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from attendo.data.batching import Indices, Lengths
from attendo.data.prepare import Prepared, open_prepared, tokenizers_key
from attendo.data.store import PairStore, StoreWriter
from attendo.data.text_batch import TextBatch, segments_batch
from attendo.errors import DataError
from attendo.reporting import Reporter
from attendo.storage import sha256, storage_errors
from attendo.text.corpus import held_out, read_lines, reading, source_hash, trim
from attendo.text.pair import TokenizerPair
from attendo.text.tokenizer import Kind, choose_vocab_size, count_words, train_tokenizer

FORMAT = 2
VALID_SHARE, MOST_VALID = 0.1, 1000
FEWEST = 10
CONTROLS = 2  # of a row: one before and one after, beside those between two texts


@dataclass(frozen=True)
class Labelled:
    """A label, and the one or two texts that have it."""

    label: str
    texts: tuple[str, ...]


class Shortened(NamedTuple):
    """The ids of a text, and of a second one, if any; and whether something was left out."""

    first: list[int]
    second: list[int]
    cut: bool


class LabelledRows:
    """The texts of a store, which are asked for their labels; always the same. Between two stand `n_separators`."""

    def __init__(self, store: PairStore, *, n_separators: int = 1) -> None:
        self.store = store
        self.n_separators = n_separators

    def lengths(self, epoch: int) -> tuple[Lengths, Lengths]:  # noqa: ARG002 (always the same)
        sources, targets = self.store.lengths()
        return sources + targets + 1, np.zeros(len(sources), dtype=np.int32)  # the label takes no place, EOS does

    def batch(self, indices: Indices, epoch: int) -> TextBatch:  # noqa: ARG002
        chosen = np.asarray(indices, dtype=np.int64).tolist()
        seconds = [self.store.target[i] for i in chosen]
        return segments_batch(
            [self.store.source[i] for i in chosen],
            [second[1:] for second in seconds],
            labels=[int(second[0]) for second in seconds],
            n_separators=self.n_separators,
        )


def read_labelled(path: str, columns: tuple[int, int] | None = None) -> Iterator[Labelled]:
    """The lines of a TSV file: a label, a text, and a second text where the line has three columns.

    columns: of the label and the text, counted from 1, where they are others; then there is no second text.
    """
    wanted = columns or (1, 2)
    number = 0
    for number, line in enumerate(read_lines(path), start=1):
        cells = [trim(cell) for cell in line.split("\t")]
        if max(wanted) > len(cells) or (columns is None and len(cells) > 3):
            raise DataError(
                f"{path}, line {number}: it has {len(cells)} column{'s' if len(cells) > 1 else ''}, and a label and "
                "one or two texts are expected, separated by tabs. Repair the line, or choose columns with --columns."
            )
        label, texts = cells[wanted[0] - 1], [cells[wanted[1] - 1]]
        if columns is None and len(cells) == 3 and cells[2]:
            texts.append(cells[2])
        if not label or not texts[0]:
            raise DataError(f"{path}, line {number}: the {'text' if label else 'label'} is empty. Repair the line.")
        yield Labelled(label, tuple(texts))
    if number == 0:
        raise DataError(f"{path}: the file is empty. Give a label, a tab and a text on each line.")


def prepare_labelled(
    path: str,
    valid_path: str | None,
    *,
    columns: tuple[int, int] | None,
    labels: Sequence[str] | None,
    tokenizers: TokenizerPair | None,
    kind: Kind,
    vocab_size: int | None,
    max_length: int,
    cache: Path,
    reporter: Reporter,
    n_separators: int = 1,
) -> Prepared:
    """Finds the texts in the cache, or reads them and puts them there.

    labels: those of the model to start from, if it has some. A text longer than `max_length`, with its control ids, is
    cut at its end; of those, `n_separators` stand between two texts.
    """
    digests = [_digest(one) for one in (path, valid_path) if one is not None]
    how = tokenizers_key(tokenizers, kind, vocab_size)
    key = ["labelled", FORMAT, digests, columns, labels, *how, max_length, n_separators]
    folder = cache / sha256(json.dumps(key).encode())[:16]
    found = open_prepared(folder)
    if found is not None:
        reporter.say(f"Using the tokenised texts of an earlier run ({folder}).")
        return found

    everything = list(reporter.track(read_labelled(path, columns), "Reading"))
    if valid_path is None:
        hashes = np.array([source_hash("\t".join(one.texts)) for one in everything], dtype=np.uint64)
        is_valid = held_out(hashes, share=VALID_SHARE, most=MOST_VALID).tolist()
        learned = {one.label for one, out in zip(everything, is_valid, strict=True) if not out}
        for number, one in enumerate(everything):  # a text at least of each label is for training
            if one.label not in learned:
                is_valid[number] = False
                learned.add(one.label)
        training = [one for one, out in zip(everything, is_valid, strict=True) if not out]
        valid = [one for one, out in zip(everything, is_valid, strict=True) if out]
    else:
        training, valid = everything, list(read_labelled(valid_path, columns))
    names = list(labels) if labels is not None else sorted({one.label for one in training})
    _check(path, training, valid, names, whose="the model knows" if labels is not None else "the training texts have")
    n_words = sum(count_words(text) for one in training for text in one.texts)
    if tokenizers is None:
        vocab_size = vocab_size or choose_vocab_size(n_words)
        lines = (text for one in training for text in one.texts)
        both = train_tokenizer(lines, kind=kind, vocab_size=vocab_size)
        tokenizers = TokenizerPair(both, both)
    numbers = {label: number for number, label in enumerate(names)}
    rows = shortened(tokenizers, [one.texts for one in training], max_length, n_separators=n_separators)
    with storage_errors(folder), StoreWriter(folder) as writer:
        writer.append(
            [row.first for row in rows],
            [[numbers[one.label], *row.second] for one, row in zip(training, rows, strict=True)],
        )
        n_cut = sum(row.cut for row in rows)
        cut = {"texts without their end": f"{n_cut:,}, longer than {max_length} pieces (data.max_length)"}
        facts = {
            "texts": {"kept": len(training), "held_out": len(valid), "cut": n_cut},
            "labels": names,
            "tokens_per_epoch": {"source": writer.ends["source"] + writer.ends["target"]},
            "words": n_words,
            "vocab_size": vocab_size,
            "fingerprint": digests[0],
            "validation": "held out" if valid_path is None else valid_path,
            "validation_fingerprint": None if valid_path is None else digests[1],
            "in_words": {
                "tokenizer": f"{tokenizers.source.kind}, {tokenizers.source.vocab_size:,} pieces",
                "labels": ", ".join(names),
                "training texts": f"{len(training):,}",
                "validation texts": f"{len(valid):,} ({'held out' if valid_path is None else valid_path})",
                **(cut if n_cut else {}),
            },
        }
        kept = [(one.label, "\t".join(one.texts)) for one in valid]
        writer.finish({"facts": facts, "valid": kept, "tokenizers": tokenizers.files()})
    prepared = open_prepared(folder)
    if prepared is None:
        raise DataError(f"the tokenised texts in {folder} vanished while they were in use. Start again.")
    return prepared


def shortened(
    tokenizers: TokenizerPair, texts: Sequence[Sequence[str]], max_length: int, *, n_separators: int = 1
) -> list[Shortened]:
    """The ids of each text and of the second one, if any; both together fit into the model with their control ids.

    Where they do not, the longer one loses its end first.
    """
    room = max_length - CONTROLS - n_separators
    firsts = tokenizers.source.encode_batch([one[0] for one in texts])
    seconds = tokenizers.source.encode_batch([one[1] if len(one) > 1 else "" for one in texts])
    found = []
    for first, second in zip(firsts, seconds, strict=True):
        cut = len(first) + len(second) > room
        if len(first) < len(second):
            first = first[: room // 2]
            found.append(Shortened(first, second[: room - len(first)], cut))
        else:
            second = second[: room // 2]
            found.append(Shortened(first[: room - len(second)], second, cut))
    return found


def _check(
    path: str, training: Sequence[Labelled], valid: Sequence[Labelled], names: Sequence[str], *, whose: str
) -> None:
    if len(training) < FEWEST or not valid:
        raise DataError(
            f"{path}: {len(training)} texts are left for training and {len(valid)} for validation. At least {FEWEST} "
            "and 1 are needed."
        )
    if len(names) < 2:
        raise DataError(f"{path}: every text has the label {names[0]!r}, so there is nothing to tell apart.")
    for one in (*training, *valid):
        if one.label not in names:
            raise DataError(
                f"{path}: the label {one.label!r} is none of {', '.join(map(repr, names))}, which {whose}. "
                "Repair it, or train without it."
            )


def _digest(path: str) -> str:
    with reading(path, unzip=False) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
