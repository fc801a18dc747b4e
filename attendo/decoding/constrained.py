"""Beam search for hypotheses that hold given phrases.

Lexically constrained decoding (Hokamp and Liu 2017) with a beam that is divided anew at each step (Post and Vilar 2018,
"Fast Lexically Constrained Decoding with Dynamic Beam Allocation"). One step, for each sentence with at most W live
prefixes of T ids:

    candidates    of every prefix its best ids, one more than the beam is wide, and all that begin or continue a phrase
    ended         EOS after prefixes that hold all phrases, where it is among the best of the candidates that hold all,
                  as many as the beam is wide: their score competes for the n_best places
    banks         the other candidates, by the number of ids that must still come at least
    live          the best of all and of each bank, then the second best of each, and so on until there are W

A prefix that has paid for a part of a phrase does not compete with one that has not: so W grows with the phrases. One
that lacks as little as any always goes on, so that all phrases have come as soon as there was room for them. EOS after
a prefix that lacks some comes only where nothing else may come, as at the limit; of such hypotheses those with the most
phrases are the best.

The first to end are those that said the phrases at once, whether they fit or not. So where `stopping` is "first", the
search goes on until the likeliest prefix of all, which may lack phrases, would have ended, and what it lacks could have
come.

Shapes: N rows (as many for each sentence), V vocabulary, K best ids of a prefix, U useful ids of all prefixes.
"""

import functools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from attendo.decoding.beam import ROOT, Tree, search
from attendo.decoding.best import best_ids
from attendo.decoding.constraints import Constraints
from attendo.decoding.phrases import Phrase, Progress, Wanted
from attendo.decoding.search import Hypothesis, Ids, SearchOptions, Select, State, Step
from attendo.errors import ConfigError

NARROWEST = 5  # a narrower beam is searched as if it were so wide
MOST_BANKS = 32  # with a place of their own; where there are more, those have one that miss the least


class Prefix(NamedTuple):
    """A live one; a log probability of -inf is none."""

    node: int  # its last id in the tree
    log_prob: float
    progress: Progress
    parent: int = 0  # the place among the sentence's prefixes of the one it goes on from


class Candidate(NamedTuple):
    """What may become of a prefix."""

    log_prob: float
    parent: int
    id: int
    token_log_prob: float
    progress: Progress


class Ended(NamedTuple):
    """A hypothesis."""

    n_met: int
    score: float
    node: int  # its EOS in the tree


@dataclass(kw_only=True)
class Sentence:
    """The search of one sentence; its methods change it."""

    place: int  # among all
    limit: int
    width: int
    live: list[Prefix]
    ended: list[Ended] = field(default_factory=list)  # the n_best best
    n_ended: int = 0  # how many hold all phrases, kept here or not
    soonest: float = math.inf  # the length, with EOS, at which the likeliest prefix could have ended with all phrases

    def advance(
        self, offers: Sequence[dict[int, float]], *, eos: int, length: int, options: SearchOptions, tree: Tree
    ) -> None:
        """Prefixes go on, so that they have `length` ids, or end. None is live if the sentence is done.

        offers: the ids that each prefix may go on with, and their log probabilities.
        """
        beam = inner_beam(options)
        likeliest, offer = max(zip(self.live, offers, strict=True), key=lambda pair: pair[0].log_prob)
        if max(offer, key=lambda id_: offer[id_]) == eos:
            self.soonest = min(self.soonest, length + likeliest.progress.missing)
        going, ending = _candidates(self.live, offers, eos=eos)
        holding = sorted((one for one in (*going, *ending) if not one.progress.missing), key=_best_first)[:beam]
        for one in ending:
            if one.progress.missing or one in holding:
                node = tree.append(self.live[one.parent].node, eos, one.token_log_prob)
                self.ended.append(Ended(one.progress.n_met, one.log_prob / options.penalty(length), node))
                self.n_ended += not one.progress.missing
        self.ended = sorted(self.ended, key=lambda one: (-one.n_met, -one.score))[: options.n_best]

        chosen = divided(going, self.width)
        if options.stopping == "exact":
            bound = max((one.log_prob for one in chosen), default=-math.inf) / options.penalty(self.limit + 1)
            done = self.n_ended >= options.n_best and bound <= self.ended[-1].score
        else:
            done = self.n_ended >= beam and length >= self.soonest
        self.live = [
            Prefix(
                tree.append(self.live[one.parent].node, one.id, one.token_log_prob),
                one.log_prob,
                one.progress,
                one.parent,
            )
            for one in ([] if done else chosen)
        ]

    def fill(self, n_rows: int) -> None:
        """Add prefixes that are none, if any is live."""
        self.live += [one._replace(log_prob=-math.inf) for one in self.live[-1:]] * (n_rows - len(self.live))


def inner_beam(options: SearchOptions) -> int:
    return max(options.beam, NARROWEST)


def width(phrases: Sequence[Phrase], options: SearchOptions) -> int:
    """How many live prefixes a sentence with these phrases has at most."""
    n_ids = sum(min(map(len, phrase.alternatives), default=0) for phrase in phrases)
    return 2 * inner_beam(options) + min(n_ids, MOST_BANKS)


def divided(candidates: Sequence[Candidate], width: int) -> list[Candidate]:
    """The best of all and of each bank, then the second best of each, until there are `width`."""
    before: Counter[int] = Counter()
    ranked = []
    for place, one in enumerate(sorted(candidates, key=_best_first)):
        missing = one.progress.missing
        ranked.append(((place > 0, before[missing], missing), one))
        before[missing] += 1
    ranked.sort(key=lambda entry: entry[0])
    return [one for _, one in ranked[:width]]


def constrained_search(
    step: Step[State],
    select: Select[State],
    state: State,
    *,
    bos: int,
    eos: int,
    limits: Sequence[int],
    options: SearchOptions,
    phrases: Sequence[Sequence[Phrase]],
    forbidden: Sequence[int] = (),
    prefixes: Sequence[Ids] | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` hypotheses of each sentence that hold its phrases, best first, in the order of the state's rows.

    Where none that was found holds all of them within its limit, those are returned that hold the most; where fewer
    than `n_best` hold as many as the best does, only those. A sentence without phrases is searched as by `search`. All
    other arguments and conventions are those of `beam_search`.
    """
    if options.sample or options.diversity_groups > 1:
        key, words = ("sample", "sampling") if options.sample else ("diversity_groups", "groups of the beam")
        raise ConfigError(
            f"{key} = {getattr(options, key)}: what a translation must hold is found by a plain beam search. "
            f"Leave out {words}, or the phrases that it must hold."
        )
    if len(phrases) != len(limits):
        raise ValueError(f"there are phrases for {len(phrases)} sentences, and limits for {len(limits)}.")
    if not all(phrases):
        return _apart(
            step,
            select,
            state,
            bos=bos,
            eos=eos,
            limits=limits,
            options=options,
            phrases=phrases,
            forbidden=forbidden,
            prefixes=prefixes,
        )
    constraints = Constraints(
        eos=eos, limits=limits, forbidden=forbidden, prefixes=prefixes, no_repeat_ngram=options.no_repeat_ngram
    )
    sentences = [
        Sentence(
            place=place,
            limit=limit,
            width=width(given, options),
            live=[Prefix(ROOT, 0.0, Wanted(given, never=(eos, *forbidden)).start)],
        )
        for place, (limit, given) in enumerate(zip(limits, phrases, strict=True))
    ]
    tree = Tree()
    going_on, n_rows = sentences, 1
    ids_N = torch.full((len(limits),), bos)
    length = 0
    while going_on:
        live = [prefix for sentence in going_on for prefix in sentence.live]
        logits_NV, state = step(ids_N, state)
        log_probs_NV = constraints.log_probs(
            logits_NV,
            sentence_N=torch.tensor([sentence.place for sentence in going_on]).repeat_interleave(n_rows),
            length=length,
            prefix_N=torch.tensor([prefix.node for prefix in live]),
            prefix_of=tree.prefix,
        )
        offers = _offers(log_probs_NV, live, inner_beam(options) + 1)

        length += 1
        first_rows = range(0, len(live), n_rows)
        for first, sentence in zip(first_rows, going_on, strict=True):
            sentence.advance(offers[first : first + n_rows], eos=eos, length=length, options=options, tree=tree)
        # As many rows for each: then a model's state can keep what the prefixes of a sentence share only once.
        n_rows = max(len(sentence.live) for sentence in going_on)
        for sentence in going_on:
            sentence.fill(n_rows)
        rows = [
            first + prefix.parent
            for first, sentence in zip(first_rows, going_on, strict=True)
            for prefix in sentence.live
        ]
        if rows and rows != list(range(len(live))):
            state = select(state, torch.tensor(rows))
        going_on = [sentence for sentence in going_on if sentence.live]
        ids_N = torch.tensor([tree.ids[prefix.node] for sentence in going_on for prefix in sentence.live])
    return [
        [
            tree.hypothesis(one.node, limit=sentence.limit, options=options)
            for one in sentence.ended
            if one.n_met == sentence.ended[0].n_met
        ]
        for sentence in sentences
    ]


def _apart(
    step: Step[State],
    select: Select[State],
    state: State,
    *,
    bos: int,
    eos: int,
    limits: Sequence[int],
    options: SearchOptions,
    phrases: Sequence[Sequence[Phrase]],
    forbidden: Sequence[int],
    prefixes: Sequence[Ids] | None,
) -> list[list[Hypothesis]]:
    """The sentences with phrases by `constrained_search`, those without by `search`."""
    given, none = ([i for i, some in enumerate(phrases) if bool(some) is wanted] for wanted in (True, False))
    by_phrases = functools.partial(constrained_search, phrases=[phrases[i] for i in given])
    ways: tuple[tuple[list[int], Callable[..., list[list[Hypothesis]]]], ...] = ((given, by_phrases), (none, search))
    found: dict[int, list[Hypothesis]] = {}
    for rows, way in ways:
        if rows:
            hypotheses = way(
                step,
                select,
                select(state, torch.tensor(rows)),
                bos=bos,
                eos=eos,
                limits=[limits[i] for i in rows],
                options=options,
                forbidden=forbidden,
                prefixes=None if prefixes is None else [prefixes[i] for i in rows],
            )
            found.update(zip(rows, hypotheses, strict=True))
    return [found[i] for i in range(len(phrases))]


def _offers(log_probs_NV: Tensor, live: Sequence[Prefix], k: int) -> list[dict[int, float]]:
    """Of each prefix the log probabilities of its `k` best ids, and of those that begin or continue a phrase."""
    values_NK, ids_NK = best_ids(log_probs_NV, min(k, log_probs_NV.size(1)))
    offers = [
        dict(zip(ids_K, values_K, strict=True))
        for ids_K, values_K in zip(ids_NK.tolist(), values_NK.tolist(), strict=True)
    ]
    useful = [(row, id_) for row, prefix in enumerate(live) for id_ in prefix.progress.useful]
    if useful:
        rows_U, ids_U = torch.tensor(useful, device=log_probs_NV.device).unbind(1)
        for (row, id_), value in zip(useful, log_probs_NV[rows_U, ids_U].tolist(), strict=True):
            offers[row][id_] = value
    return offers


def _candidates(
    live: Sequence[Prefix], offers: Sequence[dict[int, float]], *, eos: int
) -> tuple[list[Candidate], list[Candidate]]:
    """Those that go on, and those that end: where all phrases are held, or nothing but EOS may come."""
    going: list[Candidate] = []
    ending: list[Candidate] = []
    for parent, ((_, log_prob, progress, _), offer) in enumerate(zip(live, offers, strict=True)):
        possible = {id_: value for id_, value in offer.items() if log_prob + value > -math.inf}
        end = possible.pop(eos, None)
        going += [
            Candidate(log_prob + value, parent, id_, value, progress.then(id_)) for id_, value in possible.items()
        ]
        if end is not None and not (progress.missing and possible):
            ending.append(Candidate(log_prob + end, parent, eos, end, progress))
    return going, ending


def _best_first(one: Candidate) -> tuple[float, int, int]:
    return -one.log_prob, one.parent, one.id
