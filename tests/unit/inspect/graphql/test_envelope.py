"""Envelopes around documents, in bodies and in URLs."""

from __future__ import annotations

import json

import pytest

from egress.inspect.graphql.envelope import (
    MAX_BATCH,
    EnvelopeError,
    RootField,
    StoredDocument,
    read_body,
    read_url,
    refuse_url_parameters,
)
from tests.unit.inspect.graphql.vectors import READ, digest, envelope


def code_of(data: bytes) -> str:
    with pytest.raises(EnvelopeError) as caught:
        read_body(data)
    return caught.value.unreadable.code


def test_a_body_with_everything_it_may_have() -> None:
    body = envelope(READ, variables={"a": [1]}, operationName=None, extensions=digest(READ))
    assert [str(item) for item in read_body(body)] == ["query.viewer"]


@pytest.mark.parametrize(
    "more",
    [
        {"variables": []},
        {"variables": "{}"},
        {"operationName": ["A"]},
        {"extensions": {"other": 1}},
        {"extensions": []},
        {"extensions": {"persistedQuery": {"version": 1, "sha256Hash": "0" * 64, "more": 1}}},
        {"extensions": {"persistedQuery": 1}},
        {"id": 1},
        {"Query": "{a}"},
        {"documentId": "1"},
    ],
)
def test_an_envelope_with_more_or_other_things_is_refused(more: dict[str, object]) -> None:
    assert code_of(envelope(READ, **more)) == "graphql.envelope"


@pytest.mark.parametrize(
    "data", [b"{}", b"[]", b"[[]]", b'"{a}"', b"null", b'{"query":null}', b'{"query":["{a}"]}']
)
def test_a_value_that_is_no_envelope_is_refused(data: bytes) -> None:
    assert code_of(data) == "graphql.envelope"


@pytest.mark.parametrize("name", ["", "x" * 64, "A" * 64, "0" * 63, 1, None])
def test_a_digest_is_a_sha256_in_lower_case(name: object) -> None:
    stored = {"extensions": {"persistedQuery": {"version": 1, "sha256Hash": name}}}
    assert code_of(json.dumps(stored).encode()) == "graphql.persisted"


def test_a_batch_costs_no_more_than_one_large_document() -> None:
    """All of its documents together are as long as one may be."""
    text = "{" + "a " * 3000 + "}"
    ten, eleven = ([{"query": text}] * number for number in (10, 11))
    assert len(read_body(json.dumps(ten).encode())) == 10
    assert code_of(json.dumps(eleven).encode()) == "graphql.syntax"
    assert len(read_body(json.dumps([{"query": READ}] * MAX_BATCH).encode())) == MAX_BATCH
    assert code_of(json.dumps([{"query": READ}] * (MAX_BATCH + 1)).encode()) == "graphql.batch"


def test_operations_with_fields_in_common_have_them_once() -> None:
    operations = "".join(f"query q{number}{{...f}}" for number in range(31))
    body = envelope(f"{operations} mutation m{{a}} fragment f on Q{{a b}}", operationName="m")
    assert [str(item) for item in read_body(body)] == ["query.a", "query.b", "mutation.a"]


def test_a_batch_has_the_items_of_all_its_envelopes() -> None:
    stored = json.dumps({"extensions": digest(READ)}).encode()
    items = read_body(b"[%b,%b]" % (envelope("{a}"), stored))
    assert isinstance(items[0], RootField)
    assert isinstance(items[1], StoredDocument)
    assert [item.batch for item in items] == [2, 2]


@pytest.mark.parametrize(
    "query", ["?query=%7Ba%7D", '?query={a}&variables={"b":1}&operationName=', "?query=query+Q{a}"]
)
def test_a_url_says_what_a_body_would(query: str) -> None:
    (item,) = read_url(query)
    assert isinstance(item, RootField)
    assert (str(item), item.is_get) == ("query.a", True)


@pytest.mark.parametrize(
    "query",
    ["", "?query={a}&query={b}", "?query={a}&id=1", "?query=mutation{a}", "?query=%ff", "?query={a}&x=1",
     "?query={a}&variables=[]", "?query={a}&variables={", "?query={a}&&"],
)  # fmt: skip
def test_a_url_with_other_things_is_refused(query: str) -> None:
    with pytest.raises(EnvelopeError):
        read_url(query)


@pytest.mark.parametrize(
    "query", ["?query=", "?a=1&Query=x", "?a=1;id=2", "?query%5B%5D=x", "?%69d", "?x=1&documentId=2"]
)
def test_a_name_of_graphql_in_the_url_is_refused_beside_a_body(query: str) -> None:
    with pytest.raises(EnvelopeError):
        refuse_url_parameters(query)


def test_other_names_in_the_url_are_not() -> None:
    refuse_url_parameters("?opname=Viewer&identity=1&q=id")
