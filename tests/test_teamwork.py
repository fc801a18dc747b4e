"""Several processes train as one does: the same batches, the same weights, the same ways to stop and to go on."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from attendo import run
from attendo.bundle import Bundle, open_bundle
from attendo.config import merge
from attendo.errors import ConfigError, TrainingError
from attendo.reporting import Silent

from .tasks import made_up, reverse, tiny, unmeasured, write_task
from .test_resume import assert_same

SECONDS = 240  # more than any of this takes


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Without dropout. Batches that three processes cannot share evenly, and some with fewer pairs than processes.

    Adam divides by the size of the gradient: of one that is nothing but rounding, such as that of the keys' biases,
    which softmax does not see, it makes a step as large as any. The epsilon is above that, and far below the others.
    """
    return tiny(
        write_task(tmp_path_factory.mktemp("corpus"), made_up(150), reverse),
        model={"residual_dropout": 0.0},
        training={
            "steps": 20,
            "batch_tokens": 40,
            "accumulate": 2,
            "clip_norm": 1.0,
            "schedule": "constant",
            "learning_rate": 1e-3,
            "epsilon": 1e-5,
            "warmup_steps": 5,
            "threads": 1,
            "stop_metric": "loss",
            "checkpoint_every": 10,
            "validate_every": 10,
            "log_every": 1,
            "average": 0,
        },
    )


@pytest.fixture(scope="module", autouse=True)
def begun_at_once() -> Iterator[None]:
    """The processes that are started by their own commands measure all the same."""
    with unmeasured():
        yield


def with_processes(settings: dict[str, Any], count: int, **model: Any) -> dict[str, Any]:
    return merge(settings, {"training": {"processes": count}, "model": model})


@pytest.fixture(scope="module")
def alone(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return run.train(settings=with_processes(settings, 1), out=tmp_path_factory.mktemp("alone") / "run")


@pytest.fixture(scope="module")
def dropping(settings: dict[str, Any]) -> dict[str, Any]:
    """With all that is drawn at random: elements, layers, and where words are cut."""
    drawing = merge(settings, {"training": {"bpe_dropout": 0.3}})
    return with_processes(drawing, 2, residual_dropout=0.2, layer_drop=0.3)


@pytest.fixture(scope="module")
def undisturbed(dropping: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return run.train(settings=dropping, out=tmp_path_factory.mktemp("two") / "run")


def assert_same_training(bundle: Bundle, other: Bundle, *, within: float) -> None:
    """The same losses, and the same weights after the last step."""
    step = bundle.checkpoints()[-1]
    weights, others = bundle.checkpoint_weights(step), other.checkpoint_weights(step)
    for name in weights:
        torch.testing.assert_close(weights[name], others[name], rtol=0, atol=within)
    losses, other_losses = (
        [entry["loss"] for entry in one.read_log() if entry["event"] == "progress"] for one in (bundle, other)
    )
    assert losses == pytest.approx(other_losses, abs=within)


def test_three_processes_train_as_one(settings: dict[str, Any], alone: Bundle, tmp_path: Path) -> None:
    together = run.train(settings=with_processes(settings, 3), out=tmp_path / "run")
    assert (together.config.training.processes, together.config.training.threads) == (3, 1)
    assert together.checkpoints() == alone.checkpoints() == [10, 20]
    assert_same_training(together, alone, within=1e-5)


def test_three_processes_share_the_work_of_muon(settings: dict[str, Any], tmp_path: Path) -> None:
    muon = merge(settings, {"training": {"optimizer": "muon", "steps": 10}})
    runs = [run.train(settings=with_processes(muon, count), out=tmp_path / f"{count}") for count in (1, 3)]
    assert_same_training(*runs, within=1e-5)


def test_torchrun_is_the_same_engine(alone: Bundle, tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text(
        (alone.path / "config.yaml").read_text().replace("processes: 1", "processes: null")
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "attendo"]
    arguments = ["train", "--config", "settings.yaml", "--out", "new"]
    ended = subprocess.run(
        [*command, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "new\n"  # said once
    bundle = open_bundle(tmp_path / "new")
    assert bundle.config.training.processes == 2
    assert_same_training(bundle, alone, within=1e-5)


def test_ctrl_c_reaches_all_and_each_goes_on_with_elements_of_its_own(undisturbed: Bundle, tmp_path: Path) -> None:
    """Ctrl-C is sent to every process of the terminal's group; the leader saves what all of them draw next."""
    (tmp_path / "settings.yaml").write_text((undisturbed.path / "config.yaml").read_text())
    # Nicely, so that who watches it is not too late for its few steps.
    command = ["nice", sys.executable, "-m", "attendo", "train", "--config", "settings.yaml", "--out", "new"]
    with subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        log, ends = tmp_path / "new" / "log.jsonl", time.monotonic() + SECONDS
        while not (log.exists() and '"step": 3,' in log.read_text()):
            assert running.poll() is None and time.monotonic() < ends
            time.sleep(0.02)
        os.killpg(running.pid, signal.SIGINT)
        _, said = running.communicate(timeout=SECONDS)
    assert running.returncode == 130, said
    assert "Stopped and saved at step" in said
    states = open_bundle(tmp_path / "new").latest_state()
    assert states is not None
    _, _, tensors, _ = states
    assert not torch.equal(tensors["generator:cpu"], tensors["generator:cpu:1"])
    assert_same(run.resume(tmp_path / "new"), undisturbed)


class KillsFollower(Silent):
    """Kills the other process when the run has come to a step."""

    def progress(self, step: int, steps: int, text: str) -> None:  # noqa: ARG002
        if step == 12:
            children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
            for child in children:
                os.kill(int(child), signal.SIGKILL)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for the other process in /proc")
def test_a_process_that_is_killed_ends_the_run_with_a_way_on(
    dropping: dict[str, Any], undisturbed: Bundle, tmp_path: Path
) -> None:
    with pytest.raises(TrainingError, match=r"killed, most often because memory ran out.*attendo train --resume"):
        run.train(settings=dropping, out=tmp_path / "run", reporter=KillsFollower())
    assert_same(run.resume(tmp_path / "run"), undisturbed)


def test_a_loss_that_is_not_a_number_ends_all(settings: dict[str, Any], tmp_path: Path) -> None:
    absurd = merge(with_processes(settings, 2), {"training": {"learning_rate": 1e6, "warmup_steps": 0, "steps": 60}})
    with pytest.raises(TrainingError, match=r"the loss .* lower training\.learning_rate"):
        run.train(settings=absurd, out=tmp_path / "run")


def test_a_norm_over_the_batch_needs_the_whole_batch(settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"training\.processes = 2: batchnorm.*--processes 1"):
        run.train(settings=with_processes(settings, 2, norm="batchnorm"), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
