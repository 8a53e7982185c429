"""Run one program without a shell, take its output, and leave no process behind.

Theory of operation. The program gets its own session, and so its own process group, no standard input, and
pipes that are read here. Its own exit, the time limit, or `stop` from another thread can end it. In each case
the whole group is killed *before* its leader is reaped, so that the number of the group cannot belong to
another process by then. Children that hold a pipe open do not delay the end: once the leader has ended, all
its output is in the pipe. A child in its own session, such as an agent, is left alone.

Such a program prints a credential: that of a secret source, or the token of a cluster. So standard output
goes into a `CommandOutput` and nowhere else; of standard error only the length is known. `CalledProcessError`
and `TimeoutExpired` carry output: they are never used.

Must not touch the event loop: the caller has a thread of its own for it.
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
from enum import Enum
from typing import Final, Never

MAX_OUTPUT_BYTES: Final = 64 * 1024
_CHUNK_BYTES: Final = 64 * 1024


class CommandOutput:
    """What a program wrote to its standard output: never shown, copied or pickled."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    def reveal(self) -> bytes:
        """Return the bytes."""
        return self._data

    def __repr__(self) -> str:
        return "CommandOutput(***)"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __reduce_ex__(self, protocol: object) -> Never:
        raise TypeError("the output of a program must not be pickled or copied")


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """The end of a program."""

    status: int
    """The exit status, or the negative number of the signal."""
    output: CommandOutput
    stderr: int
    """Number of bytes written to standard error."""


class AbortReason(Enum):
    """Why the output of a program does not count."""

    STOPPED = "stopped"
    """By the caller."""
    LATE = "late"
    """It did not end within its time."""
    TOO_LONG = "too long"
    """It wrote more than `MAX_OUTPUT_BYTES`."""
    UNSEEN = "unseen"
    """It ended with an unknown status, because this process was started with SIGCHLD ignored."""


@dataclass(frozen=True, slots=True)
class CommandAborted:
    """A program that was stopped, or whose end nobody can know."""

    reason: AbortReason

    def told(self, timeout: float) -> str:
        """Return what happened, as a part of a sentence about the program."""
        match self.reason:
            case AbortReason.STOPPED:
                return "was stopped"
            case AbortReason.LATE:
                return f"did not end within {timeout:g} s"
            case AbortReason.TOO_LONG:
                return f"wrote more than {MAX_OUTPUT_BYTES // 1024} KiB"
            case AbortReason.UNSEEN:
                return "ended with an unknown status, because Egress was started with SIGCHLD ignored"


class CommandProcess:
    """A single run of a program."""

    __slots__ = ("_lock", "_popen", "_stopped")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._popen: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def run(
        self,
        program: str,
        argv: Sequence[str],
        environ: Mapping[str, str],
        folder: str | None,
        timeout: float,
    ) -> CommandEnd | CommandAborted:
        """Run to the end, in a folder, or else in that of this process.

        Raises OSError if the program cannot be started.
        """
        # Under the lock, so that `stop` either prevents the start or sees the process.
        with self._lock:
            if self._stopped:
                return CommandAborted(AbortReason.STOPPED)
            popen = self._popen = _started(program, argv, environ, folder)
        with popen:
            reading = _Reading(popen)
            try:
                broken = reading.until_exit(timeout)
            finally:
                self._end(popen)
            if self._is_stopped():
                return CommandAborted(AbortReason.STOPPED)
            return broken or CommandEnd(popen.returncode, reading.output, reading.stderr)

    def stop(self) -> None:
        """Kill the program, now or as soon as it is started; from any thread."""
        with self._lock:
            self._stopped = True
            if self._popen is not None:
                _kill(self._popen)

    def _is_stopped(self) -> bool:
        return self._stopped

    def _end(self, popen: subprocess.Popen[bytes]) -> None:
        # The lock keeps `stop` from killing a group whose leader is already reaped.
        with self._lock:
            _kill(popen)
            popen.wait()
            self._popen = None


def _started(
    program: str, argv: Sequence[str], environ: Mapping[str, str], folder: str | None
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
    # A program that runs as another user (setuid) cannot be killed, which must not raise here.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(popen.pid, signal.SIGKILL)


class _Reading:
    """Both pipes of a program, and its exit."""

    __slots__ = ("_out", "_pipes", "_popen", "stderr")

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen
        self._out = bytearray()
        self._pipes: dict[int, bool] = {}
        self.stderr = 0

    @property
    def output(self) -> CommandOutput:
        return CommandOutput(bytes(self._out))

    def until_exit(self, timeout: float) -> CommandAborted | None:
        """Read until the program ends, or has to be stopped."""
        if self._popen.stdout is None or self._popen.stderr is None:
            raise RuntimeError("the program was started without pipes")
        self._pipes = {self._popen.stdout.fileno(): True, self._popen.stderr.fileno(): False}
        for pipe in self._pipes:
            os.set_blocking(pipe, False)
        try:
            # A pidfd cannot be confused with a later process of the same number.
            leader = os.pidfd_open(self._popen.pid)
        except ProcessLookupError:
            return CommandAborted(AbortReason.UNSEEN)
        try:
            return self._read_until(leader, timeout)
        finally:
            os.close(leader)

    def _read_until(self, leader: int, timeout: float) -> CommandAborted | None:
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            ready = self._ready(leader, left)
            # After the exit both pipes are read once more: the rest of the output is in them.
            for pipe in [pipe for pipe in self._pipes if pipe in ready or leader in ready]:
                self._read(pipe)
            if len(self._out) > MAX_OUTPUT_BYTES:
                return CommandAborted(AbortReason.TOO_LONG)
            if leader in ready:
                return _unknown_end(leader)
        return CommandAborted(AbortReason.LATE)

    def _ready(self, leader: int, left: float) -> set[int]:
        poll = select.poll()
        for descriptor in (*self._pipes, leader):
            poll.register(descriptor, select.POLLIN)
        return {descriptor for descriptor, _ in poll.poll(left * 1000)}

    def _read(self, pipe: int) -> None:
        """Read all available data of a pipe, up to the limit."""
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
                # Chunk by chunk: a program that floods standard error must still meet its time limit.
                self.stderr += len(data)
                return
            self._out += data


def _unknown_end(leader: int) -> CommandAborted | None:
    """Refuse an exit whose status is lost: `Popen` would take it for a success."""
    try:
        os.waitid(os.P_PIDFD, leader, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        return CommandAborted(AbortReason.UNSEEN)
    return None
