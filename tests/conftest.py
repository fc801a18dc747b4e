"""Shared by all tests: one thread, here and in the processes that tests start, so that numbers and times are steady."""

import os
from collections.abc import Iterator

os.environ["OMP_NUM_THREADS"] = "1"  # read when torch is imported
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import hypothesis
import pytest
import torch

from attendo import pace
from tests.trained import tiny, trained  # noqa: F401 (fixtures for all)

hypothesis.settings.load_profile("ci")  # the same examples each time, and all the time they need


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """What is written is there for all processes at once. Only a power failure would need it on the disk as well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def short_trials() -> Iterator[None]:
    """How long a step takes is measured by a few of them: what is tested does not depend on it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pace, "SHORT", (3, pace.SHORT[1]))
        patch.setattr(pace, "LONG", (7, pace.LONG[1]))
        yield
