"""A command in a namespace sandbox, from outside: its streams are read here, its end is told by a line.

Whoever waits is never left waiting. A command settles when the first process of the sandbox tells its end,
and with what was written by then: others that still hold the streams are not waited for. Where the line is
hung up the sandbox is gone.
"""

from __future__ import annotations

import array
import fcntl
import json
import os
import select
import socket
import struct
import termios
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import BinaryIO, Final

from egress.runtime.command_result import CapturedStream, ResultFuture
from egress.runtime.errors import PathNotFoundError, SandboxDiedError, SandboxError, SandboxStateError
from egress.runtime.namespace.inside.command import MAX_MESSAGE_BYTES
from egress.runtime.protocol import Output
from egress.runtime.spec import Command, ExecResult, Terminal, Values
from egress.unix.descriptors import receive

_READ_BYTES: Final = 64 * 1024
_POLL_INTERVAL_MS: Final = 200
"""Milliseconds between two looks at whether a command that takes no input still runs."""
_TERMINAL_DRAIN: Final = (50, 40)
"""Milliseconds, and times, that a terminal is read after its command: its output comes a little late."""
_END_OF_INPUT_BYTE: Final = b"\x04"

Send = Callable[[list[int]], None]


class NamespaceProcess:
    """One command, from its beginning on."""

    def __init__(
        self,
        name: str,
        folder: str,
        variables: Values,
        command: Command,
        output: Output,
        send: Send,
        *,
        is_open: bool,
    ) -> None:
        """Begin it. `send` hands descriptors to the first process. `is_open`: input comes by `write`."""
        self._name = name
        self._folder = command.cwd or folder
        self._command = command
        self._stdout = CapturedStream(command.most_output, output.stdout)
        self._stderr = CapturedStream(command.most_output, output.stderr)
        self._outcome = ResultFuture()
        self._writing = threading.Lock()
        self._kept: dict[int, CapturedStream] = {}
        self._input = -1
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._is_there = threading.Event()
        """Whether its terminal has come, where it has one."""
        given: list[int] = []
        try:
            request = _memory_file(self._request({**variables, **command.env}))
            given.append(request)
            if command.terminal is None:
                given += self._pipes(is_open=is_open or command.input is not None)
                self._is_there.set()
            self._began = time.monotonic()
            send([theirs.fileno(), *given])
        except BaseException:
            self._close()
            raise
        finally:
            theirs.close()
            for each in given:
                os.close(each)
        threading.Thread(target=self._read, name=f"egress-{name}", daemon=True).start()
        if command.input is not None:
            threading.Thread(target=self._feed, name=f"egress-{name}-input", daemon=True).start()

    # For whoever began it

    def write(self, data: bytes) -> None:
        self._is_there.wait()
        left = memoryview(data)
        with self._writing:
            while left and self._input >= 0 and not self._outcome.is_settled():
                poll = select.poll()
                poll.register(self._input, select.POLLOUT)
                if not poll.poll(_POLL_INTERVAL_MS):
                    continue
                try:
                    left = left[os.write(self._input, left[:_READ_BYTES]) :]
                except BlockingIOError:
                    continue
                except OSError:
                    return

    def close_input(self) -> None:
        if self._command.terminal is not None:
            self.write(_END_OF_INPUT_BYTE)
            return
        with self._writing:
            if self._input >= 0:
                os.close(self._input)
                self._input = -1

    def resize(self, terminal: Terminal) -> None:
        self._is_there.wait()
        with self._writing:
            if self._command.terminal is not None and self._input >= 0:
                with suppress(OSError):
                    _set_size(self._input, terminal)

    def kill(self, grace: float = 2.0) -> None:
        with suppress(OSError):
            self._line.send(json.dumps({"kill": grace}).encode())

    def wait(self, timeout: float | None = None) -> ExecResult:
        return self._outcome.wait(timeout)

    # Its beginning

    def _request(self, variables: Mapping[str, str]) -> bytes:
        command = self._command
        if command.terminal is not None:
            variables = {"TERM": "xterm-256color", **variables}
        wanted = {
            "argv": list(command.argv),
            "env": dict(variables),
            "folder": self._folder,
            "timeout": command.timeout,
            "grace": command.grace,
        }
        return json.dumps(wanted).encode()

    def _pipes(self, *, is_open: bool) -> list[int]:
        if is_open:
            stdin, self._input = os.pipe()
            os.set_blocking(self._input, False)
        else:
            stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        given = [stdin]
        for kept in (self._stdout, self._stderr):
            reads, writes = os.pipe()
            self._kept[reads] = kept
            given.append(writes)
        return given

    # The threads

    def _feed(self) -> None:
        source = self._command.input
        if isinstance(source, bytes):
            self.write(source)
        elif source is not None:
            self._copy(source)
        self.close_input()

    def _copy(self, source: BinaryIO) -> None:
        # What it is read from is the caller's, and can fail in any way: the command then gets what there was.
        with suppress(OSError, ValueError):
            while not self._outcome.is_settled() and (piece := source.read(_READ_BYTES)):
                self.write(piece)

    def _read(self) -> None:
        came: ExecResult | BaseException
        try:
            came = self._make_result(self._follow())
        except BaseException as error:  # noqa: BLE001 - told to whoever waits
            came = error
        self._outcome.settle(came)
        self._is_there.set()
        self._close()

    def _follow(self) -> Mapping[str, object]:
        """Read until the end is told; returns what was told."""
        poll = select.poll()
        poll.register(self._line, select.POLLIN)
        for stream in self._kept:
            poll.register(stream, select.POLLIN)
        told: Mapping[str, object] = {}
        while True:
            for number, _ in poll.poll():
                if number != self._line.fileno():
                    if not self._take(number):
                        poll.unregister(number)
                        self._drop(number)
                    continue
                message, descriptors = _receive(self._line)
                found = _values(message)
                if found.get("pty") is True and len(descriptors) == 1 and not self._kept:
                    self._take_terminal(descriptors[0])
                    poll.register(descriptors[0], select.POLLIN)
                    continue
                for each in descriptors:
                    os.close(each)
                told = {**found, **told}
                if "exit" in told or not message:
                    self._take_rest()
                    return told

    def _take_terminal(self, master: int) -> None:
        os.set_blocking(master, False)
        self._kept[master] = self._stdout
        self._input = os.dup(master)
        if self._command.terminal is not None:
            _set_size(master, self._command.terminal)
        self._is_there.set()

    def _take(self, stream: int, most: int = _READ_BYTES) -> bool:
        try:
            data = os.read(stream, most)
        except BlockingIOError:
            return True
        except OSError:
            # What a terminal says when nobody holds it any more.
            return False
        if data:
            self._kept[stream].add(data)
        return bool(data)

    def _take_rest(self) -> None:
        """What has been written by now; others may go on writing for ever."""
        for stream in list(self._kept):
            if self._command.terminal is not None:
                self._take_late(stream)
                continue
            left = array.array("i", [0])
            fcntl.ioctl(stream, termios.FIONREAD, left)
            count = left[0]
            while count > 0:
                before = min(count, _READ_BYTES)
                if not self._take(stream, before):
                    break
                count -= before

    def _take_late(self, stream: int) -> None:
        patience, times = _TERMINAL_DRAIN
        poll = select.poll()
        poll.register(stream, select.POLLIN)
        for _ in range(times):
            if not poll.poll(patience) or not self._take(stream):
                return

    def _make_result(self, told: Mapping[str, object]) -> ExecResult | SandboxError:
        refused, status = told.get("refused"), told.get("exit")
        if refused == "folder":
            return PathNotFoundError(
                f"there is no folder {self._folder} in the sandbox {self._name}",
                "make it first, or name another cwd",
            )
        if refused is not None:
            return SandboxStateError(
                f"no command can begin in the sandbox {self._name}",
                "it may have no room for another process, or no memory: see its limits",
            )
        if not isinstance(status, int):
            return SandboxDiedError(
                f"the sandbox {self._name} ended under the command", "start it again, or remove it"
            )
        return ExecResult(
            exit_code=status,
            stdout=self._stdout.data(),
            stderr=self._stderr.data(),
            duration=time.monotonic() - self._began,
            timed_out=told.get("timed_out") is True,
            truncated=self._stdout.truncated or self._stderr.truncated,
        )

    def _drop(self, stream: int) -> None:
        self._kept.pop(stream)
        os.close(stream)

    def _close(self) -> None:
        with self._writing:
            if self._input >= 0:
                os.close(self._input)
                self._input = -1
            for stream in list(self._kept):
                self._drop(stream)
            self._line.close()


def _memory_file(data: bytes) -> int:
    """A file of memory that holds this, for somebody else to read."""
    file = os.memfd_create("egress", os.MFD_CLOEXEC)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(file, left) :]
    except OSError:
        os.close(file)
        raise
    return file


def _receive(line: socket.socket) -> tuple[bytes, list[int]]:
    try:
        return receive(line, MAX_MESSAGE_BYTES, 2)
    except OSError:
        return b"", []


def _values(message: bytes) -> Mapping[str, object]:
    try:
        found = json.loads(message) if message else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _set_size(terminal: int, size: Terminal) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))
