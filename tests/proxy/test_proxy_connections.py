"""A client of a proxy keeps its connection in clear text, to one host and then to another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.client import Peer, dial, open_tunnel
from tests.proxy.lab.http1 import Response
from tests.proxy.lab.proxy_stack import NAME, OTHER, ProxyStack
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.lab.upstream_request import UpstreamRequest

CERTS = Certificates()


@pytest.fixture
async def one() -> AsyncIterator[RawUpstream]:
    async with RawUpstream() as upstream:
        yield upstream


@pytest.fixture
async def two() -> AsyncIterator[RawUpstream]:
    async with RawUpstream(CERTS.good(OTHER)) as upstream:
        yield upstream


def rules(one: RawUpstream, two: RawUpstream) -> str:
    return f"""
version: 1
hosts:
  {NAME}: {{ports: [], http: [{one.port}], addresses: [127.0.0.1/32], methods: [GET, POST]}}
  {OTHER}: {{ports: [{two.port}], http: [{one.port}], addresses: [127.0.0.1/32], allow: all}}
"""


async def ask(peer: Peer, name: str, upstream: RawUpstream, path: str = "/echo", extra: str = "") -> Response:
    """A request as a client of a proxy writes it."""
    host = f"{name}:{upstream.port}"
    return await peer.get(f"http://{host}{path}", host, extra)


async def test_a_connection_is_kept_from_host_to_host(
    tmp_path: Path, one: RawUpstream, two: RawUpstream
) -> None:
    """Each host is admitted as on a connection of its own, and so are a tunnel and a host that is denied."""
    async with ProxyStack(tmp_path, CERTS, rules(one, two)) as stack, await dial(stack.proxy) as peer:
        for name in (NAME, NAME, OTHER, NAME):
            response = await ask(peer, name, one)
            assert (response.status, response.header("connection")) == (200, None)
        await open_tunnel(peer, f"{OTHER}:{two.port}")
        await peer.channel.to_tls(stack.trust("http/1.1"), OTHER)
        assert (await peer.get("/echo", f"{OTHER}:{two.port}")).status == 200
        lines = stack.exchanges()
    assert [(line["host"], line["entry"]) for line in lines] == [
        *[(NAME, "absolute")] * 2,
        (OTHER, "absolute"),
        (NAME, "absolute"),
        (OTHER, "connect"),
    ]
    connections = [line["connection"] for line in lines]
    assert (connections[0], len(set(connections))) == (connections[1], 4)
    # The connection to an upstream ends with the stay at its host.
    assert [request.link for request in one.requests] == [0, 0, 1, 2]


@pytest.mark.parametrize(
    ("name", "code"), [("evil.example.test", "host.unknown"), ("127.0.0.1", "host.literal")]
)
async def test_a_host_that_is_denied_ends_the_connection(
    tmp_path: Path, one: RawUpstream, two: RawUpstream, name: str, code: str
) -> None:
    async with ProxyStack(tmp_path, CERTS, rules(one, two)) as stack, await dial(stack.proxy) as peer:
        assert (await ask(peer, NAME, one)).status == 200
        response = await ask(peer, name, one)
        assert (response.status, response.header("egress-denied")) == (403, code)
        assert response.header("connection") == "close"
        assert await peer.channel.some() == b""
        refusals = [line for line in stack.lines() if line["event"] == "refusal"]
    assert [(line["host"], line["code"]) for line in refusals] == [(name, code)]
    assert len(one.requests) == 1


async def test_a_request_that_is_denied_leaves_the_connection_open(
    tmp_path: Path, one: RawUpstream, two: RawUpstream
) -> None:
    async with ProxyStack(tmp_path, CERTS, rules(one, two)) as stack, await dial(stack.proxy) as peer:
        host = f"{NAME}:{one.port}"
        denied = await peer.request(f"PUT http://{host}/x HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
        assert (denied.status, denied.header("connection")) == (403, None)
        assert (await ask(peer, NAME, one)).status == 200


async def test_what_is_sent_ahead_for_another_host_reaches_it_whole(
    tmp_path: Path, one: RawUpstream, two: RawUpstream
) -> None:
    """Three requests in one write; the body of the second is longer than what is read at once."""
    body = bytes(range(256)) * 1024
    hosts = [f"{name}:{one.port}" for name in (NAME, OTHER, NAME)]
    requests = [f"GET http://{hosts[0]}/echo HTTP/1.1\r\nhost: {hosts[0]}\r\n\r\n".encode()]
    head = f"POST http://{hosts[1]}/sink HTTP/1.1\r\nhost: {hosts[1]}\r\ncontent-length: {len(body)}\r\n\r\n"
    requests += [head.encode() + body, requests[0]]
    async with (
        asyncio.timeout(20),
        ProxyStack(tmp_path, CERTS, rules(one, two)) as stack,
        await dial(stack.proxy) as peer,
    ):
        answers = await peer.pipeline(*requests)
        assert [answer.status for answer in answers] == [200, 200, 200]
    [sunk] = [request for request in one.requests if request.path == "/sink"]
    assert sunk.body == body


async def test_a_login_of_a_connection_works(tmp_path: Path, one: RawUpstream, two: RawUpstream) -> None:
    """As NTLM does it: a challenge is answered on the connection that it came on."""
    known: set[int] = set()

    async def login(visit: UpstreamRequest) -> None:
        number = visit.link.number
        asked = visit.request.header("authorization")
        if asked == "NTLM response" and number in known:
            await visit.answer(b"welcome")
            return
        known.add(number)
        challenge = ("www-authenticate", "NTLM challenge" if asked else "NTLM")
        await visit.answer(b"who?", (challenge,), status="401 Unauthorized")

    one.handle("/login", login)
    async with ProxyStack(tmp_path, CERTS, rules(one, two)) as stack, await dial(stack.proxy) as peer:
        statuses = [
            (await ask(peer, NAME, one, "/login", extra)).status
            for extra in ("", "authorization: NTLM hello\r\n", "authorization: NTLM response\r\n")
        ]
    assert statuses == [401, 401, 200]


async def test_a_connection_that_waits_for_another_host_ends_with_its_listener(
    tmp_path: Path, one: RawUpstream, two: RawUpstream
) -> None:
    """Between two hosts it is outside of every lane, like one that has just come."""
    async with ProxyStack(tmp_path, CERTS, rules(one, two)) as stack, await dial(stack.proxy) as peer:
        assert (await ask(peer, NAME, one)).status == 200
        await stack.door.close()
        host = f"{OTHER}:{one.port}"
        await peer.send(f"GET http://{host}/echo HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
        async with asyncio.timeout(10):
            assert await peer.channel.some() == b""
    assert len(one.requests) == 1
