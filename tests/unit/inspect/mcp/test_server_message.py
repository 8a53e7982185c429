"""Messages of servers: what they are, and lists without entries that are not shown."""

from __future__ import annotations

import json

import pytest

from egress.inspect.mcp.server_message import (
    MAX_LIST_ENTRIES,
    ServerMessageError,
    filtered_list,
    read_server_message,
    write_json,
)
from egress.inspect.strict_json import read_strict_json


def said(**members: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def shows(kind: str, name: str) -> bool:
    return name in ("a", f"{kind}://a")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (said(id=1, method="ping"), "request"),
        (said(id=None, method="ping"), "request"),
        (said(method="notifications/progress", params={}), "notification"),
        (said(id=1, result={}), "result"),
        (said(id=None, error={}), "error"),
        (said(id="x", result={}, extra=1), "result"),
    ],
)
def test_a_message_has_a_kind(data: bytes, kind: str) -> None:
    assert read_server_message(data).kind == kind


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"null", b'{"id":1,"result":{}}', said(id=1), said(id=1, result={}, method="x"),
        said(id=1, result={}, error={}), said(id=True, result={}), said(id=[], result={}),
        said(id=1, method=1), said(id=1, result={}, Method="x"), said(id=1, method="ping", Id=2),
        b'{"jsonrpc":"2.0","id":1,"result":{},"result":{}}', said(id=1, result={})[:-1],
    ],
)  # fmt: skip
def test_anything_that_clients_read_differently_is_refused(data: bytes) -> None:
    with pytest.raises(ServerMessageError):
        read_server_message(data)


@pytest.mark.parametrize(
    ("method", "key", "entries", "left"),
    [
        ("tools/list", "tools", [{"name": "a"}, {"name": "b"}], [{"name": "a"}]),
        ("tools/list", "tools", [{"name": "a"}, {"name": 1}, {}, "a"], [{"name": "a"}]),
        ("tools/list", "tools", [{"name": "a", "Name": "b"}], []),
        ("resources/list", "resources", [{"uri": "resource://a"}, {"name": "a"}], [{"uri": "resource://a"}]),
        ("resources/templates/list", "resourceTemplates", [{"uriTemplate": "a"}, {}], [{"uriTemplate": "a"}]),
        ("prompts/list", "prompts", [{"name": "b"}, {"name": "prompt://a"}], [{"name": "prompt://a"}]),
    ],
)  # fmt: skip
def test_entries_that_are_not_shown_are_left_out(
    method: str, key: str, entries: list[object], left: list[object]
) -> None:
    message = read_server_message(said(id=1, result={key: entries, "nextCursor": "c", "n": [1.50, 1e3]}))
    found = filtered_list(message, method, shows)
    assert found is not None
    assert json.loads(found[0])["result"] == {key: left, "nextCursor": "c", "n": [1.5, 1000.0]}
    assert found[1] == len(entries) - len(left)


def test_a_list_with_nothing_to_hide_stays_as_it_is() -> None:
    assert (
        filtered_list(read_server_message(said(id=1, result={"tools": [{"name": "a"}]})), "tools/list", shows)
        is None
    )


@pytest.mark.parametrize(
    "result",
    [
        [],
        "x",
        {},
        {"tools": {}},
        {"tools": [], "Tools": []},
        {"Tools": []},
        {"tools": [{}] * (MAX_LIST_ENTRIES + 1)},
    ],
)
def test_a_result_that_is_no_list_is_refused(result: object) -> None:
    with pytest.raises(ServerMessageError):
        filtered_list(read_server_message(said(id=1, result=result)), "tools/list", shows)


@pytest.mark.parametrize(
    ("result", "methods"),
    [
        ({}, ()),
        ([], ()),
        ({"inputRequests": {}}, ()),
        ({"inputRequests": {"a": {"method": "roots/list"}, "b": {"method": "x"}}}, ("roots/list", "x")),
        ({"inputRequests": []}, None),
        ({"inputRequests": {"a": 1}}, None),
        ({"inputRequests": {"a": {}}}, None),
        ({"InputRequests": {}}, None),
        ({"inputRequests": {}, "InputRequests": {}}, None),
    ],
)
def test_requests_inside_of_a_result_are_named(result: object, methods: object) -> None:
    assert read_server_message(said(id=1, result=result)).input_requests == methods


@pytest.mark.parametrize("text", ['{"a":[1,1.50,-2e-7,true,null,"\\u00e9\\""],"b":{}}', "[]", '"x"'])
def test_a_value_is_written_as_it_was_read(text: str) -> None:
    assert write_json(read_strict_json(text.encode())) == text
