"""JSON-RPC 2.0 as the Model Context Protocol has it: one message at a time, read strictly and within bounds.

A message is one JSON object. Batches are refused: no version of the protocol that clients still speak needs
them. A member that the specification does not name is refused, since it may change the meaning of others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

MAX_MESSAGE_BYTES: Final = 8 * 1024 * 1024
"""The longest message: a file that is written is a part of one."""
_MAX_ID_CHARS: Final = 256
_MAX_ID: Final = 2**63
_NO_PARAMS: Final[Mapping[str, Any]] = MappingProxyType({})

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

type RequestId = int | str


class RpcError(Exception):
    """A message that is answered with an error. The text repeats no value of the message."""

    def __init__(
        self,
        code: int,
        message: str,
        *,
        request_id: RequestId | None = None,
        data: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.request_id = request_id
        self.data = data


@dataclass(frozen=True, slots=True)
class RpcRequest:
    """A message that wants an answer."""

    request_id: RequestId
    method: str
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RpcNotification:
    """A message that wants none."""

    method: str
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RpcReply:
    """An answer of the other side. This server asks nothing, so it is dropped."""


type RpcMessage = RpcRequest | RpcNotification | RpcReply


class _Envelope(Struct, frozen=True, forbid_unknown_fields=True):
    jsonrpc: Literal["2.0"]
    id: int | str | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: dict[str, Any] | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_DECODER: Final = msgspec.json.Decoder(_Envelope)


def read_message(data: bytes) -> RpcMessage:
    """Read a message. Raises `RpcError` for any other bytes, with its id if that can be told."""
    if len(data) > MAX_MESSAGE_BYTES:
        raise RpcError(PARSE_ERROR, f"the message has more than {MAX_MESSAGE_BYTES} bytes")
    try:
        said = _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise _unreadable(data) from None
    request_id = said.id
    if request_id is not UNSET and request_id is not None and not is_id(request_id):
        raise RpcError(INVALID_REQUEST, "the id is neither a number nor a short text")
    params = _NO_PARAMS if said.params is UNSET else said.params
    if said.method is not UNSET:
        if said.result is not UNSET or said.error is not UNSET:
            raise RpcError(INVALID_REQUEST, "a message is a request or an answer, not both")
        if request_id is UNSET:
            return RpcNotification(said.method, params)
        if request_id is None:
            raise RpcError(INVALID_REQUEST, "the id of a request is null")
        return RpcRequest(request_id, said.method, params)
    if (said.result is UNSET) == (said.error is UNSET) or said.params is not UNSET or request_id is UNSET:
        raise RpcError(INVALID_REQUEST, "the message is neither a request nor an answer")
    return RpcReply()


def is_id(value: object) -> bool:
    """Return whether a value may be an id."""
    if isinstance(value, str):
        return len(value) <= _MAX_ID_CHARS
    return isinstance(value, int) and not isinstance(value, bool) and -_MAX_ID <= value < _MAX_ID


def _unreadable(data: bytes) -> RpcError:
    """The error for bytes that are no message: JSON of another form, or no JSON at all."""
    try:
        said = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return RpcError(PARSE_ERROR, "the message is not JSON")
    found = said.get("id") if isinstance(said, dict) else None
    return RpcError(
        INVALID_REQUEST,
        "the message is not one JSON-RPC 2.0 object",
        request_id=found if is_id(found) else None,
    )


def result_message(request_id: RequestId, result: Mapping[str, object]) -> bytes:
    """Return the answer to a request: one line of JSON, without its end."""
    return msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "result": result})


def error_message(error: RpcError) -> bytes:
    """Return an error as an answer; without an id, the id is null."""
    told: dict[str, object] = {"code": error.code, "message": error.message}
    if error.data is not None:
        told["data"] = error.data
    return msgspec.json.encode({"jsonrpc": "2.0", "id": error.request_id, "error": told})


def notification_message(method: str, params: Mapping[str, object]) -> bytes:
    """Return a notification."""
    return msgspec.json.encode({"jsonrpc": "2.0", "method": method, "params": params})
