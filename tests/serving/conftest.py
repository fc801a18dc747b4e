"""One server for the tests that only ask."""

from collections.abc import Iterator

import pytest

from attendo.translator import Translator
from tests.serving.running import Running, running


@pytest.fixture(scope="session")
def server(tiny: Translator) -> Iterator[Running]:
    with running({"numerals": tiny}) as found:
        yield found
