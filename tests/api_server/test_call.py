"""Requests are read strictly, and every error has one shape."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egress.api.schema import MAX_BODY_BYTES, Problem
from egress.api_server.call import problem_from, problem_response
from egress.runtime.errors import SandboxNotFoundError
from tests.api_server.lab import ApiLab, api_lab
from tests.tiers import examples

WRONG_BODIES = [
    b"{",
    b"[]",
    b'"text"',
    b"\xff\xfe",
    b'{"image": 5}',
    b'{"colour": "red"}',
    b'{"env": {"A": 1}}',
    b'{"limits": {"memory": 5}}',
    b"[" * 100_000,
]


@pytest.mark.parametrize("body", WRONG_BODIES, ids=range(len(WRONG_BODIES)))
def test_a_body_that_does_not_fit_is_refused_and_makes_nothing(lab: ApiLab, body: bytes) -> None:
    answer = lab.ask("PUT", "/v1/sandboxes/one", body)
    assert (answer.status, answer.body["type"]) == (400, "request.invalid")
    assert lab.estate.fleet.list() == ()


def test_a_body_that_is_too_long_is_refused(lab: ApiLab) -> None:
    answer = lab.ask("PUT", "/v1/sandboxes/one", b" " * (MAX_BODY_BYTES + 1))
    assert (answer.status, answer.body["type"]) == (400, "request.invalid")


@pytest.mark.parametrize("query", ["?x=1", "?label=a=b&x=1", "?label"])
def test_a_query_that_does_not_fit_is_refused(lab: ApiLab, query: str) -> None:
    answer = lab.ask("GET", f"/v1/sandboxes{query}")
    assert (answer.status, answer.body["type"]) == (400, "request.invalid")


def test_a_query_names_each_parameter_once(lab: ApiLab) -> None:
    lab.running()
    answer = lab.ask("GET", "/v1/sandboxes/one/archive?path=/a&path=/b")
    assert (answer.status, answer.body["type"]) == (400, "request.invalid")


def test_a_value_is_never_repeated_in_the_problem(lab: ApiLab) -> None:
    answer = lab.ask("PUT", "/v1/sandboxes/one", {"env": {"A": "hush-hush"}, "timeout": "hush-hush"})
    assert answer.status == 400
    assert "hush" not in json.dumps(answer.body)


def test_an_expected_error_keeps_its_text_and_an_unexpected_one_loses_it() -> None:
    told = problem_from(SandboxNotFoundError("no sandbox is named x", "create it first"))
    assert told == Problem(type="sandbox.not_found", message="no sandbox is named x", hint="create it first")
    hidden = problem_from(RuntimeError("hush-hush"))
    assert hidden.type == "fleet.fault"
    assert "hush" not in hidden.message
    assert problem_response(hidden).status_code == 500
    assert problem_response(told).status_code == 404


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/sandboxes/", "/v2/about", "/v1/sandboxes/one/unknown"])
def test_a_path_without_a_call_is_a_problem_as_well(lab: ApiLab, path: str) -> None:
    answer = lab.ask("GET", path)
    assert (answer.status, answer.body["type"]) == (404, "api.not_found")


def test_a_method_without_a_call_is_a_problem_as_well(lab: ApiLab) -> None:
    answer = lab.ask("PATCH", "/v1/about")
    assert (answer.status, answer.body["type"]) == (405, "api.method")
    assert "openapi.json" in answer.body["hint"]


def test_an_unknown_field_is_answered_with_the_fields_there_are(lab: ApiLab) -> None:
    body = lab.ask("PUT", "/v1/sandboxes/one", {"memory": "2g"}).body
    assert body["hint"].startswith("the fields are ")
    assert {"limits", "timeout"} <= set(body["hint"].removeprefix("the fields are ").split(", "))
    query = lab.ask("GET", "/v1/sandboxes?x=1").body
    assert query["hint"] == "the fields are label"
    inner = lab.ask("PUT", "/v1/sandboxes/one", {"limits": {"disc": 1}}).body
    assert inner["hint"] == "see /v1/openapi.json"


names = st.text(max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
FIELDS = [
    "image",
    "env",
    "labels",
    "limits",
    "mounts",
    "ports",
    "timeout",
    "owner",
    "start",
    "user",
    "command",
    "argv",
]


def test_any_json_at_all_is_answered_and_never_a_fault() -> None:
    with api_lab() as lab:
        lab.running("there")

        @settings(max_examples=examples(40))
        @given(
            target=st.sampled_from(["/v1/sandboxes/new", "/v1/sandboxes/there", "/v1/ready"]),
            body=st.dictionaries(st.sampled_from(FIELDS), values, max_size=4),
        )
        def ask(target: str, body: dict[str, object]) -> None:
            answer = lab.ask("PUT", target, body)
            assert answer.status < 500, answer.body
            assert answer.status < 300 or set(answer.body) == {"type", "message", "hint"}
            lab.estate.fleet.remove("new")

        ask()
