import pytest
import torch

from attendo import native
from attendo.native import kernels


def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    native.name.cache_clear()
    monkeypatch.setenv(native.OFF, "0")
    assert native.name() is None
    assert not kernels.serves(torch.zeros(1))
    native.name.cache_clear()


def test_the_fastest_of_those_that_run_here_is_chosen() -> None:
    native.name.cache_clear()
    assert native.name() == next(iter(native.there()), None)
    native.name.cache_clear()


def test_those_that_run_here_are_those_that_torch_knows() -> None:
    """torch has asked the processor, too."""
    known = {"AVX512": ["avx512", "avx2", "plain"], "AVX2": ["avx2", "plain"]}
    expected = known.get(torch.backends.cpu.get_cpu_capability(), ["plain"])
    assert native.there() == expected


def test_a_library_of_an_earlier_version_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    built = native.there()
    asked = native._asked
    for old in built:
        monkeypatch.setattr(native, "_asked", lambda name, what, old=old: 0 if name == old else asked(name, what))
        assert native.there() == ([name for name in built if name != old] if old != "plain" else [])
    monkeypatch.undo()
    assert native._asked("plain", "what_no_library_has") == 0
    monkeypatch.setattr(native, "VERSION", native.VERSION + 1)
    assert native.there() == []


def test_bfloat16_where_torch_knows_of_it() -> None:
    """With AMX, Linux also has to allow it."""
    capabilities = torch.cpu.get_capabilities()
    ways = {"tiles": "amx_bf16", "bfloat16": "avx512_bf16"}
    expected = next((way for way, name in ways.items() if capabilities.get(name)), None)
    assert {name: native.bfloat16(name) for name in native.there()} == {
        name: expected if name == "avx512" else None for name in native.there()
    }
