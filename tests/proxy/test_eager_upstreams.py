"""Upstreams that speak before they are asked: none of their bytes is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.eager_upstream import WINDOW_BYTES, EagerUpstream, TlsVersion
from tests.proxy.lab.http2 import Http2Client
from tests.proxy.lab.proxy_stack import NAME, ProxyStack

CERTS = Certificates()
BODY = bytes(WINDOW_BYTES // 2)
"""Far more than the window of 65 535 bytes that holds before the upstream's first frames are read."""
ANSWER = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbusy"


def rules(port: int) -> str:
    return f"version: 1\nhosts:\n  {NAME}:\n    ports: [{port}]\n    addresses: [127.0.0.1/32]\n"


VERSIONS = pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])


@VERSIONS
async def test_settings_that_come_with_the_handshake_are_heeded(tmp_path: Path, version: TlsVersion) -> None:
    """An upload larger than the first window hangs for ever if WINDOW_UPDATE is lost."""
    async with (
        EagerUpstream(CERTS, NAME, version) as upstream,
        ProxyStack(tmp_path, CERTS, rules(upstream.port)) as stack,
    ):
        for _ in range(2):
            async with asyncio.timeout(20), await stack.visit(upstream, NAME, "h2") as peer:
                async with Http2Client(peer.channel) as client:
                    response = await client.post(f"{NAME}:{upstream.port}", "/", BODY)
                assert response.status == 200
        assert upstream.bodies == [len(BODY)] * 2
        assert [each.resumed for each in upstream.handshakes] == [False, True]
        # In a resumed handshake of TLS 1.2 the client speaks last, so there is nothing to join.
        assert [each.spoke_at_once for each in upstream.handshakes] == [True, version == "TLSv1.3"]


@VERSIONS
async def test_an_answer_that_comes_with_the_handshake_reaches_the_client(
    tmp_path: Path, version: TlsVersion
) -> None:
    """As servers do that are too busy to read."""
    async with (
        EagerUpstream(CERTS, NAME, version, ANSWER) as upstream,
        ProxyStack(tmp_path, CERTS, rules(upstream.port)) as stack,
        asyncio.timeout(20),
        await stack.visit(upstream) as peer,
    ):
        response = await peer.get("/", f"{NAME}:{upstream.port}")
        assert (response.status, response.body) == (503, b"busy")
