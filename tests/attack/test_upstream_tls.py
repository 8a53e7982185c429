"""Class 18, through the whole lane: an upstream that does not prove who it is gets no byte of a request.

S-21: expired, and not valid yet. S-22: an unknown authority, another name, its own signature. Also: a
server that speaks no TLS, one that speaks only an old one, one that says nothing at all. The client reads
why inside of its own TLS, and each exchange has one record.
"""

from __future__ import annotations

import ssl
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from egress.proxy.lanes.intercept_limits import InterceptLimits
from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.channel import Channel
from tests.proxy.lab.http1 import Response
from tests.proxy.lab.loopback import loopback_only
from tests.proxy.lab.proxy_stack import NAME, OTHER, ProxyStack
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.lab.server import Link, Upstream

SECRET = "sesame-open-please"
CERTS = Certificates()


@pytest.fixture(autouse=True)
def on_loopback() -> Iterator[None]:
    with loopback_only():
        yield


class Bare(Upstream):
    """Notes what it is sent, and says what it was told to."""

    def __init__(self, says: bytes = b"", *, hangs_up: bool = False) -> None:
        super().__init__()
        self.got = b""
        self._says = says
        self._hangs_up = hangs_up

    async def serve(self, link: Link, channel: Channel) -> None:
        if self._says:
            await channel.send(self._says)
        if self._hangs_up:
            await channel.close()
            return
        while data := await channel.some():
            self.got += data


def rules(folder: Path, port: int, name: str = NAME) -> str:
    (folder / "secret").write_text(SECRET)
    return f"""
version: 1
secrets:
  api: {{from: "file:{folder}/secret", hosts: ["{name}:{port}"]}}
hosts:
  {name}:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    allow:
      - {{id: all, paths: ["/**"]}}
    inject:
      - bearer: api
"""


async def asked(
    folder: Path, upstream: Upstream, limits: InterceptLimits | None = None
) -> tuple[Response, list[dict[str, object]]]:
    """Ask for something through the proxy; the answer, and the records."""
    async with ProxyStack(folder, CERTS, rules(folder, upstream.port), limits=limits) as stack:
        async with await stack.visit(upstream) as peer:
            response = await peer.get("/small", f"{NAME}:{upstream.port}")
        return response, stack.exchanges()


def is_refused(found: tuple[Response, list[dict[str, object]]], code: str) -> None:
    response, records = found
    assert response.status == {"upstream.tls": 502, "upstream.timeout": 504}[code]
    assert response.header("egress-denied") == code
    assert SECRET.encode() not in response.body
    assert [record["code"] for record in records] == [code]
    assert records[0]["bytes_up"] == 0


async def test_control_an_upstream_that_is_who_it_should_be_is_asked(tmp_path: Path) -> None:
    async with RawUpstream(CERTS.good(NAME)) as upstream:
        response, records = await asked(tmp_path, upstream)
    assert response.status == 200
    assert upstream.requests[0].header("authorization") == f"Bearer {SECRET}"
    assert [record["verdict"] for record in records] == ["allow"]


def old() -> ssl.SSLContext:
    """A server that has not learnt anything since 2006."""
    context = CERTS.good(NAME)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    return context


WRONG: dict[str, Callable[[], ssl.SSLContext]] = {
    "expired": lambda: CERTS.expired(NAME),
    "not valid yet": lambda: CERTS.not_yet_valid(NAME),
    "another name": CERTS.wrong_name,
    "a wildcard of another level": lambda: CERTS.good("*.api.example.test", "*.test"),
    "its own signature": lambda: CERTS.self_signed(NAME),
    "an unknown authority": lambda: CERTS.unknown_ca(NAME),
    "an old TLS": old,
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_an_upstream_with_a_bad_certificate_gets_no_request(tmp_path: Path, wrong: str) -> None:
    """S-21, S-22."""
    async with RawUpstream(WRONG[wrong]()) as upstream:
        is_refused(await asked(tmp_path, upstream), "upstream.tls")
        assert not upstream.requests
        assert not any(link.heads for link in upstream.links)


BARE: dict[str, Callable[[], Bare]] = {
    "an answer in clear text": lambda: Bare(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"),
    "a greeting of another protocol": lambda: Bare(b"220 mail.example.test ESMTP\r\n"),
    "a TLS alert": lambda: Bare(b"\x15\x03\x03\x00\x02\x02\x28"),
    "nothing, and goes": lambda: Bare(hangs_up=True),
}


@pytest.mark.parametrize("what", BARE)
async def test_a_server_that_speaks_no_tls_gets_no_request(tmp_path: Path, what: str) -> None:
    """S-20 the other way round: what an upstream says without TLS is nothing a client should read."""
    async with BARE[what]() as upstream:
        found = await asked(tmp_path, upstream)
        is_refused(found, "upstream.tls")
        assert b"GET" not in upstream.got
        assert SECRET.encode() not in upstream.got


async def test_a_handshake_that_stalls_is_given_up(tmp_path: Path) -> None:
    async with Bare() as upstream:
        found = await asked(tmp_path, upstream, InterceptLimits(upstream_open=0.1))
        is_refused(found, "upstream.timeout")
        assert SECRET.encode() not in upstream.got


async def test_the_name_that_is_proven_is_the_destination_not_what_the_client_named(tmp_path: Path) -> None:
    """S-22: one upstream has a good certificate, for the name in the client's SNI."""
    async with RawUpstream(CERTS.good(OTHER)) as upstream:
        async with ProxyStack(tmp_path, CERTS, rules(tmp_path, upstream.port)) as stack:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await stack.visit(upstream, sni=OTHER)
            async with await stack.visit(upstream) as peer:
                response = await peer.get("/small", f"{NAME}:{upstream.port}")
        assert response.header("egress-denied") == "upstream.tls"
        assert not upstream.requests
