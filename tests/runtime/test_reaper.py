"""What a runtime leaves that was killed: it is found and removed, and nobody else's is touched."""

from __future__ import annotations

import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest
from docker import APIClient

from egress.runtime.docker import image_tree, labels, names
from egress.runtime.docker.container import WAITER_USER
from egress.runtime.docker.death_pipe import PIPE_PATH, DeathPipe, wait_script
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.reaper import reap
from egress.runtime.proxy_client import ControlProxyClient
from tests.cli.command import ROOT
from tests.proxy.serve_process import until
from tests.runtime.docker_lab import PROGRAMS, DockerLab

_OTHER = """
import sys
from pathlib import Path
from egress.runtime.docker.runtime import DockerRuntime
from egress.runtime.proxy_client import ControlProxyClient
from egress.runtime.spec import Spec
runtime = DockerRuntime(ControlProxyClient(Path(sys.argv[1])), Path(sys.argv[2]), ready=1)
runtime.create(Spec(name="left", image=sys.argv[3]))
runtime.start("left")
runtime.create(Spec(name="made", image=sys.argv[3]))
runtime._cells.prewarmer.until_ready()
runtime.prepare(Spec(name="any", image=sys.argv[3]), 1)
runtime._pool.until_ready()
print("ready", flush=True)
sys.stdin.read()
"""
_STUBBORN = """#!/usr/bin/real-sh
case "$2" in *lifeline*) exec sleep 86400 ;; esac
exec /usr/bin/real-sh "$@"
"""
"""A shell that does not read what it is to wait for, and is a shell otherwise."""
_LOOK = """
import socket
door = open("/etc/resolv.conf").read().split()[1]
for port in (3128, 53):
    try:
        socket.create_connection((door, port), 3).close()
        print("open")
    except OSError:
        print("nobody")
"""


def things(engine: DockerEngine, home: Path) -> list[str]:
    """What is at the engine for this folder."""
    found = [
        each.name
        for each in engine.containers(labels.LEASE_LABEL)
        if each.labels[labels.LEASE_LABEL].startswith(str(home))
    ]
    for each in (*engine.networks(), *engine.volumes(labels.LEASE_LABEL)):
        marks = each.get("Labels")
        if isinstance(marks, dict) and str(marks.get(labels.LEASE_LABEL, "")).startswith(str(home)):
            found.append(str(each["Name"]))
    return found


def running_doors(engine: DockerEngine, home: Path) -> list[str]:
    """The doors of a folder that run, by name."""
    return [
        each.name
        for each in engine.containers(labels.LEASE_LABEL)
        if each.labels[labels.LEASE_LABEL].startswith(str(home))
        and "door" in each.name
        and each.state == "running"
    ]


def states(engine: DockerEngine, home: Path) -> set[str]:
    """Of the containers of a folder."""
    there = engine.containers(labels.LEASE_LABEL)
    return {each.state for each in there if each.labels[labels.LEASE_LABEL].startswith(str(home))}


def sandboxes(house: DockerLab) -> list[str]:
    _, status = house.served.ask("GET", "/status")
    return sorted(each["name"] for each in status["sandboxes"])  # type: ignore[attr-defined]


class Kill(Protocol):
    def __call__(self, home: Path, image: str = "", first: Callable[[], None] = lambda: None) -> None:
        """Begin it with an image, do something first, and kill it."""


def kill_owner(
    house: DockerLab, home: Path, image: str = "", first: Callable[[], None] = lambda: None
) -> None:
    """Make sandboxes in another process, and end it without a word."""
    words = (str(house.served.runtime), str(home), image or house.image)
    command = [sys.executable, "-c", _OTHER, *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        first()
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.fixture
def killed(own_house: DockerLab, engine: DockerEngine) -> Iterator[Kill]:
    """Another process, with two sandboxes, a blank and a cell that are ready, that ends without a word.

    What a test leaves of it is swept away, or it would lie at the engine for good.
    """
    homes = []

    def kill(home: Path, image: str = "", first: Callable[[], None] = lambda: None) -> None:
        homes.append(home)
        kill_owner(own_house, home, image, first)

    yield kill
    for home in homes:
        reap(engine, home)


@pytest.fixture
def stubborn(engine: DockerEngine, tmp_path: Path) -> Iterator[str]:
    """An image whose shell does not end when it should."""
    tree = image_tree.small_system_tree(PROGRAMS)
    tree.program("usr/bin/real-sh", Path(shutil.which("sh") or "/bin/sh").resolve())
    shell = tmp_path / "shell"
    shell.write_text(_STUBBORN)
    tree.program("usr/bin/sh", shell)
    with image_tree.spool_archive(tree) as (archive, _):
        tag = secrets.token_hex(4)
        engine.import_image(archive, "egress-test-stubborn", tag)
    yield f"egress-test-stubborn:{tag}"
    engine.remove_image(f"egress-test-stubborn:{tag}")


def seen_of_its_door(engine: DockerEngine, home: Path) -> list[str]:
    """What the sandbox `left` finds where its door is, or was."""
    (container,) = (
        each.id
        for each in engine.containers(labels.LEASE_LABEL)
        if each.labels[labels.LEASE_LABEL].startswith(str(home)) and names.sandbox_of(each.name) == "left"
    )
    with APIClient(version="auto") as api:
        command = api.exec_create(container, [image_tree.PYTHON_PATH, "-c", _LOOK], user="1000")["Id"]
        out = api.exec_start(command)
    assert isinstance(out, bytes)
    return out.decode().split()


@pytest.fixture
def foreign(own_house: DockerLab, engine: DockerEngine) -> Iterator[list[str]]:
    """Containers, by name, that are marked with owners who are not of this folder."""
    home = own_house.home.resolve()
    with ExitStack() as parts:
        made = []
        for lease in (str(home.parent / "gone.lease"), str(home / "../x/gone.lease"), ""):
            marks = labels.owner_labels(labels.ROLE_SANDBOX, lease)
            config = {"Image": own_house.image, "Entrypoint": ["true"], "Labels": marks}
            # Of this run alone: one that was cut off may have left its own.
            made.append(names.started("somebody", secrets.token_hex(4)))
            parts.callback(engine.remove_container, engine.create_container(made[-1], config))
        yield made


def test_everything_of_a_runtime_that_was_killed_is_removed(
    own_house: DockerLab, engine: DockerEngine, killed: Kill
) -> None:
    mine = own_house.box("mine")
    home = (own_house.served.runtime / "other").resolve()
    killed(home)
    assert sandboxes(own_house) == ["default", "left", "made", "mine"]
    # Doors and processes have ended with it, with nobody there to end them: what is left is at rest.
    until(lambda: not any("door" in name for name in things(engine, home)), "the doors to end")
    until(lambda: states(engine, home) == {"exited"}, "the processes to end")
    kept = things(engine, own_house.home)
    assert reap(engine, home, ControlProxyClient(own_house.served.runtime)) == ("left", "made")
    assert things(engine, home) == []
    assert list(home.iterdir()) == []
    assert things(engine, own_house.home) == kept
    assert sandboxes(own_house) == ["default", "mine"]
    assert mine.get("/still").exit_code == 0


def test_an_image_that_does_not_end_has_no_network_until_it_is_removed(
    own_house: DockerLab, engine: DockerEngine, stubborn: str, killed: Kill
) -> None:
    """The first process is the image's own shell, and one of an enemy waits for nothing."""
    home = (own_house.served.runtime / "other").resolve()
    before: list[str] = []
    killed(home, stubborn, lambda: before.extend(seen_of_its_door(engine, home)))
    # One may have been made and not been started: that is no door yet.
    until(lambda: not running_doors(engine, home), "the doors to end")
    assert before == ["open", "open"]
    assert seen_of_its_door(engine, home) == ["nobody", "nobody"]
    # It is not that it ended after all.
    assert states(engine, home) <= {"running", "created"}
    assert "running" in states(engine, home)
    assert reap(engine, home, ControlProxyClient(own_house.served.runtime)) == ("left", "made")
    assert things(engine, home) == []


def test_a_runtime_clears_away_what_the_last_one_left(
    own_house: DockerLab, engine: DockerEngine, killed: Kill
) -> None:
    """And has its names to itself again."""
    home = own_house.home.resolve()
    killed(home)
    own_house.box("mine")
    other = own_house.open_runtime()
    assert own_house.runtime._register.names == ["mine"]
    other.create(own_house.spec("left"))
    other.close()
    assert [name for name in things(engine, home) if "mine" not in name and "door" not in name and name[-8:]]
    assert sandboxes(own_house) == ["default", "mine"]


def test_what_is_not_known_to_be_left_is_left_alone(
    own_house: DockerLab, engine: DockerEngine, foreign: list[str]
) -> None:
    """Folders of nobody, and things at the engine that name another owner, wherever it is."""
    home = own_house.home.resolve()
    (home / "of-nobody").mkdir()
    assert reap(engine, home) == ()
    assert set(foreign) <= {each.name for each in engine.containers()}
    assert (home / "of-nobody").is_dir()


# One that starts late ---------------------------------------------------------------------------------


def waiting(engine: DockerEngine, image: str, pipe: Path) -> str:
    """A container that waits at a pipe as sandboxes do, with less patience."""
    config = {
        "Image": engine.image_id(image),
        "User": WAITER_USER,
        "Entrypoint": ["/bin/sh", "-c", wait_script(open_timeout=1)],
        "Cmd": [],
        "Labels": labels.owner_labels(labels.ROLE_SANDBOX, str(pipe.with_suffix(".lease"))),
        "HostConfig": {
            "Init": True,
            "NetworkMode": "none",
            "Mounts": [{"Type": "bind", "Source": str(pipe), "Target": PIPE_PATH, "ReadOnly": True}],
        },
    }
    return engine.create_container(f"egress-test-{secrets.token_hex(4)}", config)


def test_a_container_that_starts_after_its_owner_died_ends_by_itself(
    engine: DockerEngine, image: str, tmp_path: Path
) -> None:
    """The pipe is still there, and nobody holds the other end; beside it one whose owner lives."""
    dead, alive = DeathPipe(tmp_path / "dead"), DeathPipe(tmp_path / "alive")
    dead.close()
    with ExitStack() as parts:
        parts.callback(alive.close)
        ends, goes_on = (waiting(engine, image, pipe.path) for pipe in (dead, alive))
        for each in (ends, goes_on):
            parts.callback(engine.remove_container, each)
            engine.start_container(each)
        until(lambda: not is_running(engine, ends))
        assert is_running(engine, goes_on)
        alive.close()
        until(lambda: not is_running(engine, goes_on))


def is_running(engine: DockerEngine, container: str) -> bool:
    state = engine.container_state(container)
    return state is not None and state.is_alive
