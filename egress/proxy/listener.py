"""The sockets that sandboxes arrive at: what each serves, for whom, and how a peer proves who it is.

A listener belongs to exactly one sandbox, so the identity of a connection follows from the socket it
came in by. Nothing here accepts or reads.
"""

from __future__ import annotations

import hashlib
import os
import socket
from dataclasses import dataclass, field
from typing import Final, Literal

from egress.errors import UsageError

Kind = Literal["proxy", "transparent", "dns-udp", "dns-tcp"]
"""`proxy` takes CONNECT and absolute-form requests, `transparent` whatever names its host by SNI or Host."""

Authentication = Literal["owner-uid", "password", "network"]
"""How a peer proves that it is the sandbox: by the user who owns its socket, by a password, or by being
able to reach the listener at all."""

BACKLOG: Final = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Listener:
    """One listening socket and the sandbox it serves."""

    name: str
    kind: Kind
    sandbox: str
    sock: socket.socket = field(repr=False)
    authentication: Authentication = "network"
    password: bytes = field(default=b"", repr=False)
    """The `password_digest`, where that is how peers prove themselves."""
    owner: int = field(default_factory=os.geteuid)
    """The uid whose sockets are served, where that is how peers prove themselves."""
    given_port: int = 0
    """The port that sandboxes dial where it is not the local port of the socket."""

    @property
    def port(self) -> int:
        """The port that sandboxes dial."""
        return self.given_port or int(self.sock.getsockname()[1])


def password_digest(password: str) -> bytes:
    """What a listener keeps of its password. Passwords are long and random, so one hash is enough."""
    return hashlib.sha256(password.encode()).digest()


def listen(host: str, port: int) -> socket.socket:
    """Open a listening TCP socket on an address of this machine; port 0 takes any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol left to the system asyncio would not turn Nagle's algorithm off.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except BaseException:
        sock.close()
        raise
    sock.settimeout(0)
    return sock


def check(listener: Listener) -> None:
    """Refuse a listener that could not tell who its peers are; raises `UsageError`."""
    if listener.authentication == "password" and listener.password in (b"", password_digest("")):
        raise UsageError("The listener asks for a password but has none.", "Give it the digest of one.")
    if listener.authentication == "password" and listener.kind != "proxy":
        raise UsageError("Only a proxy listener can ask for a password.", "Use owner-uid or network here.")
