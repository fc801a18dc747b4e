"""Pairs that are cut into other pieces in each epoch."""

import random
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from attendo.data import resampling
from attendo.data.loader import Position, batches_from
from attendo.data.resampling import DRAWS, ResampledPairs, mixed
from attendo.data.store import PairStore, StoreWriter, open_store
from attendo.text.bpe_dropout import Merger
from attendo.text.tokenizer import Tokenizer, train_tokenizer

SEED, N_PAIRS = 7, 211
WORDS = "lower lowest low slow slower slowest new newer newest wide wider widest banana bandana, papaya. ¿日本? 3,5%"


def texts(seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS.split(), k=draw.randrange(1, 9))) for _ in range(N_PAIRS)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(texts(1) + texts(2), kind="bpe", vocab_size=360)


@pytest.fixture
def store(tmp_path: Path, tokenizer: Tokenizer) -> PairStore:
    with StoreWriter(tmp_path / "key") as writer:
        writer.append(tokenizer.encode_batch(texts(1)), tokenizer.encode_batch(texts(2)))
        writer.finish({})
    found = open_store(tmp_path / "key")
    assert found is not None
    return found[0]


def rows(pairs: ResampledPairs, epoch: int) -> tuple[list[list[int]], list[list[int]]]:
    def of(side: resampling.ResampledSide) -> list[list[int]]:
        ids, counts = side.end_to_end(np.arange(N_PAIRS), epoch)
        return [part.tolist() for part in np.split(ids, np.cumsum(counts)[:-1])]

    return of(pairs.source), of(pairs.target)


def resampled(store: PairStore, tokenizer: Tokenizer, *, rate: float = 0.2, seed: int = SEED) -> ResampledPairs:
    return ResampledPairs(store, tokenizer, tokenizer, rate=rate, seed=seed)


def test_rate_0_changes_nothing(store: PairStore, tokenizer: Tokenizer) -> None:
    pairs = resampled(store, tokenizer, rate=0.0)
    sources, targets = rows(pairs, epoch=3)
    assert sources == tokenizer.encode_batch(texts(1))
    assert targets == tokenizer.encode_batch(texts(2))
    some = [5, 0, 210, 5]
    ours, plain = pairs.batch(some, epoch=3), store.batch(some)
    assert ours.source_BS.tolist() == plain.source_BS.tolist()
    assert ours.target_out_BT.tolist() == plain.target_out_BT.tolist()


def test_the_text_stays_and_the_pieces_change(store: PairStore, tokenizer: Tokenizer) -> None:
    pairs = resampled(store, tokenizer)
    epochs = [rows(pairs, epoch) for epoch in range(3)]
    for sources, targets in epochs:
        assert [tokenizer.decode(ids) for ids in sources] == texts(1)
        assert [tokenizer.decode(ids) for ids in targets] == texts(2)
    assert epochs[0] != epochs[1] != epochs[2]


def test_it_depends_on_the_seed_the_epoch_and_the_pair_alone(store: PairStore, tokenizer: Tokenizer) -> None:
    one, other = resampled(store, tokenizer), resampled(store, tokenizer)
    expected = [rows(one, epoch) for epoch in range(3)]
    assert [rows(other, epoch) for epoch in (2, 0, 1)] == [expected[2], expected[0], expected[1]]
    batch = other.batch([9, 4], epoch=1)
    assert batch.source_BS[1, : int(batch.source_lengths_B[1]) - 1].tolist() == expected[1][0][4]
    assert rows(resampled(store, tokenizer, seed=SEED + 1), 0) != expected[0]
    # The two sides of one text are drawn apart.
    same = ResampledPairs(PairStore(store.source, store.source), tokenizer, tokenizer, rate=0.2, seed=SEED)
    sources, targets = rows(same, 0)
    assert sources != targets


def test_lengths_are_those_of_the_batches(
    store: PairStore, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resampling, "AT_ONCE", 50)  # in parts, the last one smaller
    pairs = resampled(store, tokenizer)
    sources, targets = rows(pairs, epoch=2)
    source_lengths, target_lengths = pairs.lengths(2)
    assert source_lengths.tolist() == [len(ids) for ids in sources]
    assert target_lengths.tolist() == [len(ids) for ids in targets]


def test_a_frequent_word_has_the_distribution_of_its_draws(store: PairStore, tokenizer: Tokenizer) -> None:
    """Over many epochs every occurrence is cut as a word by itself would be."""
    pairs, merger, rate, epochs = resampled(store, tokenizer, rate=0.3), Merger(tokenizer), 0.3, 400
    pair = next(i for i, text in enumerate(texts(1)) if text.startswith("slowest "))
    word = tokenizer.encode("slowest")
    found: Counter[tuple[int, ...]] = Counter()
    for epoch in range(epochs):
        ids, _ = pairs.source.end_to_end(np.array([pair]), epoch)
        spelled = next(n for n in range(len(ids) + 1) if tokenizer.decode(ids[:n].tolist()) == "slowest")
        found[tuple(ids[:spelled].tolist())] += 1
    draw, n = random.Random(5).random, 20_000
    expected = Counter(tuple(merger.merged(merger.characters(word), rate, draw)) for _ in range(n))
    for segmentation, count in expected.most_common(5):
        chance = count / n
        assert abs(found[segmentation] / epochs - chance) < 4.5 * (chance * (1 - chance) / epochs) ** 0.5
    assert pairs.source.n_draws.max() == DRAWS


def test_batches_go_on_from_anywhere(store: PairStore, tokenizer: Tokenizer) -> None:
    def read(position: Position, n: int) -> list[tuple[list[list[int]], Position]]:
        batches = batches_from(resampled(store, tokenizer), position, batch_tokens=120, seed=SEED)
        return [
            (batch.source_BS.tolist() + batch.target_out_BT.tolist(), after) for batch, after, _ in islice(batches, n)
        ]

    size = next(
        i
        for i, (_, after, _) in enumerate(
            batches_from(resampled(store, tokenizer), Position(), batch_tokens=120, seed=SEED), start=1
        )
        if after.epoch == 1
    )
    through = read(Position(), size + 9)
    for done in (1, size - 1, size, size + 3):
        assert read(through[done - 1][1], 4) == through[done : done + 4]


def test_mixed_bits_are_even_and_differ_by_seed_and_epoch() -> None:
    numbers = np.arange(100_000, dtype=np.uint64)
    for seed, epoch in ((1, 0), (1, 1), (2, 0), (2**63 - 1, 5)):
        buckets = np.bincount((mixed(numbers, seed, epoch) % np.uint64(16)).astype(np.int64), minlength=16)
        assert abs(buckets - 100_000 / 16).max() < 4.5 * (100_000 / 16) ** 0.5
    same = (mixed(numbers, 1, 0) % np.uint64(16)) == (mixed(numbers, 1, 1) % np.uint64(16))
    assert abs(same.mean() - 1 / 16) < 0.01
