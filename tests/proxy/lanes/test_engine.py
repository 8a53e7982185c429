"""The engine while it runs: rules are swapped under load, and what was allowed is taken back."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from egress.proxy.lanes.connection import AdmittedConnection
from egress.rules.decide.policy import Policy
from egress.types import Identity
from tests.proxy.lab.certificates import HTTP2, Certificates
from tests.proxy.lab.channel import End, EndedError
from tests.proxy.lab.client import Peer
from tests.proxy.lab.failing_call import FIRST, LAST, in_two_parts
from tests.proxy.lab.http2 import Http2Client, Http2Upstream
from tests.proxy.lab.proxy_stack import NAME, ProxyStack, policy_of
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.lab.upstream_request import UpstreamRequest
from tests.proxy.lab.websocket import open_websocket

CERTS = Certificates()
SOON = 10.0
"""Seconds in which everything here is over; nothing takes nearly as long."""


def rules(port: int, *allowed: str, closed: bool = False) -> str:
    """Rules that let these paths through."""
    listed = "\n".join(
        f'      - {{id: r{n}, paths: ["{path}"], websocket: {str(path == "/ws").lower()}}}'
        for n, path in enumerate(allowed)
    )
    entry = f"""
  {NAME}:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    http2: true
    allow:
{listed}
"""
    return f"version: 1\nhosts:\n  else.example.test: {{}}\n{'' if closed else entry}"


def head(upstream: RawUpstream, path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: {NAME}:{upstream.port}\r\n\r\n".encode()


async def endless(upstream: RawUpstream, visit: UpstreamRequest) -> None:
    """Server-sent events until nobody listens."""
    await visit.begin("200 OK", (("transfer-encoding", "chunked"),), "text/event-stream")
    while True:
        await visit.chunk(b"data: x\n\n")
        await asyncio.sleep(0.001)


@pytest.fixture
async def upstream() -> AsyncIterator[RawUpstream]:
    async with RawUpstream(CERTS.good(NAME)) as upstream:
        upstream.handle("/sse", lambda visit: endless(upstream, visit))
        upstream.handle("/story", lambda visit: in_two_parts(upstream, visit))
        yield upstream


@pytest.fixture(autouse=True)
async def in_time() -> AsyncIterator[None]:
    async with asyncio.timeout(SOON):
        yield


async def rest(peer: Peer) -> bytes:
    """What still comes, to the end."""
    return await peer.channel.everything()


# Taking back (S-80) -------------------------------------------------------------------------------


async def test_a_stream_that_is_not_allowed_any_more_ends(tmp_path: Path, upstream: RawUpstream) -> None:
    """S-80: server-sent events, by a rule that is gone."""
    async with ProxyStack(tmp_path, CERTS, rules(upstream.port, "/sse")) as stack:
        async with await stack.visit(upstream) as peer:
            await peer.send(head(upstream, "/sse"))
            await peer.channel.until(b"data: x")
            stack.engine.swap(policy_of(rules(upstream.port, "/other")))
            await rest(peer)
            assert peer.channel.end is not End.CLEAN
        assert [line["code"] for line in stack.exchanges()] == ["access.withdrawn"]
        await upstream.until(lambda: upstream.links[0].closed)


async def test_a_stream_that_is_still_allowed_goes_on(tmp_path: Path, upstream: RawUpstream) -> None:
    """The control: other rules, the same verdict."""
    async with ProxyStack(tmp_path, CERTS, rules(upstream.port, "/story")) as stack:
        async with await stack.visit(upstream) as peer:
            await peer.send(head(upstream, "/story"))
            await peer.channel.until(FIRST)
            stack.engine.swap(policy_of(rules(upstream.port, "/other", "/story")))
            upstream.released.set()
            await peer.channel.until(LAST)
            await peer.channel.until(b"0\r\n\r\n")
        assert [line["code"] for line in stack.exchanges()] == ["rule.allowed"]


async def test_a_websocket_that_is_not_allowed_any_more_ends(tmp_path: Path, upstream: RawUpstream) -> None:
    """S-80."""
    async with ProxyStack(tmp_path, CERTS, rules(upstream.port, "/ws")) as stack:
        async with await stack.visit(upstream) as peer:
            await open_websocket(peer.channel, f"{NAME}:{upstream.port}")
            stack.engine.swap(policy_of(rules(upstream.port, "/other")))
            await rest(peer)
        assert [line["code"] for line in stack.exchanges()] == ["access.withdrawn"]
        await upstream.until(lambda: upstream.links[0].closed)


@pytest.mark.parametrize("is_busy", [True, False])
async def test_every_connection_to_a_host_that_is_closed_ends(
    tmp_path: Path, upstream: RawUpstream, is_busy: bool
) -> None:
    """S-80: one with a response under way, and one that is idle between two requests."""
    async with ProxyStack(tmp_path, CERTS, rules(upstream.port, "/**")) as stack:
        async with await stack.visit(upstream) as peer:
            if is_busy:
                await peer.send(head(upstream, "/sse"))
                await peer.channel.until(b"data: x")
            else:
                assert (await peer.get("/echo", f"{NAME}:{upstream.port}")).status == 200
            stack.engine.swap(policy_of(rules(upstream.port, closed=True)))
            await rest(peer)
        codes = [line["code"] for line in stack.exchanges()]
        assert codes == (["access.withdrawn"] if is_busy else ["rule.allowed"])
        await upstream.until(lambda: upstream.links[0].closed)


async def test_of_streams_on_one_connection_only_those_that_are_concerned_end(tmp_path: Path) -> None:
    """S-80 over HTTP/2."""
    async with (
        Http2Upstream(CERTS.good(NAME, alpn=HTTP2)) as upstream,
        ProxyStack(tmp_path, CERTS, rules(9, "/stall", "/never-reads")) as stack,
    ):
        stack.engine.swap(policy_of(rules(upstream.port, "/stall", "/never-reads")))
        peer = await stack.visit(upstream, NAME, "h2")
        async with Http2Client(peer.channel) as client:
            where = f"{NAME}:{upstream.port}"
            fields = (
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", where),
                (":path", "/stall"),
            )
            stays = await client.start_with(fields, end=True)
            goes = await client.start(where, "/never-reads", method="POST")
            await client.conversation.until(lambda: b"beginning" in stays.body)
            await upstream.until(lambda: len(upstream.requests) == 2)
            stack.engine.swap(policy_of(rules(upstream.port, "/stall")))
            await client.conversation.until(lambda: goes.complete or goes.reset is not None)
            upstream.released.set()
            await client.conversation.until(lambda: stays.complete)
            assert stays.body.endswith(b"end\n")
        codes = sorted(str(line["code"]) for line in stack.exchanges())
        assert codes == ["access.withdrawn", "rule.allowed"]


# Under load ---------------------------------------------------------------------------------------


async def test_no_request_is_decided_by_half_of_the_rules(tmp_path: Path, upstream: RawUpstream) -> None:
    """Two sets of rules, each of which allows what the other denies: each record fits its own set."""
    count, paths = 1250, ("/a", "/b", "/both", "/both") * 2
    for path in paths:
        upstream.handle(path, upstream._handlers["/echo"])
    upstream.keeps_log = False
    async with ProxyStack(tmp_path, CERTS, rules(upstream.port, "/a", "/both")) as stack:
        a, b = stack.engine.policy, policy_of(rules(upstream.port, "/b", "/both"))
        statuses: Counter[int] = Counter()

        async def swap() -> None:
            while True:
                stack.engine.swap(b if stack.engine.policy is a else a)
                await asyncio.sleep(0.01)

        async def ask(path: str) -> None:
            peer = await stack.visit(upstream)
            for _ in range(count):
                try:
                    statuses[(await peer.get(path, f"{NAME}:{upstream.port}")).status] += 1
                except (EndedError, OSError):
                    # Cut in the middle of a response that was withdrawn.
                    statuses[0] += 1
                    peer = await stack.visit(upstream)
            await peer.channel.close()

        swapping = asyncio.create_task(swap())
        await asyncio.gather(*map(ask, paths))
        swapping.cancel()
    # What is refused more often than 20 times a second is counted, not written.
    files = sorted((tmp_path / "audit").glob("*.jsonl"))
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    records = [line for line in lines if line["event"] == "exchange"]
    folded = [line for line in lines if line["event"] == "folded"]
    allowed = {(a.digest, "/a"), (a.digest, "/both"), (b.digest, "/b"), (b.digest, "/both")}
    for record in records:
        fits = (record["policy"], record["path"]) in allowed
        assert record["code"] in ({"rule.allowed", "access.withdrawn"} if fits else {"rule.none"}), record
        stopped = {"deny", "cut"} if fits else {"deny"}
        assert record["verdict"] in ({"allow"} if record["code"] == "rule.allowed" else stopped), record
    assert {line["code"] for line in folded} <= {"rule.none"}
    written = len(records) + sum(line["count"] for line in folded)
    assert written == count * len(paths) == statuses.total()
    assert statuses[200]
    assert statuses[403]


# The engine by itself -----------------------------------------------------------------------------


class Fake:
    """A carried connection; `breaks` is what rechecking it raises."""

    secrets: frozenset[str] = frozenset()

    def __init__(self, breaks: Exception | None = None, closing: Exception | None = None) -> None:
        self.breaks = breaks
        self.closing = closing
        self.checked: list[Policy] = []
        self.closed: list[str] = []
        # The set of live connections looks at nothing else.
        who = SimpleNamespace(identity=Identity("box"))
        self.admitted = cast("AdmittedConnection", who)

    def recheck(self, policy: Policy, now: int) -> None:
        self.checked.append(policy)
        if self.breaks:
            raise self.breaks

    def drain(self) -> None:
        raise NotImplementedError

    def retire(self) -> None:
        raise NotImplementedError

    def close(self, code: str) -> None:
        self.closed.append(code)
        if self.closing:
            raise self.closing


async def test_one_connection_that_breaks_does_not_keep_the_others_open(tmp_path: Path) -> None:
    """S-80: everybody is rechecked, and what cannot be is closed."""
    async with ProxyStack(tmp_path, CERTS, rules(1, "/a")) as stack:
        fakes = [Fake(KeyError("x")), Fake(), Fake(KeyError("x"), OSError("y")), Fake()]
        for fake in fakes:
            stack.engine.live.enter(fake)
        policy = policy_of(rules(1, "/b"))
        stack.engine.swap(policy)
        assert stack.engine.policy is policy
        assert [fake.checked for fake in fakes] == [[policy]] * 4
        assert [fake.closed for fake in fakes] == [["internal"], [], ["internal"], []]
        for fake in fakes:
            stack.engine.live.leave(fake)
