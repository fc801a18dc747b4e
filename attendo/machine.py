"""What this computer is good at: device, threads, allocator, precision. What it has used.

torch is imported by the functions that need it, so that whoever only counts cores does not wait for it.
"""

import contextlib
import ctypes
import importlib.util
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from attendo import native
from attendo.errors import ConfigError

if TYPE_CHECKING:
    import torch

DeviceName = Literal["auto", "cpu", "cuda", "mps"]

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h


def choose_device(name: DeviceName) -> "torch.device":
    """The device that was asked for, or with `auto` the fastest there is."""
    import torch

    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    kind = next(kind for kind, there in available.items() if there) if name == "auto" else name
    if not available[kind]:
        there = ", ".join(kind for kind, is_there in available.items() if is_there)
        raise ConfigError(
            f"--device {name}: torch finds no such device here. Available: {there}, or use --device auto."
        )
    # Where torchrun has started a process for each GPU, this one's number.
    return torch.device(kind, int(os.environ.get("LOCAL_RANK", "0"))) if kind == "cuda" else torch.device(kind)


def has_cuda() -> bool:
    """Whether torch would find a CUDA device.

    It is asked only where a driver has left a sign and torch is a build that could use it, since asking is slow.
    """
    if not _has_driver():
        return False
    found = importlib.util.find_spec("torch")
    folders = [] if found is None else [Path(one, "lib") for one in found.submodule_search_locations or ()]
    libraries = [library.name for folder in folders for library in folder.glob("*torch_*")]
    if not any("torch_cuda" in name or "torch_hip" in name for name in libraries):
        return False
    import torch

    return torch.cuda.is_available()


def _has_driver() -> bool:
    """Whether a GPU's driver has left a sign."""
    windows = Path(os.environ.get("SYSTEMROOT", "C:/Windows"), "System32/nvcuda.dll")
    signs = (Path("/proc/driver/nvidia"), Path("/dev/nvidiactl"), Path("/dev/dxg"), Path("/dev/kfd"), windows)
    return any(sign.exists() for sign in signs)


def has_bfloat16(device: "torch.device") -> bool:
    """Whether the device multiplies matrices in bfloat16 by itself: a GPU, or a processor with AMX or AVX512-BF16."""
    import torch

    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    if device.type == "cpu":
        capabilities = torch.cpu.get_capabilities()
        return any(bool(capabilities.get(name)) for name in ("amx_bf16", "avx512_bf16"))
    return False


def keep_large_buffers() -> None:
    """Tells glibc to keep freed memory instead of returning it to the kernel at every free.

    The buffers of a training step come back in the next one; without this each of them is mapped and zeroed anew by the
    kernel. Other C libraries simply go without.
    """
    if sys.platform.startswith("linux") and platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, 1 << 30)
        libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def threads_are_given() -> bool:
    """Whether the user has said how many threads a process may have."""
    return "OMP_NUM_THREADS" in os.environ


def threads_for(processes: int) -> int:
    """The threads of each of so many processes, so that all cores have work, unless OMP_NUM_THREADS says otherwise."""
    return int(os.environ["OMP_NUM_THREADS"]) if threads_are_given() else max(1, cores() // processes)


@contextlib.contextmanager
def using_threads(count: int | None) -> Iterator[None]:
    """torch works with so many threads meanwhile; None leaves it as it is."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def ready(device: DeviceName) -> "torch.device":
    """Prepares this process for heavy work and says where it is done."""
    import torch

    chosen = choose_device(device)
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    keep_large_buffers()
    if not threads_are_given():
        torch.set_num_threads(cores())
    return chosen


def peak_memory() -> int:
    """The most bytes that this process has held so far; 0 where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def describe() -> dict[str, str | int]:
    """The conditions of a run, for its record."""
    import torch

    return {
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "kernels": native.name() or "torch",
    }


def cores() -> int:
    """Those that this process may use, which can be fewer than the machine has."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:  # a container may have all cores for a part of the time
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return max(1, min(allowed, int(quota) // int(period)))
    except (OSError, ValueError):  # there is no such limit
        return allowed


def free_memory() -> int | None:
    """The bytes that new processes could have; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return None


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
