"""A command of a sandbox, joined to the streams of a process: with pipes, and with a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

JOINED = [sys.executable, str(Path(__file__).with_name("attached_program.py"))]
PATIENCE = 60


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Whatever a test finds, nothing runs on."""
    with process:
        try:
            yield process
        finally:
            process.kill()


def piped(*words: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    pipe = subprocess.PIPE
    return ended(subprocess.Popen([*JOINED, "pipes", *words], stdin=pipe, stdout=pipe, stderr=pipe))


def test_input_goes_in_and_output_and_errors_come_out_apart() -> None:
    with piped("report") as process:
        out, err = process.communicate(b"some\0input", PATIENCE)
    assert (out, err, process.returncode) == (b"out:some\0input", b"err", 7)


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_what_would_end_us_ends_the_command(number: signal.Signals, status: int) -> None:
    with piped("stuck") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(number)
        assert process.wait(PATIENCE) == status


def test_a_command_that_nobody_reads_is_ended() -> None:
    with piped("flood") as process:
        assert process.stdout is not None
        assert process.stdout.read(3) == b"xxx"
        process.stdout.close()
        assert process.wait(PATIENCE) == 143


# A terminal ---------------------------------------------------------------------------------------


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 111, 0, 0))
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


def at(terminal: tuple[int, int], *words: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    _, theirs = terminal
    return ended(subprocess.Popen([*JOINED, "terminal", *words], stdin=theirs, stdout=theirs, stderr=theirs))


def test_a_terminal_is_put_back_as_it_was(terminal: tuple[int, int]) -> None:
    before = termios.tcgetattr(terminal[1])
    with at(terminal, "echo", "shown") as process:
        assert process.wait(PATIENCE) == 0
    assert termios.tcgetattr(terminal[1]) == before
    assert b"shown" in os.read(terminal[0], 100)


def test_a_key_goes_in_as_it_is(terminal: tuple[int, int]) -> None:
    """Ctrl-C is the command's, not ours."""
    ours, theirs = terminal
    with at(terminal, "stuck") as process:
        assert os.read(ours, 100).startswith(b"begun")
        local = 3
        assert not termios.tcgetattr(theirs)[local] & (termios.ISIG | termios.ECHO)
        os.write(ours, b"\x03")
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 143


def test_a_terminal_that_closes_ends_the_command_and_nothing_else() -> None:
    ours, theirs = pty.openpty()
    with at((ours, theirs), "stuck") as process:
        assert os.read(ours, 100).startswith(b"begun")
        os.close(ours)
        process.send_signal(signal.SIGHUP)
        assert process.wait(PATIENCE) == 129
    os.close(theirs)


def test_a_command_under_nohup_outlives_the_terminal() -> None:
    shield = ["/bin/sh", "-c", "trap '' HUP; exec \"$@\"", "sh"]
    pipe = subprocess.PIPE
    with ended(subprocess.Popen([*shield, *JOINED, "pipes", "stuck"], stdin=pipe, stdout=pipe)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 143
