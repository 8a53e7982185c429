"""A program in a terminal of a sandbox."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from egress.fleet.process_table import TERMINAL_TYPE
from egress.runtime.errors import SandboxTimeoutError
from egress.runtime.protocol import Output
from egress.runtime.protocol import RuntimeProcess as Running
from egress.runtime.spec import MIB, Command, RunRights, Terminal, Values
from egress.sandbox.cancellation import CancellableEvent
from egress.sandbox.command_runner import CommandRunner
from egress.sandbox.options import Line, as_bytes, command_words
from egress.sandbox.ring_buffer import RingBuffer

SHELL_COMMAND: Final = ("/bin/sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash; exec sh")
_MAX_KEPT_BYTES: Final = 8 * MIB


class Pty:
    r"""A program in a terminal: a shell by default.

    >>> with sandbox.pty(cols=120, rows=40) as terminal:  # doctest: +SKIP
    ...     terminal.write("top\n")
    ...     for piece in terminal.read():
    ...         screen.feed(piece)
    """

    def __init__(
        self,
        place: CommandRunner,
        line: Line | None,
        cols: int,
        rows: int,
        cwd: str | None,
        env: Values,
        rights: RunRights | None = None,
    ) -> None:
        self._name = place.name
        self._ring = RingBuffer(_MAX_KEPT_BYTES)
        self._settled = CancellableEvent()
        self._came: int | BaseException | None = None
        self.cols, self.rows = cols, rows
        command = Command(
            argv=SHELL_COMMAND if line is None else command_words(line),
            cwd=cwd,
            env={"TERM": TERMINAL_TYPE, **env},
            terminal=Terminal(columns=cols, rows=rows),
            # The ring keeps the output, so the result holds none.
            most_output=0,
            rights=rights,
        )
        # A terminal has one output, so both callbacks fill one ring.
        self._running: Running = place.begin(command, Output(stdout=self._ring.add, stderr=self._ring.add))
        threading.Thread(target=self._await, name=f"egress-{place.name}-pty", daemon=True).start()

    def __repr__(self) -> str:
        state = "ended" if self._settled.is_set() else "running"
        return f"<Pty {self.cols}x{self.rows} in {self._name!r}, {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, data: str | bytes) -> None:
        r"""Type text.

        >>> terminal.write("ls\n")  # doctest: +SKIP
        """
        self._running.write(as_bytes("data", data))

    def read(self) -> Iterator[bytes]:
        """Return the terminal's output as it arrives, until the program ends.

        >>> next(terminal.read())  # doctest: +SKIP
        b'$ '
        """
        return self._ring.pieces()

    def resize(self, *, cols: int, rows: int) -> None:
        """Change the size of the terminal; the program gets SIGWINCH.

        >>> terminal.resize(cols=80, rows=24)  # doctest: +SKIP
        """
        self._running.resize(Terminal(columns=cols, rows=rows))
        self.cols, self.rows = cols, rows

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status of the program. Raises `SandboxTimeoutError` after `timeout` seconds.

        >>> terminal.wait()  # doctest: +SKIP
        0
        """
        if not self._settled.wait(timeout):
            raise _late()
        if isinstance(self._came, int):
            return self._came
        # Settled without a status: the wait for the command has failed, with this error.
        raise self._came or _late()

    def close(self) -> None:
        """Hang up: the program and its processes end. Does nothing after the end.

        >>> terminal.close()  # doctest: +SKIP
        """
        if not self._settled.is_set():
            self._running.kill()

    def _await(self) -> None:
        try:
            self._came = self._running.wait().exit_code
        except BaseException as error:  # noqa: BLE001 - raised again by `wait`
            self._came = error
        self._settled.set()
        self._ring.close()


def _late() -> SandboxTimeoutError:
    return SandboxTimeoutError("the program has not ended within the given time", "wait longer, or close it")
