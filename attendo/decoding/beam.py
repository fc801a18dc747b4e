"""Beam search: the W likeliest prefixes of each sentence go on, until nothing better can come of them.

One step, for each sentence with W live prefixes of T ids:

    candidates    log_prob(prefix) + log p(v | prefix)  for every prefix and id v, best first
    ended         those that end with EOS among the best W: their score competes for the n_best places
    live          the best W that do not end with EOS

An EOS beyond the best W is pruned like any other candidate; one within them leaves its place to the next candidate.
Equal candidates are ordered by prefix, then by id; of equal scores the hypothesis that ended first wins.

Shapes: S all sentences, B those still going on, W live prefixes of a sentence (1 before the first step),
N = B·W rows of the state, V vocabulary, K best ids of a prefix, C candidates of a sentence, R = n_best.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attendo.decoding.greedy import greedy
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

ROOT = -1  # the parent of a first id


@dataclass(frozen=True, kw_only=True)
class Beams:
    """The live prefixes of the sentences still going on. All have the same number of ids."""

    sentence_B: Tensor  # int64: the sentence's place among all
    log_prob_BW: Tensor  # float64, best first; -inf where there is no prefix
    node_BW: Tensor  # int64: the prefix's last id in the tree


@dataclass(kw_only=True)
class Ended:
    """The best hypotheses of every sentence so far; `add` changes it in place."""

    score_SR: Tensor  # float64, best first; -inf where there is none
    node_SR: Tensor  # int64: the hypothesis's EOS in the tree
    count_S: Tensor  # int64: how many ended in all, kept here or not

    def add(self, sentence_B: Tensor, score_BW: Tensor, node_BW: Tensor) -> None:
        """Let hypotheses compete for the places; a score of -inf is none. A stable sort favours the earlier."""
        self.count_S[sentence_B] += (score_BW > -torch.inf).sum(dim=1)
        scores = torch.cat([self.score_SR[sentence_B], score_BW], dim=1)
        nodes = torch.cat([self.node_SR[sentence_B], node_BW], dim=1)
        scores, order = scores.sort(dim=1, descending=True, stable=True)
        n_best = self.score_SR.size(1)
        self.score_SR[sentence_B] = scores[:, :n_best]
        self.node_SR[sentence_B] = nodes.gather(1, order)[:, :n_best]


@dataclass
class Tree:
    """Every candidate that was considered, each with its parent: prefixes share what they have in common."""

    parents: list[int] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    token_log_probs: list[float] = field(default_factory=list)

    def add(self, parent_BC: Tensor, id_BC: Tensor, token_log_prob_BC: Tensor) -> Tensor:
        """node_BC of the new candidates."""
        start = len(self.ids)
        self.parents += parent_BC.flatten().tolist()
        self.ids += id_BC.flatten().tolist()
        self.token_log_probs += token_log_prob_BC.flatten().tolist()
        return torch.arange(start, len(self.ids)).view_as(parent_BC)

    def hypothesis(self, node: int, *, limit: int, options: SearchOptions) -> Hypothesis:
        """The path from the first id to the EOS `node`."""
        path = []
        while node != ROOT:
            path.append(node)
            node = self.parents[node]
        path.reverse()
        return make_hypothesis(
            [self.ids[i] for i in path[:-1]],
            [self.token_log_probs[i] for i in path],
            limit=limit,
            options=options,
        )


def best_ids(log_probs_NV: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """values_NK, ids_NK of the `k` best ids of each row, best first and equal ones by id; on the CPU.

    topk promises nothing about equal values: neither their order, nor which of them it takes when not all fit.
    So it is asked for one value more, and a row whose last place is contested is sorted in full.
    """
    values, ids = (best.cpu() for best in log_probs_NV.topk(min(k + 1, log_probs_NV.size(1)), dim=1))
    if values.size(1) > k:
        contested_N = (values[:, k - 1] == values[:, k]) & (values[:, k] > -torch.inf)
        values, ids = values[:, :k], ids[:, :k]
        if contested_N.any():
            contested = log_probs_NV[contested_N.to(log_probs_NV.device)].cpu()
            contested, order = contested.sort(dim=1, descending=True, stable=True)
            values[contested_N], ids[contested_N] = contested[:, :k], order[:, :k]
    ids, order = ids.sort(dim=1)
    values, by_value = values.gather(1, order).sort(dim=1, descending=True, stable=True)
    return values, ids.gather(1, by_value)


def beam_search(
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
    """The `n_best` hypotheses of each sentence, best first, in the order of the state's rows.

    state: one row for each sentence. It is grown, reordered and shrunk by `select`; sentences that are done leave it.
    limits: how many ids, without EOS, each sentence may have at most. A prefix that has them is ended by EOS, at
        EOS's own log probability. The limit belongs to the sentence: no result depends on the rest of the batch.
    forbidden: ids that are never chosen, such as padding and BOS. They keep their share of the probability.
    """
    check_arguments(eos, limits, forbidden)
    limit_S = torch.tensor(limits, dtype=torch.int64)
    largest_penalty_S = torch.tensor([options.penalty(limit + 1) for limit in limits], dtype=torch.float64)
    beams = Beams(
        sentence_B=torch.arange(len(limits)),
        log_prob_BW=torch.zeros(len(limits), 1, dtype=torch.float64),
        node_BW=torch.full((len(limits), 1), ROOT),
    )
    ended = Ended(
        score_SR=torch.full((len(limits), options.n_best), -torch.inf, dtype=torch.float64),
        node_SR=torch.full((len(limits), options.n_best), ROOT),
        count_S=torch.zeros(len(limits), dtype=torch.int64),
    )
    tree = Tree()
    ids_N = torch.full((len(limits),), bos)
    length = 0
    while len(beams.sentence_B):
        sentence_B = beams.sentence_B
        n_sentences, n_prefixes = beams.log_prob_BW.shape
        logits_NV, state = step(ids_N, state)
        log_probs_NV = permitted_log_probs(
            logits_NV,
            at_limit_N=(limit_S[sentence_B] == length).repeat_interleave(n_prefixes),
            eos=eos,
            forbidden=forbidden,
        )

        # The best W + 1 ids of a prefix hold all it can contribute: W that go on, and an EOS if among the best W.
        # Of all candidates 2W are enough, since each prefix has one EOS.
        values_NK, ids_NK = best_ids(log_probs_NV, min(options.beam + 1, log_probs_NV.size(1)))
        n_ids = values_NK.size(1)
        log_prob_BC = (beams.log_prob_BW.reshape(-1, 1) + values_NK).view(n_sentences, n_prefixes * n_ids)
        log_prob_BC, order_BC = log_prob_BC.sort(dim=1, descending=True, stable=True)
        log_prob_BC, order_BC = log_prob_BC[:, : 2 * options.beam], order_BC[:, : 2 * options.beam]
        id_BC = ids_NK.reshape(n_sentences, -1).gather(1, order_BC)
        token_log_prob_BC = values_NK.reshape(n_sentences, -1).gather(1, order_BC)
        prefix_BC = order_BC // n_ids
        node_BC = tree.add(beams.node_BW.gather(1, prefix_BC), id_BC, token_log_prob_BC)

        length += 1
        is_eos_BC = id_BC == eos
        score_BC = log_prob_BC.masked_fill(~is_eos_BC, -torch.inf) / options.penalty(length)
        ended.add(sentence_B, score_BC[:, : options.beam], node_BC[:, : options.beam])

        live_BC, order_BC = log_prob_BC.masked_fill(is_eos_BC, -torch.inf).sort(dim=1, descending=True, stable=True)
        live_BW, order_BW = live_BC[:, : options.beam], order_BC[:, : options.beam]
        if options.stopping == "exact":
            bound_B = live_BW[:, 0] / largest_penalty_S[sentence_B]
            goes_on_B = bound_B > ended.score_SR[sentence_B, -1]
        else:
            goes_on_B = (ended.count_S[sentence_B] < options.beam) & (live_BW[:, 0] > -torch.inf)

        first_row_B1 = torch.arange(n_sentences).unsqueeze(1) * n_prefixes
        rows_M = (first_row_B1 + prefix_BC.gather(1, order_BW))[goes_on_B].flatten()
        if len(rows_M) and not torch.equal(rows_M, torch.arange(len(ids_N))):
            state = select(state, rows_M)
        ids_N = id_BC.gather(1, order_BW)[goes_on_B].flatten()
        beams = Beams(
            sentence_B=sentence_B[goes_on_B],
            log_prob_BW=live_BW[goes_on_B],
            node_BW=node_BC.gather(1, order_BW)[goes_on_B],
        )
    return [
        [tree.hypothesis(node, limit=limit, options=options) for node in nodes if node != ROOT]
        for nodes, limit in zip(ended.node_SR.tolist(), limits, strict=True)
    ]


def search(
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
    """Greedy search when the beam is 1, otherwise beam search; arguments as for `beam_search`."""
    algorithm = greedy if options.beam == 1 else beam_search
    return algorithm(step, select, state, bos=bos, eos=eos, limits=limits, options=options, forbidden=forbidden)
