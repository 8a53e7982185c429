"""The supervisor of commands, in the shells that images have: without an engine, in sessions of their own."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from egress.runtime.proc_scripts import with_proc
from tests.proxy.serve_process import until
from tests.runtime.script import supervisor

SHELLS = [["sh"], ["dash"], ["bash", "--posix"], ["busybox", "sh"], ["mksh"]]
HERE = [words for words in SHELLS if shutil.which(words[0])]
TURNS = "200"
"""Ten seconds, for machines that have more to do. What ends at once takes none of them."""


@pytest.fixture(params=HERE, ids=" ".join)
def shell(request: pytest.FixtureRequest) -> list[str]:
    """What is here of them; `sh` always is."""
    words: list[str] = request.param
    return words


@pytest.fixture(params=["setsid", "without setsid"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where programs are looked for: with `setsid`, and in an image that has none."""
    if request.param == "setsid":
        return os.defpath
    for name in ("sleep", "cat", "sh", "env"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    return str(tmp_path)


def begun(shell: list[str], *words: str, path: str = os.defpath, **env: str) -> subprocess.Popen[bytes]:
    program = str(shutil.which(shell[0]))
    return subprocess.Popen(
        [program, *shell[1:], str(supervisor()), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={"PATH": path, "HOME": "/", **env},
    )


def run(
    shell: list[str],
    *command: str,
    seconds: str = "0",
    folder: str = "/",
    data: bytes = b"",
    path: str = os.defpath,
) -> tuple[int, bytes, bytes]:
    with begun(shell, "run", "tok", seconds, TURNS, folder, *command, path=path) as process:
        out, err = process.communicate(data, timeout=60)
        return process.returncode, out, err


def processes() -> Iterator[tuple[int, bytes]]:
    """The groups and the arguments of all that run."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, _, group, *_ = (folder / "stat").read_text().rpartition(")")[2].split()
            if state != "Z":
                yield int(group), (folder / "cmdline").read_bytes()


def test_the_report_stands_behind_both_outputs_before_they_are_closed(shell: list[str]) -> None:
    """What the command left behind holds its outputs for ever, and the report comes nevertheless."""
    script = "sleep 300 & echo out; echo err >&2; echo ${egress_report-none}; exit 7"
    words = ("run", "tok", "0", TURNS, "/", "sh", "-c", script)
    with begun(shell, *words, egress_report="1") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert [process.stdout.readline() for _ in range(3)] == [b"out\n", b"none\n", b"tok: ended 7\n"]
        assert [process.stderr.readline() for _ in range(2)] == [b"err\n", b"tok: ended 7\n"]
        assert process.wait(30) == 7
        os.killpg(process.pid, signal.SIGKILL)


def alive(group: int) -> bool:
    return group in (each for each, _ in processes())


def signals(status: bytes) -> list[bytes]:
    """What a process ignores, and what it holds back."""
    return [line for line in status.splitlines() if line.startswith((b"SigIgn", b"SigBlk"))]


def test_status_and_streams_are_those_of_the_command(shell: list[str], path: str) -> None:
    script = 'cat; echo out; echo err >&2; exit "$1"'
    for seconds in ("0", "60"):
        found = run(shell, "sh", "-c", script, "sh", "7", data=b"in\n", seconds=seconds, path=path)
        assert found == (7, b"in\nout\n", b"err\n")
    assert run(shell, "no-such-program", path=path) == (127, b"", b"command not found: no-such-program\n")


def test_a_program_is_looked_up_as_the_shell_does_it(shell: list[str], tmp_path: Path) -> None:
    """First of all what is no program in a folder, then what is one in the next."""
    for name, mode in (("first", 0o644), ("second", 0o755)):
        (tmp_path / name).mkdir()
        put_program(tmp_path / name / "tool", f"#!/bin/sh\necho {name}\n", mode)
    path = f"{tmp_path}/first:{tmp_path}/second:{os.defpath}"
    assert run(shell, "tool", path=path) == (0, b"second\n", b"")
    assert run(shell, "tool", path=f"{tmp_path}/first") == (126, b"", b"command cannot be run: tool\n")
    # An empty part of the path is the working folder.
    assert run(shell, "tool", path=":/nowhere", folder=f"{tmp_path}/second") == (0, b"second\n", b"")
    assert run(shell, "./tool", folder=f"{tmp_path}/first")[0] == 126
    assert run(shell, "./tool", folder="/") == (127, b"", b"command not found: ./tool\n")
    # A folder is no program, and the functions of the supervisor are none either.
    assert run(shell, str(tmp_path))[0] == 126
    assert run(shell, "end_group") == (127, b"", b"command not found: end_group\n")


def put_program(path: Path, text: str, mode: int) -> None:
    path.write_text(text)
    path.chmod(mode)


def test_words_are_words(shell: list[str]) -> None:
    words = ("a b", "$HOME", "*", "'\"", "-n", "", "a\nb", "supervisor.shruntok")
    assert run(shell, "printf", "%s|", *words)[1] == "".join(f"{word}|" for word in words).encode()


def test_it_begins_in_its_folder_and_has_a_home(shell: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    assert run(shell, "pwd", folder=str(folder))[1] == f"{folder}\n".encode()
    assert run(shell, "env", folder=str(folder))[1].count(b"HOME=/tmp\n") == 1
    assert run(shell, "pwd", folder="/nowhere") == (125, b"", b"tok: no such folder\n")
    assert run(shell, "pwd", folder="-L")[0] == 125


def test_a_command_that_dies_by_itself_says_how_and_nothing_more(shell: list[str]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        found = run(shell, "sh", "-c", f"kill -{number:d} $$", seconds="60")
        assert found == (128 + number, b"", b"")


def test_signals_are_as_they_always_are(shell: list[str]) -> None:
    usual = signals(subprocess.run(["cat", "/proc/self/status"], capture_output=True, check=True).stdout)
    for seconds in ("0", "60"):
        assert signals(run(shell, "cat", "/proc/self/status", seconds=seconds)[1]) == usual


def test_time_that_is_over_ends_it_politely(shell: list[str], path: str) -> None:
    script = "trap 'echo cleaned; exit 0' TERM; echo ready; sleep 300 & wait"
    assert run(shell, "sh", "-c", script, seconds="1.5", path=path) == (124, b"ready\ncleaned\n", b"")


def test_what_does_not_listen_is_killed_with_its_children(shell: list[str], path: str) -> None:
    script = "trap '' TERM; (trap '' TERM; exec sleep 300) & exec sleep 300"
    began = time.monotonic()
    with begun(shell, "run", "tok", "0.3", "4", "/", "sh", "-c", script, path=path) as process:
        process.communicate(timeout=60)
    assert process.returncode in (124, -signal.SIGKILL)
    assert time.monotonic() - began >= 0.3
    until(lambda: not alive(process.pid), "all of them to be gone")


DISGUISED = """
import signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open("/proc/self/comm", "w").write(sys.argv[1])
signal.pause()
"""


@pytest.mark.parametrize("name", ["a\nb", ") Z 1 1", "a\n) Z 1\n", "a b (c"])
def test_no_name_hides_a_process_that_does_not_listen(shell: list[str], name: str) -> None:
    """The kernel shows the name of a process as it is, line ends and brackets too."""
    words = ("sh", "-c", '"$@" & exec sleep 300', "sh", sys.executable, "-c", DISGUISED, name)
    with begun(shell, "run", "tok", "1", "4", "/", *words) as process:
        process.communicate(timeout=60)
    assert process.returncode in (124, -signal.SIGKILL)
    until(lambda: not alive(process.pid), "all of them to be gone")


def asked(shell: list[str], tmp_path: Path, text: str, *words: str) -> str:
    (tmp_path / "text.sh").write_text(text)
    words = (*shell, "-c", with_proc(tmp_path / "text.sh"), "sh", *words)
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", ["plain", "a\nb", ") Z 1 1", "a\n) Z 1\n"])
def test_a_process_is_known_by_state_parent_group_and_beginning(
    shell: list[str], tmp_path: Path, name: str
) -> None:
    with subprocess.Popen([sys.executable, "-c", DISGUISED, name], start_new_session=True) as process:
        comm = Path(f"/proc/{process.pid}/comm")
        until(lambda: comm.read_text() == f"{name[:15]}\n", "its name")
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        text = 'stat_of "$1" && echo "$state $parent $group $began"; words_of "$1"; echo "$words"'
        said = asked(shell, tmp_path, text, str(process.pid))
        found = 'found() { [ "$group" = "$it" ] && echo "$1 $parent"; }; it=$1; each_process; echo $?'
        walked = asked(shell, tmp_path, found, str(process.pid))
        process.kill()
    assert said.splitlines()[0] == f"{fields[0]} {os.getpid()} {process.pid} {fields[19]}"
    assert said.splitlines()[1].startswith(f"{sys.executable}-c")
    assert walked == f"{process.pid} {os.getpid()}\n0\n"


def test_what_is_gone_and_a_zombie_are_no_processes(shell: list[str], tmp_path: Path) -> None:
    process = subprocess.Popen(["true"])
    until(lambda: " Z " in Path(f"/proc/{process.pid}/stat").read_text(), "its end")
    text = 'stat_of "$1"; echo $?; words_of "$1"; echo "$words."'
    assert asked(shell, tmp_path, text, str(process.pid)) == "1\n.\n"
    process.wait()
    assert asked(shell, tmp_path, text, str(process.pid)) == "1\n.\n"


def test_children_that_outlive_their_parent_have_their_time(shell: list[str]) -> None:
    script = "(trap 'sleep 0.2; echo cleaned; exit' TERM; sleep 300 & wait) & exec sleep 300"
    status, out, _ = run(shell, "sh", "-c", script, seconds="1.5")
    assert (status, out) == (124, b"cleaned\n")


def test_nothing_is_left_of_a_clock_that_was_not_needed(shell: list[str], path: str) -> None:
    """The moment at which it begins is the one at which it is ended, again and again."""
    seconds = str(90_000 + os.getpid() % 10_000)
    for _ in range(20):
        assert run(shell, "sh", "-c", ":", seconds=seconds, path=path)[0] == 0
    sleeping = f"sleep\0{seconds}\0".encode()
    until(lambda: sleeping not in (words for _, words in processes()), "its clocks to end")


def test_it_is_ended_by_its_token_and_no_other(shell: list[str], path: str) -> None:
    with (
        begun(shell, "run", "mine", "0", TURNS, "/", "sleep", "300", path=path) as mine,
        begun(shell, "run", "other", "0", TURNS, "/", "sleep", "300", path=path) as other,
    ):
        until(lambda: alive(mine.pid) and alive(other.pid))
        time.sleep(0.1)
        with begun(shell, "end", path=path, TOKEN="mine", TURNS="4") as ending:
            ending.communicate(timeout=60)
        assert ending.returncode == 0
        mine.communicate(timeout=60)
        assert mine.returncode in (143, -signal.SIGKILL)
        assert other.poll() is None
        os.killpg(other.pid, signal.SIGKILL)
        other.communicate()


def test_ending_what_is_not_there_is_nothing(shell: list[str]) -> None:
    with begun(shell, "end", TOKEN="nobody", TURNS="4") as ending:
        assert ending.communicate(timeout=60) == (b"", b"")
    assert ending.returncode == 1


def test_a_terminal_has_its_size_before_the_command_can_ask(shell: list[str], tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    program = str(shutil.which(shell[0]))
    words = [program, *shell[1:], str(supervisor()), "terminal", "tok", "33", "111", "/"]
    try:
        asked = [*words, "stty", "size"]
        done = subprocess.run(asked, stdin=theirs, capture_output=True, timeout=60, check=False)
        assert (done.stdout, done.stderr) == (b"33 111\n", b"")
        # An image without `stty` does without.
        (tmp_path / "echo").symlink_to(str(shutil.which("echo")))
        bare = {"PATH": str(tmp_path)}
        done = subprocess.run(
            [*words, "echo", "x"], stdin=theirs, capture_output=True, timeout=60, check=False, env=bare
        )
        assert (done.stdout, done.stderr, done.returncode) == (b"x\n", b"", 0)
        done = subprocess.run(
            [*words, "end_group"], stdin=theirs, capture_output=True, timeout=60, check=False
        )
        assert (done.stdout, done.returncode) == (b"command not found: end_group\n", 127)
    finally:
        os.close(ours)
        os.close(theirs)


def test_in_a_terminal_the_command_is_in_front(shell: list[str]) -> None:
    with begun(shell, "terminal", "tok", "33", "111", "/tmp", "sh", "-c", "pwd; exit 5") as process:
        assert process.communicate(timeout=60)[0] == b"/tmp\n"
    assert process.returncode == 5
    with begun(shell, "terminal", "tok-x", "33", "111", "/", "sleep", "300") as process:
        until(lambda: alive(process.pid))
        time.sleep(0.1)
        with begun(shell, "end", TOKEN="tok-x", TURNS="4") as ending:
            ending.communicate(timeout=60)
        process.communicate(timeout=60)
    assert process.returncode
