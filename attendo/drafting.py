"""A text on its way through a model: cut into sentences, each searched by itself, and put together again."""

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from attendo.decoding.phrases import Phrase
from attendo.decoding.search import Hypothesis, SearchOptions
from attendo.errors import ConfigError, DataError
from attendo.text.cautions import Caution, copied, odd_length, repetition
from attendo.text.corpus import trim
from attendo.text.cutting import Core, Cut, Wish, cut_text
from attendo.text.glossary import Glossary
from attendo.text.pair import TokenizerPair
from attendo.text.placing import placed
from attendo.text.segments import split_long
from attendo.text.survivors import has_border, missing
from attendo.text.tokenizer import UNK

EXTRA_LENGTH = 50  # a translation may be so many pieces longer than its source, as in the paper
LONG = 6  # pieces; what is longer, and was lost, is placed: no model has learned to copy it
MANY = 8  # things that one translation lost; where it lost more, they are placed
HELD = 100  # pieces that the search for lost terms holds at most: beyond that it would take minutes

Links = tuple[tuple[int, int], ...]  # (source word, target word), by their numbers in the texts, from 0
IdPair = tuple[tuple[int, ...], tuple[int, ...]]  # the ids of a sentence and its translation
PieceLinks = Mapping[IdPair, list[int]]  # for each target piece the source piece that belongs to it
NO_LINKS: PieceLinks = MappingProxyType({})


@dataclass(frozen=True, kw_only=True, slots=True)
class PieceScore:
    """A piece of a translation and log p(piece | source, what comes before); the last is the end of the sentence."""

    piece: str
    log_prob: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """One translation. log_prob = log p(text | source); score is that with the length penalty.

    Both are the model's own, as `Translator.score` gives them, where `scores` were asked for, and None elsewhere;
    `pieces` are the terms of log_prob, or none.
    """

    text: str
    log_prob: float | None
    score: float | None
    finished: bool  # False: cut at the length limit
    pieces: tuple[PieceScore, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class UsedTerm:
    """A glossary's term that is in the source, and whether its translation has what the glossary says."""

    source: str
    target: str
    used: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Translation:
    """What became of one text, and in how many parts it was translated.

    The candidates are best first; those that were sampled are in the order in which they were drawn. The warnings are
    about the first. So is the alignment, where one was asked for: (source word, target word), by their numbers.
    """

    source: str
    candidates: tuple[Candidate, ...]
    parts: int = 1
    warnings: tuple[Caution, ...] = ()
    terms: tuple[UsedTerm, ...] = ()
    alignment: Links | None = None

    @property
    def text(self) -> str:
        return self.candidates[0].text

    @property
    def score(self) -> float | None:
        return self.candidates[0].score

    @property
    def log_prob(self) -> float | None:
        return self.candidates[0].log_prob


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentence:
    """What an engine is asked once."""

    ids: tuple[int, ...]
    limit: int  # of the translation, in pieces
    prefix: tuple[int, ...] = ()  # what the translation begins with
    part: int = 0  # its number in the text
    phrases: tuple[Phrase, ...] = ()  # what the translation must hold
    core: Core  # what the ids spell, and what was taken out of it


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """One text, cut. A text without words has no sentences: it is its own translation."""

    source: str
    lead: str
    sentences: tuple[Sentence, ...]
    gaps: tuple[str, ...]  # one after each sentence
    wishes: tuple[Wish, ...] | None  # of each sentence; None: nothing is looked for
    n_long: int = 0  # sentences that were too long for the model, and were cut further


@dataclass(frozen=True, slots=True)
class Again:
    """A sentence that lost something, by the numbers of its draft and its own: what to ask for instead."""

    draft: int
    number: int
    sentence: Sentence
    wish: Wish


@dataclass(frozen=True, slots=True)
class Torn:
    """A sentence by the numbers of its draft and its own, and its translations, of which some lost something short."""

    draft: int
    number: int
    sentence: Sentence
    wish: Wish
    hypotheses: tuple[Hypothesis, ...]


class Drafter:
    """Cuts texts for a model, and puts what it found together.

    max_length: how many pieces a sentence may have before it is cut further. longest_target: how many a translation may
    have; None is any number. language: of the source, for the ends of its sentences.
    """

    def __init__(
        self, tokenizers: TokenizerPair, *, max_length: int, longest_target: int | None = None, language: str = ""
    ) -> None:
        self.tokenizers = tokenizers
        self.max_length = max_length
        self.longest_target = longest_target
        self.language = language

    def drafts(
        self,
        texts: Sequence[str],
        *,
        max_length: int | None = None,
        prefixes: Sequence[str | None] | None = None,
        split: bool = True,
        check: bool = True,
        keep: Sequence[Sequence[str]] | None = None,
        glossary: Glossary | None = None,
    ) -> list[Draft]:
        """Each text cut. The arguments are those of `Translator.translate_many`."""
        longest = self.longest_target
        if longest is not None and max_length is not None and max_length > longest:
            raise ConfigError(f"max_length = {max_length}: must be at most {longest}, what learned positions reach.")
        beginnings = self._encode_prefixes(prefixes, len(texts), max_length)
        before = self.tokenizers.target.before
        cuts = [
            cut_text(text, kept, self.language) if split else Cut.whole(text)
            for text, kept in zip(texts, keep or [()] * len(texts), strict=True)
        ]
        encoded = iter(self.tokenizers.source.encode_batch([core.read for cut in cuts for core in cut.cores]))
        drafts = []
        for text, cut, beginning in zip(texts, cuts, beginnings, strict=True):
            cores: list[tuple[Core, list[int]]] = []
            gaps: list[str] = []
            n_long = 0
            for core, gap in zip(cut.cores, cut.gaps, strict=True):
                ids = next(encoded)
                if check and len(ids) > self.max_length and (lifted := self._unlikely(core.kept())):
                    core = core.lifted(lifted)
                    ids = self.tokenizers.source.encode(core.read)
                parts = [(core, ids, "")]
                if len(ids) > self.max_length:
                    parts = self._shorter(core)
                    n_long += 1
                for part, part_ids, space in parts:
                    cores.append((part, part_ids))
                    gaps.append(space)
                gaps[-1] += gap
            drafts.append(
                Draft(
                    source=text,
                    lead=cut.lead,
                    sentences=tuple(
                        self._sentence(core, ids, number, beginning if number == 0 else before, max_length)
                        for number, (core, ids) in enumerate(cores)
                    ),
                    gaps=tuple(gaps),
                    wishes=tuple(core.wish(glossary) for core, _ in cores) if check else None,
                    n_long=n_long,
                )
            )
        return drafts

    def again(
        self,
        drafts: Sequence[Draft],
        found: Sequence[list[list[Hypothesis]]],
        *,
        most: int = HELD,
        last: bool = False,
    ) -> list[Again]:
        """The sentences that lost what is not put back by changing their translations, to be searched again.

        So it is with terms, which become phrases, with all else that must be held if that is little; and with what is
        long, or much, which the model does not read this time, and which is placed.

        most: pieces that phrases may have; where they have more, they are left out.
        last: where something is still lost, all but terms is placed.
        """
        again = []
        for place, number, sentence, wish, each in self._lossy(drafts, found):
            core, terms = sentence.core, any(text not in wish.kept for lost in each for text in lost)
            kept = [[text for text in lost if text in wish.kept] for lost in each]
            if lifted := {text for lost in kept for text in (wish.kept if last and lost else self._unlikely(lost))}:
                core = core.lifted(lifted)
                wish = replace(wish, kept=core.kept())
            phrases: tuple[Phrase, ...] = ()
            if terms and not last:
                phrases = self._phrases(wish if len(wish.kept) <= MANY else replace(wish, kept=()))
                phrases = phrases if room(phrases) <= most else ()
            if lifted or phrases:
                limit = self.reached(sentence.limit + room(phrases))
                ids = tuple(self.tokenizers.source.encode(core.read)) if lifted else sentence.ids
                changed = replace(sentence, core=core, ids=ids, phrases=phrases, limit=limit)
                again.append(Again(place, number, changed, wish))
        return again

    def reached(self, limit: int) -> int:
        """So many pieces, or as many as the model's positions reach."""
        return limit if self.longest_target is None else min(limit, self.longest_target)

    def torn(self, drafts: Sequence[Draft], found: Sequence[list[list[Hypothesis]]]) -> list[Torn]:
        """The sentences that lost something, their translations to be mended."""
        return [
            Torn(place, number, sentence, wish, tuple(found[place][number]))
            for place, number, sentence, wish, each in self._lossy(drafts, found)
            if any(text in wish.kept for lost in each for text in lost)
        ]

    def _lossy(
        self, drafts: Sequence[Draft], found: Sequence[list[list[Hypothesis]]]
    ) -> Iterator[tuple[int, int, Sentence, Wish, list[list[str]]]]:
        """Sentences that lost something, by the numbers of draft and sentence, and what each translation lost."""
        for place, (draft, hypotheses) in enumerate(zip(drafts, found, strict=True)):
            for number, wish in enumerate(draft.wishes or ()):
                sentence = draft.sentences[number]
                each = [self.lost(wish, one, sentence) for one in hypotheses[number]]
                if any(each):
                    yield place, number, sentence, wish, each

    def improve(
        self,
        drafts: list[Draft],
        found: Sequence[list[list[Hypothesis]]],
        again: Sequence[Again],
        second: Sequence[list[Hypothesis]],
    ) -> None:
        """Puts what a second search found in the place of what it lost less than."""
        for one, new in zip(again, second, strict=True):
            draft, old = drafts[one.draft], found[one.draft][one.number]
            assert draft.wishes is not None
            before = (draft.wishes[one.number], old, draft.sentences[one.number])
            if new and self._most_lost(one.wish, new, one.sentence) < self._most_lost(*before):
                found[one.draft][one.number] = new
                sentences, wishes = list(draft.sentences), list(draft.wishes)
                sentences[one.number], wishes[one.number] = one.sentence, one.wish
                drafts[one.draft] = replace(draft, sentences=tuple(sentences), wishes=tuple(wishes))

    def put_back(
        self, found: Sequence[list[list[Hypothesis]]], torn: Sequence[Torn], mended: Sequence[list[Hypothesis]]
    ) -> None:
        """Puts mended translations in the place of what they were."""
        for one, hypotheses in zip(torn, mended, strict=True):
            found[one.draft][one.number] = hypotheses

    def to_align(self, drafts: Sequence[Draft], found: Sequence[list[list[Hypothesis]]]) -> list[IdPair]:
        """The sentences whose alignment is to be known, because something is to be placed, and their translations."""
        pairs = (
            (sentence.ids, one.ids)
            for draft, each in zip(drafts, found, strict=True)
            for sentence, hypotheses in zip(draft.sentences, each, strict=True)
            if sentence.core.things
            for one in hypotheses
        )
        return [pair for pair in dict.fromkeys(pairs) if all(pair)]

    def finish(
        self,
        draft: Draft,
        found: Sequence[list[Hypothesis]],
        options: SearchOptions | None,
        links: PieceLinks = NO_LINKS,
    ) -> Translation:
        """The i-th candidate of a text is made of the i-th hypothesis of each sentence, and scored by the options.

        links: of the pairs of `to_align`, as far as they are known.
        """
        log_prob = score = None if options is None else 0.0
        if not draft.sentences:
            same = Candidate(text=draft.lead, log_prob=log_prob, score=score, finished=True)
            return Translation(source=draft.source, candidates=(same,))
        candidates = []
        spelled = []  # the texts of each candidate's sentences
        for chosen in zip(*found, strict=False):
            texts = [self._spelled(one, sentence, links) for one, sentence in zip(chosen, draft.sentences, strict=True)]
            spelled.append(texts)
            pieces: tuple[PieceScore, ...] = ()
            if options is not None:
                log_prob = math.fsum(one.log_prob for one in chosen)
                score = log_prob / options.penalty(sum(len(one.ids) + 1 for one in chosen))
                pieces = tuple(self._pieces(chosen))
            candidates.append(
                Candidate(
                    text=draft.lead + "".join([text + gap for text, gap in zip(texts, draft.gaps, strict=True)]),
                    log_prob=log_prob,
                    score=score,
                    finished=all(one.finished for one in chosen),
                    pieces=pieces,
                )
            )
        warnings: tuple[Caution, ...] = ()
        if draft.n_long:
            what = "a sentence is" if draft.n_long == 1 else f"{draft.n_long} sentences are"
            words = f"{what} longer than the {self.max_length} pieces the model was trained for: translated in parts"
            warnings = (Caution("long", words),)
        terms: tuple[UsedTerm, ...] = ()
        if draft.wishes is not None:
            best = [hypotheses[0] for hypotheses in found]
            each = list(zip(draft.wishes, spelled[0], strict=True))
            for (wish, text), sentence, one in zip(each, draft.sentences, best, strict=True):
                warnings += tuple(self._cautions(wish, text, sentence, one))
            terms = tuple(used for wish, text in each if wish.terms for used in self._terms(wish, text))
        return Translation(
            source=draft.source,
            candidates=tuple(candidates),
            parts=len(draft.sentences),
            warnings=warnings,
            terms=terms,
        )

    def encode_prefix(self, prefix: str, *, max_length: int | None = None) -> list[int]:
        """The ids that a translation begins with, all of them within the model's reach, or an error that says why not.

        White space at the ends is left out.
        """
        text, longest = trim(prefix), self.longest_target
        if one_line(text) != text:
            raise DataError(f"the prefix {text!r} has line breaks, and a translation is one line. Remove them.")
        encode = self.tokenizers.target.encode
        ids = encode(text)
        if UNK in ids:
            unknown = ", ".join(repr(one) for one in dict.fromkeys(text) if UNK in encode(one))
            raise DataError(
                f"the prefix {text!r} has characters that the tokenizer does not know: {unknown}. Leave them out."
            )
        if longest is not None and max_length is None and len(ids) + EXTRA_LENGTH > longest:
            raise DataError(
                f"the prefix {text!r} has {len(ids)} pieces, and with the {EXTRA_LENGTH} that may follow it is "
                f"longer than the {longest} that the model's learned positions reach. Shorten it, or set "
                f"max_length to at most {longest}."
            )
        if max_length is not None and len(ids) > max_length:
            raise ConfigError(
                f"max_length = {max_length}: the prefix {text!r} alone has {len(ids)} pieces. Allow more, or "
                "shorten the prefix."
            )
        return ids

    def _encode_prefixes(
        self, prefixes: Sequence[str | None] | None, n_texts: int, max_length: int | None
    ) -> list[tuple[int, ...]]:
        """The ids that the translation of each text begins with; texts of one prefix share them."""
        before = self.tokenizers.target.before
        if prefixes is not None and len(prefixes) != n_texts:
            raise DataError(
                f"there are {n_texts} texts and {len(prefixes)} prefixes. Give each text one; an empty one is none."
            )
        if prefixes is None or not any(prefixes):
            return [before] * n_texts
        encoded = {
            one: tuple(self.encode_prefix(one, max_length=max_length)) if one else before
            for one in dict.fromkeys(prefixes)
        }
        return [encoded[one] for one in prefixes]

    def _sentence(
        self, core: Core, ids: list[int], number: int, prefix: tuple[int, ...], max_length: int | None
    ) -> Sentence:
        limit = max_length or max(len(ids), len(prefix)) + EXTRA_LENGTH
        return Sentence(
            ids=tuple(ids),
            limit=self.reached(limit),
            prefix=prefix,
            part=number,
            core=core,
        )

    def _shorter(self, core: Core) -> list[tuple[Core, list[int], str]]:
        """A sentence that is too long, in parts, each with its ids and the white space that follows it."""
        encode = self.tokenizers.source.encode

        def of(part: str) -> Core:
            return Core.of(part, core.marks, core.taken)

        parts = split_long(core.marked, limit=self.max_length, count=lambda part: len(encode(of(part).read)))
        return [((one := of(part)), encode(one.read), space) for part, space in parts]

    def _unlikely(self, texts: Sequence[str]) -> list[str]:
        """What of it no translation will hold: what is long, or all of it if that is much."""
        if len(texts) > MANY:
            return list(texts)
        encoded = self.tokenizers.target.encode_inside(texts)
        return [text for text, ids in zip(texts, encoded, strict=True) if len(ids) > LONG]

    def lost(self, wish: Wish, hypothesis: Hypothesis, sentence: Sentence) -> list[str]:
        """What of it is not in a hypothesis; where things are placed does not matter for that."""
        return wish.lost(self._spelled(hypothesis, sentence)) if wish.kept or wish.terms else []

    def _most_lost(self, wish: Wish, hypotheses: Sequence[Hypothesis], sentence: Sentence) -> int:
        return max((len(self.lost(wish, one, sentence)) for one in hypotheses), default=0)

    def _phrases(self, wish: Wish) -> tuple[Phrase, ...]:
        """What the translation must hold, in ids."""
        phrases = []
        for text in wish.kept:
            before = wish.text[: max(0, wish.text.find(text))]
            phrases.append(self._phrase(text, [self.spelling(wish, text, before)]))
        for term in wish.terms:
            forms = term.forms()
            phrases.append(self._phrase(forms[0], [*map(tuple, self.tokenizers.target.encode_inside(forms))]))
        return tuple(phrases)

    def _phrase(self, text: str, alternatives: Sequence[tuple[int, ...]]) -> Phrase:
        """A word stands alone."""
        not_before = self.joining if has_border(text[-1]) else frozenset()
        return Phrase(alternatives=tuple(alternatives), not_before=not_before)

    def spelling(self, wish: Wish, text: str, before: str) -> tuple[int, ...]:
        """The ids of something that must be held, after this part of a translation: after a space, or right after what
        touches it from the left in the source as well.
        """
        place = wish.text.find(text)
        left = wish.text[max(0, place - 1) : max(0, place)]
        target = self.tokenizers.target
        touching = left.strip() and before.endswith(left) and not has_border(text[0])
        return tuple(target.encode_after(text) if touching else target.encode_inside([text])[0])

    @functools.cached_property
    def joining(self) -> frozenset[int]:
        """The ids that go on with a word."""
        return self.tokenizers.target.joining_ids()

    def _spelled(self, hypothesis: Hypothesis, sentence: Sentence, links: PieceLinks = NO_LINKS) -> str:
        """The text of a hypothesis: one line, with what is to be placed in its place."""
        source, target = self.tokenizers.source, self.tokenizers.target
        text, things = one_line(target.decode(hypothesis.ids)), list(sentence.core.things)
        if sentence.prefix and things:  # what it begins with may have some of them
            given = [one.text for one in things]
            lacking = missing(given, target.decode(sentence.prefix))
            things = [one for one in things if one.text in lacking]
        if not things:
            return text
        pieces = links.get((sentence.ids, hypothesis.ids))
        if pieces is None:
            return placed(things, sentence.core.read, text, None)
        ours, theirs = source.places(sentence.core.read, sentence.ids), target.places(text, hypothesis.ids)
        spans = [(ours[place], span) for place, span in zip(pieces, theirs, strict=True)]
        return placed(things, sentence.core.read, text, spans)

    def _pieces(self, chosen: Sequence[Hypothesis]) -> Iterator[PieceScore]:
        for one in chosen:
            pieces = [*self.tokenizers.target.pieces(one.ids), ""]
            for piece, log_prob in zip(pieces, one.token_log_probs, strict=False):
                yield PieceScore(piece=piece, log_prob=log_prob)

    def _cautions(self, wish: Wish, text: str, sentence: Sentence, best: Hypothesis) -> Iterator[Caution]:
        lost = wish.lost(text) if wish.kept or wish.terms else []
        if lost:
            yield Caution("lost", f"not in the translation: {', '.join(map(repr, lost))}")
        if not best.finished:
            yield Caution("cut", f"cut at the limit of {sentence.limit} pieces")
        for caution in (
            repetition(wish.text, text),
            odd_length(len(sentence.ids), len(best.ids)),
            copied(wish.text, text),
        ):
            if caution is not None:
                yield caution

    def _terms(self, wish: Wish, text: str) -> Iterator[UsedTerm]:
        lost = wish.lost_terms(text)
        for term in wish.terms:
            if term in lost:
                lost.remove(term)
                yield UsedTerm(source=term.source, target=term.target, used=False)
            else:
                yield UsedTerm(source=term.source, target=term.target, used=True)


def divided(drafts: Sequence[Draft], hypotheses: Sequence[list[Hypothesis]]) -> list[list[list[Hypothesis]]]:
    """What was found for all sentences of several drafts, one after the other, by draft."""
    rest = iter(hypotheses)
    return [[next(rest) for _ in draft.sentences] for draft in drafts]


def room(phrases: Sequence[Phrase]) -> int:
    """How many pieces a translation needs at least to hold them."""
    return sum(min(map(len, phrase.alternatives)) for phrase in phrases)


def one_line(text: str) -> str:
    """A model can spell a line break; one line in is one line out."""
    return text.replace("\n", " ").replace("\r", " ")
