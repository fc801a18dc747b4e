"""Stretches of a corpus in which one side is shifted by some lines against the other."""

import numpy as np
from numpy.typing import NDArray

from attendo.doctor.lexical import Bitext, Lexicon
from attendo.doctor.lines import Mask

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]

FARTHEST = 10  # lines of a shift
WINDOW = 7  # lines that a first look is averaged over
AROUND = 15  # lines around what it finds suspicious
SWITCHING = 5.0  # what a change of the shift costs, in the units of `Lexicon.scores`
SHORTEST = 4  # lines of a stretch that is believed
IMPOSSIBLE = -2.3  # the score where there is no line to compare with: as low as scores can be, which is log CHANCE


def suspicious(scores: Floats, low: float) -> Mask:
    """(N,): lines around which the mean score is below `low`, and some more on either side."""
    if len(scores) < WINDOW:
        return np.zeros(len(scores), dtype=np.bool_)
    near = _moving_mean(scores) < low
    totals = np.concatenate([[0], np.cumsum(np.pad(near, AROUND), dtype=np.int32)])
    return totals[2 * AROUND + 1 :] > totals[: -2 * AROUND - 1]


def find_shifts(text: Bitext, lexicon: Lexicon, lines: Mask, learned_from: Mask, low: float) -> NDArray[np.int8]:
    """(N,): by how many lines the target is shifted at each of the suspicious `lines` of a text; 0 elsewhere.

    The most likely sequence of shifts d_1 … d_n by Σ_i score(source_i, target_{i + d_i}), less what changes cost
    (Viterbi); a stretch that is believed has several lines and scores better than chance.
    """
    shifts = np.zeros(len(text), dtype=np.int8)
    numbers = np.flatnonzero(lines)
    if not len(numbers):
        return shifts
    steps = np.arange(-FARTHEST, FARTHEST + 1)
    table = np.full((len(numbers), len(steps)), IMPOSSIBLE, dtype=np.float32)
    for column, step in enumerate(steps):
        there = (numbers + step >= 0) & (numbers + step < len(text))
        sources = numbers[there]
        own = learned_from[sources] & (step == 0)
        scores, enough = lexicon.scores(text.select(sources, sources + step), own)
        table[there, column] = np.where(enough, scores, 0.0)
    for run in np.split(np.arange(len(numbers)), np.flatnonzero(np.diff(numbers) > 1) + 1):
        path = _likeliest(table[run])
        for stretch in np.split(np.arange(len(run)), np.flatnonzero(np.diff(path)) + 1):
            column = path[stretch[0]]
            if steps[column] and len(stretch) >= SHORTEST and table[run[stretch], column].mean() > low:
                shifts[numbers[run[_widened(stretch, table[run, FARTHEST], low)]]] = steps[column]
    return shifts


def _likeliest(table: Floats) -> Numbers:
    """(n, k) → (n,): the columns of the best path, in which a change costs; it begins and ends without a shift."""
    columns = np.arange(table.shape[1])
    ends = np.where(columns == FARTHEST, 0.0, SWITCHING / 2)
    best, before = table[0] - ends, np.zeros(table.shape, dtype=np.int64)
    for line in range(1, len(table)):
        top = int(best.argmax())
        stays = best >= best[top] - SWITCHING
        before[line] = np.where(stays, columns, top)
        best = np.where(stays, best, best[top] - SWITCHING) + table[line]
    path = np.zeros(len(table), dtype=np.int64)
    path[-1] = (best - ends).argmax()
    for line in range(len(table) - 1, 0, -1):
        path[line - 1] = before[line, path[line]]
    return path


def _widened(stretch: Numbers, unshifted: Floats, low: float) -> Numbers:
    """With the lines just before and after that are no translations either: those that a shift has pushed out."""
    first, last = int(stretch[0]), int(stretch[-1])
    for _ in range(FARTHEST):
        first -= first > 0 and unshifted[first - 1] < low
        last += last + 1 < len(unshifted) and unshifted[last + 1] < low
    return np.arange(first, last + 1)


def _moving_mean(values: Floats) -> Floats:
    """(N,) → (N,): of the values around each."""
    around = np.pad(values, WINDOW // 2, mode="edge")
    return np.convolve(around, np.full(WINDOW, 1 / WINDOW, dtype=np.float32), mode="valid").astype(np.float32)
