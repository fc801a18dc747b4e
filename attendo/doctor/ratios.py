"""Pairs of which one side is far too long for the other, by the corpus's own distribution."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from attendo.doctor.lines import Mask

Floats = NDArray[np.float32]

FARTHEST = 5.0  # standard deviations
LEAST = np.log(1.8)  # times as long as usual: less is never blamed
FEWEST_PAIRS = 50  # that a distribution can be learned from
MOST_LEARNED = 1_000_000  # pairs that it is learned from
BINS = 20
ROUNDS = 10


def unequal_lengths(source: NDArray[np.uint32], target: NDArray[np.uint32], sound: Mask) -> Mask:
    """(N,): where x = log (target length / source length) is far from usual for pairs of that length.

    The variance of x falls with the length: σ² = a + b / √(source · target), fitted to the sound pairs. What is far off
    is left out and the rest fitted again, until nothing changes: of what is left, nothing is far off.
    """
    first, second = (side.astype(np.float32) + 1 for side in (source, target))
    ratios, lengths = np.log(second / first), np.sqrt(second * first)
    far = np.zeros(len(ratios), dtype=np.bool_)
    for _ in range(ROUNDS):
        usual = np.flatnonzero(sound & ~far)
        usual = usual[:: 1 + len(usual) // MOST_LEARNED]
        if len(usual) < FEWEST_PAIRS:
            break
        middle = np.median(ratios[usual])
        offs = np.abs(ratios - middle)
        now = sound & (offs > np.maximum(FARTHEST * _deviations(offs[usual], lengths[usual], lengths), LEAST))
        if not np.any(now & ~far):
            break
        far |= now
    return far


def _deviations(offs: Floats, lengths: Floats, wanted: Floats) -> Floats:
    """σ of pairs of the wanted lengths, by how far off others are, with their lengths."""
    edges = np.quantile(lengths, np.linspace(0, 1, BINS + 1))
    bins = np.clip(np.searchsorted(edges, lengths, side="right") - 1, 0, BINS - 1)
    members = [offs[bins == number] for number in range(BINS)]
    variances = np.array([(1.4826 * np.median(one)) ** 2 if len(one) else np.nan for one in members])
    inverse = np.array([2 / (low + high) for low, high in pairwise(edges)])
    there = np.isfinite(variances)
    slope, level = (
        np.polyfit(inverse[there], variances[there], 1) if np.ptp(inverse[there]) else (0.0, variances[there].mean())
    )
    return np.sqrt(np.maximum(float(level) + float(slope) / wanted, float(np.nanmin(variances))))
