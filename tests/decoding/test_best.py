import pytest
import torch
from torch import Tensor

from attendo.decoding.best import best_ids, likeliest


def matrices() -> list[Tensor]:
    """Fine values and such as are often equal; few columns, and enough for blocks, with a rest and without."""
    generator = torch.Generator().manual_seed(3)
    coarse = torch.randn(13, 101, generator=generator).mul(2).round()
    fine = torch.randn(17, 101, generator=generator)
    wide = torch.randn(19, 1327, generator=generator)
    wide[:5, -3:] += 9  # the best of some rows are in the rest
    return [coarse, fine, torch.cat([fine, coarse]), wide, wide.round(), wide[:, :1280]]


@pytest.mark.parametrize("k", [1, 7, 100, 101])
def test_best_ids_is_a_stable_sort(k: int) -> None:
    for log_probs in matrices():
        values, ids = best_ids(log_probs, k)
        expected, order = log_probs.sort(dim=1, descending=True, stable=True)
        assert torch.equal(values, expected[:, :k])
        assert torch.equal(ids, order[:, :k])


def test_likeliest_is_the_first_of_the_largest() -> None:
    for log_probs in matrices():
        assert torch.equal(likeliest(log_probs), log_probs.sort(dim=1, descending=True, stable=True).indices[:, 0])


@pytest.mark.parametrize("column", [0, 63, 64, 700, 1279, 1280, 1326])
def test_likeliest_where_only_one_column_may_come(column: int) -> None:
    log_probs = torch.full((3, 1327), -torch.inf)
    log_probs[:, column] = -7.0
    assert likeliest(log_probs).tolist() == [column] * 3
    assert likeliest(log_probs.expand(3, 1327)[:0]).tolist() == []
