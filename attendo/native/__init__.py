"""What takes most of the time on a CPU, in C, for one thread: which library serves. Without torch.

It is built when attendo is installed, if there is a C compiler, once for each instruction set that it knows. kernels.py
calls what training and the torch engine are made of, search.py a whole search.
"""

import ctypes
import functools
import importlib.util
import os
from collections.abc import Mapping
from typing import Any

OFF = "ATTENDO_NATIVE"  # the variable that turns it off, by the value 0
LANES = {"avx512": 16, "avx2": 8, "plain": 4}  # the libraries, the fastest first, with floats in a register
VERSION = 3  # of the functions, as kernels.c says it

Signatures = Mapping[str, list[Any]]  # the types of each function's arguments


def there() -> list[str]:
    """The libraries that were built and run on this processor, the fastest first."""
    built = [name for name in LANES if importlib.util.find_spec(f"{__name__}._{name}") is not None]
    built = [name for name in built if _asked(name, "version") == VERSION]  # others were not built anew
    widest = _asked("plain", "widest") if "plain" in built else 0
    return [name for name in built if LANES[name] <= widest]


@functools.cache
def name() -> str | None:
    """Which library serves, `avx512` say; None where there is none or nobody wants it."""
    return None if os.environ.get(OFF) == "0" else next(iter(there()), None)


def lanes() -> int:
    """Floats in a register: some sizes have to be multiples of it."""
    return LANES[name() or "plain"]


@functools.cache
def bfloat16(name: str) -> str | None:
    """How this library multiplies bfloat16 on this processor, as the names of its functions end: the fastest way.

    `tiles` is AMX, `bfloat16` AVX512-BF16; None: it does not, or the processor does not.
    """
    return next((way for way in ("tiles", "bfloat16") if _asked(name, f"has_{way}")), None)


def _asked(name: str, function: str) -> int:
    """What a library says of itself; 0 where it has no such function."""
    try:
        return int(getattr(opened(name, {function: []}, returns={function: ctypes.c_long}), function)())
    except AttributeError:
        return 0


def opened(name: str, signatures: Signatures, *, returns: Mapping[str, Any] | None = None) -> ctypes.CDLL:
    """A library whose functions take these; what is not said to give something gives nothing."""
    found = importlib.util.find_spec(f"{__name__}._{name}")
    assert found is not None  # whoever asks has seen that there is one
    library = ctypes.CDLL(found.origin)
    for function, arguments in signatures.items():
        getattr(library, function).argtypes = arguments
        getattr(library, function).restype = (returns or {}).get(function)
    return library
