"""Messages of clients: one object of JSON-RPC, in one reading."""

from __future__ import annotations

import json

import pytest

from egress.inspect.mcp.message import (
    MAX_ID_CHARS,
    ClientMessage,
    MessageError,
    has_alike,
    is_message_id,
    read_client_message,
)
from egress.inspect.strict_json import JsonFloat, JsonValue


def said(**members: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def refusal(data: bytes) -> tuple[str, object]:
    with pytest.raises(MessageError) as caught:
        read_client_message(data)
    return caught.value.code, caught.value.message_id


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (said(id=1, method="ping"), ClientMessage("ping", 1, {})),
        (
            said(id="a", method="tools/list", params={"cursor": "c"}),
            ClientMessage("tools/list", "a", {"cursor": "c"}),
        ),
        (
            said(id=1, method="x/y", params={"_meta": {}, "arguments": {}, "Cursor": "c"}),
            ClientMessage("x/y", 1, {"_meta": {}, "arguments": {}, "Cursor": "c"}),
        ),
        (said(method="notifications/initialized"), ClientMessage("notifications/initialized", None, {})),
        (said(id=3, result={}), ClientMessage("", 3, {})),
        (said(id=3, error={}), ClientMessage("", 3, {})),
    ],
)
def test_a_message_is_read(data: bytes, message: ClientMessage) -> None:
    found = read_client_message(data)
    assert found == message
    assert found.is_response is (not message.method)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "body.json"),
        (b"1", "mcp.message"),
        (b"[]", "mcp.batch"),
        (b'{"id":5,"method":"ping"}', "mcp.message"),
        (said(id=5, method="ping", extra=1), "mcp.message"),
        (said(id=5), "mcp.message"),
        (said(id=5, method="ping", error={}), "mcp.message"),
        (said(id=5, result={}, error={}), "mcp.message"),
        (said(result={}), "mcp.message"),
        (said(id=5, result={}, params={}), "mcp.message"),
        (said(id=5, method=""), "mcp.message"),
        (said(id=5, method="a b"), "mcp.message"),
        (said(id=5, method=1), "mcp.message"),
        (said(id=5, method="ping", params=[]), "mcp.message"),
        (said(id=5, method="ping", params=None), "mcp.message"),
        (said(id=5, method="ping", params={"a": 1, "A": 2}), "json.duplicate_key"),
        (said(id=5, method="tools/call", params={"name": "x", "Arguments": {"force": True}}), "mcp.message"),
        (said(id=5, method="tools/call", params={"name": "x", "argument\u017f": {}}), "mcp.message"),
        (said(id=5, method="tools/call", params={"name": "x", "inputresponses": {}}), "mcp.message"),
        (b'{"jsonrpc":"2.0","id":5,"method":"ping","METHOD":"x"}', "json.duplicate_key"),
    ],
)
def test_anything_else_is_refused_with_its_id(data: bytes, code: str) -> None:
    assert refusal(data) == (code, 5 if b'"id": 5' in data or b'"id":5' in data else None)


@pytest.mark.parametrize("message_id", [None, True, 1.0, [], {}, "x" * (MAX_ID_CHARS + 1)])
def test_an_odd_id_is_refused(message_id: object) -> None:
    assert refusal(said(id=message_id, method="ping")) == ("mcp.message", None)


def test_ids_are_texts_and_integers() -> None:
    good: list[JsonValue] = [0, -1, "", "a"]
    odd: list[JsonValue] = [True, None, JsonFloat("1.0"), [], {}]
    assert all(is_message_id(each) for each in good)
    assert not any(is_message_id(each) for each in odd)


def test_names_are_alike_in_other_letters() -> None:
    assert has_alike(["a", "A"])
    assert has_alike(["k", "\N{KELVIN SIGN}"])
    assert not has_alike(["a", "b"])
