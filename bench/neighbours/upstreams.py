"""The upstreams: `python -m bench.neighbours.upstreams PORTS CHAIN KEY` serves each kind on its own port.

A hostile upstream answers by the path of the request, `/gzip` with a compressed body and so on, for as long
as the connection stands.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import json
import os
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import brotli  # type: ignore[import-untyped]
import h2.config
import h2.connection
import h2.events
import zstandard

from bench.neighbours.setting import MEBIBYTE, SECRET

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
TEXT = os.urandom(32 * 1024).hex().encode()


def whole(body: bytes, *fields: str) -> bytes:
    head = "".join(f"{field}\r\n" for field in (*fields, f"Content-Length: {len(body)}"))
    return OK + head.encode() + b"\r\n" + body


def windowed(body: bytes) -> bytes:
    """Zstd that wants as much memory as it may."""
    how = zstandard.ZstdCompressionParameters(window_log=22)
    packer = zstandard.ZstdCompressor(compression_params=how).compressobj()
    return packer.compress(body) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)


async def once(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def endless(first: bytes, again: bytes) -> AsyncIterator[bytes]:
    yield first
    while True:
        yield again


async def held(data: bytes) -> AsyncIterator[bytes]:
    """A beginning, and then nothing."""
    yield data
    await asyncio.sleep(3600)


BOMB = gzip.compress(bytes(4 * MEBIBYTE))
FULL = (SECRET + " ").encode() * 900
WIDE = b"".join(b"X-%d: %s\r\n" % (number, b"v" * 450) for number in range(120))
CODED: dict[str, Callable[[], AsyncIterator[bytes]]] = {
    "/small": lambda: once(whole(b'{"hello": "world"}', "Content-Type: application/json")),
    "/bulk": lambda: endless(CHUNKED, b"10000\r\n" + TEXT + b"\r\n"),
    "/one-byte-chunks": lambda: endless(CHUNKED, b"1\r\nx\r\n" * 4096),
    "/gzip": lambda: once(whole(BOMB, "Content-Encoding: gzip")),
    "/brotli": lambda: held(CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Encoding: br\r\n\r\n") + _brotli()),
    "/zstd": lambda: held(CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Encoding: zstd\r\n\r\n") + _zstd()),
    "/secret": lambda: once(whole(FULL, "Content-Type: text/plain")),
    "/heads": lambda: once(OK + WIDE + b"Content-Length: 0\r\n\r\n"),
    "/interim": lambda: once(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 15 + whole(b"")),
}


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _brotli() -> bytes:
    return _chunk(brotli.compress(os.urandom(3 * MEBIBYTE), quality=1, lgwin=22)[: 3 * MEBIBYTE - 1000])


def _zstd() -> bytes:
    return _chunk(windowed(os.urandom(3 * MEBIBYTE)))


async def http1(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request after the other."""
    with suppress(OSError, asyncio.IncompleteReadError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            line, _, fields = head.partition(b"\r\n")
            path = line.split()[1].decode().partition("?")[0]
            if path == "/ws":
                await frames(fields, reader, writer)
                return
            if b"chunked" in fields.lower() or b"content-length: 0" not in fields.lower():
                await _body(fields, reader)
            async for data in CODED.get(path, CODED["/small"])():
                writer.write(data)
                await writer.drain()
    writer.close()


async def _body(fields: bytes, reader: asyncio.StreamReader) -> None:
    if b"transfer-encoding" in fields.lower():
        while (size := int((await reader.readuntil(b"\r\n")).strip(), 16)) > 0:
            await reader.readexactly(size + 2)
        await reader.readuntil(b"\r\n")
        return
    for line in fields.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            left = int(line.split(b":")[1])
            while left > 0:
                left -= len(await reader.read(min(left, 65536)))


async def frames(fields: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A WebSocket that says much in small frames, and reads whatever comes."""
    named = [line.split(b":")[1].strip() for line in fields.split(b"\r\n") if b"socket-key" in line.lower()]
    digest = hashlib.sha1(named[0] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11", usedforsecurity=False).digest()
    writer.write(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Accept: " + base64.b64encode(digest) + b"\r\n\r\n"
    )

    async def drain() -> None:
        while await reader.read(65536):
            pass

    reading = asyncio.create_task(drain())
    try:
        while True:
            writer.write(b"\x82\x01x" * 2000)
            await writer.drain()
    finally:
        reading.cancel()


async def http2(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each request with a head as large as it may be, or with tiny frames."""
    config = h2.config.H2Configuration(client_side=False, validate_outbound_headers=False)
    connection = h2.connection.H2Connection(config)
    connection.initiate_connection()
    writer.write(connection.data_to_send())
    # Few bytes on the wire: each field stands in the table after its first use.
    large = [(":status", "200"), *[("x-large", "v" * 3900)] * 15]
    with suppress(OSError):
        while data := await reader.read(65536):
            for event in connection.receive_data(data):
                if isinstance(event, h2.events.RequestReceived) and event.stream_id:
                    path = dict(event.headers or [])[b":path"]
                    if path == b"/full":
                        connection.send_headers(event.stream_id, [(":status", "200")])
                        _fill(connection, event.stream_id)
                    elif path == b"/tiny":
                        connection.send_headers(event.stream_id, [(":status", "200")])
                        for _ in range(2000):
                            connection.send_data(event.stream_id, b"x")
                        connection.end_stream(event.stream_id)
                    else:
                        connection.send_headers(event.stream_id, large, end_stream=True)
            writer.write(connection.data_to_send())
            await writer.drain()
    writer.close()


def _fill(connection: h2.connection.H2Connection, stream: int) -> None:
    """Send as much as the windows let us, and no end."""
    while size := min(connection.local_flow_control_window(stream), connection.max_outbound_frame_size):
        connection.send_data(stream, bytes(size))


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """For tunnels: everything comes back."""
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def serve(ports: list[int], chain: str, key: str) -> None:
    def context(alpn: str) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(chain, key)
        made.set_alpn_protocols([alpn])
        return made

    kinds = [
        (http1, context("http/1.1")),
        (http2, context("h2")),
        (echo, context("http/1.1")),
        (http1, None),
    ]
    for port, (handler, tls) in zip(ports, kinds, strict=True):
        await asyncio.start_server(handler, "127.0.0.1", port, ssl=tls, limit=1 << 20, backlog=2048)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]))
