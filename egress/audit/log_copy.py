"""Copying a log while a proxy writes it, so that the copy verifies at every moment.

The head of a chain is read before its lines: a head that is newer than the lines would say that the end was
cut off. Only whole lines are copied. The anchor is read last, since it moves when old files are deleted. A
copy that goes on where an earlier one has ended gets the new lines alone.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, BinaryIO, Final

import msgspec

from egress.audit import checkpoint, files
from egress.audit.chain import MAX_LINE_BYTES
from egress.audit.chain_folders import chain_folders
from egress.audit.chain_register import MAX_REGISTER_BYTES, REGISTER
from egress.audit.files import ANCHOR, read_start
from egress.errors import ContentError, WireError

PIECE_BYTES: Final = 1024 * 1024
_MAX_HEADER_BYTES: Final = 4096
_MAX_SMALL_BYTES: Final = 4096
_MAX_KNOWN_FILES: Final = 100_000
_NAME = re.compile(r"(?:(?:chains/)[0-9]{4}/)?(?:audit-[0-9]{6,12}\.jsonl|head|anchor)|chains/register")


@dataclass(frozen=True, slots=True)
class LogPart:
    """A piece of a file of a log, named by its path in the folder of the log."""

    name: str
    offset: int
    data: bytes

    @property
    def is_lines(self) -> bool:
        """Whether it is a piece of a file of lines, and no small file that comes as a whole."""
        return self.name.endswith(".jsonl")


class _PartHeader(msgspec.Struct, forbid_unknown_fields=True):
    """The line before a part; the last one says that it is the end."""

    name: str = ""
    offset: Annotated[int, msgspec.Meta(ge=0, lt=1 << 48)] = 0
    size: Annotated[int, msgspec.Meta(ge=0, le=2 * MAX_REGISTER_BYTES)] = 0
    end: bool = False


def copied_parts(log: Path, known: Mapping[str, int]) -> Iterator[LogPart]:
    """Return what a copy lacks; `known` has the size of each file of lines that it has. Raises `OSError`."""
    # A wrong path must not pass for a log without a line.
    os.close(os.open(log, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    for chain in chain_folders(log):
        # Chains of versions before 0.3 lie outside of the folder, and no gateway has one.
        if not chain.number:
            continue
        head = checkpoint.read(chain.path)
        for number in files.numbers(chain.path) if chain.path.is_dir() else ():
            name = chain.file(files.name(number))
            yield from _new_lines(log, name, known.get(name, 0))
        if head is not None:
            yield LogPart(chain.file(checkpoint.FILE_NAME), 0, head)
        yield from _small_file(log, chain.file(ANCHOR), _MAX_SMALL_BYTES)
    yield from _small_file(log, REGISTER, MAX_REGISTER_BYTES)


def _new_lines(log: Path, name: str, offset: int) -> Iterator[LogPart]:
    """Return the whole lines of a file from this offset on."""
    with (log / name).open("rb") as file:
        # What is written meanwhile is for the next copy: a proxy may write faster than a copy is taken.
        size = os.fstat(file.fileno()).st_size
        file.seek(offset)
        rest = b""
        while data := file.read(min(PIECE_BYTES, max(0, size - file.tell()))):
            data = rest + data
            end = data.rfind(b"\n") + 1
            if len(data) - end > MAX_LINE_BYTES:
                # No line of ours is as long: whatever this is, the verification of the source tells of it.
                return
            if end:
                yield LogPart(name, offset, data[:end])
            offset, rest = offset + end, data[end:]


def _small_file(log: Path, name: str, limit: int) -> Iterator[LogPart]:
    try:
        yield LogPart(name, 0, read_start(log / name, limit))
    except (FileNotFoundError, NotADirectoryError):
        return


# As bytes ---------------------------------------------------------------------------------------


def write_parts(parts: Iterable[LogPart], out: BinaryIO) -> None:
    """Write parts as a stream that `read_parts` reads."""
    for part in parts:
        header = {"name": part.name, "offset": part.offset, "size": len(part.data)}
        out.write(json.dumps(header).encode("ascii") + b"\n" + part.data)
    out.write(b'{"end":true}\n')
    out.flush()


def read_parts(source: BinaryIO) -> Iterator[LogPart]:
    """Read a stream of parts to its end. Raises `WireError` for one that is cut short or malformed."""
    while True:
        header = _read_header(source.readline(_MAX_HEADER_BYTES))
        if header.end:
            return
        data = source.read(header.size)
        if len(data) != header.size:
            raise WireError("The log ends in the middle of a part.")
        yield LogPart(header.name, header.offset, data)


def is_log_file(name: str) -> bool:
    """Report whether a path is that of a file of a log, and leads nowhere else."""
    return bool(_NAME.fullmatch(name))


def read_known(data: bytes) -> dict[str, int]:
    """Read the sizes that a copy has. Raises `ContentError`."""
    try:
        found = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or len(found) > _MAX_KNOWN_FILES or not all(map(_is_size, found.items())):
        raise ContentError("the sizes are not a JSON object of files and numbers", "let `collect` write them")
    return found


def _is_size(item: tuple[object, object]) -> bool:
    name, size = item
    return isinstance(name, str) and is_log_file(name) and type(size) is int and 0 <= size < 1 << 48


def _read_header(line: bytes) -> _PartHeader:
    """Read the line before a part. Raises `WireError`."""
    try:
        found = msgspec.json.decode(line if line.endswith(b"\n") else b"", type=_PartHeader)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise WireError("The log ends without its end, or is none.") from None
    if not found.end and not is_log_file(found.name):
        raise WireError("A part of the log is of another file.")
    return found
