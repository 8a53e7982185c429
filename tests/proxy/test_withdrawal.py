"""S-80: what is open ends when it is no longer allowed, by a reload or by a kill, and is recorded.

Each connection is in the middle of something that would go on for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from egress.proxy.clock import SystemClock
from egress.proxy.dns.name_servers import NameServers
from egress.proxy.process.lifecycle import RECHECK_TICKS, tick
from egress.proxy.process.wiring import ProxyParts
from tests.cli.command import put
from tests.proxy.injecting_proxy import BLIND, NAME, SECRET, certs, denied, made, rules, stall, visit
from tests.proxy.lab.channel import EndedError
from tests.proxy.lab.client import Peer
from tests.proxy.lab.proxy_stack import ProxyStack
from tests.proxy.lab.raw_upstream import RawUpstream, Stall
from tests.proxy.lab.websocket import open_websocket
from tests.proxy.serve_process import ServeProcess


class Moved(SystemClock):
    """The clock of the machine, put forward."""

    by = 0

    def now(self) -> int:
        return super().now() + self.by


ALLOW = "allow: [{id: all}, {id: ws, websocket: true}]"


@pytest.fixture
async def upstream() -> AsyncIterator[RawUpstream]:
    async with RawUpstream(certs.good(NAME, BLIND)) as upstream:
        yield upstream


@pytest.fixture
def served(tmp_path: Path, upstream: RawUpstream) -> Iterator[ServeProcess]:
    with made(tmp_path, upstream, host=ALLOW) as served:
        yield served


async def ended(peer: Peer) -> None:
    """Read until the connection is over."""
    try:
        while await peer.channel.some():
            pass
    except (EndedError, OSError):
        pass


async def streaming(served: ServeProcess, upstream: RawUpstream) -> Peer:
    """Server-sent events, without end."""
    peer = await visit(served, upstream)
    await peer.send(f"GET /sse?n=100000&every=0.05 HTTP/1.1\r\nhost: {NAME}:{upstream.port}\r\n\r\n".encode())
    assert (await peer.head()).status == 200
    await peer.channel.some()
    return peer


async def socket(served: ServeProcess, upstream: RawUpstream) -> Peer:
    peer = await visit(served, upstream)
    await open_websocket(peer.channel, f"{NAME}:{upstream.port}", "/ws")
    return peer


async def tunnel(served: ServeProcess, upstream: RawUpstream) -> Peer:
    return await stall(served, upstream, BLIND)


OPEN = {"a stream of events": streaming, "a websocket": socket, "a request": stall, "a tunnel": tunnel}


async def opened(what: str, served: ServeProcess, upstream: RawUpstream) -> Peer:
    return await OPEN[what](served, upstream)


@pytest.mark.parametrize("what", OPEN)
async def test_rules_without_the_host_end_it(what: str, served: ServeProcess, upstream: RawUpstream) -> None:
    async with await opened(what, served, upstream) as peer:
        served.write("version: 1\nhosts:\n  docs.example.com: {}\n")
        await ended(peer)
    kind = "tunnel" if what == "a tunnel" else "exchange"
    (record,) = await asyncio.to_thread(served.recorded, kind)
    assert record["code"] == "access.withdrawn"


@pytest.mark.parametrize("what", OPEN)
async def test_rules_that_still_allow_it_leave_it_alone(
    what: str, served: ServeProcess, upstream: RawUpstream
) -> None:
    """The positive control."""
    async with await opened(what, served, upstream) as peer:
        text = rules(upstream.port, f"file:{served.folder / 'secret'}", ALLOW)
        served.write(text + "  docs.example.com: {}\n")
        await asyncio.to_thread(served.recorded, "reloaded")
        reading = asyncio.ensure_future(ended(peer))
        await asyncio.wait([reading], timeout=0.5)
        assert not reading.done()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    assert served.ask("GET", "/readyz")[0] == 200


@pytest.mark.parametrize("what", OPEN)
async def test_a_kill_of_the_host_ends_it_and_refuses_the_next(
    what: str, served: ServeProcess, upstream: RawUpstream
) -> None:
    name = BLIND if what == "a tunnel" else NAME
    async with await opened(what, served, upstream) as peer:
        outcome = await asyncio.to_thread(served.egress, "kill", name)
        assert outcome.status == 0
        assert "1 connection closed" in outcome.out
        await ended(peer)
    assert (await denied(served, upstream, name)).header("egress-denied") == "rule.denied"
    assert (await asyncio.to_thread(served.egress, "kill", "--undo", name)).status == 0
    async with await visit(served, upstream, name) as peer:
        assert (await peer.get("/echo", f"{name}:{upstream.port}")).status == 200


async def test_rules_that_have_expired_end_it(tmp_path: Path, upstream: RawUpstream) -> None:
    """By the tick of the proxy, with a clock that is put forward."""
    clock = Moved()
    text = rules(
        upstream.port, f"file:{put(tmp_path / 'secret', SECRET)}", "expires: 2030-01-01\n    allow: all"
    )
    names = {NAME: "127.0.0.1", BLIND: "127.0.0.1"}
    async with ProxyStack(tmp_path, certs, text, names=names, clock=clock) as stack:
        upstream.script("/stall", Stall())
        async with await stack.visit(upstream, NAME) as peer:
            await peer.send(f"GET /stall HTTP/1.1\r\nhost: {NAME}:{upstream.port}\r\n\r\n".encode())
            await upstream.until(lambda: bool(upstream.links and upstream.links[-1].heads))
            parts = ProxyParts(stack.engine, stack.full, stack.door, NameServers(stack.engine))
            tick(parts, RECHECK_TICKS)
            assert len(stack.engine.live) == 1, "it has not expired yet"
            clock.by = 100 * 365 * 86_400
            tick(parts, RECHECK_TICKS)
            await ended(peer)
        (record,) = stack.exchanges()
    assert record["code"] == "access.withdrawn"


async def test_a_kill_of_the_secret_ends_what_was_sent_with_it(
    served: ServeProcess, upstream: RawUpstream
) -> None:
    async with await stall(served, upstream) as peer, await tunnel(served, upstream):
        outcome = await asyncio.to_thread(served.egress, "kill", "tracker")
        assert "1 connection closed" in outcome.out
        await ended(peer)
        async with await visit(served, upstream) as next_one:
            assert (await next_one.get("/echo", f"{NAME}:{upstream.port}")).status == 403
        assert served.ask("GET", "/status")[1]["connections"] == 1, "the tunnel goes on"
    (record, refused) = await asyncio.to_thread(served.recorded, "exchange", 2)
    assert record["code"] == "access.withdrawn"
    assert refused["code"] == "secret.unavailable"
    assert (await asyncio.to_thread(served.ask, "POST", "/reload"))[0] == 200
    async with await visit(served, upstream) as peer:
        assert (await peer.get("/echo", f"{NAME}:{upstream.port}")).status == 403, (
            "a reload gives nothing back"
        )
    assert (await asyncio.to_thread(served.egress, "kill", "--undo", "tracker")).status == 0
    async with await visit(served, upstream) as peer:
        assert (await peer.get("/echo", f"{NAME}:{upstream.port}")).status == 200


async def test_a_kill_of_the_sandbox_ends_all_it_has(served: ServeProcess, upstream: RawUpstream) -> None:
    async with await stall(served, upstream) as one, await tunnel(served, upstream) as two:
        outcome = await asyncio.to_thread(served.egress, "kill", "default")
        assert "2 connections closed" in outcome.out
        await ended(one)
        await ended(two)
    with pytest.raises(OSError, match="Connect call failed"):
        await visit(served, upstream)
    assert (await asyncio.to_thread(served.egress, "kill", "--undo", "default")).status == 0
    async with await visit(served, upstream) as peer:
        assert (await peer.get("/echo", f"{NAME}:{upstream.port}")).status == 200
