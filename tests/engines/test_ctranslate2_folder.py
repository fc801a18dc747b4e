"""CTranslate2's copy of the weights: made once, kept in the bundle, made again when it has to be."""

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from attendo.bundle import open_bundle
from attendo.engines import ctranslate2_folder
from attendo.engines.ctranslate2_folder import open_ctranslate2
from attendo.errors import BundleError
from attendo.storage import sha256_of_file
from attendo.translator import Translator, load
from tests.untrained import sentences, untrained_bundle

FILES = ["attendo.json", "config.json", "model.bin", "source_vocabulary.json", "target_vocabulary.json"]


@pytest.fixture
def bundle(tmp_path):
    return untrained_bundle(tmp_path / "run")


@pytest.fixture
def written(monkeypatch):
    """How often a copy was written."""
    times: list[Path] = []
    write = ctranslate2_folder._write

    def record(bundle, weights, checksum, folder):
        times.append(folder)
        write(bundle, weights, checksum, folder)

    monkeypatch.setattr(ctranslate2_folder, "_write", record)
    return times


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def texts(bundle, **given) -> list[str]:
    given = {"engine": "ctranslate2", **given}
    return [one.text for one in load(bundle.path, **given).translate_many(sentences(11))]


def test_it_is_made_on_first_use_and_then_kept(bundle, written):
    assert not (bundle.path / "ctranslate2").exists()
    first = texts(bundle)
    assert sorted(contents(bundle.path / "ctranslate2")) == FILES
    assert texts(bundle) == first == texts(bundle, engine="torch")
    assert texts(bundle, precision="int8")
    assert len(written) == 1


def test_it_is_made_again_when_the_weights_change(bundle, written):
    before = texts(bundle)
    other = untrained_bundle(bundle.path.parent / "other", seed=5)
    bundle.save_weights(other.weights(), {})
    after = texts(bundle)
    assert after == texts(other, engine="torch")
    assert after != before
    assert len(written) == 2
    assert sorted(path.name for path in bundle.path.iterdir() if path.name.startswith(".")) == []


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", ["missing", "cut", "flipped"])
def test_it_is_made_again_when_it_is_damaged(bundle, written, name, how):
    before = texts(bundle)
    whole = contents(bundle.path / "ctranslate2")
    path = bundle.path / "ctranslate2" / name
    content = whole[name]
    path.unlink()
    if how != "missing":
        middle = len(content) // 2
        path.write_bytes(content[:middle] if how == "cut" else content[:middle] + b"\xa7" + content[middle + 1 :])
    assert texts(bundle) == before
    assert len(written) == 2
    assert contents(bundle.path / "ctranslate2") == whole


def test_a_copy_is_read_whole_once_and_then_only_if_it_has_changed(bundle, written, monkeypatch):
    texts(bundle)
    read: list[str] = []

    def record(path):
        read.append(path.name)
        return sha256_of_file(path)

    monkeypatch.setattr(ctranslate2_folder, "sha256_of_file", record)
    texts(bundle)
    assert read == []
    later = time.time() + 60
    os.utime(bundle.path / "ctranslate2" / "model.bin", (later, later))
    texts(bundle)
    assert read == ["model.bin"]
    assert len(written) == 1


def test_an_error_that_is_neither_damage_nor_a_race_is_not_hidden(bundle, written, monkeypatch):
    texts(bundle)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(ctranslate2_folder, "CTranslate2Engine", fail)
    with pytest.raises(RuntimeError, match="out of memory"):
        open_ctranslate2(bundle)
    assert len(written) == 1


def test_what_a_killed_process_left_is_cleared_away(bundle):
    texts(bundle)
    left, recent = (bundle.path / f".ctranslate2.{name}.partial" for name in ("left", "recent"))
    for folder in (left, recent):
        folder.mkdir()
    os.utime(left, (0, 0))
    texts(bundle)
    assert (left.exists(), recent.exists()) == (False, True)


def test_it_is_made_again_when_another_version_wrote_it(bundle, written, monkeypatch):
    texts(bundle)
    monkeypatch.setattr(ctranslate2_folder, "WRITER", 2)
    texts(bundle)
    assert len(written) == 2


def test_a_run_without_final_weights_uses_its_last_checkpoint(bundle):
    weights = bundle.weights()
    (bundle.path / "weights.safetensors").rename(bundle.path / "kept")
    bundle.save_checkpoint(7, weights, {}, {}, best=None)
    (bundle.path / "weights.safetensors").unlink()
    found = texts(bundle)
    (bundle.path / "kept").rename(bundle.path / "weights.safetensors")
    assert texts(bundle) == found


def test_weights_that_do_not_fit_are_an_error_and_nothing_is_kept(bundle):
    weights = bundle.weights()
    del weights["output.bias"]
    bundle.save_weights(weights, {})
    with pytest.raises(BundleError, match=f"{bundle.path}: the bundle lacks the tensor output.bias"):
        load(bundle.path, engine="ctranslate2")
    assert not list(bundle.path.glob("*ctranslate2*"))


class Sayings:
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def track(self, items, what, total=None):  # noqa: ARG002
        yield from items

    def progress(self, step, steps, text):
        pass


def test_a_bundle_that_cannot_be_written_is_served_from_a_temporary_folder(bundle, written, monkeypatch):
    expected = texts(bundle, engine="torch")

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    sayings = Sayings()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refuse)
        engine = open_ctranslate2(bundle, reporter=sayings)
    assert sayings.said == [
        f"{bundle.path / 'ctranslate2'} cannot be written: {os.strerror(errno.EROFS)}. Choose another folder. The "
        "ctranslate2 engine's copy of the model is made anew each time."
    ]
    assert not any(folder.exists() for folder in written)
    assert not list(bundle.path.glob("*ctranslate2*"))
    translator = Translator(engine, bundle.tokenizers, max_length=61)
    assert [one.text for one in translator.translate_many(sentences(11))] == expected


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="permissions do not bind root")
def test_a_read_only_bundle(bundle):
    expected = texts(bundle, engine="torch")
    bundle.path.chmod(0o500)
    try:
        assert texts(bundle) == expected
    finally:
        bundle.path.chmod(0o700)


def test_first_uses_at_the_same_time(bundle):
    expected = texts(bundle, engine="torch")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: texts(open_bundle(bundle.path)), range(4)))
    assert found == [expected] * 4
    assert sorted(contents(bundle.path / "ctranslate2")) == FILES
    assert not [path for path in bundle.path.iterdir() if path.name.startswith(".")]


def test_a_copied_bundle_leaves_it_out_and_a_copied_folder_takes_it_along(bundle, written):
    texts(bundle)
    small = bundle.copy(bundle.path.parent / "small", bundle.weights(), scores={})
    assert not (small.path / "ctranslate2").exists()
    shutil.copytree(bundle.path, bundle.path.parent / "moved")
    texts(open_bundle(bundle.path.parent / "moved"))
    assert len(written) == 1


def test_it_can_be_given_to_ctranslate2_itself(bundle):
    texts(bundle)
    program = f"""
import ctranslate2
translator = ctranslate2.Translator({str(bundle.path / "ctranslate2")!r})
print(translator.translate_batch([["261", "262", "end"]])[0].hypotheses[0])
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout.replace("'", '"'))
