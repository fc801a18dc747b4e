"""A run that is stopped, killed or damaged, and resumed, ends with the very bytes of one that was not."""

import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from attendo import run, storage, teamwork
from attendo.bundle import Bundle, load_weights, open_bundle
from attendo.config import merge
from attendo.data import loader
from attendo.data.prepare import open_prepared
from attendo.engines.torch_engine import TorchEngine
from attendo.errors import BundleError, DataError, Interrupted
from attendo.models.encoder_decoder import EncoderDecoder
from attendo.reporting import Silent
from attendo.translator import Translator, nats_per_piece

from .tasks import made_up, reverse, tiny, write_task

STEPS = 36


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Several epochs, steps of two micro-batches, dropout of all kinds, checkpoints and validations out of step."""
    return tiny(
        write_task(tmp_path_factory.mktemp("corpus"), made_up(150), reverse),
        model={"residual_dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.1},
        training={
            "steps": STEPS,
            "batch_tokens": 64,
            "accumulate": 2,
            "clip_norm": 1.0,
            "embeddings": "related",
            "stop_metric": "loss",
            "checkpoint_every": 5,
            "validate_every": 9,
            "log_every": 1,
            "keep_checkpoints": 4,
            "average": 3,
        },
    )


@pytest.fixture(scope="module")
def undisturbed(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return run.train(settings=settings, out=tmp_path_factory.mktemp("undisturbed") / "run")


def told(bundle: Bundle) -> list[dict[str, Any]]:
    """The log without what depends on the clock, or on where counting began anew."""
    unsteady = ("minutes", "tokens_per_second", "padding")
    entries = [entry for entry in bundle.read_log() if entry["event"] != "started"]
    return [{key: value for key, value in entry.items() if key not in unsteady} for entry in entries]


def assert_same(bundle: Bundle, other: Bundle) -> None:
    for name in ("weights.safetensors", "scores.json", "config.yaml", "tokenizer.json"):
        assert (bundle.path / name).read_bytes() == (other.path / name).read_bytes(), name
    assert told(bundle) == told(other)
    assert bundle.checkpoints() == other.checkpoints()
    for step in bundle.checkpoints():
        for file in other.checkpoint(step).iterdir():
            assert (bundle.checkpoint(step) / file.name).read_bytes() == file.read_bytes(), (step, file.name)
    assert not list(bundle.path.rglob(".*"))  # nothing half-written is left


# --- asked to stop ----------------------------------------------------------------------------------------------------


class StopsAt(Silent):
    """Sends this process a signal when the run has come to a step, or to its last translations."""

    def __init__(self, place: int | str, number: signal.Signals = signal.SIGTERM) -> None:
        self.place = place
        self.number = number

    def progress(self, step: int, steps: int, text: str) -> None:  # noqa: ARG002
        if step == self.place:
            signal.raise_signal(self.number)

    def track(self, items: Any, what: str, total: int | None = None) -> Any:  # noqa: ARG002
        if what == self.place:
            signal.raise_signal(self.number)
        yield from items


def stop(go: Callable[[StopsAt], Bundle], place: int | str, number: signal.Signals = signal.SIGTERM) -> Interrupted:
    with pytest.raises(Interrupted) as stopped:
        go(StopsAt(place, number))
    assert stopped.value.exit_code == 128 + number
    return stopped.value


def test_the_task_is_worth_it(undisturbed: Bundle) -> None:
    """What is tested here happens in the run: several epochs, stops in their middle, an average, a best checkpoint."""
    entries = undisturbed.read_log()
    epochs = [entry["epoch"] for entry in entries if entry["event"] == "progress"]
    assert epochs[-1] > 3
    assert all(epoch % 1 for epoch in epochs[:5])
    assert [entry["of"] for entry in entries if entry["event"] == "average"] == [[25, 30, 35]]


def test_stopped_again_and_again(settings: dict[str, Any], undisturbed: Bundle, tmp_path: Path) -> None:
    """Off the beat, on a checkpoint, on a validation, twice within one interval, at the last step but one."""
    out = tmp_path / "run"
    first = stop(lambda reporter: run.train(settings=settings, out=out, reporter=reporter), 3)
    assert str(first) == f"Stopped and saved at step 3. Go on with: attendo train --resume {out}"
    for step in (5, 18, 27, 28, 35):
        stop(lambda reporter: run.resume(out, reporter=reporter), step, signal.SIGINT)
        assert open_bundle(out).checkpoints()[-1] == step
    assert_same(run.resume(out), undisturbed)


def test_stopped_before_the_first_step(
    settings: dict[str, Any], undisturbed: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint of step 0 is one to go on from, and none to average."""

    def batches_from(*arguments: Any, **more: Any) -> Any:
        signal.raise_signal(signal.SIGTERM)
        return loader.batches_from(*arguments, **more)

    many = merge(settings, {"training": {"keep_checkpoints": 20, "average": 20}})
    with monkeypatch.context() as patch:
        patch.setattr(teamwork, "batches_from", batches_from)
        stop(lambda reporter: run.train(settings=many, out=tmp_path / "run", reporter=reporter), -1)
    assert open_bundle(tmp_path / "run").checkpoints() == [0]
    bundle = run.resume(tmp_path / "run")
    assert [entry["of"] for entry in bundle.read_log() if entry["event"] == "average"] == [list(range(5, 36, 5))]
    steady = [entry for entry in told(undisturbed) if entry["event"] in ("progress", "validation")]
    assert [entry for entry in told(bundle) if entry["event"] in ("progress", "validation")] == steady


def test_stopped_in_the_last_translations(settings: dict[str, Any], undisturbed: Bundle, tmp_path: Path) -> None:
    out = tmp_path / "run"
    stopped = stop(
        lambda reporter: run.train(settings=settings, out=out, reporter=reporter), "Translating", signal.SIGINT
    )
    assert f"--resume {out}" in str(stopped)
    assert not open_bundle(out).scores()
    assert_same(run.resume(out), undisturbed)


def test_what_stopped_early_is_not_trained_further(settings: dict[str, Any], tmp_path: Path) -> None:
    stuck = merge(settings, {"training": {"learning_rate": 1e-30, "validate_every": 4, "patience": 2}})
    whole = run.train(settings=stuck, out=tmp_path / "whole")
    assert max(entry["step"] for entry in whole.read_log()) == 12
    stop(lambda reporter: run.train(settings=stuck, out=tmp_path / "run", reporter=reporter), "Translating")
    assert_same(run.resume(tmp_path / "run"), whole)


def test_until_it_ends_the_weights_to_use_are_the_best(settings: dict[str, Any], tmp_path: Path) -> None:
    stuck = merge(settings, {"training": {"learning_rate": 1e-30, "validate_every": 4}})
    stop(lambda reporter: run.train(settings=stuck, out=tmp_path / "run", reporter=reporter), 11)
    bundle = open_bundle(tmp_path / "run")
    assert bundle.checkpoints() == [4, 5, 10, 11]
    assert storage.read_tensors(bundle.path / "weights.safetensors")[1] == {"step": 4}


def test_an_adaptation_goes_on_too(settings: dict[str, Any], undisturbed: Bundle, tmp_path: Path) -> None:
    shutil.copytree(undisturbed.path, tmp_path / "base")
    data = write_task(tmp_path, made_up(100))
    training = {**settings["training"], "steps": 8}
    adapting = {"data": data, "adapt_from": str(tmp_path / "base"), "training": training}
    whole = run.train(settings=adapting, out=tmp_path / "whole")
    stop(lambda reporter: run.train(settings=adapting, out=tmp_path / "run", reporter=reporter), 3)
    # Not needed any more; and without a tokenised corpus the tokenizer is still the old one.
    shutil.rmtree(tmp_path / "base")
    shutil.rmtree(tmp_path / ".cache")
    assert_same(run.resume(tmp_path / "run"), whole)


def test_signals_of_the_command_line(settings: dict[str, Any], undisturbed: Bundle, tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
    out = tmp_path / "run"
    for arguments, number in (
        (["--config", str(tmp_path / "settings.yaml"), "--out", str(out)], signal.SIGTERM),
        (["--resume", str(out)], signal.SIGINT),
    ):
        before = last_step(out)
        # Nicely, so that who watches it is not too late for its few steps.
        command = ["nice", sys.executable, "-m", "attendo", "train", *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            while last_step(out) <= max(before, 0) and process.poll() is None:
                time.sleep(0.003)
            process.send_signal(number)
            output, errors = process.communicate(timeout=60)
        assert process.returncode == 128 + number, errors
        assert output == ""
        assert f"Go on with: attendo train --resume {out}" in errors
        assert "Traceback" not in errors
        assert max(before, 0) < open_bundle(out).checkpoints()[-1] < STEPS
    assert_same(run.resume(out), undisturbed)


def last_step(out: Path) -> int:
    log = out / "log.jsonl"
    if not log.exists():
        return -1
    return max((json.loads(line)["step"] for line in log.read_text().split("\n")[:-1]), default=0)


# --- with a moving average of the weights, and with curves for TensorBoard --------------------------------------------


@pytest.fixture(scope="module")
def averaging(settings: dict[str, Any]) -> dict[str, Any]:
    return merge(settings, {"training": {"ema": 0.7, "tensorboard": True}})


@pytest.fixture(scope="module")
def averaged(averaging: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return run.train(settings=averaging, out=tmp_path_factory.mktemp("averaged") / "run")


def test_training_goes_on_with_the_raw_weights(averaged: Bundle, undisturbed: Bundle) -> None:
    """They are those of a run without the average; the ones to use are the average of all of them."""
    step = undisturbed.checkpoints()[-1]
    plain, used = undisturbed.checkpoint_weights(step), averaged.checkpoint_weights(step)
    state = storage.read_tensors(averaged.checkpoint(step) / "state.safetensors")[0]
    assert {f"raw:{name}" for name in plain} == {key for key in state if key.startswith("raw:")}
    for name, tensor in plain.items():
        assert torch.equal(state[f"raw:{name}"], tensor), name
    assert not torch.equal(used["encoder.embedding.weight"], plain["encoder.embedding.weight"])
    assert losses(averaged, "progress") == losses(undisturbed, "progress")
    assert losses(averaged, "validation") != losses(undisturbed, "validation")


def test_what_is_validated_is_what_is_kept(averaged: Bundle) -> None:
    """The loss in the log is that of the weights in the checkpoint."""
    step = averaged.checkpoints()[-1]
    store = open_prepared(averaged.path.parent / ".cache" / averaged.data()["store"])
    assert store is not None
    model = averaged.model()
    assert isinstance(model, EncoderDecoder)
    load_weights(model, averaged.checkpoint_weights(step), where="here")
    translator = Translator(
        TorchEngine(model.eval(), torch.device("cpu")),
        averaged.tokenizers,
        max_length=averaged.config.data.max_length,
        languages=averaged.languages,
    )
    sources, targets = zip(*store.valid, strict=True)
    assert nats_per_piece(translator.score(sources, targets)) == losses(averaged, "validation")[step]


def test_stopped_with_an_average(averaging: dict[str, Any], averaged: Bundle, tmp_path: Path) -> None:
    out = tmp_path / "run"
    stop(lambda reporter: run.train(settings=averaging, out=out, reporter=reporter), 3)
    for step in (5, 18, 28):
        stop(lambda reporter: run.resume(out, reporter=reporter), step)
    assert_same(run.resume(out), averaged)


def test_killed_with_an_average_and_curves(averaging: dict[str, Any], averaged: Bundle, tmp_path: Path) -> None:
    """Steps after the last checkpoint happen twice; they are in the curves once."""
    lives = Lives(averaging, tmp_path / "run")
    assert lives.one(half_file=7)
    assert lives.one(half_file=6)
    lives.one()
    bundle = open_bundle(tmp_path / "run")
    assert_same(bundle, averaged)
    for tag, event in (("training", "progress"), ("validation", "validation")):
        assert curve(bundle, f"{tag}/loss") == pytest.approx(losses(averaged, event))
        assert curve(bundle, f"{tag}/loss") == curve(averaged, f"{tag}/loss")
    assert curve(bundle, "validation/bleu").keys() == losses(averaged, "validation").keys()


def test_resumed_where_tensorboard_is_not_installed(
    averaging: dict[str, Any], averaged: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is worth more than its curves."""
    out = tmp_path / "run"
    stop(lambda reporter: run.train(settings=averaging, out=out, reporter=reporter), 7)
    files = sorted((out / "tensorboard").iterdir())
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard")
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    said = Listening()
    assert_same(run.resume(out, reporter=said), averaged)
    assert "pip install 'attendo[tensorboard]'; going on without its curves." in said.text
    assert sorted((out / "tensorboard").iterdir()) == files


class Listening(Silent):
    text = ""

    def say(self, text: str) -> None:
        self.text += text


def test_words_are_cut_into_the_same_pieces_again(
    settings: dict[str, Any], undisturbed: Bundle, tmp_path: Path
) -> None:
    dropping = merge(settings, {"training": {"bpe_dropout": 0.3}})
    whole = run.train(settings=dropping, out=tmp_path / "whole")
    stop(lambda reporter: run.train(settings=dropping, out=tmp_path / "run", reporter=reporter), 7)
    assert_same(run.resume(tmp_path / "run"), whole)
    assert any((tensor != undisturbed.weights()[name]).any() for name, tensor in whole.weights().items())


def test_the_same_batches_are_turned_round_again(settings: dict[str, Any], undisturbed: Bundle, tmp_path: Path) -> None:
    turning = merge(settings, {"training": {"both_directions": 2}})
    whole = run.train(settings=turning, out=tmp_path / "whole")
    stop(lambda reporter: run.train(settings=turning, out=tmp_path / "run", reporter=reporter), 7)
    assert_same(run.resume(tmp_path / "run"), whole)
    assert any((tensor != undisturbed.weights()[name]).any() for name, tensor in whole.weights().items())


@pytest.mark.parametrize("ema", [0.0, 0.7])
def test_running_statistics_go_on_too(settings: dict[str, Any], tmp_path: Path, ema: float) -> None:
    batchnorm = merge(settings, {"model": {"norm": "batchnorm"}, "training": {"ema": ema}})
    whole = run.train(settings=batchnorm, out=tmp_path / "whole")
    statistics = {name: tensor for name, tensor in whole.weights().items() if "running" in name}
    assert statistics and not any((tensor == 0).all() or (tensor == 1).all() for tensor in statistics.values())
    stop(lambda reporter: run.train(settings=batchnorm, out=tmp_path / "run", reporter=reporter), 7)
    assert_same(run.resume(tmp_path / "run"), whole)


def losses(bundle: Bundle, event: str) -> dict[int, float]:
    return {entry["step"]: entry["loss"] for entry in bundle.read_log() if entry["event"] == event}


def curve(bundle: Bundle, name: str) -> dict[int, float]:
    events = EventAccumulator(str(bundle.path / "tensorboard"), size_guidance={"scalars": 0}).Reload().Scalars(name)
    assert len({event.step for event in events}) == len(events)
    return {event.step: event.value for event in events}


# --- killed -----------------------------------------------------------------------------------------------------------

FILE_EVENTS = ("open", "os.mkdir", "os.rename", "os.link", "os.remove", "os.rmdir")


def die_at_file_event(folder: Path, n: int) -> None:
    """This process kills itself at its n-th operation on a file in the folder."""
    left = n

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        # A relative path is one of `rmtree`, which works beside an open folder.
        if event in FILE_EVENTS and (str(arguments[0]).startswith(str(folder)) or not os.path.isabs(str(arguments[0]))):  # noqa: PTH117
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def die_in_the_middle_of_a_file(n: int) -> None:
    """This process kills itself when half of its n-th file of tensors is written."""
    left = n

    def write_bytes(path: Path, content: bytes) -> int:
        nonlocal left
        if path.name.endswith(".safetensors.partial"):
            left -= 1
            if left == 0:
                whole(path, content[: len(content) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
        return whole(path, content)

    whole = Path.write_bytes
    setattr(Path, "write_bytes", write_bytes)  # noqa: B010 (in this process only)


def live(settings: dict[str, Any], out: Path, file_event: int | None, half_file: int | None) -> None:
    """One life of a run, in a process of its own."""
    setattr(os, "fsync", lambda _: None)  # noqa: B010 (a death is no power failure)
    if file_event is not None:
        die_at_file_event(out, file_event)
    if half_file is not None:
        die_in_the_middle_of_a_file(half_file)
    if not out.exists():
        run.train(settings=settings, out=out)
    elif not open_bundle(out).scores():  # or it was killed when all had been done
        run.resume(out)


class Lives:
    """Starts processes that have imported everything already: a life costs no more than its steps."""

    def __init__(self, settings: dict[str, Any], out: Path) -> None:
        self.settings = settings
        self.out = out
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload([__name__, "attendo.tasks.translate", "torch._dynamo"])

    def one(self, *, file_event: int | None = None, half_file: int | None = None, seconds: float | None = None) -> bool:
        """True where it was killed, False where it came to its end."""
        process = self.context.Process(target=live, args=(self.settings, self.out, file_event, half_file))
        process.start()
        if seconds is not None:
            process.join(seconds)
            process.kill()
        process.join(240)
        assert process.exitcode in (0, -signal.SIGKILL)
        return process.exitcode != 0


def test_killed_at_file_operations(settings: dict[str, Any], undisturbed: Bundle, tmp_path: Path) -> None:
    """Each life dies a little later in its work on files: before, within and after the writing of checkpoints."""
    lives = Lives(settings, tmp_path / "run")
    deaths = 0
    for n in (1, 8, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97):
        if not lives.one(file_event=n):
            break
        deaths += 1
        if (tmp_path / "run").exists():
            bundle = open_bundle(tmp_path / "run")
            assert all(bundle.checkpoint_weights(step) for step in bundle.checkpoints())  # what is there is whole
    else:
        lives.one()
    assert deaths >= 8
    assert_same(open_bundle(tmp_path / "run"), undisturbed)


def test_killed_while_tensors_are_written(settings: dict[str, Any], undisturbed: Bundle, tmp_path: Path) -> None:
    """In the weights and in the state of a checkpoint, and in the last weights of all."""
    lives = Lives(settings, tmp_path / "run")
    assert lives.one(half_file=1)
    assert open_bundle(tmp_path / "run").checkpoints() == []
    assert lives.one(half_file=2)
    assert lives.one(half_file=5)
    assert open_bundle(tmp_path / "run").checkpoints() == [5, 9]
    assert lives.one(half_file=6)
    # Left: 15, 18, 20, 25, 27, 30, 35, 36, two files each, and the last weights.
    killed = [n for n in (3, 5, 7, 9) if lives.one(half_file=n)]
    assert killed[:2] == [3, 5]
    lives.one()
    assert_same(open_bundle(tmp_path / "run"), undisturbed)


def test_killed_at_any_time(settings: dict[str, Any], undisturbed: Bundle, tmp_path: Path) -> None:
    lives = Lives(settings, tmp_path / "run")
    rng = random.Random(1)
    deaths = 0
    while deaths < 8 and lives.one(seconds=rng.uniform(0.05, 0.6)):
        deaths += 1
    if deaths == 8:
        lives.one()
    assert deaths
    assert_same(open_bundle(tmp_path / "run"), undisturbed)


# --- damaged ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stopped(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped at step 19: to be copied, not to be resumed."""
    out = tmp_path_factory.mktemp("stopped") / "runs" / "run"
    stop(lambda reporter: run.train(settings=settings, out=out, reporter=reporter), 19)
    return out.parent


@pytest.mark.parametrize("name", ["state.safetensors", "weights.safetensors"])
def test_a_damaged_checkpoint_is_passed_over(stopped: Path, undisturbed: Bundle, tmp_path: Path, name: str) -> None:
    shutil.copytree(stopped, tmp_path / "runs")
    bundle = open_bundle(tmp_path / "runs" / "run")
    assert bundle.checkpoints()[-2:] == [18, 19]
    damaged = bundle.checkpoint(19) / name
    damaged.write_bytes(damaged.read_bytes()[:-100])
    assert_same(run.resume(bundle.path), undisturbed)


def test_half_of_a_checkpoint_is_none(stopped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old checkpoints are removed in one go, as far as anybody can see."""

    def begin_to_remove(path: Path, **_: Any) -> None:
        (path / "weights.safetensors").unlink()
        raise KeyboardInterrupt

    shutil.copytree(stopped, tmp_path / "runs")
    bundle = open_bundle(tmp_path / "runs" / "run")
    before = bundle.checkpoints()
    monkeypatch.setattr(shutil, "rmtree", begin_to_remove)
    with pytest.raises(KeyboardInterrupt):
        bundle.prune(keep={18, 19})
    assert bundle.checkpoints() == before[1:]


def test_two_damaged_checkpoints_are_an_error(stopped: Path, tmp_path: Path) -> None:
    shutil.copytree(stopped, tmp_path / "runs")
    bundle = open_bundle(tmp_path / "runs" / "run")
    for step in (18, 19):
        (bundle.checkpoint(step) / "state.safetensors").write_bytes(b"nothing of it")
    with pytest.raises(BundleError, match=r"state\.safetensors is damaged"):
        run.resume(bundle.path)


def test_the_tokenised_corpus_is_made_anew_where_it_is_gone(stopped: Path, undisturbed: Bundle, tmp_path: Path) -> None:
    shutil.copytree(stopped, tmp_path / "runs")
    shutil.rmtree(tmp_path / "runs" / ".cache")
    assert_same(run.resume(tmp_path / "runs" / "run"), undisturbed)


def test_other_text_in_its_place_is_refused(settings: dict[str, Any], tmp_path: Path) -> None:
    for name in ("source", "target"):
        shutil.copy(settings["data"][name], tmp_path / name)
    here = merge(settings, {"data": {"source": str(tmp_path / "source"), "target": str(tmp_path / "target")}})
    stop(lambda reporter: run.train(settings=here, out=tmp_path / "runs" / "run", reporter=reporter), 1)
    shutil.rmtree(tmp_path / "runs" / ".cache")
    with (tmp_path / "source").open("a") as source, (tmp_path / "target").open("a") as target:
        source.write("one more\n")
        target.write("noch eine\n")
    with pytest.raises(DataError, match="fingerprint is different"):
        run.resume(tmp_path / "runs" / "run")


def test_what_is_not_a_run_cannot_be_resumed(undisturbed: Bundle, tmp_path: Path) -> None:
    undisturbed.copy(tmp_path / "small", undisturbed.weights())
    with pytest.raises(BundleError):
        run.resume(tmp_path / "small")
    with pytest.raises(BundleError, match="there is no folder"):
        run.resume(tmp_path / "nowhere")
