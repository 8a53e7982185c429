"""The lab works without a proxy, so that a failing test of the proxy is never the lab's fault."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import ssl
import subprocess
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import brotli  # type: ignore[import-untyped]  # compiled, and without stubs
import pytest
import zstandard
from h2.settings import SettingCodes
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage

from tests.proxy.lab.certificates import HTTP2, Certificates
from tests.proxy.lab.channel import Channel, End, EndedError
from tests.proxy.lab.client import Peer, RefusedError, at, connect, dial
from tests.proxy.lab.git import USER, GitUpstream, git_environment
from tests.proxy.lab.handlers import hash_of_bytes
from tests.proxy.lab.http2 import Http2Client, Http2Upstream
from tests.proxy.lab.raw_upstream import Close, Cut, Drip, RawUpstream, ReadBody, Reset, Say, Stall
from tests.proxy.lab.websocket import open_websocket

NAME = "api.example.test"
TOKEN = "Bearer sesame"
AUTHORIZED = f"authorization: {TOKEN}\r\n"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"

certs = Certificates()


@pytest.fixture
async def upstream() -> AsyncIterator[RawUpstream]:
    async with RawUpstream(certs.good(NAME)) as upstream:
        yield upstream


@pytest.fixture
async def peer(upstream: RawUpstream) -> AsyncIterator[Peer]:
    async with await connect(at(upstream.port), NAME, certs.trust(["http/1.1"])) as peer:
        yield peer


# Certificates -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("context", "said"),
    [
        (certs.expired(NAME), "expired"),
        (certs.not_yet_valid(NAME), "not yet valid"),
        (certs.wrong_name(), "Hostname mismatch"),
        (certs.self_signed(NAME), "self-signed"),
        (certs.unknown_ca(NAME), "unable to get local issuer"),
        (certs.good("*.other.test"), "Hostname mismatch"),
    ],
)
async def test_a_wrong_certificate_is_wrong_for_the_stated_reason(context: ssl.SSLContext, said: str) -> None:
    async with RawUpstream(context) as upstream:
        with pytest.raises(ssl.SSLCertVerificationError, match=said):
            await connect(at(upstream.port), NAME, certs.trust())
    assert upstream.links[0].sni == NAME
    assert not upstream.established


async def test_a_wildcard_certificate_covers_one_label() -> None:
    async with (
        RawUpstream(certs.good("*.example.test")) as upstream,
        await connect(at(upstream.port), NAME, certs.trust()) as peer,
    ):
        assert (await peer.get("/echo", NAME)).status == 200
    assert upstream.established[0].sni == NAME


# HTTP/1.1 -----------------------------------------------------------------------------------------


async def test_an_echo_holds_every_byte(peer: Peer, upstream: RawUpstream) -> None:
    request = b"POST /echo HTTP/1.1\r\nHost:  x\r\nA: 1\r\n folded\r\ncontent-length: 3\r\n\r\nabc"
    response = await peer.request(request)
    assert response.body == request
    assert response.complete
    assert upstream.requests[0].header("a") == "1 folded"
    assert upstream.links[0].heads == [request[:-3]]


@pytest.mark.parametrize(
    ("coding", "decode"),
    [
        ("gzip", gzip.decompress),
        ("br", brotli.decompress),
        ("zstd", lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data)),
        ("deflate", zlib.decompress),
    ],
)
async def test_a_coded_echo_decodes(peer: Peer, coding: str, decode: Callable[[bytes], bytes]) -> None:
    response = await peer.get(f"/echo-{coding}", NAME, AUTHORIZED)
    assert response.header("content-encoding") == coding
    assert TOKEN.encode() not in response.body
    assert TOKEN.encode() in decode(response.body)


async def test_what_reflects_reflects(peer: Peer) -> None:
    head = await peer.get("/echo-hdr", NAME, AUTHORIZED)
    assert head.header("x-echo") == TOKEN
    assert head.header("x-sesame") == "name"
    cookie = await peer.get("/cookie", NAME, AUTHORIZED)
    assert cookie.headers("set-cookie") == ["session=sesame; Path=/; HttpOnly", "plain=1"]
    away = await peer.get("/redirect?to=https://x.test/%7Btoken%7D&code=307", NAME, AUTHORIZED)
    assert (away.status, away.header("location")) == (307, "https://x.test/sesame")
    trailed = await peer.get("/trailers", NAME, AUTHORIZED)
    assert trailed.trailers == (("x-check", "done"), ("x-echo", TOKEN))
    hinted = await peer.get("/103", NAME, AUTHORIZED)
    assert [hint.header("x-echo") for hint in hinted.informational] == [TOKEN]
    assert hinted.body == b"after the hints\n"


async def test_one_connection_serves_pipelined_and_later_requests(peer: Peer, upstream: RawUpstream) -> None:
    get = b"GET /%b HTTP/1.1\r\nhost: x\r\n\r\n"
    responses = await peer.pipeline(get % b"chunked?n=2&ext=1", get % b"status?code=204", get % b"nowhere")
    assert [response.status for response in responses] == [200, 204, 404]
    assert responses[0].body == b"00001111"
    assert (await peer.get("/small", NAME)).status == 401
    assert (await peer.get("/small", NAME, AUTHORIZED)).status == 200
    assert {request.link for request in upstream.requests} == {0}


async def test_an_expectation_is_met_or_refused(peer: Peer) -> None:
    head = "POST /{} HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\nexpect: 100-continue\r\n\r\n"
    await peer.send(head.format("continue").encode())
    assert await peer.channel.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    await peer.send(b"abc")
    assert (await peer.response()).body == b"expected 100-continue, got 3 bytes\n"
    await peer.send(head.format("refuse").encode())
    assert (await peer.response()).status == 417
    assert await peer.channel.some() == b""


async def test_big_bodies_are_counted_and_hashed_in_both_directions(peer: Peer) -> None:
    count = 3_000_001
    got = await peer.get(f"/bytes?n={count}", NAME)
    assert (got.size, got.digest) == (count, hash_of_bytes(count))
    assert got.header("x-sha256") == got.digest
    body = b"x" * count
    sent = await peer.request(
        b"PUT /sink HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (count, body)
    )
    assert json.loads(sent.body)["sha256"] == hashlib.sha256(body).hexdigest()


async def test_events_arrive_one_by_one(peer: Peer) -> None:
    await peer.send(b"GET /sse?n=2&every=0.001 HTTP/1.1\r\nhost: x\r\n\r\n")
    head = await peer.head()
    assert head.header("content-type") == "text/event-stream"
    assert b"data: 0 " in await peer.channel.until(b"\n\n")
    assert b"data: 1 " in await peer.channel.until(b"\n\n")


# Scripts, and how connections end -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "end"), [(Close(), End.CLEAN), (Cut(), End.CUT), (Reset(), End.RESET)], ids=str
)
async def test_a_script_ends_a_connection_as_it_says(
    peer: Peer, upstream: RawUpstream, step: Close | Cut | Reset, end: End
) -> None:
    """What was sent before arrives even when a reset follows."""
    upstream.script("/lie", Say(HEAD + b"four"), step)
    response = await peer.get("/lie", NAME)
    assert (response.status, response.body, response.complete) == (200, b"four", False)
    assert peer.channel.end is end


async def test_a_client_can_end_badly_too(upstream: RawUpstream) -> None:
    upstream.script("/wait", Stall())
    for end in (Channel.close, Channel.cut, Channel.reset, Channel.drop):
        peer = await connect(at(upstream.port), NAME, certs.trust())
        await peer.send(b"GET /wait HTTP/1.1\r\n\r\n")
        await end(peer.channel)
    await upstream.until(lambda: sum(link.closed for link in upstream.links) == 4)


async def test_a_script_goes_on_after_its_answer(peer: Peer, upstream: RawUpstream) -> None:
    upstream.script("/drip", ReadBody(), Drip(HEAD + b"nine byte"))
    post = b"POST /drip HTTP/1.1\r\ncontent-length: 2\r\n\r\nhi"
    assert [each.body for each in await peer.pipeline(post, post)] == [b"nine byte"] * 2
    assert [request.body for request in upstream.requests] == [b"hi", b"hi"]


async def test_a_stall_ends_when_it_is_released(peer: Peer, upstream: RawUpstream) -> None:
    upstream.script("/late", Say(HEAD), Stall(), Say(b"nine byte"))
    await peer.send(b"GET /late HTTP/1.1\r\n\r\n")
    head = await peer.head()
    assert head.status == 200
    upstream.released.set()
    assert await peer.channel.exactly(9) == b"nine byte"


async def test_a_body_may_end_with_the_connection(peer: Peer) -> None:
    response = await peer.get("/until-close", NAME)
    assert (response.body, response.complete) == (b"until the end\n", True)


async def test_clear_text_works_and_may_greet() -> None:
    async with RawUpstream() as upstream:
        upstream.greet(Say(b"220 hello\r\n"))
        peer = await dial(at(upstream.port))
        assert await peer.channel.until(b"\n") == b"220 hello\r\n"
        assert (await peer.get("/echo", NAME)).status == 200
        await peer.channel.close()


async def test_a_refused_connect_shows_the_answer() -> None:
    async with RawUpstream() as proxy:
        with pytest.raises(RefusedError) as caught:
            await connect(at(9), NAME, None, proxy=at(proxy.port), extra="x-a: b\r\n")
    assert caught.value.response.status == 404
    assert proxy.links[0].heads == [
        b"CONNECT api.example.test:9 HTTP/1.1\r\nhost: api.example.test:9\r\nx-a: b\r\n\r\n"
    ]


async def test_a_mistake_in_the_lab_is_not_swallowed() -> None:
    upstream = await RawUpstream().__aenter__()
    async with await dial(at(upstream.port)) as peer:
        with pytest.raises(EndedError):
            await peer.get("/bytes?n=many", NAME)
    with pytest.raises(ExceptionGroup, match="an upstream of the lab is wrong"):
        await upstream.__aexit__()


# WebSocket ----------------------------------------------------------------------------------------


async def test_a_websocket_echoes_and_shows_its_credential(peer: Peer) -> None:
    socket = await open_websocket(peer.channel, NAME, "/ws?parts=3", AUTHORIZED)
    assert socket.response is not None
    assert (socket.response.status, socket.response.header("x-echo")) == (101, TOKEN)
    for message in (TextMessage("hällo"), BytesMessage(b"\x00\xff" * 40_000)):
        await socket.send(message)
        assert await socket.receive() == message
    assert socket.pings == [TOKEN.encode()]
    await socket.send(Ping(b"there?"))
    assert await socket.receive() == Pong(b"there?")
    await socket.send(TextMessage("credential"))
    assert await socket.receive() == TextMessage(TOKEN)
    await socket.send(TextMessage("close"))
    assert await socket.receive() == CloseConnection(1000, TOKEN)


async def test_a_websocket_that_is_not_asked_for_is_refused(peer: Peer) -> None:
    assert (await peer.get("/ws", NAME)).status == 426


# HTTP/2 -------------------------------------------------------------------------------------------


@pytest.fixture
async def http2() -> AsyncIterator[tuple[Http2Client, Http2Upstream]]:
    async with Http2Upstream(certs.good(NAME, alpn=HTTP2)) as upstream:
        peer = await connect(at(upstream.port), NAME, certs.trust(HTTP2))
        assert peer.channel.alpn == "h2"
        async with Http2Client(peer.channel) as client:
            yield client, upstream


Http2 = tuple[Http2Client, Http2Upstream]


async def test_http2_echoes_fields_body_and_trailers(http2: Http2) -> None:
    client, upstream = http2
    stream = await client.start(NAME, "/echo", ("authorization", TOKEN), method="POST")
    await client.conversation.data(stream, b"body")
    await client.conversation.headers(stream, (("x-last", "1"),), end=True)
    found = json.loads((await client.conversation.whole(stream)).body)
    assert (found["body"], found["trailers"]) == ("body", [["x-last", "1"]])
    assert ["authorization", TOKEN] in found["fields"]
    assert upstream.requests[0].method == "POST"


async def test_http2_answers_in_each_shape(http2: Http2) -> None:
    client, _ = http2
    credential = ("authorization", TOKEN)
    assert (await client.get(NAME, "/trailers", credential)).trailers == (
        ("x-check", "done"),
        ("x-echo", TOKEN),
    )
    hinted = await client.get(NAME, "/103", credential)
    assert (hinted.status, len(hinted.informational)) == (200, 1)
    assert (await client.get(NAME, "/small")).status == 401
    assert (await client.get(NAME, "/sse?n=2")).body == b"data: 0\n\ndata: 1\n\n"
    assert (await client.get(NAME, "/bytes?n=200000")).size == 200_000
    assert (await client.post(NAME, "/sink", b"x" * 200_000)).body == b"200000"
    assert (await client.get(NAME, "/flood?n=20")).complete
    assert (await client.get(NAME, "/nowhere")).status == 404


async def test_http2_resets_and_refuses(http2: Http2) -> None:
    client, _ = http2
    cut = await client.get(NAME, "/rst?code=11")
    assert (bytes(cut.body), cut.reset, cut.complete) == (b"some\n", 11, False)
    assert (await client.get(NAME, "/refused")).reset == 7
    assert (await client.get(NAME, "/goaway")).body == b"the last one\n"
    await client.conversation.until(lambda: client.conversation.goaway == 0)


async def test_http2_holds_back_until_the_window_opens(http2: Http2) -> None:
    client, upstream = http2
    stream = await client.start(NAME, "/reads-late", method="POST")
    sending = asyncio.ensure_future(client.conversation.data(stream, b"x" * 100_000, end=True))
    await upstream.until(lambda: bool(upstream.requests))
    call = upstream.requests[0]
    await call.conversation.until(lambda: call.stream.size == 65_535)
    assert call.stream.unacknowledged == 65_535
    assert not sending.done()
    upstream.released.set()
    await sending
    assert (await client.conversation.whole(stream)).body == b"100000"


async def test_http2_carries_a_hundred_streams_at_once(http2: Http2) -> None:
    client, upstream = http2
    streams = [await client.start(NAME, "/stall") for _ in range(100)]
    await client.conversation.until(lambda: all(stream.body for stream in streams))
    assert upstream.most_at_once == 100
    upstream.released.set()
    for stream in streams:
        assert (await client.conversation.whole(stream)).body == b"beginning\nend\n"


async def test_http2_overruns_a_window(http2: Http2) -> None:
    client, _ = http2
    stream = await client.start(NAME, "/overrun")
    stream.acknowledges = False
    await client.conversation.finished()
    assert "FlowControlError" in client.conversation.mistake


async def test_http2_announces_its_settings() -> None:
    chosen = {SettingCodes.MAX_CONCURRENT_STREAMS: 3}
    async with Http2Upstream(certs.good(NAME, alpn=HTTP2), chosen) as upstream:
        peer = await connect(at(upstream.port), NAME, certs.trust(HTTP2))
        async with Http2Client(peer.channel) as client:
            await client.get(NAME, "/small")
            assert client.conversation.h2.remote_settings.max_concurrent_streams == 3


# git ----------------------------------------------------------------------------------------------


async def git(home: Path, *arguments: str) -> str:
    """Run git with the lab's CA; its output, or CalledProcessError."""
    command = ["git", "-c", f"http.sslCAInfo={certs.write_ca(home / 'ca.pem')}", *arguments]
    found = await asyncio.to_thread(
        subprocess.run,
        command,
        env=git_environment(home),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return found.stdout


@pytest.mark.system("git")
async def test_git_clones_and_pushes_with_the_secret_and_not_without(tmp_path: Path) -> None:
    async with GitUpstream(certs.good("localhost"), tmp_path, "sesame") as upstream:
        upstream.create("widgets")
        url = f"https://{USER}:sesame@localhost:{upstream.port}/widgets.git"
        work = tmp_path / "work"
        await git(tmp_path, "clone", "--quiet", url, str(work))
        (work / "big").write_bytes(b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(50_000)))
        await git(tmp_path, "-C", str(work), "add", "big")
        await git(tmp_path, "-C", str(work), "commit", "--quiet", "-m", "one")
        await git(tmp_path, "-C", str(work), "push", "--quiet", "origin", "HEAD:main")
        await git(tmp_path, "clone", "--quiet", url, str(tmp_path / "again"))
        assert (tmp_path / "again/big").read_bytes() == (work / "big").read_bytes()
        with pytest.raises(subprocess.CalledProcessError):
            await git(tmp_path, "clone", url.replace("sesame", "wrong"), str(tmp_path / "denied"))
