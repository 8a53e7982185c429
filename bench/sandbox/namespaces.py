"""Sandboxes as namespaces of this machine's own programs, against the promise of being there at once.

Where the kernel refuses them there are no rows, and it says so.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.sandbox.memory import held, named
from bench.sandbox.waking import woken
from egress.runtime.errors import UnsupportedError
from egress.runtime.namespace import kernel_support, reaper
from egress.runtime.proxy_client import ControlProxyClient
from egress.runtime.spec import Command
from tests.proxy.serve_process import until
from tests.runtime.namespace.namespace_lab import NamespaceLab
from tests.runtime.namespace.test_runtime import _OWNER, processes

Row = tuple[str, float, str, float | None]

ROUNDS = 15
COMMANDS = 30
SANDBOX_COUNT = 50
TRUE = Command(argv=("true",))
INSIDE = "namespace.inside"
"""What our own processes of a sandbox are called."""


def rows() -> list[Row]:
    try:
        kernel_support.check()
    except UnsupportedError as error:
        print(f"  namespaces: {error.message}; {error.hint}", file=sys.stderr)
        return []
    with tempfile.TemporaryDirectory(prefix="egress-bench-") as folder, NamespaceLab(Path(folder)) as house:
        return [
            *_times(house),
            *_wakes(house),
            *_commands(house),
            *_memory(house),
            *_leftovers(house),
        ]


def _times(house: NamespaceLab) -> list[Row]:
    plain, ready, whole = [], [], []
    for _ in range(ROUNDS):
        plain.append(_timed(_plain))
        began = time.perf_counter()
        house.box("bench")
        ready.append(time.perf_counter() - began)
        house.runtime.exec("bench", TRUE)
        whole.append(time.perf_counter() - began)
        house.runtime.remove("bench")
    return [
        ("unshare of the same namespaces, to its end", min(plain) * 1000, "ms", None),
        ("a sandbox of namespaces, until it takes commands", min(ready) * 1000, "ms", None),
        ("  with its first command", min(whole) * 1000, "ms", 300),
        ("  the same, p50", sorted(whole)[ROUNDS // 2] * 1000, "ms", None),
    ]


def _wakes(house: NamespaceLab) -> list[Row]:
    """With the question to the proxy whether access is revoked, which each wake asks."""
    alone, whole = woken(house.runtime, house.spec("bench"), house.served.runtime, ROUNDS)
    return [
        ("a sandbox of namespaces, woken from sleep", min(alone) * 1000, "ms", None),
        ("  by its first command, until that has ended", min(whole) * 1000, "ms", 300),
        ("  the same, p50", sorted(whole)[ROUNDS // 2] * 1000, "ms", None),
    ]


def _plain() -> None:
    words = ("--user", "--map-root-user", "--mount", "--pid", "--ipc", "--uts", "--net", "--fork", "true")
    subprocess.run(["unshare", *words], check=True, capture_output=True)


def _commands(house: NamespaceLab) -> list[Row]:
    house.box("bench")
    ours = sorted(_timed(lambda: house.runtime.exec("bench", TRUE)) for _ in range(COMMANDS))
    house.runtime.remove("bench")
    return [("exec of true in one of namespaces, p50", ours[COMMANDS // 2] * 1000, "ms", None)]


def _memory(house: NamespaceLab) -> list[Row]:
    """Ours is the proxy and this process; what runs for a sandbox is shown beside it."""
    names = [f"many-{number}" for number in range(SANDBOX_COUNT)]
    mine = (house.served.process.pid, os.getpid())
    before, inside = held(mine), held(named([INSIDE]))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(house.box, names))
        grown = (held(mine) - before) / SANDBOX_COUNT
        within = (held(named([INSIDE])) - inside) / SANDBOX_COUNT
        began = time.monotonic()
        list(pool.map(house.runtime.remove, names))
        gone = (time.monotonic() - began) / SANDBOX_COUNT
    return [
        (f"memory of proxy and runtime, of each of {SANDBOX_COUNT} of namespaces", grown, "MiB", 3),
        ("  of the processes that keep it", within, "MiB", None),
        (f"removal, of each of {SANDBOX_COUNT} of namespaces", gone * 1000, "ms", None),
    ]


def _leftovers(house: NamespaceLab) -> list[Row]:
    """Folders and processes."""
    # The lease is that of the runtime, which goes on.
    folders = [each for each in house.home.iterdir() if each.suffix != ".lease"]
    after_delete = len(folders) + len(processes(INSIDE, str(house.home)))
    home = house.home.with_name("other")
    mark = f"4711.{os.getpid()}"
    _killed(house, home, mark)
    until(lambda: not processes("/bin/sleep", mark), "its commands to end")
    until(lambda: not processes(INSIDE, str(home)), "its own processes to end")
    reaper.reap(home.resolve(), ControlProxyClient(house.served.runtime))
    return [
        ("left after a removal of one of namespaces", after_delete, "things", 0),
        ("left after kill -9 and the next start", len(list(home.iterdir())), "things", 0),
    ]


def _killed(house: NamespaceLab, home: Path, mark: str) -> None:
    words = [sys.executable, "-c", _OWNER, str(house.served.runtime), str(home), "running", mark]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        if owner.stdout is None or owner.stdout.readline() != b"ready\n":
            raise RuntimeError("no sandbox was made to be left behind")
        owner.kill()


def _timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began
