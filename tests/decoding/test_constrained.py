"""Searches that must hold phrases, beside every sequence there is; and the phrases themselves, beside all placings."""

import functools
import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attendo.decoding.beam import search
from attendo.decoding.constrained import MOST_BANKS, NARROWEST, Candidate, constrained_search, divided, width
from attendo.decoding.phrases import READINGS, Phrase, Progress, Wanted
from attendo.decoding.search import Hypothesis, LengthPenalty, SearchOptions, Stopping
from attendo.errors import ConfigError
from tests.decoding import toy
from tests.decoding.placings import holds, most_held, phrase
from tests.decoding.toy import BOS, EOS, ToyModel

A, B, C = 3, 4, 5
FORBIDDEN = (0, BOS)
PENALTIES = get_args(LengthPenalty)
EVERYTHING = 1201  # a beam that holds all sequences of at most 6 of the ids A, B, C

few = settings(max_examples=50)

CASES: dict[str, list[Phrase]] = {
    "an id": [phrase([A])],
    "a run": [phrase([A, B, C])],
    "the same id twice": [phrase([A, A])],
    "the same phrase twice": [phrase([A, B]), phrase([A, B])],
    "one begins the other": [phrase([A, B]), phrase([A, B, C])],
    "one ends as the other begins": [phrase([A, B]), phrase([B, C])],
    "one repeats the other": [phrase([A]), phrase([A, A])],
    "one begins again within itself": [phrase([A, B, A, C])],
    "alternatives": [phrase([A, B], [C])],
    "alternatives that begin alike": [phrase([A, B, C], [A, C]), phrase([B])],
    "an alternative that another needs": [phrase([A], [B]), phrase([A], [C]), phrase([B], [C])],
    "pairs": [phrase([A]), phrase([B]), phrase([A]), phrase([B])],
}
APART: dict[str, list[Phrase]] = {
    "not before an id": [phrase([A], not_before=[B])],
    "not before itself": [phrase([A, B], [A], not_before=[A, B])],
    "not before the other": [phrase([A], [C], not_before=[B]), phrase([B, C], not_before=[A])],
    "twice, and apart": [phrase([A], not_before=[A]), phrase([A], not_before=[A]), phrase([A], [B])],
}


def run(model, sources, limits, options, phrases, forbidden=FORBIDDEN, prefixes=None) -> list[list[Hypothesis]]:
    return toy.run(
        constrained_search, model, sources, limits, options, phrases=phrases, forbidden=forbidden, prefixes=prefixes
    )


def plain(model, sources, limits, options, forbidden=FORBIDDEN, prefixes=None) -> list[list[Hypothesis]]:
    return toy.run(search, model, sources, limits, options, forbidden=forbidden, prefixes=prefixes)


@functools.cache
def everything(seed: int, source: int, limit: int) -> dict[tuple[int, ...], float]:
    """The log probability of every sequence of A, B and C, with its EOS."""
    model = ToyModel(seed=seed, vocab_size=6)
    prefixes: dict[tuple[int, ...], float] = {(): 0.0}
    ended: dict[tuple[int, ...], float] = {}
    for length in range(limit + 1):
        longer: dict[tuple[int, ...], float] = {}
        for ids, log_prob in prefixes.items():
            values = model.log_probs(source, ids)
            ended[ids] = log_prob + values[EOS]
            if length < limit:
                longer |= {(*ids, id_): log_prob + values[id_] for id_ in (A, B, C)}
        prefixes = longer
    return ended


@pytest.mark.parametrize("name", CASES | APART)
@pytest.mark.parametrize("stopping", get_args(Stopping))
def test_a_beam_that_holds_everything_finds_the_best_that_hold_the_phrases(name, stopping) -> None:
    phrases, limit = (CASES | APART)[name], 5
    for seed, penalty in enumerate(PENALTIES):
        options = SearchOptions(beam=EVERYTHING, n_best=7, length_penalty=penalty, stopping=stopping)
        (found,) = run(ToyModel(seed=seed, vocab_size=6), [11], [limit], options, [phrases])
        all_scored = [
            (ids, log_prob / options.penalty(len(ids) + 1)) for ids, log_prob in everything(seed, 11, limit).items()
        ]
        expected = sorted((entry for entry in all_scored if holds(phrases, entry[0])), key=lambda entry: -entry[1])[:7]
        assert [one.ids for one in found] == [ids for ids, _ in expected]
        assert [one.score for one in found] == pytest.approx([score for _, score in expected])
        assert [one.finished for one in found] == [len(ids) < limit for ids, _ in expected]


@pytest.mark.parametrize("name", [name for name, phrases in CASES.items() if len(phrases) > 1])
def test_where_the_limit_is_too_small_the_best_of_those_that_hold_the_most_are_found(name) -> None:
    phrases = CASES[name]
    limit = sum(min(map(len, one.alternatives)) for one in phrases) - 1
    for seed in range(3):
        (found,) = run(
            ToyModel(seed=seed, vocab_size=6), [11], [limit], SearchOptions(beam=EVERYTHING, n_best=3), [phrases]
        )
        cut = {ids: log_prob for ids, log_prob in everything(seed, 11, limit).items() if len(ids) == limit}
        most = max(most_held(phrases, ids) for ids in cut)
        expected = sorted((-log_prob, ids) for ids, log_prob in cut.items() if most_held(phrases, ids) == most)[:3]
        assert [one.ids for one in found] == [ids for _, ids in expected]
        assert not any(one.finished for one in found)


@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize("name", CASES)
def test_the_phrases_come_if_there_is_just_room_for_them(name, beam) -> None:
    phrases = CASES[name]
    limit = sum(min(map(len, one.alternatives)) for one in phrases)
    for seed, eos_bias in ((1, 20.0), (2, 0.0), (3, -20.0)):
        model = ToyModel(seed=seed, vocab_size=23, eos_bias=eos_bias)
        for found in run(model, [2, 7, 11], [limit, limit + 1, 17], SearchOptions(beam=beam), [phrases] * 3):
            assert holds(phrases, found[0].ids)


ids_of_phrases = st.sampled_from([A, B, C])
runs = st.lists(ids_of_phrases, min_size=1, max_size=3).map(tuple)


@st.composite
def phrase_lists(draw: st.DrawFn, *, most: int = 3, apart: bool = False) -> list[Phrase]:
    found = []
    for _ in range(draw(st.integers(1, most))):
        not_before = draw(st.frozensets(ids_of_phrases, max_size=2)) if apart else frozenset()
        found.append(Phrase(tuple(draw(st.lists(runs, min_size=1, max_size=2))), not_before))
    return found


@few
@given(phrases=phrase_lists(), seed=st.integers(0, 99), beam=st.integers(1, 6), room=st.integers(0, 7), data=st.data())
def test_the_phrases_come_whenever_the_limit_allows(phrases, seed, beam, room, data) -> None:
    model = ToyModel(seed=seed, vocab_size=11, spread=3.0)
    prefix = data.draw(st.lists(st.sampled_from([A, B, C, 6]), max_size=3))
    limit = len(prefix) + sum(min(map(len, one.alternatives)) for one in phrases) + room
    options = SearchOptions(beam=beam, n_best=beam)
    (found,) = run(model, [seed], [limit], options, [phrases], prefixes=[prefix])
    assert 1 <= len({one.ids for one in found}) == len(found)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    for one in found:
        assert holds(phrases, one.ids)
        assert list(one.ids[: len(prefix)]) == prefix
        assert len(one.ids) <= limit
        assert one.token_log_probs == tuple(model.forced(seed, one.ids))
        assert one.score == one.log_prob / options.penalty(len(one.ids) + 1)


def after(wanted: Wanted, ids: Sequence[int]) -> Progress:
    return functools.reduce(Progress.then, ids, wanted.start)


@few
@given(phrases=phrase_lists(most=4), ids=st.lists(ids_of_phrases, max_size=7))
def test_progress_is_that_of_the_best_of_all_placings(phrases, ids) -> None:
    wanted = Wanted(phrases)
    progress = after(wanted, ids)
    assert progress.n_met == most_held(phrases, ids)
    assert (progress.missing == 0) == holds(phrases, ids)
    assert progress.missing <= wanted.start.missing
    # What is useful leads nearer, as near as it says; nothing else does.
    for _ in range(progress.missing):
        assert progress.then(99).missing >= progress.missing
        nearer = min(map(progress.then, progress.useful), key=lambda one: one.missing)
        assert nearer.missing == progress.missing - 1
        progress = nearer


@few
@given(phrases=phrase_lists(apart=True), ids=st.lists(ids_of_phrases, max_size=8))
def test_progress_is_that_of_the_best_of_all_placings_where_some_are_apart(phrases, ids) -> None:
    progress = after(Wanted(phrases), ids)
    assert progress.n_met == most_held(phrases, ids)
    assert (progress.missing == 0) == holds(phrases, ids)


def test_progress_is_the_same_object_for_the_same_progress() -> None:
    wanted = Wanted([phrase([A, B])])
    assert after(wanted, [C, C]) is wanted.start
    assert after(wanted, [A, C]) is wanted.start, "what is broken off is forgotten"
    assert after(wanted, [A, A]) is after(wanted, [A])
    assert after(wanted, [A, A, B, C]).missing == 0


def test_phrases_that_are_alike_are_not_told_apart() -> None:
    """Else the readings of n of them would be as many as there are ways to choose some."""
    tags = [phrase([A, i % 2 + B]) for i in range(60)]
    wanted = Wanted(tags)
    progress = after(wanted, [A, B] * 30 + [A, C] * 17)
    assert progress.n_met == 47
    assert len(progress._readings) == 1
    assert len(after(wanted, [A, B] * 30 + [A, C] * 17 + [A])._readings) == 2
    assert len(wanted._known) < 200


def test_phrases_that_begin_others_do_not_make_too_many_readings() -> None:
    """Digits and numbers that begin with them: 2 ** 12 readings of the numbers alone."""
    phrases = [phrase(ids) for i in range(12) for ids in ([10 + i], [10 + i, 40 + i])]
    numbers = [id_ for i in range(12) for id_ in (10 + i, 40 + i)]
    wanted = Wanted(phrases)
    assert len(after(wanted, numbers)._readings) <= 2 * READINGS
    assert after(wanted, numbers).missing == 12
    assert after(wanted, numbers + list(range(10, 22))).missing == 0
    model = ToyModel(seed=3, vocab_size=53)
    (found,) = run(model, [11], [40], SearchOptions(), [phrases])
    assert after(wanted, found[0].ids).missing == 0


def test_sentences_without_phrases_are_searched_as_ever() -> None:
    model = ToyModel(seed=5, vocab_size=11, coarse=True)
    sources, limits = list(range(2, 21)), [i % 7 + 3 for i in range(19)]
    phrases: list[list[Phrase]] = [[phrase([A, B])] if i % 3 == 0 else [] for i in range(19)]
    prefixes = [[C] if i % 4 == 0 else [] for i in range(19)]
    for options in (
        SearchOptions(beam=1),
        SearchOptions(n_best=3),
        SearchOptions(beam=4, stopping="exact", no_repeat_ngram=2),
    ):
        found = run(model, sources, limits, options, phrases, prefixes=prefixes)
        expected = plain(model, sources, limits, options, prefixes=prefixes)
        for given_phrases, ours, theirs in zip(phrases, found, expected, strict=True):
            assert ours == theirs or given_phrases
            assert all(holds(given_phrases, one.ids) for one in ours)
        assert run(model, sources, limits, options, [[]] * 19, prefixes=prefixes) == expected


@pytest.mark.parametrize("stopping", get_args(Stopping))
def test_the_batch_does_not_matter(stopping) -> None:
    model = ToyModel(seed=5, vocab_size=11, coarse=True)
    options = SearchOptions(n_best=3, stopping=stopping)
    names = [*CASES, None]
    sentences = [(source, (source * 5) % 17, names[source % len(names)]) for source in range(2, 37)]

    def together(batch):
        phrases = [CASES[name] if name else [] for _, _, name in batch]
        return run(model, [source for source, _, _ in batch], [limit for _, limit, _ in batch], options, phrases)

    alone = {sentence: together([sentence])[0] for sentence in sentences}
    for seed in range(2):
        random.Random(seed).shuffle(sentences)
        for size in (35, 7, 2):
            assert together(sentences[:size]) == [alone[sentence] for sentence in sentences[:size]]


def test_a_prefix_may_meet_phrases_or_begin_one() -> None:
    model = ToyModel(seed=3, vocab_size=11, eos_bias=9.0)
    options = SearchOptions()
    wanted = [phrase([A, B, C])]
    met, begun, broken = run(
        model, [7] * 3, [13] * 3, options, [wanted] * 3, prefixes=[[A, B, C, 6], [6, A, B], [A, 6]]
    )
    assert met == plain(model, [7], [13], options, prefixes=[[A, B, C, 6]])[0]
    assert begun[0].ids == (6, A, B, C)
    assert broken[0].ids == (A, 6, A, B, C)


def test_what_never_comes_is_not_waited_for() -> None:
    model = ToyModel(seed=3, vocab_size=11)
    options = SearchOptions(n_best=3)
    for never in (phrase([A, 0, B]), phrase([EOS], [BOS, A]), phrase([]), phrase()):
        (alone,) = run(model, [7], [13], options, [[never]])
        (beside,) = run(model, [7], [13], options, [[phrase([A, B]), never, phrase([C])]])
        assert alone[0].finished
        assert all(holds([phrase([A, B]), phrase([C])], one.ids) for one in beside)
    (found,) = run(model, [7], [13], options, [[phrase([0, A], [A, B])]])
    assert all(holds([phrase([A, B])], one.ids) for one in found)


def test_no_ngram_is_repeated_even_where_phrases_would() -> None:
    model = ToyModel(seed=3, vocab_size=11)
    (found,) = run(model, [7], [13], SearchOptions(no_repeat_ngram=2), [[phrase([A, B]), phrase([A, B])]])
    assert most_held([phrase([A, B])] * 2, found[0].ids) == 1
    assert len(found[0].ids) == 13
    assert not found[0].finished
    (found,) = run(model, [7], [13], SearchOptions(no_repeat_ngram=1), [[phrase([A, B]), phrase([C])]])
    assert holds([phrase([A, B]), phrase([C])], found[0].ids)
    assert len(set(found[0].ids)) == len(found[0].ids)


def test_where_nothing_else_may_come_a_hypothesis_ends() -> None:
    model = ToyModel(seed=3)
    options = SearchOptions(beam=2, n_best=2)
    (found,) = run(model, [7], [13], options, [[phrase([A, A])]], forbidden=(0, BOS, B, EOS + 1))
    assert [one.ids for one in found] == [()]
    # Each id at most once: all four, in some order, and the phrase is impossible.
    options = SearchOptions(beam=2, n_best=2, no_repeat_ngram=1)
    (found,) = run(model, [7], [13], options, [[phrase([A, A])]], forbidden=())
    assert {frozenset(one.ids) for one in found} == {frozenset((0, BOS, A, B))}
    (found,) = run(model, [7], [0], options, [[phrase([A])]])
    assert [(one.ids, one.finished) for one in found] == [((), False)]


def test_first_stopping_waits_for_what_the_likeliest_prefix_lacks() -> None:
    """B B B is what this model would say. With A, hypotheses end at every step, and the best of them is the last."""

    def step(ids_N, prefixes):
        prefixes = [(*prefix, id_) for prefix, id_ in zip(prefixes, ids_N.tolist(), strict=True)]
        probabilities_NV = torch.full((len(prefixes), 5), 1e-9)
        for row, (_, *ids) in enumerate(prefixes):
            if A in ids:
                probabilities_NV[row, [EOS, B]] = torch.tensor([1.0, 1e-9] if len(ids) > 3 else [0.5, 0.5])
            else:
                probabilities_NV[row, [EOS, A, B]] = torch.tensor(
                    [0.9, 0.1, 1e-9] if len(ids) == 3 else [1e-9, 1e-3, 1]
                )
        return probabilities_NV.log(), prefixes

    def select(prefixes, rows_M):
        return [prefixes[row] for row in rows_M.tolist()]

    for stopping in get_args(Stopping):
        options = SearchOptions(length_penalty="none", stopping=stopping)
        found = constrained_search(
            step, select, [()], bos=BOS, eos=EOS, limits=[9], options=options, phrases=[[phrase([A])]]
        )
        assert found[0][0].ids == (B, B, B, A)


def test_where_places_are_few_the_best_and_those_that_miss_the_least_have_one() -> None:
    def candidate(log_prob: float, missing: int) -> Candidate:
        return Candidate(log_prob, 0, 7, -1.0, cast(Progress, SimpleNamespace(missing=missing)))

    candidates = [candidate(-1.0 - i / 100, 9 - i % 10) for i in range(20)]

    def chosen(width: int) -> list[tuple[float, int]]:
        return [(one.log_prob, one.progress.missing) for one in divided(candidates, width)]

    assert chosen(3) == [(-1.0, 9), (-1.09, 0), (-1.08, 1)]
    assert [missing for _, missing in chosen(10)] == [9, *range(9)]
    assert chosen(12)[10:] == [(-1.19, 0), (-1.18, 1)]
    long = [phrase(range(10, 10 + 2 * MOST_BANKS))]
    assert width(long, SearchOptions()) == 10 + MOST_BANKS
    model = ToyModel(seed=3, vocab_size=83)
    assert holds(long, run(model, [7], [2 * MOST_BANKS + 5], SearchOptions(), [long])[0][0].ids)


def test_rows_are_as_many_as_promised_and_finished_sentences_leave() -> None:
    model = ToyModel(seed=5, vocab_size=23)
    phrases = [[phrase([A, B])], [phrase([A, 7, 8, 9]), phrase([C, B])]]
    options = SearchOptions(beam=7)
    run(model, [5, 7], [6, 19], options, phrases)
    assert [width(one, options) for one in phrases] == [16, 20]
    assert width((), SearchOptions(beam=1)) == 2 * NARROWEST
    for source, most in ((5, 16), (7, 20)):
        live = [{tuple(ids) for ids in state.ids_NT[state.source_N == source].tolist()} for state in model.steps]
        assert max(map(len, live)) == most
    assert [5 in state.source_N for state in model.steps[6:8]] == [True, False]
    assert [7 in state.source_N for state in model.steps[6:8]] == [True, True]
    for state in model.steps:
        _, counts = state.source_N.unique_consecutive(return_counts=True)
        assert len(set(counts.tolist())) == 1, "as many rows for each sentence"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (SearchOptions(sample=True), r"sample = True: .* Leave out sampling, or the phrases"),
        (SearchOptions(beam=4, diversity_groups=2), r"diversity_groups = 2: .* Leave out groups"),
    ],
)
def test_what_is_no_plain_beam_is_refused(options, words) -> None:
    with pytest.raises(ConfigError, match=words):
        run(ToyModel(seed=3), [7], [5], options, [[phrase([A])]])


def test_mistaken_arguments_are_errors() -> None:
    model = ToyModel(seed=3)
    with pytest.raises(ValueError, match="phrases for 2 sentences, and limits for 1"):
        run(model, [7], [5], SearchOptions(), [[], [phrase([A])]])


def test_empty_batch() -> None:
    assert run(ToyModel(seed=3), [], [], SearchOptions(), []) == []
