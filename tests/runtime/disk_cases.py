"""What a bounded disk is, as cases that run against every runtime with real sandboxes.

A case is a function of a `Builder`, which makes sandboxes that run and takes them away at its end.
"""

from __future__ import annotations

import io
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

from egress.runtime.errors import SandboxStateError
from egress.runtime.protocol import Output, Runtime
from egress.runtime.spec import MIB, Command, ExecResult, Mount, SandboxLimits


class DiskSandbox(Protocol):
    def run(self, *words: str, **values: object) -> ExecResult: ...

    def sh(self, script: str, *words: str, **values: object) -> ExecResult: ...

    def get(self, path: str, *options: str) -> ExecResult: ...


class SandboxBuilder(Protocol):
    @property
    def runtime(self) -> Runtime: ...

    def box(self, name: str, **values: object) -> DiskSandbox: ...

    def taken(self) -> int:
        """Bytes that sandboxes take of the disk of this machine."""


Case = Callable[[SandboxBuilder], None]
CASES: list[Case] = []

_WRITABLE = r"""
import os
with open("/proc/self/mountinfo") as file:
    lines = [line.split() for line in file]
for words in lines:
    kind = words[words.index("-") + 1]
    whole = set(words[5].split(",")) | set(words[words.index("-") + 3].split(","))
    if "ro" not in whole:
        size = [each for each in whole if each.startswith("size=")]
        print(kind, words[4], *size)
"""
"""Every file system that is not mounted to be read alone: its kind, where it is, and its size."""


def case(function: Case) -> Case:
    CASES.append(function)
    return function


def full(box: DiskSandbox, path: str, mib: int) -> bytes:
    """Write more than there is room for; returns what was said."""
    result = box.sh('head -c "$1" /dev/zero >"$2"', str(mib * MIB), path)
    assert result.exit_code
    return result.stderr_bytes


def used(box: DiskSandbox, path: str) -> int:
    return int(box.run("stat", "-c", "%s", path).check().stdout_bytes)


@case
def writing_past_its_end_fails_and_nothing_grows_outside(house: SandboxBuilder) -> None:
    before = house.taken()
    box, other = (
        house.box("one", limits=SandboxLimits(disk_mib=8)),
        house.box("two", limits=SandboxLimits(disk_mib=8)),
    )
    assert b"No space left" in full(box, "/workspace/big", 40)
    assert used(box, "/workspace/big") <= 8 * MIB
    assert house.taken() - before < MIB
    # The other one has its own.
    other.sh("head -c 4000000 /dev/zero >/workspace/some").check()
    box.sh("rm big && echo x >small && cat small").check()


@case
def all_of_it_can_be_used_besides_the_memory(house: SandboxBuilder) -> None:
    """Files are counted as memory, and take nothing of what was promised to programs."""
    box = house.box("one", limits=SandboxLimits(memory_mib=32, disk_mib=96))
    box.sh('head -c "$1" /dev/zero >whole', str(96 * MIB)).check()
    held = box.run("python3", "-c", "x = bytearray(12_000_000); print(len(x))")
    assert (held.exit_code, held.stdout_bytes) == (0, b"12000000\n")
    assert used(box, "/workspace/whole") == 96 * MIB


@case
def files_of_nothing_are_bounded_too(house: SandboxBuilder) -> None:
    box = house.box("one", limits=SandboxLimits(memory_mib=32, disk_mib=4))
    script = 'i=0; while [ $i -lt 2000 ]; do true >"$i" || break; i=$((i+1)); done; ls | wc -l'
    result = box.sh(script)
    assert b"No space left" in result.stderr_bytes
    assert 900 < int(result.stdout_bytes) <= 1024


_LISTED = r"""
import os, struct, sys
entries = [(1, 7, -1), *[(2, 7, os.getuid())] * 8000, *[(each, 7, -1) for each in (4, 16, 32)]]
whole = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *each) for each in entries)
made = 0
try:
    for number in range(3000):
        open(f"{sys.argv[1]}/{number}", "w").close()
        os.setxattr(f"{sys.argv[1]}/{number}", "system.posix_acl_access", whole)
        made += 1
except OSError as error:
    print(made, error.strerror)
"""
"""Makes access control lists, as many as there can be: each is memory of the kernel that no group counts."""


def lists(box: DiskSandbox, place: str) -> tuple[int, str]:
    """How many could be made, and what there was against more."""
    made, _, reason = box.run("python3", "-c", _LISTED, place).text.strip().partition(" ")
    return int(made), reason


@case
def nothing_else_can_be_written(house: SandboxBuilder) -> None:
    """Whoever its user is: what is not read-only is of memory, and has a size."""
    for name, user in (("one", 1000), ("two", 0)):
        box = house.box(name, user=user, group=user, limits=SandboxLimits(disk_mib=8, temporary_mib=3))
        for line in box.run("python3", "-c", _WRITABLE).check().text.splitlines():
            kind, place, *size = line.split()
            assert kind in ("tmpfs", "proc", "sysfs", "devpts", "mqueue", "cgroup", "cgroup2"), line
            # An engine leaves this one to whoever is root there, and its content counts as memory.
            assert size or kind != "tmpfs" or place == "/sys/fs/cgroup", line
        for place in ("/etc/x", "/usr/x", "/x", "/var/x", "/opt/x"):
            assert box.sh('echo x >"$1"', place).exit_code, place
        assert b"No space left" in full(box, "/tmp/x", 20)
        assert used(box, "/tmp/x") <= 3 * MIB


@case
def a_sandbox_with_a_full_disk_goes_on(house: SandboxBuilder) -> None:
    box, came = house.box("one", limits=SandboxLimits(disk_mib=2, temporary_mib=1)), threading.Event()
    full(box, "/workspace/a", 9)
    full(box, "/tmp/a", 9)
    assert box.sh("echo out; echo err >&2; exit 3").exit_code == 3
    assert box.sh("sleep 60", timeout=0.3).timed_out
    command = Command(argv=("/bin/sh", "-c", "echo on; sleep 300"))
    process = house.runtime.spawn("one", command, Output(stdout=lambda _: came.set()))
    assert came.wait(30)
    process.kill(0)
    assert process.wait(30).exit_code in (137, 143)
    with house.runtime.get("one", "/workspace") as file, tarfile.open(fileobj=file) as tar:
        assert tar.getmember("a").size == 2 * MIB
    house.runtime.stop("one")
    house.runtime.start("one")
    assert box.sh("ls -A").stdout_bytes == b""


@case
def what_is_taken_away_makes_room_when_nobody_has_it_open(house: SandboxBuilder) -> None:
    box = house.box("one", limits=SandboxLimits(disk_mib=4))
    for _ in range(3):
        box.sh("head -c 4000000 /dev/zero >a && rm a").check()
    held = box.sh("head -c 4000000 /dev/zero >a; exec 3<a; rm a; head -c 4000000 /dev/zero >b")
    assert b"No space left" in held.stderr_bytes
    box.sh("head -c 4000000 /dev/zero >b").check()


@case
def its_home_is_a_part_of_it(house: SandboxBuilder) -> None:
    box = house.box("one", limits=SandboxLimits(disk_mib=4))
    box.sh("mkdir -p ~/.cache && echo x >~/.cache/a && head -c 3000000 /dev/zero >~/b").check()
    assert b"No space left" in full(box, "/workspace/c", 3)
    closed = house.box("two", read_only=True, limits=SandboxLimits(disk_mib=4))
    assert closed.sh("echo x >/workspace/a && echo x >/home/sandbox/a").exit_code


@case
def what_it_asks_for_goes_on_when_nothing_can_be_kept(house: SandboxBuilder) -> None:
    """The proxy has no part in it, nor have its neighbours."""
    box, other = house.box("one", limits=SandboxLimits(disk_mib=1, temporary_mib=1)), house.box("two")
    for path in ("/workspace/a", "/tmp/a"):
        full(box, path, 3)
    failed = box.get("/x", "-o", "/workspace/b")
    assert failed.exit_code == 23, failed.stderr_bytes
    for each in (box, other):
        assert each.get("/x").stdout_bytes == b"hello from outside\n"


@case
def an_archive_that_does_not_fit_is_told(house: SandboxBuilder) -> None:
    box, out = house.box("one", limits=SandboxLimits(disk_mib=1)), io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        entry = tarfile.TarInfo("large")
        entry.size = 3_000_000
        tar.addfile(entry, io.BytesIO(bytes(entry.size)))
    out.seek(0)
    with pytest.raises(SandboxStateError, match="was not completely unpacked"):
        house.runtime.put("one", "/workspace", out)
    assert box.sh("rm large; echo x >a && cat a").stdout_bytes == b"x\n"


@case
def it_outlives_a_pause_and_not_a_stop(house: SandboxBuilder) -> None:
    box = house.box("one", limits=SandboxLimits(disk_mib=2))
    box.sh("echo kept >a; echo kept >/tmp/a").check()
    house.runtime.pause("one")
    house.runtime.resume("one")
    assert box.sh("cat a /tmp/a").stdout_bytes == b"kept\nkept\n"
    for _ in range(2):
        house.runtime.stop("one")
        house.runtime.start("one")
        assert box.sh("ls -A /workspace; ls -A /tmp").stdout_bytes == b""
        box.sh("echo again >a && stat -c '%u %g %a' . && cat a").check()


@case
def programs_run_from_it_and_it_is_its_users(house: SandboxBuilder) -> None:
    box = house.box("one", user=1234, group=2345, limits=SandboxLimits(disk_mib=2))
    assert box.sh("stat -c '%u %g %a' /workspace").stdout_bytes == b"1234 2345 755\n"
    script = 'printf \'#!/bin/sh\\necho ran\\n\' >"$1" && chmod +x "$1" && "$1"'
    for place in ("/workspace/run", "/tmp/run"):
        assert box.sh(script, place).stdout_bytes == b"ran\n"
    assert b"nosuid,nodev" in box.sh("grep ' /workspace ' /proc/mounts").stdout_bytes


def what_is_mounted_in_it_stays(house: SandboxBuilder, folder: Path) -> None:
    """Also deep in it, and after a stop, when its place is another one."""
    (folder / "given").mkdir()
    (folder / "given").chmod(0o777)
    (folder / "a").write_text("from the host")
    mounts = (
        Mount(source=folder / "a", target="/workspace/one/two/a"),
        Mount(source=folder / "given", target="/workspace/given", writable=True),
    )
    box = house.box("one", limits=SandboxLimits(disk_mib=2), mounts=mounts)
    for turn in ("1", "2"):
        assert box.run("cat", "/workspace/one/two/a").stdout_bytes == b"from the host"
        assert b"Read-only" in box.sh("echo x >/workspace/one/two/a").stderr_bytes
        box.sh('echo "$1" >given/b', turn).check()
        assert (folder / "given" / "b").read_text() == f"{turn}\n"
        assert b"No space left" in full(box, "/workspace/own", 4)
        house.runtime.stop("one")
        house.runtime.start("one")


def what_stands_in_the_place_of_its_own_folders_stays(house: SandboxBuilder, folder: Path) -> None:
    """Nothing is written to the machine's disk besides, and a home is there all the same."""
    for name in ("work", "temporary"):
        (folder / name).mkdir()
        (folder / name).chmod(0o777)
    mounts = (
        Mount(source=folder / "work", target="/workspace", writable=True),
        Mount(source=folder / "temporary", target="/tmp", writable=True),
    )
    for name, read_only in (("one", False), ("two", True)):
        box = house.box(name, limits=SandboxLimits(disk_mib=2), mounts=mounts, read_only=read_only)
        for _ in range(2):
            box.sh('echo "$1" >/workspace/"$1" && echo "$1" >/tmp/"$1"', name).check()
            assert (folder / "work" / name).read_text() == (folder / "temporary" / name).read_text()
            if read_only:
                assert box.sh("echo x >~/a").exit_code
            else:
                assert b"No space left" in full(box, "/home/sandbox/a", 4)
                box.sh("rm ~/a && echo x >~/b").check()
            house.runtime.stop(name)
            house.runtime.start(name)
