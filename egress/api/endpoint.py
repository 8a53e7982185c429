"""Where an API is served: at the unix socket of its owner, or at any other place that has a connection."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from egress.unix.stream_socket import connect_to_egress


class ApiEndpoint(Protocol):
    """Where a client connects to, and what it says in every request. Its text names the place."""

    @property
    def host(self) -> str:
        """The `Host` of requests."""
        ...

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers of every request."""
        ...

    def connect(self) -> socket.socket:
        """Return a connected socket. Raises `OSError`."""
        ...


@dataclass(frozen=True, slots=True)
class UnixEndpoint:
    """The unix socket of a server. The kernel proves the user on both sides, so there is no token."""

    path: Path

    @property
    def host(self) -> str:
        """The `Host` of requests. A server at a unix socket asks for none in particular."""
        return "egress"

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers of every request."""
        return ()

    def connect(self) -> socket.socket:
        """Return a connected socket. Raises `OSError`."""
        return connect_to_egress(self.path, None)

    def __str__(self) -> str:
        return str(self.path)
