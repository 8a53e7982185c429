"""A command in a container: begun under the supervisor, read by a thread of its own, ended from outside.

The engine can neither end a command nor bound its time, so both are the supervisor's work. What this adds:
input, what became of it, and that somebody who waits is never left waiting. A command whose streams end
settles by its status; one whose container is gone settles as `SandboxDiedError`; one that outlives its time
and its supervisor is given up.
"""

from __future__ import annotations

import secrets
import threading
import time
from contextlib import suppress
from typing import BinaryIO, Final

from egress.runtime.command_result import CapturedStream, ResultFuture
from egress.runtime.docker.container import SUPERVISOR_PATH
from egress.runtime.docker.engine import ContainerGoneError, ContainerState, DockerEngine
from egress.runtime.docker.exec_stream import ExecStream, open_exec_stream
from egress.runtime.errors import (
    EngineError,
    PathNotFoundError,
    SandboxDiedError,
    SandboxError,
    SandboxStateError,
    UnsupportedError,
)
from egress.runtime.protocol import Output
from egress.runtime.spec import TIMED_OUT_STATUS, Command, ExecResult, Terminal, Values

_SHELL: Final = "/bin/sh"
_SUPERVISOR_TICKS_PER_SECOND: Final = 20
"""Of the supervisor, a second."""
_KILLED_STATUS: Final = 137
_TIMEOUT_STATUSES: Final = frozenset({TIMED_OUT_STATUS, _KILLED_STATUS, 143})
"""What a command that was ended for its time can end with."""
_NO_PROGRAM_STATUS: Final = 127
_NOT_BEGUN_STATUS: Final = 126
_ENGINE_ERROR_PREFIX: Final = b"OCI runtime exec failed"
"""Instead of output, when it could not begin a command at all."""
_DEATH_NOTICE_TIMEOUT: Final = 5.0
"""Seconds in which the engine should know of the end of a container, beside busy neighbours too."""
_OVERRUN_TIMEOUT: Final = 10.0
"""Seconds that a command may take over its time before it is given up."""
_OWN_COMMAND_TIMEOUT: Final = 10.0
"""Seconds that a command of our own may take over its time: others of its user can stop it for ever."""
_INPUT_PIECE_BYTES: Final = 64 * 1024
_POLL_INTERVALS: Final = (0.002, 0.2)
_MAX_TRIES: Final = 10


class ExecTarget:
    """What a command is run with, apart from itself."""

    __slots__ = ("container", "engine", "folder", "name", "user", "variables")

    def __init__(
        self, engine: DockerEngine, container: str, name: str, user: str, folder: str, variables: Values
    ) -> None:
        self.engine = engine
        self.container = container
        self.name = name
        self.user = user
        self.folder = folder
        self.variables = variables


class DockerProcess:
    """One command, from its beginning on."""

    def __init__(self, begun: ExecTarget, command: Command, output: Output, *, is_open: bool) -> None:
        """Begin it. `is_open`: input comes later, by `write`. Raises what keeps it from beginning."""
        self._begun = begun
        self._command = command
        self._token = secrets.token_hex(8)
        self._stdout = CapturedStream(command.most_output, output.stdout)
        self._stderr = CapturedStream(command.most_output, output.stderr)
        self._outcome = ResultFuture()
        has_input = is_open or command.input is not None or command.terminal is not None
        engine = begun.engine
        self._id = engine.create_exec(
            begun.container,
            self._words(),
            {**begun.variables, **command.env},
            user=begun.user,
            has_input=has_input,
            has_terminal=command.terminal is not None,
        )
        self._began = time.monotonic()
        self._attached: ExecStream = open_exec_stream(
            engine.socket, engine.api_version, self._id, has_terminal=command.terminal is not None
        )
        if command.terminal is not None:
            # The supervisor has done it first, where the image has an `stty`.
            self.resize(command.terminal)
        threading.Thread(target=self._read, name=f"egress-{begun.name}", daemon=True).start()
        if command.input is not None:
            threading.Thread(target=self._feed, name=f"egress-{begun.name}-input", daemon=True).start()

    # For whoever began it

    def write(self, data: bytes) -> None:
        self._attached.write(data)

    def close_input(self) -> None:
        self._attached.close_input()

    def resize(self, terminal: Terminal) -> None:
        # It may not have begun at the engine, or have ended.
        with suppress(EngineError):
            self._begun.engine.resize_exec(self._id, terminal.rows, terminal.columns)

    def kill(self, grace: float = 2.0) -> None:
        # The engine says that a command has begun before it has: then there is nobody to be found yet.
        for _ in range(_MAX_TRIES):
            if self._outcome.is_settled() or self._end(grace):
                return
            self._outcome.is_settled(_POLL_INTERVALS[1])

    def _end(self, grace: float) -> bool:
        """Have its group ended; returns whether it was found, or cannot be."""
        engine, begun = self._begun.engine, self._begun
        try:
            command = engine.create_exec(
                begun.container,
                [_SHELL, SUPERVISOR_PATH, "end"],
                {"TOKEN": self._token, "TURNS": str(round(grace * _SUPERVISOR_TICKS_PER_SECOND))},
                user=begun.user,
                has_input=False,
                has_terminal=False,
            )
            # One that was held up would be held up again.
            return (
                not run_to_end(engine, command, grace + _OWN_COMMAND_TIMEOUT)
                or engine.exec_status(command) == 0
            )
        except ContainerGoneError:
            return True
        except EngineError:
            return False

    def wait(self, timeout: float | None = None) -> ExecResult:
        return self._outcome.wait(timeout)

    # The threads

    def _words(self) -> list[str]:
        command = self._command
        folder = command.cwd or self._begun.folder
        if command.terminal is not None:
            size = (str(command.terminal.rows), str(command.terminal.columns))
            return [_SHELL, SUPERVISOR_PATH, "terminal", self._token, *size, folder, *command.argv]
        seconds = "0" if command.timeout is None else f"{command.timeout:.3f}"
        bounds = (seconds, str(round(command.grace * _SUPERVISOR_TICKS_PER_SECOND)))
        return [_SHELL, SUPERVISOR_PATH, "run", self._token, *bounds, folder, *command.argv]

    def _feed(self) -> None:
        source = self._command.input
        if isinstance(source, bytes):
            self._attached.write(source)
        elif source is not None:
            self._copy(source)
        self._attached.close_input()

    def _copy(self, source: BinaryIO) -> None:
        # What it is read from is the caller's, and can fail in any way: the command then gets what there was.
        with suppress(OSError, ValueError):
            while not self._outcome.is_settled() and (piece := source.read(_INPUT_PIECE_BYTES)):
                self._attached.write(piece)

    def _read(self) -> None:
        came: ExecResult | BaseException
        try:
            giving_up = self._timer()
            try:
                while (pieces := self._attached.read()) is not None:
                    for stream, data in pieces:
                        (self._stdout if stream == "stdout" else self._stderr).add(data)
            finally:
                giving_up.cancel()
            came = self._make_result()
        except BaseException as error:  # noqa: BLE001 - told to whoever waits
            came = error
        try:
            self._attached.close()
        finally:
            self._outcome.settle(came)

    def _timer(self) -> threading.Timer:
        """What ends the reading when neither supervisor nor engine does."""
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
        duration = time.monotonic() - self._began
        status = self._status()
        has_not_begun = status == _NOT_BEGUN_STATUS and self._stdout.data().startswith(_ENGINE_ERROR_PREFIX)
        if status is None or ((status == _KILLED_STATUS or has_not_begun) and not self._sandbox_survived()):
            return death_error(self._begun.name, self._begun.engine.container_state(self._begun.container))
        complaint = self._stderr.data()
        if has_not_begun or complaint.endswith(f"{self._token}: no room\n".encode()):
            return SandboxStateError(
                f"no command can begin in the sandbox {self._begun.name}",
                "it may have no room for another process, or no memory: see its limits",
            )
        if complaint == f"{self._token}: no such folder\n".encode():
            folder = self._command.cwd or self._begun.folder
            return PathNotFoundError(
                f"there is no folder {folder} in the sandbox {self._begun.name}",
                "make it first, or name another cwd",
            )
        return self._exec_result(status, duration)

    def _exec_result(self, status: int, duration: float) -> ExecResult:
        timeout = self._command.timeout
        timed_out = timeout is not None and duration >= timeout and status in _TIMEOUT_STATUSES
        return ExecResult(
            exit_code=TIMED_OUT_STATUS if timed_out else status,
            stdout=self._stdout.data(),
            stderr=self._stderr.data(),
            duration=duration,
            timed_out=timed_out,
            truncated=self._stdout.truncated or self._stderr.truncated,
        )

    def _status(self) -> int | None:
        """The status of the command; None where the sandbox is gone, or will not tell."""
        pause, longest = _POLL_INTERVALS
        timeout = self._command.timeout
        end = None if timeout is None else self._began + timeout + self._command.grace + _OVERRUN_TIMEOUT
        while True:
            try:
                status = self._begun.engine.exec_status(self._id)
            except ContainerGoneError:
                return None
            if status is not None:
                return status
            # It closed its streams and runs on; or its container is on its way out.
            if not self._is_alive():
                return None
            if end is not None and time.monotonic() > end:
                # Neither it nor its supervisor can be ended from inside.
                self.kill(0)
                return TIMED_OUT_STATUS
            time.sleep(pause)
            pause = min(pause * 2, longest)

    def _sandbox_survived(self) -> bool:
        """Whether a command that was killed, or did not begin, was alone in that.

        Where the first process of a container ends the system kills the others, and the engine learns of that
        last. But nothing new can begin there from then on.
        """
        if self._can_begin_another():
            return True
        end = time.monotonic() + _DEATH_NOTICE_TIMEOUT
        while time.monotonic() < end:
            if not self._is_alive():
                return False
            time.sleep(_POLL_INTERVALS[1] / 10)
        return True

    def _can_begin_another(self) -> bool:
        engine, begun = self._begun.engine, self._begun
        with suppress(EngineError):
            command = engine.create_exec(
                begun.container, [_SHELL, "-c", ":"], {}, user=begun.user, has_input=False, has_terminal=False
            )
            return run_to_end(engine, command, _OWN_COMMAND_TIMEOUT) and engine.exec_status(command) == 0
        return False

    def _is_alive(self) -> bool:
        found = self._begun.engine.container_state(self._begun.container)
        return found is not None and found.is_alive


def run_to_end(engine: DockerEngine, command: str, patience: float) -> bool:
    """Begin a command of our own, and wait; false where it took longer than that. Raises as `attach` does."""
    attached = open_exec_stream(engine.socket, engine.api_version, command, has_terminal=False)
    end = time.monotonic() + patience
    giving_up = threading.Timer(patience, attached.abort)
    giving_up.daemon = True
    giving_up.start()
    try:
        while attached.read() is not None:
            pass
    finally:
        giving_up.cancel()
        attached.close()
    return time.monotonic() < end


def death_error(name: str, condition: ContainerState | None) -> SandboxError:
    """Say that a sandbox is not there any more, and why as far as that can be told."""
    if condition is None:
        return SandboxDiedError(
            f"the container of the sandbox {name} was removed", "remove the sandbox, and make it anew"
        )
    if condition.exit_code == _NO_PROGRAM_STATUS:
        return UnsupportedError(
            f"the image of the sandbox {name} has no /bin/sh, or no sleep", "use one with a POSIX shell"
        )
    return SandboxDiedError(f"the sandbox {name} has ended", "start it again, or remove it")
