"""Which pairs go together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attendo.data.batching import EpochPlan, batch_starts, epoch_plan

LENGTHS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=200)


def realistic(n: int = 29_009) -> tuple[np.ndarray, np.ndarray]:
    """Lengths spread as those of Multi30K: 15 pieces on average, targets about as long as their sources."""
    rng = np.random.default_rng(3)
    source = np.clip(np.round(np.exp(rng.normal(2.64, 0.32, n))), 1, 256)
    target = np.clip(np.round(source * np.exp(rng.normal(0.04, 0.18, n))), 1, 256)
    return source.astype(np.int32), target.astype(np.int32)


def arrays(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    source, target = np.array(pairs, dtype=np.int32).reshape(-1, 2).T
    return source, target


def all_of(plan: EpochPlan) -> list[list[int]]:
    return [plan[i].tolist() for i in range(len(plan))]


def starts_by_hand(source: np.ndarray, target: np.ndarray, batch_tokens: int, skew: float = 0.0) -> list[int]:
    """One pair after the other: a new batch where this pair would make the old one too large."""
    starts: list[int] = []
    budget = max(1, int(batch_tokens * (1 - skew)))
    longest = 0
    for i, size in enumerate(np.maximum(source, target) + 1):
        grown = max(longest, int(size))
        if not starts or (i - starts[-1] + 1) * grown > budget:
            if starts:
                budget = batch_tokens
            starts.append(i)
            grown = int(size)
        longest = grown
    return starts


@given(LENGTHS, st.integers(1, 400), st.integers(0, 2**64), st.integers(0, 5))
def test_every_pair_comes_once_and_the_budget_holds(pairs, batch_tokens, seed, epoch):
    source, target = arrays(pairs)
    batches = all_of(epoch_plan(source, target, batch_tokens=batch_tokens, seed=seed, epoch=epoch))
    assert sorted(i for batch in batches for i in batch) == list(range(len(pairs)))
    for batch in batches:
        positions = len(batch) * (max(max(pairs[i]) for i in batch) + 1)  # with EOS
        assert batch
        assert positions <= batch_tokens or len(batch) == 1


def test_a_pair_longer_than_the_budget_is_a_batch_of_its_own():
    source, target = arrays([(3, 4), (300, 5), (4, 3), (6, 500)])
    batches = all_of(epoch_plan(source, target, batch_tokens=97, seed=1, epoch=0))
    assert [1] in batches
    assert [3] in batches


def test_the_same_for_the_same_seed_and_epoch_alone():
    source, target = realistic(997)

    def plan(seed, epoch):
        return all_of(epoch_plan(source, target, batch_tokens=499, seed=seed, epoch=epoch))

    assert plan(1, 0) == plan(1, 0)
    # The last two differ only where a floating-point number would have rounded.
    different = [plan(*key) for key in ((1, 0), (1, 1), (2, 0), (-1, 0), (-2, 0))]
    assert len({str(one) for one in different}) == len(different)


def test_another_epoch_brings_other_pairs_together():
    source, target = realistic()
    one, other = (
        {frozenset(batch) for batch in all_of(epoch_plan(source, target, batch_tokens=2048, seed=1, epoch=epoch))}
        for epoch in (0, 1)
    )
    assert len(one & other) < 0.1 * len(one)


def test_the_order_of_batches_is_not_that_of_lengths():
    source, target = realistic(9973)
    plan = epoch_plan(source, target, batch_tokens=1009, seed=1, epoch=0)
    means = [target[plan[i]].mean() for i in range(len(plan))]
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.3


@pytest.mark.parametrize(("n", "batch_tokens"), [(29_009, 1024), (29_009, 2048), (150_001, 4096)])
def test_little_padding_on_realistic_lengths(n, batch_tokens):
    source, target = realistic(n)
    plan = epoch_plan(source, target, batch_tokens=batch_tokens, seed=1, epoch=0)
    positions = sum(
        len(batch) * (int(side[batch].max()) + 1)
        for batch in map(plan.__getitem__, range(len(plan)))
        for side in (source, target)
    )
    tokens = int((source + 1).sum() + (target + 1).sum())
    assert 1 - tokens / positions < 0.03


def test_batches_are_as_full_as_they_can_be():
    source = target = np.full(1000, 9, dtype=np.int32)
    plan = epoch_plan(source, target, batch_tokens=100, seed=1, epoch=0)
    sizes = sorted(len(plan[i]) for i in range(len(plan)))
    assert set(sizes[2:]) == {10}  # all but the first, cut short on purpose, and the last


@given(LENGTHS, st.integers(1, 400), st.floats(0, 1, exclude_max=True))
def test_batch_starts_equal_a_plain_loop(pairs, batch_tokens, skew):
    source, target = arrays(sorted(pairs, key=lambda pair: (pair[1], pair[0])))
    found = batch_starts(source, target, batch_tokens=batch_tokens, skew=skew)
    assert found.tolist() == starts_by_hand(source, target, batch_tokens, skew)


def test_batch_starts_of_nothing():
    empty = np.zeros(0, dtype=np.int32)
    assert batch_starts(empty, empty, batch_tokens=10).tolist() == []
    assert len(epoch_plan(empty, empty, batch_tokens=10, seed=1, epoch=0)) == 0
