"""Processes and sandboxes in memory: a process from its caller's side and from its program's side."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from posixpath import join, normpath
from typing import Final

from egress.runtime import canary_planting
from egress.runtime.command_result import CapturedStream
from egress.runtime.errors import SandboxDiedError, SandboxTimeoutError
from egress.runtime.fake.memory_files import MemoryFiles
from egress.runtime.protocol import Output, Provisions
from egress.runtime.proxy_client import Admission
from egress.runtime.spec import MIB, TIMED_OUT_STATUS, Command, ExecResult, Spec, State, Terminal, Values

_KILLED_STATUS: Final = 143
_HOME_FOLDER: Final = "/home/sandbox"


class _EndedError(Exception):
    """Unwinds a program that was ended, or whose timeout expired."""


class ProgramCall:
    """A process from its program's side."""

    def __init__(self, process: FakeProcess, files: MemoryFiles, cwd: str, env: Values) -> None:
        self._process = process
        self.argv = process.command.argv
        self.cwd = cwd
        self.env = env
        self.files = files
        self.elapsed = 0.0
        """Seconds on the simulated clock."""

    def path(self, name: str) -> str:
        """Resolve a path against the working directory."""
        return normpath(join(self.cwd, name))

    def read(self) -> bytes:
        """The input; blocks until the input is closed."""
        return self._process.input.all(self._process.checkpoint)

    def write(self, data: bytes) -> None:
        """Write to standard output."""
        self._process.checkpoint()
        self._process.stdout.add(data)

    def complain(self, data: bytes) -> None:
        """Write to standard error."""
        self._process.checkpoint()
        self._process.stderr.add(data)

    def sleep(self, seconds: float) -> None:
        """Advance the clock; does not return past the timeout."""
        self._process.checkpoint()
        self.elapsed += seconds
        timeout = self._process.command.timeout
        if timeout is not None and self.elapsed >= timeout:
            self.elapsed = timeout
            self._process.expire()

    def run_on(self) -> None:
        """Run until the process is ended; does not return."""
        timeout = self._process.command.timeout
        if timeout is not None:
            self.sleep(timeout)
        self._process.until_ended()


Program = Callable[[ProgramCall], int | None]
"""Returns the exit status; None is 0."""


@dataclass(slots=True)
class InputBuffer:
    """The input of a process."""

    data: bytearray = field(default_factory=bytearray)
    is_closed: bool = False
    changed: threading.Condition = field(default_factory=threading.Condition)

    def add(self, data: bytes) -> None:
        with self.changed:
            self.data += data
            self.changed.notify_all()

    def close(self) -> None:
        with self.changed:
            self.is_closed = True
            self.changed.notify_all()

    def wake(self) -> None:
        with self.changed:
            self.changed.notify_all()

    def all(self, checkpoint: Callable[[], None]) -> bytes:
        with self.changed:
            while not self.is_closed:
                checkpoint()
                self.changed.wait()
        checkpoint()
        return bytes(self.data)


class FakeProcess:
    """A program in a thread of its own."""

    def __init__(self, sandbox: FakeSandbox, command: Command, output: Output, program: Program) -> None:
        self.command = command
        self.stdout = CapturedStream(command.most_output, output.stdout)
        self.stderr = CapturedStream(command.most_output, output.stderr)
        self.input = InputBuffer()
        self._sandbox = sandbox
        self._end: int | None = None
        self._is_over = threading.Condition()
        self._done = threading.Event()
        self._result: ExecResult | None = None
        self._failure: BaseException | None = None
        cwd = command.cwd or sandbox.spec.workdir
        self._call = ProgramCall(self, sandbox.files, cwd, {**sandbox.variables, **command.env})
        self._program = program
        sandbox.processes.add(self)
        threading.Thread(target=self._run, daemon=True).start()

    # For the caller

    def write(self, data: bytes) -> None:
        self.input.add(data)

    def close_input(self) -> None:
        self.input.close()

    def resize(self, terminal: Terminal) -> None:
        """A process in memory has no terminal to resize."""

    def kill(self, grace: float = 2.0) -> None:  # noqa: ARG002 - it ends at once
        self.end(_KILLED_STATUS)

    def wait(self, timeout: float | None = None) -> ExecResult:
        if not self._done.wait(timeout):
            raise SandboxTimeoutError("the command has not ended within the given time", "wait longer")
        if self._failure is not None:
            raise self._failure
        if self._result is None:
            raise SandboxDiedError(
                f"the sandbox {self._sandbox.spec.name} ended under the command",
                "start it again, or remove it",
            )
        return self._result

    # For the program

    def checkpoint(self) -> None:
        """End here if the process was ended; block while the sandbox is paused."""
        self._sandbox.until_awake(lambda: self._end is not None)
        if self._end is not None:
            raise _EndedError

    def expire(self) -> None:
        self._end = TIMED_OUT_STATUS
        raise _EndedError

    def until_ended(self) -> None:
        with self._is_over:
            self._is_over.wait_for(lambda: self._end is not None)
        raise _EndedError

    def end(self, status: int) -> None:
        with self._is_over:
            if self._end is None:
                self._end = status
            self._is_over.notify_all()
        self.input.wake()
        self._sandbox.wake()

    def _run(self) -> None:
        status = 0
        try:
            status = self._program(self._call) or 0
        except _EndedError:
            status = self._end if self._end is not None else _KILLED_STATUS
        except BaseException as error:  # noqa: BLE001 - raised again by `wait`
            self._failure = error
        # A process of an ended sandbox has no result: `wait` then raises `SandboxDiedError`, as real runtimes
        # do.
        if not self._sandbox.is_dead(self):
            self._result = ExecResult(
                exit_code=status,
                stdout_bytes=self.stdout.data(),
                stderr_bytes=self.stderr.data(),
                duration=self._call.elapsed,
                timed_out=self._end == TIMED_OUT_STATUS,
                truncated=self.stdout.truncated or self.stderr.truncated,
            )
        self._sandbox.processes.discard(self)
        self._done.set()


class FakeSandbox:
    """A sandbox."""

    def __init__(self, spec: Spec, provisions: Provisions, admission: Admission) -> None:
        self.spec = spec
        self.provisions = provisions
        self.admission = admission
        self.state: State = "created"
        self.files = self._make_files()
        self.processes: set[FakeProcess] = set()
        self.ports: dict[int, Callable[[socket.socket], object]] = {}
        """The programs that listen, by port."""
        self._dead: set[FakeProcess] = set()
        self._changed = threading.Condition()

    def _make_files(self) -> MemoryFiles:
        files = MemoryFiles()
        files.make_folder(self.spec.workdir)
        for target, data in self.provisions.files.items():
            files.write(target, data)
        for target, source in self.provisions.overmounts.items():
            files.write(target, self.provisions.files[source])
        self._plant(files)
        # Limited last: the files above do not count, as with a real disk.
        if self.spec.limits.disk_mib is not None:
            files.bound(self.spec.limits.disk_mib * MIB)
        return files

    def _plant(self, files: MemoryFiles) -> None:
        """Write its canaries. Raises `SandboxStateError` for a path that is taken."""
        home = self.variables.get("HOME", _HOME_FOLDER)
        for canary in self.provisions.planted:
            path = f"{home}{canary.file[1:]}" if canary.file.startswith("~/") else canary.file
            if path in files:
                raise canary_planting.planting_error(self.spec.name, canary, canary_planting.TAKEN_STATUS)
            files.write(path, canary.content.removesuffix("\n").encode() + b"\n")

    def lose(self) -> None:
        """Lose files in memory with the processes."""
        if self.spec.limits.disk_mib is not None:
            self.files = self._make_files()

    @property
    def variables(self) -> dict[str, str]:
        return {**self.spec.env, **self.provisions.variables}

    def become(self, state: State) -> None:
        with self._changed:
            self.state = state
            self._changed.notify_all()

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def until_awake(self, is_over: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.state != "paused" or is_over())

    def is_dead(self, process: FakeProcess) -> bool:
        return process in self._dead

    def end_all(self) -> None:
        for process in list(self.processes):
            self._dead.add(process)
            process.end(137)
