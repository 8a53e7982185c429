"""A command under the supervisor script: started in a sandbox, read by a thread, ended from outside.

An engine can neither end a command nor limit its time, so the supervisor in the sandbox does. This module
adds the input and the result, and makes sure that waiting always ends. A command settles by its exit status
when its output ends, as `SandboxDiedError` when its sandbox is gone, and is given up when it outlives both
its timeout and its supervisor. Where the sandbox is, and how bytes get there, is each runtime's own.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, Literal, Protocol

from egress.runtime.command_result import CapturedStream, ResultFuture, feed_input
from egress.runtime.errors import EngineError, PathNotFoundError, SandboxError, SandboxStateError
from egress.runtime.proc_scripts import SUPERVISOR_PATH
from egress.runtime.protocol import Output
from egress.runtime.spec import TIMED_OUT_STATUS, Command, ExecResult, Terminal

_SHELL: Final = "/bin/sh"
_SUPERVISOR_TICKS_PER_SECOND: Final = 20
"""The supervisor polls this often."""
_KILLED_STATUS: Final = 137
_TIMEOUT_STATUSES: Final = frozenset({TIMED_OUT_STATUS, _KILLED_STATUS, 143})
"""Exit statuses of a command that was ended for its timeout."""
_DEATH_NOTICE_TIMEOUT: Final = 5.0
"""Seconds in which the end of a sandbox should be noticed."""
_KILL_NOTICE_TIMEOUT: Final = 20.0
"""The same after a command was killed and no other one can start: on a busy machine five were too few."""
_OVERRUN_TIMEOUT: Final = 10.0
"""Seconds past its timeout after which a command is given up."""
_OWN_COMMAND_TIMEOUT: Final = 10.0
"""Seconds past the time of a command of ours: processes of the same user can stop it for ever."""
_POLL_INTERVALS: Final = (0.002, 0.2)
_MAX_TRIES: Final = 10

type StreamName = Literal["stdout", "stderr"]


class CommandStream(Protocol):
    """The input and output of a command that was started."""

    def read(self) -> list[tuple[StreamName, bytes]] | None:
        """Return the next pieces of output; None at the end. Blocks."""

    def write(self, data: bytes) -> None:
        """Send input; ignored once the command has closed its input."""

    def close_input(self) -> None: ...

    def resize(self, terminal: Terminal) -> None:
        """Change the size of the terminal. Raises `EngineError` where there is none any more."""

    def abort(self) -> None:
        """Wake readers and writers: the connection is over."""

    def close(self) -> None: ...

    def status(self) -> int | None:
        """Return the exit status; None while it is not known. Raises `EngineError`."""

    def has_not_begun(self, status: int, output: bytes) -> bool:
        """Return whether this status and output say that no command was started."""


class CommandTarget(Protocol):
    """The sandbox in which a command runs, with the variables of its processes."""

    @property
    def name(self) -> str:
        """The name of the sandbox."""

    @property
    def folder(self) -> str:
        """The working folder of commands that name none."""

    def begin(
        self,
        words: Sequence[str],
        env: Mapping[str, str],
        *,
        has_input: bool,
        terminal: Terminal | None,
        token: str = "",
    ) -> CommandStream:
        """Start a process; `token` is that of `run` of the supervisor. Raises `SandboxError`."""

    def is_alive(self) -> bool:
        """Return whether the sandbox runs."""

    def death(self) -> SandboxError:
        """The error for a sandbox that has ended, with the cause as far as it is known."""


class SupervisedProcess:
    """A command, from its start."""

    def __init__(self, target: CommandTarget, command: Command, output: Output, *, is_open: bool) -> None:
        """Start the command. `is_open`: input comes later, by `write`. Raises the error of a failed start."""
        self._target = target
        self._command = command
        self._token = secrets.token_hex(8)
        self._stdout = CapturedStream(command.most_output, output.stdout)
        self._stderr = CapturedStream(command.most_output, output.stderr)
        self._outcome = ResultFuture()
        has_input = is_open or command.input is not None or command.terminal is not None
        self._started = time.monotonic()
        # Attached before any thread starts: an error here is raised to the caller.
        self._attached = target.begin(
            self._words(),
            command.env,
            has_input=has_input,
            terminal=command.terminal,
            token=self._token if command.terminal is None else "",
        )
        if command.terminal is not None:
            # The supervisor set the size first, if the image has `stty`; this also works without.
            self.resize(command.terminal)
        threading.Thread(target=self._read, name=f"egress-{target.name}", daemon=True).start()
        if command.input is not None:
            threading.Thread(target=self._feed, name=f"egress-{target.name}-input", daemon=True).start()

    # For the caller

    def write(self, data: bytes) -> None:
        self._attached.write(data)

    def close_input(self) -> None:
        self._attached.close_input()

    def resize(self, terminal: Terminal) -> None:
        # The command may not have started yet, or may have ended.
        with suppress(EngineError):
            self._attached.resize(terminal)

    def kill(self, grace: float = 2.0) -> None:
        # A start is reported before the process exists, so the first tries may not find it.
        for _ in range(_MAX_TRIES):
            if self._outcome.is_settled() or self._end(grace):
                return
            self._outcome.is_settled(_POLL_INTERVALS[1])

    def _end(self, grace: float) -> bool:
        """End the command's process group; returns whether it was found, or is beyond reach."""
        env = {"TOKEN": self._token, "TURNS": str(round(grace * _SUPERVISOR_TICKS_PER_SECOND))}
        try:
            # A command of ours that was stopped would be stopped again, so a timeout counts as found.
            return self._run_own([_SHELL, SUPERVISOR_PATH, "end"], env, grace) in (0, None)
        except EngineError:
            return not self._target.is_alive()

    def _run_own(self, words: Sequence[str], env: Mapping[str, str], grace: float = 0.0) -> int | None:
        """Run a command of ours; returns its exit status, None if it took too long."""
        stream = self._target.begin(words, env, has_input=False, terminal=None)
        return stream.status() if drain(stream, grace + _OWN_COMMAND_TIMEOUT) else None

    def wait(self, timeout: float | None = None) -> ExecResult:
        return self._outcome.wait(timeout)

    # Threads

    def _words(self) -> list[str]:
        command = self._command
        folder = command.cwd or self._target.folder
        if command.terminal is not None:
            size = (str(command.terminal.rows), str(command.terminal.columns))
            return [_SHELL, SUPERVISOR_PATH, "terminal", self._token, *size, folder, *command.argv]
        seconds = "0" if command.timeout is None else f"{command.timeout:.3f}"
        bounds = (seconds, str(round(command.grace * _SUPERVISOR_TICKS_PER_SECOND)))
        return [_SHELL, SUPERVISOR_PATH, "run", self._token, *bounds, folder, *command.argv]

    def _feed(self) -> None:
        feed_input(self._command.input, self._attached.write, self._outcome)
        self._attached.close_input()

    def _read(self) -> None:
        outcome: ExecResult | BaseException
        try:
            deadline = self._timer()
            try:
                # Output comes first: its end means that the command closed it, or that the container is gone.
                while (pieces := self._attached.read()) is not None:
                    for stream, data in pieces:
                        (self._stdout if stream == "stdout" else self._stderr).add(data)
            finally:
                deadline.cancel()
            outcome = self._make_result()
        except BaseException as error:  # noqa: BLE001 - raised again in the threads that wait
            outcome = error
        try:
            self._attached.close()
        finally:
            self._outcome.settle(outcome)

    def _timer(self) -> threading.Timer:
        """A timer that ends the reading if neither supervisor nor engine does."""
        command = self._command
        seconds = (
            threading.TIMEOUT_MAX
            if command.timeout is None
            else command.timeout + command.grace + _OVERRUN_TIMEOUT
        )
        timer = threading.Timer(seconds, self._attached.abort)
        timer.daemon = True
        if command.timeout is not None:
            timer.start()
        return timer

    def _make_result(self) -> ExecResult | SandboxError:
        duration = time.monotonic() - self._started
        status = self._status()
        # Status 137 and 126 are ambiguous: the command's own end, or the end of its sandbox.
        has_not_begun = status is not None and self._attached.has_not_begun(status, self._stdout.data())
        if status is None or (
            (status == _KILLED_STATUS or has_not_begun) and not self._sandbox_survived(status)
        ):
            return self._target.death()
        # The supervisor reports on standard error, marked with the token that only this process knows.
        complaint = self._stderr.data()
        if has_not_begun or complaint.endswith(f"{self._token}: no room\n".encode()):
            return SandboxStateError(
                f"cannot start a command in the sandbox {self._target.name}",
                "its limit of processes or memory may be reached",
            )
        if complaint == f"{self._token}: no such folder\n".encode():
            folder = self._command.cwd or self._target.folder
            return PathNotFoundError(
                f"no folder {folder} in the sandbox {self._target.name}",
                "create it first, or choose another cwd",
            )
        return self._exec_result(status, duration)

    def _exec_result(self, status: int, duration: float) -> ExecResult:
        timeout = self._command.timeout
        timed_out = timeout is not None and duration >= timeout and status in _TIMEOUT_STATUSES
        return ExecResult(
            exit_code=TIMED_OUT_STATUS if timed_out else status,
            stdout_bytes=self._stdout.data(),
            stderr_bytes=self._stderr.data(),
            duration=duration,
            timed_out=timed_out,
            truncated=self._stdout.truncated or self._stderr.truncated,
        )

    def _status(self) -> int | None:
        """The exit status of the command; None if the sandbox is gone, or the status stays unknown."""
        interval, max_interval = _POLL_INTERVALS
        timeout = self._command.timeout
        end = None if timeout is None else self._started + timeout + self._command.grace + _OVERRUN_TIMEOUT
        while True:
            try:
                status = self._attached.status()
            except EngineError:
                if self._target.is_alive():
                    raise
                return None
            if status is not None:
                return status
            # The command closed its output and runs on, or its sandbox is being removed.
            if not self._target.is_alive():
                return None
            if end is not None and time.monotonic() > end:
                # The supervisor did not end the command either, so it is given up here.
                self.kill(0)
                return TIMED_OUT_STATUS
            time.sleep(interval)
            interval = min(interval * 2, max_interval)

    def _sandbox_survived(self, status: int) -> bool:
        """Return whether a killed or unstarted command failed alone, and the sandbox lives.

        When the first process of a container ends, the kernel kills all others, and an engine learns of it
        last. But from that moment on nothing new can start in the container, which is what this tries.
        """
        if self._can_begin_another():
            return True
        # A caller whose sandbox has no room for a process waits as well, so it is long only after a kill.
        timeout = _KILL_NOTICE_TIMEOUT if status == _KILLED_STATUS else _DEATH_NOTICE_TIMEOUT
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if not self._target.is_alive():
                return False
            time.sleep(_POLL_INTERVALS[1] / 10)
        return True

    def _can_begin_another(self) -> bool:
        with suppress(EngineError):
            return self._run_own([_SHELL, "-c", ":"], {}) == 0
        return False


def drain(stream: CommandStream, timeout: float) -> bool:
    """Read a command of ours to its end; false if it took longer than `timeout`."""
    end = time.monotonic() + timeout
    deadline = threading.Timer(timeout, stream.abort)
    deadline.daemon = True
    deadline.start()
    try:
        while stream.read() is not None:
            pass
    finally:
        deadline.cancel()
        stream.close()
    return time.monotonic() < end
