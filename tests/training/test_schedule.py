import itertools
from collections.abc import Callable
from typing import Any

import pytest

from attendo.training.schedule import Schedule, build_schedule, paper
from attendo.training.settings import TrainingConfig

PEAK, WARMUP, STEPS = 0.003, 13, 101
WITH_A_PEAK = ("inverse-sqrt", "linear", "cosine", "stable", "constant")


def schedule(name: Any, *, warmup: int = WARMUP, steps: int = STEPS, peak: float = PEAK, d_model: int = 37) -> Schedule:
    config = TrainingConfig(schedule=name, learning_rate=peak, warmup_steps=warmup)
    return build_schedule(config, d_model=d_model, steps=steps)


@pytest.mark.parametrize("d_model", [37, 512])
@pytest.mark.parametrize("warmup", [1, 13, 4000])
def test_paper_is_the_papers_formula(d_model: int, warmup: int) -> None:
    built = schedule("paper", warmup=warmup, peak=1.0, d_model=d_model)
    for step in [*range(1, 50), 3999, 4000, 4001, 100_000]:
        # Vaswani et al. 2017, equation 3
        assert built(step) == pytest.approx(d_model ** (-0.5) * min(step ** (-0.5), step * warmup ** (-1.5)), rel=1e-12)


def test_paper_numbers() -> None:
    """The base model's peak, at the end of warm-up: 1 / √(512 · 4000)."""
    assert paper(4000, factor=1.0, d_model=512, warmup=4000) == pytest.approx(6.98771e-4, rel=1e-5)
    assert paper(1, factor=1.0, d_model=512, warmup=4000) == pytest.approx(1.74693e-7, rel=1e-5)


def test_paper_factor_scales() -> None:
    one, two = schedule("paper", peak=1.0), schedule("paper", peak=2.0)
    assert [two(step) for step in (1, 13, 90)] == pytest.approx([2 * one(step) for step in (1, 13, 90)])


@pytest.mark.parametrize("name", WITH_A_PEAK)
def test_rises_in_equal_parts_to_the_peak_at_the_end_of_warm_up(name: str) -> None:
    built = schedule(name)
    assert [built(step) for step in range(1, WARMUP + 1)] == pytest.approx(
        [PEAK * step / WARMUP for step in range(1, WARMUP + 1)]
    )
    assert max(built(step) for step in range(1, STEPS + 1)) == pytest.approx(PEAK)


@pytest.mark.parametrize("name", ["paper", *WITH_A_PEAK])
def test_never_rises_after_warm_up_and_stays_above_zero(name: str) -> None:
    rates = [schedule(name)(step) for step in range(WARMUP, STEPS + 1)]
    assert all(later <= earlier for earlier, later in itertools.pairwise(rates))
    assert rates[-1] > 0


@pytest.mark.parametrize("name", ["paper", *WITH_A_PEAK])
def test_has_no_jumps(name: str) -> None:
    """The largest change from one step to the next is the one of warm-up."""
    rates = [schedule(name)(step) for step in range(1, STEPS + 1)]
    peak = max(rates)
    assert max(abs(b - a) for a, b in itertools.pairwise(rates)) <= peak / WARMUP * (1 + 1e-9)


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("inverse-sqrt", lambda step: (WARMUP / step) ** 0.5),
        ("linear", lambda step: (STEPS + 1 - step) / (STEPS + 1 - WARMUP)),
        ("constant", lambda _: 1.0),
    ],
)
def test_shape_after_warm_up(name: str, share: Callable[[int], float]) -> None:
    built = schedule(name)
    for step in range(WARMUP, STEPS + 1):
        assert built(step) == pytest.approx(PEAK * share(step))


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_is_zero_one_step_after_the_last(name: str) -> None:
    built = schedule(name)
    assert built(STEPS + 1) == pytest.approx(0.0, abs=1e-12)
    assert built(STEPS + 50) == pytest.approx(0.0, abs=1e-12)


def test_cosine_is_half_way_down_half_way_through() -> None:
    assert schedule("cosine", warmup=20, steps=99)(60) == pytest.approx(PEAK / 2)
    assert schedule("cosine", warmup=20, steps=99)(40) == pytest.approx(PEAK * 0.5 * (1 + 2**-0.5))


@pytest.mark.parametrize("name", WITH_A_PEAK)
def test_without_warm_up_the_first_step_has_the_whole_rate(name: str) -> None:
    first = schedule(name, warmup=0)(1)
    assert first == pytest.approx(PEAK, rel=0.02)  # linear and cosine have left the top by one step of 101
    assert all(schedule(name, warmup=0)(step) <= first for step in range(2, STEPS + 1))


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_warm_up_longer_than_the_run(name: str) -> None:
    built = schedule(name, warmup=50, steps=10)
    assert [built(step) for step in range(1, 11)] == pytest.approx([PEAK * step / 50 for step in range(1, 11)])


def test_stable_stays_at_the_peak_until_the_last_share_of_the_steps() -> None:
    config = TrainingConfig(schedule="stable", learning_rate=PEAK, warmup_steps=WARMUP, decay_share=0.25)
    built = build_schedule(config, d_model=37, steps=100)
    assert {built(step) for step in range(WARMUP, 76)} == {PEAK}
    assert [built(step) for step in range(76, 101)] == pytest.approx(
        [PEAK * (101 - step) / 26 for step in range(76, 101)]
    )
    long_warm_up = TrainingConfig(schedule="stable", learning_rate=PEAK, warmup_steps=90, decay_share=0.25)
    rates = [build_schedule(long_warm_up, d_model=37, steps=100)(step) for step in range(1, 101)]
    assert all(0 < rate < PEAK for rate in rates)
