"""Models of others begin with weights that are drawn: the same in every test, whatever ran before it."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="module")
def seeded_module() -> None:
    torch.manual_seed(4)


@pytest.fixture(autouse=True, scope="class")
def seeded_class() -> None:
    torch.manual_seed(4)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(4)
