"""curl works through the proxy, whatever it is asked to do, and never holds the credential."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.proxy.clients.program import Ran, run
from tests.proxy.clients.scene import MASK, SECRET, WANTED, Scene, certs, through, unlocked
from tests.proxy.lab.certificates import HTTP2
from tests.proxy.lab.handlers import hash_of_bytes
from tests.proxy.lab.http2 import Http2Upstream
from tests.proxy.lab.proxy_stack import NAME, OTHER
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.lab.upstream_request import UpstreamRequest

pytestmark = pytest.mark.system("curl", "curl")

CONTENT = bytes(range(256)) * 4096


def raw() -> RawUpstream:
    upstream = RawUpstream(certs.good(NAME, OTHER), WANTED)
    upstream.handle("/file", ranged)
    upstream.handle("/full", full)
    return upstream


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene[RawUpstream]]:
    async with through(tmp_path, raw()) as scene:
        yield scene


async def curl(scene: Scene[RawUpstream | Http2Upstream], *arguments: str) -> Ran:
    """Run curl with nothing but the address of the proxy and the certificate to trust."""
    common = ("--disable", "--silent", "--show-error", "--proxy", scene.stack.url, "--cacert", str(scene.ca))
    ran = await run(scene.stack.folder, "curl", *common, *arguments)
    assert SECRET.encode() not in ran.out
    assert SECRET not in ran.err
    return ran


async def ranged(visit: UpstreamRequest) -> None:
    """The content, or the end of it that is asked for."""
    await visit.body()
    asked = visit.request.header("range")
    if asked is None:
        await visit.answer(CONTENT, (("accept-ranges", "bytes"),))
        return
    first = int(asked.removeprefix("bytes=").removesuffix("-"))
    where = ("content-range", f"bytes {first}-{len(CONTENT) - 1}/{len(CONTENT)}")
    await visit.answer(CONTENT[first:], (where,), status="206 Partial Content")


async def full(visit: UpstreamRequest) -> None:
    """Answers without reading the body, and hangs up."""
    visit.over = True
    await visit.answer(b"too much\n", (("connection", "close"),), status="413 Content Too Large")


# HTTP/1 -------------------------------------------------------------------------------------------


async def test_a_get_is_given_the_credential(scene: Scene[RawUpstream]) -> None:
    ran = await curl(scene, scene.url("/small"))
    assert ran.status == 0, ran.err
    assert json.loads(ran.out)["items"]
    unlocked(scene.upstream, "/small")
    scene.carried(("GET", "/small", 200))


async def test_a_credential_of_its_own_is_replaced(scene: Scene[RawUpstream]) -> None:
    ran = await curl(scene, "--oauth2-bearer", "stand-in", "--user-agent", "curl", scene.url("/small"))
    assert ran.status == 0, ran.err
    unlocked(scene.upstream, "/small")
    scene.carried(("GET", "/small", 200))


async def test_an_upstream_that_echoes_shows_a_mask(scene: Scene[RawUpstream]) -> None:
    ran = await curl(scene, scene.url("/echo"))
    assert f"authorization: Bearer {MASK}\r\n" in ran.text
    unlocked(scene.upstream, "/echo")
    scene.carried(("GET", "/echo", 200))
    assert scene.stack.exchanges()[0]["scrubbed"] == {"api": 1}


async def test_a_denied_path_gets_our_page_and_goes_nowhere(scene: Scene[RawUpstream]) -> None:
    ran = await curl(scene, "--include", scene.url("/private/keys"))
    head, _, body = ran.text.rpartition("\r\n\r\n")
    assert " 403 Egress rule.denied (egress log suggest " in head
    assert json.loads(body)["error"]["code"] == "rule.denied"
    assert not scene.upstream.links
    scene.denied("rule.denied", ("GET", "/private/keys", 403))


@pytest.mark.parametrize(("port", "status"), [(443, 0), (22, 56)], ids=["inside", "at the connect"])
async def test_a_denied_host_is_refused_inside_its_tls_or_at_the_connect(
    scene: Scene[RawUpstream], port: int, status: int
) -> None:
    ran = await curl(scene, "--verbose", f"https://elsewhere.example.test:{port}/")
    assert ran.status == status
    assert "403 Egress host.unknown" in ran.err
    assert not scene.upstream.links
    (line,) = scene.stack.lines()
    assert (line["event"], line["code"]) == ("refusal" if status else "exchange", "host.unknown")


@pytest.mark.parametrize("version", ["--http1.0", "--http1.1"])
async def test_both_versions_of_http1_work(scene: Scene[RawUpstream], version: str) -> None:
    """A client of 1.0 knows no chunks: the end of the connection is the end of the body."""
    ran = await curl(scene, version, "--include", scene.url("/chunked?n=3"))
    assert ran.text.endswith("\r\n\r\n000011112222")
    assert ("chunked" in ran.text) is (version == "--http1.1")
    unlocked(scene.upstream, "/chunked")
    assert scene.upstream.requests[0].start == "GET /chunked?n=3 HTTP/1.1"
    scene.carried(("GET", "/chunked", 200))


async def test_a_head_has_the_length_and_no_body(scene: Scene[RawUpstream]) -> None:
    ran = await curl(scene, "--head", scene.url("/file"))
    assert ran.status == 0, ran.err
    assert f"content-length: {len(CONTENT)}\r\n" in ran.text
    assert ran.text.endswith("\r\n\r\n")
    unlocked(scene.upstream, "/file")
    scene.carried(("HEAD", "/file", 200))


async def test_one_connection_serves_many_requests(scene: Scene[RawUpstream]) -> None:
    ran = await curl(scene, *[scene.url("/chunked?n=1")] * 5)
    assert ran.text == "0000" * 5
    unlocked(scene.upstream, *["/chunked"] * 5)
    assert len(scene.upstream.links) == 1
    scene.carried(*[("GET", "/chunked", 200)] * 5)
    assert len({line["connection"] for line in scene.stack.exchanges()}) == 1


# Bodies -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "method", "framing"),
    [
        (("--upload-file", "FILE"), "PUT", "content-length"),
        (("--data-binary", "@FILE"), "POST", "content-length"),
        (("--data-binary", "@FILE", "--header", "transfer-encoding: chunked"), "POST", "transfer-encoding"),
    ],
    ids=["upload", "post", "chunked"],
)
async def test_a_body_arrives_whole(
    scene: Scene[RawUpstream], tmp_path: Path, how: tuple[str, ...], method: str, framing: str
) -> None:
    """With bodies of this size comes `Expect: 100-continue`, and curl waits for the answer to it."""
    file = tmp_path / "body"
    file.write_bytes(CONTENT * 2)
    arguments = [each.replace("FILE", str(file)) for each in how]
    ran = await curl(scene, "--verbose", "--expect100-timeout", "50", *arguments, scene.url("/sink"))
    assert json.loads(ran.out)["sha256"] == hashlib.sha256(CONTENT * 2).hexdigest()
    assert "HTTP/1.1 100 Continue" in ran.err
    unlocked(scene.upstream, "/sink")
    assert scene.upstream.requests[0].header(framing) is not None
    scene.carried((method, "/sink", 200))
    assert scene.stack.exchanges()[0]["bytes_up"] == 2 * len(CONTENT)


async def test_an_expectation_that_is_refused_saves_the_body(
    scene: Scene[RawUpstream], tmp_path: Path
) -> None:
    """As long as curl waits for 100, the body can only follow one. After 417 curl would try without."""
    (tmp_path / "body").write_bytes(CONTENT)
    put = ("--expect100-timeout", "50", "--header", "expect: 100-continue", "--upload-file", "body")
    ran = await curl(scene, "--include", *put, scene.url("/full"))
    assert " 413 " in ran.text
    unlocked(scene.upstream, "/full")
    scene.carried(("PUT", "/full", 413))
    assert scene.stack.exchanges()[0]["bytes_up"] == 0


@pytest.mark.parametrize(
    ("path", "status", "code"), [("/full", 413, "rule.allowed"), ("/private/x", 403, "rule.denied")]
)
async def test_an_answer_that_does_not_wait_for_the_body_arrives(
    scene: Scene[RawUpstream], tmp_path: Path, path: str, status: int, code: str
) -> None:
    """Whoever answers hangs up with bytes unread, which is a reset: what was said before must not be lost."""
    (tmp_path / "body").write_bytes(CONTENT * 8)
    put = ("--header", "expect:", "--upload-file", "body", "--output", os.devnull)
    for _ in range(10):
        ran = await curl(scene, *put, "--write-out", "%{http_code}", scene.url(path))
        assert ran.text == str(status), ran.err
    lines = scene.stack.exchanges()
    assert [(line["path"], line["status"], line["code"]) for line in lines] == [(path, status, code)] * 10
    unlocked(scene.upstream, *[path] * (10 if status == 413 else 0))


async def test_a_denied_upload_is_answered_before_it_is_sent(
    scene: Scene[RawUpstream], tmp_path: Path
) -> None:
    (tmp_path / "body").write_bytes(CONTENT)
    put = ("--expect100-timeout", "50", "--header", "expect: 100-continue", "--upload-file", "body")
    ran = await curl(scene, *put, "--write-out", "%{size_upload}", scene.url("/private/x"))
    assert '"code": "rule.denied"' in ran.text
    assert ran.text.endswith("\n0")
    assert not scene.upstream.links
    scene.denied("rule.denied", ("PUT", "/private/x", 403))


async def test_a_download_arrives_whole(scene: Scene[RawUpstream], tmp_path: Path) -> None:
    count = 20_000_001
    ran = await curl(scene, "--output", "got", scene.url(f"/bytes?n={count}"))
    assert ran.status == 0, ran.err
    assert hashlib.sha256((tmp_path / "got").read_bytes()).hexdigest() == hash_of_bytes(count)
    unlocked(scene.upstream, "/bytes")
    scene.carried(("GET", "/bytes", 200))
    assert scene.stack.exchanges()[0]["bytes_down"] == count


async def test_a_download_is_resumed_where_it_was_left(scene: Scene[RawUpstream], tmp_path: Path) -> None:
    got = tmp_path / "got"
    got.write_bytes(CONTENT[:400_000])
    ran = await curl(scene, "--continue-at", "-", "--output", "got", scene.url("/file"))
    assert ran.status == 0, ran.err
    assert got.read_bytes() == CONTENT
    unlocked(scene.upstream, "/file")
    assert scene.upstream.requests[0].header("range") == "bytes=400000-"
    scene.carried(("GET", "/file", 206))
    assert scene.stack.exchanges()[0]["bytes_down"] == len(CONTENT) - 400_000


async def test_a_compressed_answer_is_readable(scene: Scene[RawUpstream]) -> None:
    """The upstream compresses without being asked; the credential in it is masked all the same."""
    ran = await curl(scene, "--compressed", scene.url("/echo-gzip"))
    assert ran.status == 0, ran.err
    assert f"authorization: Bearer {MASK}\r\n" in ran.text
    unlocked(scene.upstream, "/echo-gzip")
    scene.carried(("GET", "/echo-gzip", 200))


# Heads --------------------------------------------------------------------------------------------


async def test_a_redirect_on_the_same_host_is_followed(scene: Scene[RawUpstream]) -> None:
    ran = await curl(scene, "--location", scene.url("/redirect?to=/small"))
    assert json.loads(ran.out)["items"]
    unlocked(scene.upstream, "/redirect", "/small")
    scene.carried(("GET", "/redirect", 302), ("GET", "/small", 200))


async def test_a_redirect_to_another_host_takes_no_credential_along(scene: Scene[RawUpstream]) -> None:
    away = f"https://{OTHER}:{scene.port}/small"
    ran = await curl(scene, "--location-trusted", "--include", scene.url(f"/redirect?to={away}"))
    assert " 401 " in ran.text
    first, second = scene.upstream.requests
    assert first.headers("authorization") == [WANTED]
    assert not second.headers("authorization")
    there, here = scene.stack.exchanges()
    assert (there["host"], there["status"], len(there["injected"])) == (NAME, 302, 1)  # type: ignore[arg-type]
    assert (here["host"], here["status"], here["injected"]) == (OTHER, 401, [])


async def test_early_hints_and_trailers_arrive(scene: Scene[RawUpstream]) -> None:
    """Both are shown among the headers."""
    hinted = await curl(scene, "--dump-header", "-", scene.url("/103"))
    assert hinted.text.startswith("HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 103 Early Hints\r\n")
    assert f"x-echo: Bearer {MASK}\r\n" in hinted.text
    assert hinted.text.endswith("\r\n\r\nafter the hints\n")
    trailed = await curl(scene, "--dump-header", "-", scene.url("/trailers"))
    assert "x-check: done\r\n" in trailed.text
    assert f"x-echo: Bearer {MASK}\r\n" in trailed.text
    unlocked(scene.upstream, "/103", "/trailers")
    scene.carried(("GET", "/103", 200), ("GET", "/trailers", 200))


# HTTP/2 -------------------------------------------------------------------------------------------


async def http2(scene: Scene[RawUpstream | Http2Upstream], *arguments: str) -> Ran:
    """Run curl with HTTP/2; what it says last is the version that it came to speak."""
    version = await run(scene.stack.folder, "curl", "--disable", "--version")
    if "HTTP2" not in version.text:
        pytest.skip("this curl has no HTTP/2")
    ran = await curl(scene, "--http2", "--write-out", "\n%{http_version}", *arguments)
    assert ran.out.endswith(b"\n2"), ran.err
    return ran


async def test_http2_works_from_end_to_end(tmp_path: Path) -> None:
    upstream = Http2Upstream(certs.good(NAME, alpn=HTTP2), wants=WANTED)
    async with through(tmp_path, upstream, "http2: true") as scene:
        ran = await http2(scene, scene.url("/small"), scene.url("/bytes?n=300000"))
        assert ran.status == 0, ran.err
        assert b'{"ok":true}' in ran.out
        assert (bytes(range(256)) * 1172)[:300_000] in ran.out
        unlocked(upstream, "/small", "/bytes")
        scene.carried(("GET", "/small", 200), ("GET", "/bytes", 200))


async def test_http2_works_where_the_upstream_speaks_http1(tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(CONTENT)
    async with through(tmp_path, raw(), "http2: true") as scene:
        ran = await http2(scene, "--upload-file", "body", scene.url("/sink"))
        assert json.loads(ran.text[:-2])["sha256"] == hashlib.sha256(CONTENT).hexdigest()
        trailed = await http2(scene, "--dump-header", "-", scene.url("/trailers"))
        assert f"x-echo: Bearer {MASK}\r\n" in trailed.text
        unlocked(scene.upstream, "/sink", "/trailers")
        scene.carried(("PUT", "/sink", 200), ("GET", "/trailers", 200))


async def test_http2_is_not_offered_where_no_rule_says_so(scene: Scene[RawUpstream]) -> None:
    ran = await curl(scene, "--http2", "--write-out", "%{http_version}", scene.url("/chunked?n=1"))
    assert ran.text == "00001.1"
    unlocked(scene.upstream, "/chunked")
    scene.carried(("GET", "/chunked", 200))


# Other ways in ------------------------------------------------------------------------------------


async def test_a_client_that_knows_no_proxy_is_served_by_the_name_it_asks_for(
    scene: Scene[RawUpstream],
) -> None:
    await scene.stack.open_transparent("127.0.0.2", scene.port)
    there = ("--resolve", f"{scene.host}:127.0.0.2", "--noproxy", "*")
    ran = await curl(scene, *there, scene.url("/chunked?n=1"))
    assert ran.text == "0000", ran.err
    unlocked(scene.upstream, "/chunked")
    scene.carried(("GET", "/chunked", 200))
    assert scene.stack.exchanges()[0]["entry"] == "sni"


async def test_the_environment_is_enough(scene: Scene[RawUpstream], tmp_path: Path) -> None:
    environment = {"https_proxy": scene.stack.url, "CURL_CA_BUNDLE": str(scene.ca)}
    command = ("curl", "--disable", "--silent", "--show-error", scene.url("/chunked?n=1"))
    ran = await run(tmp_path, *command, environment=environment)
    assert ran.text == "0000", ran.err
    unlocked(scene.upstream, "/chunked")
    scene.carried(("GET", "/chunked", 200))
