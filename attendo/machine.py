"""What this computer is good at: device, threads, allocator, precision. What it has used."""

import ctypes
import os
import platform
import sys
from pathlib import Path
from typing import Literal

import torch

from attendo.errors import ConfigError

DeviceName = Literal["auto", "cpu", "cuda", "mps"]

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h


def choose_device(name: DeviceName) -> torch.device:
    """The device that was asked for, or with `auto` the fastest there is."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(kind for kind, there in available.items() if there))
    if not available[name]:
        there = ", ".join(kind for kind, is_there in available.items() if is_there)
        raise ConfigError(
            f"--device {name}: torch finds no such device here. Available: {there}, or use --device auto."
        )
    return torch.device(name)


def mixed_precision(device: torch.device) -> torch.dtype | None:
    """The lower precision that makes this device faster, or None where float32 is best."""
    if device.type == "cuda" and torch.cuda.is_bf16_supported():
        return torch.bfloat16
    return None


def keep_large_buffers() -> None:
    """Tells glibc to keep freed memory instead of returning it to the kernel at every free.

    The buffers of a training step come back in the next one; without this each of them is mapped and zeroed anew by the
    kernel. Other C libraries simply go without.
    """
    if sys.platform.startswith("linux") and platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, 1 << 30)
        libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def use_all_cores() -> None:
    """As many threads as there are cores for torch's own work, unless OMP_NUM_THREADS says otherwise."""
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(cores())


def ready(device: DeviceName) -> torch.device:
    """Prepares this process for heavy work and says where it is done."""
    chosen = choose_device(device)
    keep_large_buffers()
    use_all_cores()
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
    return {
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def cores() -> int:
    """Those that this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
