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

ListenerKind = Literal["proxy", "transparent", "dns-udp", "dns-tcp"]
"""`proxy` takes CONNECT and absolute-form requests, `transparent` whatever names its host by SNI or Host."""

Authentication = Literal["owner-uid", "password", "network"]
"""How a peer proves that it is the sandbox: by the user who owns its socket, by a password, or by being
able to reach the listener at all."""

LISTEN_BACKLOG: Final = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Listener:
    """A listening socket and the sandbox it serves."""

    name: str
    kind: ListenerKind
    sandbox: str
    sock: socket.socket = field(repr=False)
    authentication: Authentication = "network"
    password: bytes = field(default=b"", repr=False)
    """The `password_digest`, where that is how peers prove themselves."""
    owner: int = field(default_factory=os.geteuid)
    """The uid whose sockets are served, where that is how peers prove themselves."""
    is_shared: bool = False
    """True where several clients may come in, so that a record has to name the address of each."""
    given_port: int = 0
    """The port that sandboxes dial where it is not the local port of the socket."""

    @property
    def port(self) -> int:
        """The port that sandboxes dial."""
        return self.given_port or int(self.sock.getsockname()[1])


def peer_address(sock: socket.socket) -> str:
    """Return the IP address of the client; empty if it has left already."""
    try:
        found = sock.getpeername()
    except OSError:
        return ""
    return str(found[0]) if isinstance(found, tuple) else ""


def password_digest(password: str) -> bytes:
    """Return the digest that a listener keeps. Passwords are long and random, so a single hash is enough."""
    return hashlib.sha256(password.encode()).digest()


def listen(host: str, port: int) -> socket.socket:
    """Open a listening TCP socket on an address of this machine; port 0 takes any free one."""
    # With the protocol left to the system asyncio would not turn Nagle's algorithm off.
    sock = _socket(host, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(LISTEN_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


def listen_udp(host: str, port: int) -> socket.socket:
    """Open a socket that takes datagrams on an address of this machine."""
    # Without SO_REUSEADDR: for datagrams it would let a second process have the same port.
    sock = _socket(host, socket.SOCK_DGRAM, socket.IPPROTO_UDP)
    try:
        sock.bind((host, port))
    except BaseException:
        sock.close()
        raise
    return sock


def _socket(host: str, kind: socket.SocketKind, protocol: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, kind, protocol)
    sock.settimeout(0)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return sock


def check_listener(listener: Listener) -> None:
    """Refuse a listener that could not tell who its peers are; raises `UsageError`."""
    if listener.authentication == "password" and listener.password in (b"", password_digest("")):
        raise UsageError("The listener asks for a password but has none.", "Give it the digest of one.")
    if listener.authentication == "owner-uid" and listener.kind == "dns-udp":
        raise UsageError("A datagram has no owner to check.", "Use network for it.")
    if listener.authentication == "password" and listener.kind != "proxy":
        raise UsageError("Only a proxy listener can ask for a password.", "Use owner-uid or network here.")
