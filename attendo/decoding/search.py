"""What every search shares: its options and its results.

A search never sees a model. It is given two functions and a state it knows nothing about: `step` gives the logits of
the next id, `select` picks rows of the state. Every score here is the model's own:

    log_prob(y) = Σ_t log softmax(logits_t)[y_t]          over the ids of y and the EOS that ends it
    score(y)    = log_prob(y) / penalty(|y|)              |y| counts the EOS

so that scoring y by teacher forcing gives the same numbers.

Shapes: N rows (prefixes), V vocabulary, M selected rows.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, TypeVar

from attendo.config import ABOVE_ZERO, NOT_NEGATIVE, POSITIVE, Rule, Settings
from attendo.errors import BundleError

if TYPE_CHECKING:  # the options and results are also those of an engine without torch
    from torch import Tensor

State = TypeVar("State")
LengthPenalty = Literal["average", "gnmt", "power", "none"]
Stopping = Literal["exact", "first", "heuristic"]
Ids = Sequence[int]

SHARE = Rule("must be greater than 0 and at most 1", lambda value: 0 < value <= 1)
DIVERSITY = Rule(
    "must be greater than 0, or groups would only narrow the beam, and at most 1000", lambda value: 0 < value <= 1000
)


class Step(Protocol[State]):
    def __call__(self, ids_N: "Tensor", state: State, /) -> tuple["Tensor", State]:
        """The last id of each of N prefixes, what was computed for them so far -> logits_NV of the next id, state.

        `ids_N` is int64 and on the CPU, where a search keeps its books; the logits may be on any device.
        """


class Select(Protocol[State]):
    def __call__(self, state: State, rows_M: "Tensor", /) -> State:
        """The state of rows `rows_M`: int64 on the CPU, indices into the N rows, with repeats and omissions."""


@dataclass(frozen=True, kw_only=True)
class SearchOptions(Settings):
    """How to search.

    beam: live prefixes per sentence. 1 is greedy search, where `stopping` has no meaning: the first EOS ends it.
    n_best: hypotheses returned per sentence; fewer only where the limit or what may not come next leaves fewer, or
        groups find the same and nothing else.
    length_penalty: what a log probability is divided by, |y| being the number of ids with EOS.
        average: |y|. gnmt: ((5 + |y|) / 6) ** alpha. power: |y| ** alpha. none: 1.
    alpha: strength of gnmt and power; the others have none.
    stopping: when the search of a sentence ends, if its length limit does not end it before.
        exact: when no live prefix can still beat the worst of the `n_best` best hypotheses. A log probability only
            falls, and the penalty only grows with the length, so a prefix can reach at most
            log_prob / penalty(limit + 1). The result is the same as that of running to the limit. A group goes on
            for the best of its own, as many as it has live prefixes.
        first: after the first step at which, in all, `beam` hypotheses have ended, the best of which are returned.
            Quicker; a longer hypothesis that would have scored higher may be missed.
        heuristic: when `beam` hypotheses have ended, and no live prefix, if it ended right now and for nothing, would
            beat the worst of the best `beam` of them. Between the other two, as Hugging Face Transformers stop.
    diversity_groups: the beam is cut into so many groups, each a beam search of its own that avoids what the groups
        before it choose.
    diversity: what an id loses, in log probability, for each time a group before chose it at the same step.
    no_repeat_ngram: no run of so many ids comes twice in a hypothesis; 0 permits repetition.
    sample: draw each id by its probability, instead of looking for the likeliest. The `n_best` hypotheses are
        independent draws, in the order they were drawn; `beam` and `stopping` have no meaning.
    temperature: draw from p ** (1 / temperature), normalised; below 1 the likely becomes likelier.
    top_k: draw from the so many likeliest ids only.
    top_p: draw from the fewest likeliest ids that together have this probability (after `top_k`).
    seed: of the draws. The same seed draws the same for the same source, whatever else is translated.
    """

    beam: Annotated[int, POSITIVE] = 5
    n_best: Annotated[int, POSITIVE] = 1
    length_penalty: LengthPenalty = "average"
    alpha: Annotated[float, NOT_NEGATIVE] = 0.6
    stopping: Stopping = "first"
    diversity_groups: Annotated[int, POSITIVE] = 1
    diversity: Annotated[float, DIVERSITY] = 0.5
    no_repeat_ngram: Annotated[int, NOT_NEGATIVE] = 0
    sample: bool = False
    temperature: Annotated[float, ABOVE_ZERO] = 1.0
    top_k: Annotated[int | None, POSITIVE] = None
    top_p: Annotated[float | None, SHARE] = None
    seed: int = 1

    def conflicts(self) -> Iterable[tuple[str, str]]:
        used = self.in_use()
        if self.sample and self.diversity_groups > 1:
            yield "diversity_groups", "cannot be used with sampling, which has no beam: leave out one of the two"
        if not self.sample:
            if self.n_best > self.beam:
                words = f"must be at most beam, which is {self.beam}: ask for fewer translations or widen the beam"
                yield "n_best", words
            for key in ("temperature", "top_k", "top_p"):
                if key in used:
                    yield key, "works only with sampling: ask for that too (sample=True, --sample), or leave this out"
        if self.beam % self.diversity_groups:
            yield "diversity_groups", f"must divide beam, which is {self.beam}, into groups of the same size"
        if "alpha" in used and self.length_penalty in ("average", "none"):
            yield (
                "alpha",
                "is the strength of another length_penalty: ask for that too (gnmt or power), or leave this out",
            )
        if "diversity" in used and self.diversity_groups == 1:
            yield "diversity", "works only between groups: ask for at least 2 (diversity_groups), or leave this out"

    def in_use(self) -> dict[str, Any]:
        """The beam, or the seed of sampling, and every other option that matters and differs from its default."""
        told, idle = ("seed", ("beam", "stopping")) if self.sample else ("beam", ("seed",))
        values = {field.name: (getattr(self, field.name), field.default) for field in dataclasses.fields(self)}
        return {
            name: value
            for name, (value, default) in values.items()
            if name == told or (value != default and name not in idle)
        }

    def penalty(self, length: int) -> float:
        """What the log probability of `length` ids, EOS included, is divided by; it never falls with the length."""
        if self.length_penalty == "gnmt":
            return float(((5 + length) / 6) ** self.alpha)
        if self.length_penalty == "power":
            return float(length**self.alpha)
        return float(length) if self.length_penalty == "average" else 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Hypothesis:
    """One output of a search. A hypothesis always ends with EOS, and every number here counts it.

    ids: without BOS and EOS.
    log_prob: log p of the ids and EOS. NaN where nobody asked and it was not needed.
    score: log_prob / penalty(len(ids) + 1).
    token_log_probs: one for each id, then one for EOS: the terms of `log_prob`, or none.
    finished: False when the length limit cut it: at the limit nothing but EOS was permitted.
    """

    ids: tuple[int, ...]
    log_prob: float
    score: float
    token_log_probs: tuple[float, ...]
    finished: bool


def make_hypothesis(
    ids: Sequence[int], token_log_probs: Sequence[float], *, limit: int, options: SearchOptions
) -> Hypothesis:
    """The hypothesis of `ids`, which are without EOS, while `token_log_probs` are with it."""
    log_prob = math.fsum(token_log_probs)
    return Hypothesis(
        ids=tuple(ids),
        log_prob=log_prob,
        score=log_prob / options.penalty(len(ids) + 1),
        token_log_probs=tuple(token_log_probs),
        finished=len(ids) < limit,
    )


def check_bounds(*, eos: int, limits: Sequence[int], prefixes: Sequence[Ids] | None) -> None:
    """Refuses limits and prefixes that no search can keep."""
    if any(limit < 0 for limit in limits):
        raise ValueError(f"a length limit is {min(limits)}, but must be at least 0.")
    for prefix, limit in zip(prefixes or (), limits, strict=prefixes is not None):
        if len(prefix) > limit or eos in prefix:
            raise ValueError(f"the prefix {list(prefix)} must fit its limit, {limit}, and be without EOS ({eos}).")


def unscored(ids: Iterable[int], limit: int) -> Hypothesis:
    """The hypothesis of `ids` whose probabilities nobody asked for."""
    found = tuple(ids)
    return Hypothesis(ids=found, log_prob=math.nan, score=math.nan, token_log_probs=(), finished=len(found) < limit)


def not_numbers(what: str) -> BundleError:
    """What is said where the logits of a model cannot be searched; `what` would be impossible."""
    return BundleError(
        f"the model's logits cannot be searched: they are not numbers, or {what} is impossible. "
        "The weights are damaged, training diverged, or half precision overflowed: "
        "try float32, or an earlier checkpoint."
    )
