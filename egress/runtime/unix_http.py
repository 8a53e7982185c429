"""HTTP to a process of this machine, over its unix socket: the proxy, or the engine."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Callable
from pathlib import Path
from typing import override


class UnixHttpConnection(http.client.HTTPConnection):
    """An HTTP connection over a socket that a callback opens."""

    def __init__(self, host: str, opened: Callable[[], socket.socket]) -> None:
        """`host` goes into the requests; `opened` is called for the first one."""
        super().__init__(host)
        self._opened = opened

    @override
    def connect(self) -> None:
        self.sock = self._opened()


def connect_unix(path: Path, timeout: float | None) -> socket.socket:
    """Connect a socket with this timeout. Raises `OSError`."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout)
        sock.connect(str(path))
    except BaseException:
        sock.close()
        raise
    return sock
