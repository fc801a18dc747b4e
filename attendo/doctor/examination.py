"""A corpus examined from the first line to the last: read several times, kept in memory as a few numbers a pair."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from attendo.doctor.duplicates import (
    alike,
    band_keys,
    candidates,
    of_several,
    pair_hashes,
    repeated,
    word_sets,
)
from attendo.doctor.files import CHUNK, Chunk, begins_with_mark, count_lines, read_chunks
from attendo.doctor.findings import KINDS, Findings, bits_for
from attendo.doctor.languages import Identifier, Strangers, in_other_language, likelihoods
from attendo.doctor.lexical import MOST_PAIRS, Bitext, Lexicon, concatenate
from attendo.doctor.lines import Hashes, Lines, Mask
from attendo.doctor.pairs import check_pairs
from attendo.doctor.parting import Parting, find_parting
from attendo.doctor.ratios import unequal_lengths
from attendo.doctor.shifts import find_shifts, suspicious
from attendo.doctor.statistics import Vocabulary, pieces_per_word, side_facts
from attendo.reporting import Reporter, Silent
from attendo.text.corpus import CorpusFiles, Pair

Numbers = NDArray[np.int64]
Floats = NDArray[np.float32]
T = TypeVar("T", bound=np.generic)

SAMPLES = 3  # pairs shown of each kind
USUAL_SCRIPT = 0.05  # share of a side's letters that makes a script usual there
MOST_SAMPLED = 10_000  # pairs that pieces are learned from
FEWEST_PAIRS = 1_000  # from which words can be learned
MOST_LEADERS = 500_000  # pairs kept to compare later ones with
CHANCE = 0.99  # of pairs put together by chance, the share that scores less than a pair that is believed
UNUSUAL = 3.0  # standard deviations below the usual score: what is better than that is never doubtful


@dataclass(frozen=True)
class Sample:
    """A pair to show: its number from 0, its texts, and what there is to say about it."""

    number: int
    source: str
    target: str
    note: str = ""


@dataclass(frozen=True)
class Stretch:
    """Pairs first … last, from 0, in which the target is `shift` lines too far down."""

    first: int
    last: int
    shift: int


@dataclass(frozen=True, kw_only=True)
class Examination:
    """What was found."""

    files: CorpusFiles
    quick: bool
    findings: Findings
    samples: dict[str, list[Sample]]
    parting: Parting | None
    stretches: list[Stretch]
    marked: list[str]  # files that begin with a byte order mark
    facts: dict[str, Any]

    @property
    def broken(self) -> bool:
        return any(kind.broken and self.findings.count(kind.name) for kind in KINDS)

    @property
    def dropped(self) -> Mask:
        """(N,): the pairs that cleaning drops."""
        return (self.findings.bits & bits_for("drop")) != 0

    @property
    def repaired(self) -> Mask:
        return (self.findings.bits & bits_for("repair")) != 0


@dataclass
class _Reading:
    """What the first reading keeps: lists with an array for each chunk."""

    found: list[NDArray[np.uint64]] = field(default_factory=list)
    characters: list[NDArray[np.uint32]] = field(default_factory=list)  # (n, 2)
    words: list[NDArray[np.uint16]] = field(default_factory=list)  # (n, 2)
    hashes: list[Hashes] = field(default_factory=list)  # (n, 2)
    scripts: list[NDArray[np.uint8]] = field(default_factory=list)  # (n, 2)
    returns: list[Mask] = field(default_factory=list)  # (n, 2)
    bands: list[NDArray[np.uint32]] = field(default_factory=list)  # (n, bands)
    script_counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros((2, 256), dtype=np.int64))
    vocabularies: tuple[Vocabulary, Vocabulary] = field(default_factory=lambda: (Vocabulary(), Vocabulary()))
    identifier: Identifier = field(default_factory=Identifier)
    sampled: list[Pair] = field(default_factory=list)


@dataclass
class _Thinned:
    """Pairs to learn words from: all of a small corpus, every second, fourth, … of a larger one."""

    texts: list[Bitext] = field(default_factory=list)
    numbers: list[Numbers] = field(default_factory=list)
    stride: int = 1

    def add(self, chunk: Chunk, sound: Mask) -> None:
        chosen = np.flatnonzero(sound & ((np.arange(len(chunk)) + chunk.first) % self.stride == 0))
        self.texts.append(Bitext.of(chunk.source, chunk.target).select(chosen, chosen))
        self.numbers.append(chosen + chunk.first)
        while sum(map(len, self.numbers)) > MOST_PAIRS:
            self.stride *= 2
            kept = [np.flatnonzero(numbers % self.stride == 0) for numbers in self.numbers]
            self.texts = [text.select(some, some) for text, some in zip(self.texts, kept, strict=True)]
            self.numbers = [numbers[some] for numbers, some in zip(self.numbers, kept, strict=True)]


@dataclass(frozen=True)
class _Other:
    """Validation or test set, as what it is compared by."""

    name: str  # in_… and near_… are the kinds
    skeletons: tuple[Hashes, Hashes]
    bands: NDArray[np.uint32]
    sets: list[Hashes]
    words: tuple[Hashes, Hashes]


def examine(
    files: CorpusFiles,
    *,
    valid: CorpusFiles | None = None,
    test: CorpusFiles | None = None,
    quick: bool = False,
    most: int | None = None,
    pieces: bool = True,
    reporter: Reporter | None = None,
) -> Examination:
    """Looks for every kind of fault there is.

    quick: without what needs a second reading: languages, word tables, shifts, near duplicates, pieces
    most: the first so many pairs only
    pieces: whether to learn vocabularies of several sizes, which takes longest
    """
    reporter = reporter or Silent()
    others = [_other(name, other) for name, other in (("valid", valid), ("test", test)) if other is not None]
    thinned = _Thinned()
    reading = _Reading()
    near: list[tuple[str, Numbers]] = []
    for chunk in reporter.track(read_chunks(files, most=most), "Reading"):
        found = check_pairs(chunk)
        for other in others:
            both = zip((chunk.source, chunk.target), other.skeletons, strict=True)
            found.mark(f"in_{other.name}", np.logical_or(*(np.isin(side.skeletons, known) for side, known in both)))
        sound = (found.bits & bits_for("drop")) == 0
        _note(reading, chunk, found, sound, quick)
        if not quick:
            reading.bands.append(band_keys(chunk.source, chunk.target))
            thinned.add(chunk, sound)
            near += [(f"near_{other.name}", _near(chunk, reading.bands[-1], other)) for other in others]
    for vocabulary in reading.vocabularies:
        vocabulary.settle()
    found = Findings(_taken(reading.found))
    for name, numbers in near:
        found.mark(name, numbers)
    parting = _parting(files, found)
    _compare(found, reading)
    stretches: list[Stretch] = []
    scores: Floats | None = None
    if not quick:
        words = _learned_words(thinned, len(found), reporter)
        total = -(-len(found) // CHUNK)
        compared = _second_reading(files, found, reading.identifier, words, reporter, total)
        stretches = _third_reading(files, found, reading, words, compared, reporter, total)
        scores = compared.scores
    findings = found.explained()
    facts = _facts(reading, others, pieces=pieces and not quick)
    samples = _samples(files, findings, scores, stretches)
    marked = [path for path in (files.source, files.target) if path is not None and begins_with_mark(path)]
    return Examination(
        files=files,
        quick=quick,
        findings=findings,
        samples=samples,
        parting=parting,
        stretches=stretches,
        marked=marked,
        facts=facts,
    )


def _note(reading: _Reading, chunk: Chunk, found: Findings, sound: Mask, quick: bool) -> None:
    sides = (chunk.source, chunk.target)
    reading.found.append(found.bits)
    reading.characters.append(np.stack([side.lengths for side in sides], axis=1).astype(np.uint32))
    reading.words.append(np.minimum(np.stack([side.words.counts for side in sides], axis=1), 65_535).astype(np.uint16))
    reading.hashes.append(np.stack([side.hashes for side in sides], axis=1))
    reading.scripts.append(np.stack([side.main_scripts for side in sides], axis=1))
    reading.returns.append(chunk.returns)
    for number, side in enumerate(sides):
        reading.script_counts[number] += side.script_counts()
        reading.vocabularies[number].add(side.words.hashes)
    if not quick:
        reading.identifier.learn(*sides, sound)
        if len(reading.sampled) < MOST_SAMPLED:
            reading.sampled += [chunk.pair(number) for number in np.flatnonzero(sound)[: MOST_SAMPLED // 4]]


def _whole(parts: list[NDArray[T]]) -> NDArray[T]:
    """The parts as one, which from then on is all that is kept of them; no more than one is there twice meanwhile."""
    if len(parts) > 1:
        whole = np.empty((sum(map(len, parts)), *parts[0].shape[1:]), dtype=parts[0].dtype)
        end = len(whole)
        while parts:
            part = parts.pop()
            whole[end - len(part) : end] = part
            end -= len(part)
        parts.append(whole)
    return parts[0]


def _taken(parts: list[NDArray[T]]) -> NDArray[T]:
    """The same, for whoever is the last to need it."""
    whole = _whole(parts)
    parts.clear()
    return whole


def _parting(files: CorpusFiles, found: Findings) -> Parting | None:
    """Where the two files part, if one is longer; from there on no pair is one."""
    if files.target is None or not found.count("unpaired"):
        return None
    counts = count_lines(files.source), count_lines(files.target)
    parting = find_parting(files, *(reversed(counts) if files.reverse else counts))
    found.mark("unpaired", np.arange(len(found)) >= parting.line)
    return parting


def _compare(found: Findings, reading: _Reading) -> None:
    """The faults that show in the numbers kept of all pairs."""
    returns = _taken(reading.returns)
    for side in range(2):
        share = returns[:, side].mean()
        found.mark("line_ends", returns[:, side] != (share > 0.5))
    scripts = _taken(reading.scripts)
    for side in range(2):
        counts = reading.script_counts[side]
        usual = np.flatnonzero(counts > USUAL_SCRIPT * max(1, counts.sum()))
        found.mark("wrong_script", ~np.isin(scripts[:, side], [0, *usual]))
    hashes = _taken(reading.hashes)
    found.mark("duplicate", repeated(pair_hashes(hashes[:, 0], hashes[:, 1])))
    found.mark("several_targets", of_several(hashes[:, 0], hashes[:, 1]))
    sound = (found.explained().bits & bits_for("drop")) == 0
    words = _whole(reading.words).astype(np.uint32)
    lengths = _whole(reading.characters)
    far = unequal_lengths(lengths[:, 0], lengths[:, 1], sound) | unequal_lengths(words[:, 0], words[:, 1], sound)
    found.mark("length_ratio", far)


@dataclass(frozen=True)
class _Learned:
    """Word tables; the pairs they are from, (N,); what half of the pairs put together by chance score, and most do."""

    lexicon: Lexicon
    learned_from: Mask
    by_chance: float
    at_most: float


@dataclass(frozen=True)
class _Compared:
    """scores (N,): how well the words of each pair explain each other, nan where that cannot be said.

    strangers: of each side
    """

    scores: Floats
    strangers: tuple[Strangers, Strangers]


def _learned_words(thinned: _Thinned, n_pairs: int, reporter: Reporter) -> _Learned | None:
    text = concatenate(thinned.texts)
    if len(text) < FEWEST_PAIRS:
        return None
    learned_from = np.zeros(n_pairs, dtype=np.bool_)
    learned_from[np.concatenate(thinned.numbers)] = True
    lexicon = Lexicon(text, reporter)
    some = np.arange(0, len(text), max(1, len(text) // 20_000))
    scores, enough = lexicon.scores(text.select(some, np.roll(some, 7)), np.zeros(len(some), dtype=np.bool_))
    middle, most = np.quantile(scores[enough], (0.5, CHANCE)) if enough.any() else (0.0, 0.0)
    return _Learned(lexicon, learned_from, float(middle), float(most))


def _second_reading(
    files: CorpusFiles,
    found: Findings,
    identifier: Identifier,
    words: _Learned | None,
    reporter: Reporter,
    total: int,
) -> _Compared:
    """Every line compared with what was learned: wrong languages and doubtful pairs."""
    log_probs = identifier.log_probs()
    compared = _Compared(
        np.full(len(found), np.nan, dtype=np.float32),
        (Strangers(identifier, 0), Strangers(identifier, 1)),
    )
    for chunk in reporter.track(read_chunks(files, most=len(found)), "Comparing", total):
        place = slice(chunk.first, chunk.first + len(chunk))
        part = Findings(found.bits[place])
        for side, lines in enumerate((chunk.source, chunk.target)):
            likelihood, numbers = likelihoods(lines, log_probs)
            part.mark("wrong_language", in_other_language(likelihood[side], likelihood[1 - side], numbers))
            sound = (part.explained().bits & bits_for("drop")) == 0
            compared.strangers[side].gather(lines, likelihood[side], numbers, sound)
        if words is not None:
            scores, enough = words.lexicon.scores(Bitext.of(chunk.source, chunk.target), words.learned_from[place])
            compared.scores[place] = np.where(enough, scores, np.nan)
    if words is not None:
        found.mark("doubtful", compared.scores < min(words.at_most, _unusual(compared.scores)))
    return compared


def _unusual(scores: Floats) -> float:
    """The score below which a pair is unusual."""
    middle = np.nanmedian(scores)
    return float(middle - UNUSUAL * 1.4826 * np.nanmedian(np.abs(scores - middle)))


def _third_reading(
    files: CorpusFiles,
    found: Findings,
    reading: _Reading,
    words: _Learned | None,
    compared: _Compared,
    reporter: Reporter,
    total: int,
) -> list[Stretch]:
    """Every suspicion looked into: foreign lines, shifts, near duplicates."""
    sound = (found.explained().bits & bits_for("drop")) == 0
    shifts = np.zeros(len(found), dtype=np.int8)
    suspects, low = np.zeros(len(found), dtype=np.bool_), 0.0
    if words is not None:
        usual = float(np.nanmedian(compared.scores))
        low = (words.by_chance + usual) / 2
        suspects = suspicious(np.nan_to_num(compared.scores, nan=usual), low)
    bands = _taken(reading.bands)
    bands[~sound] = 0  # what is dropped anyway is not compared
    near = _NearDuplicates(bands)
    del bands
    for chunk in reporter.track(read_chunks(files, most=len(found)), "Verifying", total):
        place = slice(chunk.first, chunk.first + len(chunk))
        part = Findings(found.bits[place])
        for side, lines in enumerate((chunk.source, chunk.target)):
            part.mark("foreign", compared.strangers[side].foreign(lines, sound[place]))
        if words is not None and suspects[place].any():
            text = Bitext.of(chunk.source, chunk.target)
            shifts[place] = find_shifts(text, words.lexicon, suspects[place], words.learned_from[place], low)
        part.mark("near_duplicate", near.verified(chunk))
    found.mark("shifted", shifts != 0)
    borders = np.flatnonzero(np.diff(shifts, prepend=0, append=0))
    return [Stretch(int(begin), int(end) - 1, int(shifts[begin])) for begin, end in pairwise(borders) if shifts[begin]]


class _NearDuplicates:
    """Pairs that may be nearly the same as an earlier one, each compared with it when both were read."""

    def __init__(self, bands: NDArray[np.uint32]) -> None:
        later, first = (np.concatenate(side) for side in zip(*candidates(bands), strict=True))
        order = np.argsort(later, kind="stable")
        self.later, self.first = later[order], first[order]
        self.leaders = np.unique(first)[:MOST_LEADERS]
        self.words: dict[int, Hashes] = {}

    def verified(self, chunk: Chunk) -> Numbers:
        """The numbers within the chunk of its near duplicates."""
        first, last = chunk.first, chunk.first + len(chunk)
        here = slice(*np.searchsorted(self.later, (first, last)))
        leaders = self.leaders[slice(*np.searchsorted(self.leaders, (first, last)))]
        asked = np.unique(np.concatenate([self.later[here], leaders])) - first
        words = dict(zip((asked + first).tolist(), word_sets(chunk.source, chunk.target, asked), strict=True))
        self.words |= {number: words[number] for number in leaders.tolist()}
        near = [
            later - first
            for later, leader in zip(self.later[here].tolist(), self.first[here].tolist(), strict=True)
            if leader in self.words and alike(words[later], self.words[leader])
        ]
        return np.unique(np.array(near, dtype=np.int64))


def _other(name: str, files: CorpusFiles) -> _Other:
    chunks = list(read_chunks(files))
    sides = [[chunk.source for chunk in chunks], [chunk.target for chunk in chunks]]
    return _Other(
        name,
        _each(sides, lambda lines: lines.skeletons[lines.words.counts > 0]),
        np.concatenate([band_keys(chunk.source, chunk.target) for chunk in chunks]),
        [words for chunk in chunks for words in word_sets(chunk.source, chunk.target, np.arange(len(chunk)))],
        _each(sides, lambda lines: lines.words.hashes),
    )


def _each(sides: list[list[Lines]], of: Callable[[Lines], Hashes]) -> tuple[Hashes, Hashes]:
    source, target = (np.concatenate([of(lines) for lines in side]) for side in sides)
    return source, target


def _near(chunk: Chunk, bands: NDArray[np.uint32], other: _Other) -> Numbers:
    """The numbers of the chunk's pairs that are nearly the same as one of another set."""
    near = []
    for band in range(bands.shape[1]):
        order = np.argsort(other.bands[:, band], kind="stable")
        ordered = other.bands[order, band]
        places = np.minimum(np.searchsorted(ordered, bands[:, band]), len(ordered) - 1)
        equal = np.flatnonzero((ordered[places] == bands[:, band]) & (bands[:, band] != 0))
        sets = word_sets(chunk.source, chunk.target, equal)
        near += [
            int(number)
            for number, words in zip(equal, sets, strict=True)
            if alike(words, other.sets[int(order[places[number]])])
        ]
    return np.unique(np.array(near, dtype=np.int64)) + chunk.first


def _facts(reading: _Reading, others: list[_Other], *, pieces: bool) -> dict[str, Any]:
    words, lengths = _whole(reading.words), _whole(reading.characters)
    facts: dict[str, Any] = {"pairs": len(words)}
    for number, side in enumerate(("source", "target")):
        facts[side] = side_facts(
            reading.vocabularies[number], lengths[:, number], words[:, number], reading.script_counts[number]
        )
    facts["unseen_words"] = {
        other.name: {
            side: round(reading.vocabularies[number].unseen(other.words[number]), 4)
            for number, side in enumerate(("source", "target"))
        }
        for other in others
    }
    facts["pieces_per_word"] = pieces_per_word(reading.sampled) if pieces else []
    return facts


def _samples(
    files: CorpusFiles, findings: Findings, scores: Floats | None, stretches: list[Stretch]
) -> dict[str, list[Sample]]:
    """The first pairs of each kind; of the doubtful ones the worst. Read again no further than needed."""
    wanted = {kind.name: findings.first(kind.name, SAMPLES) for kind in KINDS}
    notes: dict[tuple[str, int], str] = {}
    if scores is not None:
        doubtful = np.flatnonzero(findings.having("doubtful"))
        worst = doubtful[np.argsort(scores[doubtful], kind="stable")][:SAMPLES]
        wanted["doubtful"] = [int(number) for number in worst]
        notes |= {("doubtful", int(number)): f"score {scores[number]:.2f}" for number in worst}
    shifted = findings.having("shifted")
    shown = [stretch for stretch in stretches if shifted[stretch.first]][:SAMPLES]
    if shown:
        wanted["shifted"] = [stretch.first for stretch in shown]
        notes |= {("shifted", stretch.first): _in_words(stretch) for stretch in shown}
    numbers = {number for some in wanted.values() for number in some}
    pairs: dict[int, Pair] = {}
    if numbers:
        for chunk in read_chunks(files, most=max(numbers) + 1):
            here = range(chunk.first, chunk.first + len(chunk))
            pairs |= {number: chunk.pair(number - chunk.first) for number in numbers if number in here}
    return {
        name: [Sample(number, *pairs[number], notes.get((name, number), "")) for number in some]
        for name, some in wanted.items()
        if some
    }


def _in_words(stretch: Stretch) -> str:
    lines = f"{abs(stretch.shift)} line{'s' if abs(stretch.shift) > 1 else ''}"
    direction = "below" if stretch.shift > 0 else "above"
    return f"pairs {stretch.first + 1:,} to {stretch.last + 1:,}: each target stands {lines} {direction} its source"
