"""Finds changes in a folder of a sandbox, by comparing lists of it.

A program in the sandbox lists the folder and sends the list whenever it differs from the last. Where the
image has Python, the kernel gives it notice of changes; else a loop lists again and again, in any image with
`find` and `stat`. Both send the same lists. A file that is created and removed between two lists is not seen.
"""

from __future__ import annotations

import secrets
import stat as modes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from posixpath import basename, join, normpath
from typing import Final, Literal

from egress.runtime.errors import SandboxStateError, SpecError, UnsupportedError
from egress.runtime.spec import MIB, Command
from egress.sandbox.command_runner import CommandRunner
from egress.sandbox.paths import TEMPORARY_PREFIX, Where
from egress.sandbox.process import Process

_WATCH_SCRIPT: Final = Path(__file__).with_name("watch.sh").read_text(encoding="utf-8")
_NOTICED_PROGRAM: Final = Path(__file__).with_name("watch_inside.py").read_text(encoding="utf-8")
_MAX_KEPT_BYTES: Final = 64 * MIB

Listing = Mapping[str, bytes]
"""Facts about each entry, by path."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a file or a folder."""

    kind: Literal["made", "changed", "removed"]
    path: str
    """The path as the caller would write it: relative to the workspace, or absolute."""


@contextmanager
def watch_changes(
    place: CommandRunner, asked: Where, path: str, interval: float
) -> Iterator[Iterator[Change]]:
    """Changes at a path from now on; the context is entered once the first list has arrived."""
    if not interval > 0:
        raise SpecError("interval is out of range", "use a number of seconds above 0")
    mark = secrets.token_hex(12)
    words = ("/bin/sh", "-c", _WATCH_SCRIPT, "sh", path, f"{interval:g}", mark, _NOTICED_PROGRAM)
    with Process(place, Command(argv=words, cwd="/"), keep=_MAX_KEPT_BYTES) as process:
        listings = _read_listings(process, mark.encode())
        yield _follow_changes(next(listings), listings, str(asked))


def _follow_changes(before: Listing, listings: Iterator[Listing], asked: str) -> Iterator[Change]:
    for now in listings:
        yield from compare_listings(before, now, asked)
        before = now


def compare_listings(before: Listing, now: Listing, asked: str) -> Iterator[Change]:
    """Return the differences of two lists, by path."""
    for name in sorted({*before, *now}):
        if before.get(name) == now.get(name):
            continue
        kind: Literal["made", "changed", "removed"] = (
            "made" if name not in before else "removed" if name not in now else "changed"
        )
        yield Change(kind, normpath(join(asked, name)))


def _read_listings(process: Process, mark: bytes) -> Iterator[Listing]:
    end = mark + b"end\n"
    held = bytearray()
    for piece in process.stdout.byte_chunks():
        # The end marker may be split over two pieces, so the search starts a little before the new bytes.
        begin = max(0, len(held) - len(end))
        held += piece
        while (at := held.find(end, begin)) >= 0:
            yield read_listing(bytes(held[:at]), mark)
            del held[: at + len(end)]
            begin = 0
        # A hostile sandbox may never send the end of a list.
        if len(held) > _MAX_KEPT_BYTES:
            raise _listing_error()
    # The process ends with the sandbox, which is raised here, or because a program is missing.
    process.wait()
    raise UnsupportedError("cannot watch the folder", "the image needs sh, find, stat and sleep")


def read_listing(text: bytes, mark: bytes) -> Listing:
    """Parse a list from the sandbox. Raises `SandboxStateError` for an invalid one.

    Programs in the sandbox can learn the marker, and write to the same output.
    """
    try:
        return _parse_listing(text, mark)
    except ValueError:
        raise _listing_error() from None


def _parse_listing(text: bytes, mark: bytes) -> Listing:
    found = {}
    for entry in text.split(mark)[1:]:
        facts, _, name = entry.removesuffix(b"\n").partition(b"\n")
        path = name.decode("utf-8", "surrogateescape")
        if basename(path).startswith(TEMPORARY_PREFIX):
            continue
        number, mode, *_ = facts.split()
        if modes.S_ISDIR(int(mode, 16)):
            # A folder's times change with each file in it, and the files are listed themselves.
            facts = number + mode
        found[normpath(path)] = facts
    return found


def _listing_error() -> SandboxStateError:
    return SandboxStateError(
        "the sandbox sent an invalid list of files", "check the processes in the sandbox"
    )
