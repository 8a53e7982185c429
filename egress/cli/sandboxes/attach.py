"""A command in a sandbox, joined to the streams of this process: input, output, terminal and signals.

With a terminal on both sides each key goes in as it is, Ctrl-C included, and the terminal is put back in any
case. Without one, output and errors stay apart, and what would end this process ends the command first.
"""

from __future__ import annotations

import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import FrameType
from typing import Final

from egress.runtime.protocol import Output, Process
from egress.runtime.spec import Command, ExecResult, Terminal

_PIECE: Final = 64 * 1024
_GRACE: Final = 10.0
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STDIN, STDOUT, STDERR = 0, 1, 2

Begin = Callable[[Command, Output], Process]


def has_terminal() -> bool:
    """Whether a person sits at both ends."""
    return os.isatty(STDIN) and os.isatty(STDOUT)


def attach(begin: Begin, command: Command, *, terminal: bool) -> int:
    """Run a command to its end, joined to our streams; returns its status, or 128 and the signal's number."""
    return _at_terminal(begin, command) if terminal else _through_pipes(begin, command)


# A terminal ---------------------------------------------------------------------------------------


def _at_terminal(begin: Begin, command: Command) -> int:
    size = _size()
    process = begin(replace(command, terminal=size, timeout=None), Output(stdout=_Sink(STDOUT)))
    with _raw(), _watched(process, resized=lambda: process.resize(_size())) as seen:
        _feed(process)
        return _status(process.wait(), seen)


def _size() -> Terminal:
    columns, rows = os.get_terminal_size(STDOUT)
    return Terminal(columns=max(columns, 1), rows=max(rows, 1))


@contextmanager
def _raw() -> Iterator[None]:
    before = termios.tcgetattr(STDIN)
    try:
        tty.setraw(STDIN)
        yield
    finally:
        termios.tcsetattr(STDIN, termios.TCSADRAIN, before)


# Pipes --------------------------------------------------------------------------------------------


def _through_pipes(begin: Begin, command: Command) -> int:
    out, err = _Sink(STDOUT), _Sink(STDERR)
    process = begin(command, Output(stdout=out, stderr=err))
    out.is_lost = err.is_lost = lambda: process.kill(0)
    with _watched(process) as seen:
        _feed(process)
        return _status(process.wait(), seen)


class _Sink:
    """One of our streams. Once nobody reads it the command is told, and the rest goes nowhere."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._is_open = True
        self.is_lost: Callable[[], object] = lambda: None

    def __call__(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest and self._is_open:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            self._is_open = False
            # Not here: this is the thread that reads for the command, and ending it may wait for that.
            threading.Thread(target=self.is_lost, daemon=True).start()


# Both ---------------------------------------------------------------------------------------------


def _feed(process: Process) -> None:
    """Hand on what is typed or piped, beside everything else."""
    # It ends with us and not before: a read cannot be called off.
    threading.Thread(target=_copy_input, args=(process,), name="egress-input", daemon=True).start()


def _copy_input(process: Process) -> None:
    with suppress(OSError):
        while data := os.read(STDIN, _PIECE):
            process.write(data)
    process.close_input()


@contextmanager
def _watched(process: Process, resized: Callable[[], None] | None = None) -> Iterator[list[int]]:
    """Hand signals on to the command; yields the numbers of those that came."""
    seen: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        # The first asks politely, the second does not.
        seen.append(number)
        grace = _GRACE if len(seen) == 1 else 0.0
        threading.Thread(target=process.kill, args=(grace,), daemon=True).start()

    handlers: dict[int, Callable[[int, FrameType | None], object]] = dict.fromkeys(_ENDING, end)
    if resized is not None:
        handlers[signal.SIGWINCH] = lambda *_: resized()
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield seen
    finally:
        sys.stdout.flush()
        for number, handler in before.items():
            signal.signal(number, handler)


def _status(result: ExecResult, seen: list[int]) -> int:
    return 128 + seen[0] if seen and result.exit_code else result.exit_code
