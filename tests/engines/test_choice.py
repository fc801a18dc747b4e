"""Which engine serves what, and what is said where one cannot."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from attendo import native
from attendo.decoding.search import SearchOptions
from attendo.drafting import EXTRA_LENGTH
from attendo.engines import choice, ctranslate2_limits, native_model
from attendo.engines.choice import AutoEngine, open_engine
from attendo.engines.ctranslate2_engine import CTranslate2Engine
from attendo.engines.ctranslate2_limits import representable
from attendo.engines.native_engine import NativeEngine
from attendo.engines.native_model import servable
from attendo.engines.torch_engine import TorchEngine
from attendo.errors import ConfigError
from attendo.models.settings import TransformerConfig
from attendo.native.search import has_bytes
from attendo.recipe import RECIPES, choose
from attendo.text.corpus import read_lines
from attendo.translator import load
from tests.untrained import sentences, untrained_bundle

FAST: list[dict[str, Any]] = [{"engine": "native"}, {"engine": "ctranslate2"}, {"precision": "int8"}]

BEYOND: dict[str, dict[str, Any]] = {
    "sample": {"options": SearchOptions(sample=True)},
    "diverse": {"options": SearchOptions(beam=4, diversity_groups=2)},
    "no repeats": {"options": SearchOptions(no_repeat_ngram=2)},
}
BEYOND_CTRANSLATE2: dict[str, dict[str, Any]] = {
    **BEYOND,
    "exact": {"options": SearchOptions(stopping="exact")},
    "prefix": {"prefixes": ["zwei", None, "rot"]},
}


def close(expected: Any) -> Any:
    return pytest.approx(expected, rel=1e-5, abs=1e-4)  # the sum of many pieces


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return untrained_bundle(tmp_path_factory.mktemp("bundle") / "run")


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(choice, "has_cuda", lambda: False)


@pytest.mark.parametrize("kind", [NativeEngine, CTranslate2Engine])
def test_auto_is_the_fastest_engine_there_is_and_loads_no_other(bundle, kind, monkeypatch):
    if kind is CTranslate2Engine:
        monkeypatch.setattr(native, "name", lambda: None)
    translator = load(bundle.path)
    assert isinstance(translator.engine, AutoEngine)
    assert isinstance(translator.engine.fast, kind)
    translator.translate_many(sentences(7))
    translator.score(["one."], ["eins."])
    assert translator.engine._loaded is None


@pytest.mark.parametrize("what", BEYOND_CTRANSLATE2)
def test_what_is_beyond_the_fast_engine_the_reference_does(bundle, what, monkeypatch):
    if what not in BEYOND:
        monkeypatch.setattr(native, "name", lambda: None)
    translator, reference = load(bundle.path), load(bundle.path, engine="torch")
    texts = sentences(3)
    found = translator.translate_many(texts, **BEYOND_CTRANSLATE2[what])
    assert found == reference.translate_many(texts, **BEYOND_CTRANSLATE2[what])
    assert isinstance(translator.engine, AutoEngine)
    assert isinstance(translator.engine.reference, TorchEngine)


@pytest.mark.parametrize("what", BEYOND)
def test_and_where_the_own_engine_was_asked_for_it_is_said(bundle, what):
    translator = load(bundle.path, engine="native")
    with pytest.raises(ConfigError, match=r"the native engine cannot search so: .*Use the torch engine"):
        translator.translate_many(sentences(3), **BEYOND[what])


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("what", BEYOND_CTRANSLATE2)
def test_and_where_the_fast_engine_was_asked_for_it_is_said(bundle, what, precision):
    translator = load(bundle.path, engine="ctranslate2", precision=precision)
    with pytest.raises(ConfigError, match=r"the ctranslate2 engine cannot search so: .*Use the torch engine"):
        translator.translate_many(sentences(3), **BEYOND_CTRANSLATE2[what])


@pytest.mark.parametrize("engine", ["native", "ctranslate2"])
def test_both_engines_translate_the_same(bundle, engine):
    fast, reference = load(bundle.path, engine=engine), load(bundle.path, engine="torch")
    texts = sentences(97)
    for beam in (1, 5):
        ours, theirs = (one.translate_many(texts, beam=beam, scores=True) for one in (fast, reference))
        for one, other in zip(ours, theirs, strict=True):
            assert one.text == other.text or one.score == close(other.score)
        assert [one.log_prob for one in ours] == close([one.log_prob for one in theirs])
    assert len({one.text for one in ours}) > 20


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"engine": "torch"}, TorchEngine),
        ({"engine": "native"}, NativeEngine),
        ({"engine": "ctranslate2"}, CTranslate2Engine),
        ({"engine": "ctranslate2", "precision": "int8"}, CTranslate2Engine),
        ({"precision": "int8"}, NativeEngine if has_bytes() else CTranslate2Engine),
        ({"device": "cpu"}, AutoEngine),
    ],
)
def test_an_engine_by_name(bundle, given, kind):
    assert type(open_engine([bundle], **given)) is kind


def test_int8_is_for_ctranslate2_where_the_processor_does_not_multiply_bytes(bundle, monkeypatch):
    monkeypatch.setattr(native_model, "has_bytes", lambda: False)
    assert isinstance(open_engine([bundle], precision="int8"), CTranslate2Engine)
    with pytest.raises(ConfigError, match=r"engine = 'native': .*needs a processor with AVX512-VNNI"):
        open_engine([bundle], engine="native", precision="int8")


def test_a_gpu_is_for_torch(bundle, monkeypatch):
    monkeypatch.setattr(choice, "has_cuda", lambda: True)
    assert isinstance(open_engine([bundle]), TorchEngine)
    assert isinstance(open_engine([bundle], device="cpu"), AutoEngine)
    # Asked for by name, the fast engine runs on the CPU that it needs.
    for given in FAST:
        assert isinstance(open_engine([bundle], **given), NativeEngine | CTranslate2Engine)
        for device in ("cuda", "mps"):
            with pytest.raises(
                ConfigError, match=f"computes on the CPU, and the device is {device}. Use --device cpu,"
            ):
                open_engine([bundle], **given, device=device)


def test_whether_there_is_a_gpu_is_asked_only_where_that_decides(bundle, tmp_path, monkeypatch):
    monkeypatch.setattr(choice, "has_cuda", lambda: pytest.fail("asked"))
    for given in (*FAST, {"engine": "torch"}, {"device": "cpu"}):
        open_engine([bundle], **given)
    open_engine([untrained_bundle(tmp_path / "window", span="window")])


@pytest.mark.parametrize("scores", [False, True])
def test_what_the_reference_does_for_one_line_changes_no_other(bundle, monkeypatch, scores):
    monkeypatch.setattr(native, "name", lambda: None)  # CTranslate2 leaves prefixes to it
    translator = load(bundle.path)
    assert isinstance(translator.engine, AutoEngine)
    asked: list[int] = []
    search = translator.engine.reference.search

    def record(sources, *arguments, **options):
        asked.append(len(sources))
        return search(sources, *arguments, **options)

    monkeypatch.setattr(translator.engine.reference, "search", record)
    texts = sentences(7)
    plain = translator.translate_many(texts, scores=scores)
    prefixes = [None, None, "zwei", None, "rot", None, None]
    found = translator.translate_many(texts, prefixes=prefixes, scores=scores)
    assert asked == [2]
    for one, alone, prefix in zip(found, plain, prefixes, strict=True):
        if prefix is None:
            assert one.text == alone.text
            assert one.log_prob == (close(alone.log_prob) if scores else None)
        else:
            assert one.text.startswith(prefix)
            expected = load(bundle.path, engine="torch").translate(one.source, prefix=prefix, scores=scores)
            assert one.text == expected.text
            assert one.log_prob == (close(expected.log_prob) if scores else None)


@pytest.fixture
def short_tables(monkeypatch):
    """Of so few positions that a text beyond them is soon translated."""
    monkeypatch.setattr(ctranslate2_limits, "TABLE_POSITIONS", 397)


@pytest.mark.usefixtures("short_tables")
def test_a_text_that_is_too_long_for_it_sends_no_other_to_the_reference(tmp_path, monkeypatch):
    bundle = untrained_bundle(tmp_path / "long", max_length=99_991)
    translator, long = load(bundle.path), " ".join(["two"] * 420)
    assert isinstance(translator.engine, AutoEngine)
    asked: list[int] = []
    for name in ("search", "score"):
        method = getattr(translator.engine.reference, name)

        def record(sources, *arguments, method=method, **options):
            asked.append(len(sources))
            return method(sources, *arguments, **options)

        monkeypatch.setattr(translator.engine.reference, name, record)
    texts = sentences(3)
    found = translator.translate_many([texts[0], long, *texts[1:]], beam=1, max_length=3)
    assert [one.text for one in found[:1] + found[2:]] == [
        one.text for one in translator.translate_many(texts, beam=1, max_length=3)
    ]
    assert asked == [1]
    scores = translator.score([texts[0], long, texts[1]], ["eins.", "zwei.", "drei."])
    assert asked == [1, 1]
    reference = load(bundle.path, engine="torch").score([texts[0], long, texts[1]], ["eins.", "zwei.", "drei."])
    assert [one.log_prob for one in scores] == close([one.log_prob for one in reference])


def test_threads_that_need_the_reference_at_the_same_time_load_it_once():
    loaded: list[object] = []

    def load_slowly() -> Any:
        time.sleep(0.1)
        loaded.append(object())
        return loaded[-1]

    engine = AutoEngine(cast(Any, None), load_slowly, longest_target=None)
    with ThreadPoolExecutor(5) as pool:
        found = list(pool.map(lambda _: engine.reference, range(5)))
    assert len(loaded) == 1
    assert all(one is loaded[0] for one in found)


@pytest.mark.parametrize("engine", ["torch", "ctranslate2", "native"])
def test_scores_are_there_if_asked_for_by_either_engine_and_are_the_models_own(bundle, engine):
    translator, texts = load(bundle.path, engine=engine), [*sentences(11), ""]
    for options in (SearchOptions(beam=1), SearchOptions(beam=4, n_best=3), SearchOptions(beam=3)):
        for max_length in (None, 2):
            plain = translator.translate_many(texts, options=options, max_length=max_length)
            assert {(one.score, one.log_prob) for one in plain} == {(None, None)}
            assert {(one.score, one.log_prob) for text in plain for one in text.candidates} == {(None, None)}
            found = translator.translate_many(texts, options=options, max_length=max_length, scores=True)
            assert [{one.text for one in text.candidates} for text in found] == [
                {one.text for one in text.candidates} for text in plain
            ]
            encode = translator.tokenizers.source.encode_batch
            expected = translator.engine.search(
                encode(texts[:-1]),
                [max_length or len(ids) + EXTRA_LENGTH for ids in encode(texts[:-1])],
                options,
                scores=True,
            )
            for text, hypotheses in zip(found, expected, strict=False):
                rows = translator.engine.score(encode([text.source]) * len(hypotheses), [one.ids for one in hypotheses])
                assert [one.log_prob for one in text.candidates] == close([sum(row) for row in rows])
                assert [one.score for one in text.candidates] == close(
                    [sum(row) / options.penalty(len(row)) for row in rows]
                )
            assert (found[-1].score, found[-1].log_prob) == (0.0, 0.0)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("pairs", [1, 1_000, 29_000, 200_000, 1_000_000, 40_000_000])
@pytest.mark.parametrize("passes", [None, 1, 18, 60, 120, 1000])
def test_every_recipe_chooses_parts_that_the_fast_engine_can_run(recipe, pairs, passes):
    parts = choose(recipe, pairs=pairs, passes=passes)["model"]
    config = TransformerConfig(**{**parts, "source_vocab_size": 400, "target_vocab_size": 400})
    assert representable(config) is None
    assert servable(config) is None


def test_what_it_cannot_represent_and_ensembles_are_for_torch(bundle, tmp_path):
    other = untrained_bundle(tmp_path / "window", span="window")
    twin = untrained_bundle(tmp_path / "twin")
    for bundles, words in (([other], "span 'window'"), ([bundle, twin], "an ensemble")):
        assert isinstance(open_engine(bundles), TorchEngine)
        for given in FAST:
            with pytest.raises(ConfigError, match=rf"{words}.*or use engine torch, in float32"):
                open_engine(bundles, **given)
    assert not (tmp_path / "window" / "ctranslate2").exists()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"engine": "torch", "precision": "int8"}, "precision = 'int8': the torch engine has float32 only"),
        ({"engine": "fast"}, "engine = 'fast': must be one of auto, native, ctranslate2, torch"),
        ({"precision": "int4"}, "precision = 'int4': must be one of float32, int8"),
    ],
)
def test_what_does_not_exist(bundle, given, words):
    with pytest.raises(ConfigError, match=words):
        load(bundle.path, **given)


@pytest.mark.usefixtures("short_tables")
def test_a_text_with_more_pieces_than_its_table_has_positions_is_for_torch(tmp_path):
    bundle = untrained_bundle(tmp_path / "long", max_length=99_991)
    text = " ".join(["two"] * 420)
    translator = load(bundle.path)
    assert len(translator.tokenizers.source.encode(text)) > 397
    assert translator.engine.longest_target is None
    found = translator.translate(text, beam=1, max_length=3)
    assert found.parts == 1
    assert isinstance(translator.engine, AutoEngine)
    assert translator.engine._loaded is not None
    with pytest.raises(ConfigError, match=r"longer than the 397 positions .* use the torch engine"):
        load(bundle.path, engine="ctranslate2").translate(text, beam=1, max_length=3)
    with pytest.raises(ConfigError, match=r"longer than the 397 positions .* use the torch engine"):
        load(bundle.path, engine="native").translate(text, beam=1, max_length=3)


def test_learned_positions_reach_as_far_as_in_torch(tmp_path):
    bundle = untrained_bundle(tmp_path / "learned", positions="learned", n_positions=113)
    assert load(bundle.path).engine.longest_target == load(bundle.path, engine="torch").engine.longest_target == 112


@pytest.mark.proof
@pytest.mark.skipif("ATTENDO_BUNDLE" not in os.environ, reason="ATTENDO_BUNDLE and ATTENDO_SOURCES name no files")
@pytest.mark.parametrize("beam", [1, 5])
@pytest.mark.parametrize("engine", ["native", "ctranslate2"])
def test_both_engines_translate_a_test_set_the_same(beam, engine):
    """With a trained bundle and a text file of its source language: at most 2 of 1,000 differ, and those by a tie."""
    path, texts = os.environ["ATTENDO_BUNDLE"], list(read_lines(os.environ["ATTENDO_SOURCES"]))[:1000]
    fast, reference = load(path, engine=engine), load(path, engine="torch")
    ours, theirs = (one.translate_many(texts, beam=beam, scores=True) for one in (fast, reference))
    different = [(one, other) for one, other in zip(ours, theirs, strict=True) if one.text != other.text]
    assert len(different) <= 2
    for one, other in different:
        assert one.score == close(other.score)
