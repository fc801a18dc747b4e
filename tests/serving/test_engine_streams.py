"""What engines give id by id is what greedy search finds."""

import pytest

from attendo.decoding.search import SearchOptions
from attendo.engines.choice import AutoEngine, open_engine
from attendo.engines.engine import UnableError
from tests.numerals import sentence_pairs
from tests.untrained import untrained_bundle

GREEDY = SearchOptions(beam=1)
SENTENCES = [source for source, _ in sentence_pairs(17, seed=29)]


@pytest.mark.parametrize("name", ["torch", "ctranslate2", "auto"])
@pytest.mark.parametrize("limit", [1, 2, 40])
def test_ids_one_by_one(trained, name, limit):
    bundle = trained.bundle
    engine = open_engine([bundle], engine=name, device="cpu")
    sources = [bundle.tokenizers.source.encode(text) for text in SENTENCES]
    found = engine.search(sources, [limit] * len(sources), GREEDY)
    assert [tuple(engine.stream(source, limit)) for source in sources] == [one[0].ids for one in found]
    assert {one[0].finished for one in found} == {limit == 40}


def test_a_stream_that_is_left_early(trained):
    bundle = trained.bundle
    for name in ("torch", "ctranslate2"):
        engine = open_engine([bundle], engine=name, device="cpu")
        source = bundle.tokenizers.source.encode(SENTENCES[0])
        (found,) = engine.search([source], [40], GREEDY)
        assert next(iter(engine.stream(source, 40))) == found[0].ids[0]


def test_what_is_beyond_the_fast_engine_the_reference_streams(tmp_path):
    learned = untrained_bundle(tmp_path / "learned", positions="learned", n_positions=31)
    engine = open_engine([learned], device="cpu")
    assert isinstance(engine, AutoEngine)
    source = learned.tokenizers.source.encode("one two.")
    (found,) = engine.search([source], [20], GREEDY)
    assert tuple(engine.stream(source, 20)) == found[0].ids
    with pytest.raises(UnableError, match="31 positions"):
        list(engine.fast.stream([5] * 40, 20))
