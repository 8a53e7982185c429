"""Gaps: what a start says about the end that it found, and the bytes that such a line accounts for.

A killed process can leave the beginning of a line. It is never rewritten: the next start closes it off
with `#` and a line end, which makes it no line and no JSON whatever it was, and writes a gap that names
how many bytes that were, closing included, and their digest.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Literal

from egress.audit.chain import ParsedLine

GapKind = Literal["killed", "cut", "altered", "foreign", "head", "register"]
CLOSING = b"#\n"
GAP_MARK = b',"event":"gap",'
MAX_EVENT_OFFSET = 200
"""Number, time, and a run of 63 characters stand in front of the event."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The difference between the announced and the actual end of a log, told by the first line of a start."""

    kind: GapKind
    missing: tuple[int, int] | None = None
    """The first and the last number that were announced and are not there."""
    size: int = 0
    digest: str = ""


def killed_gap(missing: tuple[int, int] | None, fragment: bytes) -> Gap:
    """The gap of a process that was killed within a write and left these bytes behind its last line."""
    if not fragment:
        return Gap("killed", missing)
    # The closing mark follows the fragment in the file, so size and digest include it.
    closed = fragment + CLOSING
    return Gap("killed", missing, len(closed), hashlib.sha256(closed).hexdigest())


def gap_in(line: ParsedLine) -> Gap | None:
    """The gap that an authentic line tells of; None for every other kind of line."""
    # Only the start of the line counts: the event stands there, in front of every value of a sandbox.
    if GAP_MARK not in line.content[:MAX_EVENT_OFFSET]:
        return None
    found = json.loads(line.content + b"}")
    return Gap(found["kind"], None, found["fragment_bytes"], found["fragment_sha256"] or "")


class Fragment:
    """Bytes that are no line: how many, and their digest."""

    __slots__ = ("_digest", "size")

    def __init__(self, data: bytes = b"") -> None:
        self.size = len(data)
        self._digest = hashlib.sha256(data)

    def add(self, data: bytes) -> None:
        self.size += len(data)
        self._digest.update(data)

    def is_of(self, gap: Gap | None) -> bool:
        """True if this gap accounts for exactly these bytes."""
        if gap is None or gap.kind != "killed":
            return False
        return (gap.size, gap.digest) == (self.size, self._digest.hexdigest())
