"""What translations lost, such as a number, put back where the model minds it least, without a beam search.

One round, for a translation y of a source x that lost a phrase:

    places       before each word of y and after the last; of many those next to where the phrase stood in the source
    likeliest    the few of them with the largest log p(phrase | x, what of y is before the place)
    candidates   for each of these, what of y is before it, then the phrase, then either what the model goes on with,
                 greedily, or the rest of y without the word that stood there
    chosen       of those that lost least the one with the highest score

Each round brings something back, or is the last. All of it every engine does quickly: it scores, and it searches
greedily from a prefix. What a translation becomes does not depend on others beside it.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from attendo.decoding.search import Hypothesis, SearchOptions, make_hypothesis
from attendo.drafting import Drafter, Torn
from attendo.engines.engine import Engine

PLACES = 8  # that are looked at
LIKELIEST = 3  # of them that are tried

Run = tuple[int, ...]


@dataclass(slots=True)
class _Work:
    """A translation on its way, what it still lacks, and how many pieces it may have."""

    torn: Torn
    hypothesis: Hypothesis
    lost: list[str]
    limit: int
    others: list[Hypothesis] = field(default_factory=list)  # what else could have become of it

    @property
    def wanted(self) -> str | None:
        """What is put back next; terms are not."""
        return next((text for text in self.lost if text in self.torn.wish.kept), None)


@dataclass(frozen=True, slots=True)
class _Place:
    """A phrase at a place of a translation: the ids before it, its own, and those after the word that stood there."""

    before: Run
    phrase: Run
    rest: Run | None  # None: no word stood there

    @property
    def prefix(self) -> Run:
        return self.before + self.phrase


class Mender:
    """Puts back what translations lost."""

    def __init__(self, engine: Engine, drafter: Drafter) -> None:
        self.engine = engine
        self.drafter = drafter

    def mended(self, torn: Sequence[Torn], options: SearchOptions, *, scores: bool = False) -> list[list[Hypothesis]]:
        """As many translations of each sentence, with as much as possible of what they lost.

        Where several would become the same, others that were found take their places, as far as there are some. With
        `scores`, which those that are given then have, they are best first. Draws stay what they are, in their order.
        """
        works = [[self._work(one, hypothesis) for hypothesis in one.hypotheses] for one in torn]
        going = [work for each in works for work in each]
        while going := [work for work in going if work.wanted is not None]:
            going = self._round(going, options)
        found = [[work.hypothesis for work in each] for each in works]
        if options.sample:
            return found
        for each, works_of_one in zip(found, works, strict=True):
            others = sorted((one for work in works_of_one for one in work.others), key=lambda one: -one.score)
            each[:] = list({one.ids: one for one in [*each, *others]}.values())[: len(each)]
            if scores:
                each.sort(key=lambda one: -one.score)
        return found

    def _work(self, torn: Torn, hypothesis: Hypothesis) -> _Work:
        lost = self.drafter.lost(torn.wish, hypothesis, torn.sentence)
        room = sum(len(self.drafter.spelling(torn.wish, text, "")) for text in lost if text in torn.wish.kept)
        return _Work(torn, hypothesis, lost, self.drafter.reached(torn.sentence.limit + room))

    def _round(self, works: Sequence[_Work], options: SearchOptions) -> list[_Work]:
        """Puts back something in each; those in which that was possible."""
        tried = self._likeliest(works)
        candidates = [
            [(one, lost) for one in each if len(lost := self._lost(work, one)) < len(work.lost)]
            for work, each in zip(works, self._candidates(works, tried, options), strict=True)
        ]
        log_probs = self._log_probs(works, [[one.ids for one, _ in each] for each in candidates])
        better = []
        for work, each, rows in zip(works, candidates, log_probs, strict=True):
            if not each:
                continue
            least = min(len(lost) for _, lost in each)
            scored = [
                (replace(make_hypothesis(one.ids, row, limit=work.limit, options=options), finished=one.finished), lost)
                for (one, lost), row in zip(each, rows, strict=True)
                if len(lost) == least
            ]
            (work.hypothesis, work.lost), *others = sorted(scored, key=lambda one: -one[0].score)
            work.others = [one for one, _ in others]
            better.append(work)
        return better

    def _likeliest(self, works: Sequence[_Work]) -> list[list[_Place]]:
        """Of each translation the places where what it lost first is likeliest."""
        places = [list(self._places(work)) for work in works]
        log_probs = self._log_probs(works, [[one.prefix for one in each] for each in places])
        likeliest = []
        for each, rows in zip(places, log_probs, strict=True):
            chances = [math.fsum(row[len(one.before) : -1]) for one, row in zip(each, rows, strict=True)]  # without EOS
            best = sorted(range(len(each)), key=lambda i: -chances[i])[:LIKELIEST]
            likeliest.append([each[i] for i in best])
        return likeliest

    def _places(self, work: _Work) -> Iterator[_Place]:
        assert work.wanted is not None
        ids, text, source = work.hypothesis.ids, work.wanted, work.torn.wish.text
        before = [self.drafter.tokenizers.target.decode(ids[:i]) for i in range(len(ids) + 1)]
        possible = range(len(work.torn.sentence.prefix), len(ids))
        starts = [i for i in possible if not (i and ids[i] in self.drafter.joining) and not before[i].endswith(" ")]
        starts.append(len(ids))
        ends = dict(pairwise(starts))
        middle = len(starts) * max(0, source.find(text)) / max(1, len(source))
        near = sorted(range(len(starts)), key=lambda i: abs(i - middle))[:PLACES]
        for start in (starts[i] for i in sorted(near)):
            phrase = self.drafter.spelling(work.torn.wish, text, before[start])
            if start + len(phrase) <= work.limit:
                yield _Place(ids[:start], phrase, ids[ends[start] :] if start in ends else None)

    def _candidates(
        self, works: Sequence[_Work], places: Sequence[Sequence[_Place]], options: SearchOptions
    ) -> list[list[Hypothesis]]:
        """What becomes of each translation by its places, not scored."""
        asked = [(work, place) for work, each in zip(works, places, strict=True) for place in each]
        continued = iter(
            self.engine.search(
                [work.torn.sentence.ids for work, _ in asked],
                [work.limit for work, _ in asked],
                SearchOptions(beam=1, no_repeat_ngram=options.no_repeat_ngram),
                prefixes=[place.prefix for _, place in asked],
            )
        )
        candidates = []
        for work, each in zip(works, places, strict=True):
            found = [next(continued)[0] for _ in each]
            for place in each:
                if place.rest is not None and len(place.prefix + place.rest) <= work.limit:
                    found.append(replace(work.hypothesis, ids=place.prefix + place.rest))
            candidates.append(list({one.ids: one for one in found}.values()))
        return candidates

    def _log_probs(self, works: Sequence[_Work], targets: Sequence[Sequence[Run]]) -> list[list[list[float]]]:
        """log p of the ids of each target, and of EOS after them."""
        pairs = [(work.torn.sentence.ids, ids) for work, each in zip(works, targets, strict=True) for ids in each]
        found = iter(self.engine.score([source for source, _ in pairs], [target for _, target in pairs]))
        return [[next(found) for _ in each] for each in targets]

    def _lost(self, work: _Work, hypothesis: Hypothesis) -> list[str]:
        return self.drafter.lost(work.torn.wish, hypothesis, work.torn.sentence)
