import pytest
import torch

from attendo.decoding.beam import beam_search, search
from attendo.decoding.greedy import greedy
from attendo.decoding.search import SearchOptions
from tests.decoding import toy
from tests.decoding.toy import EOS, ToyModel, slow_beam

SOURCES = [11, 23, 5, 17, 2, 31, 7]
LIMITS = [7, 3, 0, 11, 5, 2, 13]


def run(model, sources, limits, *, algorithm=greedy, options=None, forbidden=(), prefixes=None):
    options = options or SearchOptions(beam=1)
    return toy.run(algorithm, model, sources, limits, options, forbidden=forbidden, prefixes=prefixes)


def argmax_loop(model, source, limit, forbidden):
    ids: list[int] = []
    while len(ids) < limit:
        log_probs = model.log_probs(source, ids)
        best = max((i for i in range(model.vocab_size) if i not in forbidden), key=log_probs.__getitem__)
        if best == EOS:
            break
        ids.append(best)
    return tuple(ids)


@pytest.mark.parametrize("coarse", [False, True])
@pytest.mark.parametrize("forbidden", [(), (0, 1)])
def test_greedy_is_the_argmax_loop(coarse, forbidden) -> None:
    for seed in range(11):
        model = ToyModel(seed=seed, vocab_size=7, coarse=coarse)
        results = run(model, SOURCES, LIMITS, forbidden=forbidden)
        for source, limit, (hypothesis,) in zip(SOURCES, LIMITS, results, strict=True):
            assert hypothesis.ids == argmax_loop(model, source, limit, forbidden)
            assert hypothesis.token_log_probs == tuple(model.forced(source, hypothesis.ids))
            assert hypothesis.log_prob == pytest.approx(sum(hypothesis.token_log_probs))
            assert hypothesis.score == hypothesis.log_prob / SearchOptions().penalty(len(hypothesis.ids) + 1)
            assert hypothesis.finished == (len(hypothesis.ids) < limit)


@pytest.mark.parametrize("coarse", [False, True])
def test_beam_of_one_is_greedy(coarse) -> None:
    for seed in range(11):
        model = ToyModel(seed=seed, vocab_size=7, coarse=coarse)
        expected = run(model, SOURCES, LIMITS, forbidden=(0,))
        for stopping in ("exact", "first"):
            options = SearchOptions(beam=1, stopping=stopping)
            assert run(model, SOURCES, LIMITS, algorithm=search, options=options, forbidden=(0,)) == expected
        # A beam of one that ends at its first EOS is the same search by other code.
        options = SearchOptions(beam=1, stopping="first")
        assert run(model, SOURCES, LIMITS, algorithm=beam_search, options=options, forbidden=(0,)) == expected


@pytest.mark.parametrize("n", [0, 1, 2])
def test_greedy_keeps_to_prefixes_and_does_not_repeat_itself(n) -> None:
    prefixes = [[3, 4], [], [], [5, 5, 5, 5, 3], [6], [4, 3], [0]]
    options = SearchOptions(beam=1, no_repeat_ngram=n, stopping="first")
    for seed in range(11):
        model = ToyModel(seed=seed, vocab_size=7)
        results = run(model, SOURCES, LIMITS, options=options, forbidden=(0,), prefixes=prefixes)
        for source, limit, prefix, (hypothesis,) in zip(SOURCES, LIMITS, prefixes, results, strict=True):
            ((ids, score),) = slow_beam(model, source, limit, options, forbidden=(0,), prefix=prefix)
            assert hypothesis.ids == ids
            assert hypothesis.score == pytest.approx(score)
            assert list(ids[: len(prefix)]) == prefix


def test_the_batch_does_not_matter() -> None:
    model = ToyModel(seed=3, vocab_size=7)
    together = run(model, SOURCES, LIMITS)
    assert together == [run(model, [s], [limit])[0] for s, limit in zip(SOURCES, LIMITS, strict=True)]
    assert run(model, SOURCES[::-1], LIMITS[::-1]) == together[::-1]


def test_sentences_that_are_done_leave_the_batch() -> None:
    model = ToyModel(seed=3, vocab_size=7)
    results = run(model, SOURCES, LIMITS)
    lengths = [len(hypothesis.ids) for (hypothesis,) in results]
    assert len(set(lengths)) > 2
    for step, state in enumerate(model.steps):
        expected = [s for s, length in zip(SOURCES, lengths, strict=True) if length >= step]
        assert state.source_N.tolist() == expected
    assert len(model.steps) == max(lengths) + 1
    assert len(model.selections) == len(set(lengths)) - 1, "select only when a sentence leaves and others stay"


def test_ties_go_to_the_lowest_id() -> None:
    model = ToyModel(seed=0, vocab_size=7, spread=0.0, eos_bias=-1.0)
    assert torch.equal(model.table[:, 3], model.table[:, 6])
    ((hypothesis,),) = run(model, [11], [3], forbidden=(0, 1))
    assert hypothesis.ids == (3, 3, 3)


def test_limit_zero_and_empty_batch() -> None:
    model = ToyModel(seed=3, vocab_size=7, eos_bias=-5.0)
    ((hypothesis,),) = run(model, [11], [0])
    assert hypothesis.ids == ()
    assert not hypothesis.finished
    assert hypothesis.log_prob == model.log_probs(11, [])[EOS]
    assert run(model, [], []) == []
