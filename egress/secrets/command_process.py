"""Run one program without a shell, take what it writes, and leave nothing of it behind.

Theory of operation. The program gets a session, and so a process group, of its own, no standard input, and
pipes that are read here. Three things can end it: its own exit, the time limit, and `stop` from another
thread. In each case the whole group is killed *before* its leader is reaped, so that the number of the group
cannot belong to anybody else by then. Children that hold a pipe open do not delay the end: when the leader
has ended, all it wrote is in the pipe already. A child that has made itself a session of its own, as an agent
does, is left alone.

What is written to standard output goes into a `SourceValue` and nowhere else. Of standard error only the
length
is known. `CalledProcessError` and `TimeoutExpired` carry output: they are never used.

Must not touch the event loop: a look runs in a thread of its own.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from egress.secrets.source_value import SourceValue

MAX_OUTPUT_BYTES = 64 * 1024
_CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How a program ended."""

    status: int
    """The exit status, or the negative number of the signal that ended it."""
    value: SourceValue
    stderr: int
    """How many bytes it wrote to standard error."""


@dataclass(frozen=True, slots=True)
class CommandAborted:
    """It was ended from here."""

    why: str


UNSEEN_END = CommandAborted("ended unseen, because the proxy was started with SIGCHLD ignored")


class CommandProcess:
    """One run of one program."""

    __slots__ = ("_lock", "_popen", "_stopped")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._popen: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def run(
        self, program: str, argv: Sequence[str], environ: Mapping[str, str], folder: str, timeout: float
    ) -> CommandEnd | CommandAborted:
        """Run it to its end. Raises OSError when it cannot be started."""
        with self._lock:
            if self._stopped:
                return CommandAborted("was stopped")
            popen = self._popen = _started(program, argv, environ, folder)
        with popen:
            reading = _Reading(popen)
            try:
                broken = reading.until_exit(timeout)
            finally:
                self._end(popen)
            if self._is_stopped():
                return CommandAborted("was stopped")
            return broken or CommandEnd(popen.returncode, reading.value, reading.stderr)

    def stop(self) -> None:
        """Kill it, now or as soon as it is started; from any thread."""
        with self._lock:
            self._stopped = True
            if self._popen is not None:
                _kill(self._popen)

    def _is_stopped(self) -> bool:
        return self._stopped

    def _end(self, popen: subprocess.Popen[bytes]) -> None:
        # The lock keeps `stop` from killing a group whose leader is reaped.
        with self._lock:
            _kill(popen)
            popen.wait()
            self._popen = None


def _started(
    program: str, argv: Sequence[str], environ: Mapping[str, str], folder: str
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv,
        executable=program,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environ),
        cwd=folder,
        start_new_session=True,
    )


def _kill(popen: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(popen.pid, signal.SIGKILL)


class _Reading:
    """Both pipes of a program, and its end."""

    __slots__ = ("_out", "_pipes", "_popen", "stderr")

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen
        self._out = bytearray()
        self._pipes: dict[int, bool] = {}
        self.stderr = 0

    @property
    def value(self) -> SourceValue:
        return SourceValue(bytes(self._out))

    def until_exit(self, timeout: float) -> CommandAborted | None:
        """Read until the program has ended, or must not go on."""
        if self._popen.stdout is None or self._popen.stderr is None:
            raise RuntimeError("the program was started without pipes")
        self._pipes = {self._popen.stdout.fileno(): True, self._popen.stderr.fileno(): False}
        for pipe in self._pipes:
            os.set_blocking(pipe, False)
        try:
            leader = os.pidfd_open(self._popen.pid)
        except ProcessLookupError:
            return UNSEEN_END
        try:
            return self._read_until(leader, timeout)
        finally:
            os.close(leader)

    def _read_until(self, leader: int, timeout: float) -> CommandAborted | None:
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            ready = self._ready(leader, left)
            for pipe in [pipe for pipe in self._pipes if pipe in ready or leader in ready]:
                self._read(pipe)
            if len(self._out) > MAX_OUTPUT_BYTES:
                return CommandAborted("wrote more than 64 KiB")
            if leader in ready:
                return _unknown_end(leader)
        return CommandAborted(f"did not end within {timeout:g} s")

    def _ready(self, leader: int, left: float) -> set[int]:
        poll = select.poll()
        for descriptor in (*self._pipes, leader):
            poll.register(descriptor, select.POLLIN)
        return {descriptor for descriptor, _ in poll.poll(left * 1000)}

    def _read(self, pipe: int) -> None:
        """Take what is in the pipe, up to what is too much."""
        is_out = self._pipes[pipe]
        while len(self._out) <= MAX_OUTPUT_BYTES:
            try:
                data = os.read(pipe, _CHUNK_BYTES)
            except BlockingIOError:
                return
            if not data:
                del self._pipes[pipe]
                return
            if not is_out:
                # One chunk at a time: a program that never stops complaining must still meet its limit.
                self.stderr += len(data)
                return
            self._out += data


def _unknown_end(leader: int) -> CommandAborted | None:
    """Refuse an end whose status nobody can know: `Popen` would take it for a success."""
    try:
        os.waitid(os.P_PIDFD, leader, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        return UNSEEN_END
    return None
