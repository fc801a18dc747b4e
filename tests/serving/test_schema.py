"""What the server says of itself, held against what it does, by schemathesis."""

from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


def hold(server: Any, examples: int) -> None:
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    held = 0
    for result in schema.get_all_operations():
        operation: Any = result.ok()  # type: ignore[union-attr]

        @hypothesis.settings(max_examples=examples, suppress_health_check=list(hypothesis.HealthCheck))
        @hypothesis.given(case=operation.as_strategy())
        def asked(case: Any) -> None:
            case.call_and_validate(checks=CHECKS)

        asked()
        held += 1
    assert held >= 9


def test_the_description_holds(server):
    hold(server, 5)


@pytest.mark.proof
def test_the_description_holds_for_long(server):
    hold(server, 500)
