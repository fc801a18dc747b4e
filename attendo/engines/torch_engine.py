"""The reference engine: runs a model in torch, as it was trained, or several that share their tokenizers.

Several are an ensemble: at every step the mean of their probabilities,

    p(v | prefix, source) = 1/M Σ_m p_m(v | prefix, source)

Suffixes: M models, B sentences, S source length, T target length, D d_model, V vocabulary, N rows or positions.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from attendo.data.batch import lengths, make_batch, pad
from attendo.decoding.beam import Watch, beam_search, search
from attendo.decoding.constrained import constrained_search, inner_beam, width
from attendo.decoding.greedy import greedy_ids, inferred
from attendo.decoding.phrases import Phrase
from attendo.decoding.search import Hypothesis, Ids, SearchOptions
from attendo.engines.batches import side_by_side, sorted_batches
from attendo.engines.engine import with_certain
from attendo.engines.native_decoder import native_decoder
from attendo.machine import using_threads
from attendo.models.encoder_decoder import EncoderDecoder
from attendo.nn.cache import DecoderCache
from attendo.nn.embedding import OutputProjection
from attendo.nn.masks import padding_mask
from attendo.reporting import Reporter, Silent
from attendo.text.tokenizer import BOS, EOS, PAD, UNK

BATCH_TOKENS = 4096  # source positions translated at once
FEW_POSITIONS = 1024
SCORED_AT_ONCE = 2048  # target positions whose logits are held at the same time
IMPOSSIBLE = -1e4  # a logit that leaves nothing of a probability, and is a number


Caches = tuple["_Cache", ...]  # of each model
T = TypeVar("T")


class TorchEngine:
    """Searches and scores with one model or several.

    Results come in the order of the input and do not depend on the batch. before: ids that every target begins with,
    whatever the models think of them: log p = 0. trained: the weights stay as they are, so that what is made of them
    once is kept; in a validation they are others each time.
    """

    def __init__(
        self,
        models: EncoderDecoder | Sequence[EncoderDecoder],
        device: torch.device,
        *,
        before: Ids = (),
        trained: bool = False,
    ) -> None:
        several = (models,) if isinstance(models, EncoderDecoder) else models
        self.models = tuple(model.to(device) for model in several)
        self.device = device
        self.before = before
        self._trained = trained
        self._kept: list[_Way] | None = None
        config = self.models[0].config
        # What stands for hidden text is no text.
        hidden = range(config.target_vocab_size - config.n_extra, config.target_vocab_size)
        self.forbidden = (PAD, BOS, UNK, *hidden)

    @property
    def longest_target(self) -> int | None:
        """How many ids a target may have at most, without EOS; None is any number."""
        limits = [one.config.longest_target for one in self.models]
        return min((limit for limit in limits if limit is not None), default=None)

    def search(
        self,
        sources: Sequence[Ids],
        limits: Sequence[int],
        options: SearchOptions,
        *,
        prefixes: Sequence[Ids] | None = None,
        phrases: Sequence[Sequence[Phrase]] | None = None,
        parts: Sequence[int] | None = None,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        scores: bool = False,  # noqa: ARG002 (the search knows them anyway)
        reporter: Reporter | None = None,
    ) -> list[list[Hypothesis]]:
        """The best hypotheses for each source, none longer than its limit, each beginning with its prefix and holding
        its phrases, if any.

        parts: a number for each source; equal sources with different numbers draw different samples.
        """
        # Every draw is a row of its own from the beginning: many draws of few sentences are as large as few of many.
        draws = options.n_best if options.sample else 1
        positions = self._positions([len(ids) for ids in sources])
        held = phrases if phrases is not None and any(phrases) else None
        if held is not None:  # phrases widen the beam
            positions = positions * inner_beam(options) // max(width(one, options) for one in held)
        batches = sorted_batches(
            [len(ids) for ids in sources],
            batch_size=None if batch_size is None else max(1, batch_size // draws),
            batch_tokens=max(1, (batch_tokens or positions) // draws),
        )
        with torch.inference_mode():
            ways = self._ways(max(itertools.chain(map(len, sources), limits), default=0))

        def together(rows: Sequence[int]) -> list[list[Hypothesis]]:
            way: Callable[..., list[list[Hypothesis]]]
            if held is None:
                way = partial(search, keys=[(parts[i] if parts else 0, *sources[i]) for i in rows])
            else:
                way = partial(constrained_search, phrases=[held[i] for i in rows])
            with torch.inference_mode():  # which belongs to the thread
                return way(
                    functools.partial(self._step, ways),
                    _select,
                    _start(ways, [sources[i] for i in rows]),
                    bos=BOS,
                    eos=EOS,
                    limits=[limits[i] for i in rows],
                    options=options,
                    forbidden=self.forbidden,
                    prefixes=None if prefixes is None else [prefixes[i] for i in rows],
                )

        found: dict[int, list[Hypothesis]] = {}
        batches_found = self._side_by_side(together, batches)
        for rows, hypotheses in (reporter or Silent()).track(batches_found, "Translating", len(batches)):
            found.update(zip(rows, hypotheses, strict=True))
        return [found[i] for i in range(len(sources))]

    def watched(
        self, source: Ids, limit: int, options: SearchOptions, watch: Watch, *, prefix: Ids = ()
    ) -> list[Hypothesis]:
        """What `search` finds for one source, with `watch` told of every step; a beam of 1 is no exception."""
        with torch.inference_mode():
            ways = self._ways(max(len(source), limit))
            return beam_search(
                functools.partial(self._step, ways),
                _select,
                _start(ways, [source]),
                bos=BOS,
                eos=EOS,
                limits=[limit],
                options=options,
                forbidden=self.forbidden,
                prefixes=[prefix] if prefix else None,
                watch=watch,
            )[0]

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
        longest = [max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
        batches = sorted_batches(longest, batch_size=batch_size, batch_tokens=batch_tokens or self._positions(longest))

        def together(rows: Sequence[int]) -> list[list[float]]:
            with torch.inference_mode():
                batch = make_batch([sources[i] for i in rows], [targets[i] for i in rows]).to(self.device)
                real_BT = padding_mask(batch.target_lengths_B, batch.target_in_BT.shape[1])[:, 0, 0]
                log_probs_N = mean_probability(
                    [
                        target_log_probs(
                            model.output,
                            model.hidden(batch.source_BS, batch.source_lengths_B, batch.target_in_BT)[real_BT],
                            batch.target_out_BT[real_BT],
                        )
                        for model in self.models
                    ]
                )
                parts = log_probs_N.split(batch.target_lengths_B.tolist())
                return [with_certain(self.before, part.tolist()) for part in parts]

        found: dict[int, list[float]] = {}
        scored = self._side_by_side(together, batches)
        for rows, log_probs in (reporter or Silent()).track(scored, "Scoring", len(batches)):
            found.update(zip(rows, log_probs, strict=True))
        return [found[i] for i in range(len(sources))]

    def stream(self, source: Ids, limit: int) -> Iterator[int]:
        """The ids that greedy `search` finds for one source, each as soon as it is known."""
        with torch.inference_mode():
            ways = self._ways(max(len(source), limit))
            step = functools.partial(self._step, ways)
            ids = greedy_ids(step, _start(ways, [source]), bos=BOS, eos=EOS, limit=limit, forbidden=self.forbidden)
        yield from inferred(ids)

    def _positions(self, lengths: Sequence[int]) -> int:
        """At most BATCH_TOKENS at once, and on a CPU as many for each thread; a few are not worth a second thread."""
        if self.device.type != "cpu":
            return BATCH_TOKENS
        positions, threads = sum(lengths) + len(lengths), torch.get_num_threads()
        batches = threads * max(1, -(-positions // (threads * BATCH_TOKENS)))
        return min(BATCH_TOKENS, max(FEW_POSITIONS, -(-positions // batches)))

    def _side_by_side(
        self, work: Callable[[Sequence[int]], list[T]], batches: Sequence[Sequence[int]]
    ) -> Iterator[tuple[Sequence[int], list[T]]]:
        """Each batch with what becomes of it. On a CPU a thread of its own does each, one of them for each of torch's.

        Small products gain little from several threads; batches side by side use them.
        """
        threads = torch.get_num_threads()
        if self.device.type != "cpu" or min(threads, len(batches)) < 2:
            yield from ((rows, work(rows)) for rows in batches)
            return
        with using_threads(1), ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield from side_by_side(work, batches, pool)

    def _ways(self, longest: int) -> "list[_Way]":
        """How each model is run for sequences of so many ids at most: by the native decoder, or by torch alone."""
        ways = self._kept or [
            native_decoder(one, self.device) or _TorchDecoder(one, self.device) for one in self.models
        ]
        if self._trained:
            self._kept = ways
        return [
            _TorchDecoder(model, self.device) if longest >= way.n_positions else way
            for model, way in zip(self.models, ways, strict=True)
        ]

    def _step(self, ways: "Sequence[_Way]", ids_N: Tensor, caches: Caches) -> tuple[Tensor, Caches]:
        """The logits of the next id: those of the one model, or the logarithm of the models' mean probability, or those
        of certainty while a target has to begin with something."""
        found = [way.step(ids_N, cache) for way, cache in zip(ways, caches, strict=True)]
        logits, longer = [one for one, _ in found], tuple(cache for _, cache in found)
        if caches[0].length < len(self.before):
            return certain(logits[0], self.before[caches[0].length]), longer
        if len(logits) == 1:
            return logits[0], longer
        return mean_probability([logits_NV.float().log_softmax(dim=1) for logits_NV in logits]), longer


class _Cache(Protocol):
    """What a model remembers of its prefixes."""

    @property
    def length(self) -> int: ...

    def select(self, rows_M: Tensor, /) -> Any: ...


class _Way(Protocol):
    """How a model is run, with the weights that it has now."""

    @property
    def n_positions(self) -> float:
        """Sequences have fewer ids."""

    def start(self, sources: Sequence[Ids], /) -> Any: ...

    def step(self, ids_N: Tensor, cache: Any, /) -> tuple[Tensor, Any]: ...


class _TorchDecoder:
    """By torch, as every model can be."""

    n_positions = math.inf

    def __init__(self, model: EncoderDecoder, device: torch.device) -> None:
        self._model = model
        self._device = device
        self._step = model.lean_step()

    def start(self, sources: Sequence[Ids]) -> DecoderCache:
        source_BS, lengths_B = pad(sources, after=EOS).to(self._device), lengths(sources).to(self._device)
        return self._model.encode(source_BS, lengths_B).contiguous()

    def step(self, ids_N: Tensor, cache: DecoderCache) -> tuple[Tensor, DecoderCache]:
        return self._step(ids_N.to(self._device), cache)


def _start(ways: Sequence[_Way], sources: Sequence[Ids]) -> Caches:
    return tuple(way.start(sources) for way in ways)


def _select(caches: Caches, rows_M: Tensor) -> Caches:
    return tuple(cache.select(rows_M) for cache in caches)


def mean_probability(log_probs: Sequence[Tensor]) -> Tensor:
    """log(1/M Σ_m exp(log_probs_m)); that of one is the one itself."""
    if len(log_probs) == 1:
        return log_probs[0]
    return torch.stack(list(log_probs)).logsumexp(dim=0) - math.log(len(log_probs))


def certain(logits_NV: Tensor, id_: int) -> Tensor:
    """As many logits whose softmax gives all to one id."""
    certain_NV = torch.full_like(logits_NV, IMPOSSIBLE)
    certain_NV[:, id_] = 0
    return certain_NV


def target_log_probs(output: OutputProjection, hidden_ND: Tensor, target_N: Tensor) -> Tensor:
    """log softmax(W hidden)[target] at each position, a slice of them at a time, on the CPU."""
    slices = []
    for part_ND, ids_N in zip(hidden_ND.split(SCORED_AT_ONCE), target_N.split(SCORED_AT_ONCE), strict=True):
        logits_NV = output(part_ND).float()
        slices.append((logits_NV.gather(-1, ids_N[:, None])[:, 0] - logits_NV.logsumexp(-1)).cpu())
    return torch.cat(slices)
