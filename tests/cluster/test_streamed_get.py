"""One GET: verified TLS, the strict codec, and timeouts."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme

from egress.cluster.api_server import ClusterApi
from egress.cluster.streamed_get import ApiTimeouts, get
from egress.errors import ContentError, WireError
from tests.cluster.fake_api_server import FakeApiServer, running

PATH = "/api/v1/namespaces/agents/pods?limit=500"
QUICK = ApiTimeouts(connect=10, silence=0.2)


async def body(api: ClusterApi, timeouts: ApiTimeouts | None = None) -> bytes:
    async with get(api, PATH, timeouts or ApiTimeouts()) as pieces:
        return b"".join([piece async for piece in pieces])


async def test_a_body_comes_whole_and_the_token_is_sent(tmp_path: Path) -> None:
    server = FakeApiServer()
    async with running(tmp_path, server) as api:
        assert b'"items": []' in await body(api)
        (tmp_path / "token").write_text("another")
        with pytest.raises(ContentError, match=r"401 to /api/v1/namespaces/agents/pods\nhint"):
            await body(api)
    assert server.requests == [PATH, PATH]


@pytest.mark.parametrize("status", [302, 403, 404, 500])
async def test_another_status_is_an_error(tmp_path: Path, status: int) -> None:
    async with running(tmp_path, FakeApiServer(status=status)) as api:
        with pytest.raises(ContentError, match=f"answers {status}"):
            await body(api)


@pytest.mark.parametrize(
    "raw",
    [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", b"no HTTP\r\n\r\n", b"HTTP/1.1 200 OK\r\n"],
)
async def test_an_answer_that_is_cut_short_is_no_answer(tmp_path: Path, raw: bytes) -> None:
    async with running(tmp_path, FakeApiServer(raw=raw)) as api:
        with pytest.raises((WireError, OSError)):
            await body(api)


async def test_a_server_of_another_authority_is_refused(tmp_path: Path) -> None:
    server = FakeApiServer()
    async with running(tmp_path, server) as api:
        trustme.CA().cert_pem.write_to_path(str(api.authority))
        with pytest.raises(ssl.SSLCertVerificationError):
            await body(api)
    assert server.requests == []


async def test_a_silent_server_is_given_up(tmp_path: Path) -> None:
    async with running(tmp_path, FakeApiServer(is_silent=True)) as api:
        with pytest.raises(TimeoutError):
            await body(api, QUICK)
