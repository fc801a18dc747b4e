"""attendo's own fast engine: a model and its search in C, on every core, without torch or a copy of the weights.

Where it differs from the reference: docs/engines.md.
"""

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from attendo.bundle import Bundle
from attendo.decoding.phrases import Phrase
from attendo.decoding.search import (
    Hypothesis,
    Ids,
    SearchOptions,
    check_bounds,
    make_hypothesis,
    not_numbers,
    unscored,
)
from attendo.engines.batches import Batch, side_by_side, sorted_batches
from attendo.engines.ctranslate2_limits import n_positions
from attendo.engines.engine import Precision, UnableError, require_positions, with_certain
from attendo.engines.native_model import native_parts
from attendo.errors import BundleError
from attendo.machine import cores
from attendo.models.settings import TransformerConfig
from attendo.native.search import Found, Model, NotNumbersError, Search
from attendo.reporting import Reporter, Silent
from attendo.text.tokenizer import BOS, EOS, PAD, UNK

BATCH_ROWS = 48  # sentences times beam
BATCH_POSITIONS = 4096  # of their sources
_GREEDY = SearchOptions(beam=1)


class NativeEngine:
    """Searches and scores with a model that is all in memory.

    Results come in the order of the input, and are the same, bit for bit, in any batch. n_workers: one for each core,
    if not given. before: ids that every target begins with, whatever the model thinks of them: log p = 0; where a
    search is given prefixes, they begin with these.
    """

    def __init__(self, model: Model, *, n_positions: int, n_workers: int | None = None, before: Ids = ()) -> None:
        self.model = model
        self.n_positions = n_positions
        self.n_workers = n_workers or cores()
        self.before = before
        # Kept, so that a server's threads share it, and none is started for each search. It starts threads when needed.
        self._pool = ThreadPoolExecutor(self.n_workers, thread_name_prefix="native")

    @property
    def longest_target(self) -> int:
        """How many ids a target may have at most, without EOS. BOS has a position, too."""
        return self.n_positions - 1

    def unable(self, options: SearchOptions, *, prefix: bool = False, phrases: bool = False) -> str | None:  # noqa: ARG002
        """Why it cannot search so, in a sentence; None: it can."""
        if options.sample:
            return "it draws no samples (sample)"
        if options.diversity_groups > 1:
            return "it has no groups that avoid each other (diversity_groups)"
        if options.no_repeat_ngram:
            return "it does not look back at what was said (no_repeat_ngram)"
        if phrases:
            return "it cannot be made to say what a translation must hold (phrases)"
        return None

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

        The rules are those of the reference. A beam knows its log probabilities in any case; greedy search does not
        without `scores`.
        """
        if reason := self.unable(options, phrases=phrases is not None and any(phrases)):
            raise UnableError(f"the native engine cannot search so: {reason}. Use the torch engine.")
        if self.before and prefixes is None:
            prefixes = [self.before] * len(sources)
        check_bounds(eos=EOS, limits=limits, prefixes=prefixes)
        batches = self._batches(sources, options.beam, batch_size, batch_tokens)
        made = self._made(sources, limits, options, prefixes, batches, scores=scores)
        found = _in_order((reporter or Silent()).track(made, "Translating", len(batches)))
        scored = scores or options.beam > 1
        return [
            [
                make_hypothesis(one.ids, one.log_probs, limit=limit, options=options)
                if scored
                else unscored(one.ids, limit)
                for one in several
            ]
            for several, limit in zip(found, limits, strict=True)
        ]

    def score(
        self,
        sources: Sequence[Ids],
        targets: Sequence[Ids],
        *,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        reporter: Reporter | None = None,
    ) -> list[list[float]]:
        """log p of each target id and its EOS, given the source and what comes before: a search that has no choice."""
        limits = [len(target) for target in targets]
        batches = self._batches(sources, 1, batch_size, batch_tokens)
        made = self._made(sources, limits, _GREEDY, targets, batches, scores=True)
        found = _in_order((reporter or Silent()).track(made, "Scoring", len(batches)))
        return [with_certain(self.before, one.log_probs) for (one,) in found]

    def stream(self, source: Ids, limit: int) -> Iterator[int]:
        """The ids that greedy `search` finds for one source, each as soon as it is known."""
        self._require_positions([source], [limit])
        check_bounds(eos=EOS, limits=[limit], prefixes=[self.before])
        ids = self._begun([source], [limit], _GREEDY, [self.before], scores=False).ids()
        while True:
            with _in_words():
                id_ = next(ids, None)
            if id_ is None:
                return
            yield id_

    def _batches(
        self, sources: Sequence[Ids], beam: int, batch_size: int | None, batch_tokens: int | None
    ) -> list[list[int]]:
        """Of like length, and so many that every worker has something to do; not given is what was fastest."""
        lengths = [len(ids) for ids in sources]
        share = -(-(sum(lengths) + len(lengths)) // self.n_workers)
        return sorted_batches(
            lengths,
            batch_size=batch_size or (max(1, BATCH_ROWS // beam) if batch_tokens is None else None),
            batch_tokens=max(1, min(batch_tokens or BATCH_POSITIONS, share)),
        )

    def _made(
        self,
        sources: Sequence[Ids],
        limits: Sequence[int],
        options: SearchOptions,
        prefixes: Sequence[Ids] | None,
        batches: Sequence[Batch],
        *,
        scores: bool,
    ) -> Iterator[tuple[Batch, list[list[Found]]]]:
        """Each batch with what was found for its sentences."""
        self._require_positions(sources, limits)

        def together(rows: Batch) -> list[list[Found]]:
            begun = None if prefixes is None else [prefixes[i] for i in rows]
            with _in_words():
                ours = [sources[i] for i in rows], [limits[i] for i in rows]
                return self._begun(*ours, options, begun, scores=scores).found()

        return side_by_side(together, batches, self._pool)

    def _begun(
        self,
        sources: Sequence[Ids],
        limits: Sequence[int],
        options: SearchOptions,
        prefixes: Sequence[Ids] | None,
        *,
        scores: bool,
    ) -> Search:
        return Search(
            self.model,
            [(*source, EOS) for source in sources],
            limits,
            prefixes=prefixes,
            penalties=[1.0 if options.beam == 1 else options.penalty(max(1, n)) for n in range(max(limits) + 2)],
            beam=options.beam,
            n_best=options.n_best,
            stopping=options.stopping,
            forbidden=(PAD, BOS, UNK),
            n_certain=len(self.before),
            scored=scores,
            bos=BOS,
            eos=EOS,
        )

    def _require_positions(self, sources: Sequence[Ids], limits: Sequence[int]) -> None:
        longest = max(itertools.chain(map(len, sources), limits), default=0)
        require_positions(longest, self.n_positions, engine="native")


def _in_order(made: Iterable[tuple[Batch, list[list[Found]]]]) -> list[list[Found]]:
    found = {i: one for rows, results in made for i, one in zip(rows, results, strict=True)}
    return [found[i] for i in range(len(found))]


@contextlib.contextmanager
def _in_words() -> Iterator[None]:
    """Says of logits that are not numbers what a user can do about it."""
    try:
        yield
    except NotNumbersError:
        raise not_numbers("the end of sentence") from None


def open_native(bundle: Bundle, *, precision: Precision = "float32") -> NativeEngine:
    """attendo's own engine with a bundle's model, which `servable` has nothing against."""
    config = bundle.config.model
    assert isinstance(config, TransformerConfig)
    weights, _ = bundle.arrays()
    positions = n_positions(config)
    assert positions is not None
    try:
        model = Model(native_parts(config, weights), int8=precision == "int8")
    except BundleError as error:
        raise BundleError(f"{bundle.path}: {error}") from None
    return NativeEngine(model, n_positions=positions, before=bundle.tokenizers.target.before)
