"""The sessions that a sandbox has with servers: nobody else's.

Several sandboxes may share one credential, so a server cannot tell them apart, and the id of a session is
all that keeps their conversations apart. An id is taken only from the sandbox that received it. The table is
in memory alone: after a restart a client is told that its session is gone, and begins a new one.

A session also remembers the requests of the server that reached the client, since only these may be
answered, and the open requests of the client, since a stream that is fetched again has the answers to them.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from egress.inspect.mcp.message import MessageId

MAX_SESSIONS_OF_SANDBOX: Final = 256
"""The session that was used least recently makes room for another one."""
MAX_OPEN_REQUESTS: Final = 32
"""Requests that a session remembers, in each direction. Ids are long where a sandbox makes them so."""


class OpenRequests:
    """Requests without an answer so far, by id, with their methods."""

    __slots__ = ("_methods",)

    def __init__(self) -> None:
        # By type as well: to some servers "1" and 1 are two ids.
        self._methods: OrderedDict[tuple[bool, MessageId], str] = OrderedDict()

    def add(self, message_id: MessageId, method: str) -> None:
        """Remember a request; the oldest one makes room. An id that is open for two methods tells of none."""
        key = (isinstance(message_id, str), message_id)
        known = self._methods.pop(key, method)
        self._methods[key] = method if known == method else ""
        if len(self._methods) > MAX_OPEN_REQUESTS:
            self._methods.popitem(last=False)

    def method_of(self, message_id: MessageId) -> str:
        """Return the method of an open request; empty for one that is not known."""
        return self._methods.get((isinstance(message_id, str), message_id), "")

    def close(self, message_id: MessageId) -> None:
        """Forget a request that has its answer."""
        self._methods.pop((isinstance(message_id, str), message_id), None)


@dataclass(slots=True)
class McpSession:
    """A session of one sandbox with one server."""

    of_server: OpenRequests = field(default_factory=OpenRequests)
    of_client: OpenRequests = field(default_factory=OpenRequests)


class McpSessions:
    """The sessions of one sandbox."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, int, str], McpSession] = OrderedDict()

    def bind(self, host: str, port: int, session_id: str) -> McpSession:
        """Note that the sandbox received this id from this server."""
        key = (host, port, session_id)
        session = self._known.setdefault(key, McpSession())
        self._known.move_to_end(key)
        if len(self._known) > MAX_SESSIONS_OF_SANDBOX:
            self._known.popitem(last=False)
        return session

    def find(self, host: str, port: int, session_id: str) -> McpSession | None:
        """Return the session; None for one that the sandbox did not receive there."""
        key = (host, port, session_id)
        session = self._known.get(key)
        if session is not None:
            self._known.move_to_end(key)
        return session

    def end(self, host: str, port: int, session_id: str) -> None:
        """Forget a session that its client has ended."""
        self._known.pop((host, port, session_id), None)
