"""Reads the ids of GitHub's objects, as far as they tell of which repository an object is a part.

The newer form is a prefix for the type, `_`, and an array of numbers in MessagePack and base64: the id of the
repository is the second of them, for the types in the table. For other types, such as projects, the same
place holds a number of another kind, so an unknown prefix tells nothing. The older form is base64 of a type
and a number, and tells the repository of a repository alone.

GitHub promises nothing of the kind. An id that decodes is what a client got from GitHub, or what it made up:
so this is a second lock, and a token for just these repositories is the first.

Each array has one spelling: what is read is written again and compared, so padding, spare bits, numbers with
leading zeros and bytes behind the array are refused.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Final

REPOSITORY_PREFIX: Final = "R"
PART_PREFIXES: Final = frozenset(
    {
        "C", "CR", "CS", "D", "DC", "DIC", "I", "IC", "LA", "MI", "PR", "PRR", "PRRC", "PRRT", "RA", "RE",
        "REF",
    }
)  # fmt: skip
"""Of objects in a repository: commits, checks, discussions, issues, labels, milestones, reviews, releases."""
PEOPLE_PREFIXES: Final = frozenset({"BOT", "T", "U"})
"""Of those who can be assigned or asked for a review."""
MAX_NODE_ID_CHARS: Final = 512

_NEW: Final = re.compile(r"([A-Z]{1,5})_([A-Za-z0-9_-]+)")
_OLD: Final = re.compile(rb"0([1-9][0-9]{0,2}):([A-Za-z]+)([1-9][0-9]{0,18})")
_FIX_TEXT_BYTES: Final = 32
"""Below it, the length of a text stands in its first byte; of longer ones in two bytes of their own."""

Part = int | bytes


class NodeIdError(ValueError):
    """An id that does not tell its repository. The text never quotes it."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True)
class NodeId:
    """An id that was understood."""

    prefix: str
    repository: int
    """The number of the repository that the object is, or is in; 0 for people."""


def read_node_id(text: str) -> NodeId:
    """Return what an id says. Raises `NodeIdError`."""
    if len(text) > MAX_NODE_ID_CHARS:
        raise NodeIdError("graphql.node_id", "an id is too long")
    if (match := _NEW.fullmatch(text)) is None:
        return _read_old(text)
    prefix, packed = match.groups()
    parts = _unpacked(packed)
    if parts is None:
        raise NodeIdError("graphql.node_id", "an id is not spelled as GitHub spells it")
    numbers = [part for part in parts[:2] if isinstance(part, int)]
    is_known = len(numbers) == 2 and numbers[0] == 0 and numbers[1] > 0
    if is_known and prefix == REPOSITORY_PREFIX and len(parts) == 2:
        return NodeId(prefix, numbers[1])
    if is_known and prefix in PART_PREFIXES and len(parts) == 3:
        return NodeId(prefix, numbers[1])
    if is_known and prefix in PEOPLE_PREFIXES:
        return NodeId(prefix, 0)
    raise NodeIdError("graphql.node_id", "an id is of a type that does not tell its repository")


def write_node_id(prefix: str, parts: tuple[Part, ...]) -> str:
    """Return the one spelling of an id."""
    packed = bytes([0x90 | len(parts)]) + b"".join(map(_packed, parts))
    return f"{prefix}_{base64.urlsafe_b64encode(packed).rstrip(b'=').decode('ascii')}"


def _read_old(text: str) -> NodeId:
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise NodeIdError("graphql.node_id", "an id is not one of GitHub's") from None
    match = _OLD.fullmatch(data)
    is_spelled = base64.b64encode(data).decode("ascii") == text
    if match is None or not is_spelled or int(match[1]) != len(match[2]):
        raise NodeIdError("graphql.node_id", "an id is not one of GitHub's")
    if match[2] != b"Repository":
        raise NodeIdError("graphql.old_node_id", "an id of the older form does not tell its repository")
    return NodeId(REPOSITORY_PREFIX, int(match[3]))


def _unpacked(text: str) -> tuple[Part, ...] | None:
    """Return the parts of an array in its one spelling; None for any other text."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        return None
    count, at = data[0] & 0x0F, 1
    if data[0] & 0xF0 != 0x90 or not 2 <= count <= 4:
        return None
    parts: list[Part] = []
    for _ in range(count):
        part, at = _part(data, at)
        if part is None:
            return None
        parts.append(part)
    # Whatever was read too easily above is spelled differently here.
    return tuple(parts) if write_node_id("", tuple(parts)) == f"_{text}" else None


def _part(data: bytes, at: int) -> tuple[Part | None, int]:
    """Read a part at a place; return it and the place behind it."""
    first = data[at] if at < len(data) else 0xC1
    at += 1
    if first < 0x80:
        return first, at
    if 0xCC <= first <= 0xCF:
        end = at + (1 << (first - 0xCC))
        return int.from_bytes(data[at:end], "big"), end
    if 0xA0 <= first < 0xC0:
        end = at + (first & 0x1F)
        return data[at:end], end
    if first == 0xDA:
        end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        return data[at + 2 : end], end
    return None, at


def _packed(part: Part) -> bytes:
    if isinstance(part, bytes):
        size = len(part)
        head = bytes([0xA0 | size]) if size < _FIX_TEXT_BYTES else b"\xda" + size.to_bytes(2, "big")
        return head + part
    if part < 0x80:
        return bytes([part])
    power = next(power for power in range(4) if part < 1 << (8 << power))
    return bytes([0xCC + power]) + part.to_bytes(1 << power, "big")
