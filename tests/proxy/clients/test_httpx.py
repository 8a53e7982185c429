"""httpx works through the proxy, with HTTP/1.1 and with HTTP/2."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest

from tests.proxy.clients.scene import MASK, SECRET, WANTED, Scene, certs, through, unlocked
from tests.proxy.lab.certificates import HTTP2
from tests.proxy.lab.handlers import hash_of_bytes
from tests.proxy.lab.http2 import Http2Upstream
from tests.proxy.lab.proxy_stack import NAME
from tests.proxy.lab.raw_upstream import RawUpstream


def client(scene: Scene[RawUpstream | Http2Upstream], *, http2: bool = False) -> httpx.AsyncClient:
    """A client that knows the proxy and the certificate, and nothing of this machine."""
    return httpx.AsyncClient(
        http2=http2,
        proxy=scene.stack.url,
        verify=scene.stack.trust(),
        trust_env=False,
        base_url=scene.url(""),
        timeout=30,
    )


def raw() -> RawUpstream:
    return RawUpstream(certs.good(NAME), WANTED)


def both() -> Http2Upstream:
    return Http2Upstream(certs.good(NAME, alpn=HTTP2), wants=WANTED)


@pytest.mark.parametrize(
    ("make", "http2"), [(raw, False), (raw, True), (both, True)], ids=["1.1-to-1.1", "2-to-1.1", "2-to-2"]
)
async def test_the_protocols_of_both_sides_need_not_agree(
    tmp_path: Path, make: Callable[[], RawUpstream | Http2Upstream], http2: bool
) -> None:
    """HTTP/2 is offered to an upstream only where the client speaks it, so there is no fourth pair."""
    upstream = make()
    async with through(tmp_path, upstream, "http2: true") as scene, client(scene, http2=http2) as session:
        small = await session.get("/small", headers={"authorization": "Bearer stand-in"})
        assert small.status_code == 200
        assert small.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
        sent = await session.post("/sink", content=b"x" * 300_000)
        assert "300000" in sent.text
        got = await session.get("/bytes?n=300001")
        assert len(got.content) == 300_001
        unlocked(upstream, "/small", "/sink", "/bytes")
        assert len(upstream.links) == 1
        scene.carried(("GET", "/small", 200), ("POST", "/sink", 200), ("GET", "/bytes", 200))


@pytest.mark.parametrize("http2", [False, True], ids=["1.1", "2"])
async def test_an_echo_shows_a_mask(tmp_path: Path, http2: bool) -> None:
    async with through(tmp_path, raw(), "http2: true") as scene, client(scene, http2=http2) as session:
        response = await session.get("/echo-gzip")
        assert f"authorization: Bearer {MASK}\r\n" in response.text
        assert SECRET not in response.text
        unlocked(scene.upstream, "/echo-gzip")
        scene.carried(("GET", "/echo-gzip", 200))


@pytest.mark.parametrize("http2", [False, True], ids=["1.1", "2"])
async def test_a_denied_request_shows_why(tmp_path: Path, http2: bool) -> None:
    async with through(tmp_path, raw(), "http2: true") as scene, client(scene, http2=http2) as session:
        response = await session.post("/private/x", content=b"x" * 10_000)
        assert response.status_code == 403
        assert response.json()["error"]["code"] == "rule.denied"
        assert response.headers["egress-denied"] == "rule.denied"
        assert not scene.upstream.links
        scene.denied("rule.denied", ("POST", "/private/x", 403))


async def test_a_denied_request_does_not_end_the_other_streams(tmp_path: Path) -> None:
    async with through(tmp_path, both(), "http2: true") as scene, client(scene, http2=True) as session:
        async with session.stream("GET", "/stall") as slow:
            denied = await session.get("/private/x")
            assert denied.status_code == 403
            scene.upstream.released.set()
            assert await slow.aread() == b"beginning\nend\n"
        unlocked(scene.upstream, "/stall")
        denied_line, slow_line = scene.stack.exchanges()
        assert (denied_line["path"], denied_line["code"]) == ("/private/x", "rule.denied")
        assert (slow_line["path"], slow_line["code"]) == ("/stall", "rule.allowed")


@pytest.mark.parametrize("http2", [False, True], ids=["1.1", "2"])
async def test_many_requests_at_once_each_get_their_own_answer(tmp_path: Path, http2: bool) -> None:
    async with through(tmp_path, raw(), "http2: true") as scene, client(scene, http2=http2) as session:
        counts = [1000 * (number % 7) + number for number in range(1, 41)]
        answers = await asyncio.gather(*[session.get(f"/bytes?n={count}") for count in counts])
        for count, answer in zip(counts, answers, strict=True):
            assert hashlib.sha256(answer.content).hexdigest() == hash_of_bytes(count)
        unlocked(scene.upstream, *["/bytes"] * 40)
        scene.carried(*[("GET", "/bytes", 200)] * 40)


async def chunks(count: int) -> AsyncIterator[bytes]:
    for number in range(count):
        yield b"%d" % (number % 10) * 10_000


@pytest.mark.parametrize("http2", [False, True], ids=["1.1", "2"])
async def test_a_body_of_unknown_length_arrives_whole(tmp_path: Path, http2: bool) -> None:
    async with through(tmp_path, raw(), "http2: true") as scene, client(scene, http2=http2) as session:
        answer = await session.post("/sink", content=chunks(100))
        whole = b"".join([part async for part in chunks(100)])
        assert answer.json()["sha256"] == hashlib.sha256(whole).hexdigest()
        unlocked(scene.upstream, "/sink")
        assert scene.upstream.requests[0].header("transfer-encoding") == "chunked"
        scene.carried(("POST", "/sink", 200))


async def test_http2_without_a_rule_for_it_falls_back(tmp_path: Path) -> None:
    async with through(tmp_path, raw()) as scene, client(scene, http2=True) as session:
        answer = await session.get("/small")
        assert answer.http_version == "HTTP/1.1"
        unlocked(scene.upstream, "/small")
        scene.carried(("GET", "/small", 200))
