"""The head: one small file that says how far the log goes, so that a tail cannot be cut off unseen.

It holds two points. Before lines are written it is told where they will end (`intended`); when the
kernel has taken them, that they are there (`written`). Each change is one `pwrite` of the whole file,
which a kill cannot split, and the file carries a MAC of its own.

So after a process was killed: lines up to `written` must be there, and if they are not somebody cut
them; lines between `written` and `intended` may be missing, and that is the window of one write. What
it cannot see is a log and a head that were both put back to an older state together: against that,
keep the number and MAC of the newest line somewhere else.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
import struct
from dataclasses import dataclass
from pathlib import Path

from egress.audit.chain import ZERO_MAC
from egress.audit.files import read_start, replace_file

FILE_NAME = "head"
_MAGIC = b"egrhead1"
_POINT = struct.Struct("<QQQ32s")
_BODY = len(_MAGIC) + 2 * _POINT.size
CHECKPOINT_BYTES = _BODY + 32


@dataclass(frozen=True, slots=True)
class LogPosition:
    """The end of a line: its number, its file, the bytes of the file up to there, its MAC."""

    seq: int = 0
    file: int = 1
    offset: int = 0
    mac: bytes = ZERO_MAC

    def packed(self) -> bytes:
        return _POINT.pack(self.seq, self.file, self.offset, self.mac)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far the log goes, and how far it was about to go."""

    written: LogPosition
    intended: LogPosition


def decode(data: bytes, key: bytes) -> Checkpoint | None:
    """Read a head; None when it was not written with this key."""
    # The MAC is verified before anything is unpacked: a forged head is never interpreted.
    body, mac = data[:_BODY], data[_BODY:]
    if len(data) != CHECKPOINT_BYTES or not hmac.compare_digest(hmac.digest(key, body, "sha256"), mac):
        return None
    written, intended = _POINT.iter_unpack(body[len(_MAGIC) :])
    return Checkpoint(LogPosition(*written), LogPosition(*intended)) if body.startswith(_MAGIC) else None


def read(directory: Path) -> bytes | None:
    """The bytes of the head file; None when there is none. Raises `OSError`."""
    try:
        return read_start(directory / FILE_NAME, CHECKPOINT_BYTES + 1)
    except FileNotFoundError:
        return None


class CheckpointFile:
    """The head file of the one process that writes."""

    __slots__ = ("_descriptor", "_keyed", "_written")

    def __init__(self, directory: Path, key: bytes, written: LogPosition, *, is_fresh: bool) -> None:
        """Open it; of a log without lines, make it. Raises `OSError`."""
        self._keyed = hmac.new(key, digestmod=hashlib.sha256)
        self._written = written.packed()
        place = directory / FILE_NAME
        if is_fresh:
            # As a whole: there never is a head of half its size.
            replace_file(place, self._sealed(self._written * 2))
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(place, flags, 0o640)
        # Bytes behind the head would make every later `decode` refuse it.
        if os.fstat(self._descriptor).st_size > CHECKPOINT_BYTES:
            os.ftruncate(self._descriptor, CHECKPOINT_BYTES)

    def announce(self, intended: LogPosition) -> None:
        """Say where the lines that are about to be written will end. Raises `OSError`."""
        self._put(self._written + intended.packed())

    def commit(self, written: LogPosition) -> None:
        """Say that everything up to here has been taken by the kernel. Raises `OSError`."""
        packed = written.packed()
        self._put(packed + packed)
        self._written = packed

    def close(self) -> None:
        os.close(self._descriptor)

    def _put(self, points: bytes) -> None:
        if os.pwrite(self._descriptor, self._sealed(points), 0) != CHECKPOINT_BYTES:
            raise OSError(errno.EIO, "the head was written in part")

    def _sealed(self, points: bytes) -> bytes:
        body = _MAGIC + points
        state = self._keyed.copy()
        state.update(body)
        return body + state.digest()
