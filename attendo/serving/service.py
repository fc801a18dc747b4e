"""Translates for many at once: texts are cut, their sentences wait in one queue, and what was found is put together.

It knows nothing of HTTP. What a request may not ask for is a `Refusal`.
"""

import asyncio
import contextlib
import functools
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from attendo.decoding.search import Hypothesis, SearchOptions, unscored
from attendo.drafting import (
    EXTRA_LENGTH,
    NO_LINKS,
    Candidate,
    Draft,
    IdPair,
    PieceLinks,
    Sentence,
    Torn,
    Translation,
    divided,
    one_line,
    room,
)
from attendo.machine import cores
from attendo.serving.limits import Limits, Refusal
from attendo.serving.metrics import Metrics
from attendo.serving.models import Models
from attendo.serving.queue import Batch, Queue
from attendo.serving.threads import iterated, stand_back
from attendo.text.glossary import Glossary
from attendo.translator import PairScore, Translator

T = TypeVar("T")

BATCH_TOKENS = 2048  # source positions times beam; about a tenth of a second of a small model on two cores
QUICK = 1000  # characters that take less time than to hand them to a thread
ROWS = 16  # sentences, about, whose search costs as much as to mend a translation
GREEDY = SearchOptions(beam=1)
ALTERNATIVES = 5  # for one word
_UNKNOWN = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True)
class Search:
    """Sentences of one model that are searched in the same way. heavy: a prefix or phrases bind the translation."""

    translator: Translator
    options: SearchOptions
    scores: bool
    heavy: bool
    typical = True

    def cost(self, sentence: Sentence) -> int:
        """About positions times prefixes that are kept, of which phrases need more."""
        length = len(sentence.ids) + 1
        if not self.heavy:
            return length * self.options.beam
        held = room(sentence.phrases)
        return (length + len(sentence.prefix) + held) * (2 * self.options.beam + held)

    def run(self, sentences: Sequence[Sentence]) -> list[list[Hypothesis]]:
        return self.translator.search(sentences, self.options, scores=self.scores)


@dataclass(frozen=True)
class Scoring:
    """Pairs that one model scores."""

    translator: Translator
    heavy = False
    typical = True

    def cost(self, pair: tuple[str, str]) -> int:
        return 1 + max(map(len, pair)) // 4  # about as many pieces

    def longest(self, pairs: Sequence[tuple[str, str]]) -> int:
        """The most pieces that one side of a pair has."""
        tokenizers = (self.translator.tokenizers.source, self.translator.tokenizers.target)
        sides = zip(*pairs, strict=True)
        encoded = (tokenizer.encode_batch(side) for tokenizer, side in zip(tokenizers, sides, strict=False))
        return max((len(ids) for side in encoded for ids in side), default=0)

    def run(self, pairs: Sequence[tuple[str, str]]) -> list[PairScore]:
        sources, targets = zip(*pairs, strict=True)
        return self.translator.score(sources, targets)


@dataclass(frozen=True)
class Linking:
    """Sentences with something to be placed, and their translations, of which one model says which pieces belong
    together."""

    translator: Translator
    heavy = False
    typical = False

    def cost(self, pair: IdPair) -> int:
        return 1 + max(map(len, pair))

    def run(self, pairs: Sequence[IdPair]) -> list[list[int]]:
        links = self.translator.links(pairs)
        return [links[pair] for pair in pairs]


@dataclass(frozen=True)
class Mending:
    """Sentences whose translations lost something, which one model puts back."""

    translator: Translator
    options: SearchOptions
    scores: bool
    heavy = False
    typical = False

    def cost(self, torn: Torn) -> int:
        """About as much as if so many sentences were searched greedily."""
        return ROWS * (len(torn.sentence.ids) + 1) * len(torn.hypotheses)

    def run(self, torn: Sequence[Torn]) -> list[list[Hypothesis]]:
        return self.translator.mender.mended(torn, self.options, scores=self.scores)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """How texts are to be translated. Where `keep` is given, it has what must stay of each text."""

    options: SearchOptions
    max_length: int | None = None
    prefix: str | None = None
    glossary: Mapping[str, str] | None = None
    keep: Sequence[Sequence[str]] | None = None
    scores: bool = False


@dataclass(frozen=True)
class Alternative:
    """A translation that goes on differently, and the probability of the piece with which it does."""

    probability: float
    candidate: Candidate


class Service:
    """Some models and the queue before them. Use it within `running`, and what computes within `admitted`."""

    def __init__(
        self,
        models: Models,
        limits: Limits,
        *,
        metrics: Metrics | None = None,
        batch_tokens: int = BATCH_TOKENS,
    ) -> None:
        self.models = models
        self.limits = limits
        self.metrics = metrics or Metrics()
        self.queue = Queue(batch_cost=batch_tokens, threads=max(2, cores()), observe=self._observe)
        # A thread of its own, so that a translation that is mended neither waits behind sentences nor holds them up.
        self.mending = Queue(batch_cost=batch_tokens, threads=1, observe=self._observe)
        self.open = 0  # requests within `admitted`
        self.stopping = False  # new work is refused
        self.metrics.watch(waiting=lambda: self.queue.waiting + self.mending.waiting, open_requests=lambda: self.open)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        with (
            ThreadPoolExecutor(2, thread_name_prefix="text", initializer=stand_back) as self._text_threads,
            ThreadPoolExecutor(
                max(2, cores()), thread_name_prefix="stream", initializer=stand_back
            ) as self._stream_threads,
        ):
            async with self.queue.running(), self.mending.running():
                yield

    @contextlib.asynccontextmanager
    async def admitted(self) -> AsyncIterator[None]:
        """Within this a request computes, not for longer than it may; or it is refused at once."""
        self.require_welcome()
        self.open += 1
        try:
            async with asyncio.timeout(self.limits.seconds):
                yield
        except TimeoutError:
            raise self._too_long() from None
        finally:
            self.open -= 1

    def require_welcome(self) -> None:
        """That one more request is taken now."""
        if self.stopping:
            raise Refusal(503, "the server is stopping and takes no more work. Ask another one.", retry_after=1)
        if self.open >= self.limits.requests:
            raise Refusal(
                503,
                f"the server works on {self.limits.requests} requests already, as many as it takes. Ask again later.",
                limit="requests",
                value=self.limits.requests,
                retry_after=self._soon(),
            )

    async def translate(self, model: str, texts: Sequence[str], wanted: Wanted) -> tuple[list[Translation], float]:
        """The translations, in the order of the texts, and how many seconds they waited for their turn."""
        translator = self.models.translators[model]
        return await self._finished(translator, await self._drafts(translator, texts, wanted), wanted)

    async def stream(self, model: str, text: str, wanted: Wanted) -> AsyncGenerator[str | Translation]:
        """The greedy translation as it comes, in strings that together are its text; then the whole of it.

        A sentence that must hold something, such as a number or a term, comes in one string: it may have to be put
        right. So does one with a prefix.
        """
        translator = self.models.translators[model]
        (draft,) = await self._drafts(translator, [text], wanted)
        if draft.lead:
            yield draft.lead
        found: list[list[Hypothesis]] = []
        finished: list[Draft] = []
        all_links: dict[IdPair, list[int]] = {}
        for number, (sentence, gap) in enumerate(zip(draft.sentences, draft.gaps, strict=True)):
            alone = [_only(draft, number)]
            links = NO_LINKS
            if _is_held(alone[0]):
                ((hypotheses,),), links, _ = await self._found(translator, alone, GREEDY, scores=False)
                all_links.update(links)
                sent = ""
            else:
                ids: list[int] = []
                sent = ""
                start = functools.partial(translator.engine.stream, sentence.ids, sentence.limit)
                async with iterated(self._stream_threads, start) as steps:
                    async for id_ in steps:
                        ids.append(id_)
                        # Of a character that several pieces spell, the beginning looks like an unknown one.
                        known = one_line(translator.tokenizers.target.decode(ids)).rstrip(_UNKNOWN)
                        if new := known[len(sent) :]:
                            yield new
                            sent = known
                hypotheses = [unscored(ids, sentence.limit)]
            rest = translator.drafter.finish(alone[0], [hypotheses], None, links).text[len(sent) :] + gap
            if rest:
                yield rest
            found.append(hypotheses)
            finished += alone
        self.metrics.pieces(
            source=sum(len(sentence.ids) for sentence in draft.sentences), target=sum(len(one[0].ids) for one in found)
        )
        yield translator.drafter.finish(_with_sentences(draft, finished), found, None, all_links)

    async def translate_in_groups(
        self, model: str, texts: Sequence[str], wanted: Wanted, *, at_once: int
    ) -> AsyncGenerator[list[Translation]]:
        """The translations of texts, so many at once, in order. They are refused before the first, or not at all."""
        translator = self.models.translators[model]
        drafts = await self._drafts(translator, texts, wanted)
        for start in range(0, len(drafts), at_once):
            done, _ = await self._finished(translator, drafts[start : start + at_once], wanted)
            yield done

    async def alternatives(self, model: str, text: str, number: int, wanted: Wanted) -> list[Alternative]:
        """What else could come after the prefix in the translation of one sentence of a text, likeliest first.

        Each of the likeliest pieces that may come next begins a translation of its own; after white space it begins a
        word as well.
        """
        translator, prefix = self.models.translators[model], wanted.prefix or ""
        (draft,) = await self._drafts(translator, [text], replace(wanted, prefix=None))
        if number >= len(draft.sentences):
            raise Refusal(422, f"sentence {number}: the text has {len(draft.sentences)}, counted from 0.")
        drafter, alone = translator.drafter, _only(draft, number)
        (sentence,) = alone.sentences
        begun = tuple(drafter.encode_prefix(prefix))
        self.limits.require("max_length", len(begun), "prefix, in pieces")
        # One more piece, and then the end: what the search keeps are the likeliest pieces.
        options = replace(wanted.options, beam=self.limits.beam, n_best=self.limits.beam)
        one_more = replace(sentence, prefix=begun, limit=len(begun) + 1, phrases=())
        (nexts,), _ = await self._search(translator, options, True, [one_more])
        joining = translator.tokenizers.target.joining_ids() if begun and prefix[-1:].isspace() else frozenset()
        chances = {
            one.ids[len(begun)]: math.exp(one.token_log_probs[len(begun)])
            for one in nexts
            if len(one.ids) > len(begun) and one.ids[len(begun)] not in joining
        }
        likeliest = sorted(chances, key=lambda id_: -chances[id_])[:ALTERNATIVES]
        limit = max(sentence.limit, len(begun) + EXTRA_LENGTH)
        drafts = [
            replace(alone, sentences=(replace(sentence, prefix=(*begun, id_), limit=limit),)) for id_ in likeliest
        ]
        found, links, _ = await self._found(translator, drafts, wanted.options, scores=True)
        return [
            Alternative(chances[id_], drafter.finish(one, hypotheses, wanted.options, links).candidates[0])
            for id_, one, hypotheses in zip(likeliest, drafts, found, strict=True)
        ]

    async def score(self, model: str, pairs: Sequence[tuple[str, str]]) -> tuple[list[PairScore], float]:
        """log p of each pair, and how many seconds they waited for their turn."""
        self._require_size([text for pair in pairs for text in pair], len(pairs))
        kind = Scoring(self.models.translators[model])
        longest = await self.aside(
            lambda: kind.longest(pairs), characters=sum(len(text) for pair in pairs for text in pair)
        )
        self.limits.require("max_length", longest, "pieces of a text or its translation, which are scored in one")
        self.require_room(len(pairs), sum(map(kind.cost, pairs)))
        done = await self.queue.submit(kind, pairs)
        return done.results, done.waited

    async def _drafts(self, translator: Translator, texts: Sequence[str], wanted: Wanted) -> list[Draft]:
        self._require_size(texts, len(texts))
        self.limits.require("beam", wanted.options.beam, "beam")
        if wanted.max_length is not None:
            self.limits.require("max_length", wanted.max_length, "max_length")
        if wanted.glossary is not None:
            self.limits.require("terms", len(wanted.glossary), "terms of the glossary")
            self.limits.require(
                "characters", sum(map(len, [*wanted.glossary, *wanted.glossary.values()])), "glossary, in characters"
            )
        drafts = await self.aside(
            lambda: translator.drafter.drafts(
                texts,
                max_length=wanted.max_length,
                prefixes=[wanted.prefix] * len(texts),
                keep=wanted.keep,
                glossary=Glossary(wanted.glossary) if wanted.glossary else None,
            ),
            characters=sum(map(len, texts)) + sum(map(len, wanted.glossary or ())),
        )
        sentences = [sentence for draft in drafts for sentence in draft.sentences]
        self.limits.require("sentences", len(sentences), "sentences")
        self.limits.require("max_length", max((len(one.prefix) for one in sentences), default=0), "prefix, in pieces")
        cost = wanted.options.beam * sum(len(sentence.ids) + 1 for sentence in sentences)
        self.require_room(len(sentences), cost)
        return drafts

    async def _finished(
        self, translator: Translator, drafts: list[Draft], wanted: Wanted
    ) -> tuple[list[Translation], float]:
        """The translation of each draft, and how many seconds they waited for their turn."""
        found, links, waited = await self._found(translator, drafts, wanted.options, wanted.scores)
        scored_by = wanted.options if wanted.scores else None
        finished = await self.aside(
            lambda: [translator.drafter.finish(*one, scored_by, links) for one in zip(drafts, found, strict=True)],
            characters=sum(len(draft.source) for draft in drafts),
        )
        self.metrics.pieces(
            source=sum(len(sentence.ids) for draft in drafts for sentence in draft.sentences),
            target=sum(len(hypotheses[0].ids) for each in found for hypotheses in each),
        )
        return finished, waited

    async def _found(
        self, translator: Translator, drafts: list[Draft], options: SearchOptions, scores: bool
    ) -> tuple[list[list[list[Hypothesis]]], PieceLinks, float]:
        """The hypotheses of each sentence of each draft, lost things put right; what is needed to place others; and how
        long they waited. A draft of which a sentence was read differently is replaced.
        """
        drafter = translator.drafter
        search = functools.partial(self._search, translator, options, scores)
        hypotheses, waited = await search([sentence for draft in drafts for sentence in draft.sentences])
        found = divided(drafts, hypotheses)
        aside = functools.partial(self.aside, characters=sum(len(draft.source) for draft in drafts))

        async def search_again(*, last: bool) -> None:
            again = await aside(lambda: drafter.again(drafts, found, most=self.limits.held, last=last))
            if again:
                second, _ = await search([one.sentence for one in again], ahead=True)
                await aside(lambda: drafter.improve(drafts, found, again, second))

        await search_again(last=False)
        torn = await aside(lambda: drafter.torn(drafts, found))
        if torn:
            mended = await self.mending.submit(Mending(translator, options, scores), torn)
            drafter.put_back(found, torn, mended.results)
            await search_again(last=True)
        pairs = drafter.to_align(drafts, found) if translator.link is not None else []
        linked = await self.queue.submit(Linking(translator), pairs, ahead=True)
        return found, dict(zip(pairs, linked.results, strict=True)), waited

    async def _search(
        self,
        translator: Translator,
        options: SearchOptions,
        scores: bool,
        sentences: Sequence[Sentence],
        *,
        ahead: bool = False,
    ) -> tuple[list[list[Hypothesis]], float]:
        """What is found for each sentence; those that are bound wait for batches of their own."""
        found: dict[int, list[Hypothesis]] = {}
        waited = 0.0
        for heavy in (False, True):
            places = [i for i, one in enumerate(sentences) if bool(one.phrases or one.prefix) is heavy]
            kind = Search(translator, options, scores, heavy)
            done = await self.queue.submit(kind, [sentences[i] for i in places], ahead=ahead)
            found.update(zip(places, done.results, strict=True))
            waited += done.waited
        return [found[i] for i in range(len(sentences))], waited

    async def aside(self, call: Callable[[], T], *, characters: int) -> T:
        """What is done with a long text is done by a thread, so that others are heard meanwhile."""
        if characters <= QUICK:
            return call()
        return await asyncio.get_running_loop().run_in_executor(self._text_threads, call)

    def _require_size(self, texts: Sequence[str], n_texts: int) -> None:
        self.limits.require("characters", sum(map(len, texts)), "text, in characters")
        self.limits.require("sentences", n_texts, "texts")

    def require_room(self, n_items: int, cost: int) -> None:
        """That so many more items can wait, and would be done in time."""
        if self.queue.waiting + n_items > self.limits.queue:
            raise Refusal(
                503,
                f"the queue has no room for {n_items} more sentences. Ask again later.",
                limit="queue",
                value=self.limits.queue,
                retry_after=self._soon(),
            )
        if self.queue.estimate(cost) > self.limits.seconds:
            raise self._too_long()

    def _soon(self) -> int:
        """Whole seconds after which most of what waits now will be done."""
        return max(1, math.ceil(self.queue.estimate(self.queue.batch_cost)))

    def _too_long(self) -> Refusal:
        return Refusal(
            503,
            f"it would take more than {self.limits.seconds:g} seconds, the most for one request. Ask again later, or "
            "for less at once.",
            limit="seconds",
            value=self.limits.seconds,
            retry_after=self._soon(),
        )

    def _observe(self, batch: Batch) -> None:
        self.metrics.batch(sentences=batch.items, seconds=batch.seconds)


def _only(draft: Draft, number: int) -> Draft:
    """One sentence of a draft, without what is around it."""
    wishes = None if draft.wishes is None else (draft.wishes[number],)
    return replace(draft, lead="", sentences=(draft.sentences[number],), gaps=("",), wishes=wishes)


def _with_sentences(draft: Draft, each: Sequence[Draft]) -> Draft:
    """A draft with the sentences of others, which have one each."""
    wishes = None if draft.wishes is None else tuple(wish for one in each for wish in one.wishes or ())
    return replace(draft, sentences=tuple(sentence for one in each for sentence in one.sentences), wishes=wishes)


def _is_held(draft: Draft) -> bool:
    """Whether a sentence must hold something, so that it is not known before its end."""
    (sentence,) = draft.sentences
    (wish,) = draft.wishes or (None,)
    return bool(sentence.prefix or sentence.core.things or (wish is not None and (wish.kept or wish.terms)))
