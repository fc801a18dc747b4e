"""Settings that would do nothing, or would make another model of a bundle, are refused before any work is done."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from attendo.bundle import Bundle
from attendo.errors import ConfigError
from attendo.models.settings import RATES, TransformerConfig
from attendo.plan import bound, check_settings, is_bounded, misfit, resolve, with_effort
from attendo.recipe import DataConfig, Effort, RecipeName
from attendo.training.schedule import build_schedule
from attendo.training.settings import TrainingConfig

from .trained import Trained

UNUSED = {
    "n_positions": 700,
    "max_distance": 5,
    "n_buckets": 64,
    "bucket_distance": 99,
    "window": 3,
    "chunk": 3,
    "left_chunks": 2,
    "layers_per_group": 3,
}


@pytest.mark.parametrize(("key", "value"), UNUSED.items())
def test_a_setting_of_a_part_that_is_not_chosen(key: str, value: int) -> None:
    with pytest.raises(ConfigError, match=rf"^model\.{key} = {value}: has no effect, since .* not '.*'\.$"):
        check_settings({"model": {key: value}}, "tiny", None)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"tokenizer": {"kind": "characters"}}, "kind characters has none"),
        ({"model": {"positions": "learned"}}, "longer"),
    ],
)
def test_bpe_dropout_where_it_cannot_be(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"^training\.bpe_dropout = 0\.1: .*{reason}"):
        check_settings(settings | {"training": {"bpe_dropout": 0.1}}, "tiny", None)


def test_both_directions_need_one_tokenizer() -> None:
    settings = {"training": {"both_directions": 3}}
    check_settings(settings, "tiny", None)
    with pytest.raises(ConfigError, match=r"^training\.both_directions = 3\.0: needs one tokenizer"):
        check_settings(settings | {"tokenizer": {"joint": False}}, "tiny", None)


def test_the_layout_of_sinusoids_that_are_not_there() -> None:
    with pytest.raises(ConfigError, match=r"sinusoid_layout = 'halves': has no effect, since positions is 'rotary'"):
        check_settings({"model": {"sinusoid_layout": "halves", "positions": "rotary"}}, "tiny", None)


@pytest.mark.parametrize(
    "model",
    [
        {"positions": "learned", "n_positions": 700},
        {"positions": "shaw", "max_distance": 5},
        {"positions": "t5", "n_buckets": 64, "bucket_distance": 99},
        {"positions": "sinusoidal-concatenated", "sinusoid_layout": "halves"},
        {"span": "window", "window": 3},
        {"span": "chunk", "chunk": 3, "left_chunks": 2},
        {"share_layers": "groups", "layers_per_group": 3},
        {"window": 8, "n_positions": 512},  # said, but not changed: as in the config of any run
    ],
)
def test_settings_of_chosen_parts(model: dict[str, Any]) -> None:
    check_settings({"model": model}, "tiny", None)


def corpus_of(pairs: int, tokens: int) -> Any:
    """A corpus as `resolve` sees it: so many pairs, and so many tokens on each side."""
    return SimpleNamespace(
        tokenizers=SimpleNamespace(
            source=SimpleNamespace(vocab_size=400), target=SimpleNamespace(vocab_size=400), joint=True
        ),
        facts={"pairs": {"kept": pairs}, "tokens_per_epoch": {"source": tokens, "target": tokens}, "vocab_size": 400},
    )


def test_the_time_there_is_does_not_refuse_an_optimizer() -> None:
    """Adam has no decay, which auto gives where there is time for many passes."""
    for optimizer, decay in (("adam", 0.0), ("adamw", 0.2)):
        settings = {"training": {"minutes": 150.0, "optimizer": optimizer}}
        found = resolve(settings, "auto", DataConfig(source="a"), corpus_of(29_000, 1), None, speed=lambda: 1.0)
        assert found.training.weight_decay == decay


def test_auto_chooses_by_how_often_the_pairs_can_be_read_in_the_time() -> None:
    """29,000 pairs of 450,000 tokens a side, as Multi30K has them; in the last rows each as long again, and a machine
    twice as fast: what decides is the number of passes."""

    def chosen(effort: Effort, *, tokens: int = 450_000, speed: float = 20_000.0) -> tuple[str, int, float]:
        settings = with_effort({}, effort)
        found = resolve(settings, "auto", DataConfig(source="a"), corpus_of(29_000, tokens), None, speed=lambda: speed)
        assert isinstance(found.model, TransformerConfig)
        return found.training.optimizer, found.model.d_model, found.model.residual_dropout

    assert chosen("quick") == ("adam", 128, 0.1)
    assert chosen("normal") == ("muon", 128, 0.25)
    assert chosen("thorough") == ("muon", 192, 0.3)
    assert chosen("thorough", tokens=900_000) == chosen("normal", speed=25_000.0) == ("muon", 128, 0.25)
    assert chosen("quick", speed=40_000.0) == ("muon", 128, 0.15)


def test_the_machine_is_measured_only_where_the_preset_is_to_fit_the_time() -> None:
    def measured(preset: RecipeName, **training: Any) -> int:
        asked: list[float] = []

        def speed() -> float:
            asked.append(20_000.0)
            return asked[-1]

        resolve({"training": training}, preset, DataConfig(source="a"), corpus_of(29_000, 450_000), None, speed=speed)
        return len(asked)

    assert measured("auto", minutes=10.0) == 1
    assert measured("auto", epochs=3.0) == measured("auto") == measured("tiny", minutes=10.0) == 0


def test_a_trained_model_is_adapted_gently_however_much_time_there_is(trained: Trained) -> None:
    start = trained.bundle
    for training, epochs, rate in (
        ({"minutes": 150.0}, 10.0, 0.0016),
        ({}, 10.0, 0.0016),
        ({"epochs": 3.0}, 3.0, 0.0016),
        ({"steps": 77}, None, 0.0016),
        ({"lora_rank": 4}, 10.0, 0.5 / start.config.model.d_model),
    ):
        settings = {"training": training, "adapt_from": str(start.path)}
        found = resolve(
            settings, "auto", DataConfig(source="a"), corpus_of(29_000, 1), start, speed=lambda: 1.0
        ).training
        assert (found.epochs, found.schedule, found.warmup_steps) == (epochs, "linear", 100)
        assert found.learning_rate == pytest.approx(rate)


def test_complex_positions_begin_with_chance() -> None:
    check_settings({"model": {"positions": "complex"}}, "auto", None)
    with pytest.raises(ConfigError, match=r"^training\.embeddings"):
        check_settings({"model": {"positions": "complex"}, "training": {"embeddings": "related"}}, "auto", None)


# --- starting from a bundle -------------------------------------------------------------------------------------------

OTHER = {
    "n_heads": 4,
    "scoring": "dot",
    "positions": "none",
    "sinusoid_layout": "halves",
    "span": "window",
    "activation": "relu2",
    "norm": "rmsnorm",
    "share_layers": "all",
    "heads": "branched",
    "tie_embeddings": "none",
}


@pytest.mark.parametrize(("key", "value"), OTHER.items())
def test_another_model_than_the_one_to_start_from(trained: Trained, key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"^model\.{key} = {value!r}: the run starts from .* and keeps its model"):
        check_settings({"model": {key: value}}, "auto", trained.bundle)


def test_what_may_differ_from_the_bundle_to_start_from(trained: Trained) -> None:
    check_settings({"model": dict.fromkeys(RATES, 0.2)}, "auto", trained.bundle)
    check_settings({"model": {"n_heads": 2, "norm": "layernorm"}}, "auto", trained.bundle)  # as it is


def test_learned_positions_are_those_of_the_bundle_to_start_from(trained: Trained) -> None:
    """Its own max_length is what they have to reach, not the default."""
    config = trained.bundle.config
    assert isinstance(config.model, TransformerConfig)
    model = replace(config.model, positions="learned", n_positions=128)
    start = Bundle(Path("there"), replace(config, model=model), trained.bundle.tokenizers)
    check_settings({}, "auto", start)
    with pytest.raises(ConfigError, match=r"model\.n_positions = 128: .* data\.max_length \(100\)"):
        check_settings({"data": {"max_length": 100}}, "auto", start)


def test_what_is_trained_already_needs_a_few_epochs_however_much_time_there_is(trained: Trained) -> None:
    minutes, steps = {"training": {"minutes": 10.0}}, {"training": {"steps": 3}}
    assert is_bounded(minutes, None)
    assert not is_bounded(minutes, trained.bundle)
    assert is_bounded(steps, None)
    assert is_bounded(steps, trained.bundle)
    assert not is_bounded({}, None)


@pytest.mark.parametrize("slower", [1.0, 1.05])
def test_minutes_are_kept_even_if_steps_take_a_twentieth_longer_than_in_the_trial(slower: float) -> None:
    nothing: Any = None  # a bound in minutes does not ask for the data
    found = bound(TrainingConfig(minutes=10.0), {}, nothing, 1, seconds=0.09, gone=50.0, facts={})
    assert found.steps is not None
    taken = 50 + found.steps * slower * 0.09
    assert 0.75 * 600 < taken < 0.95 * 600  # the rest is for validations and scores


def test_a_shorter_warm_up_goes_up_to_the_rate_of_the_paper() -> None:
    nothing: Any = None

    def peak(given: dict[str, Any]) -> float:
        training = TrainingConfig(**{"steps": 100, "schedule": "paper", "warmup_steps": 4000, **given})
        found = bound(training, {"training": given}, nothing, 1, seconds=0.09, gone=0.0, facts={})
        return max(map(build_schedule(found, d_model=512, steps=100), range(1, 101)))

    assert peak({}) == pytest.approx((512 * 4000) ** -0.5)
    assert peak({"learning_rate": 2.0}) == pytest.approx(2 * (512 * 4000) ** -0.5)
    assert peak({"warmup_steps": 50}) == pytest.approx((512 * 50) ** -0.5)


def test_the_more_is_held_out_the_more_time_is_kept_for_validations() -> None:
    nothing: Any = None

    def steps(held_out: int, minutes: float = 60.0) -> int:
        facts = {
            "pairs": {"kept": 29_000, "held_out": held_out},
            "tokens_per_epoch": {"source": 400_000, "target": 450_000},
        }
        training = TrainingConfig(minutes=minutes, batch_tokens=2048)
        return bound(training, {}, nothing, 1, seconds=0.15, gone=60.0, facts=facts).steps or 0

    # A thousand pairs are as much as 7.6 steps, which are counted twice in each of 25 validations: 57 seconds.
    assert steps(1_000) == int((3600 - 25 * 2 * 1_000 / 29_000 * 450_000 / 2048 * 0.15 - 20 - 60) / (1.05 * 0.15))
    assert steps(500) > steps(1_000) > steps(2_000) > steps(10_000)
    assert steps(10_000) == steps(29_000) == int((3600 - 20 - 60) * 0.92 / (1.05 * 0.15))  # at most 8 % of the time


# --- a tokenizer that does not fit ------------------------------------------------------------------------------------


def sides(source: float, target: float) -> dict[str, Any]:
    """100 pairs of ten words a side, each of so many pieces."""
    words = {"source": 1000, "target": 1000}
    tokens = {"source": int(1000 * source) + 100, "target": int(1000 * target) + 100}
    return {"pairs": {"kept": 100}, "words": 2000, "words_of_sides": words, "tokens_per_epoch": tokens}


TEXTS = {"texts": {"rows": 7}, "words": 1000, "tokens_per_epoch": {"source": 1300}}  # of a model of one text


@pytest.mark.parametrize(
    ("now", "before", "words"),
    [
        (sides(1.3, 1.4), sides(1.2, 1.3), None),
        (sides(1.2, 2.0), sides(1.2, 1.3), "words of the target have 2.0 pieces, and had 1.3"),  # one side, of two
        (sides(2.5, 1.0), sides(1.2, 1.3), "words of the source have 2.5 pieces, and had 1.2"),
        (sides(1.3, 1.3), TEXTS, None),
        (sides(1.3, 2.1), TEXTS, "words of the target have 2.1 pieces, and had 1.3"),
        (sides(9.0, 9.0), {}, None),  # nobody knows
    ],
)
def test_a_tokenizer_that_fits_one_side_badly(
    now: dict[str, Any], before: dict[str, Any], words: str | None, trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Bundle, "data", lambda _: before)
    no_text = SimpleNamespace(ids=np.array([], dtype=np.int64))
    store = SimpleNamespace(source=no_text, target=no_text)
    corpus: Any = SimpleNamespace(facts=now, tokenizers=trained.bundle.tokenizers, store=store)
    found = misfit(corpus, trained.bundle)
    assert (found is None) == (words is None)
    assert words is None or words in (found or "")


def test_an_effort_is_a_name_for_minutes() -> None:
    assert with_effort({"seed": 2}, None) == {"seed": 2}
    assert with_effort({"seed": 2}, "quick") == {"seed": 2, "training": {"minutes": 10.0}}
    assert with_effort({"training": {"steps": None}}, "thorough")["training"]["minutes"] == 150.0


@pytest.mark.parametrize("name", ["steps", "epochs", "minutes"])
def test_an_effort_beside_another_bound(name: str) -> None:
    with pytest.raises(ConfigError, match=f"stands for 60 minutes, and training.{name} = 5 says something else"):
        with_effort({"training": {name: 5}}, "normal")


def test_an_unknown_effort() -> None:
    with pytest.raises(ConfigError, match="effort = 'heroic': must be one of quick, normal, thorough"):
        with_effort({}, "heroic")  # type: ignore[arg-type]
