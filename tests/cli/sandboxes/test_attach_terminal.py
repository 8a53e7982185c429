"""`egress attach` at a terminal: left by a key, by a signal and by a lost window, and come back to."""

from __future__ import annotations

import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from fcntl import ioctl
from pathlib import Path

import pytest

from egress.cli.main import main
from egress.cli.sandboxes.attach_terminal import DETACH_KEY
from egress.fleet import Fleet
from egress.runtime.spec import Command, Spec, Terminal
from tests.cli.sandboxes.conftest import serving
from tests.unit.sandbox.local_runtime import LocalRuntime

PATIENCE = 60
PROGRAM = "stty -echo; printf '\\033[?1049h\\033[?25l'; echo ready; while read line; do echo got:$line; done"


@pytest.fixture
def served(folder: Path, tmp_path: Path) -> Iterator[Fleet]:
    with serving(LocalRuntime(tmp_path), folder) as fleet:
        fleet.create(Spec(name="one", image="any"))
        fleet.start("one")
        yield fleet


class Window:
    """`egress attach` in a terminal of its own."""

    def __init__(self, folder: Path, *words: str, columns: int = 100) -> None:
        self.ours, self.theirs = pty.openpty()
        ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 33, columns, 0, 0))
        self.before = termios.tcgetattr(self.theirs)
        argv = [sys.executable, "-m", "egress", "attach", "--runtime-dir", str(folder), *words]
        self.process = subprocess.Popen(argv, stdin=self.theirs, stdout=self.theirs, stderr=self.theirs)
        self.seen = b""

    def until(self, text: bytes) -> bytes:
        """Read until the text has come; returns what came up to there."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            if select.select([self.ours], [], [], 0.1)[0]:
                self.seen += os.read(self.ours, 65536)
        before, _, self.seen = self.seen.partition(text)
        return before

    def type(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    def status(self) -> int:
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for each in (self.ours, self.theirs):
            os.close(each)


@contextmanager
def window(folder: Path, *words: str, columns: int = 100) -> Iterator[Window]:
    made = Window(folder, *words, columns=columns)
    try:
        yield made
    finally:
        made.close()


def test_a_terminal_is_left_and_come_back_to_from_another_one(served: Fleet, folder: Path) -> None:
    command = Command(argv=("sh", "-c", PROGRAM), terminal=Terminal())
    process = served.tracked.start("one", command)
    with window(folder, "one") as first:
        first.until(b"ready")
        first.type(b"hello\r")
        first.until(b"got:hello")
        first.type(b"more\r" + DETACH_KEY)
        # What the program set at this terminal is set back, and so is its mode.
        rest = first.until(b"detached")
        assert rest.index(b"\x1b[?25h") < rest.index(b"\x1b[?1049l")
        first.until(f"egress attach one {process.id}".encode())
        assert first.status() == 0
        assert termios.tcgetattr(first.theirs) == first.before
    with window(folder, "one", process.id, columns=90) as second:
        second.until(b"\x1b[?1049h")
        second.until(b"got:more")
        deadline = time.monotonic() + PATIENCE
        while served.tracked.get("one", process.id).status().columns != 90:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        second.process.send_signal(signal.SIGTERM)
        assert second.status() == 0
        assert termios.tcgetattr(second.theirs) == second.before
    assert process.status().state == "running"


def test_the_end_of_the_fleet_is_told_and_sets_the_terminal_back(folder: Path, tmp_path: Path) -> None:
    with ExitStack() as serving_there:
        fleet = serving_there.enter_context(serving(LocalRuntime(tmp_path), folder))
        fleet.create(Spec(name="one", image="any"))
        fleet.start("one")
        fleet.tracked.start("one", Command(argv=("sh", "-c", PROGRAM), terminal=Terminal()))
        with window(folder, "one") as found:
            found.until(b"ready")
            serving_there.close()
            assert b"\x1b[?1049l" in found.until(b"has ended")
            assert found.status() != 0
            assert termios.tcgetattr(found.theirs) == found.before


def test_a_new_shell_is_started_and_its_status_is_told(served: Fleet, folder: Path) -> None:
    with window(folder, "--new", "one") as found:
        found.until(b"one:")
        found.type(b"stty size; exit 3\r")
        found.until(b"33 100")
        assert found.status() == 3
        assert termios.tcgetattr(found.theirs) == found.before
    (status,) = served.tracked.all("one")
    assert (status.state, status.exit_code) == ("ended", 3)


def test_what_cannot_be_attached_to_is_an_error(
    served: Fleet, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def attach(*words: str) -> str:
        assert main(["attach", "--runtime-dir", str(folder), *words]) != 0
        return capsys.readouterr().err

    assert "no terminal" in attach("one")
    assert "omit PROCESS" in attach("--new", "one", "0" * 16)
    command = Command(argv=("sleep", "60"), terminal=Terminal())
    ids = [served.tracked.start("one", command).id for _ in range(2)]
    told = attach("one")
    assert all(each in told for each in ids)
