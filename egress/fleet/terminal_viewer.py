"""A client at the terminal of a process: it sees what the others see, and types like them.

A viewer that reads slowly holds up nobody. When the output that it has not read is gone, it is shown the
terminal anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, Protocol, Self

from egress.fleet.process_interface import OutputName, OutputPiece
from egress.runtime.errors import SandboxStateError
from egress.runtime.spec import Terminal

MAX_PIECE_BYTES: Final = 64 * 1024
"""The most bytes of one piece, but for the first one."""


class ViewedProcess(Protocol):
    """The part of a process that a viewer needs."""

    @property
    def is_over(self) -> bool: ...

    def watch(self, wake: Callable[[], object]) -> AbstractContextManager[None]: ...

    def read_piece(self, stream: OutputName, offset: int, most: int | None) -> OutputPiece: ...

    def read_terminal(self) -> tuple[bytes, int]: ...

    def type(self, data: bytes) -> None: ...

    def resize(self, size: Terminal) -> None: ...

    def redraw(self, size: Terminal) -> None: ...

    def detach(self, viewer: TableViewer) -> None: ...


class TableViewer:
    """`TerminalViewer` in this process."""

    def __init__(self, process: ViewedProcess) -> None:
        self._process = process
        self._offset: int | None = None
        self._changed = threading.Event()
        self._is_closed = False
        self._is_evicted = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        with self._process.watch(self._changed.set):
            while not self._is_closed:
                self._changed.clear()
                self.refuse_evicted()
                # Asked before the read: output that came before the end is read.
                is_over = self._process.is_over
                if piece := self.poll():
                    return piece
                if is_over:
                    break
                self._changed.wait()
        raise StopIteration

    def poll(self) -> bytes:
        """Return the next bytes, or none. The first ones show the terminal as it is."""
        if self._offset is not None:
            piece = self._process.read_piece("stdout", self._offset, MAX_PIECE_BYTES)
            if piece.offset == self._offset:
                self._offset = piece.next
                return piece.data
        shown, self._offset = self._process.read_terminal()
        return shown

    def write(self, data: bytes) -> None:
        self._process.type(data)

    def resize(self, columns: int, rows: int) -> None:
        self._process.resize(Terminal(columns=columns, rows=rows))

    def redraw(self, columns: int, rows: int) -> None:
        """Set the size; a program with a screen of its own draws it again, also for the same size."""
        self._process.redraw(Terminal(columns=columns, rows=rows))

    def close(self) -> None:
        self._is_closed = True
        self._process.detach(self)

    def evict(self) -> None:
        """Detach it for another client: it gets an error, which is not the end of the process."""
        self._is_evicted = True
        self._process.detach(self)

    def refuse_evicted(self) -> None:
        """Raise `SandboxStateError` if another client took its place."""
        if self._is_evicted:
            raise SandboxStateError(
                "another client took the place of this one at the terminal", "attach again"
            )
