"""The parts of MCP that requests ask for, as rules judge them: tools, resources, prompts and methods."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from egress.inspect.mcp.message import ClientMessage, MessageError, has_alike
from egress.inspect.strict_json import JsonValue

TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
MAX_NAME_CHARS: Final = 4096
"""Characters of the address of a resource, or the name of a prompt."""

PartKind = Literal["resource", "prompt"]


@dataclass(frozen=True, slots=True)
class McpToolCall:
    """A call of a tool."""

    tool: str
    arguments: Mapping[str, JsonValue] | None = field(default=None, compare=False, repr=False)
    """None where they are not known, as of a request in the log."""

    def __str__(self) -> str:
        return f"tools/call {self.tool}"


@dataclass(frozen=True, slots=True)
class NamedPart:
    """A request about one resource or one prompt."""

    kind: PartKind
    method: str
    name: str

    def __str__(self) -> str:
        return f"{self.method} {self.name}"


@dataclass(frozen=True, slots=True)
class PlainMethod:
    """A request or notification that is judged by its method alone."""

    method: str

    def __str__(self) -> str:
        return self.method


@dataclass(frozen=True, slots=True)
class ClientReply:
    """A response of the client to a request of the server."""

    method: str = ""
    """The method of that request; empty where no such request is open in the session."""

    def __str__(self) -> str:
        return f"response to {self.method or 'no open request'}"


@dataclass(frozen=True, slots=True)
class InputReply:
    """Responses to requests that the server put into an earlier result, inside of a request."""

    def __str__(self) -> str:
        return "inputResponses"


@dataclass(frozen=True, slots=True)
class SessionUse:
    """A GET of the event stream of a session, or a DELETE that ends it."""

    method: Literal["GET", "DELETE"]

    def __str__(self) -> str:
        return "event stream" if self.method == "GET" else "end of the session"


McpItem = McpToolCall | NamedPart | PlainMethod | ClientReply | InputReply | SessionUse

RESOURCE_METHODS: Final = frozenset({"resources/read", "resources/subscribe", "resources/unsubscribe"})
"""Methods about one resource, by its address."""
_COMPLETION_REFS: Final[Mapping[str, tuple[PartKind, str]]] = {
    "ref/prompt": ("prompt", "name"),
    "ref/resource": ("resource", "uri"),
}


def requested_parts(message: ClientMessage) -> tuple[McpItem, ...]:
    """Return the parts that a message asks for. Raises `MessageError`."""
    if message.is_response:
        return (ClientReply(),)
    asked = _requested_part(message)
    return (asked, InputReply()) if "inputResponses" in message.params else (asked,)


def mirrored_name(message: ClientMessage) -> str | None:
    """Return the name that the head of a request repeats in Mcp-Name; None for a method without one."""
    names = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
    name = message.params.get(names.get(message.method, ""))
    return name if isinstance(name, str) else None


def _requested_part(message: ClientMessage) -> McpItem:
    method, params = message.method, message.params
    if method == "tools/call":
        return _read_call(message)
    if method in RESOURCE_METHODS:
        return NamedPart("resource", method, _read_name(message, params, "uri"))
    if method == "prompts/get":
        return NamedPart("prompt", method, _read_name(message, params, "name"))
    if method == "completion/complete":
        ref = params.get("ref")
        kind = ref.get("type") if isinstance(ref, dict) else None
        known = _COMPLETION_REFS.get(kind) if isinstance(kind, str) else None
        if known is None or not isinstance(ref, dict) or has_alike(ref):
            raise MessageError("mcp.message", "`ref` is not one of a prompt or resource", message.message_id)
        return NamedPart(known[0], method, _read_name(message, ref, known[1]))
    return PlainMethod(method)


def _read_call(message: ClientMessage) -> McpToolCall:
    name, arguments = message.params.get("name"), message.params.get("arguments", {})
    if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
        raise MessageError("mcp.message", "`name` is not the name of a tool", message.message_id)
    if not isinstance(arguments, dict):
        raise MessageError("mcp.message", "`arguments` is not an object", message.message_id)
    return McpToolCall(name, arguments)


def _read_name(message: ClientMessage, within: Mapping[str, JsonValue], key: str) -> str:
    name = within.get(key)
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARS:
        raise MessageError("mcp.message", f"`{key}` is not a text of a usual length", message.message_id)
    return name
