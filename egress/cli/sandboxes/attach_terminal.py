"""This terminal at the terminal of a process in a sandbox, until a key detaches it.

One thread shows output, one types, and this one waits for keys, for signals and for the end: a program that
reads nothing, or a connection that stands still, never holds up the key.
"""

from __future__ import annotations

import os
import queue
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final, Literal

from egress.cli.sandboxes.command_streams import STDIN, STDOUT, raw_terminal, terminal_size
from egress.errors import EgressError
from egress.fleet.process_interface import TerminalViewer, TrackedProcess
from egress.fleet.terminal_replay import TerminalModes

DETACH_KEY: Final = b"\x1c"
"""Control and backslash, as abduco and dtach have it: no program waits for it."""
_PIECE_BYTES: Final = 64 * 1024
_MAX_TYPED: Final = 64
"""Pieces of input that wait for the program; what is typed beyond them is dropped."""
_LEAVING: Final = (signal.SIGTERM, signal.SIGHUP)
_JOIN_TIMEOUT: Final = 5.0
_SHOWN_BYTE: Final = b"\0"
"""Says that the output has ended, beside the numbers of signals."""


def attach_here(process: TrackedProcess) -> Literal["detached", "ended"]:
    """Attach until the program ends or the user detaches. Raises the error with which the output ended."""
    size = terminal_size()
    with ExitStack() as stack:
        signals = stack.enter_context(_signals())
        viewer = process.attach(size.columns, size.rows)
        modes = TerminalModes()
        shown = _Output(viewer, modes, signals.writer)
        typed: queue.Queue[bytes] = queue.Queue(_MAX_TYPED)
        thread = threading.Thread(target=shown.run, name="egress-shown", daemon=True)
        stack.enter_context(raw_terminal())
        # In this order at the end: no output comes behind what sets this terminal back.
        stack.callback(lambda: _write(modes.restoring + b"\r\n"))
        stack.callback(thread.join, _JOIN_TIMEOUT)
        stack.callback(viewer.close)
        thread.start()
        threading.Thread(target=_type, args=(viewer, typed), name="egress-typed", daemon=True).start()
        is_over = _wait(viewer, typed, signals.reader)
    if shown.error is not None:
        raise shown.error
    return "ended" if is_over else "detached"


def _wait(viewer: TerminalViewer, typed: queue.Queue[bytes], woken: int) -> bool:
    """Take keys and signals; returns whether the output has ended."""
    while True:
        ready, _, _ = select.select([STDIN, woken], [], [])
        if woken in ready:
            numbers = os.read(woken, _PIECE_BYTES)
            if signal.SIGWINCH in numbers:
                size = terminal_size()
                viewer.resize(size.columns, size.rows)
            if _SHOWN_BYTE in numbers:
                return True
            if any(number in numbers for number in _LEAVING):
                return False
        if STDIN in ready:
            keys = os.read(STDIN, _PIECE_BYTES)
            before, found, _ = keys.partition(DETACH_KEY)
            with suppress(queue.Full):
                typed.put_nowait(before)
            if found or not keys:
                return False


def _type(viewer: TerminalViewer, typed: queue.Queue[bytes]) -> None:
    # The thread that shows output tells what is wrong with the connection.
    with suppress(EgressError):
        while True:
            if keys := typed.get():
                viewer.write(keys)


class _Output:
    """Shows output, and follows the modes that it sets."""

    def __init__(self, viewer: TerminalViewer, modes: TerminalModes, woken: int) -> None:
        self._viewer = viewer
        self._modes = modes
        self._woken = woken
        self.error: EgressError | None = None

    def run(self) -> None:
        try:
            for piece in self._viewer:
                self._modes.feed(piece)
                _write(piece)
        except EgressError as error:
            self.error = error
        except OSError:
            """Nobody reads any more: that detaches, and does not end the process."""
        os.write(self._woken, _SHOWN_BYTE)


class _Signals:
    """A pipe that gets the number of each signal."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.writer, False)


@contextmanager
def _signals() -> Iterator[_Signals]:
    """Lead signals into a pipe: a handler that sent a message could wait for itself."""
    signals = _Signals()
    before = {each: signal.signal(each, lambda *_: None) for each in (signal.SIGWINCH, *_LEAVING)}
    woken = signal.set_wakeup_fd(signals.writer)
    try:
        yield signals
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(signals.reader)
        os.close(signals.writer)


def _write(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(STDOUT, rest) :]
