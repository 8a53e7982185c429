"""Facts that the proxy reports to the audit: plain values, names and numbers only.

Nothing here can hold a secret, a query, a body or a header value: there is no field for one.
"""

from __future__ import annotations

from dataclasses import dataclass

from egress.errors import EgressError
from egress.types import Identity, Place, RuleRef, Verdict, value_class


class AuditStoppedError(EgressError):
    """The audit cannot record a request now, so the proxy must not send it."""

    code = "audit.stopped"
    exit_status = 3


@value_class
class Intent:
    """An exchange or a tunnel that is about to send something upstream."""

    # No path and no query: a slot of the in-flight file has 1 KB, and has to tell only which request was
    # lost.
    request: str
    connection: str
    sandbox: str
    host: str
    port: int
    method: str = ""
    secrets: tuple[str, ...] = ()
    """The names of the secrets that it will carry."""


@dataclass(slots=True, eq=False)
class Ticket:
    """The right to send one thing upstream. It is spent by the line that records what came of it."""

    slot: int
    is_spent: bool = False
    """A spent ticket reports nothing more: its slot may already belong to another request."""


@value_class
class Durations:
    """How long each stage took, in whole microseconds; 0 for a stage that did not happen."""

    resolve: int = 0
    connect: int = 0
    tls: int = 0
    secret: int = 0
    first_byte: int = 0
    total: int = 0


NO_DURATIONS = Durations()


@dataclass(frozen=True, slots=True, eq=False)
class ConnectionFacts:
    """The connections that exchanges went over: the same for one after the other, and made once.

    Empty text where there is nothing to say.
    """

    # Compared by identity (`eq=False`): a cache then finds the facts without hashing nine texts for every
    # line.
    connection: str
    listener: str
    entry: str
    """How the destination was named: `connect`, `absolute`, `sni`, `host`."""
    address: str = ""
    """The address that was checked and dialled."""
    sni: str = ""
    client_tls: str = ""
    upstream_tls: str = ""
    alpn: str = ""
    upstream_alpn: str = ""
    peer: str = ""
    """The address of the client, where several clients share the listener."""


@value_class
class ExchangeFacts:
    """The part of an exchange that its connections know."""

    way: ConnectionFacts
    request: str
    durations: Durations = NO_DURATIONS


@dataclass(frozen=True, slots=True)
class RefusalFacts:
    """A connection that the door refused, or a name that DNS did not answer."""

    identity: Identity
    listener: str
    entry: str
    """As for `Way`, and `dns`."""
    host: str
    code: str
    port: int = 0
    connection: str = ""
    sni: str = ""
    peer: str = ""
    rule: RuleRef | None = None
    place: Place | None = None
    policy: str = ""


@dataclass(slots=True)
class AuditCounts:
    """Counts of everything recorded since the start."""

    exchanges: int = 0
    """Requests with any verdict."""
    tunnels: int = 0
    refused: int = 0
    """Denied requests and tunnels, refused connections, and names that were not answered."""
    cut: int = 0
    """Requests and tunnels that were stopped after a part had been sent."""
    with_secret: int = 0
    """Requests that were sent with a credential."""
    unrecorded: int = 0
    """What is in no line: dropped where the settings say so, or for a mistake of ours."""


@dataclass(frozen=True, slots=True)
class TunnelFacts:
    """A finished tunnel: bytes that were passed on unread."""

    identity: Identity
    listener: str
    entry: str
    connection: str
    request: str
    """The id under which its ticket was taken."""
    host: str
    port: int
    code: str
    """Why it was allowed; or why it ended early."""
    verdict: Verdict = Verdict.ALLOW
    address: str = ""
    sni: str = ""
    peer: str = ""
    rule: RuleRef | None = None
    place: Place | None = None
    observed: bool = False
    bytes_up: int = 0
    bytes_down: int = 0
    durations: Durations = NO_DURATIONS
    policy: str = ""
