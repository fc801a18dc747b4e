"""From text files to pairs of ids on disk: read, counted, held out, tokenised, stored; once, while nothing changes."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from attendo.data.batch import Batch
from attendo.data.loader import Examples
from attendo.data.resampling import ResampledPairs
from attendo.data.store import PairStore, StoreWriter, open_store
from attendo.errors import DataError
from attendo.reporting import Reporter
from attendo.storage import sha256, storage_errors
from attendo.text.corpus import CorpusFiles, Pair, fingerprint, held_out, read_pairs, source_hash
from attendo.text.pair import TokenizerPair
from attendo.text.tokenizer import Kind, choose_vocab_size, count_words, train_tokenizer

FORMAT = 2
FEWEST_PAIRS = 10
CHUNK = 20_000  # pairs tokenised at once

T = TypeVar("T")


@dataclass(frozen=True)
class Prepared:
    """A corpus ready for training. `facts` says what was read, kept, dropped and held out, and why."""

    folder: Path
    store: PairStore
    valid: list[Pair]
    tokenizers: TokenizerPair
    facts: dict[str, Any]
    resample: ResampledPairs | None = None

    @property
    def pairs(self) -> Examples[Batch]:
        """What to train on."""
        return self.resample or self.store

    def resampled(self, rate: float, seed: int) -> "Prepared":
        """The same, cut into other pieces in each epoch, by BPE-dropout at that rate."""
        if rate == 0:
            return self
        source, target = self.tokenizers.source, self.tokenizers.target
        return replace(self, resample=ResampledPairs(self.store, source, target, rate=rate, seed=seed))


@dataclass(frozen=True)
class Survey:
    """The first reading: which pairs are for validation, and how many words there are."""

    is_valid: NDArray[np.bool_]
    words: dict[str, int]  # of each side

    @property
    def n_words(self) -> int:
        return sum(self.words.values())


def tokenizers_key(tokenizers: TokenizerPair | None, *learned: object) -> tuple[str | None, list[object] | None]:
    """What a folder of the cache is named by: those that are given, or what others are learned by."""
    if tokenizers is None:
        return None, [*learned]
    return sha256(json.dumps(tokenizers.files()).encode()), None


def prepare(
    files: CorpusFiles,
    valid_files: CorpusFiles | None,
    *,
    tokenizers: TokenizerPair | None,
    kind: Kind,
    vocab_size: int | None,
    joint: bool,
    max_length: int,
    cache: Path,
    reporter: Reporter,
) -> Prepared:
    """Finds the corpus in the cache, or reads it and puts it there.

    `tokenizers`, where given, are used as they are; otherwise they are learned from the training pairs.
    """
    digest = fingerprint(files)
    valid_digest = None if valid_files is None else fingerprint(valid_files)
    key = [FORMAT, digest, valid_digest, *tokenizers_key(tokenizers, kind, vocab_size, joint), max_length]
    folder = cache / sha256(json.dumps(key).encode())[:16]
    found = open_prepared(folder)
    if found is not None:
        reporter.say(f"Using the tokenised corpus of an earlier run ({folder}).")
        return found

    given_valid = [] if valid_files is None else list(read_pairs(valid_files))
    survey = _survey(files, hold_out=valid_files is None, reporter=reporter)
    if tokenizers is None:
        vocab_size = vocab_size or choose_vocab_size(survey.n_words)
        tokenizers = _learn(files, survey, kind=kind, vocab_size=vocab_size, joint=joint, reporter=reporter)
    counts = {"read": len(survey.is_valid), "kept": 0, "held_out": 0, "dropped_empty": 0, "dropped_long": 0}
    valid = [pair for pair in given_valid if _is_whole(pair) and _is_short(pair, tokenizers, max_length)]
    with storage_errors(folder), StoreWriter(folder) as writer:
        pairs = reporter.track(read_pairs(files), "Tokenising", len(survey.is_valid))
        for chunk in _chunks(zip(pairs, survey.is_valid, strict=True), CHUNK):
            whole = [(pair, for_valid) for pair, for_valid in chunk if _is_whole(pair)]
            counts["dropped_empty"] += len(chunk) - len(whole)
            sources = tokenizers.source.encode_batch([source for (source, _), _ in whole])
            targets = tokenizers.target.encode_batch([target for (_, target), _ in whole])
            kept: list[tuple[list[int], list[int]]] = []
            for (pair, for_valid), source, target in zip(whole, sources, targets, strict=True):
                if max(len(source), len(target)) > max_length:
                    counts["dropped_long"] += 1
                elif for_valid:
                    valid.append(pair)
                else:
                    kept.append((source, target))
            counts["kept"] += len(kept)
            writer.append([source for source, _ in kept], [target for _, target in kept])
        counts["held_out"] = len(valid)
        _check(files, counts, max_length)
        facts = {
            "pairs": counts,
            "tokens_per_epoch": {side: end + counts["kept"] for side, end in writer.ends.items()},  # with EOS
            "words": survey.n_words,
            "words_of_sides": survey.words,
            "vocab_size": vocab_size,
            "fingerprint": digest,
            "validation": "held out" if valid_files is None else valid_files.source,
            "validation_fingerprint": valid_digest,
            "validation_dropped": max(0, len(given_valid) - len(valid)),
        }
        writer.finish({"facts": facts, "valid": valid, "tokenizers": tokenizers.files()})
    return just_prepared(folder)


def just_prepared(folder: Path) -> Prepared:
    """The corpus that was put into a folder a moment ago."""
    prepared = open_prepared(folder)
    if prepared is None:
        raise DataError(f"the tokenised corpus in {folder} vanished while it was in use. Start again.")
    return prepared


def open_prepared(folder: Path) -> Prepared | None:
    """The corpus that was prepared in a folder, or None where there is no whole one."""
    found = open_store(folder)
    if found is None:
        return None
    store, kept = found
    valid = [(source, target) for source, target in kept["valid"]]
    return Prepared(folder, store, valid, TokenizerPair.from_files(kept["tokenizers"]), kept["facts"])


def _survey(files: CorpusFiles, *, hold_out: bool, reporter: Reporter) -> Survey:
    hashes: list[NDArray[np.uint64]] = []
    whole: list[NDArray[np.bool_]] = []  # only pairs that will not be dropped are worth holding out
    words = {"source": 0, "target": 0}
    for chunk in _chunks(reporter.track(read_pairs(files), "Reading"), CHUNK):
        hashes.append(np.fromiter((source_hash(source) for source, _ in chunk), dtype=np.uint64, count=len(chunk)))
        whole.append(np.fromiter(map(_is_whole, chunk), dtype=np.bool_, count=len(chunk)))
        words["source"] += sum(count_words(source) for source, _ in chunk)
        words["target"] += sum(count_words(target) for _, target in chunk)
    is_whole = np.concatenate(whole)
    is_valid = np.zeros(len(is_whole), dtype=np.bool_)
    if hold_out:
        is_valid[is_whole] = held_out(np.concatenate(hashes)[is_whole], share=held_out_share(int(is_whole.sum())))
    return Survey(is_valid, words)


def held_out_share(n_pairs: int) -> float:
    """What is held out for validation: 2 %, of few pairs as much as a tenth, since a few sentences judge by luck."""
    return max(0.02, min(0.1, 500 / max(n_pairs, 1)))


def _learn(
    files: CorpusFiles, survey: Survey, *, kind: Kind, vocab_size: int, joint: bool, reporter: Reporter
) -> TokenizerPair:
    """Learns from training pairs alone: what is held out stays unseen."""

    def lines(sides: tuple[int, ...]) -> Iterator[str]:
        pairs = reporter.track(read_pairs(files), "Learning pieces", len(survey.is_valid))
        for pair, for_valid in zip(pairs, survey.is_valid, strict=True):
            if not for_valid:
                for side in sides:
                    yield pair[side]

    if joint:
        both = train_tokenizer(lines((0, 1)), kind=kind, vocab_size=vocab_size)
        return TokenizerPair(both, both)
    return TokenizerPair(
        train_tokenizer(lines((0,)), kind=kind, vocab_size=vocab_size),
        train_tokenizer(lines((1,)), kind=kind, vocab_size=vocab_size),
    )


def _is_whole(pair: Pair) -> bool:
    return all(text.strip() for text in pair)


def _is_short(pair: Pair, tokenizers: TokenizerPair, max_length: int) -> bool:
    source, target = pair
    return max(len(tokenizers.source.encode(source)), len(tokenizers.target.encode(target))) <= max_length


def _check(files: CorpusFiles, counts: dict[str, int], max_length: int) -> None:
    if counts["kept"] < FEWEST_PAIRS or not counts["held_out"]:
        name = files.source if files.target is None else f"{files.source} and {files.target}"
        raise DataError(
            f"{name}: {counts['kept']} pairs are left for training and {counts['held_out']} for validation, of "
            f"{counts['read']} read ({counts['dropped_empty']} had an empty side, {counts['dropped_long']} were longer "
            f"than {max_length} pieces). At least {FEWEST_PAIRS} and 1 are needed; a useful translator wants thousands."
        )


def _chunks(items: Iterator[T], size: int) -> Iterator[list[T]]:
    items = iter(items)
    while chunk := list(islice(items, size)):
        yield chunk
