"""What goes into an exchange and what comes out: plain values, the same for every protocol."""

from __future__ import annotations

from dataclasses import dataclass, field

from egress.exchange.content_coding import ContentCoding
from egress.types import Head, Headers, Scheme, value_class


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the connection goes: parsed once, by the door, and canonical."""

    scheme: Scheme
    host: str
    port: int
    authority: str = field(init=False, repr=False, compare=False)
    """The Host field that names this destination: made once, it is asked for with every request."""

    def __post_init__(self) -> None:
        host = f"[{self.host}]" if ":" in self.host else self.host
        authority = host if self.port == self.default_port else f"{host}:{self.port}"
        object.__setattr__(self, "authority", authority)

    @property
    def default_port(self) -> int:
        """The port that a URL of this scheme need not name."""
        return 443 if self.scheme == "https" else 80


@value_class
class Request:
    """A request head as it came from the sandbox, whatever the protocol."""

    method: str
    """That of the request; GET for every WebSocket, also where HTTP/2 spells it CONNECT."""
    target: str
    """Origin form or `*`; an absolute form is split into `scheme`, `authority` and this by the lane."""
    headers: Headers
    authority: str = ""
    """What the request itself names beside Host: `:authority`, or that of an absolute form."""
    upgrade: tuple[str, ...] = ()
    """The protocols asked for, lower case; `websocket` also for an extended CONNECT of HTTP/2."""
    scheme: str = ""
    """What the request itself names: `:scheme`, or that of an absolute form."""


@value_class
class Response:
    """A response head as it came from the upstream."""

    status: int
    """101 for the switch to a WebSocket in every protocol."""
    reason: str
    headers: Headers
    has_body: bool = True
    """False where nothing can follow: HEAD, 204, 304, a length of 0. Any `data` then is a fault."""


# What to do next ------------------------------------------------------------------------------


@value_class
class DenyRequest:
    """Answer the sandbox with the constant page of this code; send nothing upstream."""

    code: str
    retry_after: int = 0


@value_class
class NeedSecrets:
    """Get the values of these secrets and call `provide`."""

    names: tuple[str, ...]
    unscrubbed: bool = False
    """By `scrub: off` nothing is searched for them, so even a value too short for that will do."""


@value_class
class SendRequest:
    """Send this head upstream. It may carry credentials: it shows nothing of itself."""

    head: Head = field(repr=False)


@value_class
class AnswerHead:
    """Pass this response head on to the sandbox."""

    status: int
    reason: str
    headers: Headers
    coding: ContentCoding = ContentCoding.PLAIN
    """The coding that is taken off the body on its way."""

    @property
    def decoded(self) -> bool:
        """The body goes out decoded: how the upstream framed it does not hold, its length is not known."""
        return self.coding is not ContentCoding.PLAIN


@value_class
class CutExchange:
    """Stop here. Before a response head went out, answer with the page of the code; after, just end."""

    code: str
