"""Heads of requests whose bodies are read: one type, no coding, in any spelling that some server takes."""

from __future__ import annotations

import pytest

from egress.inspect.body_head import head_refusal
from egress.inspect.kinds import KINDS
from egress.types import Head, Headers

JSON = ("content-type", "application/json")


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ((JSON,), ""),
        ((("content-type", "application/json;charset=utf-8"),), ""),
        ((("content-type", 'APPLICATION/JSON ; Charset="UTF-8"'),), ""),
        ((JSON, ("content-encoding", "identity")), ""),
        ((JSON, ("content-encoding", "")), "body.encoding"),
        ((JSON, ("content-encoding", "gzip")), "body.encoding"),
        ((JSON, ("content_encoding", "gzip")), "body.encoding"),
        ((JSON, ("content-encoding", "identity"), ("content-encoding", "br")), "body.encoding"),
        ((), "body.type"),
        ((JSON, JSON), "body.type"),
        ((JSON, ("content_type", "text/plain")), "body.type"),
        ((("content-type", "application/json, text/plain"),), "body.type"),
        ((("content-type", "application/json; charset=utf-16"),), "body.type"),
        ((("content-type", "application/json; charset=utf-8; charset=utf-7"),), "body.type"),
        ((("content-type", "application/json; charset"),), "body.type"),
        ((("content-type", "application/jsonx"),), "body.type"),
        ((("content-type", "text/json"),), "body.type"),
    ],
)
def test_a_head_is_refused_for_what_two_readers_take_differently(headers: Headers, code: str) -> None:
    head = Head("POST", "https", "api.example.test", 443, "/graphql", headers)
    found = head_refusal(KINDS["graphql"], head)
    assert (found.code if found is not None else "") == code


def test_a_get_needs_no_type() -> None:
    assert head_refusal(KINDS["graphql"], Head("GET", "https", "api.example.test", 443, "/graphql")) is None
