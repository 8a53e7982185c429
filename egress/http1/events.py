"""What the readers return: heads, pieces of body, ends. Values only; nothing here parses.

Names in `headers` are lower case, values are latin-1 text without surrounding white space. Heads
keep every field as it came; what a field means for the connection is also spelt out in the typed
attributes, so that nobody has to read it a second time (and differently).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

from egress.types import Headers

TargetForm = Literal["origin", "absolute", "authority", "asterisk"]
Version = Literal["1.1", "1.0"]


class Body(StrEnum):
    """How the end of a body is found."""

    NONE = "none"
    LENGTH = "length"
    CHUNKED = "chunked"
    CLOSE = "close"
    """The body runs until the sender closes; only responses have it."""


@dataclass(frozen=True, slots=True)
class Framing:
    """The body that follows a head; `length` counts for `Body.LENGTH` alone."""

    body: Body
    length: int = 0

    @property
    def is_empty(self) -> bool:
        """No byte of body follows, whether or not the head says so in a length."""
        body = self.body
        return body is Body.NONE or (body is Body.LENGTH and not self.length)

    @classmethod
    def sized(cls, length: int) -> Framing:
        """Frame a body of exactly `length` bytes."""
        return cls(Body.LENGTH, length)


NO_BODY = Framing(Body.NONE)
CHUNKED = Framing(Body.CHUNKED)
UNTIL_CLOSE = Framing(Body.CLOSE)


class RequestHead(NamedTuple):
    """A request line and its fields.

    `target` is raw: paths are neither decoded nor normalised. `authority` is what the target itself
    names (absolute and authority form), `host` the one Host field; they are not compared here.
    """

    method: str
    target: str
    form: TargetForm
    headers: Headers
    framing: Framing = NO_BODY
    host: str = ""
    """Empty only for HTTP/1.0."""
    authority: str = ""
    version: Version = "1.1"
    keep_alive: bool = True
    expect_continue: bool = False
    """The client waits for 100 before it sends its body."""
    upgrade: tuple[str, ...] = ()
    """Protocols asked for, lower case; empty unless Connection nominates Upgrade."""


class ResponseHead(NamedTuple):
    """The status line and fields of a final response; 101 is final here."""

    status: int
    reason: str
    headers: Headers
    framing: Framing
    version: Version = "1.1"
    keep_alive: bool = True
    upgrade: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Informational:
    """An interim response (1xx but not 101): the final one is still to come."""

    status: int
    reason: str
    headers: Headers


@dataclass(frozen=True, slots=True)
class Data:
    """A piece of body, never empty. Pieces follow the reads, not the sender's chunks."""

    data: bytes


@dataclass(frozen=True, slots=True)
class End:
    """The message is complete."""

    trailers: Headers = ()


END = End()

RequestEvent = RequestHead | Data | End
ResponseEvent = ResponseHead | Informational | Data | End

Emit = Callable[[Data | End], None]
"""Where a body reader puts what it has read."""
