"""Small changes of the files of a log, and where a kill lets one go unseen."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from egress.audit import checkpoint
from egress.audit.chain import Keys
from egress.errors import UnreadableError
from tests.unit.audit.sample import KEY, check

KINDS = (
    *("alter", "delete", "insert", "truncate", "append", "empty", "swap bytes"),
    *("delete line", "double line", "swap lines"),
)


@dataclass(frozen=True)
class Change:
    """One thing done to one file of a log."""

    kind: str
    where: float
    byte: int

    def apply(self, data: bytes) -> bytes:
        at = min(int(self.where * len(data)), len(data) - 1)
        match self.kind:
            case "alter":
                return data[:at] + bytes([data[at] ^ self.byte]) + data[at + 1 :]
            case "delete":
                return data[:at] + data[at + 1 :]
            case "insert":
                return data[:at] + bytes([self.byte]) + data[at:]
            case "truncate":
                return data[:at]
            case "append":
                return data + bytes([self.byte])
            case "swap bytes":
                return data[:at] + data[at + 1 : at + 2] + data[at : at + 1] + data[at + 2 :]
            case "delete line" | "double line" | "swap lines":
                return b"".join(self._lines(data.splitlines(keepends=True), self.where))
            case _:
                return b""

    def _lines(self, lines: list[bytes], where: float) -> list[bytes]:
        at = min(int(where * len(lines)), len(lines) - 1)
        if self.kind == "delete line":
            return lines[:at] + lines[at + 1 :]
        if self.kind == "double line":
            return lines[: at + 1] + lines[at:]
        return lines[:at] + lines[at + 1 : at + 2] + lines[at : at + 1] + lines[at + 2 :]


def changeable(log: Path) -> list[Path]:
    """The files of a log that hold a MAC, in order: `in-flight` has none."""
    return [path for path in sorted(log.iterdir()) if path.name in ("head", "anchor") or path.suffix]


def is_found(log: Path) -> bool:
    """Whether checking the log says that something is wrong."""
    try:
        return not check(log).is_sound
    except UnreadableError:
        return True


def is_in_window(log: Path, file: Path, before: bytes, after: bytes) -> bool:
    """Whether a change is behind all that the head knows to be written, while a write was under way.

    Such lines nobody has been told are there: a kill itself may leave any part of them.
    """
    known = checkpoint.decode((log / checkpoint.FILE_NAME).read_bytes(), Keys.of(KEY).head)
    if known is None or known.written == known.intended or file.suffix != ".jsonl":
        return False
    alike = next((at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), None)
    at = min(len(before), len(after)) if alike is None else alike
    place = int(file.stem.rpartition("-")[2]), at
    return place >= (known.written.file, known.written.offset)
