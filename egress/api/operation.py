"""`Operation`: a call of the API, as a row of its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal
from urllib.parse import quote, urlencode

from msgspec import Struct

Content = Literal["json", "tar", "events", "websocket", "bytes", "lines", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation: where it is, what it takes, and what it answers."""

    name: str
    method: str
    path: str
    """With `{name}` for parts that a call fills in."""
    summary: str
    body: type[Struct] | None = None
    query: type[Struct] | None = None
    sends: Content = "json"
    """The content of the request; without a `body` it is a stream of bytes."""
    answer: type[Struct] | None = None
    returns: Content = "json"
    status: int = 200
    can_follow: bool = False
    """Whether a client that accepts events gets its answer as events."""
    owner_only: bool = False
    """Whether only the unix socket of the owner offers it."""
    needs_token: bool = True
    """Whether a client of a port has to show the token."""

    @property
    def usual_status(self) -> int:
        """The status of success. A call without an answer has none of its own."""
        return HTTPStatus.NO_CONTENT if self.returns == "none" else self.status

    def target(
        self, parts: Mapping[str, str], query: Mapping[str, str] | Sequence[tuple[str, str]] = ()
    ) -> str:
        """Return the request target for these parts of the path and these query parameters."""
        made = self.path.format_map({name: quote(value, safe="") for name, value in parts.items()})
        return f"{made}?{urlencode(query)}" if query else made
