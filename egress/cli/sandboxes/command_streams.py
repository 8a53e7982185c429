"""Connect a command in a sandbox to the streams of this process: input, output, terminal and signals.

With a terminal on both sides, each key is passed on as it is, Ctrl-C included, and the terminal is always
restored. Without one, output and errors stay separate, and signals that would end this process end the
command first.
"""

from __future__ import annotations

import os
import signal
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import FrameType
from typing import Final, Self

from egress.runtime.protocol import Output, RuntimeProcess
from egress.runtime.spec import Command, ExecResult, Terminal

_PIECE: Final = 64 * 1024
_STOP_TIMEOUT: Final = 10.0
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STDIN, STDOUT, STDERR = 0, 1, 2

Begin = Callable[[Command, Output], RuntimeProcess]


def has_terminal() -> bool:
    """Report whether input and output are a terminal."""
    return os.isatty(STDIN) and os.isatty(STDOUT)


def attach(begin: Begin, command: Command, *, terminal: bool) -> int:
    """Run a command connected to our streams; return its status, or 128 plus the signal's number."""
    return _at_terminal(begin, command) if terminal else _through_pipes(begin, command)


# A terminal ---------------------------------------------------------------------------------------


def _at_terminal(begin: Begin, command: Command) -> int:
    # The spec refuses a timeout at a terminal: `create` limits the sandbox instead.
    wanted = replace(command, terminal=terminal_size(), timeout=None)
    with raw_terminal(), SignalForwarder() as signals:
        process = begin(wanted, Output(stdout=_Sink(STDOUT, signals.lost)))
        signals.belong_to(process, resized=lambda: process.resize(terminal_size()))
        _feed(process)
        return signals.status(process.wait())


def terminal_size() -> Terminal:
    """Return the size of our terminal."""
    columns, rows = os.get_terminal_size(STDOUT)
    return Terminal(columns=max(columns, 1), rows=max(rows, 1))


@contextmanager
def raw_terminal() -> Iterator[None]:
    """Pass each key on as it is, until the end of the context."""
    before = termios.tcgetattr(STDIN)
    try:
        tty.setraw(STDIN)
        yield
    finally:
        # The terminal may be gone, and this process about to end.
        with suppress(termios.error):
            termios.tcsetattr(STDIN, termios.TCSADRAIN, before)


# Pipes --------------------------------------------------------------------------------------------


def _through_pipes(begin: Begin, command: Command) -> int:
    with SignalForwarder() as signals:
        out, err = _Sink(STDOUT, signals.lost), _Sink(STDERR, signals.lost)
        process = begin(command, Output(stdout=out, stderr=err))
        signals.belong_to(process)
        _feed(process)
        return signals.status(process.wait())


class _Sink:
    """An output stream of ours. If its reader goes away, the command is killed and the rest dropped."""

    def __init__(self, descriptor: int, lost: Callable[[], object]) -> None:
        self._descriptor = descriptor
        self._is_open = True
        self._lost = lost

    def __call__(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest and self._is_open:
                # A pipe may accept only a part of the data.
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            self._is_open = False
            self._lost()


# Both ---------------------------------------------------------------------------------------------


def _feed(process: RuntimeProcess) -> None:
    """Pass on typed or piped input, in a thread of its own."""
    # A daemon: a blocking read cannot be cancelled, and must not delay the exit.
    threading.Thread(target=_copy_input, args=(process,), name="egress-input", daemon=True).start()


def _copy_input(process: RuntimeProcess) -> None:
    with suppress(OSError):
        while data := os.read(STDIN, _PIECE):
            process.write(data)
    process.close_input()


class SignalForwarder:
    """Ends the command on signals, and when its output has no reader left.

    Events before the command has started are delivered once it has.
    """

    def __init__(self) -> None:
        self._seen: list[int] = []
        self._is_lost = False
        self._process: RuntimeProcess | None = None
        self._resized: Callable[[], object] = _nothing
        self._before: dict[int, signal.Handlers | Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> Self:
        handlers = {**dict.fromkeys(_ENDING, self._end), signal.SIGWINCH: self._resize}
        if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
            # `nohup` covers the command, too.
            del handlers[signal.SIGHUP]
        self._before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def belong_to(self, process: RuntimeProcess, resized: Callable[[], object] | None = None) -> None:
        """Deliver events to this process from now on."""
        self._process, self._resized = process, resized or _nothing
        # A signal during the start had no process to go to, and must not be forgotten.
        if self._seen or self._is_lost:
            self._kill(process)

    def lost(self) -> None:
        """Note that the output has no reader; called by the thread that writes it."""
        self._is_lost = True
        if self._process is not None:
            self._kill(self._process)

    def status(self, result: ExecResult) -> int:
        """Return the command's status, or 128 plus the signal's number if a signal ended it."""
        # The first signal counts: later ones only hurry the end.
        return 128 + self._seen[0] if self._seen and result.exit_code else result.exit_code

    def _end(self, number: int, _frame: FrameType | None) -> None:
        self._seen.append(number)
        if self._process is not None:
            self._kill(self._process)

    def _kill(self, process: RuntimeProcess) -> None:
        # The first signal asks politely, the second kills. Neither a signal handler nor the output thread may
        # block, so a thread waits.
        grace = _STOP_TIMEOUT if len(self._seen) == 1 and not self._is_lost else 0.0
        threading.Thread(target=process.kill, args=(grace,), daemon=True).start()

    def _resize(self, _number: int, _frame: FrameType | None) -> None:
        self._resized()


def _nothing() -> None:
    """Do nothing: no process to notify."""
