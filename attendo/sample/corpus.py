"""Draw sentences from the frames, divide them into training, validation and test, and write them.

The division is by combinations of words. A combination is an adjective with its noun, a subject with its verb, a verb
with its object. A fixed hash reserves about one in twenty of all combinations; a sentence with none of them may be
trained on, a sentence with at least one may be validated or tested on. So every test sentence says something that
training never said, with words that training has shown: it measures whether the rules were learned.
"""

import os
import random
import re
import shutil
import zlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from attendo.errors import DataError, StorageError
from attendo.sample.frames import frames
from attendo.sample.grammar import Combination, Sentence

HELD_OUT_PAIRS = 500
FEWEST_PAIRS, MOST_PAIRS = 100, 500_000
RESERVED_ONE_IN = 20

_WORD = re.compile(r"[^\W\d_]+(?:[-'][^\W\d_]+)*")


@dataclass(frozen=True, kw_only=True)
class SampleSummary:
    """What was written; forms are distinct German words as spelled, words a sentence are counted by spaces."""

    directory: Path
    train_pairs: int
    valid_pairs: int
    test_pairs: int
    german_forms: int
    mean_english_words: float
    mean_german_words: float


@dataclass(frozen=True, kw_only=True)
class Corpus:
    train: tuple[Sentence, ...]
    valid: tuple[Sentence, ...]
    test: tuple[Sentence, ...]


def distinct_sentences() -> int:
    """A lower bound of the number of English sentences the grammar can make.

    In one frame, different choices give different sentences, so the largest frame alone makes as many as it has
    choices. Frames can share sentences, which is why their counts are not added.
    """
    return max(frame.count for frame in frames())


def is_reserved(combination: Combination) -> bool:
    """Whether the combination is kept out of training: the same on every machine and for every seed."""
    return zlib.crc32(" + ".join(combination).encode("utf-8")) % RESERVED_ONE_IN == 0


def words_of(text: str) -> list[str]:
    """The words of a sentence, without its punctuation."""
    return _WORD.findall(text)


def _draws(rng: random.Random) -> Iterator[Sentence]:
    while True:
        yield rng.choice(frames()).draw(rng)


def make_sample(*, pairs: int = 20_000, seed: int = 1) -> Corpus:
    """Draw the three sets; the same for the same `pairs` and `seed`."""
    if not FEWEST_PAIRS <= pairs <= MOST_PAIRS:
        raise DataError(
            f"The sample can have from {FEWEST_PAIRS} to {MOST_PAIRS} training pairs, not {pairs}. "
            "Choose a number in that range."
        )
    rng = random.Random(seed)
    train: dict[str, Sentence] = {}
    for drawn in _draws(rng):
        if not any(map(is_reserved, drawn.combinations)):
            train[drawn.english] = drawn
            if len(train) == pairs:
                break
    known = _vocabulary(train.values())
    held_out: dict[str, Sentence] = {}
    for drawn in _draws(rng):
        if any(map(is_reserved, drawn.combinations)) and _vocabulary([drawn]) <= known:
            held_out[drawn.english] = drawn
            if len(held_out) == 2 * HELD_OUT_PAIRS:
                break
    unseen = tuple(held_out.values())
    return Corpus(train=tuple(train.values()), valid=unseen[:HELD_OUT_PAIRS], test=unseen[HELD_OUT_PAIRS:])


def _vocabulary(sentences: Iterable[Sentence]) -> set[tuple[str, str]]:
    """Each word as spelled, with its language."""
    found: set[tuple[str, str]] = set()
    for each in sentences:
        for language, text in (("en", each.english), ("de", each.german)):
            found.update((language, word) for word in words_of(text))
    return found


def write_sample(directory: Path, *, pairs: int = 20_000, seed: int = 1) -> SampleSummary:
    """Write train, valid and test, each `.en` and `.de`: UTF-8, one sentence a line, all or nothing."""
    if directory.exists() and not directory.is_dir():
        raise DataError(f"{directory} is a file; the sample is written to a folder. Choose another name.")
    if directory.exists() and any(directory.iterdir()):
        raise DataError(
            f"The folder {directory} exists and is not empty; the sample would mix with what is there. "
            "Choose a folder that does not exist, or remove this one."
        )
    corpus = make_sample(pairs=pairs, seed=seed)
    unfinished = directory.parent / f".{directory.name}.{os.getpid()}.unfinished"
    try:
        unfinished.mkdir(parents=True)
        for name, sentences in (("train", corpus.train), ("valid", corpus.valid), ("test", corpus.test)):
            _write_lines(unfinished / f"{name}.en", [each.english for each in sentences])
            _write_lines(unfinished / f"{name}.de", [each.german for each in sentences])
        if directory.exists():
            directory.rmdir()
        unfinished.rename(directory)
    except OSError as error:
        raise StorageError(
            f"The sample could not be written to {directory}: {error.strerror or error}. "
            "Free some space, or choose a folder that can be written to."
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    everything = (*corpus.train, *corpus.valid, *corpus.test)
    return SampleSummary(
        directory=directory,
        train_pairs=len(corpus.train),
        valid_pairs=len(corpus.valid),
        test_pairs=len(corpus.test),
        german_forms=len({word for each in everything for word in words_of(each.german)}),
        mean_english_words=_mean_words([each.english for each in everything]),
        mean_german_words=_mean_words([each.german for each in everything]),
    )


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="\n")


def _mean_words(texts: Collection[str]) -> float:
    return sum(len(text.split()) for text in texts) / len(texts)
