"""Copies and near copies, compared with counting."""

from collections import Counter, defaultdict

import numpy as np

from attendo.doctor.duplicates import alike, band_keys, candidates, of_several, pair_hashes, repeated, word_sets
from attendo.doctor.lines import Lines


def test_all_but_the_first_are_repeated():
    draw = np.random.default_rng(1)
    values = draw.integers(0, 50, 101).astype(np.uint64)
    seen: Counter[int] = Counter()
    expected = []
    for value in values.tolist():
        expected.append(seen[value] > 0)
        seen[value] += 1
    assert repeated(values).tolist() == expected
    assert repeated(values[:0]).tolist() == []


def test_keys_with_several_values():
    draw = np.random.default_rng(2)
    keys, values = (draw.integers(0, most, 103).astype(np.uint64) for most in (40, 3))
    known = defaultdict(set)
    for key, value in zip(keys.tolist(), values.tolist(), strict=True):
        known[key].add(value)
    assert of_several(keys, values).tolist() == [len(known[key]) > 1 for key in keys.tolist()]
    assert of_several(keys[:0], values[:0]).tolist() == []


def test_sides_count_in_their_order():
    one, other = np.array([3], dtype=np.uint64), np.array([5], dtype=np.uint64)
    assert pair_hashes(one, other) != pair_hashes(other, one)


def test_near_copies_share_a_band_and_words():
    source = ["the quick brown fox jumps over the lazy dog today", "something else entirely is written here now"]
    target = ["der schnelle braune Fuchs springt heute über den Hund", "hier steht jetzt etwas ganz anderes da"]
    sources, targets = Lines([*source, source[0].replace("lazy ", "")]), Lines([*target, target[0].upper()])
    sets = word_sets(sources, targets, np.arange(3))
    assert alike(sets[0], sets[2])
    assert not alike(sets[0], sets[1])
    found = {
        (int(later), int(first))
        for pairs in candidates(band_keys(sources, targets))
        for later, first in zip(*pairs, strict=True)
    }
    assert found == {(2, 0)}


def test_short_and_empty_pairs_have_no_bands():
    assert not band_keys(Lines(["", "a b"]), Lines(["", "x y"])).any()
    assert not band_keys(Lines([]), Lines([])).any()
