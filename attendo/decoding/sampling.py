"""Sampling: each next id is drawn by its probability.

    y_t ~ q_t      q_t ∝ p(v | y_<t, source) ** (1 / temperature), over the ids v that may be drawn

The ids that may be drawn are, of those that may come next, the `top_k` likeliest, and of these the fewest likeliest
whose q together is at least `top_p`: the nucleus (Holtzman et al. 2020, "The Curious Case of Neural Text
Degeneration"). Scores are the model's own all the same: log p, not log q.

A draw takes one number u in [0, 1) and the first id, in the order of the ids, up to which q adds up to more than u.
Neither depends on the batch: u is a function of the seed, the sentence's key, the number of the draw and the
position; and rounding p in its last digits moves the sums as little, in float64, whereas in the order of the
probabilities two ids could change places.

Shapes: N rows (draws) still going on, V vocabulary.
"""

import hashlib
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from attendo.decoding.constraints import Constraints
from attendo.decoding.greedy import follow, ids_of_one
from attendo.decoding.search import Hypothesis, Ids, SearchOptions, Select, State, Step

BITS = 52  # one less than a float64 has, so that u · total < total is true after rounding, too


def sample(
    step: Step[State],
    select: Select[State],
    state: State,
    *,
    bos: int,
    eos: int,
    limits: Sequence[int],
    options: SearchOptions,
    keys: Sequence[Ids],
    forbidden: Sequence[int] = (),
    prefixes: Sequence[Ids] | None = None,
) -> list[list[Hypothesis]]:
    """`n_best` independent draws for each sentence, in the order in which they were drawn.

    keys: what the random numbers of each sentence depend on, with the seed and the number of the draw.
    Other arguments and conventions are those of `beam_search`.
    """
    if len(keys) != len(limits):
        raise ValueError(f"there are {len(keys)} keys for {len(limits)} sentences.")
    draws = options.n_best
    if draws > 1 and limits:
        state = select(state, torch.arange(len(limits)).repeat_interleave(draws))
    limits = [limit for limit in limits for _ in range(draws)]
    constraints = Constraints(
        eos=eos,
        limits=limits,
        forbidden=forbidden,
        prefixes=None if prefixes is None else [prefix for prefix in prefixes for _ in range(draws)],
        no_repeat_ngram=options.no_repeat_ngram,
    )
    streams = [Uniforms(options.seed, key, draw) for key in keys for draw in range(draws)]

    def drawn(log_probs_NV: Tensor, row_N: Tensor, length: int) -> Tensor:
        u_N = torch.tensor([streams[row][length] for row in row_N.tolist()], dtype=torch.float64)
        return draw_ids(drawing_probs(log_probs_NV, options), u_N).to(log_probs_NV.device)

    found = follow(step, select, state, drawn, bos=bos, limits=limits, constraints=constraints, options=options)
    return [found[first : first + draws] for first in range(0, len(found), draws)]


def sampled_ids(
    step: Step[State],
    state: State,
    *,
    bos: int,
    eos: int,
    limit: int,
    options: SearchOptions,
    key: Ids,
    forbidden: Sequence[int] = (),
) -> Iterator[int]:
    """The ids of the first draw of `sample` for the one sentence of the state, each as soon as it is known."""
    stream = Uniforms(options.seed, key, 0)

    def drawn(log_probs_NV: Tensor, _row_N: Tensor, length: int) -> Tensor:
        u_N = torch.tensor([stream[length]], dtype=torch.float64)
        return draw_ids(drawing_probs(log_probs_NV, options), u_N).to(log_probs_NV.device)

    constraints = Constraints(eos=eos, limits=[limit], forbidden=forbidden, no_repeat_ngram=options.no_repeat_ngram)
    return ids_of_one(step, state, drawn, bos=bos, limit=limit, constraints=constraints)


class Uniforms:
    """Numbers in [0, 1), each a function of the seed, the key, the number of the draw and the position alone."""

    def __init__(self, seed: int, key: Ids, draw: int) -> None:
        self._digest = hashlib.blake2b(f"{seed} {draw} {' '.join(map(str, key))}|".encode(), digest_size=8)

    def __getitem__(self, position: int) -> float:
        digest = self._digest.copy()
        digest.update(str(position).encode())
        return float((int.from_bytes(digest.digest(), "little") >> (64 - BITS)) * 2.0**-BITS)


def drawing_probs(log_probs_NV: Tensor, options: SearchOptions) -> Tensor:
    """q_NV, float64 on the CPU, not normalised: 0 for what is not drawn from. Of equals the lower ids are likelier."""
    log_probs_NV = log_probs_NV.cpu().double()
    # The largest becomes 0, so that no temperature, however small, makes it infinite.
    q_NV = ((log_probs_NV - log_probs_NV.amax(dim=1, keepdim=True)) / options.temperature).exp()
    if options.top_k is None and options.top_p is None:
        return q_NV
    sorted_NV, order_NV = q_NV.sort(dim=1, descending=True, stable=True)
    if options.top_k is not None:
        sorted_NV[:, options.top_k :] = 0
    if options.top_p is not None:
        sums_NV = sorted_NV.cumsum(dim=1)
        enough_NV = sums_NV - sorted_NV >= options.top_p * sums_NV[:, -1:]  # without this id already
        enough_NV[:, 0] = False
        sorted_NV = sorted_NV.masked_fill(enough_NV, 0)
    return torch.zeros_like(q_NV).scatter_(1, order_NV, sorted_NV)


def draw_ids(q_NV: Tensor, u_N: Tensor) -> Tensor:
    """The first id of each row up to which q adds up to more than u · Σ q."""
    sums_NV = q_NV.cumsum(dim=1)
    return torch.searchsorted(sums_NV, u_N.unsqueeze(1) * sums_NV[:, -1:], right=True).squeeze(1)
