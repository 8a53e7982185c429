"""Reads the messages of MCP clients: one JSON-RPC 2.0 object in a body, with the members of its form alone.

A batch is refused: no revision that clients speak today has them, and a gate that judges the first message of
an array is the oldest hole of all. So is a member in other letters, such as `Method`: some servers compare
names without case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from egress.inspect.strict_json import JsonValue, StrictJsonError, read_strict_json

MAX_ID_CHARS: Final = 256
_MEMBERS: Final = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
_JUDGED_PARAMS: Final = frozenset({"name", "arguments", "uri", "ref", "_meta", "inputResponses"})
"""Members of `params` that rules and headers are compared with."""
_FOLDED_PARAMS: Final = frozenset(name.casefold() for name in _JUDGED_PARAMS)
_METHOD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./-]{0,127}")

MessageId = str | int


class MessageError(ValueError):
    """A body that is no message which all servers read alike; its id, where that can be read."""

    def __init__(self, code: str, detail: str, message_id: MessageId | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.message_id = message_id


@dataclass(frozen=True, slots=True)
class ClientMessage:
    """A request, a notification or a response of a client."""

    method: str
    """Empty for a response."""
    message_id: MessageId | None
    """None for a notification."""
    params: Mapping[str, JsonValue]

    @property
    def is_response(self) -> bool:
        """The client answers a request of the server."""
        return not self.method


def read_client_message(data: bytes) -> ClientMessage:
    """Read a body. Raises `MessageError`, whose text never quotes the body."""
    try:
        value = read_strict_json(data)
    except StrictJsonError as error:
        raise MessageError(error.code, error.detail) from None
    if isinstance(value, list):
        raise MessageError("mcp.batch", "it is an array of messages")
    if not isinstance(value, dict):
        raise MessageError("mcp.message", "it is not an object")
    message_id = _read_id(value)
    if has_alike(value):
        raise MessageError("json.duplicate_key", "two names differ in case alone", message_id)
    if not value.keys() <= _MEMBERS:
        raise MessageError("mcp.message", "it has members that JSON-RPC does not name", message_id)
    if value.get("jsonrpc") != "2.0":
        raise MessageError("mcp.message", '`jsonrpc` is not "2.0"', message_id)
    is_response = "result" in value or "error" in value
    if is_response == ("method" in value) or ("result" in value and "error" in value):
        raise MessageError("mcp.message", "it is not either a request or a response", message_id)
    if is_response:
        if "params" in value or message_id is None:
            raise MessageError("mcp.message", "it is not a response to a request", message_id)
        return ClientMessage("", message_id, {})
    return ClientMessage(_read_method(value, message_id), message_id, _read_params(value, message_id))


def has_alike(names: Iterable[str]) -> bool:
    """Tell whether two names are one to a reader that compares them without case."""
    listed = list(names)
    return len({name.casefold() for name in listed}) != len(listed)


def is_message_id(value: JsonValue) -> bool:
    """Tell whether this is the id of a request: a text of bounded length or an integer."""
    # True is an integer to Python, and the number 1 to nobody else.
    return type(value) is int or (isinstance(value, str) and len(value) <= MAX_ID_CHARS)


def _read_id(value: Mapping[str, JsonValue]) -> MessageId | None:
    found = value.get("id")
    if isinstance(found, str | int) and is_message_id(found):
        return found
    if "id" in value:
        raise MessageError("mcp.message", "`id` is neither a text nor an integer")
    return None


def _read_method(value: Mapping[str, JsonValue], message_id: MessageId | None) -> str:
    method = value["method"]
    if not isinstance(method, str) or not _METHOD.fullmatch(method):
        raise MessageError("mcp.message", "`method` is not the name of a method", message_id)
    return method


def _read_params(value: Mapping[str, JsonValue], message_id: MessageId | None) -> Mapping[str, JsonValue]:
    params = value.get("params", {})
    if not isinstance(params, dict):
        raise MessageError("mcp.message", "`params` is not an object", message_id)
    if has_alike(params):
        raise MessageError("json.duplicate_key", "two names of `params` differ in case alone", message_id)
    # Some servers read `Arguments` as well, and the rules would see a call without any.
    if any(name.casefold() in _FOLDED_PARAMS for name in params.keys() - _JUDGED_PARAMS):
        raise MessageError("mcp.message", "a name of `params` is there in other letters", message_id)
    return params
