"""What a run does with the cores is decided by measurement; here the measurements are given."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from attendo import machine, pace
from attendo.config import from_dict
from attendo.errors import ConfigError
from attendo.recipe import RunConfig, choose
from attendo.training.settings import TrainingConfig
from attendo.training.team import Team
from attendo.training.trial import Trial

CPU = torch.device("cpu")


def config(*, norm: str = "layernorm", **training: Any) -> RunConfig:
    model = {"source_vocab_size": 300, "target_vocab_size": 300, "norm": norm}
    return from_dict(RunConfig, {"data": {"source": "x"}, "model": model, "training": training})


Find = Callable[..., pace.Pace]


@pytest.fixture
def find(monkeypatch: pytest.MonkeyPatch) -> Find:
    """find_pace with the given seconds for each `processes x threads [b]`; each measurement is noted in `asked`."""

    def found(
        seconds: dict[str, float | None],
        run: RunConfig,
        *,
        cores: int = 2,
        bfloat16: bool = False,
        steps: int = 10_000,
        team: Team | None = None,
    ) -> pace.Pace:
        def measure(_model: Any, measured: RunConfig, *_: Any) -> Trial:
            training = measured.training
            low = "b" if training.mixed_precision == "bfloat16" else ""
            found.asked.append(f"{training.processes}x{training.threads}{low}")  # type: ignore[attr-defined]
            taken = seconds[found.asked[-1]]  # type: ignore[attr-defined]
            if taken is None:
                raise RuntimeError("no such network device")
            steps = len(found.asked)  # type: ignore[attr-defined]
            return Trial(tokens=700 * steps, steps=steps, seconds=taken * steps)

        found.asked = []  # type: ignore[attr-defined]
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        monkeypatch.setattr(machine, "cores", lambda: cores)
        monkeypatch.setattr(machine, "has_bfloat16", lambda _: bfloat16)
        monkeypatch.setattr(pace, "_measure", measure)
        return pace.find_pace(
            None,  # type: ignore[arg-type]
            run,
            None,  # type: ignore[arg-type]
            store=Path(),
            name="cpu",
            device=CPU,
            team=team or Team(),
            steps=lambda _: steps,
        )

    return found


def split(training: TrainingConfig) -> tuple[int | None, int | None, str]:
    return training.processes, training.threads, training.mixed_precision


def test_the_faster_split_is_taken(find: Find) -> None:
    found = find({"1x2": 0.3, "2x1": 0.2}, config())
    assert split(found.training) == (2, 1, "off")
    assert found.seconds == 0.2
    assert found.in_words() == "2 processes of 1 thread, 0.200 s a step (1 process of 2 threads 0.300 s)"
    assert split(find({"1x2": 0.2, "2x1": 0.3}, config()).training) == (1, 2, "off")


def test_processes_where_there_is_hardly_a_difference(find: Find) -> None:
    assert split(find({"1x2": 0.2, "2x1": 0.21}, config()).training) == (2, 1, "off")
    assert split(find({"1x2": 0.2, "2x1": 0.23}, config()).training) == (1, 2, "off")
    among_splits = find({"1x4": 0.2, "4x1": 0.15, "2x2": 0.16}, config(), cores=4)
    assert split(among_splits.training) == (4, 1, "off")


def test_many_cores_are_tried_until_it_gets_slower(find: Find) -> None:
    seconds = {"1x12": 0.5, "12x1": 0.6, "6x2": 0.3, "3x4": 0.4}
    assert split(find(seconds, config(), cores=12).training) == (6, 2, "off")
    assert find.asked == ["1x12", "12x1", "6x2", "3x4"]  # type: ignore[attr-defined]


def test_a_short_run_is_not_worth_a_comparison(find: Find) -> None:
    found = find({"1x2": 0.3}, config(), steps=30, bfloat16=True)
    assert split(found.training) == (1, 2, "off")
    assert find.asked == ["1x2"]  # type: ignore[attr-defined]


def test_what_does_not_work_here_is_not_taken(find: Find) -> None:
    assert split(find({"1x2": 0.3, "2x1": None}, config()).training) == (1, 2, "off")
    with pytest.raises(RuntimeError):  # it was asked for
        find({"2x1": None}, config(processes=2))


def test_no_more_processes_than_the_batch_and_the_memory_allow(find: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "peak_memory", lambda: 10**9)
    monkeypatch.setattr(machine, "free_memory", lambda: 3 * 10**9)
    find({"1x16": 0.3, "4x4": 0.2, "2x8": 0.4}, config(), cores=16)
    assert find.asked == ["1x16", "4x4", "2x8"]  # type: ignore[attr-defined]
    monkeypatch.setattr(machine, "free_memory", lambda: None)
    find({"1x16": 0.3, "2x8": 0.4}, config(batch_tokens=600), cores=16)
    assert find.asked == ["1x16", "2x8"]  # type: ignore[attr-defined]


def test_bfloat16_only_where_it_is_much_faster(find: Find) -> None:
    fast = find({"1x2": 0.3, "2x1": 0.2, "2x1b": 0.17}, config(), bfloat16=True)
    assert split(fast.training) == (2, 1, "bfloat16")
    slow = find({"1x2": 0.3, "2x1": 0.2, "2x1b": 0.19}, config(), bfloat16=True)
    assert split(slow.training) == (2, 1, "off")
    assert split(find({"1x2": 0.3, "2x1": 0.1}, config(mixed_precision="off"), bfloat16=True).training) == (2, 1, "off")


def test_bfloat16_with_one_thread_even_where_several_are_faster_without(find: Find) -> None:
    found = find({"1x2": 0.2, "2x1": 0.25, "1x2b": 0.3, "2x1b": 0.15}, config(), bfloat16=True)
    assert split(found.training) == (2, 1, "bfloat16")


def test_what_is_given_is_not_measured(find: Find) -> None:
    find({"2x1": 0.3}, config(processes=2))
    assert find.asked == ["2x1"]  # type: ignore[attr-defined]
    find({"1x3": 0.3, "4x3": 0.2}, config(threads=3), cores=12)
    assert find.asked == ["1x3", "4x3"]  # type: ignore[attr-defined]
    find({"1x2": 0.3}, config(norm="batchnorm"))
    assert find.asked == ["1x2"]  # type: ignore[attr-defined]
    given = torch.get_num_threads()
    find({f"3x{given}": 0.3}, config(), team=Team(0, 3))  # by torchrun
    assert find.asked == [f"3x{given}"]  # type: ignore[attr-defined]


def test_minutes_become_steps_by_a_longer_measurement(find: Find) -> None:
    find({"1x2": 0.3, "2x1": 0.2}, config(minutes=10.0))
    assert find.asked == ["1x2", "2x1", "2x1"]  # type: ignore[attr-defined]


def test_omp_num_threads_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert split(pace.settled(config(), CPU, Team())) == (1, 3, "off")


def test_settings_that_cannot_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"training\.processes = 2: torchrun has started 3"):
        pace.settled(config(processes=2), CPU, Team(0, 3))
    with pytest.raises(ConfigError, match=r"training\.processes = 2: batchnorm"):
        pace.settled(config(processes=2, norm="batchnorm"), CPU, Team())
    monkeypatch.setattr(machine, "has_bfloat16", lambda _: True)
    with pytest.raises(ConfigError, match=r"training\.processes = 2: .*torchrun"):
        pace.settled(config(processes=2), torch.device("cuda"), Team())
    assert pace.settled(config(), torch.device("cuda"), Team()).mixed_precision == "bfloat16"


def test_an_earlier_run_goes_on_as_it_began() -> None:
    """Its settings have neither processes nor threads."""
    run = config()
    assert pace.settled(replace(run, training=replace(run.training, steps=5)), CPU, Team()).processes == 1


def test_the_speed_of_a_machine_is_that_of_tiny_on_each_core(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def steps(model: Any, pairs: Any, training: TrainingConfig, *, seconds: float, **_: Any) -> Trial:
        assert sum(parameter.numel() for parameter in model.parameters()) < 2_500_000
        assert training.batch_tokens == choose("tiny", pairs=1)["training"]["batch_tokens"]
        assert pairs.batch([0, 1]).n_tokens > 0
        assert torch.get_num_threads() == 1
        asked.append(seconds)
        return Trial(tokens=1_000, steps=1, seconds=took[training.mixed_precision])

    asked: list[float] = []
    took = {"off": 0.1, "bfloat16": 0.05}
    monkeypatch.setattr(pace, "try_steps", steps)
    monkeypatch.setattr(machine, "has_bfloat16", lambda _: False)
    for cores, speed in ((1, 10_000), (3, 27_000)):
        monkeypatch.setattr(machine, "cores", lambda cores=cores: cores)
        assert pace.speed_of_tiny(CPU, minutes=150) == pytest.approx(speed)
    pace.speed_of_tiny(CPU, minutes=0.5)
    assert asked == [2.0, 2.0, pytest.approx(0.3)]  # no more than a hundredth of the time
    monkeypatch.setattr(machine, "has_bfloat16", lambda _: True)
    monkeypatch.setattr(machine, "cores", lambda: 1)
    for took["bfloat16"], speed in ((0.05, 20_000), (0.2, 10_000)):  # which is slower where only torch has it
        assert pace.speed_of_tiny(CPU, minutes=0.5) == pytest.approx(speed)
    assert asked[3:] == [pytest.approx(0.15)] * 4


def test_measuring_the_speed_leaves_chance_as_it_was() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    assert pace.speed_of_tiny(CPU, minutes=0.01) > 0
    assert torch.equal(torch.rand(3), expected)
