"""Which sentences are translated together."""

from hypothesis import given
from hypothesis import strategies as st

from attendo.engines.batches import sorted_batches


@given(st.lists(st.integers(0, 60), max_size=150), st.none() | st.integers(1, 20), st.integers(1, 400))
def test_sorted_batches_cover_everything_once_within_both_limits(lengths, batch_size, batch_tokens):
    batches = sorted_batches(lengths, batch_size=batch_size, batch_tokens=batch_tokens)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert batch_size is None or len(batch) <= batch_size
        assert len(batch) == 1 or len(batch) * (max(lengths[i] for i in batch) + 1) <= batch_tokens
    sizes = [lengths[i] for batch in batches for i in batch]
    assert sizes == sorted(sizes, reverse=True)


def test_sorted_batches_are_full():
    assert sorted_batches([4] * 7, batch_size=3, batch_tokens=1000) == [[0, 1, 2], [3, 4, 5], [6]]
    assert sorted_batches([4, 2, 4, 4, 1], batch_size=None, batch_tokens=10) == [[0, 2], [3, 1], [4]]
    assert sorted_batches([50, 50], batch_size=None, batch_tokens=10) == [[0], [1]]
