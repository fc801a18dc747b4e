"""Greedy search: always the likeliest next id.

    y_t = argmax_v log p(v | y_<t, source)      until y_t = EOS

Shapes: N rows (hypotheses) still going on, V vocabulary.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from attendo.decoding.best import likeliest
from attendo.decoding.constraints import Constraints
from attendo.decoding.search import Hypothesis, Ids, SearchOptions, Select, State, Step, make_hypothesis

Choose = Callable[[Tensor, Tensor, int], Tensor]


def greedy(
    step: Step[State],
    select: Select[State],
    state: State,
    *,
    bos: int,
    eos: int,
    limits: Sequence[int],
    options: SearchOptions,
    forbidden: Sequence[int] = (),
    prefixes: Sequence[Ids] | None = None,
) -> list[list[Hypothesis]]:
    """One hypothesis for each sentence, in the order of the state's rows.

    Arguments and conventions are those of `beam_search`; of the options only the length penalty and what may not be
    repeated are used. Among equally likely ids the lowest is taken.
    """
    constraints = Constraints(
        eos=eos, limits=limits, forbidden=forbidden, prefixes=prefixes, no_repeat_ngram=options.no_repeat_ngram
    )

    def choose(log_probs_NV: Tensor, _row_N: Tensor, _length: int) -> Tensor:
        return likeliest(log_probs_NV)

    found = follow(step, select, state, choose, bos=bos, limits=limits, constraints=constraints, options=options)
    return [[hypothesis] for hypothesis in found]


def greedy_ids(
    step: Step[State], state: State, *, bos: int, eos: int, limit: int, forbidden: Sequence[int] = ()
) -> Iterator[int]:
    """The ids that `greedy` finds for the one sentence of the state, without EOS, each as soon as it is known."""

    def choose(log_probs_NV: Tensor, _row_N: Tensor, _length: int) -> Tensor:
        return likeliest(log_probs_NV)

    constraints = Constraints(eos=eos, limits=[limit], forbidden=forbidden)
    return ids_of_one(step, state, choose, bos=bos, limit=limit, constraints=constraints)


def ids_of_one(
    step: Step[State], state: State, choose: Choose, *, bos: int, limit: int, constraints: Constraints
) -> Iterator[int]:
    """The ids of the hypothesis that `follow` finds for the one row of the state, each as soon as it is known."""
    row_N, ids_N = torch.zeros(1, dtype=torch.int64), torch.tensor([bos])
    found: list[int] = []
    for length in range(limit):
        logits_NV, state = step(ids_N, state)
        log_probs_NV = constraints.log_probs(
            logits_NV, sentence_N=row_N, length=length, prefix_N=row_N, prefix_of=lambda _: found
        )
        ids_N = choose(log_probs_NV, row_N, length).cpu()
        found.append(int(ids_N.item()))
        if found[-1] == constraints.eos:
            return
        yield found[-1]


def inferred(ids: Iterator[int]) -> Iterator[int]:
    """The ids, each found in inference mode; that belongs to the thread, so it ends while whoever asks goes on."""
    while True:
        with torch.inference_mode():
            id_ = next(ids, None)
        if id_ is None:
            return
        yield id_


def follow(
    step: Step[State],
    select: Select[State],
    state: State,
    choose: Choose,
    *,
    bos: int,
    limits: Sequence[int],
    constraints: Constraints,
    options: SearchOptions,
) -> list[Hypothesis]:
    """One hypothesis for each row of the state, id after id, until EOS; rows that are done leave the state.

    choose: log_probs_NV, the rows' places among all on the CPU, the length so far -> the next ids.
    """
    ids: list[list[int]] = [[] for _ in limits]
    token_log_probs: list[list[float]] = [[] for _ in limits]
    row_N = torch.arange(len(limits))
    ids_N = torch.full((len(limits),), bos)
    length = 0
    while len(row_N):
        logits_NV, state = step(ids_N, state)
        log_probs_NV = constraints.log_probs(
            logits_NV, sentence_N=row_N, length=length, prefix_N=row_N, prefix_of=ids.__getitem__
        )
        ids_N = choose(log_probs_NV, row_N, length)
        chosen_N = log_probs_NV.gather(1, ids_N.unsqueeze(1)).squeeze(1)
        ids_N = ids_N.cpu()
        for row, id_, log_prob in zip(row_N.tolist(), ids_N.tolist(), chosen_N.tolist(), strict=True):
            token_log_probs[row].append(log_prob)
            if id_ != constraints.eos:
                ids[row].append(id_)
        rows_M = (ids_N != constraints.eos).nonzero().squeeze(1)
        if 0 < len(rows_M) < len(row_N):
            state = select(state, rows_M)
        row_N, ids_N = row_N[rows_M], ids_N[rows_M]
        length += 1
    return [
        make_hypothesis(ids[row], token_log_probs[row], limit=limit, options=options)
        for row, limit in enumerate(limits)
    ]
