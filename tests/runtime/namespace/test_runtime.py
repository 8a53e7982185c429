"""The runtime of namespaces: it keeps every promise, bounds what it should, and leaves nothing behind."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from egress.runtime.errors import (
    GatewayError,
    ImageMissingError,
    MountError,
    SandboxDiedError,
    UnsupportedError,
)
from egress.runtime.namespace import cgroups, reaper
from egress.runtime.namespace.runtime import NamespaceRuntime
from egress.runtime.protocol import Output, Runtime, RuntimeProcess
from egress.runtime.proxy_client import ControlProxyClient
from egress.runtime.spec import Command, Mount, SandboxLimits, Spec, Terminal
from tests.proxy.serve_process import until
from tests.runtime.contract import Walled
from tests.runtime.namespace.namespace_lab import NamespaceLab
from tests.unit.runtime.contract import CASES, Case, RuntimeBench

_OWNER = """
import sys
from pathlib import Path
from egress.runtime.proxy_client import ControlProxyClient
from egress.runtime.namespace.runtime import NamespaceRuntime
from egress.runtime.spec import Command, Spec
runtime = NamespaceRuntime(ControlProxyClient(Path(sys.argv[1])), Path(sys.argv[2]))
runtime.create(Spec(name="left", image="host"))
runtime.start("left")
runtime.spawn("left", Command(argv=("/bin/sleep", sys.argv[4])))
runtime.exec("left", Command(argv=("/bin/sh", "-c", "mkdir -p a/b; echo x > a/b/c; chmod 0 a")))
if sys.argv[3] == "paused":
    runtime.pause("left")
print("ready", flush=True)
sys.stdin.read()
"""


class Spaced:
    def __init__(self, house: NamespaceLab) -> None:
        self._house = house
        self.runtime: Runtime = house.runtime

    def spec(self, name: str, **values: object) -> Spec:
        return self._house.spec(name, **values)


def processes(*marks: str) -> list[str]:
    """What runs on this machine with all of these among its arguments."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            text = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if all(mark in text for mark in marks):
            found.append(text)
    return found


def begun(house: NamespaceLab, *words: str, **values: object) -> RuntimeProcess:
    """A command that has written something."""
    is_there = threading.Event()
    command = Command(argv=words, **values)  # type: ignore[arg-type]
    process = house.runtime.spawn("one", command, Output(stdout=lambda _: is_there.set()))
    assert is_there.wait(30)
    return process


@pytest.fixture
def bench(house: NamespaceLab, monkeypatch: pytest.MonkeyPatch) -> Iterator[RuntimeBench]:
    made, make = [], cgroups.make

    def noted(
        name: str, limits: SandboxLimits, found: Iterable[cgroups.CgroupHierarchy]
    ) -> cgroups.ControlGroups:
        made.append(make(name, limits, found))
        return made[-1]

    monkeypatch.setattr(cgroups, "make", noted)
    yield Spaced(house)
    for info in house.runtime.list():
        house.runtime.remove(info.name)
    assert not [folder for each in made for folder in each.folders if folder.exists()]
    assert [each.name for each in house.home.iterdir()] == [house.runtime._lease.path.name]
    _, status = house.served.ask("GET", "/status")
    assert [each["name"] for each in status["sandboxes"]] == ["default"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("promise", CASES, ids=lambda case: case.__name__)
def test_a_promise_is_kept_and_nothing_is_left(promise: Case, bench: RuntimeBench) -> None:
    promise(bench)


class TestWalled(Walled):
    """What it has in common with the other kind."""


# Bounds ---------------------------------------------------------------------------------------------


def test_the_programs_of_the_machine_can_never_be_written(house: NamespaceLab, bench: RuntimeBench) -> None:
    box = house.box("one", user=0, group=0)
    for place in ("/usr/bin/x", "/etc/x", "/etc/passwd", "/dev/x", "/x", "/run/x", "/usr/local/etc/x"):
        assert box.sh('echo x > "$1"', place).exit_code, place
    for place in ("/home/sandbox/x", "/tmp/x", "/var/tmp/x", "/workspace/x", "/dev/shm/x", "/dev/null"):
        assert box.sh('echo x > "$1"', place).exit_code == 0, place
    assert box.run("id", "-un").text == "sandbox\n"


def test_processor_time_is_bounded_or_the_runtime_says_that_it_is_not(
    house: NamespaceLab, bench: RuntimeBench
) -> None:
    house.box("one", limits=SandboxLimits(cpus=0.5))
    folders = house.runtime._register.get("one").groups.folders
    is_bounded = any(
        (folder / name).exists() and "50000" in (folder / name).read_text()
        for folder in folders
        for name in ("cpu.max", "cpu.cfs_quota_us")
    )
    assert is_bounded != any("CPU time" in each for each in house.runtime.cautions)


def test_a_mount_is_seen_and_written_as_it_was_named(
    house: NamespaceLab, bench: RuntimeBench, tmp_path: Path
) -> None:
    shown, given = tmp_path / "shown", tmp_path / "given"
    for folder in (shown, given):
        folder.mkdir()
        folder.chmod(0o777)
    (shown / "a").write_text("from the host")
    mounts = (
        Mount(source=shown, target="/shown"),
        Mount(source=given, target="/given", writable=True),
        Mount(source=shown / "a", target="/usr/share/new/file"),
        Mount(source=shown, target="/workspace/in/it"),
    )
    box = house.box("one", mounts=mounts)
    assert box.run("cat", "/shown/a", "/usr/share/new/file", "/workspace/in/it/a").text == "from the host" * 3
    assert box.run("ls", "/usr/share/zoneinfo/Etc/UTC").exit_code == 0
    for place in ("/shown/b", "/workspace/in/it/b", "/usr/share/new/other"):
        assert box.sh('echo x > "$1"', place).exit_code
    assert box.sh("echo x > /given/b").exit_code == 0
    assert (given / "b").read_text() == "x\n"


def test_what_is_no_image_is_refused_before_anything_is_made(
    house: NamespaceLab, bench: RuntimeBench
) -> None:
    """S-49, S-51: sockets of engines, and the folders of the proxy, as images."""
    for image, error in (("/", MountError), ("/proc", ImageMissingError), ("debian:12", ImageMissingError)):
        with pytest.raises(error):
            house.runtime.create(house.spec("one", image=image))
    assert house.runtime.list() == ()


def test_a_root_folder_is_an_image(house: NamespaceLab, bench: RuntimeBench, tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("bin", "usr/share", "etc/ssl", "tmp", "var/lib"):
        (root / name).mkdir(parents=True)
    (root / "etc/passwd").write_text("somebody:x:1000:1000::/:/bin/sh\n")
    (root / "tmp/left").touch()
    busy = shutil.which("busybox")
    if busy is None:
        for name in ("lib", "lib64"):
            (root / name).symlink_to(f"/usr/{name}")
        names = ("sh", "cat", "ls", "id")
        for name in names:
            shutil.copy(shutil.which(name) or "", root / "bin" / name)
        for library in _libraries([shutil.which(name) or "" for name in names]):
            target = root / ("usr" + library.removeprefix("/usr"))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, target)
    else:
        shutil.copy(busy, root / "bin/busybox")
        for name in ("sh", "cat", "ls", "id"):
            (root / "bin" / name).symlink_to("busybox")
    tmp_path.chmod(0o755)
    box = house.box("one", image=str(root))
    assert box.run("cat", "/etc/passwd").text.startswith("somebody")
    assert box.run("cat", "/etc/resolv.conf").text.startswith("nameserver 198.18.0.2")
    assert box.run("cat", "/etc/ssl/certs/ca-certificates.crt").stdout_bytes.count(b"BEGIN CERTIFICATE") > 50
    assert box.run("ls", "/tmp").stdout_bytes == b""
    assert box.run("/bin/sh", "-c", "echo x > /etc/x").exit_code
    assert box.run("python3").exit_code == 127
    with pytest.raises(UnsupportedError, match="no tar"):
        house.runtime.put("one", "/workspace", _empty_archive())


def _libraries(programs: list[str]) -> set[str]:
    text = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=True).stdout
    words = [word for line in text.splitlines() for word in line.split() if word.startswith("/")]
    return {str(Path(word).parent.resolve() / Path(word).name) for word in words if not word.endswith(":")}


def _empty_archive() -> io.BytesIO:
    return io.BytesIO(bytes(10240))


# Commands -------------------------------------------------------------------------------------------


def test_a_command_begins_without_the_signals_of_others(house: NamespaceLab, bench: RuntimeBench) -> None:
    box = house.box("one")
    text = box.run("cat", "/proc/self/status").text
    status = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    # 32 and 33 belong to the C library, which lets nobody set them.
    assert int(status["SigIgn"], 16) & ~0x180000000 == 0
    assert int(status["SigBlk"], 16) == 0
    assert box.sh("ls /proc/self/fd").text.split() == ["0", "1", "2", "3"]


def test_much_output_comes_whole(house: NamespaceLab, bench: RuntimeBench) -> None:
    box = house.box("one")
    result = box.sh("head -c 5000000 /dev/zero; head -c 3000000 /dev/zero >&2")
    assert (len(result.stdout_bytes), len(result.stderr_bytes)) == (5_000_000, 3_000_000)


def test_what_a_command_ended_with_is_told(house: NamespaceLab, bench: RuntimeBench) -> None:
    box = house.box("one")
    assert box.sh("kill -SEGV $$").exit_code == 139
    assert box.run("/etc/passwd").exit_code == 126
    assert box.sh("printf 'echo $0 $1' > script; chmod +x script").exit_code == 0
    assert box.run("./script", "a").text == "./script a\n"
    process = begun(house, "/bin/sh", "-c", "trap '' TERM; echo ready; sleep 300; sleep 300")
    process.kill(0.1)
    assert process.wait(30).exit_code == 137


def test_a_command_that_is_traced_is_one_like_any_other(house: NamespaceLab, bench: RuntimeBench) -> None:
    """It stops at its first program, as under a debugger that never goes on; others run, and it can end."""
    code = "import ctypes, os; ctypes.CDLL(None).ptrace(0, 0, 0, 0); os.execv('/bin/true', ['true'])"
    box = house.box("one")
    process = house.runtime.spawn("one", Command(argv=("python3", "-c", f"print(flush=True); {code}")))
    while "t (tracing stop)" not in box.sh("grep -h State: /proc/[0-9]*/status").text:
        time.sleep(0.01)
    assert box.sh("echo as before").text == "as before\n"
    process.kill(0.1)
    assert process.wait(30).exit_code == 137


def test_a_program_that_a_terminal_cannot_run_is_named(house: NamespaceLab, bench: RuntimeBench) -> None:
    house.box("one")
    process = house.runtime.spawn("one", Command(argv=("no-such-program",), terminal=Terminal()))
    result = process.wait(30)
    assert (result.exit_code, result.stdout) == (127, "command not found: no-such-program\r\n")


def test_a_command_in_a_terminal_has_one(house: NamespaceLab, bench: RuntimeBench) -> None:
    house.box("one")
    command = Command(
        argv=("sh", "-c", "tty; read x; stty size; echo $x; echo $TERM; : > /dev/tty && : > $(tty)"),
        terminal=Terminal(columns=111, rows=33),
    )
    process = house.runtime.spawn("one", command)
    process.resize(Terminal(columns=99, rows=22))
    process.write(b"typed\n")
    result = process.wait(30)
    assert b"/dev/pts/" in result.stdout_bytes
    assert b"22 99" in result.stdout_bytes
    assert result.stdout_bytes.endswith(b"typed\r\nxterm-256color\r\n")
    assert result.exit_code == 0


def test_what_is_in_a_terminal_ends_by_the_end_of_input_and_when_it_is_killed(
    house: NamespaceLab, bench: RuntimeBench
) -> None:
    house.box("one")
    cat = house.runtime.spawn("one", Command(argv=("cat",), terminal=Terminal()))
    cat.write(b"typed\n")
    cat.close_input()
    result = cat.wait(30)
    assert (result.exit_code, result.stdout_bytes) == (0, b"typed\r\ntyped\r\n")
    shell = begun(house, "bash", "-i", terminal=Terminal())
    shell.kill()
    assert shell.wait(30).exit_code in (137, 143)


def test_a_job_in_a_terminal_does_not_notice_a_pause(house: NamespaceLab, bench: RuntimeBench) -> None:
    box = house.box("one")
    if not house.runtime._register.get("one").can_freeze:
        pytest.skip("needs a control group that is writable")
    shell = house.runtime.spawn("one", Command(argv=("bash", "-i"), terminal=Terminal()))
    shell.write(b"sleep 1; echo do''ne\n")
    until(lambda: b"sleep\0001\0" in box.sh("cat /proc/[0-9]*/cmdline").stdout_bytes, "the job to begin")
    house.runtime.pause("one")
    house.runtime.resume("one")
    shell.write(b"exit\n")
    result = shell.wait(30)
    assert b"done" in result.stdout_bytes
    assert b"Stopped" not in result.stdout_bytes


def test_nothing_goes_on_while_it_is_paused(house: NamespaceLab, bench: RuntimeBench) -> None:
    house.box("one")
    told: list[bytes] = []
    loop = "while :; do echo x; sleep 0.01; done"
    process = house.runtime.spawn("one", Command(argv=("sh", "-c", loop)), Output(stdout=told.append))
    until(lambda: told, "output")
    house.runtime.pause("one")
    with pytest.raises(TimeoutError):
        process.wait(0.2)
    before = len(told)
    with pytest.raises(TimeoutError):
        process.wait(0.3)
    assert len(told) == before
    house.runtime.resume("one")
    until(lambda: len(told) > before, "more output")
    process.kill(0)
    process.wait(30)


def test_what_comes_all_at_once_holds_nothing_up(house: NamespaceLab, bench: RuntimeBench) -> None:
    """A command has ended, is asked to end, and another is to begin, before the first process can look."""
    house.box("one")
    first = house.runtime._register.get("one").launcher.first
    process = begun(house, "sh", "-c", "echo ready; read x")
    children = Path(f"/proc/{first}/task/{first}/children")
    (number,) = children.read_text().split()
    os.kill(first, signal.SIGSTOP)
    try:
        process.close_input()
        state = Path(f"/proc/{number}/stat")
        until(lambda: state.read_text().rpartition(") ")[2].startswith("Z"), "the command to end")
        process.kill()
        others = [house.runtime.spawn("one", Command(argv=("echo", "still"))) for _ in range(3)]
    finally:
        os.kill(first, signal.SIGCONT)
    for other in others:
        other.close_input()
        assert other.wait(30).stdout_bytes == b"still\n"
    assert process.wait(30).exit_code == 1


# Beginning and end ----------------------------------------------------------------------------------


def test_a_first_process_that_ends_is_noticed(house: NamespaceLab, bench: RuntimeBench) -> None:
    house.box("one")
    space = house.runtime._register.get("one").launcher
    process = house.runtime.spawn("one", Command(argv=("sleep", "300")))
    with house.runtime.events() as events:
        assert space.first > 1
        os.kill(space.first, 9)
        with pytest.raises(SandboxDiedError):
            process.wait(30)
        assert next(events).kind == "died"
    assert house.runtime.info("one").state == "stopped"
    with pytest.raises(SandboxDiedError):
        house.runtime.exec("one", Command(argv=("true",)))
    house.runtime.start("one")
    assert house.runtime.exec("one", Command(argv=("true",))).exit_code == 0


def test_a_launcher_that_ends_takes_all_along(house: NamespaceLab, bench: RuntimeBench) -> None:
    house.box("one")
    mark = f"4712.{os.getpid()}"
    process = house.runtime.spawn("one", Command(argv=("/bin/sleep", mark)))
    os.kill(house.runtime._register.get("one").launcher.pid, 9)
    with pytest.raises(SandboxDiedError):
        process.wait(30)
    until(lambda: house.runtime.info("one").state == "stopped", "the end to be noticed")
    until(lambda: not processes("/bin/sleep", mark), "its commands to end")
    with pytest.raises(SandboxDiedError):
        house.runtime.start("one")


def test_no_runtime_begins_without_a_proxy(namespaces: None, tmp_path: Path) -> None:
    with pytest.raises(GatewayError, match="no proxy is running") as caught:
        NamespaceRuntime(ControlProxyClient(tmp_path / "nobody"), tmp_path / "home")
    assert "egress serve --handover" in caught.value.hint
    assert list((tmp_path / "home").iterdir()) == []


@pytest.mark.parametrize("state", ["running", "paused"])
def test_nothing_runs_when_its_owner_was_killed_and_the_rest_is_swept(
    own_house: NamespaceLab, state: str
) -> None:
    home = own_house.home.with_name("other")
    # Others may run the same test.
    mark = f"4711.{os.getpid()}"
    words = [sys.executable, "-c", _OWNER, str(own_house.served.runtime), str(home), state, mark]
    root = Path(__file__).parents[3]
    owner = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root)
    assert owner.stdin is not None
    assert owner.stdout is not None
    with owner.stdin, owner.stdout:
        assert owner.stdout.readline() == b"ready\n"
        assert processes("/bin/sleep", mark)
        owner.kill()
        owner.wait()
    until(lambda: not processes("/bin/sleep", mark), "its commands to end")
    until(lambda: not processes("namespace.inside.launch", str(home)), "its launcher to end")
    assert reaper.reap(home.resolve(), ControlProxyClient(own_house.served.runtime)) == ("left",)
    assert list(home.iterdir()) == []
    _, status = own_house.served.ask("GET", "/status")
    assert [each["name"] for each in status["sandboxes"]] == ["default"]  # type: ignore[attr-defined]
