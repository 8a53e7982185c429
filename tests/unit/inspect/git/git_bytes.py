"""Bytes of pushes and packs, as clients make them, and as they never would."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable
from typing import Final, NamedTuple

from egress.inspect.git.pkt_line import FLUSH_PKT, pkt_line

ZERO: Final = "0" * 40
CAPABILITIES: Final = " report-status-v2 side-band-64k object-format=sha1 agent=git/2.39.5"
COMMIT, TREE, BLOB, TAG, OFS_DELTA, REF_DELTA = 1, 2, 3, 4, 6, 7


def oid(seed: str, object_format: str = "sha1") -> str:
    """An object id of nothing in particular."""
    return hashlib.new(object_format, seed.encode()).hexdigest()


A, B, C = oid("a"), oid("b"), oid("c")


def command_lines(*commands: tuple[str, str, str], capabilities: str = CAPABILITIES) -> bytes:
    """The list of commands with its flush."""
    lines = [f"{old} {new} {ref}".encode() for old, new, ref in commands]
    lines[0] += b"\0" + capabilities.encode()
    return b"".join(map(pkt_line, lines)) + FLUSH_PKT


class Made(NamedTuple):
    """A commit and its id."""

    oid: str
    content: bytes


def commit(*parents: str, message: str = "made", object_format: str = "sha1") -> Made:
    """A commit that follows these."""
    tree = oid("tree", object_format)
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
    who = "lab <lab@example.test> 1700000000 +0000"
    content = "\n".join([*lines, f"author {who}", f"committer {who}", "", message, ""]).encode()
    digest = hashlib.new(object_format, b"commit %d\0" % len(content) + content)
    return Made(digest.hexdigest(), content)


def packed(kind: int, content: bytes, *, size: int | None = None, level: int = 6) -> bytes:
    """One object of a pack."""
    left = len(content) if size is None else size
    header, first = bytearray(), (kind << 4) | (left & 15)
    left >>= 4
    while left:
        header.append(first | 0x80)
        first, left = left & 0x7F, left >> 7
    header.append(first)
    return bytes(header) + zlib.compress(content, level)


def pack(objects: Iterable[bytes] = (), *, count: int | None = None, version: int = 2) -> bytes:
    """A pack of these objects. Its digest is that of git."""
    listed = list(objects)
    number = len(listed) if count is None else count
    data = b"PACK" + version.to_bytes(4) + number.to_bytes(4) + b"".join(listed)
    return data + hashlib.sha1(data, usedforsecurity=False).digest()


def pack_of(*commits: Made) -> bytes:
    """A pack of commits, with a blob behind them."""
    return pack([*(packed(COMMIT, made.content) for made in commits), packed(BLOB, b"content")])
