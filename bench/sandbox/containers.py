"""Sandboxes as containers, against plain ones of the same image, and a command against one of the engine's.

Where no engine answers there are no rows, and it says so.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from bench.sandbox.memory import held, named
from bench.sandbox.waking import woken
from egress.runtime.docker import labels
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.process import ContainerCommand
from egress.runtime.docker.reaper import reap
from egress.runtime.errors import EngineUnavailableError
from egress.runtime.spec import Command
from egress.runtime.supervised_process import drain
from tests.runtime import docker_lab as houses
from tests.runtime.docker_lab import DockerLab
from tests.runtime.test_reaper import kill_owner, things

Row = tuple[str, float, str, float | None]

ROUNDS = 7
COMMANDS = 30
SANDBOX_COUNT = 50
COMMAND_TIMEOUT = 60.0
TRUE = Command(argv=("true",))


def rows() -> list[Row]:
    try:
        engine = DockerEngine()
    except EngineUnavailableError as error:
        print(f"  containers: {error.message}; {error.hint}", file=sys.stderr)
        return []
    image = houses.image(engine)
    with ExitStack() as parts:
        folder = parts.enter_context(tempfile.TemporaryDirectory(prefix="egress-bench-"))
        house = parts.enter_context(DockerLab(Path(folder), image, ready=1))
        return [
            *_times(house, image),
            *_wakes(house, image),
            *_commands(house, engine),
            *_memory(house),
            *_leftovers(house, engine),
        ]


def _times(house: DockerLab, image: str) -> list[Row]:
    plain, ready, first, pooled, pooled_first = [], [], [], [], []
    runtime = house.runtime
    for number in range(ROUNDS):
        plain.append(_timed(functools.partial(_plain, image, f"egress-bench-{number}")))
        subprocess.run(["docker", "rm", f"egress-bench-{number}"], check=True, capture_output=True)
        house.until_ready()
        time.sleep(0.5)
        ready.append(_timed(lambda: _made(house)))
        first.append(_timed(lambda: runtime.exec("bench", TRUE)))
        runtime.remove("bench")
        runtime.prepare(house.spec("bench"), 1)
        house.until_ready()
        time.sleep(0.5)
        pooled.append(_timed(lambda: _made(house)))
        pooled_first.append(_timed(lambda: runtime.exec("bench", TRUE)))
        runtime.prepare(house.spec("bench"), 0)
        runtime.remove("bench")
    best = min(plain)
    return [
        ("docker run of the image, to its end", best * 1000, "ms", None),
        ("a sandbox, until it takes commands", min(ready) * 1000, "ms", None),
        ("  of a docker run", min(ready) / best, "x", 1.5),
        ("  with its first command", (min(ready) + min(first)) / best, "x", None),
        ("one from the warm pool, until it takes commands", min(pooled) * 1000, "ms", None),
        ("  of a docker run", min(pooled) / best, "x", 0.25),
        ("  with its first command", (min(pooled) + min(pooled_first)) / best, "x", None),
    ]


def _wakes(house: DockerLab, image: str) -> list[Row]:
    """Against `docker start` of two containers of the same image that wait as a sandbox does.

    One is in the network that the engine shares among all, the other has a network of its own, as every
    sandbox has: the engine makes that at each start, with a name server in it.
    """
    shared, own = "egress-bench-start", "egress-bench-start-own"
    starts: dict[str, list[float]] = {shared: [], own: []}

    def docker(*words: str) -> None:
        subprocess.run(["docker", *words], check=True, capture_output=True)

    def start() -> None:
        for name, taken in starts.items():
            taken.append(_timed(functools.partial(docker, "start", name)))
            docker("stop", "--time", "0", name)

    with ExitStack() as parts:
        docker("network", "create", "--internal", own)
        parts.callback(docker, "network", "rm", own)
        for name, network in ((shared, "bridge"), (own, own)):
            docker("create", "--name", name, "--network", network, "--init", image, "sleep", "3600")
            parts.callback(docker, "rm", "--force", name)
        alone, whole = woken(house.runtime, house.spec("bench"), house.served.runtime, ROUNDS, start)
    best, best_shared = min(starts[own]), min(starts[shared])
    return [
        ("docker start of a container in a network of its own", best * 1000, "ms", None),
        ("a sandbox, woken from sleep", min(alone) * 1000, "ms", None),
        ("  of such a docker start", min(alone) / best, "x", 1.2),
        ("  of one in the engine's shared network", min(alone) / best_shared, "x", None),
        ("  with its first command, of the first", min(whole) / best, "x", None),
    ]


def _plain(image: str, name: str) -> None:
    subprocess.run(["docker", "run", "--name", name, image, "true"], check=True, capture_output=True)


def _made(house: DockerLab) -> None:
    house.runtime.create(house.spec("bench"))
    house.runtime.start("bench")


def _commands(house: DockerLab, engine: DockerEngine) -> list[Row]:
    _made(house)
    container = house.container("bench")

    def raw() -> None:
        command = engine.create_exec(
            container, ["true"], {}, user="1000:1000", has_input=False, has_terminal=False
        )
        drain(ContainerCommand(engine, command), COMMAND_TIMEOUT)
        engine.exec_status(command)

    ours, theirs = [], []
    for _ in range(COMMANDS):
        theirs.append(_timed(raw))
        ours.append(_timed(lambda: house.runtime.exec("bench", TRUE)))
    house.runtime.remove("bench")
    ours.sort()
    theirs.sort()
    middle = COMMANDS // 2
    return [
        ("exec of true by the engine alone, p50", theirs[middle] * 1000, "ms", None),
        ("exec of true in a sandbox, p50", ours[middle] * 1000, "ms", None),
        ("  of the engine's", ours[middle] / theirs[middle], "x", 1.3),
    ]


def _memory(house: DockerLab) -> list[Row]:
    """Ours is the proxy and this process; doors and the engine's own processes are shown beside it."""
    house.keep_networks(0)
    proxy, names = house.served.process.pid, [f"many-{number}" for number in range(SANDBOX_COUNT)]
    mine = (proxy, os.getpid())
    before, shims = held(mine), held(named(["containerd-shim"]))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(house.box, names))
        grown = (held(mine) - before) / SANDBOX_COUNT
        doors = held(named(["/door/door.sock"])) / SANDBOX_COUNT
        engines = (held(named(["containerd-shim"])) - shims) / SANDBOX_COUNT
        began = time.monotonic()
        list(pool.map(house.runtime.remove, names))
        gone = (time.monotonic() - began) / SANDBOX_COUNT
    return [
        (f"memory of proxy and runtime, of each of {SANDBOX_COUNT} sandboxes", grown, "MiB", 3),
        ("  of its door", doors, "MiB", None),
        ("  of the engine's processes for both", engines, "MiB", None),
        (f"removal, of each of {SANDBOX_COUNT}", gone * 1000, "ms", None),
    ]


def _leftovers(house: DockerLab, engine: DockerEngine) -> list[Row]:
    """Things at the engine: containers, networks and volumes."""
    house.keep_networks(0)
    after_delete = len(things(engine, house.home.resolve()))
    home = (house.served.runtime / "other").resolve()
    kill_owner(house, home)
    end = time.monotonic() + 10
    while _alive(engine, home) and time.monotonic() < end:
        time.sleep(0.1)
    alive = len(_alive(engine, home))
    reap(engine, home)
    return [
        ("left after a removal", after_delete, "things", 0),
        ("running after kill -9 of the parent", alive, "things", 0),
        ("left after kill -9 and the next start", len(things(engine, home)), "things", 0),
    ]


def _alive(engine: DockerEngine, home: Path) -> list[str]:
    there = engine.containers(labels.LEASE_LABEL)
    mine = (each for each in there if each.labels[labels.LEASE_LABEL].startswith(str(home)))
    return [each.name for each in mine if each.state == "running"]


def _timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began
