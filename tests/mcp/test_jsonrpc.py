"""Messages are read strictly and within bounds: whatever comes is a message or one kind of error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.mcp.jsonrpc import (
    INVALID_REQUEST,
    MAX_MESSAGE_BYTES,
    PARSE_ERROR,
    RpcError,
    RpcNotification,
    RpcReply,
    RpcRequest,
    error_message,
    is_id,
    notification_message,
    read_message,
    result_message,
)

_NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
_JSON = st.recursive(
    st.none() | st.booleans() | _NUMBERS | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
_IDS = st.integers(-(2**63), 2**63 - 1) | st.text(max_size=256)
_MEMBERS = st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "extra"])
_ENVELOPES = st.dictionaries(_MEMBERS, _JSON | st.sampled_from(["2.0", "tools/list", {}, 1]))


def error_of(data: bytes) -> RpcError | None:
    try:
        read_message(data)
    except RpcError as error:
        return error
    return None


def refusal(data: bytes) -> RpcError:
    error = error_of(data)
    assert error is not None
    return error


def line(**members: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


@given(_IDS, st.text(max_size=50), st.dictionaries(st.text(max_size=10), _JSON, max_size=4))
def test_a_request_is_read_as_it_was_written(found: int | str, method: str, params: dict[str, Any]) -> None:
    assert read_message(line(id=found, method=method, params=params)) == RpcRequest(found, method, params)
    assert read_message(line(method=method, params=params)) == RpcNotification(method, params)
    assert read_message(line(method=method)) == RpcNotification(method, {})


def test_answers_of_the_client_are_dropped() -> None:
    assert read_message(line(id=1, result={})) == RpcReply()
    assert read_message(line(id=None, error={"code": 1, "message": "no"})) == RpcReply()


@given(st.binary(max_size=200) | _JSON.map(lambda value: json.dumps(value).encode()))
def test_whatever_comes_is_a_message_or_an_error(data: bytes) -> None:
    error = error_of(data)
    if error is not None:
        assert error.code in (PARSE_ERROR, INVALID_REQUEST)
        assert json.loads(error_message(error))["error"]["code"] == error.code


@given(_ENVELOPES)
def test_an_object_is_a_message_or_names_its_id_if_it_has_one(found: dict[str, Any]) -> None:
    data = json.dumps(found).encode()
    error = error_of(data)
    if error is not None:
        assert error.code == INVALID_REQUEST
        assert error.request_id is None or error.request_id == found["id"]
        return
    message = read_message(data)
    assert found["jsonrpc"] == "2.0"
    assert "extra" not in found
    if isinstance(message, RpcRequest):
        assert (message.request_id, message.method) == (found["id"], found["method"])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b'{"jsonrpc": "2.0", "id": 1, "method": "a"} {}',
        b"\xff\xfe",
        b'{"jsonrpc": "2.0", "id": 1, "method": "\xff"}',
        b"[" * 100_000,
        b'{"jsonrpc":"2.0","id":1,"method":"a","params":' + b'{"a":' * 50_000,
        b"NaN",
    ],
)
def test_no_json_is_a_parse_error(data: bytes) -> None:
    assert (refusal(data).code, refusal(data).request_id) == (PARSE_ERROR, None)


@pytest.mark.parametrize(
    "members",
    [
        {"id": 1},
        {"id": None, "method": "a"},
        {"id": 1, "method": 1},
        {"id": 1, "method": "a", "params": []},
        {"id": 1, "method": "a", "params": None},
        {"id": 1, "method": "a", "result": {}},
        {"id": 1, "result": {}, "error": {}},
        {"id": 1, "method": "a", "more": 1},
        {"id": 1, "jsonrpc": "1.0", "method": "a"},
        {"result": {}},
    ],
)
def test_json_of_another_form_is_no_request(members: dict[str, object]) -> None:
    assert refusal(line(**members)).code == INVALID_REQUEST


@pytest.mark.parametrize("found", [True, 1.5, [], {}, "x" * 257, 2**63])
def test_an_id_of_another_form_is_not_repeated(found: object) -> None:
    error = refusal(line(id=found, method="a"))
    assert (error.code, error.request_id) == (INVALID_REQUEST, None)
    assert not is_id(found)


def test_batches_are_refused() -> None:
    assert refusal(b"[" + line(id=1, method="ping") + b"]").code == INVALID_REQUEST


def test_a_message_has_a_bound() -> None:
    padding = "x" * (MAX_MESSAGE_BYTES - len(line(id=1, method="")))
    assert isinstance(read_message(line(id=1, method=padding)), RpcRequest)
    assert refusal(line(id=1, method=f"{padding}x")).code == PARSE_ERROR


@given(_IDS, st.dictionaries(st.text(max_size=10), st.text(max_size=50), max_size=4))
def test_a_message_is_one_line(found: int | str, values: dict[str, object]) -> None:
    for made in (result_message(found, values), notification_message("a", values)):
        assert b"\n" not in made
        assert json.loads(made)["jsonrpc"] == "2.0"
