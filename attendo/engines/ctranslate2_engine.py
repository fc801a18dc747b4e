"""A fast engine: runs a model in CTranslate2, without torch. Where it differs from the reference: docs/engines.md.

Every worker is one thread that takes a batch of its own, so that no core waits for another.
"""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ctranslate2

from attendo.decoding.phrases import Phrase
from attendo.decoding.search import Hypothesis, Ids, SearchOptions, make_hypothesis, unscored
from attendo.engines.batches import sorted_batches
from attendo.engines.ctranslate2_limits import SOURCE_END, unsupported
from attendo.engines.engine import Precision, UnableError, require_positions, with_certain
from attendo.machine import cores
from attendo.reporting import Reporter, Silent
from attendo.text.tokenizer import BOS, EOS, PAD, UNK

BATCH_ROWS: dict[Precision, int] = {"float32": 160, "int8": 80}  # sentences times beam
GREEDY_ROWS: dict[Precision, int] = {"float32": 160, "int8": 40}
BATCH_POSITIONS = 4096  # of their sources, times beam
SCORED_POSITIONS = 512  # at once: each has logits of its own

# CTranslate2 divides a log probability by length ** exponent. An exponent of 0 would also change when it stops; this
# one divides by 1, to the last bit of a float32.
_NO_PENALTY = 1e-9
_EOS = str(EOS)
_NEVER = [[str(id)] for id in (PAD, BOS, UNK)]


class _Names(dict[int, str]):
    """id -> the token that stands for it in the written vocabularies."""

    def __missing__(self, id: int) -> str:
        return self.setdefault(id, str(id))


class _Numbers(dict[str, int]):
    """token -> id"""

    def __missing__(self, token: str) -> int:
        return self.setdefault(token, int(token))


_name, _number = _Names().__getitem__, _Numbers().__getitem__  # looked up, a token takes half the time of made anew


@dataclass(frozen=True, slots=True)
class _Job:
    """A batch under way: which sentences, and for each what gives its result once there is one."""

    rows: list[int]
    results: list[Any]


class CTranslate2Engine:
    """Searches and scores with a model that `write_model` has written, all of which is in memory from now on.

    Results come in the order of the input and do not depend on the batch. precision: int8 is faster, and there the
    neighbours of a sentence can change its translation. n_workers: one for each core, if not given. before: ids that
    every target begins with, whatever the model thinks of them: log p = 0; a search is given them as prefixes.
    """

    def __init__(
        self, folder: Path, *, precision: Precision = "float32", n_workers: int | None = None, before: Ids = ()
    ) -> None:
        self.n_positions: int | None = json.loads((folder / "config.json").read_text(encoding="utf-8"))["n_positions"]
        self.n_workers = n_workers or cores()
        self.precision = precision
        self.before = before
        self.translator = ctranslate2.Translator(
            str(folder), compute_type=precision, inter_threads=self.n_workers, intra_threads=1, max_queued_batches=-1
        )

    @property
    def longest_target(self) -> int | None:
        """How many ids a target may have at most, without EOS; None is any number. BOS has a position, too."""
        return None if self.n_positions is None else self.n_positions - 1

    def unable(self, options: SearchOptions, *, prefix: bool = False, phrases: bool = False) -> str | None:
        """Why it cannot search so, in a sentence; None: it can."""
        return unsupported(options, prefixes=prefix, phrases=phrases)

    def search(
        self,
        sources: Sequence[Ids],
        limits: Sequence[int],
        options: SearchOptions,
        *,
        prefixes: Sequence[Ids] | None = None,
        phrases: Sequence[Sequence[Phrase]] | None = None,
        parts: Sequence[int] | None = None,  # noqa: ARG002 (only samples need them)
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        scores: bool = False,
        reporter: Reporter | None = None,
    ) -> list[list[Hypothesis]]:
        """The best hypotheses for each source, none longer than its limit, each beginning with its prefix, if any.

        CTranslate2 has one limit for a whole batch. A search that ends before its own limit ends in the same way under
        every longer one. One that does not is cut at its limit if it is greedy, which is the same again; a beam search
        is done once more, with others of the same limit only.

        CTranslate2's log probabilities are those among the ids that may come. They order the hypotheses of a beam, and
        nobody sees them: with `scores`, and for the order of a search that was done once more, the model's own are
        computed from the ids.
        """
        begun = prefixes if prefixes is not None and any(prefixes) else None
        if reason := self.unable(options, prefix=begun is not None, phrases=phrases is not None and any(phrases)):
            raise UnableError(f"the ctranslate2 engine cannot search so: {reason}. Use the torch engine.")
        self._require_positions(max(map(len, sources), default=0))
        reach = limits if self.longest_target is None else [min(limit, self.longest_target) for limit in limits]
        found: list[list[Hypothesis]] = [[] for _ in sources]
        again: dict[int, list[int]] = {}  # limit -> sentences
        batches = self._batches(sources, range(len(sources)), batch_size, batch_tokens, beam=options.beam)
        # One step more than the longest limit permits: that shows whether a search has ended before.
        jobs = (self._start(sources, begun, rows, max(reach[i] for i in rows) + 1, options) for rows in batches)
        for job in (reporter or Silent()).track(self._ahead(jobs), "Translating", len(batches)):
            for i, one in zip(job.rows, job.results, strict=True):
                several = _best_first(one.result(), options)
                longest = max(map(len, several))
                if longest > reach[i] or (longest == reach[i] and options.beam > 1):
                    self._require_positions(limits[i])
                    if options.beam > 1 and reach[i] > 0:  # within a limit of 0 there is nothing to look for
                        again.setdefault(reach[i], []).append(i)
                        continue
                    several = [several[0][: reach[i]]]
                found[i] = [unscored(map(_number, tokens), limits[i]) for tokens in several[: options.n_best]]
        jobs = (
            self._start(sources, begun, rows, limit, options, all_ended=True)
            for limit, reached in again.items()
            for rows in self._batches(sources, reached, batch_size, batch_tokens, beam=options.beam)
        )
        for job in self._ahead(jobs):
            for i, one in zip(job.rows, job.results, strict=True):
                found[i] = [unscored(map(_number, tokens), limits[i]) for tokens in _best_first(one.result(), options)]
        wanted = range(len(sources)) if scores else [i for reached in again.values() for i in reached]
        if wanted:
            self._score_and_order(found, wanted, sources, limits, options, batch_size, batch_tokens)
        return found

    def score(
        self,
        sources: Sequence[Ids],
        targets: Sequence[Ids],
        *,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        reporter: Reporter | None = None,
    ) -> list[list[float]]:
        """log p of each target id and its EOS, given the source and what comes before."""
        longer = [max(source, target, key=len) for source, target in zip(sources, targets, strict=True)]
        self._require_positions(max(map(len, longer), default=0))
        batches = self._batches(longer, range(len(sources)), batch_size, batch_tokens, positions=SCORED_POSITIONS)
        jobs = (
            _Job(
                rows,
                self.translator.score_batch(
                    [_source_tokens(sources[i]) for i in rows],
                    [list(map(_name, targets[i])) for i in rows],
                    max_input_length=0,
                    asynchronous=True,
                ),
            )
            for rows in batches
        )
        found: list[list[float]] = [[] for _ in sources]
        for job in (reporter or Silent()).track(self._ahead(jobs), "Scoring", len(batches)):
            for i, one in zip(job.rows, job.results, strict=True):
                found[i] = with_certain(self.before, one.result().log_probs)
        return found

    def stream(self, source: Ids, limit: int) -> Iterator[int]:
        """The ids that greedy `search` finds for one source, each as soon as it is known."""
        self._require_positions(len(source))
        reach = limit if self.longest_target is None else min(limit, self.longest_target)
        n_ids = 0
        for step in self.translator.generate_tokens(
            _source_tokens(source),
            suppress_sequences=_NEVER,
            max_input_length=0,
            max_decoding_length=reach,
            min_decoding_length=0,
        ):
            if step.token == _EOS:
                return
            yield _number(step.token)
            n_ids += 1
        if n_ids == reach:
            self._require_positions(limit)

    def _start(
        self,
        sources: Sequence[Ids],
        prefixes: Sequence[Ids] | None,
        rows: list[int],
        limit: int,
        options: SearchOptions,
        *,
        all_ended: bool = False,
    ) -> _Job:
        """Lets a worker search, for at most `limit` steps, those of a prefix counted.

        A beam search ends after the first step at which `beam` hypotheses have ended, and gives the best `beam`. With
        `all_ended` it gives all that have ended, and goes on until there are twice as many or it has reached its limit.
        """
        factor = 2 if all_ended else 1
        results = self.translator.translate_batch(
            [_source_tokens(sources[i]) for i in rows],
            target_prefix=None if prefixes is None else [list(map(_name, prefixes[i])) for i in rows],
            beam_size=options.beam,
            num_hypotheses=options.beam * factor,
            patience=factor,
            length_penalty=_exponent(options),
            return_scores=options.beam > 1,
            return_end_token=True,
            suppress_sequences=_NEVER,
            max_input_length=0,
            max_decoding_length=limit,
            min_decoding_length=0,
            asynchronous=True,
        )
        return _Job(rows, results)

    def _ahead(self, jobs: Iterator[_Job]) -> Iterator[_Job]:
        """The same jobs, each handed over when a few more have been started, so that no worker waits for one.

        No more than that: what is in CTranslate2's queue is computed to the end, even if nobody wants it any more.
        """
        started: deque[_Job] = deque()
        for job in jobs:
            started.append(job)
            if len(started) == 2 * self.n_workers + 2:
                yield started.popleft()
        while started:
            yield started.popleft()

    def _batches(
        self,
        sequences: Sequence[Ids],
        rows: Iterable[int],
        batch_size: int | None,
        batch_tokens: int | None,
        *,
        beam: int = 1,
        positions: int = BATCH_POSITIONS,
    ) -> list[list[int]]:
        """Some of the sequences in batches, of which there are enough for every worker to have one.

        What is not given is what was fastest: at most so many rows, of which a beam makes several of each sentence, and
        so many positions.
        """
        chosen = list(rows)
        lengths = [len(sequences[i]) for i in chosen]
        share = -(-(sum(lengths) + len(lengths)) // self.n_workers)
        rows_at_once = (GREEDY_ROWS if beam == 1 else BATCH_ROWS)[self.precision]
        batches = sorted_batches(
            lengths,
            batch_size=batch_size or (max(1, rows_at_once // beam) if batch_tokens is None else None),
            batch_tokens=max(1, min(batch_tokens or positions // beam, share)),
        )
        return [[chosen[k] for k in batch] for batch in batches]

    def _score_and_order(
        self,
        found: list[list[Hypothesis]],
        rows: Sequence[int],
        sources: Sequence[Ids],
        limits: Sequence[int],
        options: SearchOptions,
        batch_size: int | None,
        batch_tokens: int | None,
    ) -> None:
        """Gives the different hypotheses of some sentences the model's own log probabilities, the best first."""
        pairs = [(i, ids) for i in rows for ids in dict.fromkeys(one.ids for one in found[i])]
        log_probs = self.score(
            [sources[i] for i, _ in pairs],
            [ids for _, ids in pairs],
            batch_size=batch_size,
            batch_tokens=batch_tokens,
        )
        for i in rows:
            found[i] = []
        for (i, ids), row in zip(pairs, log_probs, strict=True):
            found[i].append(make_hypothesis(ids, row, limit=limits[i], options=options))
        for i in rows:
            found[i] = sorted(found[i], key=lambda one: -one.score)[: options.n_best]

    def _require_positions(self, n_ids: int) -> None:
        require_positions(n_ids, self.n_positions, engine="ctranslate2")


def _source_tokens(ids: Ids) -> list[str]:
    return [*map(_name, ids), SOURCE_END]


def _exponent(options: SearchOptions) -> float:
    """What CTranslate2 is to raise a length to before it divides by it."""
    return 1.0 if options.beam > 1 and options.length_penalty == "average" else _NO_PENALTY


def _best_first(result: Any, options: SearchOptions) -> list[list[str]]:
    """The tokens of a sentence's hypotheses, without EOS, by the score that they have among the ids that may come."""
    several: list[list[str]] = result.hypotheses
    if options.beam > 1 and options.length_penalty in ("gnmt", "power"):  # the others are CTranslate2's own
        scores = [score / options.penalty(len(tokens)) for tokens, score in zip(several, result.scores, strict=True)]
        several = [several[k] for k in sorted(range(len(several)), key=lambda k: -scores[k])]
    for tokens in several:
        if tokens and tokens[-1] == _EOS:
            tokens.pop()
    return several
