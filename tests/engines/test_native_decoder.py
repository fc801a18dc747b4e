"""The torch engine's searches with a decoder in C, beside those by torch alone."""

import pytest
import torch

from attendo import native
from attendo.decoding.search import SearchOptions
from attendo.engines import native_decoder, torch_engine
from attendo.engines.ctranslate2_limits import TABLE_POSITIONS
from attendo.engines.native_decoder import NativeDecoder
from attendo.engines.torch_engine import TorchEngine
from attendo.nn.low_rank import add_adapters
from tests.engines.random_models import (
    LIMITS,
    OTHERS,
    PARTS,
    SOURCES,
    V_TARGET,
    assert_same_but_for_a_tie,
    ending_model,
    random_ids,
    random_model,
    reference,
)
from tests.engines.test_native_engine import ADDED

CPU = torch.device("cpu")
WAYS = {
    "greedy": SearchOptions(beam=1),
    "beam": SearchOptions(beam=5, n_best=2),
    "exact": SearchOptions(beam=3, stopping="exact"),
    "groups": SearchOptions(beam=6, n_best=3, diversity_groups=3),
    "no repeats": SearchOptions(beam=3, no_repeat_ngram=2),
    "samples": SearchOptions(sample=True, n_best=3, top_k=7),
}


@pytest.mark.parametrize("name", ADDED)
def test_every_part_gives_the_logits_of_torch(name):
    """Over some steps, of rows that are chosen anew each time."""
    model = random_model(ADDED[name])
    fast, slow = native_decoder.native_decoder(model, CPU), torch_engine._TorchDecoder(model, CPU)
    assert fast is not None
    sources = [*random_ids(5, 7, 19, model.config.source_vocab_size), []]
    with torch.inference_mode():
        ours, theirs = fast.start(sources), slow.start(sources)
        generator = torch.Generator().manual_seed(3)
        rows = len(sources)
        for length in range(9):
            assert ours.length == theirs.length == length
            ids_N = torch.randint(4, V_TARGET, (rows,), generator=generator)
            (found, ours), (expected, theirs) = fast.step(ids_N, ours), slow.step(ids_N, theirs)
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
            # Some leave, and each that stays has as many continuations, side by side.
            kept = torch.arange(rows)[torch.rand(rows, generator=generator) < 0.8].repeat_interleave(1 + length % 2)
            ours, theirs, rows = ours.select(kept), theirs.select(kept), len(kept)


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("begun", [False, True])
def test_searches_find_the_same(name, begun):
    model = ending_model(share=False)
    prefixes = [ids[: i % 3] for i, ids in enumerate(random_ids(31, len(SOURCES), 7, V_TARGET))] if begun else None
    found = TorchEngine(model, CPU).search(SOURCES, LIMITS, WAYS[name], prefixes=prefixes)
    theirs = reference(model)
    expected = theirs.search(SOURCES, LIMITS, WAYS[name], prefixes=prefixes)
    assert_same_but_for_a_tie(found, expected, theirs, LIMITS, WAYS[name], prefixes)


def test_weights_that_change_are_seen_unless_they_are_said_to_stay():
    model = ending_model(share=False)
    fresh, kept = TorchEngine(model, CPU), TorchEngine(model, CPU, trained=True)
    before = fresh.search(SOURCES, LIMITS, WAYS["greedy"])
    assert kept.search(SOURCES, LIMITS, WAYS["greedy"]) == before
    with torch.no_grad():
        model.output.weight.mul_(-1)
    assert fresh.search(SOURCES, LIMITS, WAYS["greedy"]) != before
    assert kept.search(SOURCES, LIMITS, WAYS["greedy"]) == before


def test_what_is_longer_than_its_tables_torch_does():
    model = ending_model(share=False)
    engine = TorchEngine(model, CPU)
    assert isinstance(engine._ways(TABLE_POSITIONS - 1)[0], NativeDecoder)
    assert isinstance(engine._ways(TABLE_POSITIONS)[0], torch_engine._TorchDecoder)


@pytest.mark.parametrize("name", OTHERS)
def test_other_parts_are_for_torch(name):
    if name == "hidden text":
        pytest.skip("a part of the vocabulary, not of the model")
    assert native_decoder.native_decoder(random_model(OTHERS[name]), CPU) is None


def test_so_are_other_numbers_adapters_and_attention_that_knows_places(monkeypatch):
    assert native_decoder.native_decoder(random_model({}).double(), CPU) is None
    assert native_decoder.native_decoder(random_model(PARTS["shaw"]), CPU) is None
    adapted = random_model({})
    add_adapters(adapted, rank=3, alpha=1.0, matrices=["query"])
    assert native_decoder.native_decoder(adapted, CPU) is None
    monkeypatch.setattr(native, "name", lambda: None)
    assert native_decoder.native_decoder(random_model({}), CPU) is None
