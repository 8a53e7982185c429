"""What the bytes-only lane costs: round trips and megabytes a second of its own CPU, on loopback.

The lane runs here; clients and upstream run in other processes, so only the lane is measured. The figure is
CPU, not wall time: how much one core could carry, whoever else is busy.

Prints numbers; judges nothing.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import selectors
import socket
from collections.abc import Callable

from egress.address_check import NO_OWN_NETWORKS
from egress.exchange import Destination
from egress.proxy.clock import SystemClock
from egress.proxy.lanes.connection import AdmittedConnection, LiveConnections
from egress.proxy.lanes.dial import Dialer
from egress.proxy.lanes.resolve import FixedResolver, SystemResolver
from egress.proxy.lanes.tunnel_lane import TunnelCarrier, TunnelEnd
from egress.rules.compile.load import RuleText, load
from egress.rules.decide.decision import decide_host
from egress.tls.client_hello import ClientHello
from egress.types import Identity

Row = tuple[str, float, str, float | None]
Peer = Callable[[socket.socket], None]
Load = Callable[[int], None]

HOST = "pinned.example.com"
RULES = f'{{version: 1, hosts: {{{HOST}: {{intercept: never, addresses: ["127.0.0.0/8"], ports: [PORT]}}}}}}'
HELLO = b"\x16" * 517
PING = b"p" * 200
CONNECTIONS = 32
ROUNDS = 3
TRIPS = 40_000
BULK = 1 << 30


def run() -> list[Row]:
    """Measure every row, best of several rounds."""
    trips = max(measure(echo, ping, TRIPS) for _ in range(ROUNDS))
    down = max(measure(pour, drink, BULK >> 20) for _ in range(ROUNDS))
    up = max(measure(swallow, push, BULK >> 20) for _ in range(ROUNDS))
    setup = max(measure(echo, visit, 2000) for _ in range(ROUNDS))
    return [
        ("tunnel, round trips of 200 bytes, 32 connections", trips, "/s", None),
        ("tunnel, download", down, "MB/s", None),
        ("tunnel, upload", up, "MB/s", None),
        ("tunnel, connections with one round trip", setup, "/s", None),
    ]


def measure(upstream: Peer, load_: Load, amount: int) -> float:
    """Units of `amount` for one second of this process's CPU."""
    context = multiprocessing.get_context("fork")
    listener, door = listen(), listen()
    serving = context.Process(target=upstream, args=(listener,), daemon=True)
    serving.start()
    loading = context.Process(target=load_, args=(door.getsockname()[1],), daemon=True)
    try:
        return amount / asyncio.run(lane(door, listener.getsockname()[1], loading))
    finally:
        for process in (serving, loading):
            process.kill()
            process.join()
        listener.close()


async def lane(door: socket.socket, port: int, loading: multiprocessing.process.BaseProcess) -> float:
    """Carry everything that `loading` sends; return the CPU seconds it took."""
    policy = load([RuleText("hosts.yaml", RULES.replace("PORT", str(port)))]).policy
    if policy is None:
        raise SystemExit("the rules of this benchmark do not load")
    clock = SystemClock()
    resolver = FixedResolver({HOST: ["127.0.0.1"]}, SystemResolver(clock.monotonic))
    tunnel = TunnelCarrier(Dialer(resolver, lambda: NO_OWN_NETWORKS, clock), clock, LiveConnections(), check)
    who = Identity("bench")

    async def arrived(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ahead = await reader.readexactly(len(HELLO))
        to = Destination("https", HOST, port)
        decision = decide_host(policy, who, HOST, port, 0)
        await tunnel.carry(
            AdmittedConnection("1", who, "l", "connect", to, decision, policy, ClientHello(HOST)),
            reader,
            writer,
            ahead,
        )

    server = await asyncio.start_server(arrived, sock=door)
    before = cpu()
    loading.start()
    await asyncio.to_thread(loading.join)
    spent = cpu() - before
    server.close()
    if loading.exitcode:
        raise SystemExit("the load did not come to its end")
    return spent


def check(end: TunnelEnd) -> None:
    if end.code not in {"", "proxy.stopping"}:
        raise SystemExit(f"{end.code}: {end.note}")


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def listen() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.bind(("127.0.0.1", 0))
    sock.listen(512)
    return sock


# Upstreams --------------------------------------------------------------------------------------


def echo(listener: socket.socket) -> None:
    """Send back what comes behind the hello."""
    ready = selectors.DefaultSelector()
    ready.register(listener, selectors.EVENT_READ, 0)
    skip: dict[int, int] = {}
    while True:
        for key, _ in ready.select():
            if key.fileobj is listener:
                sock, _peer = listener.accept()
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                ready.register(sock, selectors.EVENT_READ, sock)
                skip[sock.fileno()] = len(HELLO)
                continue
            sock = key.data
            data = sock.recv(65536)
            if not data:
                ready.unregister(sock)
                sock.close()
                continue
            hello = skip[sock.fileno()]
            skip[sock.fileno()] -= min(hello, len(data))
            if data[hello:]:
                sock.sendall(data[hello:])


def pour(listener: socket.socket) -> None:
    """Send a lot."""
    while True:
        sock, _peer = listener.accept()
        sock.recv(len(HELLO), socket.MSG_WAITALL)
        block = bytes(1 << 20)
        for _ in range(BULK // len(block)):
            sock.sendall(block)
        sock.close()


def swallow(listener: socket.socket) -> None:
    """Take a lot, then say one byte."""
    while True:
        sock, _peer = listener.accept()
        sock.recv(len(HELLO), socket.MSG_WAITALL)
        _take(sock, BULK)
        sock.sendall(b"!")
        sock.close()


# Loads ------------------------------------------------------------------------------------------


def ping(port: int) -> None:
    """Keep every connection at one round trip after the other."""
    ready = selectors.DefaultSelector()
    for _ in range(CONNECTIONS):
        sock = _enter(port)
        ready.register(sock, selectors.EVENT_READ, sock)
        sock.sendall(PING)
    done = 0
    while done < TRIPS:
        for key, _ in ready.select():
            if len(key.data.recv(len(PING), socket.MSG_WAITALL)) != len(PING):
                raise SystemExit(1)
            done += 1
            key.data.sendall(PING)


def visit(port: int) -> None:
    """Come, say one thing, go."""
    for _ in range(2000):
        with _enter(port) as sock:
            sock.sendall(PING)
            if len(sock.recv(len(PING), socket.MSG_WAITALL)) != len(PING):
                raise SystemExit(1)


def drink(port: int) -> None:
    """Take what is poured."""
    with _enter(port) as sock:
        _take(sock, BULK)


def push(port: int) -> None:
    """Send a lot, and wait for the word."""
    with _enter(port) as sock:
        block = bytes(1 << 20)
        for _ in range(BULK // len(block)):
            sock.sendall(block)
        if sock.recv(1) != b"!":
            raise SystemExit(1)


def _take(sock: socket.socket, left: int) -> None:
    room = bytearray(1 << 20)
    while left:
        got = sock.recv_into(room)
        if not got:
            raise SystemExit(1)
        left -= got


def _enter(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(HELLO)
    return sock


if __name__ == "__main__":
    for name, value, unit, target in run():
        print(f"{name:<52} {value:12.1f} {unit:<5} {'' if target is None else f'target {target}'}")
