"""The OpenAPI document is complete, and its references lead somewhere."""

from __future__ import annotations

import json
import re

from egress.api.openapi import openapi_document
from egress.api.operations import OPERATIONS

DOCUMENT = openapi_document("1.2.3", is_owner=True)


def test_each_operation_stands_at_its_path() -> None:
    found = {each["operationId"] for methods in DOCUMENT["paths"].values() for each in methods.values()}
    assert found == set(OPERATIONS)


def test_every_reference_leads_to_a_schema() -> None:
    names = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(DOCUMENT)))
    assert names
    assert names <= set(DOCUMENT["components"]["schemas"])


def test_parts_of_paths_and_queries_are_parameters() -> None:
    parameters = DOCUMENT["paths"]["/v1/sandboxes/{name}/archive"]["get"]["parameters"]
    assert [(each["name"], each["in"], each["required"]) for each in parameters] == [
        ("name", "path", True),
        ("path", "query", True),
    ]


def test_a_port_has_no_call_of_the_owner_and_wants_a_token() -> None:
    document = openapi_document("1.2.3", is_owner=False)
    assert "/v1/shutdown" not in document["paths"]
    assert document["security"] == [{"token": []}]
    operations = [each for methods in document["paths"].values() for each in methods.values()]
    assert [each["operationId"] for each in operations if "security" in each] == ["probe"]


def test_a_field_that_every_answer_has_is_required_and_one_of_a_request_is_not() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert set(schemas["CommandResult"]["required"]) == set(schemas["CommandResult"]["properties"])
    assert schemas["OutputEventView"]["required"] == ["offset", "next"]
    assert schemas["CommandSettings"]["required"] == []
