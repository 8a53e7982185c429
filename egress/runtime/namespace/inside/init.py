"""The init process of a sandbox: starts commands, ends them, and reaps orphans.

When it ends, the kernel kills all other processes. It ends itself when the runtime or the door hangs up, so
no process outlives its owner. It never reads the output of a command.
Protocol:

    control line: `spawn` with a socket for that command, its request as a file, and its streams unless it
    gets a terminal; `pause` and `resume`, each answered with `done`
    command's line: `{"kill": SECONDS}` in; `{"pty": true}` with the terminal, `{"refused": WHY}`, and finally
    `{"exit": STATUS, "timed_out": BOOL}` out
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from egress.runtime.namespace.inside import command, system_calls
from egress.runtime.namespace.inside.command import MAX_MESSAGE_BYTES, Confinement
from egress.unix.descriptors import receive

_MAX_REQUEST_BYTES: Final = 16 * 1024 * 1024
_TICK_INTERVAL: Final = 0.02
_TIMED_OUT_STATUS: Final = 124
_TERMINATED_STATUS: Final = 143
_KILLED_STATUS: Final = 137


@dataclass(slots=True)
class _Command:
    line: socket.socket
    number: int
    has_terminal: bool
    deadline: float | None
    grace: float
    status: int | None = None
    """The exit status, 128 plus the number for signals."""
    why: int | None = None
    """The exit status that an ended command reports: timeout or kill."""
    kill_at: float = field(default=0.0)
    was_killed: bool = False


class InitProcess:
    """The event loop of the init process."""

    def __init__(self, confinement: Confinement, control: socket.socket, life: int) -> None:
        self._confinement = confinement
        self._control = control
        self._life = life
        self._commands: dict[int, _Command] = {}
        self._poll = select.poll()
        # Signals wake the poll through a pipe: a signal between two polls is not lost.
        self._wake, wake = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(self._wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # The kernel ignores unhandled signals for init; Python's own handler would make SIGINT fatal.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for watched in (control.fileno(), life, self._wake):
            self._poll.register(watched, select.POLLIN)

    def run(self) -> None:
        """Serve until a line is hung up."""
        system_calls.be_readable(by_others=False)
        self._control.send(b"ready")
        while True:
            ready = {number for number, _ in self._poll.poll(self._poll_timeout())}
            if self._life in ready:
                return
            if self._wake in ready:
                with suppress(BlockingIOError):
                    os.read(self._wake, MAX_MESSAGE_BYTES)
            self._reap()
            # Before a new command: its line may reuse the number of a closed one.
            for each in [each for each in self._commands.values() if each.line.fileno() in ready]:
                self._read_line(each)
            if self._control.fileno() in ready and not self._obey():
                return
            self._check_deadlines()

    # Requests

    def _obey(self) -> bool:
        message, descriptors = receive(self._control, MAX_MESSAGE_BYTES, 8)
        if message == b"spawn":
            self._spawn(descriptors)
        elif message in (b"pause", b"resume"):
            with suppress(ProcessLookupError):
                os.kill(-1, signal.SIGSTOP if message == b"pause" else signal.SIGCONT)
            self._control.send(b"done")
        return bool(message)

    def _spawn(self, descriptors: list[int]) -> None:
        line = socket.socket(fileno=descriptors[0])
        streams: list[int] = list(descriptors[2:])
        # The descriptors are the command's line, the request file, and its streams; none for a terminal.
        try:
            self._check_process_limit()
            request = json.loads(os.pread(descriptors[1], _MAX_REQUEST_BYTES, 0))
            if not streams:
                streams = [self._terminal(line)]
            number = self._fork(request, streams, line)
        except OSError as error:
            room = error.errno in (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC)
            _tell(line, {"refused": "room" if room else "rights"})
            line.close()
        else:
            timeout = request["timeout"]
            deadline = None if timeout is None else time.monotonic() + timeout
            self._commands[number] = _Command(line, number, len(streams) == 1, deadline, request["grace"])
            self._poll.register(line, select.POLLIN)
        finally:
            for each in {descriptors[1], *streams}:
                os.close(each)

    def _check_process_limit(self) -> None:
        """Enforce the process limit: the kernel does not count forks of the privileged init."""
        limit = self._confinement.bounds.get("processes")
        if limit is not None and _count() > limit:
            raise BlockingIOError(errno.EAGAIN, "too many processes")

    def _fork(self, request: dict[str, object], streams: list[int], line: socket.socket) -> int:
        number = os.fork()
        if number:
            return number
        # In the child: any way out but the command's program has to exit, or a second init would run on.
        try:
            signal.set_wakeup_fd(-1)
            command.begin(self._confinement, request, streams, line)
        finally:
            os._exit(command.NOT_BEGUN_STATUS)

    def _terminal(self, line: socket.socket) -> int:
        master, slave = os.openpty()
        try:
            os.fchown(slave, self._confinement.terminal_owner, -1)
            socket.send_fds(line, [b'{"pty": true}'], [master])
        except OSError:
            os.close(slave)
            raise
        finally:
            os.close(master)
        return slave

    def _read_line(self, each: _Command) -> None:
        try:
            message = each.line.recv(MAX_MESSAGE_BYTES)
        except OSError:
            message = b""
        if message:
            self._end(each, _TERMINATED_STATUS, float(json.loads(message)["kill"]))
        else:
            # The caller has hung up; the command goes on.
            self._poll.unregister(each.line)
            each.line.close()
            self._commands.pop(each.number)

    # Commands

    def _reap(self) -> None:
        for number, status in system_calls.reaped():
            each = self._commands.get(number)
            if each is not None:
                code = os.waitstatus_to_exitcode(status)
                each.status = code if code >= 0 else 128 - code
                if each.why is None:
                    self._settle(each)

    def _poll_timeout(self) -> int | None:
        ends = [each.deadline for each in self._commands.values() if each.deadline and each.why is None]
        if any(each.why is not None for each in self._commands.values()):
            return round(_TICK_INTERVAL * 1000)
        return max(0, round((min(ends) - time.monotonic()) * 1000) + 1) if ends else None

    def _check_deadlines(self) -> None:
        now = time.monotonic()
        for each in list(self._commands.values()):
            if each.why is None and each.deadline is not None and now >= each.deadline:
                self._end(each, _TIMED_OUT_STATUS, each.grace)
            elif each.why is not None:
                self._progress_kill(each, now)

    def _end(self, each: _Command, why: int, grace: float) -> None:
        if each.why is None:
            each.why = why
            each.kill_at = time.monotonic() + grace
            if each.has_terminal:
                # Interactive shells ignore SIGTERM.
                self._signal(each, signal.SIGHUP)
            self._signal(each, signal.SIGTERM)
            # A stopped process handles SIGTERM only after SIGCONT.
            self._signal(each, signal.SIGCONT)
            self._progress_kill(each, time.monotonic())
        else:
            each.kill_at = min(each.kill_at, time.monotonic() + grace)

    def _progress_kill(self, each: _Command, now: float) -> None:
        """Settle an ending command whose group is gone, or kill the group after its grace."""
        if each.status is not None and (each.was_killed or not self._signal(each, 0)):
            self._settle(each)
        elif now >= each.kill_at and not each.was_killed:
            each.was_killed = True
            self._signal(each, signal.SIGKILL)
            if each.status is not None:
                self._settle(each)

    def _signal(self, each: _Command, number: int) -> bool:
        try:
            os.killpg(each.number, number)
        except ProcessLookupError:
            # The child may not have called setsid yet.
            if each.status is None:
                os.kill(each.number, number)
                return True
            return False
        return True

    def _settle(self, each: _Command) -> None:
        if each.why == _TERMINATED_STATUS:
            code = _KILLED_STATUS if each.status == _KILLED_STATUS else _TERMINATED_STATUS
        else:
            code = each.why if each.why is not None else each.status or 0
        _tell(each.line, {"exit": code, "timed_out": each.why == _TIMED_OUT_STATUS})
        self._poll.unregister(each.line)
        each.line.close()
        del self._commands[each.number]


def _count() -> int:
    with os.scandir("/proc") as entries:
        return sum(entry.name.isdigit() for entry in entries)


def _tell(line: socket.socket, what: dict[str, object]) -> None:
    with suppress(OSError):
        line.send(json.dumps(what).encode())
