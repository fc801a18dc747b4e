"""What executes a model: the one thing a translator asks for."""

from collections.abc import Sequence
from typing import Protocol

from attendo.decoding.search import Hypothesis, Ids, SearchOptions
from attendo.reporting import Reporter

BATCH_TOKENS = 4096  # source positions translated at once


class Engine(Protocol):
    """Searches and scores ids. Results come in the order of the input and do not depend on the batch."""

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
        parts: Sequence[int] | None = None,
        batch_size: int | None = None,
        batch_tokens: int = BATCH_TOKENS,
        reporter: Reporter | None = None,
    ) -> list[list[Hypothesis]]:
        """The best hypotheses for each source, none longer than its limit, each beginning with its prefix, if any.

        parts: a number for each source; equal sources with different numbers draw different samples.
        """

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
