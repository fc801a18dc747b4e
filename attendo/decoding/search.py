"""What every search shares: its options, its results, and how logits become the log probabilities it chooses from.

A search never sees a model. It is given two functions and a state it knows nothing about: `step` gives the logits of
the next id, `select` picks rows of the state. Every score here is the model's own:

    log_prob(y) = Σ_t log softmax(logits_t)[y_t]          over the ids of y and the EOS that ends it
    score(y)    = log_prob(y) / penalty(|y|)              |y| counts the EOS

so that scoring y by teacher forcing gives the same numbers.

Shapes: N rows (prefixes), V vocabulary, K ids of a row, M selected rows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar, get_args

import torch
from torch import Tensor

from attendo.errors import BundleError, ConfigError

State = TypeVar("State")
LengthPenalty = Literal["gnmt", "average", "none"]
Stopping = Literal["exact", "first"]


class Step(Protocol[State]):
    def __call__(self, ids_N: Tensor, state: State, /) -> tuple[Tensor, State]:
        """The last id of each of N prefixes, what was computed for them so far -> logits_NV of the next id, state.

        `ids_N` is int64 and on the CPU, where a search keeps its books; the logits may be on any device.
        """


class Select(Protocol[State]):
    def __call__(self, state: State, rows_M: Tensor, /) -> State:
        """The state of rows `rows_M`: int64 on the CPU, indices into the N rows, with repeats and omissions."""


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """How to search.

    beam: live prefixes per sentence. 1 is greedy search, where `stopping` has no meaning: the first EOS ends it.
    n_best: hypotheses returned per sentence; fewer only where the limit leaves fewer.
    length_penalty: what a log probability is divided by, |y| being the number of ids with EOS.
        gnmt: ((5 + |y|) / 6) ** alpha. average: |y|. none: 1.
    alpha: strength of gnmt's penalty; the others do not use it.
    stopping: when the search of a sentence ends, if its length limit does not end it before.
        exact: when no live prefix can still beat the worst of the `n_best` best hypotheses. A log probability only
            falls, and the penalty only grows with the length, so a prefix can reach at most
            log_prob / penalty(limit + 1). The result is the same as that of running to the limit.
        first: after the first step at which, in all, `beam` hypotheses have ended, the best of which are returned.
            Quicker; a longer hypothesis that would have scored higher may be missed.
    """

    beam: int = 5
    n_best: int = 1
    length_penalty: LengthPenalty = "gnmt"
    alpha: float = 0.6
    stopping: Stopping = "exact"

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise ConfigError(f"beam is {self.beam}, but must be at least 1 (1 is greedy search).")
        if not 1 <= self.n_best <= self.beam:
            raise ConfigError(
                f"n_best is {self.n_best}, but must be between 1 and beam, which is {self.beam}: "
                "ask for fewer translations or widen the beam."
            )
        if self.length_penalty not in get_args(LengthPenalty):
            choices = ", ".join(get_args(LengthPenalty))
            raise ConfigError(f"length_penalty is {self.length_penalty!r}, but must be one of: {choices}.")
        if not (math.isfinite(self.alpha) and self.alpha >= 0):
            raise ConfigError(
                f"alpha is {self.alpha}, but must be a number of at least 0 (0 is no length penalty; 0.6 is usual)."
            )
        if self.stopping not in get_args(Stopping):
            raise ConfigError(f"stopping is {self.stopping!r}, but must be one of: {', '.join(get_args(Stopping))}.")

    def penalty(self, length: int) -> float:
        """What the log probability of `length` ids, EOS included, is divided by; it never falls with the length."""
        if self.length_penalty == "gnmt":
            return float(((5 + length) / 6) ** self.alpha)
        return float(length) if self.length_penalty == "average" else 1.0


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """One output of a search. A hypothesis always ends with EOS, and every number here counts it.

    ids: without BOS and EOS.
    log_prob: the sum of `token_log_probs`.
    score: log_prob / penalty(len(ids) + 1).
    token_log_probs: one for each id, then one for EOS.
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


def check_arguments(eos: int, limits: Sequence[int], forbidden: Sequence[int]) -> None:
    """Mistakes in the arguments of a search that would make it run for ever or return nothing."""
    if eos in forbidden:
        raise ValueError(f"EOS ({eos}) is among the forbidden ids {list(forbidden)}, so no hypothesis could end.")
    if any(limit < 0 for limit in limits):
        raise ValueError(f"a length limit is {min(limits)}, but must be at least 0.")


def permitted_log_probs(logits_NV: Tensor, *, at_limit_N: Tensor, eos: int, forbidden: Sequence[int]) -> Tensor:
    """log_probs_NV = log softmax(logits), in float32, and -inf for every id that may not come next.

    `forbidden` ids may never come, and nothing but EOS may come where `at_limit_N`. The softmax is over the full
    vocabulary all the same: what may not be chosen keeps its share, so that the log probabilities of the rest are
    those of teacher forcing.
    """
    if len(logits_NV) != len(at_limit_N):
        raise ValueError(f"step returned logits of {len(logits_NV)} rows for {len(at_limit_N)} prefixes.")
    log_probs_NV = logits_NV.float().log_softmax(dim=1)
    eos_N = log_probs_NV[:, eos].clone()
    # A logit that is not a number makes its whole row so: looking at one column is enough.
    if not eos_N.isfinite().all():
        raise BundleError(
            "the model's logits cannot be searched: they are not numbers, or the end of sentence is impossible. "
            "The weights are damaged, training diverged, or half precision overflowed: "
            "try float32, or an earlier checkpoint."
        )
    if forbidden:
        log_probs_NV[:, list(forbidden)] = -torch.inf
    if at_limit_N.any():
        at_limit_N = at_limit_N.to(log_probs_NV.device)
        log_probs_NV[at_limit_N] = -torch.inf
        log_probs_NV[at_limit_N, eos] = eos_N[at_limit_N]
    return log_probs_NV
