"""Python's requests works through the proxy: the client that most scripts in a sandbox use."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import requests

from tests.proxy.clients.scene import MASK, SECRET, Scene, certs, through, unlocked
from tests.proxy.lab.handlers import hash_of_bytes
from tests.proxy.lab.proxy_stack import NAME
from tests.proxy.lab.raw_upstream import RawUpstream

Ask = Callable[[requests.Session], requests.Response]


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene[RawUpstream]]:
    async with through(tmp_path, RawUpstream(certs.good(NAME), "Bearer " + SECRET)) as scene:
        yield scene


async def asked(scene: Scene[RawUpstream], ask: Ask) -> requests.Response:
    """Let a session ask, in a thread: requests waits for its sockets."""

    def work() -> requests.Response:
        with requests.Session() as session:
            session.trust_env = False
            session.proxies = {"https": scene.stack.url}
            session.verify = str(scene.ca)
            return ask(session)

    response = await asyncio.to_thread(work)
    assert SECRET.encode() not in response.content
    assert SECRET not in str(response.headers)
    return response


async def test_a_get_is_given_the_credential(scene: Scene[RawUpstream]) -> None:
    response = await asked(scene, lambda session: session.get(scene.url("/small?a=1&b=%20")))
    assert (response.status_code, len(response.json()["items"])) == (200, 10)
    unlocked(scene.upstream, "/small")
    assert scene.upstream.requests[0].target == "/small?a=1&b=%20"
    scene.carried(("GET", "/small", 200))


async def test_a_key_that_the_client_needs_to_begin_is_replaced(scene: Scene[RawUpstream]) -> None:
    """Many libraries refuse to start without a key; any will do."""
    stand_in = {"Authorization": "Bearer stand-in"}
    response = await asked(scene, lambda session: session.get(scene.url("/echo"), headers=stand_in))
    assert f"authorization: Bearer {MASK}\r\n" in response.text
    assert "stand-in" not in response.text
    unlocked(scene.upstream, "/echo")
    scene.carried(("GET", "/echo", 200))


@pytest.mark.parametrize("framing", ["content-length", "transfer-encoding"])
async def test_a_body_arrives_whole(scene: Scene[RawUpstream], framing: str) -> None:
    parts = [b"%d" % number * 1000 for number in range(500)]

    def chunks() -> Iterator[bytes]:
        yield from parts

    body = b"".join(parts) if framing == "content-length" else chunks()
    response = await asked(scene, lambda session: session.post(scene.url("/sink"), data=body))
    assert response.json()["sha256"] == hashlib.sha256(b"".join(parts)).hexdigest()
    unlocked(scene.upstream, "/sink")
    assert scene.upstream.requests[0].header(framing) is not None
    scene.carried(("POST", "/sink", 200))


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd", "deflate"])
async def test_a_coded_answer_is_readable_and_masked(scene: Scene[RawUpstream], coding: str) -> None:
    response = await asked(scene, lambda session: session.get(scene.url(f"/echo-{coding}")))
    assert f"authorization: Bearer {MASK}\r\n" in response.text
    unlocked(scene.upstream, f"/echo-{coding}")
    scene.carried(("GET", f"/echo-{coding}", 200))


async def test_a_large_download_is_whole(scene: Scene[RawUpstream]) -> None:
    count = 5_000_001
    response = await asked(scene, lambda session: session.get(scene.url(f"/bytes?n={count}")))
    assert hashlib.sha256(response.content).hexdigest() == hash_of_bytes(count)
    unlocked(scene.upstream, "/bytes")
    scene.carried(("GET", "/bytes", 200))


async def test_a_session_keeps_its_connection(scene: Scene[RawUpstream]) -> None:
    def thrice(session: requests.Session) -> requests.Response:
        session.head(scene.url("/small"))
        session.get(scene.url("/status?code=204"))
        return session.get(scene.url("/chunked?n=2"))

    assert (await asked(scene, thrice)).text == "00001111"
    unlocked(scene.upstream, "/small", "/status", "/chunked")
    assert len(scene.upstream.links) == 1
    scene.carried(("HEAD", "/small", 200), ("GET", "/status", 204), ("GET", "/chunked", 200))


async def test_a_redirect_is_followed_and_decided_anew(scene: Scene[RawUpstream]) -> None:
    response = await asked(scene, lambda session: session.get(scene.url("/redirect?to=/private/x&code=307")))
    assert response.status_code == 403
    unlocked(scene.upstream, "/redirect")
    there, back = scene.stack.exchanges()
    assert response.reason == f"Egress rule.denied (egress log suggest {back['request']})"
    assert (there["status"], there["code"], back["path"], back["code"]) == (
        307,
        "rule.allowed",
        "/private/x",
        "rule.denied",
    )
    assert back["injected"] == []


async def test_a_denied_request_shows_why(scene: Scene[RawUpstream]) -> None:
    response = await asked(scene, lambda session: session.delete(scene.url("/private/x")))
    with pytest.raises(requests.HTTPError, match=r"403 Client Error: Egress rule\.denied"):
        response.raise_for_status()
    assert response.json()["error"]["code"] == "rule.denied"
    assert response.headers["egress-denied"] == "rule.denied"
    assert not scene.upstream.links
    scene.denied("rule.denied", ("DELETE", "/private/x", 403))


async def test_a_denied_host_shows_why(scene: Scene[RawUpstream]) -> None:
    elsewhere = f"https://elsewhere.example.test:{scene.port}/"
    response = await asked(scene, lambda session: session.get(elsewhere))
    assert response.json()["error"]["code"] == "host.unknown"
    assert not scene.upstream.links
    (line,) = scene.stack.exchanges()
    assert line["request"] == response.headers["egress-request"]
