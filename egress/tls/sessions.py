"""Upstream TLS sessions, kept so that the next connection of the same sandbox is cheaper.

Keyed by all that a verification was about, the sandbox among it: two sandboxes share nothing that an
upstream could tell them together by. A resumed session is not verified again, so a session is given up
some time after the verification it goes back to, however often it was resumed since.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from OpenSSL import SSL

MAX_SESSIONS: Final = 1024
MAX_SESSION_AGE: Final = 3600.0
"""Seconds that a verification is good for."""


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The circumstances that a session was verified for."""

    sandbox: str
    host: str
    port: int
    alpn: tuple[bytes, ...]
    pins: frozenset[str]


@dataclass(frozen=True, slots=True)
class KeptSession:
    """A session, and when the upstream behind it was verified."""

    session: SSL.Session
    verified: float


class UpstreamSessions:
    """The latest session for each key; the least used goes first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[SessionKey, KeptSession] = OrderedDict()

    def find(self, key: SessionKey, now: float) -> KeptSession | None:
        """The session to resume, if there is one that is young enough at this monotonic time."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        if not 0 <= now - kept.verified < MAX_SESSION_AGE:
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return kept

    def keep(self, key: SessionKey, connection: SSL.Connection, verified: float) -> None:
        """Take the session of a connection at its end: TLS 1.3 sends tickets behind the handshake."""
        # Freed without this, OpenSSL takes the end for a failure and marks the session as spent.
        connection.set_shutdown(SSL.SENT_SHUTDOWN | SSL.RECEIVED_SHUTDOWN)
        session = connection.get_session()
        if session is None:
            return
        self._kept[key] = KeptSession(session, verified)
        self._kept.move_to_end(key)
        if len(self._kept) > MAX_SESSIONS:
            self._kept.popitem(last=False)

    def forget(self, sandbox: str) -> None:
        """Drop what a sandbox that has ended leaves behind."""
        for key in [key for key in self._kept if key.sandbox == sandbox]:
            del self._kept[key]
