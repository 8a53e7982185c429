"""Harm before there is any request: connections, heads, handshakes, names."""

from __future__ import annotations

import asyncio
import itertools
import socket
import struct
from contextlib import suppress

from bench.neighbours.neighbour import MANY, Neighbour, again, kind


@kind("connections that are opened and closed")
async def open_and_close(it: Neighbour) -> None:
    async def story() -> None:
        (await it.dial()).abort()

    await again(story)


@kind("connections that say half a head")
async def half_heads(it: Neighbour) -> None:
    async def story() -> None:
        line = await it.dial()
        line.write(b"CONNECT a.example:443 HTTP/1.1\r\nX: " + b"y" * 1000)
        await line.discard()
        line.close()

    await again(story, MANY)


@kind("large heads to denied hosts")
async def denied_hosts(it: Neighbour) -> None:
    head = b"CONNECT denied.example:443 HTTP/1.1\r\nHost: denied.example:443\r\n"
    head += b"".join(b"X-%d: %s\r\n" % (number, b"v" * 500) for number in range(110)) + b"\r\n"

    async def story() -> None:
        line = await it.dial()
        line.write(head)
        await line.discard()
        line.close()

    await again(story)


@kind("denied hosts, asked inside of TLS")
async def denied_inside(it: Neighbour) -> None:
    names = [f"denied-{number}.example" for number in range(64)]
    requests = [it.request("/", name=name) * 16 for name in names]
    turn = itertools.cycle(zip(names, requests, strict=True))

    async def story() -> None:
        name, request = next(turn)
        await (await it.visit(name)).talk(request, b"")

    await again(story)


@kind("TLS handshakes")
async def handshakes(it: Neighbour) -> None:
    async def story() -> None:
        (await it.visit()).close()

    await again(story)


@kind("new connections with a request each")
async def new_connections(it: Neighbour) -> None:
    request = it.request("/small", "Connection: close")

    async def story() -> None:
        line = await it.visit()
        line.write(request)
        await line.discard()
        line.close()

    await again(story)


@kind("DNS questions")
async def questions(it: Neighbour) -> None:
    loop = asyncio.get_running_loop()
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.settimeout(0)
    sock.connect(("127.0.0.1", it.stage.names))
    name = b"".join(bytes([len(part)]) + part for part in (b"q" * 60, b"q" * 60, b"example")) + b"\0"
    packet = struct.pack(">HHHHHH", 7, 0x0100, 1, 0, 0, 0) + name + struct.pack(">HH", 1, 1)
    while True:
        with suppress(OSError):
            for _ in range(50):
                await loop.sock_sendall(sock, packet)
        await asyncio.sleep(0.001)
