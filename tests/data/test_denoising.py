"""Text is spoiled as the papers of T5 and BART say."""

from typing import Any

import numpy as np
import pytest

from attendo.data.denoising import NoisyPairs, bart_corruption, span_corruption
from attendo.data.masking import side_of
from attendo.data.noise_settings import BartNoise, SpanNoise
from attendo.data.store import Side
from attendo.text.tokenizer import BOS, EOS

FIRST = 1000  # the first id that is not text
BART_OFF: dict[str, Any] = {"infilling": 0.0, "permutation": False}


def generator(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def side() -> Side:
    rng = generator(7)
    return side_of([rng.integers(4, 900, size).tolist() for size in rng.integers(3, 40, 700)])


def put_back(source: list[int], target: list[int]) -> list[int]:
    """The text of which a source with sentinels and the target that lists them are made."""
    spans: dict[int, list[int]] = {}
    for id_ in target:
        if id_ >= FIRST:
            spans[id_] = []
            last = id_
        else:
            spans[last].append(id_)
    return [one for id_ in source for one in (spans[id_] if id_ >= FIRST else [id_])]


@pytest.mark.parametrize("n", [2, 3, 7, 61, 512])
def test_spans_become_sentinels_and_the_target_lists_them(n: int) -> None:
    ids = generator(n).integers(4, 900, n)
    source, target = span_corruption(ids, SpanNoise(), generator(), first_sentinel=FIRST)
    assert put_back(source.tolist(), target.tolist()) == ids.tolist()
    sentinels = [id_ for id_ in source.tolist() if id_ >= FIRST]
    assert sentinels == list(range(FIRST, FIRST + len(sentinels)))
    assert [id_ for id_ in target.tolist() if id_ >= FIRST] == [*sentinels, FIRST + len(sentinels)]
    hidden = n - (len(source) - len(sentinels))
    assert hidden == max(1, round(0.15 * n))  # T5's own rule
    assert len(sentinels) == max(1, round(hidden / 3))
    assert source[0] < FIRST  # a text begins with what is kept


def test_the_lengths_of_spans_have_the_mean_asked_for() -> None:
    for rate, span in ((0.15, 3.0), (0.3, 5.0)):
        lengths, hidden, random = [], 0, generator()
        for _ in range(200):
            _, target = span_corruption(np.full(500, 7), SpanNoise(rate=rate, span=span), random, first_sentinel=FIRST)
            ends = np.flatnonzero(target >= FIRST)
            lengths += (np.diff(ends) - 1).tolist()
            hidden += int((target < FIRST).sum())
        assert hidden / (200 * 500) == pytest.approx(rate, abs=0.002)
        assert np.mean(lengths) == pytest.approx(span, rel=0.03)
        assert min(lengths) == 1 and max(lengths) > 2 * span


def lines(n: int = 40, seed: int = 3) -> list[np.ndarray[Any, np.dtype[np.int64]]]:
    """Different ids throughout, so that each can be found again."""
    cuts = np.sort(generator(seed).choice(np.arange(1, 800), n - 1, replace=False))
    return np.split(np.arange(10, 810), cuts)


def spoil(random: np.random.Generator | None = None, **noise: Any) -> tuple[list[int], list[int]]:
    source, target = bart_corruption(lines(), BartNoise(**{**BART_OFF, **noise}), random or generator(), mask=FIRST)
    assert target.tolist() == list(range(10, 810))  # always the text as it was
    return source.tolist(), target.tolist()


def test_bart_masks_single_ids() -> None:
    random, masked, total = generator(), 0, 0
    for _ in range(100):
        source, target = spoil(random, masking=0.25)
        assert all(one in (other, FIRST) for one, other in zip(source, target, strict=True))
        masked, total = masked + source.count(FIRST), total + len(target)
    assert masked / total == pytest.approx(0.25, abs=0.005)


def test_bart_deletes_single_ids() -> None:
    random, left, total = generator(), 0, 0
    for _ in range(100):
        source, target = spoil(random, deletion=0.25)
        assert source == sorted(source) and set(source) <= set(target)
        left, total = left + len(source), total + len(target)
    assert 1 - left / total == pytest.approx(0.25, abs=0.005)


def test_bart_permutes_sentences() -> None:
    source, _ = spoil(permutation=True)
    parts = [tuple(line.tolist()) for line in lines()]
    found, place = [], 0
    while place < len(source):
        part = next(one for one in parts if one[0] == source[place])
        assert tuple(source[place : place + len(part)]) == part
        found.append(part)
        place += len(part)
    assert sorted(found) == sorted(parts) and found != parts


def test_bart_rotates() -> None:
    random, places = generator(), []
    for _ in range(400):
        source, target = spoil(random, rotation=True)
        place = target.index(source[0])
        assert source == target[place:] + target[:place]
        places.append(place)
    quarters = np.bincount(np.array(places) * 4 // 800, minlength=4)
    assert quarters / 400 == pytest.approx(0.25, abs=0.07)  # any id is as likely as any other


def test_bart_fills_in_spans_of_poisson_lengths() -> None:
    """30 % of the ids in spans with λ = 3, each one mask; some spans have the length 0."""
    lengths: list[int] = []
    hidden = total = 0
    random = generator()
    for _ in range(100):
        text = np.arange(10, 810)
        source, _ = bart_corruption([text], BartNoise(permutation=False), random, mask=FIRST)
        kept = source[source < FIRST]
        assert (np.diff(kept) > 0).all() and not ((source[1:] == FIRST) & (source[:-1] == FIRST)).any()
        hidden, total = hidden + len(text) - len(kept), total + len(text)
        around = np.concatenate(([9], source, [810]))
        places = np.flatnonzero(around == FIRST)
        lengths += (around[places + 1] - around[places - 1] - 1).tolist()
    assert hidden / total == pytest.approx(0.3, abs=0.002)
    assert np.mean(lengths) == pytest.approx(3.0, rel=0.05)
    assert np.var(lengths) == pytest.approx(3.0, rel=0.1)  # as a Poisson distribution has it
    assert np.mean(np.array(lengths) == 0) == pytest.approx(np.exp(-3), abs=0.02)


@pytest.mark.parametrize(("share", "span"), [(0.5, 1.0), (0.8, 3.0), (0.97, 3.0)])
def test_bart_hides_the_share_that_is_asked_for(share: float, span: float) -> None:
    """However little stays, of which the end is no exception."""
    random, text, last = generator(), np.arange(10, 210), 0
    for _ in range(100):
        noise = BartNoise(permutation=False, infilling=share, span=span)
        source, _ = bart_corruption([text], noise, random, mask=FIRST)
        assert (source < FIRST).sum() == round((1 - share) * len(text))
        assert not ((source[1:] == FIRST) & (source[:-1] == FIRST)).any()
        last += source[-1] == FIRST
    assert last > 5


@pytest.mark.parametrize("noise", [SpanNoise(), BartNoise(), BartNoise(masking=0.1, deletion=0.1, rotation=True)])
def test_pairs_depend_on_seed_epoch_and_number_alone(side: Side, noise: SpanNoise | BartNoise) -> None:
    def pairs(seed: int = 3) -> NoisyPairs:
        return NoisyPairs(side, noise, first_extra=FIRST, max_length=61, seed=seed)

    one, some = pairs(), np.array([7, 0, 31])
    batch, again = one.batch(some, 2), pairs().batch(some, 2)
    assert batch.source_BS.equal(again.source_BS) and batch.target_out_BT.equal(again.target_out_BT)
    assert not batch.source_BS.equal(one.batch(some, 3).source_BS)
    assert not batch.source_BS.equal(pairs(4).batch(some, 2).source_BS)
    sources, targets = one.lengths(2)
    assert batch.source_lengths_B.tolist() == (sources[some] + 1).tolist()
    assert batch.target_lengths_B.tolist() == (targets[some] + 1).tolist()
    assert (batch.target_in_BT[:, 0] == BOS).all()
    assert (batch.source_BS[np.arange(3), batch.source_lengths_B - 1] == EOS).all()
    assert max(sources.max(), targets.max()) <= 61 + 61  # masks of spans of nothing make a source longer
