import math
import random
from collections import Counter

import pytest
import torch
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from attendo.decoding.beam import search
from attendo.decoding.greedy import greedy
from attendo.decoding.sampling import BITS, Uniforms, draw_ids, drawing_probs, sample
from attendo.decoding.search import SearchOptions
from tests.decoding import toy
from tests.decoding.toy import BOS, EOS, ToyModel, permitted

SOURCES = [11, 23, 5, 17, 2, 31, 7]
LIMITS = [7, 3, 0, 11, 5, 2, 13]
PREFIXES = [[3, 4], [], [], [5, 5, 5, 5, 3], [6], [4, 3], [0]]
OPTIONS = [
    SearchOptions(sample=True, n_best=3),
    SearchOptions(sample=True, n_best=2, temperature=0.5, top_k=3),
    SearchOptions(sample=True, temperature=1.7, top_p=0.8, no_repeat_ngram=2, seed=7),
    SearchOptions(sample=True, n_best=3, top_k=4, top_p=0.6, length_penalty="none"),
]


def run(model, sources, limits, options, *, algorithm=sample, forbidden=(), prefixes=None):
    keys = [[source, source + 1] for source in sources]
    return toy.run(algorithm, model, sources, limits, options, keys=keys, forbidden=forbidden, prefixes=prefixes)


def slow_sample(model, source, limit, options, draw, forbidden, prefix):
    """The same on lists: ids with their weights, the likeliest first, then as many as may be drawn from."""
    uniforms = Uniforms(options.seed, [source, source + 1], draw)
    ids: tuple[int, ...] = ()
    while True:
        weights = {
            id_: math.exp(log_prob / options.temperature)
            for id_, log_prob in enumerate(model.log_probs(source, ids))
            if permitted(ids, id_, limit, options, forbidden, prefix)
        }
        if len(ids) == limit:
            weights = {EOS: 1.0}
        likeliest = sorted(weights, key=lambda id_: (-weights[id_], id_))[: options.top_k]
        total = sum(weights[id_] for id_ in likeliest)
        nucleus: list[int] = []
        while not nucleus or sum(weights[id_] for id_ in nucleus) < (options.top_p or 1.0) * total - 1e-12:
            nucleus.append(likeliest[len(nucleus)])
        u, total = uniforms[len(ids)], sum(weights[id_] for id_ in nucleus)
        for id_ in sorted(nucleus):
            u -= weights[id_] / total
            if u < 0:
                break
        if id_ == EOS:
            return ids
        ids = (*ids, id_)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("prefixes", [None, PREFIXES])
def test_sampling_is_its_slow_twin(options, prefixes) -> None:
    for seed in range(5):
        model = ToyModel(seed=seed, vocab_size=7)
        results = run(model, SOURCES, LIMITS, options, forbidden=(0,), prefixes=prefixes)
        for i, (source, limit, draws) in enumerate(zip(SOURCES, LIMITS, results, strict=True)):
            prefix = prefixes[i] if prefixes else []
            assert len(draws) == options.n_best
            for number, draw in enumerate(draws):
                assert draw.ids == slow_sample(model, source, limit, options, number, (0,), prefix)
                assert draw.token_log_probs == pytest.approx(model.forced(source, draw.ids)), "the model's own"
                assert draw.score == draw.log_prob / options.penalty(len(draw.ids) + 1)


def test_sequences_come_as_often_as_they_are_likely() -> None:
    model = ToyModel(seed=3, spread=1.0)
    n = 20_000
    (draws,) = run(model, [11], [2], SearchOptions(sample=True, n_best=n))
    found = Counter(draw.ids for draw in draws)
    alphabet = [i for i in range(5) if i != EOS]
    for ids in [(), *((a,) for a in alphabet), *((a, b) for a in alphabet for b in alphabet)]:
        forced = model.forced(11, ids)
        p = math.exp(sum(forced[:2]))  # at the limit the end is certain
        assert abs(found[ids] / n - p) < 4 * math.sqrt(p * (1 - p) / n), ids


@pytest.mark.parametrize(("temperature", "top_k", "top_p"), [(0.7, 5, None), (1.3, None, 0.83), (2.0, 7, 0.6)])
def test_what_is_drawn_from_is_what_hugging_face_draws_from(temperature, top_k, top_p) -> None:
    log_probs = torch.randn(31, 53, generator=torch.Generator().manual_seed(3)).mul(2).log_softmax(dim=1)
    log_probs[:, [0, 3]] = -torch.inf
    options = SearchOptions(sample=True, temperature=temperature, top_k=top_k, top_p=top_p)
    expected = TemperatureLogitsWarper(temperature)(None, log_probs.double())
    if top_k is not None:
        expected = TopKLogitsWarper(top_k)(None, expected)
    if top_p is not None:
        expected = TopPLogitsWarper(top_p)(None, expected)
    q = drawing_probs(log_probs, options)
    assert torch.allclose(q / q.sum(dim=1, keepdim=True), expected.softmax(dim=1), atol=1e-12, rtol=0)


def test_of_equals_the_lower_ids_are_kept() -> None:
    log_probs = torch.full((1, 7), 1 / 7).log()
    kept = drawing_probs(log_probs, SearchOptions(sample=True, top_k=3))
    assert kept.tolist() == [[1, 1, 1, 0, 0, 0, 0]]
    kept = drawing_probs(log_probs, SearchOptions(sample=True, top_p=0.5))
    assert kept.tolist() == [[1, 1, 1, 1, 0, 0, 0]]


@pytest.mark.parametrize("temperature", [1e-300, 5e-324])
def test_the_coldest_draws_are_greedy(temperature) -> None:
    model = ToyModel(seed=3, vocab_size=7)
    cold = run(model, SOURCES, LIMITS, SearchOptions(sample=True, temperature=temperature))
    only = run(model, SOURCES, LIMITS, SearchOptions(sample=True, top_k=1))
    expected = greedy(
        model.step, model.select, model.start(SOURCES), bos=BOS, eos=EOS, limits=LIMITS, options=SearchOptions(beam=1)
    )
    assert cold == only == expected


def test_a_number_draws_the_id_in_whose_share_it_lies() -> None:
    q = torch.tensor([[0.0, 0.3, 0.0, 0.6, 0.0, 0.1, 0.0]], dtype=torch.float64) * 3
    u = torch.tensor([0.0, 0.29, 0.31, 0.89, 0.91, 1 - 2.0**-BITS], dtype=torch.float64)
    assert draw_ids(q.expand(6, -1), u).tolist() == [1, 1, 3, 3, 5, 5]
    # The largest number there is stays within the vocabulary, whatever the sum is rounded to.
    rows = torch.rand(9973, 11, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    assert draw_ids(rows, torch.full((9973,), 1 - 2.0**-BITS, dtype=torch.float64)).max() == 10


def test_uniform_numbers_are_uniform_and_depend_on_everything() -> None:
    numbers = [Uniforms(1, [source], draw)[t] for source in range(11) for draw in range(7) for t in range(131)]
    assert len(set(numbers)) == len(numbers)
    assert 0 <= min(numbers) < max(numbers) < 1
    ordered = sorted(numbers)
    furthest = max(abs(number - (i + 0.5) / len(ordered)) for i, number in enumerate(ordered))
    assert furthest < 1.63 / math.sqrt(len(ordered)), "Kolmogorov and Smirnov, at one percent"
    one = Uniforms(1, [3, 45], 6)[7]
    others = [(2, [3, 45], 6, 7), (1, [34, 5], 6, 7), (1, [3, 4], 6, 7), (1, [3, 45], 5, 7), (1, [3, 45], 6, 8)]
    assert all(Uniforms(seed, ids, draw)[t] != one for seed, ids, draw, t in others)
    assert Uniforms(1, [3, 45], 6)[7] == one


def test_the_batch_does_not_matter() -> None:
    for options in OPTIONS:
        model = ToyModel(seed=3, vocab_size=7)
        together = run(model, SOURCES, LIMITS, options, prefixes=PREFIXES)
        order = random.Random(3).sample(range(len(SOURCES)), len(SOURCES))
        for size in (1, 2, 7):
            for start in range(0, len(order), size):
                some = order[start : start + size]
                picked = [[values[i] for i in some] for values in (SOURCES, LIMITS, PREFIXES)]
                found = run(model, picked[0], picked[1], options, prefixes=picked[2])
                assert found == [together[i] for i in some]


def test_draws_are_numbered_and_seeds_differ() -> None:
    model = ToyModel(seed=3, vocab_size=7, spread=0.5)
    one, five, other = (
        run(model, SOURCES, LIMITS, SearchOptions(sample=True, n_best=n, seed=seed))
        for n, seed in ((1, 1), (5, 1), (1, 2))
    )
    assert [draws[:1] for draws in five] == one != other
    assert len({draw.ids for draw in five[-1]}) > 1
    assert run(model, [11, 23, 11], [7, 3, 7], SearchOptions(sample=True))[0] == one[0], "a repeated line is the same"


def test_search_samples_when_asked_to() -> None:
    model = ToyModel(seed=3, vocab_size=7)
    options = SearchOptions(sample=True, n_best=2)
    assert run(model, SOURCES, LIMITS, options, algorithm=search) == run(model, SOURCES, LIMITS, options)
    assert run(model, [], [], options) == []
    with pytest.raises(ValueError, match="0 keys for 1 sentences"):
        sample(model.step, model.select, model.start([11]), bos=BOS, eos=EOS, limits=[3], options=options, keys=[])
