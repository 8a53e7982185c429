"""HTTP to a process of this machine, over its unix socket: a proxy, or an engine."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Callable
from pathlib import Path
from typing import override


class UnixHttpConnection(http.client.HTTPConnection):
    """A connection whose socket is opened in another way than by a name and a port."""

    def __init__(self, host: str, opened: Callable[[], socket.socket]) -> None:
        """`host` is what stands in the requests; `opened` is called when the first one is sent."""
        super().__init__(host)
        self._opened = opened

    @override
    def connect(self) -> None:
        self.sock = self._opened()


def connect_unix(path: Path, patience: float | None) -> socket.socket:
    """A connected socket, which waits so many seconds for an answer. Raises `OSError`."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(patience)
        sock.connect(str(path))
    except BaseException:
        sock.close()
        raise
    return sock
