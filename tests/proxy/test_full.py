"""The full lane: what it carries, offers and refuses; the rest is in the tests of its parts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from egress.errors import UsageError
from egress.exchange import Destination
from egress.proxy.arrival import Arrival
from egress.proxy.clienthello import ClientHello
from egress.proxy.full import _offer
from egress.rules.decide import decide_host
from egress.types import Identity
from tests.proxy.lab.certs import Certificates
from tests.proxy.lab.raw import RawUpstream
from tests.proxy.lab.stack import NAME, SANDBOX, Stack, policy_of

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


def arrival(stack: Stack, identity: Identity, hello: ClientHello | None = None) -> Arrival:
    policy = stack.engine.policy
    decision = decide_host(policy, identity, NAME, 443, stack.clock.now(), scheme="https")
    return Arrival(
        "c1", identity, "test", "connect", Destination("https", NAME, 443), decision, policy, hello
    )


async def test_carries_a_connection_and_forgets_it(tmp_path: Path, upstream: RawUpstream) -> None:
    async with Stack(tmp_path, CERTS, rules(upstream.port)) as stack:
        async with await stack.visit(upstream) as peer:
            assert (await peer.get("/echo", f"{NAME}:{upstream.port}")).status == 200
            assert len(stack.full._handlers) == len(stack.engine.live) == 1
        while stack.engine.live:  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.001)
        assert not stack.full._handlers


@pytest.mark.parametrize("identity", [Identity("nobody"), Identity(SANDBOX, profile="other")])
async def test_refuses_a_sandbox_that_it_does_not_know(tmp_path: Path, identity: Identity) -> None:
    """Who somebody is, is the door's affair: another answer than the engine's is a mistake."""
    async with Stack(tmp_path, CERTS, rules(443)) as stack:
        reader = asyncio.StreamReader()
        with pytest.raises(UsageError, match="not known"):
            await stack.full.carry(arrival(stack, identity), reader, None, b"")  # type: ignore[arg-type]
        assert not stack.full._handlers
        assert not stack.engine.live


@pytest.mark.parametrize(
    ("more", "allows"), [("", True), ("intercept: never", False), ("allow: [{id: a, paths: [/a]}]", True)]
)
async def test_a_host_that_is_not_intercepted_any_more_is_not_allowed_in_this_lane(
    tmp_path: Path, more: str, allows: bool
) -> None:
    async with Stack(tmp_path, CERTS, rules(443)) as stack:
        now = stack.clock.now()
        found = stack.full.still_allows(arrival(stack, Identity(SANDBOX)), policy_of(rules(443, more)), now)
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
    async with Stack(tmp_path, CERTS, rules(443)) as stack:
        hello = ClientHello(sni=NAME, alpn=asked)
        made = arrival(stack, Identity(SANDBOX), hello)
        assert _offer(replace(made, decision=replace(made.decision, http2=http2))) == offered
