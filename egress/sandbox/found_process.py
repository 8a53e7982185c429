"""A process of a fleet that any program finds again by its id."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Final

from egress.fleet.http_probe import HttpProbe
from egress.fleet.process_interface import OutputName, OutputPiece, ProcessStatus, TrackedProcess
from egress.runtime.errors import SandboxTimeoutError
from egress.runtime.process_signal import signal_name
from egress.runtime.spec import Terminal
from egress.sandbox.attached_terminal import AttachedTerminal
from egress.sandbox.cancellation import cancelled_by, is_cancellable
from egress.sandbox.options import as_bytes

_SLICE: Final = 2.0
"""Seconds of one wait of a call that may be cancelled."""


class FoundProcess:
    """A process that was found by its id, or started by `Sandbox.start_process`.

    >>> process = sandbox.process("9f2c4e1ab07d5538")  # doctest: +SKIP
    >>> process.read("stdout").data  # doctest: +SKIP
    b'listening'
    """

    def __init__(self, tracked: TrackedProcess) -> None:
        self._tracked = tracked

    def __repr__(self) -> str:
        return f"<FoundProcess {self.id}>"

    @property
    def id(self) -> str:
        """The id by which any program finds it."""
        return self._tracked.id

    def status(self) -> ProcessStatus:
        """Return what it is, and whether it runs."""
        return self._tracked.status()

    def read(self, stream: OutputName = "stdout", offset: int = 0) -> OutputPiece:
        """Return its kept output, from an offset on.

        The `offset` of the result is higher if those bytes are gone; `next` is the one to continue from.
        """
        return self._tracked.read(stream, offset)

    def follow(self, stream: OutputName = "stdout", offset: int = 0) -> Iterator[OutputPiece]:
        """Return its output as it comes, from an offset on, until it ends.

        If you read too slowly, the next piece begins at a higher offset than the last one ended.
        """
        follower = self._tracked.follow(stream, offset)
        try:
            while True:
                with cancelled_by(follower.close):
                    piece = next(follower, None)
                if piece is None:
                    return
                yield piece
        finally:
            follower.close()

    def write(self, data: str | bytes) -> None:
        """Send input; returns when it was taken. Raises `SandboxStateError` if the input is closed."""
        self._tracked.write(as_bytes("data", data))

    def close_stdin(self) -> None:
        """Close the input."""
        self._tracked.close_input()

    def kill(self, signal: str | int | None = None, *, grace: float = 2.0) -> None:
        """End its process group: SIGTERM, and SIGKILL after `grace` seconds.

        With `signal`, such as "HUP", only that signal is sent, to all of its processes.
        """
        if signal is None:
            self._tracked.kill(grace)
        else:
            self._tracked.signal(signal_name(signal))

    def wait(
        self,
        timeout: float | None = None,
        *,
        log: str = "",
        port: int | None = None,
        http: HttpProbe | None = None,
    ) -> ProcessStatus:
        """Wait for its end, a text in its output, a program that listens on a port, or its answer over HTTP.

        Raises `SandboxTimeoutError`, and `ProcessEndedError` if it ends before any of the others.

        >>> process.wait(30, http=HttpProbe(port=8000, path="/health"))  # doctest: +SKIP
        """
        if not is_cancellable():
            return self._tracked.wait(timeout, log=log, port=port, http=http)
        # In slices: the fleet may be another process, which does not learn of a cancellation.
        end = None if timeout is None else time.monotonic() + timeout
        given_up = threading.Event()
        with cancelled_by(given_up.set):
            while True:
                left = _SLICE if end is None else end - time.monotonic()
                try:
                    return self._tracked.wait(min(left, _SLICE), log=log, port=port, http=http)
                except SandboxTimeoutError:
                    if given_up.is_set() or (end is not None and left <= _SLICE):
                        raise

    def attach(self, *, cols: int = 80, rows: int = 24) -> AttachedTerminal:
        """Attach to its terminal, and give it this size. Raises `SandboxStateError` if it has none.

        >>> with process.attach(cols=120, rows=40) as terminal:  # doctest: +SKIP
        ...     print(next(terminal.read()))
        """
        size = Terminal(columns=cols, rows=rows)
        return AttachedTerminal(self._tracked.attach(size.columns, size.rows))

    def forget(self) -> None:
        """End it if it runs; from now on nobody finds it."""
        self._tracked.forget()
