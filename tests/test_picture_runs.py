"""Classifiers of pictures, from files to bundle and back to labels."""

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image

from attendo import run
from attendo.bundle import Bundle, open_bundle
from attendo.cli.main import main
from attendo.config import merge
from attendo.data.pictures import find_pictures
from attendo.errors import BundleError, ConfigError, DataError
from attendo.models.presets import PresetName, vision_sizes
from attendo.models.settings import VisionConfig
from attendo.pictures import PictureClassifier
from attendo.reporting import Silent

from .data.test_pictures import write_idx
from .test_resume import stop, told

SIZE = 10
LABELS = ("bottom", "left", "right", "top")
SETTINGS: dict[str, Any] = {
    "task": "classify-images",
    "model": {"patch": 5, "d_model": 20, "d_ff": 23, "n_heads": 2, "n_layers": 2},
    "training": {
        "steps": 90,
        "batch_tokens": 250,
        "label_smoothing": 0.0,
        "learning_rate": 0.01,
        "warmup_steps": 4,
        "validate_every": 40,
        "checkpoint_every": 31,
        "log_every": 1,
        "processes": 1,
        "threads": 1,
        "ema": 0.8,
    },
    "noise": {"kind": "pictures", "shift": 0.1, "rotate": 0, "erase": 0.2},
    "seed": 3,
}


def some_pictures(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Pictures of any brightness with a little noise, brighter along one edge, and which edge that is."""
    rng = np.random.Generator(np.random.Philox(key=n))
    images = rng.integers(0, 110, (n, 1, 1), dtype=np.uint8) + rng.integers(0, 10, (n, SIZE, SIZE), dtype=np.uint8)
    labels = np.array(LABELS)[np.arange(n) % 4]
    places = {"top": np.s_[:3], "bottom": np.s_[-3:], "left": np.s_[:, :3], "right": np.s_[:, -3:]}
    for image, label in zip(images, labels, strict=True):
        image[places[label]] += 130
    return images, labels


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    images, labels = some_pictures(203)
    path = tmp_path_factory.mktemp("pictures") / "halves.npz"
    np.savez_compressed(path, images=images, labels=labels)
    return {**SETTINGS, "data": {"source": str(path)}}


@pytest.fixture(scope="module")
def trained_run(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return run.train(settings=settings, out=tmp_path_factory.mktemp("runs") / "halves")


def test_a_run_ends_with_a_bundle_that_tells_labels(trained_run: Bundle, tmp_path: Path) -> None:
    bundle = open_bundle(trained_run.path)
    assert bundle.scores()["accuracy"] > 0.9
    classifier = PictureClassifier.from_bundle(bundle)
    images, labels = some_pictures(41)
    found = classifier.classify(list(images))
    assert np.mean([one.label == label for one, label in zip(found, labels, strict=True)]) > 0.9
    for one in found:
        assert one.probability == max(one.probabilities.values()) == one.probabilities[one.label]
        assert sum(one.probabilities.values()) == pytest.approx(1.0)
    Image.fromarray(images[0]).resize((37, 29), Image.Resampling.NEAREST).convert("RGB").save(tmp_path / "one.png")
    assert classifier.classify([tmp_path / "one.png"])[0].label == labels[0]
    card = (bundle.path / "card.md").read_text()
    assert "training pictures | 193 of 203 read, 10 × 10 pixels" in card


def test_a_stopped_run_ends_with_the_same_bytes(settings: dict[str, Any], trained_run: Bundle, tmp_path: Path) -> None:
    out = tmp_path / "run"
    stop(lambda reporter: run.train(settings=settings, out=out, reporter=reporter), 7)
    stop(lambda reporter: run.resume(out, reporter=reporter), 23, signal.SIGINT)
    bundle = run.resume(out)
    for name in ("weights.safetensors", "scores.json", "config.yaml"):
        assert (bundle.path / name).read_bytes() == (trained_run.path / name).read_bytes(), name
    assert told(bundle) == told(trained_run)


def test_two_processes_resumed_end_with_the_very_bytes(settings: dict[str, Any], tmp_path: Path) -> None:
    shared = merge(settings, {"training": {"processes": 2, "threads": 1, "steps": 12}})
    whole = run.train(settings=shared, out=tmp_path / "whole")
    stop(lambda reporter: run.train(settings=shared, out=tmp_path / "run", reporter=reporter), 7)
    bundle = run.resume(tmp_path / "run")
    for name in ("weights.safetensors", "scores.json", "config.yaml"):
        assert (bundle.path / name).read_bytes() == (whole.path / name).read_bytes(), name
    assert told(bundle) == told(whole)


def test_training_goes_on_from_a_bundle_with_other_labels(
    settings: dict[str, Any], trained_run: Bundle, tmp_path: Path
) -> None:
    images, labels = some_pictures(60)
    np.savez(tmp_path / "other.npz", images=images, labels=np.where(labels == "top", "above", "elsewhere"))
    more = {
        "task": "classify-images",
        "data": {"source": str(tmp_path / "other.npz")},
        "adapt_from": str(trained_run.path),
    }
    training = {key: value for key, value in settings["training"].items() if key != "ema"} | {"steps": 2}
    bundle = run.train(settings={**more, "training": training}, out=tmp_path / "more")
    model, start = bundle.config.model, trained_run.config.model
    assert isinstance(model, VisionConfig)
    assert isinstance(start, VisionConfig)
    assert (model.n_labels, model.mean) == (2, start.mean)
    adapted = run.train(settings={**more, "training": {**training, "lora_rank": 2}}, out=tmp_path / "adapted")
    before, after = trained_run.weights(), adapted.weights()
    moved = {
        name
        for name in before
        if before[name].shape == after[name].shape and not torch.equal(before[name], after[name])
    }
    assert moved == {name for name in before if name.endswith(("query.weight", "value.weight"))}


def test_labels_keep_what_was_learned_of_them(settings: dict[str, Any], trained_run: Bundle, tmp_path: Path) -> None:
    """By their names: of as many labels one may be another, and the rest in another order."""
    images, labels = some_pictures(60)
    before = trained_run.data()["labels"]
    renamed = np.where(labels == before[0], "zz new", labels)
    np.savez(tmp_path / "other.npz", images=images, labels=renamed)
    more = {
        "task": "classify-images",
        "data": {"source": str(tmp_path / "other.npz")},
        "adapt_from": str(trained_run.path),
        "training": {**settings["training"], "steps": 1, "learning_rate": 1e-12, "weight_decay": 0.0},
    }
    bundle = run.train(settings=more, out=tmp_path / "more")
    after, theirs, ours = bundle.data()["labels"], trained_run.weights(), bundle.weights()
    assert len(after) == len(before) and after != before
    for now, label in enumerate(after):
        same = label in before and torch.allclose(
            ours["labels.weight"][now], theirs["labels.weight"][before.index(label)], atol=1e-6
        )
        assert same == (label != "zz new")


def test_layers_can_stay_as_they_are(settings: dict[str, Any], trained_run: Bundle, tmp_path: Path) -> None:
    training = {**settings["training"], "steps": 2, "frozen_layers": 1}
    more = {**settings, "model": {}, "training": training, "adapt_from": str(trained_run.path)}
    before, after = trained_run.weights(), run.train(settings=more, out=tmp_path / "more").weights()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved
    assert not any(name.startswith(("encoder.patches.", "encoder.blocks.0.")) for name in moved)
    assert any(name.startswith("encoder.blocks.1.") for name in moved)


def test_the_preset_suits_digits(tmp_path: Path) -> None:
    images, labels = some_pictures(43)
    pictures = np.pad(images, ((0, 0), (9, 9), (9, 9)))
    np.savez(tmp_path / "digits.npz", images=pictures, labels=labels)
    training = {"steps": 1, "processes": 1, "threads": 1}
    given = {"task": "classify-images", "data": {"source": str(tmp_path / "digits.npz")}, "training": training}
    bundle = run.train(settings=given, out=tmp_path / "run")
    assert bundle.data()["parameters"]["total"] <= 800_000
    assert bundle.config.noise is not None
    assert isinstance(bundle.config.model, VisionConfig)
    assert bundle.config.model.grid == (4, 4)
    assert bundle.config.training.batch_tokens == 128 * 16


def test_patches_are_as_large_as_divides_both_sides() -> None:
    sizes: dict[tuple[PresetName, int, int], int] = {
        ("tiny", 28, 28): 7,
        ("tiny", 32, 32): 8,
        ("small", 24, 20): 4,
        ("tiny", 29, 29): 1,
        ("base", 224, 224): 16,
        ("base", 28, 28): 14,
    }
    assert {one: vision_sizes(*one)["patch"] for one in sizes} == sizes


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"model": {"n_labels": 3}}, "model.n_labels: follows from the pictures"),
        ({"model": {"patch": 3}}, "model.patch = 3: must divide height"),
        ({"model": {"kind": "gpt"}}, "unknown setting model|model.kind = 'gpt'"),
        ({"model": {"poolling": "mean"}}, "unknown setting model.poolling. Did you mean model.pooling"),
        ({"data": {"more": ["other"]}}, "other: pictures come from one folder"),
        ({"training": {"bpe_dropout": 0.1}}, "training.bpe_dropout = 0.1: belongs to pairs of texts"),
        ({"data": {"reverse": True}}, "data.reverse = True: belongs to pairs of texts"),
        ({"tokenizer": {"vocab_size": 300}}, "tokenizer.vocab_size = 300: pictures are not cut into pieces"),
        ({"model": {"word_dropout": 0.1}}, "model.word_dropout = 0.1: has no effect, since it belongs to texts"),
        ({"model": {"max_distance": 3}}, "model.max_distance = 3: has no effect"),
        ({"training": {"frozen_layers": 1}}, "training.frozen_layers = 1: .* start from a model"),
        ({"noise": {"shfit": 1}}, "unknown setting noise.shfit. Did you mean noise.shift"),
    ],
)
def test_mistakes_in_the_settings_are_named(
    wrong: dict[str, Any], message: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        run.train(settings=merge(settings, wrong), out=tmp_path / "run")


def test_from_the_command_line(trained_run: Bundle, tmp_path: Path) -> None:
    images, labels = some_pictures(3)
    for number, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    files = [str(tmp_path / f"{number}.png") for number in range(3)]
    told_plainly = CliRunner().invoke(main, ["classify", str(trained_run.path), *files])
    assert told_plainly.exit_code == 0, told_plainly.output
    assert [line.split("\t")[0] for line in told_plainly.stdout.splitlines()] == labels.tolist()
    as_json = CliRunner().invoke(main, ["classify", str(trained_run.path), *files, "--json"])
    assert [json.loads(line)["label"] for line in as_json.stdout.splitlines()] == labels.tolist()
    np.savez(tmp_path / "test.npz", images=some_pictures(41)[0], labels=some_pictures(41)[1])
    evaluated = CliRunner().invoke(main, ["evaluate", str(trained_run.path), str(tmp_path / "test.npz"), "--quiet"])
    assert evaluated.stdout.splitlines()[0].startswith("accuracy = 9") or "100.00%" in evaluated.stdout
    translated = CliRunner().invoke(main, ["translate", str(trained_run.path), "--text", "x"])
    assert isinstance(translated.exception, SystemExit | BundleError)


def test_what_was_looked_at(trained_run: Bundle, tmp_path: Path) -> None:
    images, labels = some_pictures(3)
    Image.fromarray(images[0]).save(tmp_path / "one.png")
    arguments = ["inspect", str(trained_run.path), str(tmp_path / "one.png"), "--device", "cpu"]
    shown = CliRunner().invoke(main, [*arguments, "--out", str(tmp_path / "out")])
    assert shown.exit_code == 0, shown.output
    assert "attention rollout" in shown.stdout and "│" in shown.stdout
    found = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).stdout)
    classifier = PictureClassifier.from_bundle(trained_run)
    (expected,) = classifier.classify([images[0]])
    assert next(iter(found["probabilities"])) == expected.label == labels[0]
    assert found["probabilities"] == pytest.approx(expected.probabilities, rel=1e-5)
    weights = np.array(found["attention"]["encoder"]["weights"])
    joint = np.eye(weights.shape[-1])
    for layer in weights:
        joint = (layer.mean(axis=0) + np.eye(len(joint))) / 2 @ joint
    token = classifier.model.config.pooling == "first"
    row = joint[0, 1:] if token else joint.mean(axis=0)
    assert np.array(found["picture"]["rollout"]) == pytest.approx(row.reshape(2, 2), abs=1e-3)
    heads = weights[:, :, 0, 1:] if token else weights.mean(axis=2)
    assert np.array(found["picture"]["heads"]) == pytest.approx(heads.reshape(2, 2, 2, 2), abs=2e-4)
    assert found["positions"][-4:] == ["1,1", "1,2", "2,1", "2,2"]
    with Image.open(tmp_path / "out/rollout.png") as picture:  # 10 × 10 pixels, each of them enlarged
        assert picture.width > 2 * 440 and picture.height > 440
    assert {path.name for path in (tmp_path / "out").glob("*")} == {
        *("rollout.png", "over.png", "encoder.png", "heads", "inside.html"),
    }
    page = (tmp_path / "out/inside.html").read_text(encoding="utf-8")
    assert '"file":"data:image/png;base64,' in page
    head = CliRunner().invoke(main, [*arguments, "--map", "encoder.2.1"])
    assert "What is looked at for the label: head encoder.2.1" in head.stdout
    for wrong in ([str(trained_run.path)], [str(trained_run.path), "--text", "x"]):
        refused = CliRunner().invoke(main, ["inspect", *wrong]).exception
        assert isinstance(refused, ConfigError) and "is a classifier of pictures: give a file" in str(refused)


def test_a_folder_of_folders_is_trained_on(tmp_path: Path) -> None:
    images, labels = some_pictures(41)
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        (tmp_path / "data" / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(tmp_path / "data" / label / f"{number}.png")
    assert find_pictures(tmp_path / "data").labels == LABELS
    given = merge(SETTINGS, {"data": {"source": str(tmp_path / "data")}, "training": {"steps": 2}})
    shown: list[str] = []

    class Shown(Silent):
        def progress(self, step: int, steps: int, text: str) -> None:  # noqa: ARG002
            shown.append(text)

    bundle = run.train(settings=given, out=tmp_path / "run", reporter=Shown())
    assert bundle.data()["labels"] == list(LABELS)
    assert all(" pictures/s " in text for text in shown)
    assert shown


@pytest.mark.parametrize("pooling", ["first", "mean"])
@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_idx_files_are_learned_from_the_command_line(tmp_path: Path, pooling: str, positions: str) -> None:
    images, labels = some_pictures(203)
    numbers = np.array([LABELS.index(label) for label in labels])
    data = write_idx(tmp_path, "train", images, numbers, packed=True)
    settings: dict[str, Any] = {
        "model.patch": 5,
        "model.d_model": 20,
        "model.d_ff": 23,
        "model.n_layers": 2,
        "model.n_heads": 2,
    }
    settings |= {"model.pooling": pooling, "model.positions": positions, "noise.zoom": 0.1, "noise.rotate": 0}
    settings |= {"training.batch_tokens": 250, "training.learning_rate": 0.01, "training.validate_every": 60}
    given = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    arguments = ["train", "--task", "classify-images", str(data), "--out", str(tmp_path / "run"), "--steps", "120"]
    trained = CliRunner().invoke(main, [*arguments, *given, "--processes", "1", "--quiet"])
    assert trained.exit_code == 0, trained.output
    model = open_bundle(tmp_path / "run").config.model
    assert isinstance(model, VisionConfig) and (model.pooling, model.positions) == (pooling, positions)
    others, names = some_pictures(39)
    test = write_idx(tmp_path, "test", others, np.array([LABELS.index(name) for name in names]), packed=False)
    evaluated = CliRunner().invoke(main, ["evaluate", str(tmp_path / "run"), str(test), "--json", "--quiet"])
    assert json.loads(evaluated.stdout)["accuracy"] > 0.9
    refused = CliRunner().invoke(main, ["evaluate", str(tmp_path / "run"), str(tmp_path)]).exception
    assert isinstance(refused, DataError) and "holds several parts. Name the file" in str(refused)
