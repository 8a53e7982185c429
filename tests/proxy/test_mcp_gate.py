"""MCP rules in a whole proxy: every numbered request of the table, over each protocol.

The upstream counts what reaches it, so an allowed request is the positive control of every denied one.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.client import dial
from tests.proxy.lab.http2 import Http2Client
from tests.proxy.lab.proxy_stack import NAME, ProxyStack
from tests.proxy.lab.raw_upstream import RawUpstream, ReadBody, Say
from tests.unit.inspect.mcp.vectors import ALLOWED, RULE, VECTORS, Vector

CERTS = Certificates()
ACCEPTED = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"


def rules(port: int, rule: str = RULE) -> str:
    return f"""
version: 1
hosts:
  {NAME}:
    ports: [{port}]
    http: [{port}]
    addresses: [127.0.0.1/32]
    allow:
      - {{id: all, paths: ["/**"]}}
      - {{id: tools, paths: [/mcp], {rule}}}
"""


def wire(vector: Vector, port: int, start: str = "") -> bytes:
    fields = "".join(f"{name}: {value}\r\n" for name, value in vector.headers)
    head = f"POST {start}/mcp HTTP/1.1\r\nhost: {NAME}:{port}\r\n{fields}"
    head += f"content-length: {len(vector.body)}"
    return f"{head}\r\n\r\n".encode() + vector.body


def check_denial(vector: Vector, status: int, body: bytes) -> None:
    """A denial is an error of JSON-RPC with the id of its request, as far as that can be read."""
    assert status == vector.status, vector.number
    said = json.loads(body)
    assert said["error"]["data"]["code"] == vector.code, vector.number
    assert vector.item in said["error"]["message"], vector.number
    if vector.item and status == 200:
        assert said["id"] == json.loads(vector.body)["id"], vector.number


@pytest.mark.parametrize("scheme", ["https", "http"])
async def test_the_table_over_http1(tmp_path: Path, scheme: str) -> None:
    async with (
        RawUpstream(CERTS.good(NAME) if scheme == "https" else None) as upstream,
        ProxyStack(tmp_path, CERTS, rules(upstream.port)) as stack,
    ):
        upstream.script("/mcp", ReadBody(), Say(ACCEPTED))
        for vector in VECTORS:
            if scheme == "https":
                peer, start = await stack.visit(upstream), ""
            else:
                peer, start = await dial(stack.proxy), f"http://{NAME}:{upstream.port}"
            async with peer:
                response = await peer.request(wire(vector, upstream.port, start))
            is_allowed = vector.code == ALLOWED
            assert response.header("egress-denied") == (None if is_allowed else vector.code), vector.number
            if not is_allowed:
                check_denial(vector, response.status, response.body)
    passed = [vector.body for vector in VECTORS if vector.code == ALLOWED]
    assert [request.body for request in upstream.requests] == passed


async def test_the_table_over_http2(tmp_path: Path) -> None:
    vectors = [each for each in VECTORS if each.number not in ("7 two", "9 twice")]
    async with (
        RawUpstream(CERTS.good(NAME)) as upstream,
        ProxyStack(tmp_path, CERTS, rules(upstream.port)) as stack,
        await stack.visit(upstream, NAME, "h2") as peer,
        Http2Client(peer.channel) as client,
    ):
        upstream.script("/mcp", ReadBody(), Say(ACCEPTED))
        for vector in vectors:
            stream = await client.post(f"{NAME}:{upstream.port}", "/mcp", vector.body, *vector.headers)
            is_allowed = vector.code == ALLOWED
            assert stream.header("egress-denied") == (None if is_allowed else vector.code), vector.number
    passed = [vector.body for vector in vectors if vector.code == ALLOWED]
    assert [request.body for request in upstream.requests] == passed


async def test_the_log_names_the_tool_and_has_the_status_that_was_sent(tmp_path: Path) -> None:
    denied = next(each for each in VECTORS if each.number == "5 extra")
    async with (
        RawUpstream(CERTS.good(NAME)) as upstream,
        ProxyStack(tmp_path, CERTS, rules(upstream.port)) as stack,
        await stack.visit(upstream) as peer,
    ):
        response = await peer.request(wire(denied, upstream.port))
        (line,) = stack.exchanges()
    facts = line["facts"]
    assert isinstance(facts, dict)
    assert (line["status"], line["code"], line["verdict"]) == (200, "mcp.arguments", "deny")
    assert response.status == 200
    assert facts["mcp_tool"] == "create_issue"
    assert facts["mcp_arguments"] == "repo labels draft count assignee"
    assert facts["body_item"] == "tools/call create_issue"
    assert "mallory" not in json.dumps(line)
