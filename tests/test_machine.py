"""What this computer is good at."""

import ctypes
import os
import platform
import sys
from pathlib import Path

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


def test_mixed_precision_only_where_it_helps(monkeypatch):
    assert machine.mixed_precision(torch.device("cpu")) is None
    assert machine.mixed_precision(torch.device("mps")) is None
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    assert machine.mixed_precision(torch.device("cuda")) == torch.bfloat16
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    assert machine.mixed_precision(torch.device("cuda")) is None


@pytest.fixture
def _threads_restored():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_threads_restored")
def test_all_cores_are_used_unless_told_otherwise(monkeypatch):
    torch.set_num_threads(3)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    machine.use_all_cores()
    assert torch.get_num_threads() == 3  # left as it is: the variable has been obeyed when torch started
    monkeypatch.delenv("OMP_NUM_THREADS")
    machine.use_all_cores()
    assert torch.get_num_threads() == len(os.sched_getaffinity(0))


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
    assert set(facts) == {"platform", "processor", "cores", "threads", "python", "torch"}
    assert facts["cores"] == os.cpu_count()
    assert facts["torch"] == torch.__version__
    assert all(facts.values())
