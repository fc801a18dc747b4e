"""Vectors from counts, compared with counting piece by piece and with numpy's singular values."""

import math
from collections import defaultdict
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from attendo.data import cooccurrence
from attendo.data.cooccurrence import (
    CLOSE,
    SMOOTHING,
    WINDOW,
    count,
    neighbours_vectors,
    positive_information,
    related_vectors,
)
from attendo.data.store import PairStore, StoreWriter, open_store

SOURCE_SIZE, TARGET_SIZE = 23, 29


def stored(folder: Path, sources: list[list[int]], targets: list[list[int]]) -> PairStore:
    with StoreWriter(folder / "key") as writer:
        writer.append(sources, targets)
        writer.finish({})
    found = open_store(folder / "key")
    assert found is not None
    return found[0]


@pytest.fixture
def pairs(tmp_path) -> PairStore:
    generator = np.random.default_rng(3)
    sides = [[generator.integers(4, 19, length).tolist() for length in generator.integers(1, 11, 31)] for _ in range(2)]
    return stored(tmp_path, *sides)


def counted(pairs: PairStore, first_target: int) -> dict[tuple[int, int], float]:
    """The same, two pieces at a time."""
    times: dict[tuple[int, int], float] = defaultdict(float)

    def near(one: int, other: int, weight: float) -> None:
        times[one, other] += weight
        times[other, one] += weight

    for number in range(len(pairs)):
        source = [int(id) for id in pairs.source[number]]
        target = [int(id) + first_target for id in pairs.target[number]]
        for side in (source, target):
            for i, j in product(range(len(side)), repeat=2):
                if 0 < j - i <= WINDOW:
                    near(side[i], side[j], 1 / (j - i))
        for (i, one), (j, other) in product(enumerate(source), enumerate(target)):
            apart = abs(i / len(source) - j / len(target))
            near(one, other, CLOSE * math.exp(-CLOSE * apart) / min(len(source), len(target)))
    return times


@pytest.mark.parametrize("first_target", [0, SOURCE_SIZE])
def test_counts(pairs, first_target, monkeypatch):
    expected = counted(pairs, first_target)
    for at_once in (7, 2000):
        monkeypatch.setattr(cooccurrence, "AT_ONCE", at_once)
        found = count(pairs, first_target=first_target, size=first_target + TARGET_SIZE)
        assert {
            (row, column): pytest.approx(times)
            for row, column, times in zip(found.rows, found.columns, found.times, strict=True)
        } == expected


def test_vectors_are_those_of_the_largest_singular_values(pairs):
    size = SOURCE_SIZE + TARGET_SIZE
    times = np.zeros((size, size))
    for place, weight in counted(pairs, SOURCE_SIZE).items():
        times[place] = weight
    smoothed = times.sum(axis=0) ** SMOOTHING
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.log(times / times.sum(axis=1, keepdims=True) / (smoothed / smoothed.sum()))
    information = np.where(times > 0, np.maximum(information, 0), 0)
    found = positive_information(count(pairs, first_target=SOURCE_SIZE, size=size)).to_dense()
    assert found.numpy() == pytest.approx(information, abs=1e-5)

    source_VD, target_VD = related_vectors(
        pairs, source_size=SOURCE_SIZE, target_size=TARGET_SIZE, shared=False, d_model=7
    )
    assert source_VD.shape == (SOURCE_SIZE, 7)
    assert target_VD.shape == (TARGET_SIZE, 7)
    left, values, _ = np.linalg.svd(information)
    vectors = left[:, :7] * np.sqrt(values[:7])
    seen = np.flatnonzero(information.any(axis=1))
    both = torch.cat([source_VD, target_VD]).numpy()
    assert not np.delete(both, seen, axis=0).any()
    both, vectors = both[seen], vectors[seen] - vectors[seen].mean(axis=0)
    # Alike up to the signs of the dimensions, which nothing decides.
    assert both @ both.T == pytest.approx(vectors @ vectors.T / vectors.std(ddof=1) ** 2 / 7, abs=1e-3)


def test_shared_pieces_have_one_vector_and_random_numbers_stay_as_they_were(pairs):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    size = TARGET_SIZE
    source_VD, target_VD = related_vectors(pairs, source_size=size, target_size=size, shared=True, d_model=67)
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(source_VD, target_VD)
    assert source_VD.shape == (TARGET_SIZE, 67)  # more dimensions than there are pieces
    again_VD, _ = related_vectors(pairs, source_size=size, target_size=size, shared=True, d_model=67)
    assert torch.equal(source_VD, again_VD)


def test_pieces_of_one_topic_are_alike_in_both_languages(tmp_path):
    generator = np.random.default_rng(1)
    topics = generator.integers(0, 10, (400, 1))
    sources = 4 + 5 * topics + generator.integers(0, 5, (400, 6))
    pairs = stored(tmp_path, sources.tolist(), (sources + 3).tolist())
    source_VD, target_VD = related_vectors(pairs, source_size=60, target_size=60, shared=False, d_model=16)
    likeness = torch.nn.functional.normalize(source_VD[4:54], dim=1) @ torch.nn.functional.normalize(target_VD, dim=1).T
    assert torch.equal((likeness.argmax(dim=1) - 7) // 5, torch.arange(50) // 5)


def test_texts_without_translations_have_their_neighbours(pairs, tmp_path):
    texts = [pairs.source[number].tolist() for number in range(len(pairs))]
    alone = stored(tmp_path / "alone", texts, [[] for _ in texts])
    expected_VD, _ = related_vectors(alone, source_size=19, target_size=19, shared=True, d_model=7)
    found_VD = neighbours_vectors(pairs.source, size=19, d_model=7)
    assert found_VD.shape == (19, 7)
    torch.testing.assert_close(found_VD, expected_VD)
    assert found_VD.any()
