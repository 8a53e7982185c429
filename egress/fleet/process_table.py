"""The processes of a fleet that clients find by their ids, in this process.

A process costs one thread while it runs. A follower costs none: it is woken by a callback. The number of
running processes, of ended ones that are kept, and of kept bytes is bounded for each sandbox.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, Self

from egress.errors import EgressError
from egress.fleet.errors import ProcessNotFoundError
from egress.fleet.http_probe import HttpProbe
from egress.fleet.process_interface import (
    DEFAULT_KEPT_BYTES,
    OutputName,
    OutputPiece,
    ProcessState,
    ProcessStatus,
)
from egress.fleet.process_wait import ProcessExpectation
from egress.fleet.terminal_replay import MAX_REPLAY_BYTES, TerminalModes, make_replay
from egress.fleet.terminal_viewer import MAX_PIECE_BYTES, TableViewer
from egress.runtime.argument_types import check_whole_number
from egress.runtime.byte_ring import ByteRing
from egress.runtime.errors import SandboxNotFoundError, SandboxStateError, SandboxTimeoutError, SpecError
from egress.runtime.process_signal import COMMAND_VARIABLE, send_signal, signal_name
from egress.runtime.protocol import Output, Runtime, RuntimeProcess
from egress.runtime.spec import MIB, Command, ExecResult, Terminal

MAX_RUNNING: Final = 64
"""Running processes of a sandbox."""
MAX_ENDED: Final = 16
"""Ended processes of a sandbox that are kept."""
MAX_KEPT_BYTES: Final = 8 * MIB
"""Bytes kept of one output."""
MIN_TERMINAL_BYTES: Final = 64 * 1024
"""The least to keep of the output of a terminal: what a client sees that attaches."""
MAX_VIEWERS: Final = 8
"""Clients at one terminal. A further one takes the place of the one that attached first."""
TYPING_SECONDS: Final = 5.0
"""Seconds in which another client's input has to be taken."""
NUDGE_SECONDS: Final = 0.1
"""Seconds of another size: programs look at the size after the signal, and do nothing for the same one."""
TERMINAL_TYPE: Final = "xterm-256color"


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - clients of other processes are told when it started


class TableProcess:
    """`TrackedProcess` in this process."""

    def __init__(
        self, table: ProcessTable, runtime: Runtime, name: str, command: Command, keep: int, now: datetime
    ) -> None:
        self._table = table
        self._runtime = runtime
        self._name = name
        self._token = secrets.token_hex(12)
        self._command = replace(command, env={**command.env, COMMAND_VARIABLE: self._token}, most_output=0)
        self._lock = threading.Lock()
        self._rings: dict[OutputName, ByteRing] = {"stdout": ByteRing(keep), "stderr": ByteRing(keep)}
        self._watchers: set[Callable[[], object]] = set()
        self._running: RuntimeProcess | None = None
        self._writing = threading.Lock()
        self._is_input_closed = command.input is not None
        self._modes = None if command.terminal is None else TerminalModes()
        self.size = command.terminal
        """The size of its terminal; None without one."""
        self._sizes: list[Terminal] = []
        """Sizes that are to be set, one after the other."""
        self._is_sizing = False
        self._viewers: list[TableViewer] = []
        """Those that attached first are first."""
        self.is_retired = False
        """Whether the table counts it as ended."""
        self._status = ProcessStatus(
            id=secrets.token_hex(8), sandbox=name, argv=command.argv, started=now, state="running"
        )

    @property
    def id(self) -> str:
        return self._status.id

    def __repr__(self) -> str:
        return f"<TableProcess {self.id} in {self._name!r}, {self._status.state}>"

    def begin(self) -> None:
        """Start the command. Raises the error of a failed start."""
        output = Output(lambda data: self._add("stdout", data), lambda data: self._add("stderr", data))
        running = self._runtime.spawn(self._name, self._command, output)
        self._running = running
        threading.Thread(target=self._await, args=(running,), name="egress-process", daemon=True).start()

    @property
    def is_visible(self) -> bool:
        """Whether it was started: a start that fails is never seen."""
        return self._running is not None

    @property
    def is_over(self) -> bool:
        return self._status.state != "running"

    def status(self) -> ProcessStatus:
        size = self.size
        if size is None:
            return self._status
        return replace(self._status, columns=size.columns, rows=size.rows)

    # Output

    def read(self, stream: OutputName = "stdout", offset: int = 0) -> OutputPiece:
        return self.read_piece(stream, offset, None)

    def read_piece(self, stream: OutputName, offset: int, most: int | None) -> OutputPiece:
        """Return at most this many bytes."""
        with self._lock:
            ring = self._rings[stream]
            if not 0 <= offset <= ring.end:
                raise SpecError("the output has not reached this offset", "ask from a lower offset on")
            at, data = ring.read(offset, most)
            return OutputPiece(at, data, ring.first)

    def follow(self, stream: OutputName = "stdout", offset: int = 0) -> TableFollower:
        self.read_piece(stream, offset, 0)
        return TableFollower(self, stream, offset)

    @contextmanager
    def watch(self, wake: Callable[[], object]) -> Iterator[None]:
        """Call `wake` at each output and at the end, from another thread. It must not block."""
        with self._lock:
            self._watchers.add(wake)
        try:
            yield
        finally:
            with self._lock:
                self._watchers.discard(wake)

    # The terminal

    def attach(self, columns: int, rows: int) -> TableViewer:
        viewer = self.view()
        viewer.redraw(columns, rows)
        return viewer

    def view(self) -> TableViewer:
        """Return a viewer of the terminal, whose size stays as it is. Raises `SandboxStateError`."""
        if self._modes is None:
            raise SandboxStateError("the process has no terminal", "follow its output")
        viewer = TableViewer(self)
        with self._lock:
            self._viewers.append(viewer)
            # A client whose connection was cut without a word must not keep others out.
            oldest = self._viewers.pop(0) if len(self._viewers) > MAX_VIEWERS else None
        if oldest is not None:
            oldest.evict()
        return viewer

    def detach(self, viewer: TableViewer) -> None:
        """Count a viewer no more, and wake it."""
        with self._lock:
            if viewer in self._viewers:
                self._viewers.remove(viewer)
            watchers = tuple(self._watchers)
        for wake in watchers:
            wake()

    def read_terminal(self) -> tuple[bytes, int]:
        """Return what shows the terminal as it is, and the offset of the output after that."""
        with self._lock:
            ring = self._rings["stdout"]
            at, data = ring.read(ring.end - MAX_REPLAY_BYTES)
            modes = self._modes or TerminalModes()
            return make_replay(data, modes, is_whole=at == 0), ring.end

    def resize(self, size: Terminal) -> None:
        """Change the size of the terminal; returns at once."""
        self._begin_sizes([size])

    def redraw(self, size: Terminal) -> None:
        """Change the size; a program with a screen of its own draws it again, also for the same size."""
        has_own_screen = self._modes is not None and self._modes.has_own_screen
        nudge = [replace(size, rows=size.rows - 1 or 2)] if self.size == size and has_own_screen else []
        self._begin_sizes([*nudge, size])

    def _begin_sizes(self, sizes: list[Terminal]) -> None:
        # One thread for all clients: input that the program does not read may hold it up for ever.
        with self._lock:
            self.size, self._sizes = sizes[-1], sizes
            is_free, self._is_sizing = not self._is_sizing, True
        if is_free:
            threading.Thread(target=self._set_sizes, name="egress-size", daemon=True).start()

    def _set_sizes(self) -> None:
        while True:
            with self._lock:
                # The newest wish counts: those before it were replaced.
                if not self._sizes or self._running is None or self.is_over:
                    self._is_sizing = False
                    return
                size, self._sizes = self._sizes[0], self._sizes[1:]
                has_more = bool(self._sizes)
            with suppress(EgressError):
                self._running.resize(size)
            if has_more:
                time.sleep(NUDGE_SECONDS)

    def type(self, data: bytes) -> None:
        """Type into the terminal. What the program does not take in some seconds is dropped."""
        if self._running is None or self.is_over or not self._writing.acquire(timeout=TYPING_SECONDS):
            return
        try:
            self._running.write(data)
        finally:
            self._writing.release()

    # Input and end

    def write(self, data: bytes) -> None:
        if self._modes is not None:
            self.type(data)
            return
        # One writer at a time: a process that reads nothing holds up one thread, and not one for each client.
        if not self._writing.acquire(blocking=False):
            raise SandboxStateError("another client writes to the process", "write after it")
        try:
            if self._running is None or self.is_over or self._is_input_closed:
                raise SandboxStateError(
                    "the input of the process is closed", "start it with stdin, and write before its end"
                )
            self._running.write(data)
        finally:
            self._writing.release()

    def close_input(self) -> None:
        self._is_input_closed = True
        if self._running is not None:
            self._running.close_input()

    def signal(self, name: str) -> None:
        known = signal_name(name)
        if not self.is_over:
            send_signal(lambda command: self._runtime.exec(self._name, command), self._token, known)

    def kill(self, grace: float = 2.0) -> None:
        if self._running is not None and not self.is_over:
            self._running.kill(grace)

    def expect(
        self, log: str = "", port: int | None = None, http: HttpProbe | None = None
    ) -> ProcessExpectation:
        """Return a wait for a text, a port or an answer; for the end without any. Raises `SpecError`."""
        return ProcessExpectation(self, lambda at: self._runtime.dial(self._name, at), log, port, http)

    def wait(
        self,
        timeout: float | None = None,
        *,
        log: str = "",
        port: int | None = None,
        http: HttpProbe | None = None,
    ) -> ProcessStatus:
        expected = self.expect(log, port, http)
        end = None if timeout is None else time.monotonic() + timeout
        changed = threading.Event()
        with self.watch(changed.set):
            while True:
                # Cleared before the look: a change after it wakes this thread again.
                changed.clear()
                if expected.is_met():
                    return self._status
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    raise late_error()
                changed.wait(expected.pause(left))

    def forget(self) -> None:
        self._table.drop(self)
        self.kill()
        self.lose()

    def lose(self) -> None:
        """Tell followers that nothing more comes."""
        self._settle("lost", None)

    # Internals

    def _add(self, stream: OutputName, data: bytes) -> None:
        with self._lock:
            self._rings[stream].add(data)
            if self._modes is not None:
                self._modes.feed(data)
            watchers = tuple(self._watchers)
        for wake in watchers:
            wake()

    def _await(self, running: RuntimeProcess) -> None:
        try:
            result = running.wait()
        except Exception:  # noqa: BLE001 - whatever it was, the sandbox told no status
            self._settle("lost", None)
        else:
            self._settle("ended", result)

    def _settle(self, state: ProcessState, result: ExecResult | None) -> None:
        # Before anybody can see the end: the number of ended ones is exact from then on.
        self._table.retire(self)
        with self._lock:
            if self.is_over:
                return
            self._status = replace(
                self._status,
                state=state,
                exit_code=None if result is None else result.exit_code,
                timed_out=result is not None and result.timed_out,
            )
            watchers = tuple(self._watchers)
        for wake in watchers:
            wake()


class TableFollower:
    """`OutputFollower` in this process."""

    def __init__(self, process: TableProcess, stream: OutputName, offset: int) -> None:
        self._process = process
        self._stream = stream
        self._offset = offset
        self._changed = threading.Event()
        self._is_closed = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> OutputPiece:
        with self._process.watch(self._changed.set):
            while not self._is_closed:
                self._changed.clear()
                # Asked before the read: what came before the end is read.
                is_over = self._process.is_over
                piece = self.poll()
                if piece is not None:
                    return piece
                if is_over:
                    break
                self._changed.wait()
        raise StopIteration

    def poll(self) -> OutputPiece | None:
        """Return the next piece, if it is there."""
        piece = self._process.read_piece(self._stream, self._offset, MAX_PIECE_BYTES)
        self._offset = piece.next
        return piece if piece.data else None

    def close(self) -> None:
        self._is_closed = True
        self._changed.set()


class ProcessTable:
    """`ProcessTracker` in this process."""

    def __init__(self, runtime: Runtime, clock: Callable[[], datetime] = _now) -> None:
        self._runtime = runtime
        self._clock = clock
        self._lock = threading.Lock()
        self._processes: dict[str, dict[str, TableProcess]] = {}

    def start(self, name: str, command: Command, keep: int = DEFAULT_KEPT_BYTES) -> TableProcess:
        check_whole_number("keep", keep)
        if not 0 <= keep <= MAX_KEPT_BYTES:
            raise SpecError(f"keep is not from 0 to {MAX_KEPT_BYTES} bytes", "keep less")
        if not isinstance(command.input, bytes | None):
            raise SpecError("a process of the table has no file as input", "write to it")
        if command.terminal is not None:
            if keep < MIN_TERMINAL_BYTES:
                raise SpecError(f"keep is below {MIN_TERMINAL_BYTES} bytes", "keep more of a terminal")
            command = replace(command, env={"TERM": TERMINAL_TYPE, **command.env})
        process = TableProcess(self, self._runtime, name, command, keep, self._clock())
        with self._lock:
            there = self._processes.setdefault(name, {})
            if sum(not each.is_over for each in there.values()) >= MAX_RUNNING:
                raise SandboxStateError(
                    f"{MAX_RUNNING} processes run in the sandbox {name}", "end one of them first"
                )
            # Listed before its start, so that a removal of the sandbox meanwhile takes it along.
            there[process.id] = process
        try:
            process.begin()
        except BaseException:
            self.drop(process)
            raise
        with self._lock:
            is_listed = process.id in self._processes.get(name, {})
        if not is_listed:
            process.forget()
            raise SandboxNotFoundError.named(name)
        return process

    def all(self, name: str) -> tuple[ProcessStatus, ...]:
        self._runtime.info(name)
        with self._lock:
            found = tuple(self._processes.get(name, {}).values())
        visible = (each.status() for each in found if each.is_visible)
        return tuple(sorted(visible, key=lambda each: each.started))

    def get(self, name: str, process: str) -> TableProcess:
        with self._lock:
            found = self._processes.get(name, {}).get(process)
        if found is None or not found.is_visible:
            raise ProcessNotFoundError(
                "the sandbox has no process of this id", "list them with `egress ps --processes`"
            )
        return found

    def forget(self, name: str) -> None:
        """Drop the processes of a sandbox that was removed."""
        with self._lock:
            gone = self._processes.pop(name, {})
        for each in gone.values():
            each.lose()

    def close(self) -> None:
        """Drop all processes."""
        for name in tuple(self._processes):
            self.forget(name)

    def drop(self, process: TableProcess) -> None:
        """List a process no more."""
        with self._lock:
            name = process.status().sandbox
            there = self._processes.get(name, {})
            there.pop(process.id, None)
            if not there:
                self._processes.pop(name, None)

    def retire(self, process: TableProcess) -> None:
        """Count a process as ended, and drop those that ended first beyond the number that is kept."""
        with self._lock:
            there = self._processes.get(process.status().sandbox, {})
            if process.is_retired or there.pop(process.id, None) is None:
                return
            process.is_retired = True
            # Behind all others: the dictionary has the ended ones in the order of their ends.
            there[process.id] = process
            ended = [each for each in there.values() if each.is_retired]
            for each in ended[: max(0, len(ended) - MAX_ENDED)]:
                del there[each.id]


def late_error() -> SandboxTimeoutError:
    """The error of a wait that took too long."""
    return SandboxTimeoutError("it did not happen within the given time", "wait longer")
