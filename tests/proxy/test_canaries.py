"""A value that is planted and has no use: whoever sends it out is denied, recorded, and stopped if so set.

Each attack has its good twin: the same request without the value passes.
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from wsproto.connection import ConnectionState
from wsproto.events import CloseConnection, Event, Ping, TextMessage

from egress.proxy.lanes.engine import ServedSandbox
from tests.proxy.lab.certificates import HTTP2, Certificates
from tests.proxy.lab.client import Peer, RefusedError, at, connect
from tests.proxy.lab.http2 import Call, Http2Client, Http2Upstream
from tests.proxy.lab.proxy_stack import NAME, SANDBOX, ProxyStack
from tests.proxy.lab.raw_upstream import RawUpstream
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


def value_in(stack: ProxyStack) -> str:
    canaries = stack.engine.sandboxes[SANDBOX].canaries(stack.engine.policy)
    assert canaries is not None
    return canaries.all[0].value


async def posted(peer: Peer, host: str, body: bytes) -> int:
    head = f"POST /echo HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    return (await peer.request(head + body)).status


def codes(stack: ProxyStack) -> list[object]:
    return [line["code"] for line in stack.exchanges()]


def blamed(stack: ProxyStack) -> list[object]:
    """What the lines name as their reason: a rule, or a canary."""
    return [line["rule"] for line in stack.exchanges()]


@pytest.mark.parametrize("where", ["path", "query", "header", "basic"])
async def test_in_a_head_it_is_denied_and_recorded(tmp_path: Path, upstream: RawUpstream, where: str) -> None:
    async with ProxyStack(tmp_path, CERTS, rules(upstream.port)) as stack:
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
    async with ProxyStack(tmp_path, CERTS, rules(upstream.port)) as stack:
        value, host = value_in(stack).encode(), f"{NAME}:{upstream.port}"
        async with await stack.visit(upstream) as peer:
            assert await posted(peer, host, b"a=" + value) == 403
        async with await stack.visit(upstream) as peer:
            assert await posted(peer, host, b"a=" + value[:-1]) == 200
        assert codes(stack) == ["canary.seen", "rule.allowed"]
        assert blamed(stack) == ["canaries#decoy", f"{NAME}#host"]
        assert [line["verdict"] for line in stack.exchanges()] == ["deny", "allow"]
        assert len(upstream.links) == 1, "the upstream got nothing of the first request, not even its head"
        assert value.decode() not in str(stack.lines())


async def test_far_into_a_body_it_is_cut(tmp_path: Path, upstream: RawUpstream) -> None:
    async with ProxyStack(tmp_path, CERTS, rules(upstream.port)) as stack:
        value, host = value_in(stack).encode(), f"{NAME}:{upstream.port}"
        async with await stack.visit(upstream) as peer:
            assert await posted(peer, host, b"x" * 1_000_000 + value) == 403
        async with await stack.visit(upstream) as peer:
            assert await posted(peer, host, b"x" * 1_000_000 + value[:-1]) == 200
        assert [(line["verdict"], line["code"]) for line in stack.exchanges()] == [
            ("cut", "canary.seen"),
            ("allow", "rule.allowed"),
        ]


async def test_it_is_seen_before_the_rules_are_asked(tmp_path: Path, upstream: RawUpstream) -> None:
    closed = rules(upstream.port).replace("/32] }", "/32], methods: [PUT] }")
    async with ProxyStack(tmp_path, CERTS, closed) as stack:
        async with await stack.visit(upstream) as peer:
            await peer.get(f"/{value_in(stack)}", f"{NAME}:{upstream.port}")
        assert codes(stack) == ["canary.seen"]


async def test_where_it_is_set_the_sandbox_is_named_to_be_stopped(
    tmp_path: Path, upstream: RawUpstream
) -> None:
    async with ProxyStack(tmp_path, CERTS, rules(upstream.port, stop=True)) as stack:
        heard: asyncio.Queue[ServedSandbox] = asyncio.Queue()
        stack.engine.on_canary = heard.put_nowait
        async with await stack.visit(upstream) as peer:
            assert (await peer.get("/echo", f"{NAME}:{upstream.port}")).status == 200
            assert heard.empty()
            await peer.get(f"/{value_in(stack)}", f"{NAME}:{upstream.port}")
        assert await heard.get() is stack.engine.sandboxes[SANDBOX]
        assert "canary.stopped" in codes(stack)


# In a name ------------------------------------------------------------------------------------------

NAMED = """
version: 1
canaries:
  decoy: { like: LIKE, stop: STOP }
hosts:
  "*.example.test": { ports: [PORT], addresses: [127.0.0.1/32], intercept: never }
"""


def named(port: int, like: str, *, stop: bool = False) -> str:
    return NAMED.replace("LIKE", like).replace("PORT", str(port)).replace("STOP", str(stop).lower())


async def unread(stack: ProxyStack, upstream: RawUpstream, name: str = NAME, sni: str | None = None) -> Peer:
    """A client that talks to the upstream itself."""
    return await connect(at(upstream.port), name, CERTS.trust(("http/1.1",)), proxy=stack.proxy, sni=sni)


def hosts(stack: ProxyStack) -> list[tuple[object, ...]]:
    """What refusals say of what was asked for, and why it was refused."""
    told = ("code", "rule", "host", "sni")
    return [tuple(line[each] for each in told) for line in stack.lines() if line["event"] == "refusal"]


@pytest.mark.parametrize(
    ("like", "name"), [("aws", "x.{}.example.test"), ("aws", "{}.evil.test"), ("github", "{}.example.test")]
)
async def test_in_the_host_of_a_connect_it_is_denied_and_masked(
    tmp_path: Path, upstream: RawUpstream, like: str, name: str
) -> None:
    """Also of a host that is passed on unread, that no rule names, and that is no host name for its `_`."""
    async with ProxyStack(tmp_path, CERTS, named(upstream.port, like)) as stack:
        value = value_in(stack).lower()
        with pytest.raises(RefusedError) as refused:
            await unread(stack, upstream, name.format(value))
        assert refused.value.response.status == 403
        async with await unread(stack, upstream):
            pass
        [(code, rule, host, _)] = hosts(stack)
        assert (code, rule) == ("canary.seen", "canaries#decoy")
        assert str(host).partition(":")[0] == name.format("*" * len(value))
        assert value not in str(stack.lines()).lower()


async def test_in_another_sni_than_the_host_it_is_denied_and_masked(
    tmp_path: Path, upstream: RawUpstream
) -> None:
    async with ProxyStack(tmp_path, CERTS, named(upstream.port, "aws")) as stack:
        value = value_in(stack).lower()
        for sni in (f"{value}.example.test", "other.example.test"):
            with pytest.raises((OSError, ssl.SSLError)):
                await unread(stack, upstream, sni=sni)
        assert hosts(stack) == [
            ("canary.seen", "canaries#decoy", NAME, f"{'*' * len(value)}.example.test"),
            ("request.mismatch", None, NAME, "other.example.test"),
        ]


async def test_in_a_host_it_stops_the_sandbox_where_that_is_set(
    tmp_path: Path, upstream: RawUpstream
) -> None:
    async with ProxyStack(tmp_path, CERTS, named(upstream.port, "aws", stop=True)) as stack:
        heard: asyncio.Queue[ServedSandbox] = asyncio.Queue()
        stack.engine.on_canary = heard.put_nowait
        async with await unread(stack, upstream):
            assert heard.empty()
        with pytest.raises(RefusedError):
            await unread(stack, upstream, f"{value_in(stack)}.example.test")
        assert heard.get_nowait() is stack.engine.sandboxes[SANDBOX]
        assert hosts(stack)[0][0] == "canary.stopped"


async def test_as_a_method_it_is_denied_and_masked(tmp_path: Path, upstream: RawUpstream) -> None:
    aws = rules(upstream.port).replace("github", "aws")
    async with ProxyStack(tmp_path, CERTS, aws) as stack:
        value = value_in(stack)
        async with await stack.visit(upstream) as peer:
            head = f"{value} /echo HTTP/1.1\r\nHost: {NAME}:{upstream.port}\r\n\r\n"
            assert (await peer.request(head.encode())).status == 403
        assert [(line["code"], line["method"]) for line in stack.exchanges()] == [("canary.seen", "*" * 20)]
        assert value not in str(stack.lines())


async def test_what_is_planted_in_another_sandbox_is_not_known(tmp_path: Path, upstream: RawUpstream) -> None:
    """Nor could it be: a sandbox that could ask for it would learn what is planted there."""
    async with ProxyStack(tmp_path, CERTS, named(upstream.port, "aws")) as stack:
        mine = stack.engine.sandboxes[SANDBOX]
        other = replace(mine, placeholder_key=bytes(31) + b"x", _canaries=("", None))
        canaries = other.canaries(stack.engine.policy)
        assert canaries is not None
        value = canaries.all[0].value.lower()
        async with await stack.visit(upstream, f"{value}.evil.test") as peer:
            assert (await peer.get("/", f"{value}.evil.test:{upstream.port}")).status == 403
        [line] = stack.exchanges()
        assert (line["code"], line["rule"], line["host"]) == ("host.unknown", None, f"{value}.evil.test")


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
        async with ProxyStack(tmp_path, CERTS, open_rules) as stack:
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
    "two frames and a ping between": lambda value: [
        TextMessage(value[:20], message_finished=False),
        Ping(b"x"),
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
    async with ProxyStack(tmp_path, CERTS, socketed) as stack:
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
