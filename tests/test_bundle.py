"""A bundle is whole, or it is refused with a message that says what is wrong with it."""

import ast
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import attendo
from attendo.bundle import (
    Bundle,
    average_last,
    average_weights,
    create_bundle,
    load_weights,
    open_bundle,
    weights_of,
)
from attendo.errors import BundleError, StorageError
from attendo.storage import read_tensors, sha256, write_tensors
from attendo.translator import load


@pytest.fixture
def small(trained, tmp_path):
    """A small bundle of one's own, to be damaged."""
    return trained.bundle.copy(tmp_path / "small", trained.bundle.weights())


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def rewrite(bundle: Bundle, name: str, text: str) -> None:
    """A file with other content, and a checksum that agrees."""
    (bundle.path / name).write_text(text, encoding="utf-8")
    manifest = json.loads((bundle.path / "bundle.json").read_text())
    manifest["checksums"][name] = sha256(text.encode())
    (bundle.path / "bundle.json").write_text(json.dumps(manifest))


# --- whole ------------------------------------------------------------------------------------------------------


def test_a_bundle_comes_back_as_it_was(trained):
    opened = open_bundle(trained.path)
    assert opened.config == trained.bundle.config
    assert opened.tokenizers == trained.bundle.tokenizers
    assert opened.languages == ("en", "de")
    assert opened.checkpoints() == [140, 280, 420]
    assert opened.scores()["validation"]["bleu"]["score"] > 50


def test_the_model_has_the_weights_of_the_file(trained):
    weights = trained.bundle.weights()
    model = trained.bundle.model()
    assert not model.training
    assert weights.keys() == weights_of(model).keys()
    assert all(torch.equal(weights[name], tensor) for name, tensor in weights_of(model).items())


def test_an_exported_bundle_is_smaller_and_translates_the_same(trained, small, tiny):
    assert names(small.path) == [
        "alignment.json",
        "bundle.json",
        "card.md",
        "config.yaml",
        "data.json",
        "scores.json",
        "tokenizer.json",
        "weights.safetensors",
    ]
    size = {
        folder: sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        for folder in (trained.path, small.path)
    }
    assert size[small.path] < size[trained.path] / 4
    text = "two red seven."
    assert load(small.path).translate(text).candidates == tiny.translate(text).candidates


def test_a_run_without_final_weights_uses_its_last_checkpoint(trained, tmp_path):
    shutil.copytree(trained.path, tmp_path / "run")
    (tmp_path / "run" / "weights.safetensors").unlink()
    bundle = open_bundle(tmp_path / "run")
    last = bundle.checkpoint_weights(420)
    assert all(torch.equal(tensor, last[name]) for name, tensor in bundle.weights().items())


def test_strange_files_among_the_checkpoints_are_none(trained, tmp_path):
    shutil.copytree(trained.path, tmp_path / "run")
    (tmp_path / "run" / "checkpoints" / "step-00000140.bak").mkdir()
    (tmp_path / "run" / "checkpoints" / ".step-00000999.partial").mkdir()
    assert open_bundle(tmp_path / "run").checkpoints() == [140, 280, 420]


# --- damaged ----------------------------------------------------------------------------------------------------


def test_no_folder(tmp_path):
    with pytest.raises(BundleError, match=r"there is no folder .*nowhere. Train one with: attendo train") as caught:
        open_bundle(tmp_path / "nowhere")
    assert caught.value.exit_code == 4


def test_not_a_bundle(tmp_path):
    (tmp_path / "file").write_text("text")
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(BundleError, match=r"is not a bundle: it has no bundle.json"):
            open_bundle(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "{}", '{"format": 1}', '{"format": 1, "checksums": ["a"]}', "\0"])
def test_a_damaged_manifest(small, text):
    (small.path / "bundle.json").write_text(text)
    with pytest.raises(BundleError, match=r"bundle\.json is damaged"):
        open_bundle(small.path)


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_format(small, version):
    (small.path / "bundle.json").write_text(json.dumps({"format": version}))
    with pytest.raises(BundleError, match=f"has format {version}, and this attendo reads format 1"):
        open_bundle(small.path)


@pytest.mark.parametrize("name", ["config.yaml", "tokenizer.json"])
def test_a_missing_file(small, name):
    (small.path / name).unlink()
    with pytest.raises(BundleError, match=rf"{name} cannot be read \(No such file or directory\)"):
        open_bundle(small.path)


@pytest.mark.parametrize("name", ["config.yaml", "tokenizer.json"])
def test_an_edited_file(small, name):
    path = small.path / name
    path.write_text(path.read_text() + "\n")
    with pytest.raises(BundleError, match=rf"{name} was changed since it was written"):
        open_bundle(small.path)


def test_a_manifest_that_forgets_the_tokenizer(small):
    manifest = json.loads((small.path / "bundle.json").read_text())
    del manifest["checksums"]["tokenizer.json"]
    (small.path / "bundle.json").write_text(json.dumps(manifest))
    with pytest.raises(BundleError, match=r"does not list 'tokenizer\.source\.json'"):
        open_bundle(small.path)


@pytest.mark.parametrize("text", ["", "junk", "{}", "[1]"])
def test_a_junk_tokenizer(small, text):
    rewrite(small, "tokenizer.json", text)
    with pytest.raises(BundleError, match=r"small: tokenizer\.json is damaged"):
        open_bundle(small.path)


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "model is missing|data is missing"), ("a: [", "not valid YAML"), ("seeed: 3", "seeed.*Did you mean seed")],
)
def test_a_junk_config(small, text, words):
    rewrite(small, "config.yaml", text)
    with pytest.raises(BundleError, match=rf"config\.yaml: .*({words})"):
        open_bundle(small.path)


def test_damaged_scores(small):
    (small.path / "scores.json").write_text("{")
    with pytest.raises(BundleError, match=r"scores\.json is damaged"):
        small.scores()


def test_a_flipped_byte_of_the_weights(small):
    path = small.path / "weights.safetensors"
    content = bytearray(path.read_bytes())
    content[-100] ^= 0x40
    path.write_bytes(content)
    with pytest.raises(BundleError, match=r"weights\.safetensors is damaged: its checksum does not match"):
        load(small.path)


@pytest.mark.parametrize("share", [0, 0.001, 0.5, 0.999])
def test_truncated_weights(small, share):
    path = small.path / "weights.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(BundleError, match=r"weights\.safetensors is damaged"):
        load(small.path)


def test_missing_weights(small):
    (small.path / "weights.safetensors").unlink()
    with pytest.raises(BundleError, match=r"has no weights: weights\.safetensors is missing"):
        load(small.path)


def test_weights_that_do_not_fit(small):
    weights = small.weights()
    name, query = "encoder.embedding.weight", "encoder.blocks.0.attention.query.weight"
    path = small.path / "weights.safetensors"
    for changed, words in (
        ({key: value for key, value in weights.items() if key != name}, f"lacks the tensor {name}"),
        ({**weights, "extra": torch.zeros(3)}, "has the tensor extra"),
        ({**weights, name: weights[name][:-1].clone()}, rf"{name} has shape \(\d+, 32\) instead of"),
        ({**weights, f"{query}.down": torch.zeros(2, 32)}, f"has the tensor {query}.down"),
        ({**weights, f"{query}.up": torch.zeros(32, 2)}, f"has the tensor {query}.up"),
        ({**weights, f"{query}.up": torch.zeros(32, 2), f"{query}.down": torch.zeros(2, 31)}, "has the tensor"),
    ):
        write_tensors(path, changed, {})
        with pytest.raises(BundleError, match=words):
            load(small.path)


def test_load_weights_changes_nothing_where_a_name_does_not_fit(small):
    model = small.model()
    before = {name: tensor.clone() for name, tensor in weights_of(model).items()}
    with pytest.raises(BundleError, match="here has the tensor extra"):
        load_weights(model, {**{k: v + 1 for k, v in before.items()}, "extra": torch.zeros(1)}, where="here")
    assert all(torch.equal(before[name], tensor) for name, tensor in weights_of(model).items())


# --- written whole or not at all ----------------------------------------------------------------------------------


def test_an_existing_folder_is_left_alone(trained, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine").write_text("text")
    with pytest.raises(BundleError, match="there exists already"):
        trained.bundle.copy(tmp_path / "there", trained.bundle.weights())
    assert names(tmp_path) == ["there", "there/mine"]


def test_a_failure_while_writing_leaves_nothing(trained, tmp_path, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safetensors.torch.save", full)
    with pytest.raises(StorageError, match="the disk is full"):
        trained.bundle.copy(tmp_path / "new", trained.bundle.weights())
    assert names(tmp_path) == []


def test_a_checkpoint_is_written_whole_or_not_at_all(small, monkeypatch):
    weights = small.weights()
    before = names(small.path)

    def fail(path: Path, *_: object) -> None:
        if path.name == "state.safetensors":
            raise OSError(28, "No space left on device")
        write_tensors(path, weights, {})

    monkeypatch.setattr("attendo.bundle.write_tensors", fail)
    with pytest.raises(StorageError, match="the disk is full"):
        small.save_checkpoint(7, weights, {"m": torch.zeros(2)}, {}, best=None)
    assert [name for name in names(small.path) if name != "checkpoints"] == before
    assert small.checkpoints() == []


def test_two_tokenizers_are_two_files(trained, tmp_path):
    from attendo.text.pair import TokenizerPair
    from attendo.text.tokenizer import train_tokenizer

    pair = TokenizerPair(
        train_tokenizer(["one two"], kind="characters", vocab_size=300),
        train_tokenizer(["eins zwei drei"], kind="characters", vocab_size=300),
    )
    create_bundle(tmp_path / "two", config=trained.bundle.config, tokenizers=pair, texts={})
    assert {"tokenizer.source.json", "tokenizer.target.json"} < set(names(tmp_path / "two"))
    assert open_bundle(tmp_path / "two").tokenizers == pair


# --- averaging --------------------------------------------------------------------------------------------------


def test_an_average_is_the_mean_of_the_checkpoints(trained, tmp_path):
    averaged, steps = average_last(trained.bundle, 2, tmp_path / "averaged")
    assert steps == [280, 420]
    both = [trained.bundle.checkpoint_weights(step) for step in steps]
    for name, tensor in open_bundle(averaged.path).weights().items():
        mean = np.mean([weights[name].numpy().astype(np.float64) for weights in both], axis=0)
        np.testing.assert_array_equal(tensor.numpy(), mean.astype(np.float32))
    assert averaged.scores() == {"weights": "average of the checkpoints of steps 280, 420"}
    assert "Not scored" in (averaged.path / "card.md").read_text()
    assert "store" not in averaged.data()  # nothing to resume
    assert load(averaged.path).translate("one.").text


def test_an_average_of_one_is_that_one(trained):
    only = average_weights(trained.bundle, [140])
    assert all(torch.equal(only[name], one) for name, one in trained.bundle.checkpoint_weights(140).items())


def test_an_average_of_more_than_there_are(trained, small, tmp_path):
    with pytest.raises(BundleError, match=r"has 3 checkpoints, and --last 4 asks for more. Use --last 3"):
        average_last(trained.bundle, 4, tmp_path / "averaged")
    with pytest.raises(BundleError, match="has no checkpoints to average"):
        average_last(small, 1, tmp_path / "averaged")
    assert names(tmp_path) == ["small", *(f"small/{name}" for name in names(small.path))]


# --- running statistics, and what is shared -------------------------------------------------------------------------


class Layer(nn.Module):
    """A parameter, running statistics, and a table that can be computed anew."""

    mean: torch.Tensor
    table: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 5))
        self.register_buffer("mean", torch.randn(7))
        self.register_buffer("table", torch.randn(2), persistent=False)


class Sharing(nn.Module):
    """The first layer stands in three places, the parameter and the statistics of the last in another one as well."""

    def __init__(self) -> None:
        super().__init__()
        first, last = Layer(), Layer()
        self.layers = nn.ModuleList([first, first, last])
        self.again = first
        self.output = last.weight
        self.register_buffer("statistics", last.mean)


NAMES = {"output", "statistics", "layers.0.weight", "layers.0.mean"}


def test_weights_are_parameters_and_persistent_buffers_each_once():
    model = Sharing()
    weights = weights_of(model)
    assert weights.keys() == NAMES
    assert {name for name, _ in model.named_parameters()} == {"output", "layers.0.weight"}
    # They are the model's own, and know nothing of gradients.
    assert weights["layers.0.mean"].data_ptr() == model.again.mean.data_ptr()
    assert not any(tensor.requires_grad for tensor in weights.values())


def test_weights_and_statistics_come_back_in_all_their_places(tmp_path):
    model, another = Sharing(), Sharing()
    write_tensors(tmp_path / "weights", weights_of(model), {})
    load_weights(another, read_tensors(tmp_path / "weights")[0], where="here")
    for name, tensor in model.state_dict().items():
        assert torch.equal(another.state_dict()[name], tensor), name
    assert another.again.mean is another.layers[1].mean
    assert another.output is another.layers[2].weight
    assert not torch.equal(another.again.table, model.again.table)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_statistics_that_do_not_fit(name):
    weights = weights_of(Sharing())
    without = {key: value for key, value in weights.items() if key != name}
    with pytest.raises(BundleError, match=f"here lacks the tensor {name}"):
        load_weights(Sharing(), without, where="here")
    with pytest.raises(BundleError, match=f"here: the tensor {name} has shape"):
        load_weights(Sharing(), {**without, name: torch.zeros(11)}, where="here")


def test_an_average_is_also_one_of_the_statistics(small):
    weights = [{name: tensor.clone() for name, tensor in weights_of(Sharing()).items()} for _ in range(3)]
    for step, one in enumerate(weights, start=1):
        small.save_checkpoint(step, one, {}, {}, best=None)
    averaged = average_weights(small, [1, 2, 3])
    assert averaged.keys() == NAMES
    for name, tensor in averaged.items():
        assert tensor.dtype == torch.float32
        torch.testing.assert_close(tensor, torch.stack([one[name] for one in weights]).mean(0))


def test_an_average_with_running_statistics_is_refused(trained, tmp_path):
    config = trained.bundle.config
    batchnorm = replace(config, model=replace(config.model, norm="batchnorm"))
    bundle = Bundle(trained.path, batchnorm, trained.bundle.tokenizers)
    with pytest.raises(BundleError, match="batchnorm, whose running statistics belong to the weights"):
        average_last(bundle, 2, tmp_path / "averaged")
    assert not (tmp_path / "averaged").exists()


# --- nothing is executed ----------------------------------------------------------------------------------------


def test_nothing_in_the_package_can_unpickle():
    """No import of a pickling module, no torch.load or torch.save, no unsafe YAML, no eval or exec."""
    forbidden_modules = {"pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
    forbidden_calls = {"torch.load", "torch.save", "yaml.load", "yaml.unsafe_load", "eval", "exec", "np.load"}
    paths = list(Path(str(attendo.__file__)).parent.rglob("*.py"))
    assert len(paths) > 40
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert not {alias.name.partition(".")[0] for alias in node.names} & forbidden_modules, path
            elif isinstance(node, ast.ImportFrom):
                assert str(node.module).partition(".")[0] not in forbidden_modules, path
            elif isinstance(node, ast.Call):
                assert ast.unparse(node.func) not in forbidden_calls, path
