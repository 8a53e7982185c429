"""Harm by HTTP/2, from the client and from the upstream."""

from __future__ import annotations

from collections.abc import Callable

import hpack
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from bench.neighbours.neighbour import KINDS, Kind, Neighbour, again
from bench.neighbours.setting import BAD_HTTP2

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Frames:
    """Frames of a client that asks for much, without a library that would hold it back."""

    def __init__(self, it: Neighbour, path: str, *fields: tuple[str, str], name: str = BAD_HTTP2) -> None:
        self._encoder = hpack.Encoder()
        self._fields = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", f"{name}:{it.stage.port(name)}"),
            (":path", path),
            *fields,
        ]
        self._stream = -1

    def greeting(self) -> bytes:
        settings = SettingsFrame(0)
        settings.settings = {SettingsFrame.INITIAL_WINDOW_SIZE: 2**31 - 1}
        window = WindowUpdateFrame(0)
        window.window_increment = 2**31 - 1 - 65535
        return PREFACE + settings.serialize() + window.serialize()

    def ask(self, *, ends: bool = True) -> bytes:
        self._stream += 2
        frame = HeadersFrame(self._stream, self._encoder.encode(self._fields))
        frame.flags.add("END_HEADERS")
        if ends:
            frame.flags.add("END_STREAM")
        return frame.serialize()

    def reset(self) -> bytes:
        return RstStreamFrame(self._stream, 8).serialize()

    def data(self, payload: bytes) -> bytes:
        return DataFrame(self._stream, payload).serialize()


async def _ask_http2(it: Neighbour, frames: Frames, room: int) -> None:
    """Ask over and over, with at most so many requests open."""
    line = await it.visit(BAD_HTTP2, "h2")
    line.write(frames.greeting())
    open_now = 0
    buffer = b""
    try:
        while True:
            while open_now < room:
                batch = min(room - open_now, 50)
                line.write(b"".join(frames.ask() for _ in range(batch)))
                open_now += batch
            await line.drained()
            data = await line.read()
            if not data:
                return
            buffer += data
            at = 0
            while len(buffer) - at >= 9:
                size = 9 + int.from_bytes(buffer[at : at + 3], "big")
                if len(buffer) - at < size:
                    break
                if buffer[at + 3] == 3 or (buffer[at + 3] in (0, 1) and buffer[at + 4] & 1):
                    open_now -= 1
                at += size
            buffer = buffer[at:]
    finally:
        line.close()


def _http2(path: str, *fields: tuple[str, str], room: int = 90, connections: int = 4) -> Kind:
    async def made(it: Neighbour) -> None:
        async def story() -> None:
            frames = Frames(it, path, *fields)
            await _ask_http2(it, frames, room)

        await again(story, connections)

    return made


LARGE = tuple((f"x-{number % 2}", "v" * 1900) for number in range(30))
KINDS["HTTP/2 requests with a large head, one connection"] = _http2("/denied", *LARGE, connections=1)
KINDS["HTTP/2 requests with a large head"] = _http2("/denied", *LARGE, connections=16)
KINDS["HTTP/2 requests, denied"] = _http2("/denied")
KINDS["HTTP/2 requests, allowed"] = _http2("/small")
KINDS["HTTP/2 responses with a large head"] = _http2("/large")
KINDS["HTTP/2 responses in tiny frames"] = _http2("/tiny")


def _http2_flood(make: Callable[[Frames], bytes], opening: Callable[[Frames], bytes] | None = None) -> Kind:
    """Frames that want no answer, or get one for each."""

    async def made(it: Neighbour) -> None:
        async def story() -> None:
            frames = Frames(it, "/small")
            first = frames.greeting() + (opening(frames) if opening else b"")
            await (await it.visit(BAD_HTTP2, "h2")).talk(first, make(frames))

        await again(story, 8)

    return made


def _continued(_: Frames) -> bytes:
    head = HeadersFrame(1, b"\x20" * 16_000).serialize()
    return head + ContinuationFrame(1, b"\x20" * 16_000).serialize() * 60


KINDS["HTTP/2 requests that are taken back"] = _http2_flood(
    lambda frames: b"".join(frames.ask() + frames.reset() for _ in range(5000))
)
KINDS["HTTP/2 uploads in tiny frames"] = _http2_flood(
    lambda frames: frames.data(b"x") * 5000, lambda frames: frames.ask(ends=False)
)
KINDS["HTTP/2 pings"] = _http2_flood(lambda _: PingFrame(0, b"12345678").serialize() * 5000)
KINDS["HTTP/2 settings"] = _http2_flood(lambda _: SettingsFrame(0).serialize() * 5000)
KINDS["HTTP/2 heads of table changes"] = _http2_flood(_continued)


def _http2_shut(path: str) -> Kind:
    """Responses that the client asks for and does not take."""

    async def made(it: Neighbour) -> None:
        async def story() -> None:
            frames = Frames(it, path)
            settings = SettingsFrame(0)
            settings.settings = {SettingsFrame.INITIAL_WINDOW_SIZE: 0}
            asked = b"".join(frames.ask() for _ in range(90))
            await (await it.visit(BAD_HTTP2, "h2")).talk(PREFACE + settings.serialize() + asked, b"")

        await again(story, 64)

    return made


KINDS["HTTP/2 windows that stay shut"] = _http2_shut("/tiny")
KINDS["HTTP/2 windows that stay shut, of upstreams that fill theirs"] = _http2_shut("/full")
