"""The tunnel lane with its records: every tunnel takes a ticket before it dials, and gives one line.

A client that the lane turns away at once has sent nothing upstream: that is a refusal, and needs no ticket.
It decides nothing; what may be carried is settled by the door and the lane.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from egress.audit.facts import AuditStoppedError, Durations, Intent, RefusalFacts, Ticket
from egress.audit.facts import TunnelFacts as Line
from egress.proxy.clock import Clock
from egress.proxy.lanes.connection import AdmittedConnection, LiveConnections
from egress.proxy.lanes.dial import Dialer
from egress.proxy.lanes.tunnel_connection import TunnelCarrier, TunnelEnd, TunnelTimeouts, refusal_code
from egress.proxy.metrics import Metrics


class TunnelAudit(Protocol):
    """Where tunnels are recorded."""

    def begin(self, opening: Intent) -> Ticket: ...

    def tunnel(self, ticket: Ticket | None, value: Line) -> None: ...

    def refusal(self, value: RefusalFacts) -> None: ...


class TunnelEngine(Protocol):
    """The engine, as far as it is needed here."""

    @property
    def clock(self) -> Clock: ...
    @property
    def dialer(self) -> Dialer: ...
    @property
    def live(self) -> LiveConnections: ...
    @property
    def audit(self) -> TunnelAudit: ...


class TunnelLane:
    """Carries connections that nobody looks into, and records each once."""

    def __init__(
        self, engine: TunnelEngine, patience: TunnelTimeouts, metrics: Metrics | None = None
    ) -> None:
        """`metrics` count what is recorded here."""
        self._engine = engine
        self._metrics = metrics or Metrics()
        self._tickets: dict[str, Ticket] = {}
        self._tunnel = TunnelCarrier(engine.dialer, engine.clock, engine.live, self._end, patience)

    async def carry(
        self,
        arrival: AdmittedConnection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ahead: bytes,
    ) -> None:
        """Carry a connection to its end; `ahead` is what was read of it already."""
        if not refusal_code(arrival):
            try:
                self._tickets[arrival.id] = self._engine.audit.begin(_opening(arrival))
            except AuditStoppedError:
                self._refuse(arrival, "audit.stopped")
                writer.close()
                return
        await self._tunnel.carry(arrival, reader, writer, ahead)

    def _end(self, end: TunnelEnd) -> None:
        ticket = self._tickets.pop(end.arrival.id, None)
        if ticket is None:
            self._refuse(end.arrival, end.code)
        else:
            self._engine.audit.tunnel(ticket, _line(end))
            self._metrics.tunnel(end.arrival.decision.entry)

    def _refuse(self, arrival: AdmittedConnection, code: str) -> None:
        self._engine.audit.refusal(_refusal(arrival, code))
        self._metrics.refused(code)


def _opening(arrival: AdmittedConnection) -> Intent:
    to = arrival.destination
    return Intent(arrival.id, arrival.id, arrival.identity.sandbox, to.host, to.port)


def _refusal(arrival: AdmittedConnection, code: str) -> RefusalFacts:
    to, decision = arrival.destination, arrival.decision
    return RefusalFacts(
        identity=arrival.identity,
        listener=arrival.listener,
        entry=arrival.entry,
        host=to.host,
        code=code,
        port=to.port,
        connection=arrival.id,
        sni=arrival.hello.sni if arrival.hello else "",
        rule=decision.rule,
        place=decision.place,
        policy=arrival.policy.digest,
    )


def _line(end: TunnelEnd) -> Line:
    arrival = end.arrival
    to, decision = arrival.destination, arrival.decision
    return Line(
        identity=arrival.identity,
        listener=arrival.listener,
        entry=arrival.entry,
        connection=arrival.id,
        request=arrival.id,
        host=to.host,
        port=to.port,
        code=end.code or decision.code,
        address=end.address,
        sni=arrival.hello.sni if arrival.hello else "",
        rule=decision.rule,
        place=decision.place,
        observed=decision.observed,
        bytes_up=end.up,
        bytes_down=end.down,
        durations=Durations(resolve=end.resolve_us, connect=end.connect_us, total=end.total_us),
        policy=arrival.policy.digest,
    )
