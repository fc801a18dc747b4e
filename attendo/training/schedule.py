"""The learning rate as a pure function of the step. Steps count from 1."""

import math
from collections.abc import Callable

from attendo.training.settings import TrainingConfig

Schedule = Callable[[int], float]


def build_schedule(config: TrainingConfig, *, d_model: int, steps: int) -> Schedule:
    peak, warmup = config.learning_rate, config.warmup_steps
    match config.schedule:
        case "paper":
            return lambda step: paper(step, factor=peak, d_model=d_model, warmup=warmup)
        case "inverse-sqrt":
            return lambda step: inverse_sqrt(step, peak=peak, warmup=warmup)
        case "linear":
            return lambda step: linear(step, peak=peak, warmup=warmup, steps=steps)
        case "cosine":
            return lambda step: cosine(step, peak=peak, warmup=warmup, steps=steps)
        case "stable":
            decay = config.decay_share
            return lambda step: stable(step, peak=peak, warmup=warmup, steps=steps, decay=decay)
        case "constant":
            return lambda step: peak * warm(step, warmup)


def warm(step: int, warmup: int) -> float:
    """From 1/warmup at the first step up to 1."""
    return min(1.0, step / warmup) if warmup else 1.0


def paper(step: int, *, factor: float, d_model: int, warmup: int) -> float:
    """d_model^-0.5 * min(step^-0.5, step * warmup^-1.5)"""
    return factor * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def inverse_sqrt(step: int, *, peak: float, warmup: int) -> float:
    """Linearly up to the peak, then peak * √(warmup / step)."""
    return peak * warm(step, warmup) * min(1.0, math.sqrt(max(warmup, 1) / step))


def linear(step: int, *, peak: float, warmup: int, steps: int) -> float:
    """Linearly up to the peak, then linearly down to zero, reached one step after the last."""
    return peak * min(warm(step, warmup), _left(step, warmup, steps))


def cosine(step: int, *, peak: float, warmup: int, steps: int) -> float:
    """Linearly up to the peak, then down along half a cosine."""
    return peak * min(warm(step, warmup), 0.5 * (1 - math.cos(math.pi * _left(step, warmup, steps))))


def stable(step: int, *, peak: float, warmup: int, steps: int, decay: float) -> float:
    """Linearly up to the peak, there until the last share `decay` of the steps, then linearly down to zero.

    Warm-up, stable, decay (Hu et al. 2024). The end of the stable part is a good place to go on from with more steps.
    """
    return peak * min(warm(step, warmup), _left(step, steps - math.ceil(decay * steps), steps))


def _left(step: int, warmup: int, steps: int) -> float:
    """The share of the way down that is still to go: 1 at the end of warm-up, 0 after the last step."""
    return min(1.0, max(0.0, (steps + 1 - step) / max(1, steps + 1 - warmup)))
