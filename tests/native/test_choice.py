import pytest
import torch

from attendo import native


def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    native.name.cache_clear()
    monkeypatch.setenv(native.OFF, "0")
    assert native.name() is None
    assert not native.serves(torch.zeros(1))
    native.name.cache_clear()


def test_the_fastest_of_those_that_run_here_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    native.name.cache_clear()
    assert native.name() == next(iter(native.there()), None)
    native.name.cache_clear()
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    assert "avx512" not in native.there()
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
    assert set(native.there()) <= {"plain"}
