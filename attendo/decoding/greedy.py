"""Greedy search: always the likeliest next id.

    y_t = argmax_v log p(v | y_<t, source)      until y_t = EOS

Shapes: N sentences still going on, V vocabulary.
"""

from collections.abc import Sequence

import torch

from attendo.decoding.search import (
    Hypothesis,
    SearchOptions,
    Select,
    State,
    Step,
    check_arguments,
    make_hypothesis,
    permitted_log_probs,
)


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
) -> list[list[Hypothesis]]:
    """One hypothesis for each sentence, in the order of the state's rows.

    Arguments and conventions are those of `beam_search`; of the options only the length penalty is used.
    Among equally likely ids the lowest is taken.
    """
    check_arguments(eos, limits, forbidden)
    ids: list[list[int]] = [[] for _ in limits]
    token_log_probs: list[list[float]] = [[] for _ in limits]
    sentence_N = torch.arange(len(limits))
    limit_N = torch.tensor(limits, dtype=torch.int64)
    ids_N = torch.full((len(limits),), bos)
    length = 0
    while len(sentence_N):
        logits_NV, state = step(ids_N, state)
        log_probs_NV = permitted_log_probs(logits_NV, at_limit_N=limit_N == length, eos=eos, forbidden=forbidden)
        # argmax promises the first of equal values.
        ids_N = log_probs_NV.argmax(dim=1)
        chosen_N = log_probs_NV.gather(1, ids_N.unsqueeze(1)).squeeze(1)
        ids_N = ids_N.cpu()
        for sentence, id_, log_prob in zip(sentence_N.tolist(), ids_N.tolist(), chosen_N.tolist(), strict=True):
            token_log_probs[sentence].append(log_prob)
            if id_ != eos:
                ids[sentence].append(id_)
        rows_M = (ids_N != eos).nonzero().squeeze(1)
        if 0 < len(rows_M) < len(sentence_N):
            state = select(state, rows_M)
        sentence_N, limit_N, ids_N = sentence_N[rows_M], limit_N[rows_M], ids_N[rows_M]
        length += 1
    return [
        [make_hypothesis(ids[i], token_log_probs[i], limit=limit, options=options)] for i, limit in enumerate(limits)
    ]
