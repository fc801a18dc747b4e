"""Shared by all tests: one thread, here and in the processes that tests start, so that numbers and times are steady."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # read when torch is imported
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import pytest
import torch

from tests.trained import tiny, trained  # noqa: F401 (fixtures for all)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)
