"""A `Runtime` of plain processes of this machine, for tests: real shells and real files, and no walls at all.

What a sandbox has for a workspace is a folder of the test; everything else is this machine's.
"""

from __future__ import annotations

import fcntl
import os
import pty
import shutil
import signal
import socket
import struct
import subprocess
import tarfile
import tempfile
import termios
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from egress.runtime import transfer
from egress.runtime.command_result import CapturedStream
from egress.runtime.errors import (
    PathNotFoundError,
    PortClosedError,
    SandboxDiedError,
    SandboxExistsError,
    SandboxNotFoundError,
    SandboxStateError,
)
from egress.runtime.protocol import NO_OUTPUT, Output
from egress.runtime.spec import (
    NO_VALUES,
    WORKSPACE,
    Command,
    Event,
    ExecResult,
    Info,
    Spec,
    State,
    Terminal,
    Values,
)
from egress.runtime.tar_filter import filter_archive
from tests.runtime.script import supervisor


class LocalSandbox:
    def __init__(self, spec: Spec, folder: Path) -> None:
        self.spec = spec
        self.folder = folder
        self.state: State = "created"
        self.processes: set[LocalProcess] = set()


class LocalProcess:
    def __init__(self, box: LocalSandbox, command: Command, output: Output, *, is_open: bool) -> None:
        self._box = box
        self._command = command
        self._began = time.monotonic()
        self._out = CapturedStream(command.most_output, output.stdout)
        self._err = CapturedStream(command.most_output, output.stderr)
        folder = command.cwd or str(box.folder)
        if not Path(folder).is_dir():
            raise PathNotFoundError(f"there is no folder {folder}", "create it first")
        env = {"PATH": os.defpath, "HOME": str(box.folder), **box.spec.env, **command.env}
        self.is_dead = False
        self._terminal: int | None = None
        self._failure: Exception | None = None
        if command.terminal is None:
            turns = str(round(command.grace * 20))
            words = ["/bin/sh", str(supervisor()), "run", "t", f"{command.timeout or 0:g}", turns, folder]
            self._process = subprocess.Popen(
                [*words, *command.argv],
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            ends = [(self._process.stdout, self._out), (self._process.stderr, self._err)]
        else:
            self._terminal, inner = pty.openpty()
            self.resize(command.terminal)
            self._process = subprocess.Popen(
                ["setsid", "-c", "-w", *command.argv],
                env=env,
                cwd=folder,
                stdin=inner,
                stdout=inner,
                stderr=inner,
            )
            os.close(inner)
            ends = [(os.fdopen(os.dup(self._terminal), "rb", 0), self._out)]
        self._readers = [threading.Thread(target=self._read, args=each, daemon=True) for each in ends]
        for reader in self._readers:
            reader.start()
        if command.input is not None:
            threading.Thread(target=self._feed, args=(command.input,), daemon=True).start()
        elif not is_open:
            self.close_input()
        box.processes.add(self)

    def _read(self, source: BinaryIO, kept: CapturedStream) -> None:
        try:
            with suppress(OSError), source:
                while piece := os.read(source.fileno(), 65536):
                    kept.add(piece)
        except Exception as error:  # noqa: BLE001 - whatever a test raises
            # Of the callback: it ends the command, and is raised where that is waited for.
            self._failure = error
            self.kill(0)

    def _feed(self, source: bytes | BinaryIO) -> None:
        if isinstance(source, bytes):
            self.write(source)
        else:
            while piece := source.read(65536):
                self.write(piece)
        self.close_input()

    def write(self, data: bytes) -> None:
        with suppress(OSError, ValueError):
            if self._terminal is not None:
                os.write(self._terminal, data)
            elif self._process.stdin is not None:
                self._process.stdin.write(data)
                self._process.stdin.flush()

    def close_input(self) -> None:
        if self._terminal is None and self._process.stdin is not None:
            # Whoever feeds it may close it at the same moment.
            with suppress(OSError, ValueError):
                self._process.stdin.close()

    def resize(self, terminal: Terminal) -> None:
        terminal_end = self._terminal
        if terminal_end is not None:
            size = struct.pack("HHHH", terminal.rows, terminal.columns, 0, 0)
            # It may end at this moment.
            with suppress(OSError):
                fcntl.ioctl(terminal_end, termios.TIOCSWINSZ, size)

    def kill(self, grace: float = 2.0) -> None:
        with suppress(ProcessLookupError):
            if self._terminal is not None:
                os.close(self._terminal)
                self._terminal = None
                self._process.kill()
            elif grace == 0:
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                os.killpg(self._process.pid, signal.SIGTERM)

    def wait(self, timeout: float | None = None) -> ExecResult:
        try:
            status = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        for reader in self._readers:
            reader.join(5)
        self.close_input()
        self._box.processes.discard(self)
        if self.is_dead:
            raise SandboxDiedError(f"the sandbox {self._box.spec.name} ended under it", "restart it")
        if self._failure is not None:
            raise self._failure
        status = 128 - status if status < 0 else status
        limit = self._command.timeout
        duration = time.monotonic() - self._began
        return ExecResult(
            exit_code=status,
            stdout_bytes=self._out.data(),
            stderr_bytes=self._err.data(),
            duration=duration,
            timed_out=status == 124 and limit is not None and duration >= limit,
            truncated=self._out.truncated or self._err.truncated,
        )


class LocalRuntime:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._boxes: dict[str, LocalSandbox] = {}
        self.canaries: tuple[str, ...] = ()
        """The paths of canary files, in every sandbox."""

    def create(self, spec: Spec) -> Info:
        if spec.name in self._boxes:
            raise SandboxExistsError(f"there is a sandbox {spec.name} already", "remove it first")
        folder = self._folder / spec.name / "workspace"
        folder.mkdir(parents=True)
        self._boxes[spec.name] = LocalSandbox(spec, folder)
        return self.info(spec.name)

    def start(self, name: str) -> Info:
        self._box(name).state = "running"
        return self.info(name)

    def stop(self, name: str) -> None:
        box = self._box(name)
        box.state = "stopped"
        for process in list(box.processes):
            process.is_dead = True
            process.kill(0)

    def remove(self, name: str) -> None:
        if name in self._boxes:
            self.stop(name)
            shutil.rmtree(self._boxes.pop(name).folder.parent)

    def pause(self, name: str) -> None:
        self._box(name).state = "paused"

    def resume(self, name: str) -> None:
        self._box(name).state = "running"

    def spawn(self, name: str, command: Command, output: Output = NO_OUTPUT) -> LocalProcess:
        return LocalProcess(self._running(name), command, output, is_open=command.input is None)

    def exec(self, name: str, command: Command, output: Output = NO_OUTPUT) -> ExecResult:
        return LocalProcess(self._running(name), command, output, is_open=False).wait()

    def open_ports(self, name: str, ports: tuple[int, ...]) -> None:
        """All are open here."""

    def prepare(self, spec: Spec, count: int) -> None:
        """There is nothing to be made ahead."""

    def dial(self, name: str, port: int) -> socket.socket:
        self._running(name)
        try:
            return socket.create_connection(("127.0.0.1", port), 5)
        except OSError:
            raise PortClosedError(f"nothing listens on port {port}", "start it first") from None

    def put(self, name: str, path: str, archive: BinaryIO) -> None:
        path = self._path(name, path)
        if not Path(path).is_dir():
            raise PathNotFoundError(f"there is no folder {path}", "create it first")
        with tempfile.TemporaryFile() as file:
            filter_archive(archive, file)
            file.seek(0)
            with tarfile.open(fileobj=file) as tar:
                tar.extractall(path, filter="data")

    @contextmanager
    def get(self, name: str, path: str) -> Iterator[BinaryIO]:
        source = Path(self._path(name, path))
        if not source.exists():
            raise PathNotFoundError(f"there is no {path}", "look above it")
        with tempfile.TemporaryFile() as raw, tempfile.TemporaryFile() as file:
            with tarfile.open(fileobj=raw, mode="w") as tar:
                tar.add(source, "." if source.is_dir() else source.name)
            raw.seek(0)
            filter_archive(raw, file)
            file.seek(0)
            yield file

    def archive(
        self, name: str, path: str, target: BinaryIO, max_bytes: int, omit: Collection[str] = ()
    ) -> None:
        run = partial(self.exec, name)
        transfer.write_archive(run, name, self._path(name, path), target, max_bytes, omit)

    def planted(self, name: str) -> tuple[str, ...]:
        self._running(name)
        return self.canaries

    def _path(self, name: str, path: str) -> str:
        """Where a path of the sandbox is on this machine: its workspace is a folder of its own."""
        box = self._running(name)
        return str(box.folder) if path == WORKSPACE else path

    def info(self, name: str) -> Info:
        box = self._box(name)
        return Info(name=name, image=box.spec.image, state=box.state, labels=box.spec.labels)

    def list(self, labels: Values = NO_VALUES) -> tuple[Info, ...]:
        found = (self.info(name) for name in sorted(self._boxes))
        return tuple(info for info in found if labels.items() <= info.labels.items())

    @contextmanager
    def events(self) -> Iterator[Iterator[Event]]:
        yield iter(())

    def close(self) -> None:
        for name in list(self._boxes):
            self.remove(name)

    def _box(self, name: str) -> LocalSandbox:
        if name not in self._boxes:
            raise SandboxNotFoundError(f"there is no sandbox {name}", "create it first")
        return self._boxes[name]

    def _running(self, name: str) -> LocalSandbox:
        box = self._box(name)
        if box.state == "stopped":
            raise SandboxDiedError(f"the sandbox {name} has ended", "restart it")
        if box.state != "running":
            raise SandboxStateError(f"the sandbox {name} is {box.state}", "start it")
        return box
