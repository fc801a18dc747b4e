"""The CTranslate2 engine against the reference, on models of random weights with every part that it can represent."""

import json
import math
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ctranslate2.specs import model_spec, transformer_spec
from safetensors.numpy import save_file

from attendo.config import to_dict
from attendo.decoding.search import SearchOptions
from attendo.engines import ctranslate2_model
from attendo.engines.ctranslate2_engine import CTranslate2Engine
from attendo.engines.ctranslate2_limits import representable, unsupported
from attendo.engines.ctranslate2_model import sinusoids, write_model
from attendo.engines.engine import UnableError
from attendo.engines.torch_engine import TorchEngine
from attendo.errors import BundleError, ConfigError
from attendo.models.transformer import Transformer
from attendo.nn import positions
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


def fast(model: Transformer, folder: Path, *, n_workers: int = 2, precision: Any = "float32") -> CTranslate2Engine:
    folder.mkdir(exist_ok=True)
    write_model(model.config, arrays(model), folder)
    return CTranslate2Engine(folder, n_workers=n_workers, precision=precision)


class TestTheModel:
    @pytest.mark.parametrize("name", PARTS)
    def test_every_part_gives_the_log_probabilities_of_the_reference(self, name, tmp_path):
        model = random_model(PARTS[name])
        vocab_size = model.config.source_vocab_size
        # Longer than the exact buckets of t5 reach, the window of shaw, and CTranslate2's own tables; and empty ones.
        sources = [[], [5], *random_ids(5, 17, 37, vocab_size), *random_ids(7, 2, 190, vocab_size)]
        targets = [[7], [], *random_ids(11, 17, 37, V_TARGET), *random_ids(13, 2, 190, V_TARGET)]
        ours = fast(model, tmp_path).score(sources, targets)
        theirs = reference(model).score(sources, targets)
        for one, other in zip(ours, theirs, strict=True):
            assert one == close(other)
        assert np.std(np.concatenate(theirs)) > 0.4  # not all the same

    @pytest.mark.parametrize("name", PARTS)
    def test_it_has_the_variables_that_the_librarys_own_specification_asks_for(self, name):
        """None is missing, none unknown to it, all of the type that it would have."""
        config = config_of(PARTS[name])
        norms = {"rms_norm": config.norm != "layernorm", "pre_norm": config.norm_place != "post"}
        options = {
            "activation": ctranslate2_model._ACTIVATIONS[config.activation],
            "ffn_glu": config.activation in ("swiglu", "geglu"),
            "layernorm_embedding": config.embedding_norm,
            "relative_position": config.positions == "shaw",
            "relative_attention_bias": config.positions == "t5",
            "head_dim": 1,
            "rotary_dim": 2 if config.positions == "rotary" else None,
            "pre_post_layer_norm": config.norm_place == "sandwich",
            **norms,
        }
        spec = transformer_spec.TransformerSpec(
            transformer_spec.TransformerEncoderSpec(config.n_encoder_layers, config.n_heads, **options),
            transformer_spec.TransformerDecoderSpec(
                config.n_decoder_layers,
                config.n_heads,
                external_pre_post_encoder_layers=config.norm_place == "sandwich",
                **options,
            ),
        )
        weights = ctranslate2_model._Weights(config, arrays(random_model(PARTS[name])))
        for variable, value in ctranslate2_model._variables(config, weights).items():
            scope, _, attribute = variable.rpartition("/")
            setattr(model_spec.index_spec(spec, scope), attribute, value)
        model_spec.LayerSpec.validate(spec)
        assert spec.revision == ctranslate2_model._REVISION
        assert spec.name == ctranslate2_model._SPECIFICATION
        assert model_spec.CURRENT_BINARY_VERSION == ctranslate2_model._FORMAT

    def test_the_file_is_that_of_the_librarys_own_writer(self, tmp_path):
        model = random_model(PARTS["tied"])
        write_model(model.config, arrays(model), tmp_path)
        encoder = transformer_spec.TransformerEncoderSpec(2, 3, pre_norm=False, head_dim=10)
        decoder = transformer_spec.TransformerDecoderSpec(3, 3, pre_norm=False, head_dim=10)
        spec = transformer_spec.TransformerSpec(encoder, decoder)
        weights = ctranslate2_model._Weights(model.config, arrays(model))
        for variable, value in ctranslate2_model._variables(model.config, weights).items():
            scope, _, attribute = variable.rpartition("/")
            setattr(model_spec.index_spec(spec, scope), attribute, value)
        model_spec.LayerSpec.validate(spec)
        spec.optimize()
        spec._serialize(tmp_path / "other.bin")
        assert (tmp_path / "model.bin").read_bytes() == (tmp_path / "other.bin").read_bytes()

    @pytest.mark.parametrize("name", OTHERS)
    def test_what_it_cannot_represent_is_said_and_not_written(self, name, tmp_path):
        config = config_of(OTHERS[name])
        changed = next(iter(OTHERS[name].values()))
        assert f"'{changed}'" in str(representable(config))
        with pytest.raises(ConfigError, match="Use the torch engine"):
            write_model(config, {}, tmp_path)
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("name", PARTS)
    def test_what_it_can_represent_has_no_reason_against_it(self, name):
        assert representable(config_of(PARTS[name])) is None

    @pytest.mark.parametrize("d_model", [6, 7])
    @pytest.mark.parametrize("layout", ["interleaved", "halves", "fairseq"])
    def test_sinusoids_are_those_of_the_reference(self, d_model, layout):
        ours = sinusoids(301, d_model, layout=layout)
        np.testing.assert_allclose(ours, positions.sinusoids(301, d_model, layout=layout).numpy(), rtol=0, atol=1e-7)

    @pytest.mark.parametrize("name", PARTS)
    def test_it_knows_the_shape_of_every_tensor(self, name):
        own = arrays(random_model(PARTS[name]))
        weights = ctranslate2_model._Weights(config_of(PARTS[name]), own)
        assert {key: weights._shape(key) for key in own} == {key: value.shape for key, value in own.items()}

    @pytest.mark.parametrize("changed", ["output.bias", "encoder.blocks.1.attention.key.weight"])
    def test_weights_of_another_model_are_refused(self, changed, tmp_path):
        model = random_model({})
        own = arrays(model)
        with pytest.raises(BundleError, match=f"lacks the tensor {changed},"):
            write_model(model.config, {key: value for key, value in own.items() if key != changed}, tmp_path)
        with pytest.raises(BundleError, match=f"tensor {changed} has shape"):
            write_model(model.config, {**own, changed: np.append(own[changed], own[changed], axis=0)}, tmp_path)
        with pytest.raises(BundleError, match="has the tensor another"):
            write_model(model.config, {**own, "another": np.zeros(3, np.float32)}, tmp_path)
        assert not list(tmp_path.iterdir())

    def test_shared_weights_are_in_the_file_once(self, tmp_path):
        sizes = []
        for number, sharing in enumerate(("none", "all")):
            folder = tmp_path / str(number)
            fast(random_model({"share_layers": sharing}), folder)
            sizes.append((folder / "model.bin").stat().st_size)
        assert sizes[1] < 0.9 * sizes[0]


WAYS = {
    "greedy": SearchOptions(beam=1),
    "average": SearchOptions(beam=4, n_best=3, stopping="first", length_penalty="average"),
    "none": SearchOptions(beam=3, n_best=3, stopping="first", length_penalty="none"),
    "gnmt": SearchOptions(beam=5, n_best=2, stopping="first", length_penalty="gnmt"),
}


# The second is one whose likeliest prefix is often not the first to end, which shows by what rule a search stops.
@pytest.fixture(scope="module", params=[(7, 5), (8, 3)])
def both(request, tmp_path_factory) -> tuple[CTranslate2Engine, TorchEngine]:
    seed, eos = request.param
    model = ending_model(share=False, seed=seed, eos=eos)
    return fast(model, tmp_path_factory.mktemp("model")), reference(model)


@pytest.fixture(scope="module")
def both_with_share(tmp_path_factory) -> tuple[CTranslate2Engine, TorchEngine]:
    model = ending_model(share=True)
    return fast(model, tmp_path_factory.mktemp("model")), reference(model)


class TestTheSearch:
    @pytest.mark.parametrize("name", WAYS)
    def test_it_finds_what_the_reference_finds(self, both, name):
        ours, theirs = both
        expected = theirs.search(SOURCES, LIMITS, WAYS[name])
        finished = [one.finished for several in expected for one in several]
        assert 10 < sum(finished) < len(finished)
        found = ours.search(SOURCES, LIMITS, WAYS[name], scores=True)
        assert_same_but_for_a_tie(found, expected, theirs, LIMITS, WAYS[name])

    @pytest.mark.parametrize("name", WAYS)
    def test_tight_limits(self, both, name):
        ours, theirs = both
        limits = [i % 5 for i in range(len(SOURCES))]
        expected = theirs.search(SOURCES, limits, WAYS[name])
        found = ours.search(SOURCES, limits, WAYS[name], scores=True)
        assert all(len(one.ids) <= limit for several, limit in zip(found, limits, strict=True) for one in several)
        assert [several[0].ids for several in found] == [several[0].ids for several in expected]
        assert [several[0].score for several in found] == close([several[0].score for several in expected])

    def test_greedy_is_the_same_whatever_share_the_forbidden_ids_have(self, both_with_share):
        ours, theirs = both_with_share
        expected = theirs.search(SOURCES, LIMITS, WAYS["greedy"])
        log_probs = [one for several in expected for one in several[0].token_log_probs]
        assert np.mean(log_probs) < -0.1  # they have some
        found = ours.search(SOURCES, LIMITS, WAYS["greedy"], scores=True)
        assert_same(found, expected)
        assert all(several[0].token_log_probs for several in found)

    @pytest.mark.parametrize("name", WAYS)
    def test_forbidden_ids_never_come_and_keep_their_share(self, both_with_share, name):
        ours, theirs = both_with_share
        found = [several[0] for several in ours.search(SOURCES, LIMITS, WAYS[name], scores=True)]
        assert not {PAD, BOS, EOS, UNK} & {id for one in found for id in one.ids}
        scored = theirs.score(SOURCES, [one.ids for one in found])
        for one, row in zip(found, scored, strict=True):
            assert one.token_log_probs == close(row)
            assert one.log_prob == close(sum(row))
            assert one.score == close(sum(row) / WAYS[name].penalty(len(one.ids) + 1))

    @pytest.mark.parametrize("name", WAYS)
    def test_without_scores_it_finds_the_same_and_greedy_computes_none(self, both_with_share, name, monkeypatch):
        engine, _ = both_with_share
        expected = engine.search(SOURCES, LIMITS, WAYS[name], scores=True)
        scored: list[int] = []
        score = engine.score

        def record(sources, *given, **named):
            scored.append(len(sources))
            return score(sources, *given, **named)

        monkeypatch.setattr(engine, "score", record)
        found = engine.search(SOURCES, LIMITS, WAYS[name])
        for some, others in zip(found, expected, strict=True):
            assert {(one.ids, one.finished) for one in some} == {(one.ids, one.finished) for one in others}
        unknown = [math.isnan(one.log_prob) and math.isnan(one.score) for several in found for one in several]
        if name == "greedy":
            assert all(unknown)
            assert sum(scored) == 0
        else:
            assert any(unknown)
            assert 0 < sum(scored) < 2 * WAYS[name].beam * len(SOURCES)

    @pytest.mark.parametrize("what", ["search", "score"])
    def test_only_a_few_batches_are_under_way_and_an_end_leaves_no_others(self, both, what, monkeypatch):
        engine, _ = both
        started: list[int] = []
        name = "translate_batch" if what == "search" else "score_batch"
        real = engine.translator

        class Recorder:
            def __getattr__(self, attribute: str) -> Any:
                def start(*given: Any, **named: Any) -> Any:
                    started.append(1)
                    return getattr(real, attribute)(*given, **named)

                return start if attribute == name else getattr(real, attribute)

        class Stopped:
            def say(self, text: str) -> None:
                pass

            def progress(self, step: int, steps: int, text: str) -> None:
                pass

            def track(self, items: Any, what: str, total: int | None = None) -> Any:  # noqa: ARG002
                ahead = 2 * engine.n_workers + 2
                for number, item in enumerate(items):
                    assert len(started) == min(number + ahead, len(SOURCES))
                    yield item
                    if number == 11:
                        raise KeyboardInterrupt

        monkeypatch.setattr(engine, "translator", Recorder())
        with pytest.raises(KeyboardInterrupt):
            if what == "search":
                engine.search(SOURCES, LIMITS, WAYS["greedy"], batch_size=1, reporter=Stopped())
            else:
                engine.score(SOURCES, SOURCES, batch_size=1, reporter=Stopped())
        assert len(started) == 11 + 2 * engine.n_workers + 2

    @pytest.mark.parametrize("name", WAYS)
    def test_results_do_not_depend_on_the_rest_of_the_batch(self, both, name):
        engine, _ = both
        alone = [
            engine.search([ids], [limit], WAYS[name], scores=True)[0]
            for ids, limit in zip(SOURCES[:23], LIMITS[:23], strict=True)
        ]
        for batch_size in (1, 2, 7, None):
            order = random.Random(batch_size or 0).sample(range(len(SOURCES)), len(SOURCES))
            # The neighbours have other limits, so that a batch has many.
            limits = [LIMITS[i] if i < 23 else LIMITS[i] + 40 * (i % 2) for i in order]
            sources = [SOURCES[i] for i in order]
            together = engine.search(sources, limits, WAYS[name], scores=True, batch_size=batch_size)
            by_number = dict(zip(order, together, strict=True))
            assert_same([by_number[i] for i in range(23)], alone)

    def test_long_inputs_are_not_cut(self, both):
        ours, theirs = both
        long = random_ids(23, 1, 0, V_SOURCE)[0] + [5 + i % 41 for i in range(1301)]
        other = [*long[:-1], 50]
        sources, targets = [long, other], [[7, 8, 9], [11] * 1201]
        scored = ours.score(sources, targets)
        for row, expected in zip(scored, theirs.score(sources, targets), strict=True):
            assert row == close(expected)
        assert ours.score([other], targets[:1])[0][0] != pytest.approx(scored[0][0], rel=0, abs=1e-6)
        found = ours.search(sources, [400, 400], WAYS["greedy"], scores=True)
        assert_same(found, theirs.search(sources, [400, 400], WAYS["greedy"]))

    def test_an_empty_source_is_translated_like_any_other(self, both):
        ours, theirs = both
        for options in WAYS.values():
            assert_same(ours.search([[]], [7], options, scores=True), theirs.search([[]], [7], options))

    def test_nothing_in_nothing_out(self, both):
        engine, _ = both
        assert engine.search([], [], WAYS["average"]) == []
        assert engine.score([], []) == []

    def test_learned_positions_reach_as_far_as_in_the_reference(self, tmp_path):
        model = random_model({"positions": "learned", "n_positions": 13})
        with torch.no_grad():
            model.output.bias[EOS] = -30  # never ends
        ours, theirs = fast(model, tmp_path), reference(model)
        assert ours.longest_target == theirs.longest_target == 12
        for options in WAYS.values():
            assert_same(ours.search([[5] * 12], [12], options, scores=True), theirs.search([[5] * 12], [12], options))
            with pytest.raises(UnableError, match="13 positions"):
                ours.search([[5] * 13], [12], options)
            with pytest.raises(UnableError, match="13 positions"):
                ours.search([[5]], [13], options)
        for source, target in (([5] * 13, [5]), ([5], [5] * 13)):
            with pytest.raises(UnableError, match="13 positions"):
                ours.score([source], [target])

    def test_int8_is_near(self, tmp_path):
        model = ending_model(share=False)
        targets = random_ids(29, len(SOURCES), 23, V_TARGET)
        exact = np.concatenate(fast(model, tmp_path / "a").score(SOURCES, targets))
        near = np.concatenate(fast(model, tmp_path / "b", precision="int8").score(SOURCES, targets))
        assert 0 < np.abs(near - exact).mean() < 0.1

    @pytest.mark.parametrize(
        "options",
        [
            SearchOptions(stopping="exact"),
            SearchOptions(sample=True),
            SearchOptions(beam=4, diversity_groups=2),
            SearchOptions(beam=1, no_repeat_ngram=3),
        ],
    )
    def test_what_it_cannot_do_is_said(self, both, options):
        engine, _ = both
        assert unsupported(options)
        with pytest.raises(UnableError, match="Use the torch engine"):
            engine.search([[5]], [3], options)

    def test_greedy_search_goes_on_from_prefixes_as_the_reference_does(self, both):
        ours, theirs = both
        prefixes = [ids[: i % 7] for i, ids in enumerate(random_ids(31, len(SOURCES), 7, V_TARGET))]
        tight = [len(prefix) + i % 3 for i, prefix in enumerate(prefixes)]
        assert {len(prefix) for prefix in prefixes} > {0, 1, 4}
        for limits in (LIMITS, tight):
            expected = theirs.search(SOURCES, limits, WAYS["greedy"], prefixes=prefixes)
            assert_same(ours.search(SOURCES, limits, WAYS["greedy"], prefixes=prefixes, scores=True), expected)
            alone = [
                ours.search([ids], [limit], WAYS["greedy"], prefixes=[prefix], scores=True)[0]
                for ids, limit, prefix in zip(SOURCES, limits, prefixes, strict=True)
            ]
            assert_same(alone, expected)

    def test_no_way_here_is_one_of_them(self):
        assert not any(unsupported(options) for options in WAYS.values())

    def test_a_beam_does_not_go_on_from_a_prefix(self, both):
        ours, _ = both
        with pytest.raises(UnableError, match="right behind a prefix"):
            ours.search([[5]], [3], SearchOptions(beam=2), prefixes=[[7]])


WITHOUT_TORCH = """
import json, sys
from pathlib import Path

from safetensors.numpy import load_file

from attendo.config import from_dict
from attendo.decoding.search import SearchOptions
from attendo.engines.ctranslate2_engine import CTranslate2Engine
from attendo.engines.ctranslate2_model import write_model
from attendo.models.settings import TransformerConfig

folder = Path(sys.argv[1])
config = from_dict(TransformerConfig, json.loads((folder / "config.txt").read_text()))
(folder / "model").mkdir()
write_model(config, load_file(folder / "weights.safetensors"), folder / "model")
engine = CTranslate2Engine(folder / "model")
found = engine.search([[5, 6, 7]], [9], SearchOptions(beam=3, stopping="first"))
print(json.dumps({"ids": found[0][0].ids, "heavy": sorted({"torch", "transformers"} & set(sys.modules))}))
"""


def test_torch_is_not_imported(tmp_path):
    model = ending_model(share=False)
    (tmp_path / "config.txt").write_text(json.dumps(to_dict(model.config)))
    save_file(arrays(model), tmp_path / "weights.safetensors")
    command = [sys.executable, "-c", WITHOUT_TORCH, str(tmp_path)]
    printed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert printed["heavy"] == []
    options = SearchOptions(beam=3, stopping="first")
    assert tuple(printed["ids"]) == reference(model).search([[5, 6, 7]], [9], options)[0][0].ids
