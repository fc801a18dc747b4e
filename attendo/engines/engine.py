"""What executes a model: the one thing a translator asks for."""

from collections.abc import Iterator, Sequence
from typing import Literal, Protocol

from attendo.decoding.phrases import Phrase
from attendo.decoding.search import Hypothesis, Ids, SearchOptions
from attendo.errors import ConfigError
from attendo.reporting import Reporter

EngineName = Literal["auto", "native", "ctranslate2", "torch"]
FastName = Literal["native", "ctranslate2"]
Precision = Literal["float32", "int8"]


class UnableError(ConfigError):
    """What was asked for is beyond this engine; the torch engine does all that a model can."""


class Engine(Protocol):
    """Searches and scores ids. Results come in the order of the input and do not depend on the batch.

    An engine may know ids that every target has to begin with, such as a language. Those are certain: log p = 0.
    """

    @property
    def longest_target(self) -> int | None:
        """How many ids a target may have at most, without EOS; None is any number."""

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
        scores: bool = False,
        reporter: Reporter | None = None,
    ) -> list[list[Hypothesis]]:
        """The best hypotheses for each source, none longer than its limit, each beginning with its prefix and holding
        its phrases, if any.

        phrases: none for a source is an empty sequence; see `Phrase`.
        parts: a number for each source; equal sources with different numbers draw different samples.
        batch_size, batch_tokens: sentences and source positions at once; None is what suits the engine.
        scores: whether log probabilities are wanted. They are the model's own, those that `score` gives; without this
        they may be NaN, which saves time.
        """

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

    def stream(self, source: Ids, limit: int) -> Iterator[int]:
        """The ids that greedy `search` finds for one source, each as soon as it is known."""


class FastEngine(Engine, Protocol):
    """One that does not do everything."""

    def unable(self, options: SearchOptions, *, prefix: bool = False, phrases: bool = False) -> str | None:
        """Why it cannot search so, in a sentence; None: it can. prefix, phrases: whether a sentence has some."""


def with_certain(before: Ids, log_probs: Sequence[float]) -> list[float]:
    """log p of a target's ids, of which those that it has to begin with are certain."""
    return [*[0.0] * len(before), *log_probs[len(before) :]]


def require_positions(n_ids: int, n_positions: int | None, *, engine: str) -> None:
    """That a model has positions for so many ids and their EOS, or BOS; None is any number."""
    if n_positions is not None and n_ids >= n_positions:
        raise UnableError(
            f"a sequence of {n_ids + 1} pieces is longer than the {n_positions} positions that this model has "
            f"in the {engine} engine. Shorten it, or use the torch engine."
        )
