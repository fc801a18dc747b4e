"""attendo's own engine against the reference, by every library, on random models with every part that it knows."""

import contextlib
import json
import math
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from attendo import native
from attendo.decoding.search import SearchOptions
from attendo.engines.ctranslate2_limits import n_positions
from attendo.engines.engine import UnableError
from attendo.engines.native_engine import NativeEngine, open_native
from attendo.engines.native_model import native_parts, servable
from attendo.errors import BundleError
from attendo.models.transformer import Transformer
from attendo.native.search import Model, has_bytes
from attendo.text.tokenizer import BOS, EOS, PAD, UNK
from tests.engines.random_models import (
    LIMITS,
    OTHERS,
    PARTS,
    SOURCES,
    V_SOURCE,
    V_TARGET,
    arrays,
    assert_same,
    assert_same_but_for_a_tie,
    close,
    config_of,
    ending_model,
    random_ids,
    random_model,
    reference,
)
from tests.untrained import untrained_bundle

ADDED = {name: parts for name, parts in PARTS.items() if parts.get("positions") not in ("rotary", "shaw", "t5")}
TIED_T5 = {**PARTS["as T5"], "positions": "none"}

WAYS = {
    "greedy": SearchOptions(beam=1),
    "average": SearchOptions(beam=4, n_best=3, length_penalty="average"),
    "none": SearchOptions(beam=3, n_best=3, length_penalty="none"),
    "gnmt": SearchOptions(beam=5, n_best=2, length_penalty="gnmt"),
    "power": SearchOptions(beam=2, n_best=2, length_penalty="power", alpha=0.3),
    "exact": SearchOptions(beam=4, n_best=3, stopping="exact"),
    "exact, none": SearchOptions(beam=3, stopping="exact", length_penalty="none"),
    "heuristic": SearchOptions(beam=3, n_best=2, stopping="heuristic", length_penalty="average"),
    "more than there are ids": SearchOptions(beam=61, n_best=7),
}

needs_bytes = pytest.mark.skipif(not has_bytes(), reason="this processor has no AVX512-VNNI")


@pytest.fixture(params=native.LANES)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param not in native.there():
        pytest.skip(f"no {request.param} here: it was not built, or this processor has no such instructions")
    monkeypatch.setattr(native, "name", lambda: request.param)
    return request.param


def engine_of(model: Transformer, *, int8: bool = False, **given: Any) -> NativeEngine:
    positions = n_positions(model.config)
    assert positions is not None
    parts = native_parts(model.config, arrays(model))
    return NativeEngine(Model(parts, int8=int8), n_positions=positions, n_workers=2, **given)


@pytest.mark.parametrize("name", [*ADDED, "as T5 without positions"])
@pytest.mark.usefixtures("library")
def test_every_part_gives_the_log_probabilities_of_the_reference(name):
    model = random_model(ADDED.get(name, TIED_T5))
    vocab_size = model.config.source_vocab_size
    sources = [[], [5], *random_ids(5, 17, 37, vocab_size), *random_ids(7, 2, 190, vocab_size)]
    targets = [[7], [], *random_ids(11, 17, 37, V_TARGET), *random_ids(13, 2, 190, V_TARGET)]
    theirs = reference(model).score(sources, targets)
    for one, other in zip(engine_of(model).score(sources, targets), theirs, strict=True):
        assert one == close(other)
    assert np.std(np.concatenate(theirs)) > 0.4  # not all the same


@pytest.mark.parametrize("name", [*OTHERS, *(name for name in PARTS if name not in ADDED)])
def test_what_it_cannot_run_is_said(name):
    parts = {**PARTS, **OTHERS}[name]
    config = config_of(parts)
    named = {f"'{value}'" for value in parts.values()}
    assert any(value in str(servable(config)) for value in named)


@pytest.mark.parametrize("name", ADDED)
def test_what_it_can_run_has_no_reason_against_it(name, monkeypatch):
    assert servable(config_of(ADDED[name])) is None
    monkeypatch.setattr(native, "name", lambda: None)
    assert "compiled library" in str(servable(config_of(ADDED[name])))


# The second is one whose likeliest prefix is often not the first to end, which shows by what rule a search stops; in
# the third, ids that never come have a share of the probability, which stays theirs.
@pytest.fixture(params=[(7, 5, False), (8, 3, False), (7, 5, True)])
def both(request, library) -> tuple[NativeEngine, Any]:  # noqa: ARG001
    seed, eos, share = request.param
    model = ending_model(share=share, seed=seed, eos=eos)
    return engine_of(model), reference(model)


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("tight", [False, True])
@pytest.mark.parametrize("begun", [False, True])
def test_it_finds_what_the_reference_finds(both, name, tight, begun):
    ours, theirs = both
    options = WAYS[name]
    prefixes = [ids[: i % 7] for i, ids in enumerate(random_ids(31, len(SOURCES), 7, V_TARGET))] if begun else None
    limits = [i % 5 + (len(prefixes[i]) if prefixes else 0) for i in range(len(SOURCES))] if tight else LIMITS
    expected = theirs.search(SOURCES, limits, options, prefixes=prefixes)
    found = ours.search(SOURCES, limits, options, prefixes=prefixes, scores=True)
    assert_same_but_for_a_tie(found, expected, theirs, limits, options, prefixes)
    assert not {PAD, BOS, EOS, UNK} & {id for several in found for one in several for id in one.ids}


@pytest.mark.parametrize("name", ["greedy", "gnmt", "exact"])
def test_results_are_the_same_bit_for_bit_whatever_the_rest_of_the_batch(both, name):
    engine, _ = both
    alone = [
        engine.search([ids], [limit], WAYS[name], scores=True)[0] for ids, limit in zip(SOURCES, LIMITS, strict=True)
    ]
    for batch_size in (2, 7, None):
        order = random.Random(batch_size or 0).sample(range(len(SOURCES)), len(SOURCES))
        sources, limits = [SOURCES[i] for i in order], [LIMITS[i] for i in order]
        together = engine.search(sources, limits, WAYS[name], scores=True, batch_size=batch_size)
        assert [together[order.index(i)] for i in range(len(SOURCES))] == alone


def test_without_scores_greedy_search_finds_the_same_and_computes_none(both):
    engine, _ = both
    expected = engine.search(SOURCES, LIMITS, WAYS["greedy"], scores=True)
    found = engine.search(SOURCES, LIMITS, WAYS["greedy"])
    assert [one.ids for (one,) in found] == [one.ids for (one,) in expected]
    assert [one.finished for (one,) in found] == [one.finished for (one,) in expected]
    assert all(math.isnan(one.log_prob) and math.isnan(one.score) for (one,) in found)
    assert not any(one.token_log_probs for (one,) in found)


@needs_bytes
@pytest.mark.parametrize("name", ["the paper's", "odd size", "swiglu", "as BART", "large keys", "sandwich"])
def test_int8_rounds_matrices_and_what_they_are_multiplied_with(name):
    """Against a model whose matrices are rounded, and that rounds what it multiplies with them."""
    model = random_model(ADDED[name])
    targets = random_ids(29, len(SOURCES), 23, V_TARGET)
    engine = engine_of(model, int8=True)
    found = np.concatenate(engine.score(SOURCES, targets))
    exact = np.concatenate(reference(model).score(SOURCES, targets))
    assert 1e-4 < np.abs(found - exact).mean() < 0.1
    with rounding():
        expected = np.concatenate(reference(model).score(SOURCES, targets))
    # A number in the middle of two bytes may be rounded either way: then one step of it is the difference.
    assert np.abs(found - expected).mean() < 0.1 * np.abs(found - exact).mean()


@contextlib.contextmanager
def rounding() -> Iterator[None]:
    """Every linear layer works with bytes meanwhile, done in float64."""

    def rounded(x: torch.Tensor) -> torch.Tensor:
        unit = x.abs().amax(-1, keepdim=True).double().clamp(min=1e-30) / 127
        return (x / unit).round() * unit

    def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        return (rounded(x) @ rounded(weight).T + (0 if bias is None else bias)).float()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "name", lambda: None)
        patch.setattr(torch.nn.functional, "linear", linear)
        yield


@needs_bytes
@pytest.mark.parametrize("name", ["greedy", "gnmt"])
def test_int8_searches_as_it_scores_and_is_the_same_in_any_batch(name):
    engine = engine_of(ending_model(share=False), int8=True)
    together = engine.search(SOURCES, LIMITS, WAYS[name], scores=True)
    alone = [
        engine.search([ids], [limit], WAYS[name], scores=True)[0] for ids, limit in zip(SOURCES, LIMITS, strict=True)
    ]
    assert together == alone
    best = [several[0] for several in together]
    for one, row in zip(best, engine.score(SOURCES, [one.ids for one in best]), strict=True):
        assert list(one.token_log_probs) == row
    unscored = engine.search(SOURCES, LIMITS, WAYS[name])
    assert [several[0].ids for several in unscored] == [one.ids for one in best]


@needs_bytes
def test_int8_says_what_is_not_a_number_of_what_it_multiplies():
    model = ending_model(share=False)
    with torch.no_grad():
        model.encoder.embedding.weight[7, 3] = torch.nan
    with pytest.raises(BundleError, match="they are not numbers"):
        engine_of(model, int8=True).search([[5, 7]], [9], WAYS["greedy"])


def test_ids_come_one_by_one(both):
    ours, theirs = both
    for source, limit in zip(SOURCES[:7], LIMITS[:7], strict=True):
        assert list(ours.stream(source, limit)) == list(theirs.stream(source, limit))


@pytest.mark.parametrize("name", ["greedy", "gnmt"])
@pytest.mark.usefixtures("library")
def test_what_every_target_begins_with_is_certain(name):
    model, before = ending_model(share=False), (11, 5)
    ours, theirs = engine_of(model, before=before), reference(model)
    theirs.before = before
    prefixes = [before] * len(SOURCES)
    expected = theirs.search(SOURCES, LIMITS, WAYS[name], prefixes=prefixes)
    assert_same(ours.search(SOURCES, LIMITS, WAYS[name], prefixes=prefixes, scores=True), expected)
    targets = [one.ids for one, *_ in expected]
    for one, other in zip(ours.score(SOURCES, targets), theirs.score(SOURCES, targets), strict=True):
        assert one[:2] == [0, 0]
        assert one == close(other)


def test_long_inputs_are_not_cut(both):
    ours, theirs = both
    long = [5 + i % 41 for i in range(1301)]
    sources, targets = [long, [*long[:-1], 50]], [[7, 8, 9], [11] * 1201]
    for row, expected in zip(ours.score(sources, targets), theirs.score(sources, targets), strict=True):
        assert row == close(expected)
    found = ours.search(sources, [400, 400], WAYS["greedy"], scores=True)
    assert_same(found, theirs.search(sources, [400, 400], WAYS["greedy"]))


def test_nothing_in_nothing_out():
    engine = engine_of(ending_model(share=False))
    assert engine.search([], [], WAYS["average"]) == []
    assert engine.score([], []) == []


def test_learned_positions_reach_as_far_as_in_the_reference():
    model = random_model({"positions": "learned", "n_positions": 13})
    with torch.no_grad():
        model.output.bias[EOS] = -30  # never ends
    ours, theirs = engine_of(model), reference(model)
    assert ours.longest_target == theirs.longest_target == 12
    for options in (WAYS["greedy"], WAYS["gnmt"]):
        assert_same(ours.search([[5] * 12], [12], options, scores=True), theirs.search([[5] * 12], [12], options))
        for source, limit in (([5] * 13, 12), ([5], 13)):
            with pytest.raises(UnableError, match="13 positions"):
                ours.search([source], [limit], options)
    with pytest.raises(UnableError, match="13 positions"):
        ours.score([[5]], [[5] * 13])


@pytest.mark.parametrize("prefix", [[7, 8, 9], [EOS]])
def test_prefixes_that_cannot_be_kept_are_refused_as_by_the_reference(prefix):
    model = ending_model(share=False)
    for engine in (engine_of(model), reference(model)):
        with pytest.raises(ValueError, match="must fit its limit, 2, and be without EOS"):
            engine.search([[5], [5]], [9, 2], WAYS["gnmt"], prefixes=[[7], prefix])
        with pytest.raises(ValueError, match="must be at least 0"):
            engine.search([[5], [5]], [9, -1], WAYS["greedy"])
    with pytest.raises(ValueError, match="must fit its limit, 1,"):
        list(engine_of(model, before=(7, 8)).stream([5], 1))


def test_a_target_with_eos_inside_is_scored_to_its_end():
    model = ending_model(share=False)
    sources, targets = SOURCES[:3], [[7, EOS, 9], [EOS], [8]]
    expected = reference(model).score(sources, targets)
    for row, other in zip(engine_of(model).score(sources, targets), expected, strict=True):
        assert row == close(other)


@pytest.mark.parametrize("wrong", [V_SOURCE, -1])
def test_ids_that_there_are_not_are_refused(wrong):
    engine = engine_of(ending_model(share=False))
    with pytest.raises(ValueError, match="none of the 53"):
        engine.search([[5, wrong]], [3], WAYS["greedy"])
    with pytest.raises(ValueError, match="none of the 47"):
        engine.score([[5]], [[wrong]])


@pytest.mark.parametrize("int8", [False, pytest.param(True, marks=needs_bytes)])
@pytest.mark.parametrize("where", ["decoder.blocks.1.feed_forward.inner.bias", "output.weight", "output.bias"])
@pytest.mark.parametrize("name", ["greedy", "gnmt"])
def test_weights_that_are_not_numbers_are_said(name, where, int8):
    model = ending_model(share=False)
    with torch.no_grad():
        model.get_parameter(where)[-1] = torch.nan  # one id alone, or all
    engine = engine_of(model, int8=int8)
    with pytest.raises(BundleError, match="they are not numbers"):
        engine.search(SOURCES, LIMITS, WAYS[name])
    with pytest.raises(BundleError, match="they are not numbers"):
        list(engine.stream([5], 3))


def test_a_bundle_without_a_tensor_is_said_by_its_name(tmp_path):
    bundle = untrained_bundle(tmp_path / "run")
    weights = bundle.weights()
    del weights["output.bias"]
    bundle.save_weights(weights, {})
    with pytest.raises(BundleError, match=f"{bundle.path}: the bundle lacks the tensor output.bias"):
        open_native(bundle)


def test_threads_may_share_it(tmp_path):
    engine = open_native(untrained_bundle(tmp_path / "run"))
    sources = random_ids(41, 97, 11, 300)
    limits = [23] * len(sources)
    expected = engine.search(sources, limits, WAYS["gnmt"])
    found: dict[int, Any] = {}
    threads = [
        threading.Thread(target=lambda i=i: found.update({i: engine.search(sources, limits, WAYS["gnmt"])}))
        for i in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[i] for i in range(5)] == [expected] * 5


WITHOUT_TORCH = """
import json, sys
import attendo
translator = attendo.load(sys.argv[1])
text = translator.translate("one two.").text
print(json.dumps({"text": text, "heavy": sorted({"torch", "transformers", "ctranslate2"} & set(sys.modules))}))
"""


def test_nothing_heavy_is_imported(tmp_path):
    bundle = untrained_bundle(tmp_path / "run")
    command = [sys.executable, "-c", WITHOUT_TORCH, str(bundle.path)]
    printed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert printed["heavy"] == []
    assert not (bundle.path / "ctranslate2").exists()
