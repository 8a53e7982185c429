"""Ways out of a container that are not the proxy: S-40, S-41 and S-44 to S-53, with a real engine.

The list that every sandbox is held to stands in `tests.runtime.escape_cases`; here is what is a container's
own.
The good twin is a plain container, as people run them.
"""

from __future__ import annotations

import json
import resource
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.image_tree import PYTHON_PATH
from egress.runtime.docker.sandbox_user import is_own
from egress.runtime.open_file_limit import MAX_OPEN_FILES
from egress.runtime.protocol import Output
from egress.runtime.spec import Command
from tests.proxy.serve_process import until
from tests.runtime.docker_lab import NAME, SECRET, DockerLab, DockerLabSandbox
from tests.runtime.escape_cases import (
    SANDBOXES,
    Attempt,
    EscapeGround,
    Escapes,
    assert_nothing_is_reached,
    assert_works,
    probed,
)
from tests.runtime.outside_world import OutsideWorld

# What a sandbox may not see is looked for by its name, which a forked process does not have.
pytestmark = pytest.mark.real_process


@pytest.fixture(scope="module")
def shared_box(shared: DockerLab | None) -> Iterator[DockerLabSandbox]:
    """One for all tests: whatever one of them tries, the next finds the same wall."""
    assert shared is not None
    yield shared.box("box")
    shared.runtime.remove("box")


@pytest.fixture
def box(engine: DockerEngine, shared_box: DockerLabSandbox) -> DockerLabSandbox:
    shared_box.begin_test()
    return shared_box


@pytest.fixture(scope="module")
def shared_world(made_image: str) -> Iterator[OutsideWorld]:
    with OutsideWorld(made_image) as outside:
        yield outside


@pytest.fixture
def outside(engine: DockerEngine, shared_world: OutsideWorld) -> OutsideWorld:
    return shared_world


def gateway(box: DockerLabSandbox) -> str:
    """The address that the engine calls the gateway of the sandbox's network."""
    return str(network(box)["IPAM"]["Config"][0]["Gateway"])  # type: ignore[index]


def network(box: DockerLabSandbox) -> Mapping[str, object]:
    runtime = box.house.runtime
    return runtime._engine.inspect_network(runtime._register.get(box.name).cell.network.id)


def address(box: DockerLabSandbox) -> str:
    return str(box.house.runtime._register.get(box.name).cell.network.addresses.sandbox)


def door(box: DockerLabSandbox) -> str:
    return box.house.runtime._register.get(box.name).cell.door_address


class Contained(EscapeGround):
    """A container, and what is around it."""

    device = "eth0"

    def __init__(self, box: DockerLabSandbox, outside: OutsideWorld) -> None:
        self.room = self._box = box
        self.door, self.address, self.gateway = door(box), address(box), gateway(box)
        self.internet, self.machine, self.port = outside.internet, outside.machine, outside.port
        taken = self.address.rsplit(".", 1)[0] + ".250"
        self.foreign = (taken, self.door, self.gateway, SANDBOXES)
        self._outside = outside

    def twin(self, attempts: Iterable[Attempt]) -> Mapping[str, object]:
        return self._outside.twin(attempts)

    def datagrams(self) -> str:
        held = self._box.house.runtime._register.get(self._box.name)
        show = "import sys; sys.stdout.write(open('/proc/net/udp').read())"
        return self._outside.run(f"egress-door-{held.cell.id}", PYTHON_PATH, "-c", show, user="10001")


@pytest.fixture
def ground(box: DockerLabSandbox, outside: OutsideWorld) -> Contained:
    return Contained(box, outside)


@pytest.fixture
def root_ground(house: DockerLab, outside: OutsideWorld) -> Iterator[Contained]:
    yield Contained(house.box("root", user=0, group=0), outside)
    house.runtime.remove("root")


@pytest.fixture
def own_ground(own_house: DockerLab, outside: OutsideWorld) -> Contained:
    return Contained(own_house.box("box"), outside)


class TestContainers(Escapes):
    """The whole list."""


# The network --------------------------------------------------------------------------------------


def test_nothing_leads_to_another_sandbox(house: DockerLab, box: DockerLabSandbox) -> None:
    """S-48, S-50: neither to it nor to its door, although both are at the same engine."""
    other = house.box("other")
    try:
        # It listens, and hears itself.
        server = house.runtime.spawn(
            "other", Command(argv=("python3", "-m", "http.server", "8000", "--bind", "0.0.0.0"))
        )
        url = f"http://{address(other)}:8000/"
        until(lambda: not other.run("curl", "-s", "--noproxy", "*", url).exit_code, "the other to listen")
        attempts: list[Attempt] = [
            ("sandbox", "tcp", address(other), 8000),
            ("sandbox by ping", "ping", address(other), 2),
            *((f"door {port}", "tcp", door(other), port) for port in (80, 443, 3128)),
            ("door's names", "name", NAME, door(other)),
        ]
        assert_nothing_is_reached(box, attempts)
        server.kill()
    finally:
        house.runtime.remove("other")
    assert_works(box)


def test_a_ping_comes_as_far_as_the_door(box: DockerLabSandbox) -> None:
    """S-45: the twin of those that get no answer from anywhere else."""
    assert probed(box, [("ping", "ping", door(box), 2)]) == {"ping": "reached"}


def test_a_hypervisor_is_out_of_reach_or_the_runtime_says_that_it_may_not_be(box: DockerLabSandbox) -> None:
    """Sockets of AF_VSOCK know no networks. Engines refuse them since version 23."""
    found = probed(box, [("vsock", "vsock")])["vsock"]
    warned = any("AF_VSOCK" in caution for caution in box.house.runtime.cautions)
    assert (found == "reached") <= warned


# What it is -----------------------------------------------------------------------------------------


def test_what_waits_for_the_end_of_its_runtime_is_not_stopped(box: DockerLabSandbox) -> None:
    """Held, or killed quietly, it would let the sandbox outlive a runtime that was killed."""
    script = (
        'for place in /proc/[0-9]*; do case $(tr "\\0" " " <"$place/cmdline") in "/bin/sh -c limit="*)'
        ' echo found; kill -STOP "${place#/proc/}" 2>/dev/null && echo stopped ;; esac; done; true'
    )
    assert box.sh(script).text == "found\n"


def test_it_has_no_privilege(box: DockerLabSandbox) -> None:
    """S-51."""
    status = dict(line.split(":\t", 1) for line in box.run("cat", "/proc/self/status").text.splitlines())
    assert {status[each] for each in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    [user] = {int(each) for each in status["Uid"].split()}
    assert is_own(replace(box.house.spec("any"), user=user))
    for words in (
        ("mount", "-t", "tmpfs", "x", "/tmp"),
        ("unshare", "-U", "true"),
        ("unshare", "-n", "true"),
    ):
        assert box.run(*words).exit_code, words
    assert box.sh("echo 1 > /proc/sys/kernel/core_pattern").exit_code
    script = 'for f in /sys/fs/cgroup/*/release_agent; do echo x > "$f" && exit 0; done; exit 1'
    assert box.sh(script).exit_code


def test_what_the_kernel_counts_for_a_user_of_the_machine_is_bounded(box: DockerLabSandbox) -> None:
    """Its user has a number that somebody of the machine may have too.

    See `egress.runtime.open_file_limit`.
    """
    assert box.sh("ulimit -Hn; ulimit -Sn").stdout_bytes == b"%d\n%d\n" % (MAX_OPEN_FILES, MAX_OPEN_FILES)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft == hard


_TAKE_ALL = """
import ctypes, fcntl, os, sys
take, instances, pipes = ctypes.CDLL(None).inotify_init1, 0, []
while take(0) >= 0:
    instances += 1
try:
    while True:
        pipes.append(os.pipe())
        fcntl.fcntl(pipes[-1][1], fcntl.F_SETPIPE_SZ, 1 << 20)
except OSError:
    pass
print(instances, len(pipes), flush=True)
sys.stdin.read()
"""
_TAKE_ONE = """
import ctypes, fcntl, os
size = fcntl.fcntl(os.pipe()[1], fcntl.F_GETPIPE_SZ)
print(ctypes.CDLL(None).inotify_init1(0) >= 0, size)
"""


def test_what_the_kernel_counts_for_a_user_is_that_of_one_sandbox_alone(house: DockerLab) -> None:
    """One sandbox took every inotify instance and all memory for pipes of the user that all of them were."""
    greedy, other = house.box("greedy"), house.box("other")
    said: list[bytes] = []
    command = Command(argv=(PYTHON_PATH, "-c", _TAKE_ALL))
    process = house.runtime.spawn("greedy", command, Output(stdout=said.append))
    try:
        until(lambda: b"".join(said).endswith(b"\n"), "it to take all")
        instances, pipes = map(int, b"".join(said).split())
        # The twin: what it took is gone for its own user.
        has_instance, size = greedy.run(PYTHON_PATH, "-c", _TAKE_ONE).text.split()
        assert has_instance == "False"
        assert int(size) <= 8192
        assert other.run(PYTHON_PATH, "-c", _TAKE_ONE).text == "True 65536\n"
        assert instances > 100
        assert pipes > 10
    finally:
        process.kill(0)
        for name in ("greedy", "other"):
            house.runtime.remove(name)


def test_a_program_that_would_make_somebody_root_does_not(
    box: DockerLabSandbox, outside: OutsideWorld, engine: DockerEngine
) -> None:
    """S-51: one with the bit for it, which root of the engine has put there."""
    make = ("sh", "-c", "cat /usr/bin/id >/p && chmod 4755 /p")
    twin = outside.plain()
    found = []
    for container in (twin, box.house.runtime._register.get(box.name).container):
        outside.run(container, *make, user="0")
        found.append(outside.run(container, "/p", "-u", user="1000"))
    assert found == ["0\n", "1000\n"]


def test_nothing_of_others_is_seen(box: DockerLabSandbox) -> None:
    """S-48, S-51: processes, their memory and environment, and sockets that have a name and no file."""
    pid = box.house.served.process.pid
    assert b"serve" in Path(f"/proc/{pid}/cmdline").read_bytes()
    assert box.sh('[ -e "/proc/$1" ]', str(pid)).exit_code
    seen = box.sh("cat /proc/[0-9]*/cmdline").stdout_bytes
    assert b"lifeline" in seen
    assert not any(word in seen for word in (b"serve", b"dockerd", b"program.py", b"pytest"))
    for path in ("/proc/1/root/etc/shadow", "/proc/kcore", "/proc/1/mem", "/proc/sysrq-trigger"):
        assert box.sh('head -c 1 "$1" || echo x > "$1"', path).exit_code, path
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(f"\0egress-test-{pid}")
        sock.listen()
        script = "import socket, sys; socket.socket(socket.AF_UNIX).connect(chr(0) + sys.argv[1])"
        command = ("python3", "-c", script, f"egress-test-{pid}")
        here = subprocess.run([sys.executable, *command[1:]], check=False)
        assert here.returncode == 0
        assert b"ConnectionRefusedError" in box.run(*command).stderr_bytes


def test_nothing_of_the_machine_is_mounted(box: DockerLabSandbox) -> None:
    """S-49, S-51: no socket of an engine or a proxy, and of the host what was laid for it, read-only."""
    found = box.sh("find / -xdev -type s 2>/dev/null; ls /var/run/docker.sock /run/docker.sock 2>/dev/null")
    assert found.stdout_bytes == b""
    mounts = [line.split() for line in box.run("cat", "/proc/self/mounts").text.splitlines()]
    laid = {each[1]: each[3].split(",") for each in mounts if each[0].startswith("/dev/")}
    assert {target for target, options in laid.items() if "rw" in options} <= {
        *("/etc/hostname", "/etc/hosts"),  # the engine's own, about this container
        "/workspace",
    }
    assert {"/etc/resolv.conf", "/.egress/supervisor.sh", "/etc/egress"} <= laid.keys()
    script = 'for f in /etc/resolv.conf /.egress/* /etc/egress/*; do echo >> "$f" && exit 0; done; exit 1'
    assert box.sh(script).exit_code


def test_nothing_that_is_secret_is_in_it(box: DockerLabSandbox, engine: DockerEngine) -> None:
    """S-40, S-41: neither credential nor key, in it or in what the engine knows of it."""
    assert_works(box)
    held = box.house.runtime._register.get(box.name)
    for container in (each for each in engine.containers() if held.cell.id in each.name):
        known = json.dumps(engine._api.inspect_container(container.id))
        assert SECRET not in known
        assert "PRIVATE KEY" not in known
    assert SECRET not in box.run("env").text
    script = 'grep -rlsE -e "$1" -e "PRIVATE KEY" /etc /.egress /tmp /workspace /home /run 2>/dev/null'
    assert box.sh(script, SECRET).stdout_bytes == b""
    files = [path for path in Path(held.cell.folder).rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert not {SECRET.encode(), b"PRIVATE KEY"} & set(chain(path.read_bytes().split())), path


# The proxy's end ------------------------------------------------------------------------------------


def test_a_door_that_dies_takes_the_network_along(
    own_house: DockerLab, outside: OutsideWorld, engine: DockerEngine
) -> None:
    """S-52: the other half of the wall."""
    box = own_house.box("box")
    assert_works(box)
    held = own_house.runtime._register.get("box")
    engine.remove_container(f"egress-door-{held.cell.id}")
    attempts: list[Attempt] = [
        ("internet", "tcp", outside.internet, 443),
        ("machine", "tcp", outside.machine[0], outside.port),
        ("door", "tcp", door(box), 443),
        ("names", "name", NAME),
    ]
    assert_nothing_is_reached(box, attempts)
