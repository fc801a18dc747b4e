"""Beam search: the W likeliest prefixes of each sentence go on, until nothing better can come of them.

One step, for each sentence with W live prefixes of T ids:

    candidates    log_prob(prefix) + log p(v | prefix)  for every prefix and id v, best first
    ended         those that end with EOS among the best W: their score competes for the n_best places
    live          the best W that do not end with EOS

An EOS beyond the best W is pruned like any other candidate; one within them leaves its place to the next candidate.
Equal candidates are ordered by prefix, then by id; of equal scores the hypothesis that ended first wins.

A beam may be cut into G groups of W prefixes each (Vijayakumar et al. 2016, "Diverse Beam Search"). Each group is a
beam search of its own, except that at each step the groups choose one after the other, and a candidate is ordered by

    log_prob(prefix) + log p(v | prefix) - diversity · (how many live prefixes of the groups before end with v)

The last term counts for this one choice: log probabilities and scores are the model's own. All groups of a sentence
go on until the last of them is done. Then the groups' best hypotheses are taken, then their second best, and so on
until there are n_best different ones, which are returned by their score.

Shapes: S all sentences, B those still going on, G groups, W live prefixes of a group (1 before the first step),
N = B·G·W rows of the state, V vocabulary, K best ids of a prefix, C candidates of a group, R hypotheses kept of a
group: n_best, since others may have found the same, or those that the stopping rule looks at, if they are more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attendo.decoding.best import best_ids
from attendo.decoding.constraints import Constraints
from attendo.decoding.greedy import greedy
from attendo.decoding.sampling import sample
from attendo.decoding.search import Hypothesis, Ids, SearchOptions, Select, State, Step, make_hypothesis

ROOT = -1  # the parent of a first id


@dataclass(frozen=True, kw_only=True)
class Beams:
    """The live prefixes of the sentences still going on. All have the same number of ids."""

    sentence_B: Tensor  # int64: the sentence's place among all
    log_prob_BGW: Tensor  # float64, best first; -inf where there is no prefix
    node_BGW: Tensor  # int64: the prefix's last id in the tree


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """What may become of a group's prefixes, the most eligible first."""

    log_prob_BC: Tensor  # float64
    token_log_prob_BC: Tensor  # float32, that of the last id
    id_BC: Tensor  # int64, the last id
    prefix_BC: Tensor  # int64: the place in the group of the prefix it goes on from


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The candidates of a group that go on; -inf where there are not so many."""

    log_prob_BW: Tensor
    id_BW: Tensor
    node_BW: Tensor
    prefix_BW: Tensor


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a group considered at one step, for whoever watches."""

    length: int  # ids of a candidate
    group: int
    sentence_B: Tensor
    candidates: Candidates
    node_BC: Tensor  # int64: each candidate in the tree
    parent_BC: Tensor  # int64: the prefix it goes on from
    ended_BC: Tensor  # bool: it ends, among the best W
    live: Chosen


Watch = Callable[[Seen], None]


@dataclass(kw_only=True)
class Ended:
    """The best hypotheses of every sentence and group so far; `add` changes it in place."""

    score_SGR: Tensor  # float64, best first; -inf where there is none
    node_SGR: Tensor  # int64: the hypothesis's EOS in the tree
    count_SG: Tensor  # int64: how many ended in all, kept here or not

    def add(self, sentence_B: Tensor, group: int, score_BW: Tensor, node_BW: Tensor) -> None:
        """Let hypotheses compete for the places; a score of -inf is none. A stable sort favours the earlier."""
        self.count_SG[sentence_B, group] += (score_BW > -torch.inf).sum(dim=1)
        scores = torch.cat([self.score_SGR[sentence_B, group], score_BW], dim=1)
        nodes = torch.cat([self.node_SGR[sentence_B, group], node_BW], dim=1)
        scores, order = scores.sort(dim=1, descending=True, stable=True)
        n_kept = self.score_SGR.size(2)
        self.score_SGR[sentence_B, group] = scores[:, :n_kept]
        self.node_SGR[sentence_B, group] = nodes.gather(1, order)[:, :n_kept]


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

    def append(self, parent: int, id_: int, token_log_prob: float) -> int:
        """The node of one new candidate."""
        self.parents.append(parent)
        self.ids.append(id_)
        self.token_log_probs.append(token_log_prob)
        return len(self.ids) - 1

    def path(self, node: int) -> list[int]:
        """The nodes from the first id to `node`."""
        path = []
        while node != ROOT:
            path.append(node)
            node = self.parents[node]
        return path[::-1]

    def prefix(self, node: int) -> list[int]:
        return [self.ids[i] for i in self.path(node)]

    def hypothesis(self, node: int, *, limit: int, options: SearchOptions) -> Hypothesis:
        """The path from the first id to the EOS `node`."""
        path = self.path(node)
        return make_hypothesis(
            [self.ids[i] for i in path[:-1]],
            [self.token_log_probs[i] for i in path],
            limit=limit,
            options=options,
        )


def best_candidates(log_probs_NV: Tensor, log_prob_BW: Tensor, *, keep: int, lost_BV: Tensor | None) -> Candidates:
    """The best 2 · `keep` candidates of each sentence's prefixes, of which at most one in each prefix ends with EOS.

    lost_BV: what an id loses in the order of the candidates, on the CPU; None is nothing.
    """
    n_sentences, n_prefixes = log_prob_BW.shape
    order_NV = log_probs_NV
    if lost_BV is not None:
        order_NV = log_probs_NV - lost_BV.repeat_interleave(n_prefixes, dim=0).to(log_probs_NV.device)
    # The best W + 1 ids of a prefix hold all it can contribute: W that go on, and an EOS if among the best W.
    # Of all candidates 2W are enough, since each prefix has one EOS.
    values_NK, ids_NK = best_ids(order_NV, min(keep + 1, log_probs_NV.size(1)))
    n_ids = values_NK.size(1)
    value_BC = (log_prob_BW.reshape(-1, 1) + values_NK).view(n_sentences, n_prefixes * n_ids)
    value_BC, order_BC = value_BC.sort(dim=1, descending=True, stable=True)
    value_BC, order_BC = value_BC[:, : 2 * keep], order_BC[:, : 2 * keep]
    prefix_BC = order_BC // n_ids
    if lost_BV is not None:
        values_NK = log_probs_NV.gather(1, ids_NK.to(log_probs_NV.device)).cpu()
    token_log_prob_BC = values_NK.reshape(n_sentences, -1).gather(1, order_BC)
    return Candidates(
        log_prob_BC=value_BC if lost_BV is None else log_prob_BW.gather(1, prefix_BC) + token_log_prob_BC,
        token_log_prob_BC=token_log_prob_BC,
        id_BC=ids_NK.reshape(n_sentences, -1).gather(1, order_BC),
        prefix_BC=prefix_BC,
    )


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
    prefixes: Sequence[Ids] | None = None,
    watch: Watch | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` hypotheses of each sentence, best first, in the order of the state's rows.

    state: one row for each sentence. It is grown, reordered and shrunk by `select`; sentences that are done leave it.
    limits, forbidden, prefixes: what may come next, see `Constraints`.
    watch: is told at each step what each group considered; see `Seen`.
    """
    constraints = Constraints(
        eos=eos, limits=limits, forbidden=forbidden, prefixes=prefixes, no_repeat_ngram=options.no_repeat_ngram
    )
    n_groups = options.diversity_groups
    width = options.beam // n_groups
    # The worst for which a group goes on; it may keep more.
    last_place = (width if options.stopping == "heuristic" else min(options.n_best, width)) - 1
    n_kept = max(options.n_best, last_place + 1)
    largest_penalty_S = torch.tensor([options.penalty(limit + 1) for limit in limits], dtype=torch.float64)
    beams = Beams(
        sentence_B=torch.arange(len(limits)),
        log_prob_BGW=torch.zeros(len(limits), n_groups, 1, dtype=torch.float64),
        node_BGW=torch.full((len(limits), n_groups, 1), ROOT),
    )
    ended = Ended(
        score_SGR=torch.full((len(limits), n_groups, n_kept), -torch.inf, dtype=torch.float64),
        node_SGR=torch.full((len(limits), n_groups, n_kept), ROOT),
        count_SG=torch.zeros(len(limits), n_groups, dtype=torch.int64),
    )
    tree = Tree()
    if n_groups > 1 and limits:
        state = select(state, torch.arange(len(limits)).repeat_interleave(n_groups))
    ids_N = torch.full((len(limits) * n_groups,), bos)
    length = 0
    while len(beams.sentence_B):
        sentence_B = beams.sentence_B
        n_sentences, _, n_prefixes = beams.log_prob_BGW.shape
        logits_NV, state = step(ids_N, state)
        log_probs_NV = constraints.log_probs(
            logits_NV,
            sentence_N=sentence_B.repeat_interleave(n_groups * n_prefixes),
            length=length,
            prefix_N=beams.node_BGW.flatten(),
            prefix_of=tree.prefix,
        )
        log_probs_BGWV = log_probs_NV.view(n_sentences, n_groups, n_prefixes, -1)

        length += 1
        chosen: list[Chosen] = []
        for group in range(n_groups):
            candidates = best_candidates(
                log_probs_BGWV[:, group].reshape(n_sentences * n_prefixes, -1),
                beams.log_prob_BGW[:, group],
                keep=width,
                lost_BV=options.diversity * _times_chosen(chosen, log_probs_NV.size(1)) if group else None,
            )
            log_prob_BC, id_BC, prefix_BC = candidates.log_prob_BC, candidates.id_BC, candidates.prefix_BC
            parent_BC = beams.node_BGW[:, group].gather(1, prefix_BC)
            node_BC = tree.add(parent_BC, id_BC, candidates.token_log_prob_BC)

            is_eos_BC = id_BC == eos
            score_BC = log_prob_BC.masked_fill(~is_eos_BC, -torch.inf) / options.penalty(length)
            ended.add(sentence_B, group, score_BC[:, :width], node_BC[:, :width])

            # Without those that end, in the same order.
            order_BW = (is_eos_BC | log_prob_BC.isneginf()).long().sort(dim=1, stable=True).indices[:, :width]
            chosen.append(
                Chosen(
                    log_prob_BW=log_prob_BC.masked_fill(is_eos_BC, -torch.inf).gather(1, order_BW),
                    id_BW=id_BC.gather(1, order_BW),
                    node_BW=node_BC.gather(1, order_BW),
                    prefix_BW=prefix_BC.gather(1, order_BW),
                )
            )
            if watch is not None:
                watch(
                    Seen(
                        length=length,
                        group=group,
                        sentence_B=sentence_B,
                        candidates=candidates,
                        node_BC=node_BC,
                        parent_BC=parent_BC,
                        ended_BC=(score_BC > -torch.inf) & (torch.arange(score_BC.size(1)) < width),
                        live=chosen[-1],
                    )
                )
        live_BGW = torch.stack([group.log_prob_BW for group in chosen], dim=1)
        node_BGW = torch.stack([group.node_BW for group in chosen], dim=1)
        prefix_BGW = torch.stack([group.prefix_BW for group in chosen], dim=1)
        id_BGW = torch.stack([group.id_BW for group in chosen], dim=1)

        best_BG = live_BGW.amax(dim=2)
        match options.stopping:
            case "exact":
                bound_BG = best_BG / largest_penalty_S[sentence_B].unsqueeze(1)
                goes_on_BG = bound_BG > ended.score_SGR[sentence_B, :, last_place]
            case "heuristic":
                goes_on_BG = best_BG / options.penalty(length) > ended.score_SGR[sentence_B, :, last_place]
            case "first":
                goes_on_BG = (ended.count_SG[sentence_B] < width) & (best_BG > -torch.inf)
        goes_on_B = goes_on_BG.any(dim=1)

        first_row_BG1 = torch.arange(n_sentences * n_groups).view(n_sentences, n_groups, 1) * n_prefixes
        rows_M = (first_row_BG1 + prefix_BGW)[goes_on_B].flatten()
        if len(rows_M) and not torch.equal(rows_M, torch.arange(len(ids_N))):
            state = select(state, rows_M)
        ids_N = id_BGW[goes_on_B].flatten()
        beams = Beams(sentence_B=sentence_B[goes_on_B], log_prob_BGW=live_BGW[goes_on_B], node_BGW=node_BGW[goes_on_B])
    return [
        _best_of_groups(
            [
                [tree.hypothesis(node, limit=limit, options=options) for node in nodes_R if node != ROOT]
                for nodes_R in nodes_GR
            ],
            options.n_best,
        )
        for nodes_GR, limit in zip(ended.node_SGR.tolist(), limits, strict=True)
    ]


def _times_chosen(groups: Sequence[Chosen], vocab_size: int) -> Tensor:
    """times_BV: how many live prefixes of the groups end with each id."""
    times_BV = torch.zeros(len(groups[0].id_BW), vocab_size)
    for group in groups:
        times_BV.scatter_add_(1, group.id_BW, (group.log_prob_BW > -torch.inf).float())
    return times_BV


def _best_of_groups(groups: list[list[Hypothesis]], n_best: int) -> list[Hypothesis]:
    """The first of each group, then the second, until there are `n_best` different ones; those by their score."""
    if len(groups) == 1:
        return groups[0][:n_best]
    ranked = [(rank, one) for group in groups for rank, one in enumerate(group)]
    ranked.sort(key=lambda entry: (entry[0], -entry[1].score))
    different = {one.ids: one for _, one in reversed(ranked)}  # of equal ones the first in rank stays
    chosen = [one for _, one in ranked if different[one.ids] is one][:n_best]
    return sorted(chosen, key=lambda one: -one.score)


def search(
    step: Step[State],
    select: Select[State],
    state: State,
    *,
    bos: int,
    eos: int,
    limits: Sequence[int],
    options: SearchOptions,
    keys: Sequence[Ids] = (),
    forbidden: Sequence[int] = (),
    prefixes: Sequence[Ids] | None = None,
) -> list[list[Hypothesis]]:
    """What the options ask for: sampling, which alone uses the `keys`, greedy search when the beam is 1, or beam
    search; the other arguments are as for `beam_search`."""
    if options.sample:
        return sample(
            step,
            select,
            state,
            bos=bos,
            eos=eos,
            limits=limits,
            options=options,
            keys=keys,
            forbidden=forbidden,
            prefixes=prefixes,
        )
    return (greedy if options.beam == 1 else beam_search)(
        step,
        select,
        state,
        bos=bos,
        eos=eos,
        limits=limits,
        options=options,
        forbidden=forbidden,
        prefixes=prefixes,
    )
