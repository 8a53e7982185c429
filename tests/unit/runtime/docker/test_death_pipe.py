"""The pipe that ends with its owner."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from egress.runtime.docker.death_pipe import DeathPipe, wait_script

SHELLS = pytest.mark.parametrize("shell", ["sh", "bash"])


@contextmanager
def reader(path: Path, shell: str = "sh", open_timeout: float = 30) -> Iterator[subprocess.Popen[bytes]]:
    """The script at work; whatever it left goes with its group, as with the init process of a container."""
    with running(wait_script(str(path), open_timeout), shell) as process:
        yield process


@contextmanager
def running(script: str, shell: str = "sh") -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([shell, "-c", script], stdin=subprocess.DEVNULL, process_group=0) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def descendants(number: int) -> set[int]:
    """Who is in the group of a process, itself left out."""
    found = subprocess.run(["ps", "-eo", "pid,pgid"], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in found.splitlines()[1:]]
    return {int(pid) for pid, group in rows if int(group) == number} - {number}


def has_open(process: subprocess.Popen[bytes], path: Path) -> bool:
    return any(os.path.realpath(file) == str(path) for file in Path(f"/proc/{process.pid}/fd").iterdir())


@SHELLS
def test_who_waits_at_it_ends_with_it(tmp_path: Path, shell: str) -> None:
    line = DeathPipe(tmp_path / "line")
    with reader(line.path, shell) as process:
        while not has_open(process, line.path):
            time.sleep(0.01)
        assert process.poll() is None
        while descendants(process.pid):
            time.sleep(0.01)
        line.close()
        line.close()
        assert process.wait(30) == 1


@SHELLS
def test_one_whose_owner_was_gone_before_it_began_ends_too(tmp_path: Path, shell: str) -> None:
    """Nobody holds the other end, and to open this one would wait for ever."""
    line = DeathPipe(tmp_path / "line")
    line.close()
    with reader(line.path, shell, 0.1) as process:
        assert process.wait(30) == -signal.SIGTERM


def test_an_owner_that_goes_while_it_is_opened_is_noticed(tmp_path: Path) -> None:
    """The pipe is opened twice: once to see whether that can be done."""
    line, between = DeathPipe(tmp_path / "line"), tmp_path / "between"
    os.mkfifo(between)
    # Both directions: an open for one waits for the other end.
    end = os.open(between, os.O_RDWR)
    script = wait_script(str(line.path), 2).replace("; then", f"; then read -r x <{between};", 1)
    with running(script) as process:
        while not has_open(process, between):
            assert process.poll() is None
        line.close()
        os.write(end, b"go on\n")
        assert process.wait(30) == -signal.SIGTERM
    os.close(end)


def test_nobody_writes_to_it(tmp_path: Path) -> None:
    line = DeathPipe(tmp_path / "line")
    assert line.path.is_fifo()
    assert line.path.stat().st_mode & 0o777 == 0o444
    assert not os.get_inheritable(line._end)
    line.close()


def test_where_it_cannot_be_opened_it_is_waited_all_the_same(tmp_path: Path) -> None:
    with reader(tmp_path / "nothing") as process:
        try:
            process.wait(0.3)
        except subprocess.TimeoutExpired:
            process.kill()
        else:
            raise AssertionError("it did not wait")


# Kept beyond the runtime ----------------------------------------------------------------------------


@SHELLS
def test_one_that_is_kept_waits_for_the_next_owner_and_ends_when_none_comes(
    tmp_path: Path, shell: str
) -> None:
    first = DeathPipe(tmp_path / "line")
    with running(wait_script(str(first.path), 30, kept_timeout=0.5), shell) as process:
        while not has_open(process, first.path):
            time.sleep(0.01)
        first.close()
        # Gone from the first wait, and back for the second owner, who opens the same pipe.
        while has_open(process, first.path):
            time.sleep(0.01)
        second = DeathPipe(first.path, is_there=True)
        while not has_open(process, first.path):
            assert process.poll() is None
        while descendants(process.pid):
            time.sleep(0.01)
        second.close()
        assert process.wait(30) == -signal.SIGTERM


def test_only_a_pipe_is_taken_for_that_of_the_last_runtime(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(DeathPipe(tmp_path / "line").path)
    for name in ("file", "link", "nothing"):
        with pytest.raises(OSError):  # noqa: PT011 - each has a reason of its own
            DeathPipe(tmp_path / name, is_there=True)
