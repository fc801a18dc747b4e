import random
from typing import get_args

import pytest
import torch

from attendo.decoding.beam import beam_search
from attendo.decoding.search import LengthPenalty, SearchOptions
from tests.decoding import toy
from tests.decoding.toy import BOS, EOS, ToyModel, exhaustive, slow_beam

SOURCES = [11, 23, 5, 17, 2, 31, 7]
LIMITS = [7, 3, 0, 11, 5, 2, 13]
PENALTIES = get_args(LengthPenalty)


def run(model, sources, limits, options, forbidden=(), prefixes=None):
    return toy.run(beam_search, model, sources, limits, options, forbidden=forbidden, prefixes=prefixes)


def assert_same(hypotheses, expected) -> None:
    assert [hypothesis.ids for hypothesis in hypotheses] == [ids for ids, _ in expected]
    assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx([score for _, score in expected])


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("stopping", ["exact", "first"])
def test_a_beam_that_holds_everything_finds_the_best_there_is(penalty, stopping) -> None:
    # 4 ids and EOS, at most 4 ids: 341 sequences, never more than 320 candidates before the last EOS. As many
    # hypotheses as the beam is wide never end, so "first" runs to the limit too.
    for seed in range(3):
        model = ToyModel(seed=seed)
        options = SearchOptions(beam=347, n_best=13, length_penalty=penalty, stopping=stopping)
        results = run(model, SOURCES[:3], [4, 3, 1], options)
        for source, limit, hypotheses in zip(SOURCES[:3], [4, 3, 1], results, strict=True):
            assert_same(hypotheses, exhaustive(model, source, limit, options))


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.7])
def test_alpha_is_used(alpha) -> None:
    model = ToyModel(seed=3)
    options = SearchOptions(beam=347, n_best=5, length_penalty="gnmt", alpha=alpha)
    assert_same(run(model, [11], [4], options)[0], exhaustive(model, 11, 4, options))


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("stopping", ["exact", "first"])
@pytest.mark.parametrize(("beam", "n_best"), [(2, 1), (3, 3), (5, 2)])
@pytest.mark.parametrize("coarse", [False, True])
def test_beam_search_is_its_slow_twin(penalty, stopping, beam, n_best, coarse) -> None:
    """The twin never stops early under "exact": so this is also the proof that stopping changes nothing."""
    for seed in range(3):
        model = ToyModel(seed=seed, vocab_size=7, coarse=coarse)
        options = SearchOptions(beam=beam, n_best=n_best, length_penalty=penalty, stopping=stopping)
        results = run(model, SOURCES, LIMITS, options, forbidden=(0,))
        for source, limit, hypotheses in zip(SOURCES, LIMITS, results, strict=True):
            assert_same(hypotheses, slow_beam(model, source, limit, options, forbidden=(0,)))


@pytest.mark.parametrize("penalty", PENALTIES)
def test_exact_stopping_saves_steps(penalty) -> None:
    # EOS is likely after every prefix of this model, so going on soon costs more than a penalty can repay.
    model = ToyModel(seed=3, vocab_size=7, spread=1.0, eos_bias=5.0)
    options = SearchOptions(length_penalty=penalty)
    results = run(model, SOURCES, [41] * len(SOURCES), options)
    assert len(model.steps) < 21
    for source, hypotheses in zip(SOURCES, results, strict=True):
        assert_same(hypotheses, slow_beam(model, source, 41, options))
    # As long as fewer hypotheses have ended than are asked for, it goes on.
    patient = ToyModel(seed=3, vocab_size=7, spread=1.0, eos_bias=-20.0)
    run(patient, [11], [41], options)
    assert len(patient.steps) == 42


def test_first_stopping_may_miss_what_exact_stopping_finds() -> None:
    a, b = 3, 4
    probabilities = {
        (): {EOS: 0.40, a: 0.35, b: 0.25},
        (a,): {EOS: 0.50, a: 0.50},
        (a, a): {a: 1.0},
        (a, a, a): {EOS: 1.0},
    }

    def step(ids_N, prefixes):
        prefixes = [(*prefix, id_) for prefix, id_ in zip(prefixes, ids_N.tolist(), strict=True)]
        logits = torch.full((len(prefixes), 5), 1e-9)
        for row, prefix in enumerate(prefixes):
            for id_, probability in probabilities.get(prefix[1:], {b: 1.0}).items():
                logits[row, id_] = probability
        return logits.log(), prefixes

    def select(prefixes, rows_M):
        return [prefixes[row] for row in rows_M.tolist()]

    def best(stopping):
        options = SearchOptions(beam=2, length_penalty="average", stopping=stopping)
        return beam_search(step, select, [()], bos=BOS, eos=EOS, limits=[5], options=options)[0][0]

    # "" ends in the first step, "a" in the second: two hypotheses, as many as the beam is wide.
    assert best("first").ids == (a,)
    assert best("exact").ids == (a, a, a)
    assert best("exact").score > best("first").score


@pytest.mark.parametrize("stopping", ["exact", "first", "heuristic"])
def test_the_batch_does_not_matter(stopping) -> None:
    model = ToyModel(seed=5, vocab_size=11, coarse=True)
    options = SearchOptions(n_best=3, stopping=stopping)
    sentences = [(source, (source * 5) % 17) for source in range(2, 31)]
    alone = {sentence: run(model, [sentence[0]], [sentence[1]], options)[0] for sentence in sentences}
    for seed in range(3):
        random.Random(seed).shuffle(sentences)
        for size in (29, 7, 2):
            batch = sentences[:size]
            together = run(model, [source for source, _ in batch], [limit for _, limit in batch], options)
            assert together == [alone[sentence] for sentence in batch]


@pytest.mark.parametrize("penalty", PENALTIES)
def test_n_best_are_sorted_distinct_and_scored_as_by_teacher_forcing(penalty) -> None:
    model = ToyModel(seed=5, vocab_size=11)
    options = SearchOptions(n_best=5, length_penalty=penalty)
    results = run(model, SOURCES, [7] * len(SOURCES), options, forbidden=(0, BOS))
    for source, hypotheses in zip(SOURCES, results, strict=True):
        assert len({hypothesis.ids for hypothesis in hypotheses}) == 5
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert scores == sorted(scores, reverse=True)
        for hypothesis in hypotheses:
            forced = model.forced(source, hypothesis.ids)
            assert hypothesis.token_log_probs == tuple(forced)
            assert hypothesis.log_prob == pytest.approx(sum(forced))
            assert hypothesis.score == hypothesis.log_prob / options.penalty(len(hypothesis.ids) + 1)
            assert not {0, BOS, EOS} & set(hypothesis.ids)


def test_limits_belong_to_the_sentence_and_force_eos() -> None:
    model = ToyModel(seed=5, vocab_size=11, eos_bias=-20.0)
    results = run(model, SOURCES, LIMITS, SearchOptions(n_best=3))
    for source, limit, hypotheses in zip(SOURCES, LIMITS, results, strict=True):
        # Nothing but a limit ends a sentence of this model; a limit of 0 leaves one hypothesis.
        assert [len(hypothesis.ids) for hypothesis in hypotheses] == [limit] * (3 if limit else 1)
        for hypothesis in hypotheses:
            assert not hypothesis.finished
            assert hypothesis.token_log_probs[-1] == model.log_probs(source, hypothesis.ids)[EOS]
    assert len(model.steps) == max(LIMITS) + 1

    willing = ToyModel(seed=5, vocab_size=11, eos_bias=20.0)
    assert all(hypotheses[0].finished for hypotheses in run(willing, SOURCES, [3] * 7, SearchOptions()))


def test_forbidden_ids_do_not_end_up_in_any_hypothesis() -> None:
    model = ToyModel(seed=5)
    options = SearchOptions(beam=7, n_best=7)
    free = run(model, SOURCES, [4] * len(SOURCES), options)
    assert any(0 in hypothesis.ids for hypotheses in free for hypothesis in hypotheses)
    held = run(model, SOURCES, [4] * len(SOURCES), options, forbidden=(0, BOS))
    assert not any({0, BOS} & set(hypothesis.ids) for hypotheses in held for hypothesis in hypotheses)
    # All but EOS forbidden: one empty hypothesis, whatever the beam.
    for hypotheses in run(model, SOURCES, [4] * len(SOURCES), options, forbidden=(0, 1, 3, 4)):
        assert [hypothesis.ids for hypothesis in hypotheses] == [()]


def test_state_rows_are_the_prefixes_and_finished_sentences_leave() -> None:
    model = ToyModel(seed=5, vocab_size=11, spread=3.0)
    beam = 3
    run(model, SOURCES, LIMITS, SearchOptions(beam=beam), forbidden=(0, BOS))
    assert [len(state.source_N) for state in model.steps][:2] == [len(SOURCES), beam * (len(SOURCES) - 1)]
    present = [state.source_N.tolist() for state in model.steps]
    for step, state in enumerate(model.steps):
        assert (state.ids_NT[:, 0] == BOS).all()
        assert not (state.ids_NT[:, 1:] == EOS).any()
        rows = [(source, *ids) for source, ids in zip(present[step], state.ids_NT.tolist(), strict=True)]
        assert len(set(rows)) == len(rows), "the live prefixes of a sentence are distinct"
        if step:
            before = model.steps[step - 1]
            parents = {(source, *ids) for source, ids in zip(present[step - 1], before.ids_NT.tolist(), strict=True)}
            assert {row[:-1] for row in rows} <= parents
            stayed = [source for source in SOURCES if source in present[step]]
            assert present[step] == [source for source in stayed for _ in range(beam)]
            assert set(present[step]) <= set(present[step - 1])
    assert len(set(map(len, present))) > 3, "sentences end at different steps"


def test_select_is_not_called_when_nothing_moves() -> None:
    model = ToyModel(seed=5, vocab_size=11, eos_bias=-20.0)
    # With a beam of one and no sentence ending before the common limit, every selection is the identity.
    run(model, SOURCES, [5] * len(SOURCES), SearchOptions(beam=1))
    assert len(model.steps) == 6
    assert model.selections == []

    run(model, SOURCES, LIMITS, SearchOptions(beam=3))
    assert model.selections
    for rows in model.selections:
        assert len(rows) and rows.tolist() != list(range(len(rows))), "a prefix of the rows drops the rest"


def test_beam_wider_than_the_vocabulary() -> None:
    for vocab_size in (3, 5):
        model = ToyModel(seed=7, vocab_size=vocab_size)
        options = SearchOptions(beam=13, n_best=13)
        results = run(model, SOURCES, LIMITS, options)
        for source, limit, hypotheses in zip(SOURCES, LIMITS, results, strict=True):
            assert_same(hypotheses, slow_beam(model, source, limit, options))


def test_ties_are_broken_by_prefix_then_id() -> None:
    model = ToyModel(seed=0, vocab_size=7, spread=0.0, eos_bias=-20.0)
    options = SearchOptions(beam=5, n_best=5, length_penalty="average")
    (hypotheses,) = run(model, [11], [2], options, forbidden=(0, BOS))
    assert [hypothesis.ids for hypothesis in hypotheses] == [(3, 3), (3, 4), (3, 5), (3, 6), (4, 3)]


DIVERSE = [(4, 2, 0.5), (6, 3, 0.25), (6, 3, 2.0), (3, 3, 0.5), (6, 2, 1e-9), (6, 3, 1000.0)]
PREFIXES = [[3, 4], [], [], [5, 5, 5, 5, 3], [6], [4, 3], [0]]


@pytest.mark.parametrize("stopping", ["exact", "first"])
@pytest.mark.parametrize(("beam", "groups", "diversity"), DIVERSE)
def test_diverse_beam_search_is_its_slow_twin(stopping, beam, groups, diversity) -> None:
    for seed in range(5):
        model = ToyModel(seed=seed, vocab_size=7)
        for n_best in (1, beam):
            options = SearchOptions(
                beam=beam, n_best=n_best, stopping=stopping, diversity_groups=groups, diversity=diversity
            )
            results = run(model, SOURCES, LIMITS, options, forbidden=(0,))
            for source, limit, hypotheses in zip(SOURCES, LIMITS, results, strict=True):
                assert_same(hypotheses, slow_beam(model, source, limit, options, forbidden=(0,)))


def test_the_scores_of_diverse_hypotheses_are_the_models_own() -> None:
    model = ToyModel(seed=3, vocab_size=7)
    options = SearchOptions(beam=6, n_best=6, diversity_groups=3, diversity=2.0)
    for source, hypotheses in zip(SOURCES, run(model, SOURCES, LIMITS, options), strict=True):
        assert len({hypothesis.ids for hypothesis in hypotheses}) == len(hypotheses)
        for hypothesis in hypotheses:
            assert hypothesis.token_log_probs == pytest.approx(model.forced(source, hypothesis.ids))


@pytest.mark.parametrize("stopping", ["exact", "first"])
def test_groups_that_find_the_same_fill_up_with_what_else_ended(stopping) -> None:
    """With hardly any diversity all groups are alike: n_best beyond a group's width are found in what it kept."""
    model = ToyModel(seed=3, vocab_size=7, eos_bias=3.0)
    options = SearchOptions(beam=6, n_best=6, diversity_groups=3, diversity=1e-9, stopping=stopping)
    filled = 0
    for source, hypotheses in zip(SOURCES, run(model, SOURCES, [13] * 7, options), strict=True):
        assert_same(hypotheses, slow_beam(model, source, 13, options))
        assert len({hypothesis.ids for hypothesis in hypotheses}) == len(hypotheses)
        filled += len(hypotheses) > 2
    assert filled > 3


def test_the_first_group_is_a_plain_beam_and_the_others_avoid_it() -> None:
    """Without EOS before the limit, a group's first ids show what it chose."""
    model = ToyModel(seed=3, vocab_size=11, eos_bias=-20.0)
    sources, limits = SOURCES, [3] * len(SOURCES)
    best = run(model, sources, limits, SearchOptions(beam=2, n_best=2))
    likely = run(model, sources, limits, SearchOptions(beam=6, n_best=6))
    diverse = run(model, sources, limits, SearchOptions(beam=6, n_best=6, diversity_groups=3, diversity=100.0))
    for plain, found in zip(best, diverse, strict=True):
        assert {one.ids for one in plain} <= {one.ids for one in found}
        assert len({one.ids[0] for one in found}) >= 3, "nobody goes where another group is"

    def first_ids(results):
        return sum(len({one.ids[0] for one in found}) for found in results)

    assert first_ids(diverse) > first_ids(likely)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(("beam", "groups"), [(3, 1), (4, 2)])
def test_no_ngram_is_repeated(n, beam, groups) -> None:
    banned = 0
    for seed in range(3):
        model = ToyModel(seed=seed, vocab_size=7, eos_bias=-3.0)
        free = SearchOptions(beam=beam, n_best=beam, diversity_groups=groups)
        options = SearchOptions(beam=beam, n_best=beam, diversity_groups=groups, no_repeat_ngram=n)
        results = run(model, SOURCES, LIMITS, options)
        banned += results != run(model, SOURCES, LIMITS, free)
        for source, limit, hypotheses in zip(SOURCES, LIMITS, results, strict=True):
            assert_same(hypotheses, slow_beam(model, source, limit, options))
            for ids in (hypothesis.ids for hypothesis in hypotheses):
                ngrams = [ids[i : i + n] for i in range(len(ids) - n + 1)]
                assert len(set(ngrams)) == len(ngrams)
    assert banned == 3


@pytest.mark.parametrize("stopping", ["exact", "first"])
@pytest.mark.parametrize(("beam", "groups", "n"), [(2, 1, 0), (5, 1, 0), (4, 2, 0), (3, 1, 2)])
def test_prefixes_are_forced_and_the_search_goes_on_from_them(stopping, beam, groups, n) -> None:
    for seed in range(5):
        model = ToyModel(seed=seed, vocab_size=7)
        options = SearchOptions(beam=beam, n_best=beam, stopping=stopping, diversity_groups=groups, no_repeat_ngram=n)
        results = run(model, SOURCES, LIMITS, options, forbidden=(0,), prefixes=PREFIXES)
        for source, limit, prefix, hypotheses in zip(SOURCES, LIMITS, PREFIXES, results, strict=True):
            assert_same(hypotheses, slow_beam(model, source, limit, options, forbidden=(0,), prefix=prefix))
            assert hypotheses
            for hypothesis in hypotheses:
                assert list(hypothesis.ids[: len(prefix)]) == prefix
                assert hypothesis.token_log_probs == pytest.approx(model.forced(source, hypothesis.ids))


def test_the_batch_does_not_matter_to_groups_prefixes_and_ngrams() -> None:
    model = ToyModel(seed=3, vocab_size=7)
    options = SearchOptions(beam=6, n_best=4, diversity_groups=3, no_repeat_ngram=2)
    together = run(model, SOURCES, LIMITS, options, prefixes=PREFIXES)
    alone = [
        run(model, [source], [limit], options, prefixes=[prefix])[0]
        for source, limit, prefix in zip(SOURCES, LIMITS, PREFIXES, strict=True)
    ]
    assert together == alone
    assert run(model, SOURCES[::-1], LIMITS[::-1], options, prefixes=PREFIXES[::-1]) == together[::-1]


def test_empty_batch() -> None:
    model = ToyModel(seed=3)
    assert run(model, [], [], SearchOptions()) == []
    assert run(model, [], [], SearchOptions(beam=6, diversity_groups=3)) == []
    assert model.steps == []
