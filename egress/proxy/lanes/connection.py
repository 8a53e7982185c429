"""What the door hands to a lane: a connection whose destination is fixed and allowed.

Everything behind the door uses this destination and nothing else: rules, name resolution, dial, TLS
on both sides, the audit. Whatever a client says later is only ever compared with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from egress.exchange import Destination
from egress.rules.decide.policy import Policy
from egress.tls.client_hello import ClientHello
from egress.types import HostDecision, Identity

DestinationSource = Literal["connect", "absolute", "sni", "host"]
"""How the destination was named: a CONNECT, an absolute-form request, the SNI of a TLS client, a Host."""


@dataclass(frozen=True, slots=True)
class AdmittedConnection:
    """A client connection on its way to one destination."""

    id: str
    """Unique while the proxy runs; every record of this connection carries it."""
    identity: Identity
    listener: str
    """The name of the listener it came in by."""
    entry: DestinationSource
    destination: Destination
    decision: HostDecision
    policy: Policy
    """The policy that decided about the host."""
    hello: ClientHello | None = None
    """None on clear text."""
    started: float = 0.0
    """Monotonic seconds at which the connection was accepted."""


# The connections that are being carried now, so that what was allowed can be taken back.
class LiveConnection(Protocol):
    """A connection inside a lane."""

    @property
    def arrival(self) -> AdmittedConnection:
        """Where it goes, and for whom."""
        ...

    @property
    def secrets(self) -> frozenset[str]:
        """The names of the secrets that exchanges now under way were sent with."""
        ...

    def recheck(self, policy: Policy, now: int) -> None:
        """End, with `access.withdrawn`, whatever this policy would not let begin now."""
        ...

    def drain(self) -> None:
        """Finish the exchanges under way, take no more, and close."""
        ...

    def close(self, code: str) -> None:
        """End everything on it now; records give this code as the reason."""
        ...


class LiveConnections:
    """Every carried connection; lanes enter and leave it."""

    def __init__(self) -> None:
        self._carried: set[LiveConnection] = set()

    def enter(self, carried: LiveConnection) -> None:
        self._carried.add(carried)

    def leave(self, carried: LiveConnection) -> None:
        self._carried.discard(carried)

    def __len__(self) -> int:
        return len(self._carried)

    def __iter__(self) -> Iterator[LiveConnection]:
        # Closing one takes it out of the set while somebody walks over it.
        return iter(list(self._carried))
