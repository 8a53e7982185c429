"""What goes wrong around the proxy: each ends in a code that is documented, with one record, in bounds.

Upstreams that end, stall or lie at any byte; clients that are slow, do not read, or vanish; heads and
bodies without end; a clock that jumps; a disk that is full.
"""

from __future__ import annotations

import asyncio
import errno
import gzip
import os
import ssl
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NoReturn

import pytest
from mitmproxy.connection import Server

from egress.errors import CODES
from egress.proxy.clock import SystemClock
from egress.proxy.lanes.intercept_limits import InterceptLimits
from egress.relay.limits import RelayLimits
from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.channel import EndedError
from tests.proxy.lab.client import Peer, at, dial, open_tunnel
from tests.proxy.lab.proxy_stack import NAME, ProxyStack
from tests.proxy.lab.raw_upstream import Close, Cut, RawUpstream, Reset, Say, Stall, Step
from tests.proxy.lab.upstream_request import UpstreamRequest

CERTS = Certificates()
MEBIBYTE = 1024 * 1024
SOON = 60.0
SECRET = "sesame-open-please"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 4\r\n\r\n"
QUICK = InterceptLimits(
    client_tls=0.15,
    closing=0.15,
    relay=RelayLimits(head=0.15, response_head=0.15, silence=0.3, request_body=0.15),
)


@pytest.fixture(autouse=True)
async def in_time() -> AsyncIterator[None]:
    async with asyncio.timeout(SOON):
        yield


@pytest.fixture
async def upstream() -> AsyncIterator[RawUpstream]:
    async with RawUpstream(CERTS.good(NAME)) as upstream:
        yield upstream


def rules(folder: Path, port: int) -> str:
    (folder / "secret").write_text(SECRET)
    return f"""
version: 1
secrets:
  api: {{from: "file:{folder}/secret", hosts: ["{NAME}:{port}"]}}
hosts:
  {NAME}:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    allow:
      - {{id: all, paths: ["/**"]}}
    inject:
      - bearer: api
"""


STRICT = InterceptLimits(relay=RelayLimits(strict_tls_end=True))


def stack_of(folder: Path, upstream: RawUpstream, limits: InterceptLimits | None = None) -> ProxyStack:
    return ProxyStack(folder, CERTS, rules(folder, upstream.port), limits=limits)


async def code_of(stack: ProxyStack, upstream: RawUpstream, path: str, extra: str = "") -> str:
    """Ask for a path on a connection of its own; the code of its one record."""
    before = len(stack.exchanges())
    async with await stack.visit(upstream) as peer:
        try:
            response = await peer.get(path, f"{NAME}:{upstream.port}", extra)
        except EndedError:
            response = None
    await until(lambda: not stack.engine.live)
    [record] = stack.exchanges()[before:]
    code = str(record["code"])
    assert code in CODES or code in {"rule.allowed", "client.left"}
    if response is not None and response.status >= 500:
        assert response.header("egress-denied") == code
    if response is not None and response.status == 200:
        assert response.complete is (code == "rule.allowed")
    return code


async def until(happened: Callable[[], bool]) -> None:
    """Wait for something that shows inside the proxy, which tells nobody."""
    while not happened():  # noqa: ASYNC110 - see above
        await asyncio.sleep(0.002)


# Upstreams ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [Close(), Cut(), Reset()], ids=lambda end: type(end).__name__)
async def test_an_upstream_that_ends_at_any_byte(tmp_path: Path, upstream: RawUpstream, end: Step) -> None:
    """Every third byte of a head, and each one around its end."""
    whole = HEAD + b"body"
    places = sorted({*range(0, len(HEAD), 3), *range(len(HEAD) - 4, len(whole))})
    async with stack_of(tmp_path, upstream) as stack:
        for place in places:
            upstream.script("/cut", Say(whole[:place]), end)
            assert await code_of(stack, upstream, "/cut") == "upstream.closed", place
        upstream.script("/cut", Say(whole), end)
        assert await code_of(stack, upstream, "/cut") == "rule.allowed"


async def test_an_upstream_that_stalls_at_any_byte(tmp_path: Path, upstream: RawUpstream) -> None:
    whole = HEAD + b"body"
    async with stack_of(tmp_path, upstream, QUICK) as stack:
        for place in (0, 1, 9, 17, len(HEAD) - 1, len(HEAD), len(HEAD) + 3):
            upstream.script("/stall", Say(whole[:place]), Stall())
            assert await code_of(stack, upstream, "/stall") == "upstream.timeout", place


LIES = {
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\ncontent-length: 5\r\n\r\nbody",
    "a length and chunks": b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\nbody",
    "a negative length": b"HTTP/1.1 200 OK\r\ncontent-length: -4\r\n\r\nbody",
    "a length in words": b"HTTP/1.1 200 OK\r\ncontent-length: four\r\n\r\nbody",
    "chunks without size": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nbody\r\n0\r\n\r\n",
    "another protocol": b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n",
    "zeros": b"\0" * 100,
}


@pytest.mark.parametrize("lie", LIES)
async def test_an_upstream_that_lies_about_its_framing(
    tmp_path: Path, upstream: RawUpstream, lie: str
) -> None:
    async with stack_of(tmp_path, upstream) as stack:
        upstream.script("/lie", Say(LIES[lie]), Close())
        assert await code_of(stack, upstream, "/lie") == "upstream.malformed"


async def test_what_comes_behind_a_response_is_not_the_next_one(
    tmp_path: Path, upstream: RawUpstream
) -> None:
    """A second response that nobody asked for goes with its connection."""
    async with stack_of(tmp_path, upstream) as stack:
        upstream.script("/two", Say(HEAD + b"body" + HEAD + b"evil"))
        async with await stack.visit(upstream) as peer:
            first = await peer.get("/two", f"{NAME}:{upstream.port}")
            second = await peer.get("/small", f"{NAME}:{upstream.port}")
        assert first.body == b"body"
        assert b"item" in second.body
        assert [line["code"] for line in stack.exchanges()] == ["rule.allowed"] * 2


UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nuntil the end"


@pytest.mark.parametrize(
    ("end", "code", "strict_code"),
    [
        (Close(), "rule.allowed", "rule.allowed"),
        (Cut(), "rule.allowed", "upstream.closed"),
        (Reset(), "upstream.closed", "upstream.closed"),
    ],
)
async def test_a_body_that_ends_with_the_connection(
    tmp_path: Path, upstream: RawUpstream, end: Step, code: str, strict_code: str
) -> None:
    """Without close_notify nobody knows whether there was more; `code_of` looks at what the client got."""
    for folder in ("usual", "strict"):
        (tmp_path / folder).mkdir()
    upstream.script("/half", Say(UNTIL_CLOSE), end)
    async with stack_of(tmp_path / "usual", upstream) as stack:
        assert await code_of(stack, upstream, "/half") == code
        [record] = stack.exchanges()
        assert record.get("facts") == ({"close_notify": "missing"} if isinstance(end, Cut) else None)
    async with stack_of(tmp_path / "strict", upstream, STRICT) as stack:
        assert await code_of(stack, upstream, "/half") == strict_code
        assert "facts" not in stack.exchanges()[0]


async def test_a_body_that_an_alert_breaks_off_is_cut(tmp_path: Path, upstream: RawUpstream) -> None:
    """OpenSSL takes a fatal alert for the end of the peer, too."""

    async def alert(visit: UpstreamRequest) -> None:
        channel = visit.channel
        await channel.send(UNTIL_CLOSE)
        # A record that it cannot read makes the upstream send one, sealed as it should be.
        channel._incoming.write(bytes.fromhex("1703030020") + bytes(32))
        assert await channel.some() == b""
        await channel._flush()
        await channel.cut()

    upstream.handle("/alert", alert)
    async with stack_of(tmp_path, upstream) as stack:
        assert await code_of(stack, upstream, "/alert") == "upstream.closed"


@pytest.mark.parametrize(("end", "code"), [(Close(), "rule.allowed"), (Reset(), "upstream.closed")])
async def test_a_body_in_clear_text_that_ends_with_the_connection(
    tmp_path: Path, end: Step, code: str
) -> None:
    async with RawUpstream() as upstream:
        rules = f"""
version: 1
hosts:
  {NAME}:
    ports: []
    http: [{upstream.port}]
    addresses: [127.0.0.1/32]
    allow: all
"""
        upstream.script("/half", Say(UNTIL_CLOSE), end)
        async with ProxyStack(tmp_path, CERTS, rules) as stack:
            async with await dial(stack.proxy) as peer:
                host = f"{NAME}:{upstream.port}"
                response = await peer.get(f"http://{host}/half", host)
            await until(lambda: not stack.engine.live)
            [record] = stack.exchanges()
    assert record["code"] == code
    assert response.complete is (code == "rule.allowed")


# Too much -----------------------------------------------------------------------------------------


async def endless(visit: UpstreamRequest) -> None:
    """A head of 64 MiB."""
    await visit.channel.send(b"HTTP/1.1 200 OK\r\n")
    for number in range(1024):
        await visit.channel.send(b"x-%d: " % number + b"x" * 65536 + b"\r\n")


async def test_a_response_head_without_end(tmp_path: Path, upstream: RawUpstream) -> None:
    upstream.handle("/endless", endless)
    async with stack_of(tmp_path, upstream) as stack:
        tracemalloc.start()
        try:
            assert await code_of(stack, upstream, "/endless") == "upstream.malformed"
            assert tracemalloc.get_traced_memory()[1] < 8 * MEBIBYTE
        finally:
            tracemalloc.stop()


async def floods(peer: Peer) -> None:
    """Send fields until it is refused: 64 MiB of them at most."""
    for number in range(1024):
        await peer.send(b"x-%d: " % number + b"x" * 65536 + b"\r\n")


async def test_a_request_head_without_end(tmp_path: Path, upstream: RawUpstream) -> None:
    async with stack_of(tmp_path, upstream) as stack:
        tracemalloc.start()
        try:
            async with await stack.visit(upstream) as peer:
                await peer.send(b"GET /small HTTP/1.1\r\n")
                with pytest.raises(OSError):  # noqa: PT011 - reset, or a broken pipe
                    await floods(peer)
            assert tracemalloc.get_traced_memory()[1] < 8 * MEBIBYTE
        finally:
            tracemalloc.stop()
        assert [line["code"] for line in stack.exchanges()] == ["request.malformed"]
        assert not upstream.requests


async def test_a_bomb_is_decoded_in_bounds(tmp_path: Path, upstream: RawUpstream) -> None:
    """64 KiB on the wire that are 64 MiB: passed on in pieces, or refused; never held as a whole."""
    bomb = gzip.compress(bytes(64 * MEBIBYTE))

    async def explode(visit: UpstreamRequest) -> None:
        await visit.body()
        await visit.answer(bomb, (("content-encoding", "gzip"),))

    upstream.handle("/bomb", explode)
    async with stack_of(tmp_path, upstream) as stack:
        async with await stack.visit(upstream) as peer:
            tracemalloc.start()
            try:
                await peer.send(f"GET /bomb HTTP/1.1\r\nhost: {NAME}:{upstream.port}\r\n\r\n".encode())
                await peer.response(keep=1024)
                assert tracemalloc.get_traced_memory()[1] < 24 * MEBIBYTE
            except EndedError:
                pass
            finally:
                tracemalloc.stop()
        [record] = stack.exchanges()
        assert record["code"] in {"rule.allowed", "response.withheld", "limit.response_body"}


# Clients ------------------------------------------------------------------------------------------


async def test_a_client_that_is_slow(tmp_path: Path, upstream: RawUpstream) -> None:
    """Bytes that trickle in buy no time."""
    async with stack_of(tmp_path, upstream, QUICK) as stack:
        async with await stack.visit(upstream) as peer:
            for byte in b"GET /small HTTP/1.1\r\nhost: " + b"x" * 100:
                await peer.send(bytes([byte]))
                await asyncio.sleep(0.02)
                if stack.exchanges():
                    break
            response = await peer.response()
        assert response.status == 408
        assert [line["code"] for line in stack.exchanges()] == ["request.timeout"]


async def test_a_client_that_stops_in_its_handshake(tmp_path: Path, upstream: RawUpstream) -> None:
    """A ClientHello, and nothing after it."""
    async with stack_of(tmp_path, upstream, QUICK) as stack:
        peer = await dial(at(stack.port))
        await open_tunnel(peer, f"{NAME}:{upstream.port}")
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = stack.trust().wrap_bio(incoming, outgoing, server_hostname=NAME)
        with pytest.raises(ssl.SSLWantReadError):
            tls.do_handshake()
        await peer.send(outgoing.read())
        await peer.channel.everything()
        await peer.channel.drop()
        [refusal] = [line for line in stack.lines() if line["event"] == "refusal"]
        assert refusal["code"] == "request.timeout"
        assert not upstream.links


async def test_a_client_that_vanishes_lets_the_upstream_go(tmp_path: Path, upstream: RawUpstream) -> None:
    async with stack_of(tmp_path, upstream) as stack:
        peer = await stack.visit(upstream)
        await peer.send(
            f"GET /sse?n=100000&every=0.001 HTTP/1.1\r\nhost: {NAME}:{upstream.port}\r\n\r\n".encode()
        )
        await peer.channel.until(b"data: 0")
        await peer.channel.reset()
        await upstream.until(lambda: upstream.links[0].closed)
        assert [line["code"] for line in stack.exchanges()] == ["client.left"]


async def test_a_client_that_does_not_read_is_not_waited_for(tmp_path: Path, upstream: RawUpstream) -> None:
    """What it was sent waits in buffers; when the connection is to close, that has an end."""
    async with stack_of(tmp_path, upstream, QUICK) as stack:
        peer = await stack.visit(upstream)
        await peer.send(f"GET /bytes?n=99999999 HTTP/1.1\r\nhost: {NAME}:{upstream.port}\r\n\r\n".encode())
        await until(lambda: _is_held(stack))
        [carried] = list(stack.engine.live)
        carried.close("access.withdrawn")
        await until(lambda: not stack.engine.live)
        assert [line["code"] for line in stack.exchanges()] == ["access.withdrawn"]
        await peer.channel.drop()


def _is_held(stack: ProxyStack) -> bool:
    """Whether an upstream connection is not read at the moment."""
    wires = [wire for handler in stack.full._handlers.values() for wire in handler._wires.values()]
    return any(isinstance(wire.connection, Server) and not wire._reads for wire in wires)


# The machine --------------------------------------------------------------------------------------


class Jumping(SystemClock):
    """The time of day goes forth and back; what measures durations does not."""

    def __init__(self) -> None:
        self.offset = 0

    def now(self) -> int:
        return super().now() + self.offset

    def now_ns(self) -> int:
        return super().now_ns() + self.offset * 1_000_000_000


async def test_a_clock_that_jumps(tmp_path: Path, upstream: RawUpstream) -> None:
    clock = Jumping()
    stack = ProxyStack(tmp_path, CERTS, rules(tmp_path, upstream.port), clock=clock)
    async with stack:
        for offset in (0, 3600, -3600, 0):
            clock.offset = offset
            assert await code_of(stack, upstream, "/small") == "rule.allowed"
        lines = stack.lines()
        assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
        durations = [value for line in lines for name, value in line.items() if name.endswith("_us")]
        assert durations
        assert all(isinstance(value, int) and value >= 0 for value in durations)


async def test_a_full_disk_stops_the_work(
    tmp_path: Path, upstream: RawUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-67: what cannot be recorded is not sent; with room again it goes on, and nothing is missing."""

    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "no space left on device")

    async with stack_of(tmp_path, upstream) as stack:
        async with await stack.visit(upstream) as peer:
            assert (await peer.get("/small", f"{NAME}:{upstream.port}")).status == 200
            stack.audit.flush()
            with monkeypatch.context() as patch:
                patch.setattr(os, "write", full)
                # The one that meets the full disk was allowed; nothing after it is.
                answers = [await peer.get("/small", f"{NAME}:{upstream.port}") for _ in range(3)]
                stack.audit.flush()
                answers += [await peer.get("/small", f"{NAME}:{upstream.port}") for _ in range(3)]
                assert [each.status for each in answers[3:]] == [503] * 3
                assert {each.header("egress-denied") for each in answers[3:]} == {"audit.stopped"}
                sent = len(upstream.requests)
            await until(lambda: stack.audit.may_work("test"))
            assert len(upstream.requests) == sent
            assert (await peer.get("/small", f"{NAME}:{upstream.port}")).status == 200
        codes = [line["code"] for line in stack.exchanges()]
        assert codes.count("rule.allowed") == len(upstream.requests)
