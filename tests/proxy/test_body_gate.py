"""The body gate in a whole proxy: every numbered request of the table, over each protocol.

The upstream counts what reaches it, so an allowed request is the positive control of every denied one.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.client import dial
from tests.proxy.lab.http2 import Http2Client
from tests.proxy.lab.proxy_stack import NAME, ProxyStack
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.unit.inspect.graphql.scope_vectors import SCOPE_VECTORS, SCOPED
from tests.unit.inspect.graphql.vectors import ALLOWED, RULE, VECTORS, Vector

CERTS = Certificates()


def rules(port: int, rule: str) -> str:
    return f"""
version: 1
hosts:
  {NAME}:
    ports: [{port}]
    http: [{port}]
    addresses: [127.0.0.1/32]
    allow:
      - {{id: all, paths: ["/**"]}}
      - {{id: gql, paths: [/graphql], {rule}}}
"""


def by_rule() -> list[tuple[str, list[Vector]]]:
    found: dict[str, list[Vector]] = defaultdict(list)
    for vector in (*VECTORS, *SCOPE_VECTORS):
        found[vector.rule].append(vector)
    return list(found.items())


def wire(vector: Vector, port: int, start: str = "") -> bytes:
    fields = "".join(f"{name}: {value}\r\n" for name, value in vector.headers)
    head = f"POST {start}{vector.target} HTTP/1.1\r\nhost: {NAME}:{port}\r\n{fields}"
    head += f"content-length: {len(vector.body)}"
    return f"{head}\r\n\r\n".encode() + vector.body


def check_log(lines: list[dict[str, object]], vectors: list[Vector]) -> None:
    """Every allowed request has its line; of the denied ones a full second folds some into one."""
    allowed = [line["facts"] for line in lines if line["verdict"] == "allow"]
    sizes = [len(vector.body) for vector in vectors if vector.code == ALLOWED]
    assert [facts["body_bytes"] for facts in allowed if isinstance(facts, dict)] == sizes
    facts = [found for line in lines if isinstance(found := line.get("facts"), dict)]
    seen = {each["body_item"] for each in facts if "body_item" in each}
    assert bool(seen) is any(vector.item for vector in vectors)
    assert seen <= {vector.item for vector in vectors}


@pytest.mark.parametrize("scheme", ["https", "http"])
@pytest.mark.parametrize(("rule", "vectors"), by_rule(), ids=["plain", "batch", "scope", "exempt"])
async def test_the_table_over_http1(tmp_path: Path, scheme: str, rule: str, vectors: list[Vector]) -> None:
    async with (
        RawUpstream(CERTS.good(NAME) if scheme == "https" else None) as upstream,
        ProxyStack(tmp_path, CERTS, rules(upstream.port, rule)) as stack,
    ):
        for vector in vectors:
            if scheme == "https":
                peer = await stack.visit(upstream)
                start = ""
            else:
                peer = await dial(stack.proxy)
                start = f"http://{NAME}:{upstream.port}"
            async with peer:
                response = await peer.request(wire(vector, upstream.port, start))
            is_allowed = vector.code == ALLOWED
            assert response.header("egress-denied") == (None if is_allowed else vector.code), vector.number
            if not is_allowed:
                assert response.header("content-type") == "application/json"
                assert json.loads(response.body)["errors"], vector.number
                assert vector.item in response.body.decode(), vector.number
        lines = stack.exchanges()
    passed = [vector.body for vector in vectors if vector.code == ALLOWED]
    assert [request.body for request in upstream.requests] == passed
    check_log(lines, vectors)


@pytest.mark.parametrize("rule", [RULE, SCOPED], ids=["plain", "scope"])
async def test_the_table_over_http2(tmp_path: Path, rule: str) -> None:
    table = (*VECTORS, *SCOPE_VECTORS)
    vectors = [vector for vector in table if vector.rule == rule and vector.number != "20 two types"]
    async with (
        RawUpstream(CERTS.good(NAME)) as upstream,
        ProxyStack(tmp_path, CERTS, rules(upstream.port, rule)) as stack,
        await stack.visit(upstream, NAME, "h2") as peer,
        Http2Client(peer.channel) as client,
    ):
        for vector in vectors:
            host = f"{NAME}:{upstream.port}"
            stream = await client.post(host, vector.target, vector.body, *vector.headers)
            assert stream.header("egress-denied") == (None if vector.code == ALLOWED else vector.code), (
                vector.number
            )
        lines = stack.exchanges()
    passed = [vector.body for vector in vectors if vector.code == ALLOWED]
    assert [request.body for request in upstream.requests] == passed
    check_log(lines, vectors)
