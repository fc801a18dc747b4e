"""The fast engine: runs a model in CTranslate2, without torch. Where it differs from the reference: docs/engines.md.

Every worker is one thread that takes a batch of its own, so that no core waits for another.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import ctranslate2

from attendo.data.batching import sorted_batches
from attendo.decoding.search import Hypothesis, Ids, SearchOptions, make_hypothesis
from attendo.engines.ctranslate2_model import SOURCE_END
from attendo.engines.engine import BATCH_TOKENS
from attendo.errors import ConfigError, DataError
from attendo.reporting import Reporter, Silent
from attendo.text.tokenizer import BOS, EOS, PAD, UNK

Precision = Literal["float32", "int8"]

# CTranslate2 divides a log probability by length ** exponent. An exponent of 0 would also change when it stops; this
# one divides by 1, to the last bit of a float32.
_NO_PENALTY = 1e-9


def unsupported(options: SearchOptions, *, prefixes: bool = False) -> str | None:
    """Why CTranslate2 cannot search so, in a sentence; None: it can."""
    if options.sample:
        return "its samples cannot be drawn again for the same sentence in another batch (sample)"
    if options.diversity_groups > 1:
        return "it has no groups that avoid each other (diversity_groups)"
    if options.no_repeat_ngram:
        return "it gives the probability of what may not be repeated to the rest (no_repeat_ngram)"
    if prefixes:
        return "it leaves the log probability of a prefix out of the score (prefixes)"
    if options.beam > 1 and options.stopping == "exact":
        return "it cannot go on until nothing better can come (stopping 'exact'); it knows 'first' only"
    return None


@dataclass(frozen=True)
class _Job:
    """A batch under way: which sentences, and for each what gives its result once there is one."""

    rows: list[int]
    results: list[Any]


class CTranslate2Engine:
    """Searches and scores with a model that `write_model` has written.

    Results come in the order of the input and do not depend on the batch. precision: int8 is faster, and there the
    neighbours of a sentence can change its translation. n_workers: one for each core, if not given.
    """

    def __init__(self, folder: Path, *, precision: Precision = "float32", n_workers: int | None = None) -> None:
        self.n_positions: int | None = json.loads((folder / "config.json").read_text(encoding="utf-8"))["n_positions"]
        self.n_workers = n_workers or _cores()
        self.translator = ctranslate2.Translator(
            str(folder), compute_type=precision, inter_threads=self.n_workers, intra_threads=1, max_queued_batches=-1
        )

    @property
    def longest_target(self) -> int | None:
        """How many ids a target may have at most, without EOS; None is any number. BOS has a position, too."""
        return None if self.n_positions is None else self.n_positions - 1

    def search(
        self,
        sources: Sequence[Ids],
        limits: Sequence[int],
        options: SearchOptions,
        *,
        prefixes: Sequence[Ids] | None = None,
        parts: Sequence[int] | None = None,  # noqa: ARG002 (only samples need them)
        batch_size: int | None = None,
        batch_tokens: int = BATCH_TOKENS,
        reporter: Reporter | None = None,
    ) -> list[list[Hypothesis]]:
        """The best hypotheses for each source, none longer than its limit.

        CTranslate2 has one limit for a whole batch. A search that ends before its own limit ends in the same way under
        every longer one. One that does not is cut at its limit if it is greedy, which is the same again; a beam search
        is done once more, with others of the same limit only.
        """
        if reason := unsupported(options, prefixes=prefixes is not None):
            raise ConfigError(f"the ctranslate2 engine cannot search so: {reason}. Use the torch engine.")
        self._require_positions(max(map(len, sources), default=0))
        reach = limits if self.longest_target is None else [min(limit, self.longest_target) for limit in limits]
        found: dict[int, list[Ids]] = {}
        again: dict[int, list[int]] = {}  # limit -> sentences
        # One step more than the longest limit permits: that shows whether a search has ended before.
        jobs = [
            self._start(sources, rows, max(reach[i] for i in rows) + 1, options)
            for rows in self._batches(sources, range(len(sources)), batch_size, batch_tokens)
        ]
        for job in (reporter or Silent()).track(jobs, "Translating", len(jobs)):
            for i, hypotheses in _found(job, options):
                longest = max(map(len, hypotheses))
                if longest > reach[i] or (longest == reach[i] and options.beam > 1):
                    self._require_positions(limits[i])
                    again.setdefault(reach[i], []).append(i)
                found[i] = list(dict.fromkeys(ids[: reach[i]] for ids in hypotheses[: options.n_best]))
        if options.beam > 1:
            jobs = [
                self._start(sources, rows, limit, options, all_ended=True)
                for limit, reached in again.items()
                if limit > 0  # within a limit of 0 there is nothing to look for
                for rows in self._batches(sources, reached, batch_size, batch_tokens)
            ]
            found.update(pair for job in jobs for pair in _found(job, options))
        return self._scored(
            sources,
            [found[i] for i in range(len(sources))],
            limits,
            options,
            batch_size=batch_size,
            tokens=batch_tokens,
        )

    def score(
        self,
        sources: Sequence[Ids],
        targets: Sequence[Ids],
        *,
        batch_size: int | None = None,
        batch_tokens: int = BATCH_TOKENS,
        reporter: Reporter | None = None,
    ) -> list[list[float]]:
        """log p of each target id and its EOS, given the source and what comes before."""
        longer = [max(source, target, key=len) for source, target in zip(sources, targets, strict=True)]
        self._require_positions(max(map(len, longer), default=0))
        jobs = [
            _Job(
                rows,
                self.translator.score_batch(
                    [_source_tokens(sources[i]) for i in rows],
                    [[str(id) for id in targets[i]] for i in rows],
                    max_input_length=0,
                    asynchronous=True,
                ),
            )
            for rows in self._batches(longer, range(len(sources)), batch_size, batch_tokens)
        ]
        found: dict[int, list[float]] = {}
        for job in (reporter or Silent()).track(jobs, "Scoring", len(jobs)):
            found.update((i, one.result().log_probs) for i, one in zip(job.rows, job.results, strict=True))
        return [found[i] for i in range(len(sources))]

    def _start(
        self, sources: Sequence[Ids], rows: list[int], limit: int, options: SearchOptions, *, all_ended: bool = False
    ) -> _Job:
        """Lets a worker search, for at most `limit` steps.

        A beam search ends after the first step at which `beam` hypotheses have ended, and gives the best `beam`. With
        `all_ended` it gives all that have ended, and goes on until there are twice as many or it has reached its limit.
        """
        factor = 2 if all_ended else 1
        results = self.translator.translate_batch(
            [_source_tokens(sources[i]) for i in rows],
            beam_size=options.beam,
            num_hypotheses=options.beam * factor,
            patience=factor,
            length_penalty=1.0 if options.length_penalty == "average" else _NO_PENALTY,
            return_scores=options.beam > 1,
            return_end_token=True,
            suppress_sequences=[[str(id)] for id in (PAD, BOS, UNK)],
            max_input_length=0,
            max_decoding_length=limit,
            min_decoding_length=0,
            asynchronous=True,
        )
        return _Job(rows, results)

    def _batches(
        self, sequences: Sequence[Ids], rows: Iterable[int], batch_size: int | None, batch_tokens: int
    ) -> list[list[int]]:
        """Some of the sequences in batches, of which there are enough for every worker to have one."""
        chosen = list(rows)
        lengths = [len(sequences[i]) for i in chosen]
        share = -(-(sum(lengths) + len(lengths)) // self.n_workers)
        batches = sorted_batches(lengths, batch_size=batch_size, batch_tokens=max(1, min(batch_tokens, share)))
        return [[chosen[k] for k in batch] for batch in batches]

    def _scored(
        self,
        sources: Sequence[Ids],
        found: Sequence[Sequence[Ids]],
        limits: Sequence[int],
        options: SearchOptions,
        *,
        batch_size: int | None,
        tokens: int,
    ) -> list[list[Hypothesis]]:
        """Hypotheses with the model's own log probabilities; CTranslate2's are those among the ids that may come."""
        pairs = [(i, ids) for i, several in enumerate(found) for ids in several]
        log_probs = self.score(
            [sources[i] for i, _ in pairs], [ids for _, ids in pairs], batch_size=batch_size, batch_tokens=tokens
        )
        hypotheses: list[list[Hypothesis]] = [[] for _ in sources]
        for (i, ids), row in zip(pairs, log_probs, strict=True):
            hypotheses[i].append(make_hypothesis(ids, row, limit=limits[i], options=options))
        return [sorted(several, key=lambda one: -one.score)[: options.n_best] for several in hypotheses]

    def _require_positions(self, n_ids: int) -> None:
        """That there are positions for so many ids and their EOS, or BOS."""
        if self.n_positions is not None and n_ids >= self.n_positions:
            raise DataError(
                f"a sequence of {n_ids + 1} pieces is longer than the {self.n_positions} positions that this model has "
                "in the ctranslate2 engine. Shorten it, or use the torch engine."
            )


def _source_tokens(ids: Ids) -> list[str]:
    return [*map(str, ids), SOURCE_END]


def _found(job: _Job, options: SearchOptions) -> Iterator[tuple[int, list[Ids]]]:
    """(sentence, the ids of its hypotheses without EOS), as soon as they are there; best first if all have ended."""
    for i, one in zip(job.rows, job.results, strict=True):
        result = one.result()
        hypotheses = [tuple(map(int, tokens)) for tokens in result.hypotheses]
        if options.beam > 1:
            powers = [len(ids) if options.length_penalty == "average" else 1 for ids in hypotheses]
            scores = [
                score * power / options.penalty(len(ids))
                for score, power, ids in zip(result.scores, powers, hypotheses, strict=True)
            ]
            hypotheses = [hypotheses[k] for k in sorted(range(len(scores)), key=lambda k: -scores[k])]
        yield i, [ids[:-1] if ids[-1] == EOS else ids for ids in hypotheses]


def _cores() -> int:
    """Those that this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
