"""The engine on a model of random weights, whose outputs are as long as they may be and far from certain."""

import random
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from attendo.decoding.beam import beam_search, search
from attendo.decoding.search import SearchOptions
from attendo.engines.torch_engine import TorchEngine
from attendo.models.transformer import Transformer, TransformerConfig, build
from attendo.text.tokenizer import BOS, EOS, PAD, UNK

FORBIDDEN = (PAD, BOS, UNK)


def close(expected: Any) -> Any:
    return pytest.approx(expected, rel=0, abs=1e-4)


@pytest.fixture(scope="module")
def model() -> Transformer:
    torch.manual_seed(3)
    config = TransformerConfig(
        source_vocab_size=53,
        target_vocab_size=47,
        n_encoder_layers=2,
        n_decoder_layers=3,
        d_model=19,
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
def engine(model: Transformer) -> TorchEngine:
    return TorchEngine(model, torch.device("cpu"))


@pytest.fixture(scope="module")
def sources() -> list[list[int]]:
    generator = random.Random(5)
    return [[generator.randrange(4, 53) for _ in range(generator.randint(1, 17))] for _ in range(97)]


def limits(sources: list[list[int]]) -> list[int]:
    return [len(ids) + 5 for ids in sources]


@dataclass(frozen=True)
class Recomputed:
    """The state of a search without a cache: the sources, and all ids so far."""

    source_NS: Tensor
    source_lengths_N: Tensor
    ids_NT: Tensor


@pytest.fixture(scope="module", params=[SearchOptions(beam=1), SearchOptions(beam=4, n_best=3)], ids=["greedy", "beam"])
def searched_alone(request, engine, sources):
    """(options, what is found for each source in a batch of its own)"""
    return request.param, engine.search(sources, limits(sources), request.param, batch_size=1)


@pytest.mark.parametrize("batch_size", [1, 2, 7, 64])
def test_results_do_not_depend_on_the_rest_of_the_batch(engine, sources, searched_alone, batch_size):
    options, alone = searched_alone
    order = random.Random(batch_size).sample(range(len(sources)), len(sources))
    shuffled = [sources[i] for i in order]
    together = engine.search(shuffled, limits(shuffled), options, batch_size=batch_size, batch_tokens=331)
    assert len({one[0].ids for one in alone}) > 50
    for i, found in zip(order, together, strict=True):
        assert [one.ids for one in found] == [one.ids for one in alone[i]]
        assert [one.score for one in found] == close([one.score for one in alone[i]])
        assert [one.log_prob for one in found] == close([one.log_prob for one in alone[i]])


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

    source_NS, source_lengths_N = engine._sources(some)
    start = Recomputed(source_NS, source_lengths_N, torch.empty(len(some), 0, dtype=torch.int64))
    with torch.inference_mode():
        slow = search(step, select, start, bos=BOS, eos=EOS, limits=limits(some), options=options, forbidden=FORBIDDEN)
    quick = engine.search(some, limits(some), options)
    for ours, theirs in zip(quick, slow, strict=True):
        assert [one.ids for one in ours] == [one.ids for one in theirs]
        assert [one.log_prob for one in ours] == close([one.log_prob for one in theirs])


def test_greedy_equals_a_beam_of_one(model, engine, sources):
    options = SearchOptions(beam=1)
    with torch.inference_mode():
        beams = beam_search(
            engine._step,
            engine._select,
            model.encode(*engine._sources(sources)),
            bos=BOS,
            eos=EOS,
            limits=limits(sources),
            options=options,
            forbidden=FORBIDDEN,
        )
    for greedy, (beam,) in zip(engine.search(sources, limits(sources), options), beams, strict=True):
        assert greedy[0].ids == beam.ids
        assert greedy[0].score == close(beam.score)


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


def test_nothing_to_do_is_nothing_done(engine):
    assert engine.search([], [], SearchOptions()) == []
    assert engine.score([], []) == []
