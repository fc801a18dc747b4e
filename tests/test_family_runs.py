"""Recurrent and convolutional translators, and low-rank adapters, from files to bundle by the same run."""

import json
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

import attendo
from attendo import run
from attendo.bundle import Bundle, average_weights, open_bundle
from attendo.cli.main import main
from attendo.config import merge
from attendo.decoding.search import SearchOptions
from attendo.errors import BundleError, ConfigError
from attendo.models.family import build_model
from attendo.models.settings import RecurrentConfig
from attendo.nn.adapters import merged
from attendo.storage import read_tensors

from .tasks import made_up, reverse, unmeasured, write_task
from .test_resume import assert_same, stop

STEPS = 12
TRAINING: dict[str, Any] = {
    "steps": STEPS,
    "batch_tokens": 200,
    "learning_rate": 0.01,
    "schedule": "constant",
    "warmup_steps": 2,
    "stop_metric": "loss",
    "validate_every": 6,
    "checkpoint_every": 5,
    "log_every": 1,
    "keep_checkpoints": 3,
    "average": 2,
    "processes": 1,
    "threads": 1,
}
MODELS: dict[str, dict[str, Any]] = {
    "rnn": {"kind": "rnn", "d_model": 14, "n_encoder_layers": 2, "n_decoder_layers": 2},
    "conv": {"kind": "conv", "d_model": 13, "n_encoder_layers": 2, "n_decoder_layers": 2, "width": 3},
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return write_task(tmp_path_factory.mktemp("corpus"), made_up(120), reverse)


def settings_of(corpus: Any, kind: str) -> dict[str, Any]:
    return {"data": corpus, "model": MODELS[kind], "training": TRAINING, "seed": 3}


@pytest.fixture(scope="module", params=list(MODELS))
def trained_run(request: Any, corpus: Any, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    out = tmp_path_factory.mktemp("runs") / request.param
    return run.train(settings=settings_of(corpus, request.param), out=out)


def test_a_run_ends_with_a_bundle_that_translates(trained_run: Bundle) -> None:
    bundle = open_bundle(trained_run.path)
    kind = bundle.config.model.kind
    assert bundle.config.model == trained_run.config.model
    losses = [entry["loss"] for entry in bundle.read_log() if entry["event"] == "validation"]
    assert losses[-1] < losses[0]
    assert bundle.scores()["validation"]["bleu"]["signature"]
    assert bundle.config.model.in_words() in (bundle.path / "card.md").read_text()
    translator = attendo.load(bundle.path)
    for options in (SearchOptions(beam=1), SearchOptions(beam=4, n_best=3), SearchOptions(sample=True, n_best=3)):
        found = translator.translate_many(["bako", "delu fimi goja"], max_length=9, options=options)
        assert [len(one.candidates) for one in found] == [options.n_best] * 2
    texts = ["bako delu", "fimi goja hune bako", "kipo"]
    together = [one.text for one in translator.translate_many(texts, max_length=9)]
    assert together == [translator.translate(text, max_length=9).text for text in texts]
    with pytest.raises(ConfigError, match=f"kind is '{kind}'"):
        attendo.load(bundle.path, engine="ctranslate2")


def test_a_stopped_run_ends_with_the_same_bytes(trained_run: Bundle, corpus: Any, tmp_path: Path) -> None:
    settings = settings_of(corpus, trained_run.config.model.kind)
    out = tmp_path / "run"
    stop(lambda reporter: run.train(settings=settings, out=out, reporter=reporter), 3)
    stop(lambda reporter: run.resume(out, reporter=reporter), 8, signal.SIGINT)
    assert_same(run.resume(out), trained_run)


def test_training_goes_on_from_a_bundle(trained_run: Bundle, corpus: Any, tmp_path: Path) -> None:
    settings = {"data": corpus, "adapt_from": str(trained_run.path), "training": {**TRAINING, "steps": 2}}
    bundle = run.train(settings=settings, out=tmp_path / "more")
    assert bundle.config.model == trained_run.config.model
    other = "conv" if trained_run.config.model.kind == "rnn" else "rnn"
    with pytest.raises(ConfigError, match=f"model.kind = '{other}': the run starts from"):
        run.train(settings=merge(settings, {"model": {"kind": other}}), out=tmp_path / "other")


@pytest.mark.parametrize("kind", list(MODELS))
def test_the_preset_chooses_for_each_kind(kind: str, corpus: Any, tmp_path: Path) -> None:
    training = {"steps": 1, "processes": 1, "threads": 1}
    bundle = run.train(settings={"data": corpus, "model": {"kind": kind}, "training": training}, out=tmp_path / "run")
    assert bundle.config.model.d_model == 256


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"kind": "rnm"}, "model.kind = 'rnm': a translator is one of transformer, rnn, conv"),
        ({"kind": "gpt"}, "model.kind = 'gpt': a translator is one of transformer, rnn, conv"),
        ({"kind": "rnn", "n_head": 2}, "unknown setting model.n_head. Did you mean model.n_heads"),
        ({"kind": "rnn", "cell": "lstmm"}, "model.cell = 'lstmm': must be one of lstm, gru .did you mean lstm"),
        ({"kind": "conv", "d_ff": 7}, "unknown setting model.d_ff"),
    ],
)
def test_mistakes_in_the_settings_are_named(model: dict[str, Any], message: str, corpus: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        run.train(settings={"data": corpus, "model": model}, out=tmp_path / "run")


def test_the_command_line_asks_for_a_model_and_for_adapters(corpus: Any, tmp_path: Path) -> None:
    files, small = (
        [corpus["source"], corpus["target"]],
        ["--steps", "1", "--processes", "1", "--threads", "1", "--quiet"],
    )
    first, second = tmp_path / "first", tmp_path / "second"
    sizes = ["--set", "model.d_model=14", "--set", "model.cell=gru"]
    arguments = ["train", *files, "--model", "rnn", *sizes, *small, "--out", str(first)]
    invoke(arguments)
    model = open_bundle(first).config.model
    assert isinstance(model, RecurrentConfig)
    assert (model.d_model, model.cell) == (14, "gru")
    info = CliRunner().invoke(main, ["info", str(first), "--json"], catch_exceptions=False)
    assert json.loads(info.stdout)["parameters"] == open_bundle(first).data()["parameters"]
    arguments = ["train", *files, "--from", str(first), "--lora", "2", *small, "--out", str(second)]
    invoke(arguments)
    assert open_bundle(second).config.training.lora_rank == 2
    # A convolutional model has no layer that is called value.
    convolutional, adapted = tmp_path / "conv", tmp_path / "adapted"
    sizes = ["--model", "conv", "--set", "model.d_model=14"]
    for more, out in ((sizes, convolutional), (["--from", str(convolutional), "--lora", "2"], adapted)):
        arguments = ["train", *files, *more, *small, "--out", str(out)]
        invoke(arguments)
    before, after = open_bundle(convolutional).weights(), open_bundle(adapted).weights()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved and all(name.endswith("query.weight") for name in moved)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--task", "language-model", "--style", "bart"], "--style bart: belongs to the task denoise"),
        (["--style", "t5"], "--style t5: belongs to the task denoise, and this is translate"),
        (["--task", "classify", "--model", "rnn"], "--model rnn: belongs to the task translate, and this is classify"),
        (["--set", "noise.rate=0.1"], "nothing is hidden in this task"),
        (["--task", "classify", "--set", "noise.rate=0.1"], "nothing is hidden in this task"),
    ],
)
def test_what_belongs_to_another_task_is_refused(words: list[str], message: str, corpus: Any, tmp_path: Path) -> None:
    files = [corpus["source"], corpus["target"]][: 1 if "--task" in words else 2]
    found = CliRunner().invoke(main, ["train", *files, *words, "--out", str(tmp_path / "run")])
    assert isinstance(found.exception, ConfigError)
    assert message in str(found.exception)
    assert not (tmp_path / "run").exists()


# --- adapters -----------------------------------------------------------------------------------------------------


ADAPTED = ("query", "value", "inner")
MATRICES = tuple(f"{name}.weight" for name in ADAPTED)


@pytest.fixture(scope="module")
def base(corpus: Any, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    model = {"n_encoder_layers": 1, "n_decoder_layers": 2, "d_model": 20, "d_ff": 23, "n_heads": 5, "norm_place": "pre"}
    settings = {"data": corpus, "model": model, "training": {**TRAINING, "steps": 6}, "seed": 3}
    return run.train(settings=settings, out=tmp_path_factory.mktemp("base") / "run")


def adapting(corpus: Any, base: Bundle) -> dict[str, Any]:
    training = {**TRAINING, "lora_rank": 3, "lora_alpha": 7.0, "lora_matrices": list(ADAPTED)}
    return {"data": corpus, "adapt_from": str(base.path), "training": training, "seed": 5}


@pytest.fixture(scope="module")
def adapted(corpus: Any, base: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return run.train(settings=adapting(corpus, base), out=tmp_path_factory.mktemp("adapted") / "run")


def test_adapters_end_in_plain_weights(base: Bundle, adapted: Bundle) -> None:
    """The bundle is a plain one; nothing has moved but what is adapted, by a matrix of low rank."""
    before, after = base.weights(), open_bundle(adapted.path).weights()
    assert (
        before.keys()
        == after.keys()
        == build_model(base.config.model).state_dict().keys() - {"output.weight"} - {"decoder.embedding.weight"}
    )
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {name for name in before if name.endswith(MATRICES)}
    for name in moved:
        assert torch.linalg.matrix_rank(after[name] - before[name], rtol=1e-4) <= 3
    assert adapted.data()["parameters"] == base.data()["parameters"]
    first, best = (
        min(entry["loss"] for entry in one.read_log() if entry["event"] == "validation") for one in (base, adapted)
    )
    assert best < first
    attendo.load(adapted.path).translate("bako delu")


def test_adapters_stay_apart_until_somebody_reads_them(
    corpus: Any, base: Bundle, adapted: Bundle, tmp_path: Path
) -> None:
    """The same run, merged and not, has the same weights, average, translations and exports; so has going on."""
    settings = merge(adapting(corpus, base), {"training": {"lora_merge": False}})
    apart = run.train(settings=settings, out=tmp_path / "apart")
    assert apart.scores()["weights"] == adapted.scores()["weights"]

    inside, _ = read_tensors(apart.path / "weights.safetensors")
    for name, tensor in base.weights().items():
        assert torch.equal(inside[name], tensor)
        assert name.endswith(MATRICES) == (f"{name}.down" in inside) == (f"{name}.up" in inside)
    invoke(["export", str(apart.path), "--to", "attendo", "--out", str(tmp_path / "copy")])
    copied, _ = read_tensors(tmp_path / "copy" / "weights.safetensors")
    assert_near(copied, adapted.weights())
    assert_near(apart.weights(), adapted.weights())
    for engine in ("native", "ctranslate2", "torch"):
        one, other = (attendo.load(bundle.path, engine=engine).translate("bako delu") for bundle in (adapted, apart))
        assert one == other
    for bundle, name in ((adapted, "merged"), (apart, "apart")):
        invoke(["average", str(bundle.path), "--last", "2", "--out", str(tmp_path / f"{name}-average")])
        invoke(["export", str(bundle.path), "--to", "ctranslate2", "--out", str(tmp_path / f"{name}-ctranslate2")])
    mean = average_weights(apart, apart.checkpoints())
    assert {len(tensor) for name, tensor in mean.items() if name.endswith(".down")} == {len(apart.checkpoints()) * 3}
    assert_near(merged(mean), average_weights(adapted, adapted.checkpoints()))
    averages = [read_tensors(tmp_path / f"{name}-average" / "weights.safetensors")[0] for name in ("apart", "merged")]
    assert_near(*averages)
    sizes = {(tmp_path / f"{name}-ctranslate2" / "model.bin").stat().st_size for name in ("merged", "apart")}
    assert len(sizes) == 1

    further = {"data": corpus, "adapt_from": str(apart.path), "training": {**TRAINING, "steps": 1, "average": 0}}
    still = run.train(settings=merge(further, {"training": {"learning_rate": 1e-12}}), out=tmp_path / "still")
    assert_near(still.weights(), adapted.weights())

    stop(lambda reporter: run.train(settings=settings, out=tmp_path / "again", reporter=reporter), 4)
    assert_same(run.resume(tmp_path / "again"), apart)


def assert_near(found: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-5, atol=1e-6)


def invoke(arguments: list[str]) -> None:
    assert CliRunner().invoke(main, arguments, catch_exceptions=False).exit_code == 0


def test_frozen_layers_have_no_adapters(corpus: Any, base: Bundle, tmp_path: Path) -> None:
    frozen = {"training": {"frozen_layers": 1, "lora_merge": False, "steps": 2, "average": 0}}
    found = run.train(settings=merge(adapting(corpus, base), frozen), out=tmp_path / "run")
    inside, _ = read_tensors(found.path / "weights.safetensors")
    names = [name for name in inside if name.endswith(".up")]
    assert names and not any(name.startswith("encoder.") for name in names)


def test_the_optimizer_remembers_adapters_only(base: Bundle, adapted: Bundle) -> None:
    state, _ = read_tensors(adapted.checkpoint(STEPS) / "state.safetensors")
    moments = {name for name in state if name.startswith("optimizer:") and name.endswith(":exp_avg")}
    assert moments
    assert all(name.removesuffix(":exp_avg").endswith((".0.down", ".0.up")) for name in moments)
    n_adapted = sum(name.endswith(MATRICES) for name in base.weights())
    assert len(moments) == 2 * n_adapted
    adapted_weights = [tensor for name, tensor in base.weights().items() if name.endswith(MATRICES)]
    assert sum(state[name].numel() for name in moments) == sum(3 * sum(one.shape) for one in adapted_weights)


def test_a_stopped_run_with_adapters_ends_with_the_same_bytes(
    corpus: Any, base: Bundle, adapted: Bundle, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    stop(lambda reporter: run.train(settings=adapting(corpus, base), out=out, reporter=reporter), 4)
    stop(lambda reporter: run.resume(out, reporter=reporter), 9, signal.SIGINT)
    assert_same(run.resume(out), adapted)


def test_a_run_with_adapters_that_saved_nothing_begins_again(
    corpus: Any, base: Bundle, adapted: Bundle, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    stop(lambda reporter: run.train(settings=adapting(corpus, base), out=out, reporter=reporter), 4)
    shutil.rmtree(out / "checkpoints")
    (out / "weights.safetensors").unlink()
    assert_same(run.resume(out), adapted)


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"lora_matrices": ["query", "vaule"]}, "has no linear layer vaule. It has: inner, key, outer, output, query"),
        ({"lora_matrices": []}, "adapters need matrices"),
        ({"lora_rank": 0, "lora_merge": False}, "no adapters to keep apart"),
        ({"ema": 0.9}, "cannot be used together"),
    ],
)
def test_adapters_that_cannot_be_are_refused(
    training: dict[str, Any], message: str, corpus: Any, base: Bundle, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        run.train(settings=merge(adapting(corpus, base), {"training": training}), out=tmp_path / "run")


def test_adapters_need_a_model_to_adapt(corpus: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"training\.lora_rank = 2: adapts a model that is trained already"):
        run.train(settings={"data": corpus, "training": {"lora_rank": 2}}, out=tmp_path / "run")


def test_two_processes_train_adapters_as_one_does(corpus: Any, base: Bundle, tmp_path: Path) -> None:
    """Without dropout, whose draws differ: the same weights but for rounding."""
    quiet = merge(adapting(corpus, base), {"model": {"residual_dropout": 0.0}, "training": {"steps": 3, "average": 0}})
    with unmeasured():
        alone = run.train(settings=quiet, out=tmp_path / "one")
        both = run.train(settings=merge(quiet, {"training": {"processes": 2}}), out=tmp_path / "two")
    for name, tensor in alone.weights().items():
        torch.testing.assert_close(both.weights()[name], tensor, rtol=1e-3, atol=1e-4)


def test_a_damaged_kind_in_a_bundle_is_named(trained_run: Bundle, tmp_path: Path) -> None:
    copied = tmp_path / "copy"
    shutil.copytree(trained_run.path, copied)
    config = copied / "config.yaml"
    config.write_text(config.read_text().replace(f"kind: {trained_run.config.model.kind}", "kind: nobody"))
    with pytest.raises(BundleError, match=r"config.yaml was changed"):
        open_bundle(copied)
