from typing import Any, get_args

import pytest

from attendo.config import from_dict, merge, read_yaml, to_dict, to_yaml
from attendo.errors import ConfigError
from attendo.models.presets import PresetName
from attendo.models.settings import TransformerConfig
from attendo.recipe import FEW_PASSES, RECIPES, DataConfig, RecipeName, RunConfig, choose, intervals

SIZE = ("n_encoder_layers", "n_decoder_layers", "d_model", "d_ff", "n_heads", "norm_place")
VOCABULARY = {"model": {"source_vocab_size": 400, "target_vocab_size": 400}, "data": {"source": "a.tsv"}}


def config_of(recipe: RecipeName, **kwargs: Any) -> RunConfig:
    return from_dict(RunConfig, merge(choose(recipe, **kwargs), VOCABULARY))


def test_every_preset_is_a_recipe() -> None:
    assert ("auto", *get_args(PresetName)) == RECIPES


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("pairs", [1, 29_000, 1_000_000, 40_000_000])
def test_every_choice_is_a_valid_config_with_an_end(recipe: RecipeName, pairs: int) -> None:
    training = config_of(recipe, pairs=pairs).training
    assert training.epochs is not None
    assert 3 <= training.epochs <= 100


@pytest.mark.parametrize(
    ("pairs", "name"),
    [(1_000, "tiny"), (149_999, "tiny"), (150_000, "small"), (1_999_999, "small"), (2_000_000, "base")],
)
def test_auto_takes_the_size_that_fits_the_corpus(pairs: int, name: PresetName) -> None:
    chosen, named = choose("auto", pairs=pairs), choose(name, pairs=pairs)
    if name == "tiny":  # which is also given what pays for a small corpus
        chosen, named = ({key: value for key, value in one["model"].items() if key in SIZE} for one in (chosen, named))
    assert chosen == named


def test_auto_takes_a_smaller_size_where_the_time_is_short() -> None:
    def size(pairs: int, passes: float | None) -> int:
        return int(choose("auto", pairs=pairs, passes=passes)["model"]["d_model"])

    assert [size(200_000, passes) for passes in (2, 13, 14, None)] == [128, 128, 256, 256]
    assert [size(3_000_000, passes) for passes in (2, 14, 79, 80, None)] == [128, 256, 256, 512, 512]
    assert [size(1_000, passes) for passes in (2, 1000, None)] == [128, 128, 128]
    assert [size(29_000, passes) for passes in (2, 119, 120, None)] == [128, 128, 192, 128]  # wider, with time for it


def test_the_more_passes_the_more_dropout() -> None:
    found = {}
    for passes in (1, 17.9, 18, 29.9, 30, 44.9, 45, 119, 120, 1000):
        config = config_of("auto", pairs=29_000, passes=passes)
        assert isinstance(config.model, TransformerConfig)
        found[passes] = config.model.residual_dropout
    assert list(found.values()) == [0.1, 0.1, 0.15, 0.15, 0.2, 0.2, 0.25, 0.25, 0.3, 0.3]
    assert config_of("auto", pairs=29_000) == config_of("auto", pairs=29_000, passes=1_800_000 / 29_000)
    assert config_of("tiny", pairs=29_000, passes=1) == config_of("tiny", pairs=29_000)
    assert config_of("small", pairs=29_000, passes=1) == config_of("small", pairs=29_000)


def test_few_passes_take_what_learns_fastest() -> None:
    few = config_of("auto", pairs=29_000, passes=FEW_PASSES - 1).training
    many = config_of("auto", pairs=29_000, passes=FEW_PASSES).training
    assert few.learning_rate > many.learning_rate
    assert few.warmup_steps < many.warmup_steps
    assert few.batch_tokens < many.batch_tokens
    assert (few.embeddings, many.embeddings) == ("related", "random")
    assert (few.optimizer, many.optimizer) == ("adam", "muon")


@pytest.mark.parametrize(
    ("passes", "positions"),
    [
        (17, "sinusoidal"),
        (18, "sinusoidal-concatenated"),
        (44, "sinusoidal-concatenated"),
        (45, "sinusoidal"),
        (120, "sinusoidal"),
    ],
)
def test_a_small_model_has_silu_and_for_several_passes_positions_beside_the_embeddings(
    passes: float, positions: str
) -> None:
    model = config_of("auto", pairs=29_000, passes=passes).model
    assert isinstance(model, TransformerConfig)
    assert (model.activation, model.positions) == ("silu", positions)


def test_what_is_read_often_is_kept_from_being_learned_by_heart() -> None:
    cases = (29_000, FEW_PASSES - 1), (29_000, FEW_PASSES), (29_000, 45), (29_000, 119), (29_000, 120), (19_999, 120)
    found = [config_of("auto", pairs=pairs, passes=passes).training for pairs, passes in cases]
    assert [training.weight_decay for training in found] == [0.0, 0.4, 0.4, 0.4, 0.2, 0.4]
    assert [training.label_smoothing for training in found] == [0.1, *5 * [0.2]]
    assert [training.optimizer for training in found] == ["adam", *5 * ["muon"]]
    assert [training.r_drop for training in found] == [*5 * [0.0], 3.0]
    assert [training.diversify for training in found] == [0, 0, 0, 0, 1, 0]


def test_small_corpora_are_read_more_often() -> None:
    epochs = [choose("auto", pairs=pairs)["training"]["epochs"] for pairs in (1_000, 29_000, 150_000, 5_000_000)]
    assert epochs == sorted(epochs, reverse=True)
    assert (epochs[0], epochs[-1]) == (100.0, 3.0)


def test_base_is_trained_as_in_the_paper() -> None:
    training = config_of("base", pairs=4_500_000).training
    assert (training.schedule, training.warmup_steps, training.learning_rate) == ("paper", 4000, 1.0)
    assert (training.optimizer, training.beta1, training.beta2, training.epsilon) == ("adam", 0.9, 0.98, 1e-9)
    assert (training.batch_tokens * training.accumulate, training.average) == (24_576, 5)
    assert config_of("big", pairs=4_500_000).training.average == 20


def test_adapting_changes_the_training_and_not_the_model() -> None:
    tiny, base = config_of("tiny", pairs=1_000), config_of("base", pairs=1_000)
    adapted = choose("auto", pairs=1_000, adapt=tiny.model)
    assert set(adapted) == {"training"}
    assert adapted["training"]["learning_rate"] == pytest.approx(0.0016, rel=0.05)
    assert choose("auto", pairs=1_000, adapt=base.model)["training"]["learning_rate"] == pytest.approx(1e-4, rel=0.05)
    epochs = {n: choose("auto", pairs=n, adapt=tiny.model)["training"]["epochs"] for n in (100, 1_000, 29_000, 10**6)}
    assert epochs == {100: 100.0, 1_000: 60.0, 29_000: 10.0, 10**6: 3.0}


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(ConfigError, match="'huge' does not exist: must be one of auto, tiny, small, base, big"):
        choose("huge", pairs=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("steps", [1, 7, 49, 50, 251, 1_000, 30_000])
def test_intervals_fit_into_the_run(steps: int) -> None:
    found = intervals(steps)
    assert set(found) == {"validate_every", "checkpoint_every", "log_every"}
    assert all(1 <= every <= steps for every in found.values())


def test_intervals_of_a_long_run() -> None:
    assert intervals(100_000) == {"validate_every": 5_000, "checkpoint_every": 2_500, "log_every": 50}


def test_a_config_goes_through_yaml_unchanged(tmp_path: Any) -> None:
    config = config_of("big", pairs=4_500_000)
    (tmp_path / "config.yaml").write_text(to_yaml(config), encoding="utf-8")
    assert from_dict(RunConfig, read_yaml(tmp_path / "config.yaml")) == config


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_out_of_range_is_refused(seed: int) -> None:
    with pytest.raises(ConfigError, match=r"seed = -?\d+: must be from 0 to 2\^63 - 1"):
        from_dict(RunConfig, merge(choose("tiny", pairs=1), VOCABULARY, {"seed": seed}))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"columns": [0, 1]}, r"columns = \(0, 1\): columns count from 1"),
        ({"valid_target": "v.de"}, "valid_target = 'v.de': needs valid_source"),
        ({"target": "a.de", "valid_source": "v.en"}, "valid_source = 'v.en': needs valid_target"),
        ({"max_length": 0}, "max_length = 0: must be at least 1"),
    ],
)
def test_impossible_data_settings(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_dict(DataConfig, {"source": "a.en", **values})


def test_files_of_both_sets() -> None:
    data = DataConfig(source="a.tsv", valid_source="v.tsv", columns=(2, 1), reverse=True)
    assert (data.files().source, data.files().columns, data.files().reverse) == ("a.tsv", (2, 1), True)
    valid = data.valid_files()
    assert valid is not None
    assert (valid.source, valid.target, valid.columns, valid.reverse) == ("v.tsv", None, (2, 1), True)
    assert DataConfig(source="a.tsv").valid_files() is None
    assert to_dict(data)["columns"] == [2, 1]
