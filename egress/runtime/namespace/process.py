"""A command in a namespace sandbox, from outside: reads its streams, and its end from a line.

Waiting always ends. A command settles when init reports its end, with the output written by then: other
processes that hold the streams are not waited for. A hung-up line means that the sandbox is gone.
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
from typing import Final

from egress.runtime.command_result import CapturedStream, ResultFuture, feed_input
from egress.runtime.errors import PathNotFoundError, SandboxDiedError, SandboxError, SandboxStateError
from egress.runtime.namespace.inside.command import MAX_MESSAGE_BYTES
from egress.runtime.protocol import Output
from egress.runtime.spec import Command, ExecResult, Terminal, Values
from egress.unix.descriptors import receive

_READ_BYTES: Final = 64 * 1024
_POLL_INTERVAL_MS: Final = 200
"""Milliseconds between two checks whether a command that reads no input still runs."""
_TERMINAL_DRAIN: Final = (50, 40)
"""Milliseconds and number of reads after a command in a terminal: its output arrives late."""
_END_OF_INPUT_BYTE: Final = b"\x04"

Send = Callable[[list[int]], None]


class NamespaceProcess:
    """A command, from its start."""

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
        """Start the command. `send` passes descriptors to init. `is_open`: input comes by `write`."""
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
        """Set once the terminal has arrived, or without one."""
        passed: list[int] = []
        # The child's ends are closed here in any case: the streams end when the command's own copies close.
        try:
            request = _memory_file(self._request({**variables, **command.env}))
            passed.append(request)
            if command.terminal is None:
                passed += self._pipes(is_open=is_open or command.input is not None)
                self._is_there.set()
            self._started = time.monotonic()
            send([theirs.fileno(), *passed])
        except BaseException:
            self._close()
            raise
        finally:
            theirs.close()
            for each in passed:
                os.close(each)
        threading.Thread(target=self._read, name=f"egress-{name}", daemon=True).start()
        if command.input is not None:
            threading.Thread(target=self._feed, name=f"egress-{name}-input", daemon=True).start()

    # For the caller

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

    # Start

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
        passed = [stdin]
        for kept in (self._stdout, self._stderr):
            reads, writes = os.pipe()
            self._kept[reads] = kept
            passed.append(writes)
        return passed

    # Threads

    def _feed(self) -> None:
        feed_input(self._command.input, self.write, self._outcome)
        self.close_input()

    def _read(self) -> None:
        outcome: ExecResult | BaseException
        try:
            outcome = self._make_result(self._follow())
        except BaseException as error:  # noqa: BLE001 - raised again in the threads that wait
            outcome = error
        self._outcome.settle(outcome)
        self._is_there.set()
        self._close()

    def _follow(self) -> Mapping[str, object]:
        """Copy output until the end is reported; returns the report."""
        poll = select.poll()
        poll.register(self._line, select.POLLIN)
        for stream in self._kept:
            poll.register(stream, select.POLLIN)
        told: Mapping[str, object] = {}
        # Streams and the line are polled together: the report may come while output is still in a pipe.
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

    def _take(self, stream: int, max_bytes: int = _READ_BYTES) -> bool:
        try:
            data = os.read(stream, max_bytes)
        except BlockingIOError:
            return True
        except OSError:
            # A terminal reports an error once its last holder is gone.
            return False
        if data:
            self._kept[stream].add(data)
        return bool(data)

    def _take_rest(self) -> None:
        """Read the output written so far; other processes may hold the streams for ever."""
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
        timeout_ms, times = _TERMINAL_DRAIN
        poll = select.poll()
        poll.register(stream, select.POLLIN)
        for _ in range(times):
            if not poll.poll(timeout_ms) or not self._take(stream):
                return

    def _make_result(self, told: Mapping[str, object]) -> ExecResult | SandboxError:
        refused, status = told.get("refused"), told.get("exit")
        if refused == "folder":
            return PathNotFoundError(
                f"no folder {self._folder} in the sandbox {self._name}",
                "create it first, or choose another cwd",
            )
        if refused is not None:
            return SandboxStateError(
                f"cannot start a command in the sandbox {self._name}",
                "its limit of processes or memory may be reached",
            )
        # The line ended without a report: init is gone, and the sandbox with it.
        if not isinstance(status, int):
            return SandboxDiedError(
                f"the sandbox {self._name} ended during the command", "start it again, or remove it"
            )
        return ExecResult(
            exit_code=status,
            stdout_bytes=self._stdout.data(),
            stderr_bytes=self._stderr.data(),
            duration=time.monotonic() - self._started,
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
    """An anonymous file in memory with this content, readable by its receiver."""
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
