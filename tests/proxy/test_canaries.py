"""A value that is planted and has no use: whoever sends it out is denied, recorded, and stopped if so set.

Each attack has its good twin: the same request without the value passes.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from egress.proxy.engine import Sandbox
from tests.proxy.lab.certs import Certificates
from tests.proxy.lab.client import Peer
from tests.proxy.lab.raw import RawUpstream
from tests.proxy.lab.stack import NAME, SANDBOX, Stack

CERTS = Certificates()


def rules(port: int, *, stop: bool = False) -> str:
    return f"""
version: 1
canaries:
  decoy: {{ like: github, stop: {str(stop).lower()} }}
hosts:
  {NAME}: {{ ports: [{port}], addresses: [127.0.0.1/32] }}
"""


@pytest.fixture
async def upstream() -> AsyncIterator[RawUpstream]:
    async with RawUpstream(CERTS.good(NAME)) as upstream:
        yield upstream


def value_in(stack: Stack) -> str:
    canaries = stack.engine.sandboxes[SANDBOX].canaries(stack.engine.policy)
    assert canaries is not None
    return canaries.all[0].value


async def posted(peer: Peer, host: str, body: bytes) -> int:
    head = f"POST /echo HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    return (await peer.request(head + body)).status


def codes(stack: Stack) -> list[object]:
    return [line["code"] for line in stack.exchanges()]


def blamed(stack: Stack) -> list[object]:
    """What the lines name as their reason: a rule, or a canary."""
    return [line["rule"] for line in stack.exchanges()]


@pytest.mark.parametrize("where", ["path", "query", "header", "basic"])
async def test_in_a_head_it_is_denied_and_recorded(tmp_path: Path, upstream: RawUpstream, where: str) -> None:
    async with Stack(tmp_path, CERTS, rules(upstream.port)) as stack:
        value, host = value_in(stack), f"{NAME}:{upstream.port}"
        target = {"path": f"/echo/{value}", "query": f"/echo?q={value}"}.get(where, "/echo")
        basic = b64encode(f"user:{value}".encode()).decode()
        extra = {"header": f"x-token: {value}\r\n", "basic": f"authorization: Basic {basic}\r\n"}.get(
            where, ""
        )
        async with await stack.visit(upstream) as peer:
            assert (await peer.get(target, host, extra)).status == 403
        async with await stack.visit(upstream) as peer:
            assert (await peer.get("/echo", host)).status == 200
        assert codes(stack) == ["canary.seen", "rule.allowed"]
        assert blamed(stack) == ["canaries#decoy", f"{NAME}#host"]
        assert value not in str(stack.lines())


async def test_in_a_body_it_is_cut_off(tmp_path: Path, upstream: RawUpstream) -> None:
    async with Stack(tmp_path, CERTS, rules(upstream.port)) as stack:
        value, host = value_in(stack).encode(), f"{NAME}:{upstream.port}"
        async with await stack.visit(upstream) as peer:
            assert await posted(peer, host, b"a=" + value) == 403
        async with await stack.visit(upstream) as peer:
            assert await posted(peer, host, b"a=" + value[:-1]) == 200
        assert codes(stack) == ["canary.seen", "rule.allowed"]
        assert blamed(stack) == ["canaries#decoy", f"{NAME}#host"]
        assert value.decode() not in str(stack.lines())


async def test_it_is_seen_before_the_rules_are_asked(tmp_path: Path, upstream: RawUpstream) -> None:
    closed = rules(upstream.port).replace("/32] }", "/32], methods: [PUT] }")
    async with Stack(tmp_path, CERTS, closed) as stack:
        async with await stack.visit(upstream) as peer:
            await peer.get(f"/{value_in(stack)}", f"{NAME}:{upstream.port}")
        assert codes(stack) == ["canary.seen"]


async def test_where_it_is_set_the_sandbox_is_named_to_be_stopped(
    tmp_path: Path, upstream: RawUpstream
) -> None:
    async with Stack(tmp_path, CERTS, rules(upstream.port, stop=True)) as stack:
        heard: asyncio.Queue[Sandbox] = asyncio.Queue()
        stack.engine.alarm = heard.put_nowait
        async with await stack.visit(upstream) as peer:
            assert (await peer.get("/echo", f"{NAME}:{upstream.port}")).status == 200
            assert heard.empty()
            await peer.get(f"/{value_in(stack)}", f"{NAME}:{upstream.port}")
        assert await heard.get() is stack.engine.sandboxes[SANDBOX]
        assert "canary.stopped" in codes(stack)
