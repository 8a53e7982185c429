"""A place at a terminal: text goes in, pieces come out, and leaving is no end of the program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import pytest

from egress.runtime.errors import SpecTypeError
from egress.sandbox.attached_terminal import AttachedTerminal


class Viewer:
    def __init__(self, *pieces: bytes) -> None:
        self._pieces = iter(pieces)
        self.did: list[object] = []

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        return next(self._pieces)

    def write(self, data: bytes) -> None:
        self.did.append(data)

    def resize(self, columns: int, rows: int) -> None:
        self.did.append((columns, rows))

    def close(self) -> None:
        self.did.append("closed")


def test_it_passes_on_what_it_is_given() -> None:
    viewer = Viewer(b"one", b"two")
    with AttachedTerminal(viewer) as terminal:
        pieces: Iterator[bytes] = terminal.read()
        assert list(pieces) == [b"one", b"two"]
        terminal.write("ü")
        terminal.write(b"\x03")
        terminal.resize(cols=70, rows=20)
        with pytest.raises(SpecTypeError):
            terminal.write(5)  # type: ignore[arg-type]
    assert viewer.did == ["ü".encode(), b"\x03", (70, 20), "closed"]
