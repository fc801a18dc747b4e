"""What a translation must hold: who finds it, and on a model of random weights that would never say it itself."""

import random
import subprocess
import sys
from typing import Any

import pytest
import torch

from attendo import native
from attendo.decoding.phrases import Phrase
from attendo.decoding.search import SearchOptions
from attendo.engines import choice
from attendo.engines.choice import AutoEngine, open_engine
from attendo.engines.engine import UnableError
from attendo.engines.torch_engine import TorchEngine
from attendo.errors import ConfigError
from attendo.text.tokenizer import BOS, EOS, PAD, UNK
from tests.decoding.placings import holds, phrase
from tests.engines.test_torch_engine import limits, random_model
from tests.untrained import untrained_bundle

WAYS = {
    "beam": SearchOptions(beam=4, n_best=3),
    "beam of one": SearchOptions(beam=1),
    "exact": SearchOptions(beam=3, stopping="exact"),
    "no repeats": SearchOptions(beam=3, no_repeat_ngram=3),
}


def close(expected: Any) -> Any:
    return pytest.approx(expected, rel=0, abs=1e-5)


@pytest.fixture(scope="module")
def engine() -> TorchEngine:
    return TorchEngine(random_model(3, n_decoder_layers=3, d_model=19), torch.device("cpu"))


@pytest.fixture(scope="module")
def sources() -> list[list[int]]:
    generator = random.Random(5)
    return [[generator.randrange(4, 53) for _ in range(generator.randint(1, 11))] for _ in range(19)]


def phrases_for(sources: list[list[int]]) -> list[list[Phrase]]:
    """A function of the source alone: none for some, or one, or two."""
    found = []
    for ids in sources:
        own = [id_ % 43 + 4 for id_ in ids]
        several = [phrase(own[:2], own[1:4] or own), phrase([own[-1]])]
        found.append(several[: sum(ids) % 3])
    return found


@pytest.mark.parametrize("way", WAYS)
def test_they_are_there_and_the_scores_are_the_models_own_in_any_batch(engine, sources, way):
    options, phrases = WAYS[way], phrases_for(sources)
    alone = engine.search(sources, limits(sources), options, phrases=phrases, batch_size=1)
    assert {len(one) for one in phrases} == {0, 1, 2}
    for some, found in zip(phrases, alone, strict=True):
        assert found
        assert all(holds(some, one.ids) for one in found)
        assert not any({PAD, BOS, EOS, UNK} & set(one.ids) for one in found)
    scored = engine.score(sources, [found[0].ids for found in alone])
    for found, token_log_probs in zip(alone, scored, strict=True):
        assert found[0].token_log_probs == close(token_log_probs)

    for batch_size in (3, 19):
        order = random.Random(batch_size).sample(range(len(sources)), len(sources))
        mixed = [sources[i] for i in order]
        together = engine.search(mixed, limits(mixed), options, phrases=phrases_for(mixed), batch_size=batch_size)
        for i, found in zip(order, together, strict=True):
            assert [one.ids for one in found] == [one.ids for one in alone[i]]
            assert [one.log_prob for one in found] == close([one.log_prob for one in alone[i]])
            assert [one.score for one in found] == close([one.score for one in alone[i]])


def test_sentences_without_phrases_are_as_ever(engine, sources):
    options = SearchOptions(beam=4, n_best=3)
    phrases, expected = phrases_for(sources), engine.search(sources, limits(sources), options)
    found = engine.search(sources, limits(sources), options, phrases=phrases)
    for some, ours, theirs in zip(phrases, found, expected, strict=True):
        if not some:
            assert [one.ids for one in ours] == [one.ids for one in theirs]
            assert [one.log_prob for one in ours] == close([one.log_prob for one in theirs])
    assert engine.search(sources, limits(sources), options, phrases=[()] * len(sources)) == expected
    drawn = SearchOptions(sample=True)
    assert engine.search(sources, limits(sources), drawn, phrases=[()] * len(sources)) == engine.search(
        sources, limits(sources), drawn
    )


def test_an_ensemble_holds_them_and_goes_on_from_prefixes(engine, sources):
    both = TorchEngine([*engine.models, random_model(5, n_decoder_layers=1, d_model=13)], torch.device("cpu"))
    some, phrases = sources[:13], phrases_for(sources[:13])
    prefixes = [[id_ % 43 + 4 for id_ in ids[: sum(ids) % 4]] for ids in some]
    found = both.search(some, limits(some), SearchOptions(beam=2), phrases=phrases, prefixes=prefixes)
    for one, wanted, prefix in zip(found, phrases, prefixes, strict=True):
        assert holds(wanted, one[0].ids)
        assert list(one[0].ids[: len(prefix)]) == prefix


def test_a_wider_beam_has_fewer_sentences_in_a_batch(engine, sources, monkeypatch):
    monkeypatch.setattr(native, "name", lambda: None)
    largest = 0
    step = engine._step

    def record(ways, ids_N, caches):
        nonlocal largest
        largest = max(largest, len(ids_N) * caches[0].memory_mask.shape[-1])
        return step(ways, ids_N, caches)

    monkeypatch.setattr(engine, "_step", record)
    monkeypatch.setattr("attendo.engines.torch_engine.BATCH_TOKENS", 97)
    engine.search(sources, limits(sources), SearchOptions(), phrases=[[phrase(range(5, 25))]] * len(sources))
    assert 97 < largest <= 97 * 5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (SearchOptions(sample=True), "Leave out sampling, or the phrases"),
        (SearchOptions(beam=4, diversity_groups=2), "Leave out groups of the beam, or the phrases"),
    ],
)
def test_sampling_and_groups_are_refused(engine, options, words):
    with pytest.raises(ConfigError, match=words):
        engine.search([[5], [7]], [9, 9], options, phrases=[[], [phrase([5])]])


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return untrained_bundle(tmp_path_factory.mktemp("bundle") / "run")


def test_the_fast_engine_refuses_them_and_the_default_leaves_them_to_torch(bundle, monkeypatch):
    monkeypatch.setattr(choice, "has_cuda", lambda: False)
    fast, reference, both = (open_engine([bundle], engine=name) for name in ("ctranslate2", "torch", "auto"))
    encode = bundle.tokenizers.source.encode
    sources, options = [encode("one."), encode("two three."), encode("four.")], SearchOptions(beam=3)
    phrases = [(), [phrase(encode("seven"), encode("eight nine"))], ()]
    with pytest.raises(UnableError, match=r"what a translation must hold \(phrases\)\. Use the torch engine"):
        fast.search(sources, [9] * 3, options, phrases=phrases)
    expected = fast.search(sources, [9] * 3, options)
    assert [one[0].ids for one in fast.search(sources, [9] * 3, options, phrases=[()] * 3)] == [
        one[0].ids for one in expected
    ]

    assert isinstance(both, AutoEngine)
    both.search(sources, [9] * 3, options, phrases=[()] * 3)
    assert both._loaded is None, "nothing must be held"
    asked: list[int] = []
    search = both.reference.search

    def record(sources, *arguments, **given):
        asked.append(len(sources))
        return search(sources, *arguments, **given)

    monkeypatch.setattr(both.reference, "search", record)
    found = both.search(sources, [9] * 3, options, phrases=phrases)
    assert asked == [1]
    assert holds(phrases[1], found[1][0].ids)
    assert found[1] == reference.search(sources, [9] * 3, options, phrases=phrases)[1]
    assert [found[i][0].ids for i in (0, 2)] == [expected[i][0].ids for i in (0, 2)]


def test_phrases_need_no_torch():
    code = "import sys, attendo.decoding.phrases; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
