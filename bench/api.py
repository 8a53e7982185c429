"""The API beside the calls that it makes: commands, a printed line, 20 MB, a new sandbox, many followers.

The sandboxes are namespaces, and the server runs in the process of the fleet, as it does in `egress up`.
Where the kernel refuses namespaces there are no rows, and it says so.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.sandbox.memory import held
from egress.api_server.server import ApiServer
from egress.fleet import Fleet, RemoteRuntime
from egress.runtime.errors import UnsupportedError
from egress.runtime.namespace import kernel_support
from egress.runtime.protocol import Output
from egress.runtime.spec import Command
from tests.runtime.namespace.namespace_lab import NamespaceLab

Row = tuple[str, float, str, float | None]

ROUNDS = 40
SANDBOX_COUNT = 10
TOGETHER = 50
ARCHIVE_BYTES = 20_000_000
FOLLOWERS = 1_000
TRUE = Command(argv=("true",))
FOLLOW = r"""
import resource, socket, sys

resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
connections = []
for number in range(int(sys.argv[2])):
    path = sys.argv[3 + number % (len(sys.argv) - 3)]
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(sys.argv[1])
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: egress\r\nAccept: text/event-stream\r\n\r\n".encode())
    if not connection.recv(4096).startswith(b"HTTP/1.1 200 "):
        sys.exit(f"{path}: no 200")
    connections.append(connection)
print("ready", flush=True)
sys.stdin.read()
"""
"""Opens streams of events, and keeps them until its input ends."""
TALK = Command(argv=("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do date +%s.%N; sleep 0.05; done"))


def run() -> list[Row]:
    try:
        kernel_support.check()
    except UnsupportedError as error:
        print(f"  namespaces: {error.message}; {error.hint}", file=sys.stderr)
        return []
    with tempfile.TemporaryDirectory(prefix="egress-bench-") as name, NamespaceLab(Path(name)) as lab:
        fleet = Fleet(lab.runtime, tick=None)
        server = ApiServer(fleet, Path(name) / "api")
        try:
            with RemoteRuntime(server.path) as remote:
                names = [f"bench-{number}" for number in range(SANDBOX_COUNT)]
                for each in names:
                    fleet.create(lab.spec(each))
                    fleet.start(each)
                return [
                    *_commands(fleet, remote, names[0]),
                    *_together(remote, names),
                    *_lines(remote, names[0]),
                    *_archives(remote, names[0]),
                    *_created(remote, lab),
                    *_followed(server, fleet, names[0]),
                ]
        finally:
            server.close()


def _commands(fleet: Fleet, remote: RemoteRuntime, name: str) -> list[Row]:
    """In turns, so that both meet the same machine."""
    here, there = [], []
    for _ in range(ROUNDS):
        here.append(_timed_exec(fleet, name))
        there.append(_timed_exec(remote, name))
    own, over = _middle(here), _middle(there)
    return [
        ("a command by the runtime's own call, p50", own * 1000, "ms", None),
        ("  over the API, p50", over * 1000, "ms", None),
        ("  over the API, as a ratio", over / own, "x", 1.3),
    ]


def _together(remote: RemoteRuntime, names: list[str]) -> list[Row]:
    alone = _middle([_timed_exec(remote, names[0]) for _ in range(ROUNDS)])
    with ThreadPoolExecutor(TOGETHER) as threads:
        wanted = [names[number % len(names)] for number in range(TOGETHER)]
        took = sorted(threads.map(lambda name: _timed_exec(remote, name), wanted))
    return [
        (f"{TOGETHER} commands at once in {len(names)} sandboxes, p50", _middle(took) * 1000, "ms", None),
        ("  p99 over p50", took[-1] / _middle(took), "x", 5),
        ("  p50 over that of one alone", _middle(took) / alone, "x", None),
    ]


def _lines(remote: RemoteRuntime, name: str) -> list[Row]:
    """The clock of the sandbox is that of this machine."""
    late: list[float] = []

    def take(piece: bytes) -> None:
        now = time.time()
        late.extend(now - float(line) for line in piece.split())

    remote.exec(name, TALK, Output(stdout=take))
    return [
        ("a printed line, until the client has it, p50", _middle(late) * 1000, "ms", None),
        ("  the slowest of ten", max(late) * 1000, "ms", 30),
    ]


def _archives(remote: RemoteRuntime, name: str) -> list[Row]:
    data = _archive()
    up, down = [], []
    for _ in range(3):
        began = time.perf_counter()
        remote.put(name, "/workspace", io.BytesIO(data))
        up.append(time.perf_counter() - began)
        began = time.perf_counter()
        with remote.get(name, "/workspace/big") as archive:
            while archive.read(1 << 20):
                pass
        down.append(time.perf_counter() - began)
    size = ARCHIVE_BYTES / 1e6
    return [
        ("a file of 20 MB into a sandbox", size / min(up), "MB/s", 150),
        ("  and out of it", size / min(down), "MB/s", 150),
    ]


def _created(remote: RemoteRuntime, lab: NamespaceLab) -> list[Row]:
    """Sandboxes one after the other, made without a pool: that of containers is in `bench.sandbox`."""
    took = []
    for number in range(ROUNDS):
        began = time.perf_counter()
        remote.create(lab.spec(f"made-{number}"))
        remote.start(f"made-{number}")
        took.append(time.perf_counter() - began)
        remote.remove(f"made-{number}")
    return [
        ("a namespace sandbox over the API, until it takes commands, p50", _middle(took) * 1000, "ms", 100)
    ]


def _followed(server: ApiServer, fleet: Fleet, name: str) -> list[Row]:
    """The memory of this process, which holds the server, the fleet and this benchmark."""
    process = fleet.tracked.start(name, Command(argv=("sleep", "600")))
    paths = ["/v1/events", f"/v1/sandboxes/{name}/processes/{process.id}/output"]
    words = [sys.executable, "-c", FOLLOW, str(server.path), str(FOLLOWERS), *paths]
    before = held([os.getpid()])
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as clients:
        if clients.stdout is None or clients.stdout.readline() != b"ready\n":
            raise RuntimeError("the clients did not get their streams")
        whole = held([os.getpid()])
        clients.communicate()
    process.kill()
    return [
        (f"memory with {FOLLOWERS:,} clients that follow events or output", whole, "MiB", 300),
        ("  of each of them", (whole - before) * 1024 / FOLLOWERS, "KiB", None),
    ]


def _archive() -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        entry = tarfile.TarInfo("big")
        entry.size = ARCHIVE_BYTES
        archive.addfile(entry, io.BytesIO(bytes(ARCHIVE_BYTES)))
    return whole.getvalue()


def _timed_exec(runtime: Fleet | RemoteRuntime, name: str) -> float:
    began = time.perf_counter()
    runtime.exec(name, TRUE)
    return time.perf_counter() - began


def _middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
