"""What one sandbox can use up: memory, connections, turns; told by the kernel and by a neighbour that asks.

Each attack is on while the neighbour is served. Nothing is timed: it is answered, or it is not.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import gzip
import hashlib
import struct
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import brotli  # type: ignore[import-untyped]  # compiled, and without stubs
import pytest
import zstandard

from tests.attack.lab.added_sandbox import boxes
from tests.attack.lab.cases import case
from tests.attack.lab.client import PATIENCE, Answer, Line, request
from tests.attack.lab.harm import Finding, Harm, must_be_none
from tests.attack.lab.http2 import Http2, head
from tests.attack.lab.lab import Lab
from tests.attack.lab.memory import MOST, Memory
from tests.attack.lab.names import ANY, API, HTTP2, OTHER, PLAIN, SCOPED, SOCKETS
from tests.attack.lab.proxies import Egress, Naive, Proxy
from tests.attack.lab.websocket import PING, ask_for_websocket, frame
from tests.proxy.lab.upstream_request import UpstreamRequest
from tests.proxy.lab.websocket import serve_websocket
from tests.proxy.serve_process import until

pytestmark = pytest.mark.system("ip", "iproute2")

MIB: Final = 1 << 20
PROMPTS: Final = f"prompts.{ANY}"
"""Takes 64 KiB in a request."""
STARS: Final = f"stars.{ANY}"
"""Its one rule has a pattern that makes some matchers work for ever."""
PATTERN: Final = "/" + "*a" * 12 + "b"


def rules(lab: Lab) -> str:
    return lab.rules() + (
        f"  {PROMPTS}: {{allow: all, limits: {{request_body: 64 KiB}}, inject: [{{bearer: shapes}}]}}\n"
        f"  {STARS}: {{allow: [{{id: stars, paths: ['{PATTERN}']}}]}}\n"
    )


@pytest.fixture(scope="module")
def egress(lab: Lab) -> Iterator[Egress]:
    """One with the usual bounds, and room for a neighbour."""
    with lab.egress(rules(lab), "--handover") as proxy:
        yield proxy
        found = lab.at_the_end(proxy)
    must_be_none(found)


Attack = Callable[[Lab, Proxy], object]
Handler = Callable[[UpstreamRequest], Awaitable[None]]


def bear(lab: Lab, proxy: Proxy, attacks: Mapping[str, Attack]) -> None:
    """Hold a proxy to its bounds under each attack of one sandbox, while another one is served."""
    with boxes(lab, proxy, "greedy") as (greedy,), ThreadPoolExecutor(1) as beside:
        _warm_up(proxy, greedy)
        for what, attack in attacks.items():
            with Memory(proxy) as memory:
                under_way = beside.submit(attack, lab, greedy)
                served = _is_served(proxy)
                under_way.result()
                served = served and _is_served(proxy)
                growth = memory.growth
            for line in proxy.lines:
                line.close()
                # What is large was made of nothing; to search it takes long.
                del line.received[MIB // 16 :]
            if not served or growth > MOST:
                how = "served" if served else "not served"
                raise Finding(Harm.STARVED, f"{what}: {growth} MiB, and the neighbour is {how}")
            assert proxy.status() is None, f"{what} has ended the proxy"


def _warm_up(*proxies: Proxy) -> None:
    """What the first of everything costs, it costs once."""
    for proxy in proxies:
        for host in (API, OTHER, SCOPED):
            proxy.ask(host, request(host, "/echo"))


def _is_served(proxy: Proxy) -> bool:
    return proxy.ask(API, request(API, "/small")).status == 200


# From clients -----------------------------------------------------------------------------------


def _pour(line: Line, data: bytes, times: int) -> Line:
    """Send it again and again, as long as it is taken."""
    line._sock.settimeout(0.5)
    for _ in range(times):
        try:
            line._sock.sendall(data)
        except OSError:
            break
    return line


def _end(proxy: Proxy, line: Line, *codes: int) -> None:
    """Read what is left; Egress says one of these, or hangs up. The other one waits for more."""
    line._sock.settimeout(0.1 if proxy.patience else PATIENCE)
    answer = line.response()
    assert answer.status in (0, *codes), answer
    line.close()


FIELD: Final = b"x: " + b"y" * MIB + b"\r\n"


def _outside(start: bytes, data: bytes = FIELD) -> Attack:
    return lambda _, proxy: _end(proxy, _pour(proxy.dial().send(start), data, 64), 400, 408, 414, 431)


def _inside(start: bytes, data: bytes = FIELD, times: int = 64, end: bytes = b"") -> Attack:
    codes = (200, 400, 413, 431)
    return lambda _, proxy: _end(proxy, _pour(proxy.tunnel(API).send(start), data, times).send(end), *codes)


CHUNKED: Final = f"POST /sink HTTP/1.1\r\nhost: {API}\r\ntransfer-encoding: chunked\r\n\r\n".encode()

HEADS: Final[Mapping[str, Attack]] = {
    "64 MiB of a request": _outside(f"GET http://{PLAIN}/ HTTP/1.1\r\n".encode()),
    "64 MiB of a CONNECT": _outside(f"CONNECT {API}:443 HTTP/1.1\r\n".encode()),
    "64 MiB of a target": _outside(b"GET /", b"x" * MIB),
    "64 MiB of nothing": _outside(b"", b"\r\n" * (MIB // 2)),
    "64 MiB of a head inside": _inside(b"GET / HTTP/1.1\r\n"),
    "64 MiB of one field": _inside(b"GET / HTTP/1.1\r\nx: ", b"y" * MIB),
    "64 MiB of a chunk's size": _inside(CHUNKED, b"0" * MIB),
    "64 MiB of a chunk's extension": _inside(CHUNKED + b"1;", b"x" * MIB),
    "64 MiB of extensions": _inside(CHUNKED, (b"1;" + b"x" * 200 + b"\r\ny\r\n") * 5000),
    "64 MiB of trailers": _inside(CHUNKED + b"0\r\n"),
}


@case("S-66", "heads without an end", Harm.STARVED)
def test_heads_without_an_end(lab: Lab, proxy: Proxy) -> None:
    bear(lab, proxy, HEADS)


def _unread_in_http2(_: Lab, proxy: Proxy) -> None:
    """Answers of 200 MiB, of which the client takes nothing."""
    with proxy.tunnel(API, alpn=("h2",)) as line:
        http2 = Http2(line)
        http2.acknowledges = False
        streams = [http2.start(*head(API, f"/bytes?n={50 * MIB}")) for _ in range(4)]
        line._sock.settimeout(10 if proxy.patience else 0.5)
        http2.until(lambda: all(stream.complete for stream in streams))


def _unread(_: Lab, proxy: Proxy) -> None:
    with proxy.tunnel(API) as line:
        line.send(request(API, f"/bytes?n={1 << 30}")).exactly(5 * MIB)
        # What is not taken now waits in buffers: there must be an end to them.
        line._sock.settimeout(0.5)
        proxy.ask(API, request(API, "/small"))


def _upload(host: str, target: str, size: int) -> Attack:
    start = f"POST {target} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {1 << 30}\r\n\r\n".encode()
    return lambda _, proxy: _pour(proxy.tunnel(host).send(start), b"y" * MIB, size).close()


def _upload_in_http2(_: Lab, proxy: Proxy) -> None:
    """On ten streams, as much as the windows allow."""
    with proxy.tunnel(HTTP2, alpn=("h2",)) as line:
        http2 = Http2(line)
        fields = head(HTTP2, "/never-reads", method="POST")
        streams = [http2.start(*fields, end=False) for _ in range(10)]
        line._sock.settimeout(0.5)
        http2.until(lambda: False)
        line.silent = False
        for stream in streams:
            while (room := min(http2.h2.local_flow_control_window(stream.id), 16384)) > 0:
                http2.data(stream, b"y" * room)


BODIES: Final[Mapping[str, Attack]] = {
    "answers in HTTP/2 that nobody reads": _unread_in_http2,
    "an answer that nobody reads": _unread,
    "an upload that nobody reads": _upload(API, "/never-reads", 100),
    "an upload that is refused": _upload(SCOPED, "/somewhere", 100),
    "an upload in HTTP/2 that nobody reads": _upload_in_http2,
    "an upload of single bytes": _inside(CHUNKED, b"1\r\ny\r\n" * 20_000, 10, b"0\r\n\r\n"),
    "requests all at once": lambda _, proxy: _pour(
        proxy.tunnel(API), request(API, "/nowhere") * 1000, 20
    ).close(),
}


async def _never_reads(visit: UpstreamRequest) -> None:
    """Neither the body, nor anything else."""
    visit.over = True
    await asyncio.Event().wait()


@case("S-66", "bodies that nobody reads", Harm.STARVED)
def test_bodies_that_nobody_reads(lab: Lab, proxy: Proxy) -> None:
    lab.api.handle("/never-reads", _never_reads)
    bear(lab, proxy, BODIES)


# From hosts -------------------------------------------------------------------------------------


def _sending(start: bytes, data: bytes, times: int) -> Handler:
    """A host that says something, and then the same again and again."""

    async def handler(visit: UpstreamRequest) -> None:
        visit.over = True
        await visit.body()
        await visit.channel.send(start)
        for _ in range(times):
            await visit.channel.send(data)

    return handler


OK: Final = b"HTTP/1.1 200 OK\r\n"
IN_CHUNKS: Final = OK + b"transfer-encoding: chunked\r\n\r\n"
ANSWERS: Final[Mapping[str, Handler]] = {
    "a head of one line": _sending(b"HTTP/1.1 200 ", b"x" * MIB, 64),
    "a head of one field": _sending(OK + b"x: ", b"y" * MIB, 64),
    "a head of many fields": _sending(OK, b"x: y\r\n" * 100_000, 64),
    "no head": _sending(b"", b"\r\n" * 100_000, 64),
    "interim answers": _sending(b"", b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" * 10_000, 64),
    "the size of a chunk": _sending(IN_CHUNKS, b"0" * MIB, 64),
    "the extension of a chunk": _sending(IN_CHUNKS + b"3;a=", b"x" * MIB, 64),
    "extensions": _sending(IN_CHUNKS, (b"1;" + b"x" * 200 + b"\r\na\r\n") * 5000, 64),
    "trailers": _sending(IN_CHUNKS + b"3\r\nabc\r\n0\r\n", b"x-t: " + b"x" * 1000 + b"\r\n", 64_000),
    "chunks of a byte": _sending(IN_CHUNKS, b"1\r\na\r\n" * 10_000, 20),
}


def _zeros(coding: str) -> bytes:
    """1 GiB of zeros in a coding, or for `deflate` a part of it."""
    block = bytes(MIB)
    match coding:
        case "gzip":
            packer = zlib.compressobj(9, wbits=-15)
            packer.compress(block)
            packer.flush(zlib.Z_FULL_FLUSH)
            # Behind a full flush the same makes the same.
            packed = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
            return gzip.compress(b"")[:10] + packed * 1024
        case "br":
            brotli_packer = brotli.Compressor(quality=1)
            parts = [brotli_packer.process(block) for _ in range(1024)]
            return b"".join([*parts, brotli_packer.finish()])
        case "zstd":
            return zstandard.ZstdCompressor().compress(block) * 1024
        case _:
            return zlib.compress(block * 64, 9)


def _coded(coding: str, data: bytes) -> Handler:
    async def handler(visit: UpstreamRequest) -> None:
        await visit.body()
        await visit.answer(data, (("content-encoding", coding),))

    return handler


@functools.cache
def bombs() -> Mapping[str, Handler]:
    """Answers that grow beyond all reason when somebody unpacks them."""
    codings = ("gzip", "br", "zstd", "deflate")
    found = {f"a bomb in {coding}": _coded(coding, _zeros(coding)) for coding in codings}
    # Once more around it; and many of nothing, one behind the other.
    found["a bomb in a bomb"] = _coded("gzip, gzip", gzip.compress(_zeros("gzip")))
    found["very many members"] = _coded("gzip", gzip.compress(b"") * 200_000)
    return found


def _receives(target: str) -> Attack:
    """A client that takes all that comes, and keeps nothing."""

    def attack(_: Lab, proxy: Proxy) -> None:
        with proxy.tunnel(API) as line:
            line.send(request(API, target, "connection: close"))
            while line.some():
                line.received.clear()

    return attack


KEEPS_NOTHING: Final = "it looks at nothing that comes back, and passes it on byte by byte"


@case("S-66", "answers without an end", naive=KEEPS_NOTHING, twin="test_a_proxy_that_keeps_all_is_found")
def test_answers_without_an_end(lab: Lab, proxy: Proxy) -> None:
    attacks = {}
    for number, (what, handler) in enumerate({**ANSWERS, **bombs()}.items()):
        lab.api.handle(f"/no-end/{number}", handler)
        attacks[what] = _receives(f"/no-end/{number}")
    bear(lab, proxy, attacks)


def test_a_proxy_that_keeps_all_is_found(lab: Lab, naive: Naive) -> None:
    """So it would be found if Egress did."""
    lab.begin(naive)
    with pytest.raises(Finding, match="starved: "):
        bear(lab, naive, {"answers": _unread_in_http2})


# Connections ------------------------------------------------------------------------------------

MANY: Final = 600
DEFAULT: Final = 512
"""Connections of one sandbox, where nobody says anything else."""


@case("S-65", "connections that are held open", Harm.STARVED)
def test_connections_that_are_held_open(lab: Lab, proxy: Proxy) -> None:
    """In every state that costs a client nothing, some of them a byte at a time; there is an end to them."""
    states: tuple[tuple[Callable[[Proxy], Line], bytes], ...] = (
        (lambda box: box.dial(), b"G"),
        (lambda box: box.dial().send(b"G"), b"E"),
        (lambda box: box.dial().send(f"CONNECT {API}:443 HTTP/1.1\r\nhost: ".encode()), b"a"),
        (lambda box: box.connect(f"{API}:443"), b"\x16"),
        (lambda box: box.connect(f"{API}:443").send(b"\x16\x03\x01\x02\x00\x01"), b"\0"),
        (lambda box: box.tunnel(API), b"G"),
        (lambda box: box.tunnel(API).send(b"GET / HTTP/1.1\r\nx"), b"y"),
    )
    with boxes(lab, proxy, "greedy") as (greedy,), Memory(proxy) as memory:
        # Most of them are bare: those are the cheapest.
        held = [states[number % 60 if number % 60 < len(states) else 0] for number in range(MANY)]
        lines = [begin(greedy) for begin, _ in held]
        for line, (_, more_of_it) in zip(lines, held, strict=True):
            line.send(more_of_it)
        more = sum(not _is_turned_away(line, proxy) for line in lines[DEFAULT:])
        if more or memory.growth > MOST or not _is_served(proxy):
            raise Finding(Harm.STARVED, f"{DEFAULT + more} connections of one sandbox, {memory.growth} MiB")
        proxy.hang_up()


def _is_turned_away(line: Line, proxy: Proxy) -> bool:
    """Whether it is told so, or closed."""
    line._sock.settimeout(0.01 if proxy.patience else PATIENCE)
    return line.answer.status == 429 or line.response().status == 429 or line.ended


# Turns ------------------------------------------------------------------------------------------


def _frame(kind: int, flags: int, stream: int, data: bytes) -> bytes:
    return struct.pack("!I", len(data))[1:] + bytes([kind, flags]) + struct.pack("!I", stream) + data


def _flood(make: Callable[[Http2], bytes]) -> Attack:
    """Frames behind the beginning of a connection, whatever becomes of it."""

    def attack(_: Lab, proxy: Proxy) -> None:
        with proxy.tunnel(HTTP2, alpn=("h2",)) as line:
            _pour(line, make(Http2(line)), 1)
            line.everything()

    return attack


def _on_a_stream(kind: int, flags: int, data: bytes, times: int) -> Callable[[Http2], bytes]:
    def make(http2: Http2) -> bytes:
        stream = http2.start(*head(HTTP2, "/sink", method="POST"), end=False)
        return _frame(kind, flags, stream.id, data) * times

    return make


def _resets(http2: Http2) -> bytes:
    block = http2.h2.encoder.encode(head(HTTP2, "/small"))
    again = http2.h2.encoder.encode(head(HTTP2, "/small"))
    frames = [_frame(1, 5, 1, block), _frame(3, 0, 1, b"\0\0\0\x08")]
    for number in range(3, 100_001, 2):
        frames += [_frame(1, 5, number, again), _frame(3, 0, number, b"\0\0\0\x08")]
    return b"".join(frames)


def _packed_heads(http2: Http2) -> bytes:
    """One field of 4 KB, and then sixteen thousand times the same, in a byte each."""
    first = http2.h2.encoder.encode([*head(HTTP2, "/small"), ("x-big", "y" * 3900)])
    block = b"\x82\x87\x84" + b"\xbe" * 16_000
    return _frame(1, 5, 1, first) + b"".join(_frame(1, 5, number, block) for number in range(3, 801, 2))


BEGUN: Final = _frame(1, 0, 1, b"\x82")
"""A head of which more is to come."""
TABLES: Final = b"\0\x01\x7f\xff\xff\xff" + b"\0\x01\0\0\0\0"
"""A table of fields as large as it can be, and none."""
FRAMES: Final[Mapping[str, Attack]] = {
    "bodies of a byte": _flood(_on_a_stream(0, 0, b"x", 60_000)),
    "bodies of nothing": _flood(_on_a_stream(0, 0, b"", 200_000)),
    "bodies of padding": _flood(_on_a_stream(0, 8, b"\xff" + bytes(255), 20_000)),
    "a head in endless pieces": _flood(lambda _: BEGUN + _frame(9, 0, 1, b"\x84" * 16_000) * 500),
    "a head in pieces of nothing": _flood(lambda _: BEGUN + _frame(9, 0, 1, b"") * 200_000),
    "heads that unpack to gigabytes": _flood(_packed_heads),
    "requests that are taken back": _flood(_resets),
    "pings": _flood(lambda _: _frame(6, 0, 0, b"12345678") * 200_000),
    "settings": _flood(lambda _: _frame(4, 0, 0, b"") * 200_000),
    "tables of fields": _flood(lambda _: _frame(4, 0, 0, TABLES) * 50_000),
    "priorities": _flood(lambda _: _frame(2, 0, 3, b"\0\0\0\0\x10") * 200_000),
    "windows": _flood(lambda _: _frame(8, 0, 0, b"\0\0\0\1") * 200_000),
    "frames of no kind": _flood(lambda _: _frame(0x77, 0, 0, b"x" * 100) * 50_000),
}


async def _swallows(visit: UpstreamRequest) -> None:
    """A WebSocket that listens, and understands nothing."""
    visit.over = True
    key = (visit.request.header("sec-websocket-key") or "").encode()
    accept = hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11", usedforsecurity=False).digest()
    lines = ["HTTP/1.1 101 Switching", "upgrade: websocket", "connection: Upgrade"]
    lines += [f"sec-websocket-accept: {base64.b64encode(accept).decode()}", "", ""]
    await visit.channel.send("\r\n".join(lines).encode())
    while await visit.channel.some():
        pass


def _messages(data: bytes, times: int = 1) -> Attack:
    def attack(_: Lab, proxy: Proxy) -> None:
        with proxy.tunnel(SOCKETS) as line:
            assert ask_for_websocket(line, SOCKETS).status == 101
            _pour(line, data, times)

    return attack


MESSAGES: Final[Mapping[str, Attack]] = {
    "a message of endless pieces": _messages(frame(0, b"x" * 16_000, final=False) * 100, 20),
    "a message of pieces of nothing": _messages(frame(0, b"", final=False) * 10_000, 10),
    "a frame of exabytes": _messages(b"\x82\xff" + (1 << 62).to_bytes(8) + bytes(4) + b"x" * MIB * 30),
    "a frame of exabytes of text": _messages(
        b"\x81\xff" + (1 << 62).to_bytes(8) + bytes(4) + b"x" * MIB * 10
    ),
    "pings of a WebSocket": _messages(frame(PING, b"x" * 100) * 1000, 40),
}


@case("S-65", "frames that cost nothing", naive=KEEPS_NOTHING, twin="test_a_proxy_that_keeps_all_is_found")
def test_frames_that_cost_nothing(lab: Lab, proxy: Proxy) -> None:
    """To whoever sends them; in HTTP/2, and in a WebSocket, where a first frame is a part of a message."""
    lab.sockets.handle("/ws", _swallows)
    bear(lab, proxy, {**FRAMES, **MESSAGES})
    lab.sockets.handle("/ws", serve_websocket)


# Patterns, prompts ------------------------------------------------------------------------------


@case("S-34", "a pattern that takes for ever", Harm.STARVED)
def test_a_pattern_that_takes_for_ever(lab: Lab, proxy: Proxy) -> None:
    """Some matchers try all ways to cut a path; others are not served meanwhile."""
    path = "/" + "a" * 15_000
    if isinstance(proxy, Egress):
        for target in (path, path + "c", path + "?" + "a" * 1000):
            proxy.expects(proxy.ask(STARS, request(STARS, target)), (403, "rule.none"))
        assert proxy.ask(STARS, request(STARS, path + "b")).status == 404
        return
    with lab.naive() as own:
        own.write(f"hosts: {{{STARS}: {{allow: [{{paths: ['{PATTERN}']}}]}}, {API}: {{}}}}\n")
        with own.tunnel(STARS) as line:
            line.send(request(STARS, path))
            with own.dial() as neighbour:
                neighbour._sock.settimeout(1)
                asked = request(f"{API}:443", f"{API}:443", method="CONNECT")
                answer = neighbour.send(asked).response("CONNECT")
    if answer.silent:
        raise Finding(Harm.STARVED, "nobody else is served")


@case("S-63", "a prompt with all that there is in it", Harm.SENT)
def test_a_prompt_with_all_that_there_is_in_it(lab: Lab, proxy: Proxy) -> None:
    """It is refused by its length, or cut where it has none; and the record says how much has left."""
    body = b"everything that was found here " * 40_000
    with proxy.tunnel(PROMPTS) as line:
        _pour(line, request(PROMPTS, "/sink", method="POST", body=body), 1)
        proxy.expects(_answer(line), (413, "limit.request_body"))
    with proxy.tunnel(PROMPTS) as line:
        start = request(PROMPTS, "/sink", "transfer-encoding: chunked", method="POST")
        _pour(line, start + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body), 1)
        proxy.expects(_answer(line), (413, "limit.request_body"), (0, ""))
    if lab.wait(proxy, lambda: len(lab.heard(proxy, f"*.{ANY}")) > 100 * 1024):
        raise Finding(Harm.SENT, "more has left than the rules let leave")
    assert isinstance(proxy, Egress)
    lines = until(lambda: _lines_about(proxy, PROMPTS)[1:], "the lines")
    assert {line["code"] for line in lines} == {"limit.request_body"}
    assert int(str(lines[-1]["bytes_up"])) <= 64 * 1024


def _lines_about(proxy: Egress, host: str) -> list[dict[str, object]]:
    return [line for line in proxy.records("exchange") if line["host"] == host]


def _answer(line: Line) -> Answer:
    line._sock.settimeout(PATIENCE)
    return line.response()
