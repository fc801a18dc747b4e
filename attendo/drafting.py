"""A text on its way through a model: cut into sentences, each searched by itself, and put together again."""

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from attendo.decoding.phrases import Phrase
from attendo.decoding.search import Hypothesis, SearchOptions
from attendo.errors import ConfigError, DataError
from attendo.text.cautions import Caution, copied, odd_length, repetition
from attendo.text.corpus import trim
from attendo.text.cutting import Core, Cut, Markup, Wish, cut_text
from attendo.text.glossary import Glossary
from attendo.text.pair import TokenizerPair
from attendo.text.segments import split_long
from attendo.text.survivors import has_border
from attendo.text.tokenizer import UNK

EXTRA_LENGTH = 50  # a translation may be so many pieces longer than its source, as in the paper

Links = tuple[tuple[int, int], ...]  # (source word, target word), by their numbers in the texts, from 0


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
    text: str = ""  # what the ids spell
    markup: tuple[Markup, ...] = ()  # what was taken out of it


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
    """A sentence that lost something, the one with this number of its draft: what to ask for instead.

    found: what was found for the draft's sentences, in which `Drafter.mend` replaces what a second search did better.
    """

    draft: Draft
    found: list[list[Hypothesis]]
    number: int
    sentence: Sentence


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
                        self._sentence(core, ids, number, beginning if number == 0 else (), max_length)
                        for number, (core, ids) in enumerate(cores)
                    ),
                    gaps=tuple(gaps),
                    wishes=tuple(core.wish(glossary) for core, _ in cores) if check else None,
                    n_long=n_long,
                )
            )
        return drafts

    def lost(self, draft: Draft, found: Sequence[list[Hypothesis]]) -> dict[int, Sentence]:
        """The sentences, by their number, that lost what they must hold, to be searched again with all of it."""
        again = {}
        for number, (wish, sentence, hypotheses) in enumerate(
            zip(draft.wishes or (), draft.sentences, found, strict=draft.wishes is not None)
        ):
            if not (wish.kept or wish.terms):
                continue
            if any(wish.lost(self._spelled(one, wish)) for one in hypotheses):
                phrases = self._phrases(wish)
                limit = sentence.limit + room(phrases) if self.longest_target is None else sentence.limit
                again[number] = replace(sentence, phrases=phrases, limit=limit)
        return again

    def better(self, draft: Draft, number: int, new: Sequence[Hypothesis], old: Sequence[Hypothesis]) -> bool:
        """Whether a second search of a sentence lost less than the first."""
        assert draft.wishes is not None
        wish = draft.wishes[number]
        lost = [max((len(wish.lost(self._spelled(one, wish))) for one in group), default=0) for group in (new, old)]
        return bool(new) and lost[0] < lost[1]

    def again(self, drafts: Sequence[Draft], found: Sequence[list[list[Hypothesis]]]) -> list[Again]:
        """What of several drafts is to be searched again."""
        return [
            Again(draft, kept, number, sentence)
            for draft, kept in zip(drafts, found, strict=True)
            for number, sentence in self.lost(draft, kept).items()
        ]

    def mend(self, again: Sequence[Again], second: Sequence[list[Hypothesis]]) -> None:
        """Puts what a second search found in the place of what it lost less than."""
        for one, new in zip(again, second, strict=True):
            if self.better(one.draft, one.number, new, one.found[one.number]):
                one.found[one.number] = new

    def finish(self, draft: Draft, found: Sequence[list[Hypothesis]], options: SearchOptions | None) -> Translation:
        """The i-th candidate of a text is made of the i-th hypothesis of each sentence, and scored by the options."""
        log_prob = score = None if options is None else 0.0
        if not draft.sentences:
            same = Candidate(text=draft.lead, log_prob=log_prob, score=score, finished=True)
            return Translation(source=draft.source, candidates=(same,))
        wishes: Sequence[Wish | None] = draft.wishes or [None] * len(found)
        candidates = []
        spelled = []  # the texts of each candidate's sentences
        for chosen in zip(*found, strict=False):
            texts = [self._spelled(one, wish) for one, wish in zip(chosen, wishes, strict=True)]
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
        if prefixes is not None and len(prefixes) != n_texts:
            raise DataError(
                f"there are {n_texts} texts and {len(prefixes)} prefixes. Give each text one; an empty one is none."
            )
        if prefixes is None or not any(prefixes):
            return [()] * n_texts
        encoded = {
            one: tuple(self.encode_prefix(one, max_length=max_length)) if one else () for one in dict.fromkeys(prefixes)
        }
        return [encoded[one] for one in prefixes]

    def _sentence(
        self, core: Core, ids: list[int], number: int, prefix: tuple[int, ...], max_length: int | None
    ) -> Sentence:
        phrases = self._phrases(Wish(core.read, core.markup)) if core.markup else ()
        return Sentence(
            ids=tuple(ids),
            limit=max_length or max(len(ids), len(prefix)) + room(phrases) + EXTRA_LENGTH,
            prefix=prefix,
            part=number,
            phrases=phrases,
            text=core.read,
            markup=core.markup,
        )

    def _shorter(self, core: Core) -> list[tuple[Core, list[int], str]]:
        """A sentence that is too long, in parts, each with its ids and the white space that follows it."""
        encode = self.tokenizers.source.encode
        parts = split_long(
            core.marked, limit=self.max_length, count=lambda part: len(encode(Core.of(part, core.marks).read))
        )
        return [((one := Core.of(part, core.marks)), encode(one.read), space) for part, space in parts]

    def _phrases(self, wish: Wish) -> tuple[Phrase, ...]:
        """What the translation must hold, in ids. Markup comes in its order; everything else where it likes."""
        phrases = [
            self._phrase((one.text,), left=one.left, after=number - 1 if number else None)
            for number, one in enumerate(wish.markup)
        ]
        for text in wish.kept:
            place = wish.text.find(text)
            phrases.append(self._phrase((text,), left=wish.text[max(0, place - 1) : max(0, place)]))
        phrases += [self._phrase(term.forms()) for term in wish.terms]
        return tuple(phrases)

    def _phrase(self, texts: Sequence[str], *, left: str = "", after: int | None = None) -> Phrase:
        """One of the texts: after a space, or, where there is something to its left in the source, right after it.

        A word stands alone.
        """
        target = self.tokenizers.target
        alternatives = []
        for text in texts:
            before, both = target.encode("a"), target.encode("a" + text)
            if left.strip() and not has_border(text[0]) and both[: len(before)] == before:
                alternatives.append(tuple(both[len(before) :]))
            else:
                alternatives.append(tuple(target.encode(text)))
        not_before = self._joining if has_border(texts[0][-1]) else frozenset()
        return Phrase(alternatives=tuple(alternatives), after=after, not_before=not_before)

    @functools.cached_property
    def _joining(self) -> frozenset[int]:
        return self.tokenizers.target.joining_ids()

    def _spelled(self, hypothesis: Hypothesis, wish: Wish | None) -> str:
        """The text of a hypothesis: one line, with its markup close to what it belongs to."""
        text, place = one_line(self.tokenizers.target.decode(hypothesis.ids)), 0
        for one in wish.markup if wish is not None else ():
            text, place = one.placed(text, place)
        return text

    def _pieces(self, chosen: Sequence[Hypothesis]) -> Iterator[PieceScore]:
        for one in chosen:
            pieces = [*self.tokenizers.target.pieces(one.ids), ""]
            for piece, log_prob in zip(pieces, one.token_log_probs, strict=False):
                yield PieceScore(piece=piece, log_prob=log_prob)

    def _cautions(self, wish: Wish, text: str, sentence: Sentence, best: Hypothesis) -> Iterator[Caution]:
        lost = wish.lost(text) if wish.markup or wish.kept or wish.terms else []
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
