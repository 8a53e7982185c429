"""What others feel of connections that are held: the p99 of requests, beside half-open and idle ones.

300 connections that say a part of what they should and then nothing, and 1 000 tunnels that stand and are
idle, half of them read and half of them not. Alone and beside them alternate; of each the best round counts,
since a shared machine only ever adds to it. A ratio is a bound, the times themselves are those of a machine.
"""

from __future__ import annotations

import contextlib
import resource
import select
import socket
import ssl
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from bench.proxy import job as jobs
from bench.proxy.contestants import Egress, Running
from bench.proxy.job import Job
from bench.proxy.load import connect, context_for, first_response, request_for
from bench.proxy.setting import API, CREDENTIAL, TUNNEL, Setting
from bench.proxy.upstream import upstream

Row = tuple[str, float, str, float | None]
Hold = Callable[[Setting, Running], list[socket.socket]]

HALF_OPEN = 300
TUNNELS = 1000
ROUNDS = 3
ROUND_SECONDS = 2.0
CLIENTS = 8
MAX_P99_RATIO = 2.0
"""What a p99 may be a multiple of."""
CONNECTION_LIMIT = 4096


class LargeEgress(Egress):
    """Egress, with room for all of these in one sandbox."""

    def command(self, setting: Setting, folder: Path, port: int) -> list[str]:
        return [*super().command(setting, folder, port), f"--sandbox-connections={CONNECTION_LIMIT}"]


def run() -> list[Row]:
    """Measure every row, best of several rounds."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with (
        tempfile.TemporaryDirectory(prefix="egress-held-") as name,
        upstream(Path(name)) as setting,
        LargeEgress().running(setting) as running,
    ):
        return [row for kind, what in KINDS for row in _rows(setting, running, kind, what)]


KINDS: Sequence[tuple[jobs.Kind, str]] = (("keepalive", "kept connections"), ("connect", "new connections"))


def _rows(setting: Setting, running: Running, kind: jobs.Kind, what: str) -> Iterator[Row]:
    beside: dict[str, Hold] = {
        f"{HALF_OPEN} half-open": half_open,
        f"{TUNNELS} idle tunnels": idle_tunnels,
        "both": lambda setting, running: idle_tunnels(setting, running) + half_open(setting, running),
    }
    holds: dict[str, Hold] = {"alone": lambda *_: [], **beside}
    best = dict.fromkeys(holds, float("inf"))
    for _ in range(ROUNDS):
        for name, hold in holds.items():
            best[name] = min(best[name], _p99(setting, running, kind, hold))
    yield f"p99, {what}, alone", best["alone"], "ms", None
    for name in beside:
        yield f"p99, {what}, beside {name}", best[name], "ms", None
        yield "  as a multiple of alone", best[name] / best["alone"], "x", MAX_P99_RATIO


def _p99(setting: Setting, running: Running, kind: jobs.Kind, hold: Hold) -> float:
    job = Job(kind, API, setting.ports.of(API), str(running.ca), ROUND_SECONDS, proxy=running.port)
    with contextlib.ExitStack() as stack:
        held = hold(setting, running)
        for sock in held:
            stack.callback(sock.close)
        found = jobs.run(replace(job, connections=CLIENTS), setting.folder / "load.log")
        if gone := _gone(held):
            sys.exit(
                f"{gone} of {len(held)} connections were not held all the time: measure on a quieter machine"
            )
    return found["p99_ms"]


def _gone(held: list[socket.socket]) -> int:
    """How many of them the proxy has ended."""
    poll = select.poll()
    for sock in held:
        poll.register(sock, select.POLLRDHUP)
    return len(poll.poll(0))


# What is held -------------------------------------------------------------------------------------


def half_open(setting: Setting, running: Running) -> list[socket.socket]:
    """Connections that stop: before the first byte, within a head, within a tunnel, within a handshake."""
    authority = f"{API}:{setting.ports.of(API)}"
    head = f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode()
    hello = _hello()
    beginnings = (b"", head[: len(head) // 2], head, head + hello[: len(hello) // 2], head + hello)
    found = []
    for number in range(HALF_OPEN):
        sock = socket.create_connection(("127.0.0.1", running.port), timeout=30)
        sock.sendall(beginnings[number % len(beginnings)])
        found.append(sock)
    return found


def _hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname=API)
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def idle_tunnels(setting: Setting, running: Running) -> list[socket.socket]:
    """Tunnels in which one request was answered, and nothing more is asked for."""
    found: list[socket.socket] = []
    for name in (API, TUNNEL):
        port = setting.ports.of(name)
        seen = Job("keepalive", name, port, str(running.ca), 0, proxy=running.port)
        job = replace(seen, ca=str(setting.ca), credential=CREDENTIAL) if name == TUNNEL else seen
        context, request = context_for(job), request_for(job)
        for _ in range(TUNNELS // 2):
            sock = connect(job, context)
            first_response(sock, request)
            found.append(sock)
    return found


if __name__ == "__main__":
    for name, value, unit, target in run():
        print(f"{name:<62} {value:10.2f} {unit:<3} {'' if target is None else f'target {target:g}'}")
