"""MCP as a kind of body."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from egress.errors import CODES
from egress.inspect.inspector import (
    Facts,
    FactValue,
    Inspector,
    Refusal,
    RefusalAnswer,
    Unreadable,
    fact_text,
)
from egress.inspect.mcp.message import ClientMessage, MessageError, MessageId, read_client_message
from egress.inspect.mcp.requested import (
    ClientReply,
    McpItem,
    McpToolCall,
    NamedPart,
    PlainMethod,
    SessionUse,
    requested_parts,
)
from egress.inspect.mcp.routing_headers import RoutingError, RoutingHeaders, read_routing_headers
from egress.inspect.whole_body import NoBody, WholeBody
from egress.types import Head

MAX_MCP_BYTES: Final = 1024 * 1024
DENIED_ERROR: Final = -32010
"""The JSON-RPC code of a denial. The SDKs have taken -32001 for their own time-outs, which callers repeat."""
_MISMATCH_ERROR: Final = -32020
_POLICY_STATUS: Final = 403


@dataclass(frozen=True, slots=True)
class McpAsked:
    """What the answer to a request depends on."""

    message_id: MessageId | None = None
    method: str = ""
    """Of the message; empty for a response, and for a request without a body."""
    is_request: bool = False
    """The message expects an answer."""
    session: str | None = None
    http_method: str = "POST"

    @property
    def is_response(self) -> bool:
        """The message answers a request of the server."""
        return self.http_method == "POST" and not self.method


class McpKind:
    """Messages of MCP clients over streamable HTTP."""

    name = "mcp"
    methods = frozenset({"POST", "GET", "DELETE"})
    max_held_bytes = MAX_MCP_BYTES
    media_types = frozenset({"application/json"})
    codings = frozenset[str]()

    def begin(self, head: Head) -> Inspector | Facts | Unreadable:
        try:
            headers = read_routing_headers(head)
        except RoutingError as error:
            return Unreadable(error.code, error.detail)
        if headers.last_event is not None and headers.session is None:
            return Unreadable("mcp.session", "an event is named, and no session")
        if head.method == "POST":
            return WholeBody(partial(read_mcp, headers))
        method: Literal["GET", "DELETE"] = "GET" if head.method == "GET" else "DELETE"
        if headers.session is None:
            return Unreadable("mcp.transport", "a GET or DELETE names no session")
        asked = McpAsked(session=headers.session, http_method=method)
        facts = Facts((SessionUse(method),), {"mcp_method": method}, context=asked)
        return NoBody(facts, Unreadable("mcp.message", "a GET or DELETE has a body"))

    def answer(self, refusal: Refusal, found: Facts | Unreadable | None) -> RefusalAnswer:
        context = None if found is None else found.context
        asked = context if isinstance(context, McpAsked) else McpAsked()
        known = CODES.get(refusal.code)
        status = _POLICY_STATUS if known is None else known.status
        if asked.is_request and status == _POLICY_STATUS:
            # Clients hand an error in an answer of status 200 to their caller, and nothing else.
            status = 200
        texts = {"code": refusal.code, "hint": refusal.hint, "rule": refusal.rule}
        data = {key: text for key, text in texts.items() if text}
        code = _MISMATCH_ERROR if refusal.code == "mcp.header_mismatch" else DENIED_ERROR
        error = {
            "code": code,
            "message": refusal.sentence,
            "data": {key: text for key, text in data.items() if text},
        }
        body = json.dumps({"jsonrpc": "2.0", "id": asked.message_id, "error": error})
        return RefusalAnswer(status, "application/json", body.encode() + b"\n")

    def recall(self, log: Mapping[str, FactValue]) -> Facts | None:
        """Return the facts behind findings in the log; None where some are missing or were cut."""
        method = log.get("mcp_method")
        tool, resource, prompt = (log.get(f"mcp_{name}", "") for name in ("tool", "resource", "prompt"))
        texts = [method, tool, resource, prompt]
        if not method or not all(isinstance(text, str) and not text.endswith("…") for text in texts):
            return None
        item: McpItem
        if tool:
            # Its arguments are not in the log.
            item = McpToolCall(str(tool), {} if log.get("mcp_arguments", "") == "" else None)
        elif resource or prompt:
            item = NamedPart("resource" if resource else "prompt", str(method), str(resource or prompt))
        elif method in ("GET", "DELETE"):
            item = SessionUse("GET" if method == "GET" else "DELETE")
        else:
            item = ClientReply() if method == "response" else PlainMethod(str(method))
        return Facts((item,), log)


def read_mcp(headers: RoutingHeaders, data: bytes) -> Facts | Unreadable:
    """Read the body of a POST with these headers."""
    try:
        message = read_client_message(data)
        headers.check_body(message)
        items = requested_parts(message)
    except MessageError as error:
        asked = McpAsked(error.message_id, is_request=error.message_id is not None)
        return Unreadable(error.code, error.detail, asked)
    return mcp_facts(items, message, headers, len(data))


def mcp_facts(
    items: tuple[McpItem, ...], message: ClientMessage, headers: RoutingHeaders, read: int
) -> Facts:
    """Return the facts of a message."""
    log: dict[str, FactValue] = {"mcp_method": fact_text(message.method) or "response"}
    for item in items:
        if isinstance(item, McpToolCall):
            log["mcp_tool"] = item.tool
            if item.arguments:
                log["mcp_arguments"] = fact_text(" ".join(item.arguments))
        elif isinstance(item, NamedPart):
            log[f"mcp_{item.kind}"] = fact_text(item.name)
    is_request = message.message_id is not None and not message.is_response
    asked = McpAsked(message.message_id, message.method, is_request, headers.session)
    return Facts(items, log, read, context=asked)
