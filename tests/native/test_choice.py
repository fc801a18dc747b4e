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
    def old(*_: object, **__: object) -> None:
        raise AttributeError("undefined symbol: widest")

    monkeypatch.setattr(native, "opened", old)
    assert native.there() == []
