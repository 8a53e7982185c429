"""Finds secrets fast in what a client got: the lab's quick look first; its detector confirms.

What Egress does not promise to stop, and what a sample has cut by itself, is no finding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from tests.attack.lab.leak_detector import CODINGS, Leak, leaks
from tests.attack.lab.quick_leak_scan import QuickLeakScan
from tests.fuzz.frames import H2Frame, WsFrame
from tests.fuzz.sample import Sample

_CODED: Final = re.compile(rb"\ncontent-encoding:", re.IGNORECASE)
_LENGTH: Final = re.compile(rb"\r\ncontent-length: ([0-9]{1,9})")
_SIZE: Final = re.compile(rb"([0-9a-f]{1,8})[^\r\n]*\r\n")
_COMPRESSED: Final = CODINGS - {"chunked"}


class LeakScan:
    """Looks for some secrets."""

    def __init__(self, secrets: Iterable[tuple[str, bytes]]) -> None:
        secrets = list(secrets)
        self._secrets = secrets
        self._sizes = {name: len(value) for name, value in secrets}
        self._glance = QuickLeakScan(value for _, value in secrets)

    def suspects(self, data: bytes) -> bool:
        """Whether a closer look is worth it."""
        return self._glance.suspects(data)

    def holds(self, data: bytes) -> bool:
        """Whether any piece of a secret is there, whatever was done to it."""
        return self.suspects(data) and bool(leaks(data, self._secrets))

    def promised(self, data: bytes, *, is_cut: bool = False) -> list[Leak]:
        """What must not be there. `is_cut`: whoever sent it may have cut a secret in two by itself."""
        if not self.suspects(data):
            return []
        is_coded = any(self.suspects(body) for body in _coded_bodies(data))
        return [
            leak
            for leak in leaks(data, self._secrets)
            if leak.promised
            # What is compressed without saying so is not looked through, by a stated limit.
            and (is_coded or not _COMPRESSED.intersection(leak.coats))
            and not (is_cut and leak.size < self._sizes[leak.secret])
        ]


def _coded_bodies(data: bytes) -> Iterator[bytes]:
    """Bodies whose own head names a coding; not what looks like a head inside of another body."""
    if not data.startswith(b"HTTP/1."):
        # Fields of HTTP/2, one a line, and the bodies behind an empty one.
        fields, _, bodies = data.partition(b"\n\n")
        if _CODED.search(fields):
            yield bodies
        return
    rest = data
    while rest.startswith(b"HTTP/1."):
        head, _, rest = rest.partition(b"\r\n\r\n")
        if rest.startswith(b"HTTP/1."):
            continue
        after = _behind(head.lower(), rest)
        if _CODED.search(head):
            yield rest[: len(rest) - len(after)]
        rest = after


def _behind(head: bytes, rest: bytes) -> bytes:
    """What follows the body of this head."""
    if length := _LENGTH.search(head):
        return rest[int(length[1]) :]
    if b"\r\ntransfer-encoding: chunked" not in head:
        return b""
    while line := _SIZE.match(rest):
        size = int(line[1], 16)
        rest = rest[line.end() + size + 2 :] if size else rest[line.end() :].partition(b"\r\n")[2]
        if not size:
            return rest
    return b""


def is_cutting(sample: Sample) -> bool:
    """Whether a host of a sample lies about a length: what it says may then end anywhere."""
    for reply in sample.replies:
        if reply.framing in ("long", "short", "bare"):
            return True
        for part in reply.parts:
            if reply.framing == "websocket" and WsFrame.unpacked(part).size >= 0:
                return True
            if reply.framing == "http2" and H2Frame.unpacked(part).size >= 0:
                return True
    return False
