"""Carried connections: the ingress hands them to a lane, with a destination that is fixed.

Rules, name resolution, dial, TLS on both sides and the audit use this destination and no other. Names
that the client sends later are only compared with it.

An `AdmittedConnection` may go to its destination. A `DeniedConnection` may go nowhere, and is served the
reason. Neither can be made with the decision of the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from egress.audit.reported_facts import RefusalFacts
from egress.exchange import Destination
from egress.rules.decide.policy import Policy
from egress.tls.client_hello import ClientHello
from egress.types import HostDecision, Identity

DestinationSource = Literal["connect", "absolute", "sni", "host"]
"""The naming of the destination: a CONNECT, an absolute-form request, the SNI of a TLS client, a Host."""


@dataclass(frozen=True, slots=True)
class CarriedConnection:
    """A client connection that names one destination."""

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
    peer: str = ""
    """The address of the client, where several clients share the listener."""


@dataclass(frozen=True, slots=True)
class AdmittedConnection(CarriedConnection):
    """A client connection on its way to a destination that the rules allow."""

    def __post_init__(self) -> None:
        if not self.decision.allowed:
            raise TypeError("a connection to a denied destination cannot be admitted")


@dataclass(frozen=True, slots=True)
class DeniedConnection(CarriedConnection):
    """A client connection that is told, inside of its own TLS, why its destination is denied."""

    def __post_init__(self) -> None:
        if self.decision.allowed:
            raise TypeError("a connection to an allowed destination has no denial to be told")


def refusal_facts(connection: CarriedConnection, code: str) -> RefusalFacts:
    """Return the facts of a connection that ended without an exchange or a tunnel."""
    to, decision = connection.destination, connection.decision
    return RefusalFacts(
        identity=connection.identity,
        listener=connection.listener,
        peer=connection.peer,
        entry=connection.entry,
        host=to.host,
        port=to.port,
        code=code,
        connection=connection.id,
        sni=connection.hello.sni if connection.hello else "",
        rule=decision.rule,
        place=decision.place,
        policy=connection.policy.digest,
    )


# Live connections are registered, so that access can be revoked while they run.
class LiveConnection(Protocol):
    """A connection inside a lane."""

    @property
    def admitted(self) -> CarriedConnection:
        """The connection as the ingress handed it over: its destination and its sandbox."""
        ...

    @property
    def secrets(self) -> frozenset[str]:
        """The names of the secrets that exchanges now under way were sent with."""
        ...

    def recheck(self, policy: Policy, now: int) -> None:
        """End, with `access.withdrawn`, all that this policy would not let begin now."""
        ...

    def drain(self) -> None:
        """Finish the exchanges under way, take no more, and close."""
        ...

    def retire(self) -> None:
        """End with the next answer, so that the client asks elsewhere."""
        ...

    def close(self, code: str) -> None:
        """End the connection and its exchanges now; records give this code as the reason."""
        ...


class LiveConnections:
    """Every carried connection; lanes enter and leave it."""

    def __init__(self) -> None:
        self._carried: set[LiveConnection] = set()
        self._of_pods: dict[str, set[LiveConnection]] = {}
        self._of_tickets: dict[str, set[LiveConnection]] = {}

    def enter(self, carried: LiveConnection) -> None:
        self._carried.add(carried)
        for index, key in self._keys(carried):
            index.setdefault(key, set()).add(carried)

    def leave(self, carried: LiveConnection) -> None:
        self._carried.discard(carried)
        for index, key in self._keys(carried):
            known = index.get(key, set())
            known.discard(carried)
            if not known:
                index.pop(key, None)

    def _keys(self, carried: LiveConnection) -> Iterator[tuple[dict[str, set[LiveConnection]], str]]:
        identity = carried.admitted.identity
        if identity.workload:
            yield self._of_pods, identity.workload.pod_uid
        if identity.ticket:
            yield self._of_tickets, identity.ticket

    def of_pod(self, uid: str) -> tuple[LiveConnection, ...]:
        """Return the connections of a pod, without a walk through all others."""
        return tuple(self._of_pods.get(uid, ()))

    def of_ticket(self, ticket: str) -> tuple[LiveConnection, ...]:
        """Return the connections that came with a ticket, by its id."""
        return tuple(self._of_tickets.get(ticket, ()))

    @property
    def tickets(self) -> tuple[str, ...]:
        """The ids of the tickets that connections came with."""
        return tuple(self._of_tickets)

    def __len__(self) -> int:
        return len(self._carried)

    def __contains__(self, carried: object) -> bool:
        return carried in self._carried

    def __iter__(self) -> Iterator[LiveConnection]:
        # A copy: closing a connection removes it from the set during the iteration.
        return iter(list(self._carried))
