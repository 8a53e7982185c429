"""A value that is planted and has no use: whoever sends it out is denied, recorded, and stopped if so set.

Each attack has its good twin: the same request without the value passes.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from wsproto.connection import ConnectionState
from wsproto.events import CloseConnection, Event, Ping, TextMessage

from egress.proxy.engine import Sandbox
from tests.proxy.lab.certs import HTTP2, Certificates
from tests.proxy.lab.client import Peer
from tests.proxy.lab.http2 import Call, Http2Client, Http2Upstream
from tests.proxy.lab.raw import RawUpstream
from tests.proxy.lab.stack import NAME, SANDBOX, Stack
from tests.proxy.lab.websocket import Socket, open_websocket

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


# Other ways to say it -------------------------------------------------------------------------------


async def whole(call: Call) -> None:
    """Answer who sends all of it; a stream that was reset gets nothing more."""
    await call.conversation.until(lambda: call.stream.complete or call.stream.reset is not None)
    if call.stream.reset is None:
        await call.begin(200, end=True)


@pytest.mark.parametrize("where", ["path", "header", "body"])
async def test_over_http2_it_is_denied_and_recorded(tmp_path: Path, where: str) -> None:
    async with Http2Upstream(CERTS.good(NAME, alpn=HTTP2)) as upstream:
        open_rules = rules(upstream.port).replace("/32] }", "/32], http2: true }")
        async with Stack(tmp_path, CERTS, open_rules) as stack:
            value, host = value_in(stack), f"{NAME}:{upstream.port}"
            target = f"/whole/{value}" if where == "path" else "/whole"
            extra = (("x-token", value),) if where == "header" else ()
            body = b"a=" + value.encode() if where == "body" else b"a"
            upstream.handle("/whole", whole)
            peer = await stack.visit(upstream, NAME, "h2")
            async with Http2Client(peer.channel) as client:
                assert (await client.post(host, target, body, *extra)).status == 403
                # The connection lives on for what carries none.
                assert (await client.post(host, "/whole", b"a=" + value.encode()[:-1])).status == 200
            assert codes(stack) == ["canary.seen", "rule.allowed"]
            assert blamed(stack) == ["canaries#decoy", f"{NAME}#host"]
            assert all(line["alpn"] == "h2" for line in stack.exchanges())
            assert value not in str(stack.lines())
            assert all(value.encode() not in call.body for call in upstream.requests)


async def _to_the_end(socket: Socket) -> None:
    """Take what still comes, and say goodbye to whoever does."""
    while (event := await socket.receive()) is not None:
        if isinstance(event, CloseConnection) and socket.protocol.state is ConnectionState.REMOTE_CLOSING:
            await socket.send(event.response())


SAID: dict[str, Callable[[str], list[Event]]] = {
    "a message": lambda value: [TextMessage(f"look: {value}")],
    "two frames of one message": lambda value: [
        TextMessage(value[:20], message_finished=False),
        TextMessage(value[20:]),
    ],
    "a ping": lambda value: [Ping(value.encode())],
    "a close": lambda value: [CloseConnection(1000, value)],
}


@pytest.mark.parametrize("way", SAID)
async def test_in_a_frame_of_a_websocket_it_ends_the_connection(
    tmp_path: Path, upstream: RawUpstream, way: str
) -> None:
    socketed = rules(upstream.port).replace("/32] }", "/32], allow: [{ id: ws, websocket: true }] }")
    async with Stack(tmp_path, CERTS, socketed) as stack:
        value = value_in(stack)
        for is_whole in (False, True):
            async with await stack.visit(upstream) as peer:
                socket = await open_websocket(peer.channel, f"{NAME}:{upstream.port}", "/ws")
                assert socket.response is not None
                assert socket.response.status == 101
                await socket.send(TextMessage("hello"))
                assert await socket.receive() == TextMessage("hello")
                for event in SAID[way](value if is_whole else value[:-1]):
                    await socket.send(event)
                if not is_whole and way != "a close":
                    # What is nearly one goes through, and so does what comes after it.
                    await socket.send(TextMessage("close"))
                await _to_the_end(socket)
                assert (socket.closed is not None and socket.closed.code == 1000) is not is_whole
        assert codes(stack) == ["rule.allowed", "canary.seen"]
        assert blamed(stack) == [f"{NAME}#ws", "canaries#decoy"]
        assert value not in str(stack.lines())
