"""Asks a program in a sandbox over HTTP whether it is ready.

The answer comes from a sandbox: only its first line is read, up to a limit in bytes and in seconds.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from egress.runtime.argument_types import check_number, check_text, check_whole_number
from egress.runtime.errors import PortClosedError, SpecError
from egress.runtime.spec import check_ports

PROBE_TIMEOUT: Final = 2.0
"""Seconds for one request and the first line of its answer."""
_MAX_LINE_BYTES: Final = 1024
_MAX_PATH_LENGTH: Final = 2048
_INTERVALS: Final = (0.05, 60)
_STATUSES: Final = (100, 599)
_PATH: Final = re.compile(r"/[!-~]*")
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: [^\r\n]*)?\r?\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpProbe:
    """A request to a program in a sandbox, and the answers that count. Raises `SpecError`."""

    port: int
    path: str = "/"
    min_status: int = 200
    max_status: int = 399
    interval: float = 0.5
    """Seconds between two requests."""

    def __post_init__(self) -> None:
        check_ports((self.port,))
        check_text("path", self.path)
        # It is written into a request as it is: neither a space nor a line end may be in it.
        if not _PATH.fullmatch(self.path) or len(self.path) > _MAX_PATH_LENGTH:
            raise SpecError(
                "path is not the path of a URL", "begin it with a slash, and encode other characters"
            )
        for name, status in (("min_status", self.min_status), ("max_status", self.max_status)):
            check_whole_number(name, status)
            if not _STATUSES[0] <= status <= _STATUSES[1]:
                raise SpecError(f"{name} is out of range", "use a status from 100 to 599")
        if self.min_status > self.max_status:
            raise SpecError("min_status is above max_status", "swap them")
        check_number("interval", self.interval)
        # The comparison with a NaN is false.
        if not _INTERVALS[0] <= self.interval <= _INTERVALS[1]:
            raise SpecError("interval is out of range", "use a number of seconds from 0.05 to 60")

    def is_met(self, dial: Callable[[int], socket.socket]) -> bool:
        """Make one request; return whether its answer counts."""
        end = time.monotonic() + PROBE_TIMEOUT
        try:
            with dial(self.port) as sock:
                sock.settimeout(PROBE_TIMEOUT)
                sock.sendall(
                    f"GET {self.path} HTTP/1.1\r\nHost: localhost:{self.port}\r\n"
                    "User-Agent: egress\r\nAccept: */*\r\nConnection: close\r\n\r\n".encode()
                )
                status = read_status(lambda: _receive(sock, end))
        except (PortClosedError, OSError):
            return False
        return status is not None and self.min_status <= status <= self.max_status


def read_status(receive: Callable[[], bytes]) -> int | None:
    """Read the status of an answer; None for anything but a status line."""
    data = b""
    while b"\n" not in data and len(data) < _MAX_LINE_BYTES and (piece := receive()):
        data += piece
    found = _STATUS_LINE.match(data[:_MAX_LINE_BYTES])
    return None if found is None else int(found[1])


def _receive(sock: socket.socket, end: float) -> bytes:
    """Receive some bytes, all of them together within the time: a program may send one after the other."""
    left = end - time.monotonic()
    if left <= 0:
        return b""
    sock.settimeout(left)
    return sock.recv(_MAX_LINE_BYTES)
