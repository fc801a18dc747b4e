"""The engine on a model of random weights, whose outputs are as long as they may be and far from certain."""

import dataclasses
import functools
import math
import random
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from attendo import native
from attendo.data.batch import lengths, pad
from attendo.decoding.beam import beam_search, search
from attendo.decoding.search import Hypothesis, SearchOptions
from attendo.engines import torch_engine
from attendo.engines.torch_engine import TorchEngine
from attendo.errors import DataError
from attendo.machine import using_threads
from attendo.models.settings import TransformerConfig
from attendo.models.transformer import Transformer, build
from attendo.text.tokenizer import BOS, EOS, PAD, UNK

FORBIDDEN = (PAD, BOS, UNK)


def close(expected: Any) -> Any:
    return pytest.approx(expected, rel=0, abs=1e-4)


def random_model(seed: int, *, n_decoder_layers: int, d_model: int) -> Transformer:
    torch.manual_seed(seed)
    config = TransformerConfig(
        source_vocab_size=53,
        target_vocab_size=47,
        n_encoder_layers=2,
        n_decoder_layers=n_decoder_layers,
        d_model=d_model,
        d_ff=23,
        n_heads=3,
        d_key=5,
        d_value=7,
        tie_embeddings="none",
    )
    model = build(config).eval()
    with torch.no_grad():
        model.output.weight.mul_(3)  # decided enough for the beams to differ, not so much that they cannot
    return model


@pytest.fixture(scope="module")
def model() -> Transformer:
    return random_model(3, n_decoder_layers=3, d_model=19)


@pytest.fixture(scope="module")
def other() -> Transformer:
    return random_model(5, n_decoder_layers=1, d_model=13)


@pytest.fixture(scope="module")
def engine(model: Transformer) -> TorchEngine:
    return TorchEngine(model, torch.device("cpu"))


@pytest.fixture(scope="module")
def ensemble(model: Transformer, other: Transformer) -> TorchEngine:
    return TorchEngine([model, other], torch.device("cpu"))


@pytest.fixture(scope="module")
def sources() -> list[list[int]]:
    generator = random.Random(5)
    return [[generator.randrange(4, 53) for _ in range(generator.randint(1, 17))] for _ in range(31)]


def limits(sources: list[list[int]]) -> list[int]:
    return [len(ids) + 5 for ids in sources]


@dataclass(frozen=True)
class Recomputed:
    """The state of a search without a cache: the sources, and all ids so far."""

    source_NS: Tensor
    source_lengths_N: Tensor
    ids_NT: Tensor


def prefixes_for(sources: list[list[int]]) -> list[list[int]]:
    """A function of the source alone: none, or up to four ids."""
    return [[id % 43 + 4 for id in ids[: sum(ids) % 5]] for ids in sources]


@dataclass(frozen=True)
class Way:
    """One way to search."""

    options: SearchOptions
    models: str = "engine"
    prefixed: bool = False

    def search(self, engine: TorchEngine, sources: list[list[int]], **batches: Any) -> list[list[Hypothesis]]:
        prefixes = prefixes_for(sources) if self.prefixed else None
        return engine.search(sources, limits(sources), self.options, prefixes=prefixes, **batches)


WAYS = {
    "greedy": Way(SearchOptions(beam=1)),
    "beam": Way(SearchOptions(beam=4, n_best=3)),
    "diverse": Way(SearchOptions(beam=4, n_best=3, diversity_groups=2)),
    "no repeats": Way(SearchOptions(beam=3, no_repeat_ngram=2)),
    "sample": Way(SearchOptions(sample=True, n_best=3)),
    "nucleus": Way(SearchOptions(sample=True, temperature=0.8, top_k=17, top_p=0.9, no_repeat_ngram=1)),
    "ensemble": Way(SearchOptions(beam=3, n_best=2), models="ensemble"),
    "sample of an ensemble": Way(SearchOptions(sample=True, n_best=2), models="ensemble", prefixed=True),
    "prefixed greedy": Way(SearchOptions(beam=1), prefixed=True),
    "prefixed beam": Way(SearchOptions(beam=4, n_best=2), prefixed=True),
    "prefixed diverse ensemble": Way(
        SearchOptions(beam=4, n_best=4, diversity_groups=2), models="ensemble", prefixed=True
    ),
}


@pytest.fixture(scope="module", params=WAYS)
def searched_alone(request, sources):
    """(way to search, its engine, what is found for each source in a batch of its own)"""
    way = WAYS[request.param]
    engine = request.getfixturevalue(way.models)
    return way, engine, way.search(engine, sources, batch_size=1)


@pytest.mark.parametrize("batch_size", [2, 7, 64])
def test_results_do_not_depend_on_the_rest_of_the_batch(sources, searched_alone, batch_size):
    way, engine, alone = searched_alone
    order = random.Random(batch_size).sample(range(len(sources)), len(sources))
    together = way.search(engine, [sources[i] for i in order], batch_size=batch_size, batch_tokens=331)
    assert len({one[0].ids for one in alone}) > 20
    for i, found in zip(order, together, strict=True):
        assert [one.ids for one in found] == [one.ids for one in alone[i]]
        assert [one.score for one in found] == close([one.score for one in alone[i]])
        assert [one.log_prob for one in found] == close([one.log_prob for one in alone[i]])


def test_what_is_found_has_the_score_of_its_ids_and_begins_with_its_prefix(sources, searched_alone):
    way, engine, alone = searched_alone
    for k in range(way.options.n_best):
        kept = [i for i, found in enumerate(alone) if len(found) > k]
        assert len(kept) > 20
        scored = engine.score([sources[i] for i in kept], [alone[i][k].ids for i in kept], batch_size=13)
        for i, token_log_probs in zip(kept, scored, strict=True):
            assert alone[i][k].token_log_probs == close(token_log_probs)
    if way.prefixed:
        for prefix, found in zip(prefixes_for(sources), alone, strict=True):
            assert all(list(one.ids[: len(prefix)]) == prefix for one in found)


@pytest.mark.parametrize("batch_size", [2, 64])
def test_scores_do_not_depend_on_the_rest_of_the_batch(engine, sources, batch_size):
    targets = [[id % 43 + 4 for id in reversed(ids)] for ids in sources]
    alone = engine.score(sources, targets, batch_size=1)
    together = engine.score(sources, targets, batch_size=batch_size)
    for ours, theirs, target in zip(together, alone, targets, strict=True):
        assert len(ours) == len(target) + 1
        assert ours == close(theirs)


def test_a_beams_log_prob_is_the_score_of_its_ids(engine, sources):
    found = engine.search(sources, limits(sources), SearchOptions(beam=5, n_best=2))
    for k in range(2):
        scored = engine.score(sources, [hypotheses[k].ids for hypotheses in found], batch_size=13)
        for hypotheses, token_log_probs in zip(found, scored, strict=True):
            assert hypotheses[k].log_prob == close(sum(token_log_probs))
            assert hypotheses[k].token_log_probs == close(token_log_probs)


@pytest.mark.parametrize("beam", [1, 5])
def test_the_cache_equals_computing_everything_again(model, engine, sources, beam):
    some = sources[:23]
    options = SearchOptions(beam=beam, n_best=beam)

    def step(ids_N: Tensor, state: Recomputed) -> tuple[Tensor, Recomputed]:
        ids_NT = torch.cat([state.ids_NT, ids_N[:, None]], dim=1)
        logits_NTV = model(state.source_NS, state.source_lengths_N, ids_NT)
        return logits_NTV[:, -1], Recomputed(state.source_NS, state.source_lengths_N, ids_NT)

    def select(state: Recomputed, rows_M: Tensor) -> Recomputed:
        return Recomputed(state.source_NS[rows_M], state.source_lengths_N[rows_M], state.ids_NT[rows_M])

    source_NS, source_lengths_N = pad(some, after=EOS), lengths(some)
    start = Recomputed(source_NS, source_lengths_N, torch.empty(len(some), 0, dtype=torch.int64))
    with torch.inference_mode():
        slow = search(step, select, start, bos=BOS, eos=EOS, limits=limits(some), options=options, forbidden=FORBIDDEN)
    quick = engine.search(some, limits(some), options)
    for ours, theirs in zip(quick, slow, strict=True):
        assert [one.ids for one in ours] == [one.ids for one in theirs]
        assert [one.log_prob for one in ours] == close([one.log_prob for one in theirs])


def test_a_search_uses_the_weights_as_they_are_then(sources):
    """As a validation does, whose engine is made before the first step of the training."""
    model = random_model(7, n_decoder_layers=2, d_model=11)
    engine = TorchEngine(model, torch.device("cpu"))
    before = engine.search(sources[:13], limits(sources[:13]), SearchOptions(beam=1))
    model.load_state_dict(random_model(9, n_decoder_layers=2, d_model=11).state_dict())
    after = engine.search(sources[:13], limits(sources[:13]), SearchOptions(beam=1))
    assert after != before
    fresh = TorchEngine(model, torch.device("cpu"))
    assert after == fresh.search(sources[:13], limits(sources[:13]), SearchOptions(beam=1))


def test_greedy_equals_a_beam_of_one(engine, sources):
    options = SearchOptions(beam=1)
    with torch.inference_mode():
        ways = engine._ways(0)
        beams = beam_search(
            functools.partial(engine._step, ways),
            torch_engine._select,
            torch_engine._start(ways, sources),
            bos=BOS,
            eos=EOS,
            limits=limits(sources),
            options=options,
            forbidden=FORBIDDEN,
        )
    for greedy, (beam,) in zip(engine.search(sources, limits(sources), options), beams, strict=True):
        assert greedy[0].ids == beam.ids
        assert greedy[0].score == close(beam.score)


def test_an_ensemble_of_one_is_the_model_to_the_last_bit(model, engine, sources):
    one = TorchEngine([model], torch.device("cpu"))
    for options in (SearchOptions(beam=1), SearchOptions(beam=4, n_best=3), SearchOptions(sample=True)):
        assert one.search(sources, limits(sources), options) == engine.search(sources, limits(sources), options)
    targets = [[id % 43 + 4 for id in ids] for ids in sources]
    assert one.score(sources, targets) == engine.score(sources, targets)


def test_an_ensemble_of_twins_is_the_one(model, engine, sources):
    twins = TorchEngine([model, model, model], torch.device("cpu"))
    options = SearchOptions(beam=3, n_best=2)
    for ours, theirs in zip(
        twins.search(sources, limits(sources), options), engine.search(sources, limits(sources), options), strict=True
    ):
        assert [one.ids for one in ours] == [one.ids for one in theirs]
        assert [one.log_prob for one in ours] == close([one.log_prob for one in theirs])


def test_an_ensemble_scores_by_the_mean_of_the_probabilities(model, other, ensemble, sources):
    targets = [[id % 43 + 4 for id in reversed(ids)] for ids in sources]
    scored = ensemble.score(sources, targets, batch_size=11)
    for source, target, found in zip(sources, targets, scored, strict=True):
        with torch.inference_mode():
            probs_TV = (
                sum(
                    one(
                        torch.tensor([[*source, EOS]]), torch.tensor([len(source) + 1]), torch.tensor([[BOS, *target]])
                    )[0]
                    .double()
                    .softmax(dim=1)
                    for one in (model, other)
                )
                / 2
            )
        expected = [math.log(probs_TV[t, id]) for t, id in enumerate([*target, EOS])]
        assert found == close(expected)


def test_greedy_of_an_ensemble_is_the_argmax_of_the_mean(model, other, ensemble, sources):
    for source, (found,) in zip(
        sources[:13], ensemble.search(sources[:13], limits(sources[:13]), SearchOptions(beam=1)), strict=True
    ):
        ids: list[int] = []
        while len(ids) < len(source) + 5:
            with torch.inference_mode():
                mean_V = sum(
                    one(torch.tensor([[*source, EOS]]), torch.tensor([len(source) + 1]), torch.tensor([[BOS, *ids]]))[
                        0, -1
                    ].softmax(dim=0)
                    for one in (model, other)
                )
            mean_V = mean_V.index_fill(0, torch.tensor(FORBIDDEN), 0)
            if (best := int(mean_V.argmax())) == EOS:
                break
            ids.append(best)
        assert list(found.ids) == ids


@pytest.mark.parametrize(
    "options",
    [
        SearchOptions(beam=1),
        SearchOptions(beam=4, n_best=3, length_penalty="power", stopping="heuristic"),
        SearchOptions(sample=True, n_best=2),
    ],
)
def test_what_a_target_has_to_begin_with_is_certain(model, other, engine, ensemble, sources, options):
    before, few = (9, 11), sources[:7]
    for models, plain in (((model,), engine), ((model, other), ensemble)):
        begun = TorchEngine(models, torch.device("cpu"), before=before)
        found = begun.search(few, limits(few), options, prefixes=[before] * len(few))
        pairs = [(source, one) for source, several in zip(few, found, strict=True) for one in several]
        asked = [source for source, _ in pairs], [one.ids for _, one in pairs]
        for (_, one), own, row in zip(pairs, plain.score(*asked), begun.score(*asked), strict=True):
            assert one.ids[:2] == before
            assert max(own[:2]) < -0.1
            assert one.token_log_probs[:2] == (0, 0)
            assert row == [0, 0, *own[2:]] == close(list(one.token_log_probs))


def test_control_ids_are_never_chosen(engine, sources, model):
    with torch.no_grad():
        before = model.output.bias.clone()
        model.output.bias[list(FORBIDDEN)] += 20
    try:
        found = engine.search(sources[:11], limits(sources[:11]), SearchOptions(beam=3))
    finally:
        with torch.no_grad():
            model.output.bias.copy_(before)
    assert not {id for hypotheses in found for id in hypotheses[0].ids} & {*FORBIDDEN, EOS}


@pytest.mark.parametrize(("batches", "most"), [({"batch_tokens": 331}, 331), ({"batch_size": 23}, 23)])
def test_the_rows_of_a_batch_do_not_grow_with_the_draws(engine, sources, monkeypatch, batches, most):
    monkeypatch.setattr(native, "name", lambda: None)
    rows: list[int] = []
    step = engine._step

    def record(ways, ids_N, caches):
        rows.append(len(ids_N) * (caches[0].memory_mask.shape[-1] if "batch_tokens" in batches else 1))
        return step(ways, ids_N, caches)

    monkeypatch.setattr(engine, "_step", record)
    found = engine.search(sources, limits(sources), SearchOptions(sample=True, n_best=11), **batches)
    assert [len(draws) for draws in found] == [11] * len(sources)
    assert most / 2 < max(rows) <= most


def test_equal_sources_draw_differently_only_as_different_parts(engine, sources):
    source = max(sources, key=len)
    options = SearchOptions(sample=True)
    one, same, other = engine.search([source] * 3, [17] * 3, options, parts=[0, 0, 1])
    assert one[0].ids == same[0].ids != other[0].ids
    assert engine.search([source], [17], options)[0][0].ids == one[0].ids


def test_learned_positions_bound_the_target(model, engine):
    torch.manual_seed(3)
    learned = build(dataclasses.replace(model.config, positions="learned", n_positions=29)).eval()
    both = TorchEngine([model, learned], torch.device("cpu"))
    assert (engine.longest_target, both.longest_target) == (None, 28)
    with torch.no_grad():
        learned.output.bias[EOS] = -100.0
    alone = TorchEngine(learned, torch.device("cpu"))
    assert len(alone.search([[5, 7]], [28], SearchOptions(beam=1))[0][0].ids) == 28
    with pytest.raises(DataError, match="29 positions"):
        alone.search([[5, 7]], [29], SearchOptions(beam=1))


def test_nothing_to_do_is_nothing_done(engine):
    assert engine.search([], [], SearchOptions()) == []
    assert engine.score([], []) == []


@pytest.mark.parametrize(
    "options", [SearchOptions(beam=1), SearchOptions(beam=3), SearchOptions(sample=True, n_best=2)]
)
def test_batches_side_by_side_are_the_same(engine: TorchEngine, options: SearchOptions) -> None:
    generator = random.Random(2)
    sources = [[generator.randrange(4, 53) for _ in range(generator.randint(1, 17))] for _ in range(23)]
    limits = [len(source) + 5 for source in sources]
    found = []
    for threads in (1, 2):
        with using_threads(threads):
            found.append(engine.search(sources, limits, options, batch_size=4))
            assert torch.get_num_threads() == threads
    for one, two in zip(*found, strict=True):
        assert [each.ids for each in one] == [each.ids for each in two]
        assert [each.log_prob for each in one] == close([each.log_prob for each in two])


def test_an_error_in_one_batch_ends_the_others(engine: TorchEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise DataError("broken")

    monkeypatch.setattr(torch_engine, "_start", broken)
    with using_threads(2), pytest.raises(DataError, match="broken"):
        engine.search([[5]] * 9, [7] * 9, SearchOptions(), batch_size=1)
