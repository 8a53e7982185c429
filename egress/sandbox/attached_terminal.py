"""Attach to the terminal of a running process; the process goes on after a detach."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self

from egress.fleet.process_interface import TerminalViewer
from egress.sandbox.cancellation import cancelled_by
from egress.sandbox.options import as_bytes


class AttachedTerminal:
    r"""The terminal of a process that was found by its id; any number of programs see the same one.

    >>> with process.attach(cols=120, rows=40) as terminal:  # doctest: +SKIP
    ...     terminal.write("ls\n")
    ...     for piece in terminal.read():
    ...         screen.feed(piece)
    """

    def __init__(self, viewer: TerminalViewer) -> None:
        self._viewer = viewer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self) -> Iterator[bytes]:
        """Return the output as it comes, until the program ends. The first piece shows the terminal as it is.

        If you read too slowly, you are shown the terminal anew.
        """
        while True:
            with cancelled_by(self._viewer.close):
                piece = next(self._viewer, None)
            if piece is None:
                return
            yield piece

    def write(self, data: str | bytes) -> None:
        """Type text."""
        self._viewer.write(as_bytes("data", data))

    def resize(self, *, cols: int, rows: int) -> None:
        """Change the size of the terminal, for all who are attached; the program gets SIGWINCH."""
        self._viewer.resize(cols, rows)

    def close(self) -> None:
        """Detach; the program goes on."""
        self._viewer.close()
