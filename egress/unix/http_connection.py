"""HTTP over a unix socket: one question with JSON in it, to a proxy or to an engine."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, override

ASK_ERRORS: Final = (OSError, ValueError, RecursionError, http.client.HTTPException)
"""What `ask_json` raises where no answer comes, or none that is JSON."""


class JsonAnswer(NamedTuple):
    """The status of an answer, and its object."""

    status: int
    body: Mapping[str, object]
    """Empty where the answer was no object."""


def ask_json(
    connect: Callable[[], socket.socket],
    method: str,
    target: str,
    body: Mapping[str, object] | None,
    max_bytes: int,
) -> JsonAnswer:
    """Ask over a connection of its own, which is closed again. Raises `ASK_ERRORS`."""
    connection = _UnixConnection(connect)
    try:
        connection.request(method, target, None if body is None else json.dumps(body))
        answer = connection.getresponse()
        # An answer that is cut at its limit is no JSON any more.
        found = json.loads(answer.read(max_bytes))
        return JsonAnswer(answer.status, found if isinstance(found, dict) else {})
    finally:
        connection.close()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, connect: Callable[[], socket.socket]) -> None:
        super().__init__("egress")
        self._open = connect

    @override
    def connect(self) -> None:
        self.sock = self._open()
