"""The full lane: what it carries, offers and refuses; the rest is in the tests of its parts."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from egress.errors import UsageError
from egress.exchange import Destination
from egress.proxy.lanes.connection import AdmittedConnection
from egress.proxy.lanes.dial import Dialer, DialError
from egress.proxy.lanes.intercept_lane import _offer
from egress.rules.decide.decision import decide_host
from egress.tls.client_hello import ClientHello
from egress.types import Identity
from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.channel import EndedError
from tests.proxy.lab.client import Peer, at, connect
from tests.proxy.lab.proxy_stack import NAME, SANDBOX, ProxyStack, policy_of
from tests.proxy.lab.raw_upstream import RawUpstream

CERTS = Certificates()


def rules(port: int, more: str = "") -> str:
    return f"""
version: 1
hosts:
  {NAME}:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    {more}
"""


@pytest.fixture
async def upstream() -> AsyncIterator[RawUpstream]:
    async with RawUpstream(CERTS.good(NAME)) as upstream:
        yield upstream


def admitted(stack: ProxyStack, identity: Identity, hello: ClientHello | None = None) -> AdmittedConnection:
    policy = stack.engine.policy
    decision = decide_host(policy, identity, NAME, 443, stack.clock.now(), scheme="https")
    return AdmittedConnection(
        "c1", identity, "test", "connect", Destination("https", NAME, 443), decision, policy, hello
    )


async def test_carries_a_connection_and_forgets_it(tmp_path: Path, upstream: RawUpstream) -> None:
    async with ProxyStack(tmp_path, CERTS, rules(upstream.port)) as stack:
        async with await stack.visit(upstream) as peer:
            assert (await peer.get("/echo", f"{NAME}:{upstream.port}")).status == 200
            assert len(stack.full._handlers) == len(stack.engine.live) == 1
        while stack.engine.live:  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.001)
        assert not stack.full._handlers


@pytest.mark.parametrize("identity", [Identity("nobody"), Identity(SANDBOX, profile="other")])
async def test_refuses_a_sandbox_that_it_does_not_know(tmp_path: Path, identity: Identity) -> None:
    """Who somebody is, is the door's affair: another answer than the engine's is a mistake."""
    async with ProxyStack(tmp_path, CERTS, rules(443)) as stack:
        reader = asyncio.StreamReader()
        with pytest.raises(UsageError, match="not known"):
            await stack.full.carry(admitted(stack, identity), reader, None, b"")  # type: ignore[arg-type]
        assert not stack.full._handlers
        assert not stack.engine.live


@pytest.mark.parametrize(
    ("more", "allows"), [("", True), ("intercept: never", False), ("allow: [{id: a, paths: [/a]}]", True)]
)
async def test_a_host_that_is_not_intercepted_any_more_is_not_allowed_in_this_lane(
    tmp_path: Path, more: str, allows: bool
) -> None:
    async with ProxyStack(tmp_path, CERTS, rules(443)) as stack:
        now = stack.clock.now()
        found = stack.full.still_allows(admitted(stack, Identity(SANDBOX)), policy_of(rules(443, more)), now)
        assert found is allows


@pytest.mark.parametrize(
    ("http2", "asked", "offered"),
    [
        (False, ("h2", "http/1.1"), (b"http/1.1", b"http/1.0")),
        (True, ("h2", "http/1.1"), (b"h2", b"http/1.1", b"http/1.0")),
        (False, ("h2",), (b"h2", b"http/1.1", b"http/1.0")),
        (False, (), (b"http/1.1", b"http/1.0")),
    ],
)
async def test_http2_is_offered_where_a_rule_says_so_or_a_client_knows_nothing_else(
    tmp_path: Path, http2: bool, asked: tuple[str, ...], offered: tuple[bytes, ...]
) -> None:
    async with ProxyStack(tmp_path, CERTS, rules(443)) as stack:
        hello = ClientHello(sni=NAME, alpn=asked)
        made = admitted(stack, Identity(SANDBOX), hello)
        assert _offer(replace(made, decision=replace(made.decision, http2=http2))) == offered


# Addresses that are taken back -------------------------------------------------------------------


def elsewhere(port: int, more: str = "") -> str:
    """The same rules for an address that the host does not have."""
    return rules(port, more).replace("127.0.0.1/32", "10.9.9.9/32")


async def ended(peer: Peer) -> None:
    """Read until the connection is over, which takes no time where it is."""
    async with asyncio.timeout(10):
        with contextlib.suppress(EndedError, ConnectionError):
            while await peer.channel.some():
                pass


async def test_an_exchange_ends_with_its_address(tmp_path: Path, upstream: RawUpstream) -> None:
    async with (
        ProxyStack(tmp_path, CERTS, rules(upstream.port)) as stack,
        await stack.visit(upstream) as peer,
    ):
        host = f"{NAME}:{upstream.port}"
        await peer.send(f"GET /sse?n=100000&every=0.05 HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
        assert (await peer.head()).status == 200
        stack.engine.swap(policy_of(rules(upstream.port, "http2: true")))
        assert await peer.channel.some(), "rules that still allow it leave it alone"
        stack.engine.swap(policy_of(elsewhere(upstream.port)))
        await ended(peer)
        [record] = stack.exchanges()
    assert record["code"] == "access.withdrawn"


async def test_an_upstream_that_is_kept_ends_with_its_address(tmp_path: Path, upstream: RawUpstream) -> None:
    async with (
        ProxyStack(tmp_path, CERTS, rules(upstream.port)) as stack,
        await stack.visit(upstream) as peer,
    ):
        assert (await peer.get("/echo", f"{NAME}:{upstream.port}")).status == 200
        stack.engine.swap(policy_of(elsewhere(upstream.port)))
        await ended(peer)
        [record] = stack.exchanges()
        assert record["code"] == "rule.allowed"
        assert not stack.engine.live


@pytest.mark.parametrize("is_changed", [False, True])
async def test_an_address_is_judged_by_the_rules_of_the_moment_in_which_it_is_dialled(
    tmp_path: Path, upstream: RawUpstream, is_changed: bool
) -> None:
    """Not by those of the moment in which the client came."""
    async with (
        ProxyStack(tmp_path, CERTS, rules(upstream.port)) as stack,
        await stack.visit(upstream) as peer,
    ):
        stack.engine.swap(policy_of((elsewhere if is_changed else rules)(upstream.port, "http2: true")))
        response = await peer.get("/echo", f"{NAME}:{upstream.port}")
        assert response.status == (403 if is_changed else 200)
        [record] = stack.exchanges()
    told: tuple[str, str, list[str]] = (
        ("deny", "address.refused", []) if is_changed else ("allow", "rule.allowed", [])
    )
    assert (record["verdict"], record["code"], record["injected"]) == told
    assert record["address"] == "127.0.0.1", "also the one that was refused"
    assert bool(upstream.links) is not is_changed


@pytest.mark.parametrize("is_changed", [False, True])
async def test_an_address_that_is_taken_back_while_it_is_dialled_is_not_used(
    tmp_path: Path, upstream: RawUpstream, is_changed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other twin: rules that change and still allow it."""
    real = Dialer._race

    async with (
        ProxyStack(tmp_path, CERTS, rules(upstream.port)) as stack,
        await stack.visit(upstream) as peer,
    ):

        async def race(dialer: Dialer, addresses: list[str], port: int) -> tuple[socket.socket, str]:
            found = await real(dialer, addresses, port)
            stack.engine.swap(policy_of((elsewhere if is_changed else rules)(upstream.port, "http2: true")))
            return found

        monkeypatch.setattr(Dialer, "_race", race)
        response = await peer.get("/echo", f"{NAME}:{upstream.port}")
        [record] = stack.exchanges()
    assert record["code"] == ("access.withdrawn" if is_changed else "rule.allowed")
    assert response.header("egress-denied") == ("access.withdrawn" if is_changed else None)
    assert not is_changed or not upstream.requests


async def test_a_host_that_is_taken_back_is_not_dialled(tmp_path: Path) -> None:
    """A recheck closes such a connection; should one be dialling at that time, this is what stops it."""
    async with ProxyStack(tmp_path, CERTS, rules(443)) as stack:
        made = admitted(stack, Identity(SANDBOX))
        stack.engine.policy = policy_of("version: 1\nhosts:\n  docs.example.test: {}\n")
        with pytest.raises(DialError) as caught:
            await stack.full.dial(made)
    assert caught.value.code == "access.withdrawn"


# Handshakes that fail ----------------------------------------------------------------------------


async def test_a_client_that_does_not_trust_us_is_recorded_as_such(
    tmp_path: Path, upstream: RawUpstream
) -> None:
    async with ProxyStack(tmp_path, CERTS, rules(upstream.port)) as stack:
        with pytest.raises(ssl.SSLError):
            await connect(at(upstream.port), NAME, CERTS.trust(("http/1.1",)), proxy=stack.proxy)
        while stack.engine.live:  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.001)
        [record] = [line for line in stack.lines() if line["event"] == "refusal"]
    assert (record["code"], record["host"]) == ("tls.failed", NAME)
    assert not upstream.links


async def test_a_client_without_a_protocol_of_ours_fails_its_handshake(
    tmp_path: Path, upstream: RawUpstream
) -> None:
    async with ProxyStack(tmp_path, CERTS, rules(upstream.port)) as stack:
        with pytest.raises((ssl.SSLError, OSError)):
            await stack.visit(upstream, NAME, "spdy/3")
        while stack.engine.live:  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.001)
        [record] = [line for line in stack.lines() if line["event"] == "refusal"]
    assert record["code"] == "tls.failed"


async def test_an_environment_that_configures_openssl_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENSSL_CONF", str(tmp_path / "openssl.cnf"))
    with pytest.raises(UsageError, match="OPENSSL_CONF"):
        await ProxyStack(tmp_path, CERTS, rules(443)).__aenter__()
