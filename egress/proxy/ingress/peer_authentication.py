"""Authentication: checks that the peer of a connection is the sandbox that its listener serves.

The listener fixes the sandbox; this module only checks the peer. No byte of the client changes the result,
except on listeners with a password. A ticket in Proxy-Authorization chooses among the rights that the sandbox
was given (`ticket_check`); whatever else is there is ignored, and the field does not travel on.
"""

from __future__ import annotations

import hmac
import socket
from base64 import b64decode
from binascii import Error as Base64Error
from enum import Enum
from typing import Final

from egress.http1 import RequestHead
from egress.proxy.ingress.limits import IngressLimits
from egress.proxy.ingress.listener import Listener, password_digest
from egress.proxy.ingress.peer_uid import owner_of
from egress.proxy.ingress.pending_connection import IngressRefusal
from egress.run_ticket import TICKET_PREFIX

_BASIC_SCHEME: Final = "basic "
_PASSWORD_FIELD: Final = "proxy-authorization"
_ESTABLISHED_STATE: Final = 1


class PeerOwner(Enum):
    """The user that owns the other end of a connection."""

    EXPECTED = "expected"
    """The user that the listener serves, or it serves whoever reaches it."""
    FOREIGN = "foreign"
    """Another user, or one that cannot be told."""
    GONE = "gone"
    """Nobody any more: the client hung up before it was looked at."""


def owner_of_peer(listener: Listener, sock: socket.socket) -> PeerOwner:
    """Tell whether the user that owns the other end is the user this listener serves."""
    if listener.authentication != "owner-uid":
        return PeerOwner.EXPECTED
    try:
        peer, local = sock.getpeername(), sock.getsockname()
    except OSError:
        return PeerOwner.GONE
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return PeerOwner.FOREIGN
    owner = owner_of(peer[:2], local[:2])
    # A client that has ended only its own direction still has an owner, and is judged by it.
    if owner is None and _has_hung_up(sock):
        return PeerOwner.GONE
    return PeerOwner.EXPECTED if owner == listener.owner else PeerOwner.FOREIGN


def _has_hung_up(sock: socket.socket) -> bool:
    """Tell whether the peer has closed the connection, as far as the kernel has heard."""
    try:
        # The first byte of the answer is the state of the connection.
        return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != _ESTABLISHED_STATE
    except OSError:
        return False


class PasswordGuard:
    """Asks for passwords, and loses patience with wrong ones.

    Patience is counted by listener: whoever reaches it can use it up, and then the right password has
    to wait as well. Without that a wrong one could be told from a right one, however many are tried.
    """

    __slots__ = ("_bounds", "_spent_until")

    def __init__(self, bounds: IngressLimits) -> None:
        self._bounds = bounds
        self._spent_until: dict[Listener, float] = {}

    def refusal(self, listener: Listener, head: RequestHead, now: float) -> IngressRefusal | None:
        """Return why a request may not pass, or None where it may; `now` is in monotonic seconds."""
        if listener.authentication != "password":
            return None
        given = [value for name, value in head.headers if name == _PASSWORD_FIELD]
        if not given:
            # Many clients ask once without, to learn what is wanted: that is no guess.
            return IngressRefusal("proxy.authentication")
        pace = self._bounds.wrong_password_time
        until = max(self._spent_until.get(listener, now), now)
        if until + pace > now + pace * self._bounds.wrong_passwords:
            return IngressRefusal("limit.requests", retry_after=max(1, round(pace)))
        if len(given) == 1 and _is_right(given[0], listener.password):
            return None
        self._spent_until[listener] = until + pace
        return IngressRefusal("proxy.authentication")

    def forget(self, listener: Listener) -> None:
        """Forget a listener that is gone."""
        self._spent_until.pop(listener, None)


def _is_right(value: str, digest: bytes) -> bool:
    """Tell whether a field holds the password. The user name beside it is ignored."""
    return hmac.compare_digest(password_digest(_user_and_password(value)[1]), digest)


def presented_tickets(head: RequestHead) -> list[str]:
    """Return what a client shows as the tickets of its run: the users of its credentials for the proxy.

    Only a text that begins like a ticket is one. Any other user is ignored, as everywhere.
    """
    users = [_user_and_password(value)[0] for name, value in head.headers if name == _PASSWORD_FIELD]
    return [user for user in users if user.startswith(TICKET_PREFIX)]


def _user_and_password(value: str) -> tuple[str, str]:
    """Return both parts of basic credentials; empty texts for what is none."""
    if value[: len(_BASIC_SCHEME)].lower() != _BASIC_SCHEME:
        return "", ""
    try:
        decoded = b64decode(value[len(_BASIC_SCHEME) :].strip(" "), validate=True).decode()
    except (Base64Error, ValueError):
        return "", ""
    user, _, password = decoded.partition(":")
    return user, password
