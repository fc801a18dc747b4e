"""Where two files of unequal length part: the line from which every source stands beside the wrong target."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attendo.doctor.files import read_chunks
from attendo.doctor.lexical import Bitext, Lexicon, concatenate
from attendo.doctor.lines import Lines
from attendo.doctor.pairs import numbers_of
from attendo.reporting import Silent
from attendo.text.corpus import CorpusFiles, Pair

Floats = NDArray[np.float64]

USUAL_SPREAD = 0.25  # of log (target length / source length), in pairs that belong together
WINDOW = 5_000  # lines around the first guess that words are learned from
DOUBTFUL = 200  # lines around it that are not learned from
FEWEST_PAIRS = 500  # that words can be learned from
BESIDE = 3  # lines shown before and after


@dataclass(frozen=True)
class Parting:
    """line: the first pair that is wrong, from 0; beside: (line, source, target) around it."""

    n_source: int
    n_target: int
    line: int
    beside: tuple[tuple[int, str, str], ...]


@dataclass(frozen=True)
class _Outline:
    """What is compared of each line of a side: the log of its length, its numbers, the sign at its end; (N,) each."""

    lengths: Floats
    numbers: NDArray[np.uint64]
    signs: NDArray[np.uint32]


def find_parting(files: CorpusFiles, n_source: int, n_target: int) -> Parting:
    """The most likely line, by lengths, numbers and last signs first, then by words learned from what is around it.

    With d targets more than sources, it is the L that maximises Σ_{i<L} sim(i, i) + Σ_{i≥L} sim(i, i + d).
    """
    line, shift = 0, n_target - n_source
    if min(n_source, n_target):
        source, target = _outlines(files, n_source, n_target)
        line = _best_cut(_similar(source, target, 0), _similar(source, target, shift), shift)
        line = _refined(files, line, n_source, n_target)
    beside = tuple((number, *pair) for number, pair in _lines_between(files, max(0, line - BESIDE), line + BESIDE + 1))
    return Parting(n_source, n_target, line, beside)


def _best_cut(before: Floats, after: Floats, shift: int) -> int:
    """L that maximises Σ_{i<L} before_i + Σ_{i≥L} after_i, where sources that lost their target count for neither."""
    totals, later = (np.concatenate([[0.0], np.cumsum(values)]) for values in (before, after))
    cuts = np.arange(len(before) - max(0, -shift) + 1)
    gains = totals[cuts] - later[cuts + max(0, -shift)]
    return int(cuts[gains == gains.max()][-1])  # as late as nothing speaks against it


def _similar(source: _Outline, target: _Outline, shift: int) -> Floats:
    """(N,): log of how much likelier sources and the targets so many lines later are as pairs than by chance."""
    n = len(source.lengths)
    numbers = np.arange(n) + shift
    there = (numbers >= 0) & (numbers < len(target.lengths))
    others = np.clip(numbers, 0, max(0, len(target.lengths) - 1))
    ratios = target.lengths[others] - source.lengths
    by_chance = max(USUAL_SPREAD * 1.01, float(np.sqrt(np.var(source.lengths) + np.var(target.lengths))))
    middle = np.median(target.lengths) - np.median(source.lengths)
    gains = ((ratios - middle) / by_chance) ** 2 / 2 - ((ratios - middle) / USUAL_SPREAD) ** 2 / 2
    gains = np.maximum(gains + np.log(by_chance / USUAL_SPREAD), -4.0)
    first, second = source.numbers, target.numbers[others]
    gains += np.where(first == second, np.where(first == 0, 0.0, 3.0), -1.5)
    gains += np.where(source.signs == target.signs[others], 0.2, -0.7)
    return np.where(there, gains, -4.0)


def _refined(files: CorpusFiles, line: int, n_source: int, n_target: int) -> int:
    """The cut by words, which tell more than lengths: learned before and after the first guess, asked around it."""
    shift = n_target - n_source
    first = max(0, line - WINDOW)
    chunk = _lines_between_as_text(files, first, line + WINDOW + abs(shift))
    cut, n = line - first, len(chunk)
    numbers = np.arange(n)
    before, after = numbers[: max(0, cut - DOUBTFUL)], numbers[cut + DOUBTFUL :]
    after = after[(after + first < n_source) & (after + shift >= 0) & (after + shift < n)]
    if len(before) + len(after) < FEWEST_PAIRS:
        return line
    learned_from = concatenate([chunk.select(before, before), chunk.select(after, after + shift)])
    lexicon = Lexicon(learned_from, Silent())
    asked = numbers[max(0, cut - 5 * DOUBTFUL) : cut + 5 * DOUBTFUL]
    asked = asked[(asked + first < n_source) & (asked + shift >= 0) & (asked + shift < n)]
    if not len(asked):
        return line
    not_learned = np.zeros(len(asked), dtype=np.bool_)
    unshifted, enough = lexicon.scores(chunk.select(asked, asked), not_learned)
    shifted, also_enough = lexicon.scores(chunk.select(asked, asked + shift), not_learned)
    usable = enough & also_enough
    return first + int(asked[0]) + _best_cut(np.where(usable, unshifted, 0.0), np.where(usable, shifted, 0.0), shift)


def _outlines(files: CorpusFiles, n_source: int, n_target: int) -> tuple[_Outline, _Outline]:
    parts = [(_outline(chunk.source), _outline(chunk.target)) for chunk in read_chunks(files)]
    return _joined([source for source, _ in parts], n_source), _joined([target for _, target in parts], n_target)


def _outline(lines: Lines) -> _Outline:
    return _Outline(np.log1p(lines.lengths), numbers_of(lines), _last_signs(lines))


def _joined(parts: list[_Outline], n: int) -> _Outline:
    """The outline of a whole side, without the lines that it does not have."""
    return _Outline(
        np.concatenate([part.lengths for part in parts])[:n],
        np.concatenate([part.numbers for part in parts])[:n],
        np.concatenate([part.signs for part in parts])[:n],
    )


def _last_signs(lines: Lines) -> NDArray[np.uint32]:
    """(N,): the last character of each line, letters and digits all alike."""
    places = np.maximum(lines.ends - 1, lines.starts)
    return np.where(lines.kinds[places] & 7, np.uint32(0), lines.codes[places])


def _lines_between(files: CorpusFiles, first: int, last: int) -> list[tuple[int, Pair]]:
    found = []
    for chunk in read_chunks(files, most=last):
        for number in range(max(0, first - chunk.first), len(chunk)):
            found.append((chunk.first + number, chunk.pair(number)))
    return found


def _lines_between_as_text(files: CorpusFiles, first: int, last: int) -> Bitext:
    pairs = [pair for _, pair in _lines_between(files, first, last)]
    return Bitext.of(Lines([source for source, _ in pairs]), Lines([target for _, target in pairs]))
