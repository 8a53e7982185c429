"""Ways out of a sandbox of namespaces that are not the proxy: S-40, S-41 and S-44 to S-53, from inside.

The list that every sandbox is held to stands in `tests.runtime.escape_cases`; here is what is only asked of
namespaces. The good twin is the same probe on this machine, outside of any sandbox, and for what this machine
has not, in a network of its own that has it.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from egress.runtime import mount_check
from egress.runtime.errors import MountError
from egress.runtime.namespace.sandbox_contents import DOOR_ADDRESS
from egress.runtime.open_file_limit import MAX_OPEN_FILES
from egress.runtime.protocol import Output
from egress.runtime.spec import Command, Mount
from tests.proxy.serve_process import until
from tests.runtime.escape_cases import (
    METADATA,
    PROBE,
    SANDBOXES,
    Attempt,
    EscapeGround,
    Escapes,
    assert_nothing_is_reached,
    assert_works,
    lines,
    probed,
)
from tests.runtime.listening_host import ListeningHost
from tests.runtime.namespace.namespace_lab import PYTHON, SECRET, NamespaceLab, NamespaceLabSandbox
from tests.runtime.namespace.open_network import INTERNET

# What a sandbox may not see is looked for by its name, which a forked process does not have.
pytestmark = pytest.mark.real_process

ROOT: Final = Path(__file__).parents[3]
_WORLD: Final = ("unshare", "-Urnm", sys.executable, "-m", "tests.runtime.namespace.open_network")
"""Runs the probe where there is no wall, and more than this machine has."""

_ABSTRACT: Final = """
import socket, sys
with socket.socket(socket.AF_UNIX) as sock:
    sock.settimeout(5)
    try:
        sock.connect(sys.argv[1].replace("@", "\\0"))
        print("reached")
    except OSError as error:
        print(error.errno)
"""
_CALLS: Final = """
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
numbers = {NUMBERS}
tries = {
    "unshare users": lambda: libc.unshare(0x10000000),
    "unshare network": lambda: libc.unshare(0x40000000),
    "unshare mounts": lambda: libc.unshare(0x00020000),
    "clone users": lambda: libc.syscall(numbers["clone"], 0x10000000 | 17, 0, 0, 0, 0),
    "clone3": lambda: libc.syscall(435, 0, 0),
    "setns": lambda: libc.setns(os.open("/proc/1/stat", os.O_RDONLY), 0),
    "mount": lambda: libc.mount(b"x", b"/tmp", b"tmpfs", 0, None),
    "remount": lambda: libc.mount(b"x", b"/", b"", 32, None),
    "umount": lambda: libc.umount2(b"/etc/passwd", 2),
    "open_tree": lambda: libc.syscall(428, -100, b"/", 1),
    "fsopen": lambda: libc.syscall(430, b"tmpfs", 0),
    "pivot_root": lambda: libc.syscall(numbers["pivot_root"], b"/tmp", b"/tmp"),
    "chroot": lambda: libc.chroot(b"/tmp"),
    "bpf": lambda: libc.syscall(numbers["bpf"], 0, 0, 0),
    "perf": lambda: libc.syscall(numbers["perf_event_open"], 0, 0, -1, -1, 0),
    "userfaultfd": lambda: libc.syscall(numbers["userfaultfd"], 1),
    "keyctl": lambda: libc.syscall(numbers["keyctl"], 0, -3, 1),
    "add_key": lambda: libc.syscall(numbers["add_key"], b"user", b"x", b"x", 1, -3),
    "io_uring": lambda: libc.syscall(425, 1, ctypes.create_string_buffer(256)),
    "handle": lambda: libc.syscall(numbers["open_by_handle_at"], -100, 0, 0),
    "ptrace first": lambda: libc.ptrace(16, 1, 0, 0),
    "setuid": lambda: libc.setuid(0),
    "setgid": lambda: libc.setgid(0),
    "setgroups": lambda: libc.setgroups(1, (ctypes.c_int * 1)(0)),
    "time": lambda: libc.settimeofday(ctypes.create_string_buffer(16), None),
    "hostname": lambda: libc.sethostname(b"x", 1),
    "reboot": lambda: libc.reboot(0xFEE1DEAD, 0x89ABCDEF, 0, 0),
    "module": lambda: libc.syscall(numbers["init_module"], 0, 0, 0),
    "syslog": lambda: libc.klogctl(10, None, 0),
    "nice": lambda: libc.setpriority(0, 0, -5),
    "nothing": lambda: libc.getpid(),
}
for name, attempt in tries.items():
    ctypes.set_errno(0)
    found = attempt()
    print(name, errno.errorcode.get(ctypes.get_errno(), 0) if found == -1 else "done", flush=True)
    if name == "clone users" and found == 0:
        os._exit(0)
"""
_TAKING: Final = """
import errno, socket, sys
tcp, udp = socket.SOCK_STREAM, socket.SOCK_DGRAM
address, *ports = sys.argv[1:]
for kind, port in [(tcp, int(port)) for port in ports] + [(udp, 53)]:
    for host in (address, "0.0.0.0"):
        for options in ((), (2,), (15,), (2, 15)):
            with socket.socket(socket.AF_INET, kind) as sock:
                for option in options:
                    sock.setsockopt(socket.SOL_SOCKET, option, 1)
                try:
                    sock.bind((host, port))
                    if kind == tcp:
                        sock.listen()
                    print(kind.name, port, host, "taken")
                except OSError as error:
                    print(kind.name, port, host, errno.errorcode[error.errno])
"""
_FAMILIES: Final = """
import socket
for family in range(1, 46):
    for kind in (1, 2, 3, 5):
        try:
            socket.socket(family, kind).close()
            print(family, kind)
        except OSError:
            pass
"""


@pytest.fixture
def box(house: NamespaceLab, request: pytest.FixtureRequest) -> Iterator[NamespaceLabSandbox]:
    name = f"box-{abs(hash(request.node.name)) % 10**9}"
    yield house.box(name)
    house.runtime.remove(name)


@pytest.fixture
def outside() -> Iterator[ListeningHost]:
    with ListeningHost() as outside:
        yield outside


class Bare(EscapeGround):
    """A sandbox of namespaces, and what is around it."""

    device = "lo"
    # It is in one network with its door.
    door = address = DOOR_ADDRESS
    gateway = "198.18.0.1"
    internet = INTERNET
    foreign = ("10.1.2.3", gateway, SANDBOXES, METADATA)

    def __init__(self, box: NamespaceLabSandbox, outside: ListeningHost) -> None:
        self.room = box
        self.machine, self.port = outside.addresses, outside.port

    def twin(self, attempts: Iterable[Attempt]) -> Mapping[str, object]:
        here: list[Attempt] = []
        elsewhere: list[Attempt] = []
        for attempt in attempts:
            (here if attempt[2:3] and attempt[2] in self.machine else elsewhere).append(attempt)
        found = twin(here) if here else {}
        return {**found, **(twin(elsewhere, *_WORLD) if elsewhere else {})}

    def datagrams(self) -> str:
        return self.room.run("cat", "/proc/net/udp").check().text


@pytest.fixture
def ground(box: NamespaceLabSandbox, outside: ListeningHost) -> Bare:
    return Bare(box, outside)


@pytest.fixture
def root_ground(house: NamespaceLab, outside: ListeningHost) -> Iterator[Bare]:
    yield Bare(house.box("root", user=0, group=0), outside)
    house.runtime.remove("root")


@pytest.fixture
def own_ground(own_house: NamespaceLab, outside: ListeningHost) -> Bare:
    return Bare(own_house.box("box"), outside)


def twin(attempts: Iterable[Attempt], *words: str) -> Mapping[str, object]:
    """How far they come outside."""
    command = words or (sys.executable, "-c", PROBE)
    done = subprocess.run(command, input=lines(attempts), capture_output=True, check=True, cwd=ROOT)
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


class TestNamespaces(Escapes):
    """The whole list."""


# The network --------------------------------------------------------------------------------------


def test_no_way_out_is_told_at_once(box: NamespaceLabSandbox, outside: ListeningHost) -> None:
    """S-44, S-45: nothing is there but loopback, its own, so nobody waits for an answer."""
    attempts: list[Attempt] = [
        ("internet", "tcp", INTERNET, 443),
        ("internet by udp", "udp", INTERNET, 443),
        ("machine", "tcp", next(each for each in outside.addresses if not each.startswith("127.")), 80),
    ]
    assert set(probed(box, attempts).values()) == {"ENETUNREACH"}
    assert probed(box, [("proxy", "tcp", "127.0.0.1", 3128)]) == {"proxy": "ECONNREFUSED"}
    devices = box.run("cat", "/proc/net/dev").text.splitlines()[2:]
    assert [line.split(":")[0].strip() for line in devices] == ["lo"]


def test_names_of_no_file_are_those_of_the_sandbox(box: NamespaceLabSandbox, outside: ListeningHost) -> None:
    """Unix sockets without a file belong to a network, and its own is empty."""
    done = subprocess.run([PYTHON, "-c", _ABSTRACT, outside.abstract], capture_output=True, check=True)
    assert done.stdout == b"reached\n"
    assert box.python(_ABSTRACT, outside.abstract).text != "reached\n"
    assert outside.abstract.encode() not in box.run("cat", "/proc/net/unix").stdout_bytes


def test_nothing_leads_to_another_sandbox(house: NamespaceLab, box: NamespaceLabSandbox) -> None:
    """S-48, S-50: they have the same addresses and not the same network."""
    other = house.box("other")
    try:
        words = (PYTHON, "-m", "http.server", "8000", "--bind", "0.0.0.0")
        server = house.runtime.spawn("other", Command(argv=words))
        mine = ("curl", "-s", "--noproxy", "*", f"http://{DOOR_ADDRESS}:8000/")
        until(lambda: not other.run(*mine).exit_code, "the other to listen")
        attempts: list[Attempt] = [
            (each, "tcp", each, 8000) for each in (DOOR_ADDRESS, "127.0.0.1", "198.18.0.3")
        ]
        assert_nothing_is_reached(box, attempts)
        other.sh("echo theirs > /tmp/theirs; echo theirs > /dev/shm/theirs").check()
        assert box.sh("cat /tmp/theirs /dev/shm/theirs").stdout_bytes == b""
        assert b"http.server" in other.sh("cat /proc/[0-9]*/cmdline").stdout_bytes
        assert b"http.server" not in box.sh("cat /proc/[0-9]*/cmdline").stdout_bytes
        server.kill()
    finally:
        house.runtime.remove("other")
    assert_works(box)


def test_sockets_of_other_families_are_refused(box: NamespaceLabSandbox) -> None:
    """S-45: AF_VSOCK, which knows no networks, and all else that nobody needs there."""
    assert_nothing_is_reached(box, [("vsock", "vsock")])
    families = {tuple(map(int, line.split())) for line in box.python(_FAMILIES).check().text.splitlines()}
    assert families == {(1, 1), (1, 2), (1, 3), (1, 5), (2, 1), (2, 2), (10, 1), (10, 2), (16, 2), (16, 3)}
    # Interfaces can be listed, which many programs do.
    assert "lo" in box.python("import socket; print(socket.if_nameindex())").check().text
    # The probe can: outside nothing is in its way but rights.
    assert twin([("vsock", "vsock")])["vsock"] in ("reached", "EAFNOSUPPORT")


def test_no_port_of_the_door_is_taken_from_it(box: NamespaceLabSandbox) -> None:
    """S-48: they share an address. Whoever took its port would answer in the name of every host."""
    ports = " ".join(map(str, (53, 80, 443, 3128, box.house.upstream.port)))
    told = box.python(_TAKING, DOOR_ADDRESS, *ports.split()).check().text.splitlines()
    assert len(told) == 2 * 4 * 6
    assert {line.split()[-1] for line in told} == {"EADDRINUSE"}, told
    # The twin: at any other port one may listen.
    assert set(box.python(_TAKING, DOOR_ADDRESS, "8000").check().text.split()[3::4]) >= {"taken"}


def test_addresses_of_loopback_are_its_own(box: NamespaceLabSandbox) -> None:
    """S-48: there is one network for it and its door, and nothing listens at any other address of it."""
    ports = probed(box, [("ports", "open_ports", "127.0.0.1")], timeout=100)["ports"]
    # Whoever dials a port that is his own by chance meets himself: no server has one of those.
    found = [port for port in ports if port < 32768] if isinstance(ports, list) else []
    assert found == []


def test_what_listens_inside_is_dialled_by_the_door(house: NamespaceLab, box: NamespaceLabSandbox) -> None:
    words = (PYTHON, "-m", "http.server", "8001", "--bind", "127.0.0.1")
    server = house.runtime.spawn(box.name, Command(argv=words))
    until(lambda: not box.run("curl", "-s", "http://127.0.0.1:8001/").exit_code, "it to listen")
    with house.runtime.dial(box.name, 8001) as sock:
        sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert sock.recv(9) == b"HTTP/1.0 "
    server.kill()


# What it is -----------------------------------------------------------------------------------------


def status(box: NamespaceLabSandbox) -> Mapping[str, str]:
    text = box.run("cat", "/proc/self/status").text
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


@pytest.mark.parametrize("user", [1000, 0])
def test_it_has_no_privilege(house: NamespaceLab, user: int) -> None:
    """S-51: whoever it is inside, it is nobody outside."""
    mark = f"4713.{os.getpid()}"
    box = house.box("privilege", user=user, group=user)
    try:
        found = status(box)
        assert {found[each] for each in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
        assert (found["NoNewPrivs"], found["Seccomp"]) == ("1", "2")
        assert found["Uid"].split() == [str(user)] * 4
        assert box.run("cat", "/proc/self/uid_map").text.split()[::2] == [str(user), "1"]
        process = house.runtime.spawn("privilege", Command(argv=("/bin/sleep", mark)))
        outer = until(lambda: seen("/bin/sleep", mark), "the command to be seen")
        process.kill(0)
        assert 0 not in outer
        assert (outer == {os.geteuid()}) == (os.geteuid() != 0)
    finally:
        house.runtime.remove("privilege")


def seen(*marks: str) -> set[int]:
    """The users, as this machine counts, of the processes with these arguments."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            text = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if all(mark in text for mark in marks):
                found.add(entry.stat().st_uid)
        except OSError:
            continue
    return found


def test_calls_that_nobody_needs_there_are_refused(house: NamespaceLab, box: NamespaceLabSandbox) -> None:
    """Namespaces, mounts, keyrings, io_uring, users, clocks: each by itself, as root inside too."""
    from egress.runtime.namespace.inside.syscall_filter import MACHINE_FILTERS

    numbers = dict(MACHINE_FILTERS[os.uname().machine].calls)
    program = _CALLS.replace("{NUMBERS}", repr(numbers))
    as_root = house.box("as-root", user=0, group=0)
    try:
        for each in (box, as_root):
            told = dict(line.rsplit(" ", 1) for line in each.python(program).check().text.splitlines())
            allowed = {name for name, what in told.items() if what == "done"}
            harmless = {"setuid", "setgid"} if each is as_root else set()
            assert allowed == {"nothing"} | harmless, told
            assert told["io_uring"] == told["clone3"] == "ENOSYS"
    finally:
        house.runtime.remove("as-root")
    # Threads and children, which go the same way, are there.
    assert (
        box.python("import threading as t; x = t.Thread(target=print, args=('x',)); x.start()").text == "x\n"
    )
    assert box.python("import subprocess as s; s.run(['true'], check=True)").exit_code == 0


def test_programs_that_change_their_user_do_not(box: NamespaceLabSandbox) -> None:
    """S-51: set-user bits mean nothing, neither those of the machine nor its own."""
    script = "cp /usr/bin/id /tmp/id; chmod 4755 /tmp/id; /tmp/id -u; find /usr/bin -perm -4000 | head -1"
    first, *others = box.sh(script).text.split()
    assert first == "1000"
    options = [line.split() for line in box.run("cat", "/proc/self/mounts").text.splitlines()]
    assert all("nosuid" in each[3].split(",") for each in options)
    assert others == [] or box.sh(f"{others[0]} -c id </dev/null; true").text.count("uid=0") == 0


def test_processes_of_the_machine_are_neither_seen_nor_ended(
    house: NamespaceLab, box: NamespaceLabSandbox
) -> None:
    """S-39: /proc shows its own; what is outside can be neither signalled nor read."""
    mine = os.getpid()
    numbers = box.sh("cd /proc; echo [0-9]*").text.split()
    assert len(numbers) < 10
    for number in (mine, house.runtime._register.get(box.name).launcher.pid):
        if str(number) not in numbers:
            assert box.sh(f"kill -0 {number}").exit_code
    closed = ("cat environ", "cat mem", "cat maps", "ls root/", "ls cwd/", "ls fd/", "readlink ns/net exe")
    for command in closed:
        assert box.sh(command, cwd="/proc/1").exit_code, command
    # The first process does not end by anything that is sent to it from inside.
    script = "for s in 1 2 3 6 9 11 13 14 15 17 19 20; do kill -$s 1; done 2>/dev/null; true"
    assert box.sh(script).exit_code == 0
    assert box.run("true").exit_code == 0
    # The good twin: one of its own can be traced and ended.
    assert box.sh("sleep 300 & kill -9 $!; wait $!").exit_code == 137


def test_settings_of_the_kernel_are_not_written(box: NamespaceLabSandbox) -> None:
    script = 'echo 1 > "$1"'
    for place in (
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/net/ipv6/conf/all/disable_ipv6",
        "/proc/sys/net/ipv4/ip_unprivileged_port_start",
        "/proc/sys/vm/drop_caches",
        "/proc/sys/user/max_user_namespaces",
        "/proc/sysrq-trigger",
    ):
        assert box.sh(script, place).exit_code, place
    assert (
        box.sh("cat /proc/kcore /proc/keys /proc/kmsg /proc/timer_list 2>/dev/null | head -c 1").stdout_bytes
        == b""
    )
    assert box.sh("ls -A /sys").stdout_bytes == b""


_SEND: Final = """
import os, socket, sys
file, kept, count = os.open("/dev/null", os.O_RDONLY), [], 0
try:
    while count < 200_000:
        kept.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
        kept[-1][0].setblocking(False)
        try:
            while True:
                socket.send_fds(kept[-1][0], [b"x"], [file] * 250)
                count += 250
        except BlockingIOError:
            pass
except OSError as error:
    print(error.errno, count, flush=True)
sys.stdin.read()
"""


def test_descriptors_that_one_sends_and_nobody_takes_keep_no_other_from_working(house: NamespaceLab) -> None:
    """The kernel counts them by user: without rights all sandboxes, and their owner, are one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < MAX_OPEN_FILES + 1000:
        pytest.skip("this machine lets a process have few files open")
    house.box("sender")
    there = threading.Event()
    said: list[bytes] = []

    def hear(piece: bytes) -> None:
        said.append(piece)
        there.set()

    sending = house.runtime.spawn(
        "sender", Command(argv=(PYTHON, "-c", _SEND)), Output(stdout=hear, stderr=hear)
    )
    assert there.wait(60)
    number, count = b"".join(said).split()
    # It went as far as it could.
    assert int(number) in (errno.EMFILE, errno.ETOOMANYREFS)
    assert int(count) > MAX_OPEN_FILES // 2
    other = house.box("other")
    assert other.sh("echo here").stdout_bytes == b"here\n"
    sending.close_input()
    assert sending.wait().exit_code == 0
    for name in ("sender", "other"):
        house.runtime.remove(name)


def test_what_the_kernel_counts_for_a_user_of_the_machine_is_bounded(box: NamespaceLabSandbox) -> None:
    """One sandbox took every inotify instance that its user outside has, from all others of that user."""
    script = (
        "import ctypes; take = ctypes.CDLL(None).inotify_init1\n"
        "print(len([1 for _ in range(200) if take(0) >= 0]))"
    )
    assert 1 <= int(box.run("python3", "-c", script).stdout_bytes) <= 32


# What of the machine is there -----------------------------------------------------------------------


def test_nothing_of_the_machine_is_there_but_its_programs(box: NamespaceLabSandbox, tmp_path: Path) -> None:
    """S-49, S-51: no home, no key, no socket of an engine or a proxy, no folder of anybody."""
    places = [
        *("/etc/shadow", "/etc/gshadow", "/etc/ssh", "/etc/ssl/private", "/etc/machine-id", "/etc/sudoers"),
        *("/etc/gitconfig", "/etc/npmrc", "/etc/pip.conf", "/etc/wgetrc", "/var/lib/dpkg"),
        "/var/run/docker.sock",
        *("/run/docker.sock", "/run/dbus", "/opt", "/srv", "/boot", "/.egress/etc", "/sys/kernel"),
        *(str(Path.home() / ".bashrc"), str(tmp_path), str(box.house.home), str(box.house.served.runtime)),
        str(Path(__file__).parents[3]),
    ]
    assert any(Path(place).exists() for place in places)
    for place in places:
        assert box.sh('[ -e "$1" ]', place).exit_code == 1, place
    sockets = box.sh("find / -xdev -type s 2>/dev/null; find /run /var /tmp /home -type s 2>/dev/null")
    assert sockets.stdout_bytes == b""
    assert (
        box.sh("for f in /run/* /root/* /.egress/* /home/*/* /mnt/*; do [ -e $f ] && echo $f; done").text
        == ""
    )
    assert box.run("ls", "-A", "/home").text == "sandbox\n"
    devices = set(box.run("ls", "/dev").text.split())
    assert devices == {
        *("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm"),
        *("fd", "stdin", "stdout", "stderr"),
    }
    assert box.run("ls", "/usr/bin/env").exit_code == 0


def test_nothing_of_the_caller_is_inherited(
    own_house: NamespaceLab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """S-40: neither the environment of whoever made it nor what is open there."""
    monkeypatch.setenv("CALLERS_TOKEN", SECRET)
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        box = own_house.box("box")
        everything = box.sh("cat /proc/self/environ /proc/1/environ /proc/1/cmdline 2>/dev/null; env").text
        assert "CALLERS_TOKEN" not in everything
        assert SECRET not in everything
        assert box.sh("ls /proc/self/fd").text.split() == ["0", "1", "2", "3"]
        held = own_house.runtime._register.get("box").launcher
        # Nobody but root may look into the first process.
        for number in (held.pid, *((held.first,) if os.geteuid() == 0 else ())):
            names = [str(each.readlink()) for each in Path(f"/proc/{number}/fd").iterdir()]
            assert str(tmp_path / "open") not in names
            assert SECRET not in Path(f"/proc/{number}/environ").read_text(errors="replace")


def test_nothing_that_is_secret_is_in_it(box: NamespaceLabSandbox) -> None:
    """S-40, S-41: neither credential nor key of the proxy."""
    assert_works(box)
    assert SECRET not in box.run("env").text
    script = 'grep -rlsE -e "$1" -e "PRIVATE KEY" /etc /tmp /workspace /home /run /var 2>/dev/null'
    assert box.sh(script, SECRET).stdout_bytes == b""
    for path in (path for path in box.house.home.rglob("*") if path.is_file()):
        data = path.read_bytes()
        assert SECRET.encode() not in data
        assert b"PRIVATE KEY" not in data
    assert b"BEGIN CERTIFICATE" in box.run("cat", "/etc/egress/ca.pem").stdout_bytes


def below_something(house: NamespaceLab) -> Path | None:
    """Where something is mounted below a folder that can be lent."""
    text = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    for point in (Path(line.split()[4]) for line in text.splitlines()):
        mount = Mount(source=point.parent, target="/lent")
        with suppress(MountError, OSError):
            mount_check.check_mounts((mount,), (house.served.runtime, house.served.state, house.home))
            parent = point.parent.stat()
            # A folder that is mounted on itself shows the same with and without its mount.
            is_other = parent.st_dev != point.stat().st_dev
            if is_other and parent.st_mode & 0o005 == 0o005 and any(point.iterdir()):
                return point
    return None


def test_what_is_mounted_below_a_mount_is_not_seen(house: NamespaceLab) -> None:
    """Only what was named. Root leaves it behind, others have it covered."""
    point = below_something(house)
    if point is None:
        pytest.skip("nothing is mounted below a folder that could be lent")
    mounted = {(str(each.inode()), each.name) for each in os.scandir(point)}
    box = house.box("below", mounts=(Mount(source=point.parent, target="/lent"),))
    try:
        assert point.name in box.run("ls", "-A", "/lent").text.split()
        seen = box.run("ls", "-Ai", f"/lent/{point.name}").check().text.splitlines()
        # The folder below need not be empty, but nothing of what is mounted on it is there.
        assert not {tuple(line.split(maxsplit=1)) for line in seen} & mounted
    finally:
        house.runtime.remove("below")


def test_what_it_was_not_given_to_write_is_read_only(box: NamespaceLabSandbox) -> None:
    """Each mount by itself, whoever owns what is in it."""
    own = {"/workspace", "/tmp", "/var/tmp", "/home/sandbox", "/dev/shm", "/dev/pts", "/proc"}
    found = [line.split() for line in box.run("cat", "/proc/self/mounts").text.splitlines()]
    assert {each[1] for each in found if "rw" in each[3].split(",")} == own
    assert {"/", "/usr", "/dev", "/dev/null", "/etc/passwd", "/etc/egress", "/proc/sys"} <= {
        each[1] for each in found
    }
