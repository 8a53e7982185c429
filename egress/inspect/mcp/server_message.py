"""Reads the messages of MCP servers, and writes lists without the entries that no rule shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from egress.inspect.mcp.message import MessageId, has_alike, is_message_id
from egress.inspect.mcp.requested import TOOL_NAME
from egress.inspect.strict_json import JsonFloat, JsonValue, StrictJsonError, read_strict_json

ServerMessageKind = Literal["request", "notification", "result", "error"]
ListedKind = Literal["tool", "resource", "prompt"]

LIST_METHODS: Final[Mapping[str, tuple[str, ListedKind, str]]] = {
    "tools/list": ("tools", "tool", "name"),
    "resources/list": ("resources", "resource", "uri"),
    "resources/templates/list": ("resourceTemplates", "resource", "uriTemplate"),
    "prompts/list": ("prompts", "prompt", "name"),
}
"""For each method of a list: the key of its entries, their kind, and the key of their names."""
MAX_LIST_ENTRIES: Final = 10_000
"""Entries of one list. Servers send longer ones in pages."""
ELICITATION: Final = "elicitation/create"
_MEMBERS: Final = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})


class ServerMessageError(ValueError):
    """Bytes that are no message which all clients read alike."""


@dataclass(frozen=True, slots=True)
class ServerMessage:
    """A message of a server."""

    kind: ServerMessageKind
    method: str
    message_id: MessageId | None
    value: Mapping[str, JsonValue]

    @property
    def result(self) -> JsonValue:
        """The result of a response; None for other messages."""
        return self.value.get("result")

    @property
    def input_requests(self) -> tuple[str, ...] | None:
        """The methods of requests inside of a response, which the client is to answer; None if malformed."""
        if self.kind == "error":
            return (ELICITATION,) if _sends_to_pages(self.value.get("error")) else ()
        result = self.result
        if not isinstance(result, Mapping):
            return ()
        # Other letters are other names, but not to every client.
        named = [name for name in result if name.casefold() == "inputrequests"]
        if not named:
            return ()
        asked = result.get("inputRequests")
        if named != ["inputRequests"] or not isinstance(asked, Mapping):
            return None
        methods = tuple(each.get("method") for each in asked.values() if isinstance(each, Mapping))
        if len(methods) != len(asked):
            return None
        texts = tuple(each for each in methods if isinstance(each, str))
        return texts if len(texts) == len(methods) else None


def _sends_to_pages(error: JsonValue) -> bool:
    """Tell whether an error asks the client to open pages first, as elicitation by URL does."""
    data = error.get("data") if isinstance(error, Mapping) else None
    return isinstance(data, Mapping) and any(name.casefold() == "elicitations" for name in data)


def read_server_message(data: bytes) -> ServerMessage:
    """Read a message. Raises `ServerMessageError`."""
    try:
        value = read_strict_json(data)
    except StrictJsonError as error:
        raise ServerMessageError(error.detail) from None
    if not isinstance(value, dict):
        raise ServerMessageError("it is not an object")
    if any(name not in _MEMBERS and name.casefold() in _MEMBERS for name in value):
        raise ServerMessageError("a member is there in other letters")
    if value.get("jsonrpc") != "2.0" or len(value.keys() & {"method", "result", "error"}) != 1:
        raise ServerMessageError("it is no message of JSON-RPC")
    message_id, method = value.get("id"), value.get("method", "")
    if message_id is not None and not is_message_id(message_id):
        raise ServerMessageError("its id is malformed")
    if not isinstance(method, str):
        raise ServerMessageError("its method is malformed")
    kind: ServerMessageKind = "result" if "result" in value else "error"
    if "method" in value:
        kind = "request" if "id" in value else "notification"
    known = message_id if isinstance(message_id, str | int) else None
    return ServerMessage(kind, method, known, value)


def filtered_list(
    message: ServerMessage, method: str, shows: Callable[[ListedKind, str], bool]
) -> tuple[bytes, int] | None:
    """Return the message without entries that are not shown, and their number; None if all are shown.

    An entry whose name cannot be read is not shown. Raises `ServerMessageError` for a result that is no list.
    """
    key, kind, name_key = LIST_METHODS[method]
    result = message.result
    if not isinstance(result, Mapping) or has_alike(result):
        raise ServerMessageError("its result is not that of a list")
    entries = result.get(key)
    if not isinstance(entries, list) or len(entries) > MAX_LIST_ENTRIES:
        raise ServerMessageError("its result has no list of a usual length")
    shown = [each for each in entries if (name := _name_of(each, kind, name_key)) and shows(kind, name)]
    if len(shown) == len(entries):
        return None
    value = {**message.value, "result": {**result, key: shown}}
    return write_json(value).encode("utf-8"), len(entries) - len(shown)


def _name_of(entry: JsonValue, kind: ListedKind, key: str) -> str:
    """Return the name of an entry; empty for one that could not be asked for by it."""
    name = entry.get(key) if isinstance(entry, Mapping) and not has_alike(entry) else None
    if not isinstance(name, str) or (kind == "tool" and not TOOL_NAME.fullmatch(name)):
        return ""
    return name


def write_json(value: JsonValue | Mapping[str, JsonValue]) -> str:
    """Write a value as it was read: numbers with a fraction keep their digits."""
    try:
        return json.dumps(value, separators=(",", ":"))
    except TypeError:
        # It holds a number with a fraction, which the writer in C does not know.
        return _written_slowly(value)


def _written_slowly(value: JsonValue | Mapping[str, JsonValue]) -> str:
    match value:
        case JsonFloat(text):
            return text
        case Mapping():
            members = (f"{json.dumps(name)}:{_written_slowly(each)}" for name, each in value.items())
            return "{" + ",".join(members) + "}"
        case list():
            return "[" + ",".join(map(_written_slowly, value)) + "]"
        case _:
            return json.dumps(value)
