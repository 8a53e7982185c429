"""What the door hands to a lane: a connection whose destination is fixed and allowed.

Everything behind the door uses this destination and nothing else: rules, name resolution, dial, TLS
on both sides, the audit. Whatever a client says later is only ever compared with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from egress.exchange import Destination
from egress.proxy.clienthello import ClientHello
from egress.rules.policy import Policy
from egress.types import HostDecision, Identity

Entry = Literal["connect", "absolute", "sni", "host"]
"""How the destination was named: a CONNECT, an absolute-form request, the SNI of a TLS client, a Host."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A client connection on its way to one destination."""

    id: str
    """Unique while the proxy runs; every record of this connection carries it."""
    identity: Identity
    listener: str
    """The name of the listener it came in by."""
    entry: Entry
    destination: Destination
    decision: HostDecision
    policy: Policy
    """The policy that decided about the host."""
    hello: ClientHello | None = None
    """None on clear text."""
    started: float = 0.0
    """Monotonic seconds at which the connection was accepted."""
