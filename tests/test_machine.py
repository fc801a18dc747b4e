"""What this computer is good at."""

import ctypes
import importlib.util
import os
import platform
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from attendo import machine
from attendo.errors import ConfigError


@pytest.fixture
def devices(monkeypatch):
    """Makes torch claim to have these devices beside the CPU."""

    def there(*kinds: str) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: "cuda" in kinds)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: "mps" in kinds)

    return there


@pytest.mark.parametrize(
    ("kinds", "best"), [((), "cpu"), (("mps",), "mps"), (("cuda",), "cuda"), (("cuda", "mps"), "cuda")]
)
def test_auto_takes_the_fastest_device(devices, kinds, best):
    devices(*kinds)
    assert machine.choose_device("auto").type == best


def test_a_device_by_name(devices):
    devices("cuda")
    assert machine.choose_device("cpu").type == "cpu"
    assert machine.choose_device("cuda").type == "cuda"


def test_a_device_that_is_not_there_is_an_error_that_names_those_that_are(devices):
    devices("mps")
    with pytest.raises(ConfigError, match=r"--device cuda: .* Available: mps, cpu"):
        machine.choose_device("cuda")


def test_bfloat16_where_the_device_has_it(monkeypatch):
    for name, there in (("amx_bf16", True), ("avx512_bf16", True), ("avx512_f", False)):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda name=name: {name: True, "amx_fp16": True})
        assert machine.has_bfloat16(torch.device("cpu")) is there
    assert not machine.has_bfloat16(torch.device("mps"))
    for there in (True, False):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda there=there: there)
        assert machine.has_bfloat16(torch.device("cuda")) is there


def test_a_process_of_torchrun_has_its_own_gpu(devices, monkeypatch):
    devices("cuda")
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert machine.choose_device("auto") == torch.device("cuda", 3)
    assert machine.choose_device("cpu") == torch.device("cpu")


@pytest.fixture
def _threads_restored():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_threads_restored")
def test_all_cores_are_used_unless_told_otherwise(monkeypatch):
    torch.set_num_threads(3)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    machine.ready("cpu")
    assert torch.get_num_threads() == 3  # left as it is: the variable has been obeyed when torch started
    assert machine.threads_for(2) == 1
    monkeypatch.delenv("OMP_NUM_THREADS")
    machine.ready("cpu")
    assert torch.get_num_threads() == machine.cores()


def test_cores_are_divided_among_processes(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(machine, "cores", lambda: 7)
    assert [machine.threads_for(n) for n in (1, 2, 3, 7, 9)] == [7, 3, 2, 1, 1]


def test_a_container_has_the_cores_of_its_quota(monkeypatch):
    allowed = len(os.sched_getaffinity(0))
    for limit, expected in (
        ("max 100000", allowed),
        ("100000 100000", 1),
        ("50000 100000", 1),
        ("9900000 100000", allowed),
    ):
        monkeypatch.setattr(Path, "read_text", lambda _, limit=limit: limit)
        assert machine.cores() == expected


def test_free_memory_is_less_than_there_is():
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    free = machine.free_memory()
    assert free is None or 0 < free < total


def test_threads_for_a_while():
    before = torch.get_num_threads()
    with pytest.raises(ValueError, match="over"), machine.using_threads(before + 2):
        assert torch.get_num_threads() == before + 2
        raise ValueError("over")
    assert torch.get_num_threads() == before
    with machine.using_threads(None):
        assert torch.get_num_threads() == before


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the setting is glibc's")
def test_large_buffers_are_kept(monkeypatch):
    asked = {}

    class Library:
        def mallopt(self, key, value):
            asked[key] = value

    monkeypatch.setattr(ctypes, "CDLL", lambda _: Library())
    machine.keep_large_buffers()
    assert asked == {-3: 2**30, -1: 2**31 - 1}  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD


def test_other_c_libraries_go_without(monkeypatch):
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    monkeypatch.setattr(ctypes, "CDLL", lambda _: pytest.fail("there is no mallopt"))
    machine.keep_large_buffers()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="compared with Linux's own figure")
def test_peak_memory_is_in_bytes():
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    highest = int(status["VmHWM"].split()[0]) * 1024
    assert machine.peak_memory() == pytest.approx(highest, rel=0.2)


def test_describe_tells_what_a_reader_needs_to_repeat_a_measurement():
    facts = machine.describe()
    assert set(facts) == {"platform", "processor", "cores", "threads", "python", "torch", "kernels"}
    assert facts["cores"] == os.cpu_count()
    assert facts["torch"] == torch.__version__
    assert all(facts.values())


@pytest.mark.parametrize(
    ("driver", "libraries", "asked"),
    [(False, ["libtorch_cuda.so"], False), (True, ["libtorch_cpu.so"], False), (True, ["libtorch_cuda.so"], True)],
)
def test_cuda_is_asked_for_only_where_it_could_be(devices, monkeypatch, tmp_path, driver, libraries, asked):
    devices("cuda")
    (tmp_path / "lib").mkdir()
    for name in libraries:
        (tmp_path / "lib" / name).touch()
    found = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: found)
    monkeypatch.setattr(machine, "_has_driver", lambda: driver)
    assert machine.has_cuda() is asked
