"""Requests of MCP clients by number, and what becomes of each.

The same table is for the rules alone and for a whole proxy. The rule in force is `RULE`, at /mcp.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass

JSON_TYPE = "application/json"
ALLOWED = "rule.allowed"
RULE = (
    "mcp: {tools: [search_issues, {name: create_issue, when: {repo: [acme/app], "
    "'labels/*': [bug, 'agent-*'], draft: true, count: {max: 10}}, only: true}], "
    "resources: ['repo://acme/**']}"
)
ARGUMENTS = {"repo": "acme/app", "labels": ["bug", "agent-7"], "draft": True, "count": 10}


def message(method: str, message_id: object = 7, **params: object) -> bytes:
    said = {"jsonrpc": "2.0", "id": message_id, "method": method, "params": params}
    return json.dumps(said).encode()


def call(tool: str, **arguments: object) -> bytes:
    return message("tools/call", name=tool, arguments=arguments)


def create(**changed: object) -> bytes:
    """A call of the tool with conditions, with other arguments; None takes one away."""
    given = {**ARGUMENTS, **changed}
    return call("create_issue", **{name: value for name, value in given.items() if value is not None})


def typed(*types: str) -> tuple[tuple[str, str], ...]:
    return tuple(("content-type", each) for each in types)


def routed(**headers: str) -> tuple[tuple[str, str], ...]:
    return (*typed(JSON_TYPE), *((name.replace("_", "-"), value) for name, value in headers.items()))


def encoded(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


@dataclass(frozen=True)
class Vector:
    number: str
    body: bytes
    code: str = ALLOWED
    item: str = ""
    headers: tuple[tuple[str, str], ...] = typed(JSON_TYPE)
    status: int = 200
    """Of the denial: a request is answered with an error of JSON-RPC in an answer of status 200."""


SEARCH = call("search_issues", query="is:open")
CREATE = "tools/call create_issue"
NAMED = routed(mcp_method="tools/call", mcp_name="search_issues")
VECTORS = (
    Vector("1", SEARCH),
    Vector("2", call("delete_repo"), "mcp.tool", "tools/call delete_repo"),
    Vector("2 case", call("Search_Issues"), "mcp.tool", "tools/call Search_Issues"),
    Vector("2 notification", b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x"}}', "mcp.tool",
           "tools/call x", status=403),
    Vector("3", b"[" + SEARCH + b"]", "mcp.batch", status=403),
    Vector("4", create()),
    Vector("4 number", create(count=1.0)),
    Vector("5 labels empty", create(labels=[]), "mcp.arguments", CREATE),
    Vector("5 labels", create(labels=["bug", "urgent"]), "mcp.arguments", CREATE),
    Vector("5 draft", create(draft=1), "mcp.arguments", CREATE),
    Vector("5 count text", create(count="3"), "mcp.arguments", CREATE),
    Vector("5 count", create(count=11), "mcp.arguments", CREATE),
    Vector("5 repo missing", create(repo=None), "mcp.arguments", CREATE),
    Vector("5 repo list", create(repo=["acme/app"]), "mcp.arguments", CREATE),
    Vector("5 repo letters", create(Repo="acme/other"), "mcp.arguments", CREATE),
    Vector("5 extra", create(assignee="mallory"), "mcp.arguments", CREATE),
    Vector("6", b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"search_issues",'
           b'"name":"delete_repo"}}', "json.duplicate_key", status=400),
    Vector("6 letters", message("tools/call", name="search_issues", Name="delete_repo"),
           "json.duplicate_key", status=400),
    Vector("6 escaped", b'{"jsonrpc":"2.0","id":7,"method":"ping","\\u006dethod":"tools/call"}',
           "json.duplicate_key", status=400),
    Vector("6 letters of method", b'{"jsonrpc":"2.0","id":7,"method":"ping","Method":"tools/call"}',
           "json.duplicate_key", status=400),
    Vector("7 text", SEARCH, "body.type", headers=typed("text/plain"), status=403),
    Vector("7 sequence", SEARCH, "body.type", headers=typed("application/json-seq"), status=403),
    Vector("7 none", SEARCH, "body.type", headers=(), status=403),
    Vector("7 two", SEARCH, "body.type", headers=typed(JSON_TYPE, "text/plain"), status=403),
    Vector("8 resource", message("resources/read", uri="file:///etc/passwd"), "mcp.resource",
           "resources/read file:///etc/passwd"),
    Vector("8 resource allowed", message("resources/read", uri="repo://acme/app/README")),
    Vector("8 resource dots", message("resources/read", uri="repo://acme/../other/x"), "mcp.resource",
           "resources/read repo://acme/../other/x"),
    Vector("8 resource escapes", message("resources/read", uri="repo://acme/%2e%2e/other"), "mcp.resource",
           "resources/read repo://acme/%2e%2e/other"),
    Vector("8 prompt", message("prompts/get", name="review"), "mcp.prompt", "prompts/get review"),
    Vector("8 method", message("subscriptions/listen"), "mcp.method", "subscriptions/listen"),
    Vector("8 unknown method", message("tools/delete"), "mcp.method", "tools/delete"),
    Vector("8 completion", message("completion/complete", ref={"type": "ref/prompt", "name": "review"}),
           "mcp.prompt", "completion/complete review"),
    Vector("9", create(), "mcp.header_mismatch", headers=NAMED, status=400),
    Vector("9 same", SEARCH, headers=NAMED),
    Vector("9 method", SEARCH, "mcp.header_mismatch", headers=routed(mcp_method="tools/list"), status=400),
    Vector("9 twice", SEARCH, "mcp.header_mismatch", headers=(*NAMED, ("mcp-name", "search_issues")),
           status=400),
    Vector("9 folded", SEARCH, "mcp.header_mismatch", headers=(*NAMED, ("mcp_name", "delete_repo")),
           status=400),
    Vector("9 base64", SEARCH, headers=routed(mcp_name=encoded("search_issues"))),
    Vector("9 base64 other", SEARCH, "mcp.header_mismatch", headers=routed(mcp_name=encoded("delete_repo")),
           status=400),
    Vector("9 parameter", create(), headers=routed(mcp_param_repo="acme/app")),
    Vector("9 parameter other", create(), "mcp.header_mismatch", headers=routed(mcp_param_repo="acme/other"),
           status=400),
    Vector("9 revision", SEARCH, headers=routed(mcp_protocol_version="2025-11-25")),
    Vector("9 revision unknown", SEARCH, "mcp.version", headers=routed(mcp_protocol_version="2099-01-01"),
           status=400),
    Vector("10", b'{"jsonrpc":"2.0","id":7,"result":{}}', "mcp.reply", "response to no open request",
           status=403),
    Vector("10 both", b'{"jsonrpc":"2.0","id":7,"method":"ping","result":{}}', "mcp.message", status=400),
    Vector("11", SEARCH, "mcp.session", headers=routed(mcp_session_id="foreign"), status=404),
    Vector("81 event", SEARCH, "mcp.session", headers=routed(last_event_id="4"), status=404),
    Vector("74 null", b'{"jsonrpc":"2.0","id":null,"method":"ping"}', "mcp.message", status=400),
    Vector("74 version", b'{"jsonrpc":"1.0","id":7,"method":"ping"}', "mcp.message", status=400),
    Vector("74 member", b'{"jsonrpc":"2.0","id":7,"method":"ping","extra":1}', "mcp.message", status=400),
    Vector("75 free", message("tools/list")),
    Vector("75 notification", b'{"jsonrpc":"2.0","method":"notifications/initialized"}'),
    Vector("79 input", message("tools/call", name="search_issues", inputResponses={}), "mcp.reply",
           "inputResponses"),
)  # fmt: skip
