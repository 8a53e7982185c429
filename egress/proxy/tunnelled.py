"""The tunnel lane with its records: every tunnel takes a ticket before it dials, and gives one line.

A client that the lane turns away at once has sent nothing upstream: that is a refusal, and needs no ticket.
It decides nothing; what may be carried is settled by the door and the lane.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from egress.audit.values import AuditStoppedError, Durations, Opening, Refusal, Ticket
from egress.audit.values import Tunnel as Line
from egress.proxy.arrival import Arrival
from egress.proxy.clock import Clock
from egress.proxy.dial import Dialer
from egress.proxy.live import Live
from egress.proxy.metrics import Metrics
from egress.proxy.tunnel import Patience, Tunnel, TunnelEnd, refusal


class Audit(Protocol):
    """Where tunnels are recorded."""

    def begin(self, opening: Opening) -> Ticket: ...

    def tunnel(self, ticket: Ticket | None, value: Line) -> None: ...

    def refusal(self, value: Refusal) -> None: ...


class Wired(Protocol):
    """The engine, as far as it is needed here."""

    @property
    def clock(self) -> Clock: ...
    @property
    def dialer(self) -> Dialer: ...
    @property
    def live(self) -> Live: ...
    @property
    def audit(self) -> Audit: ...


class TunnelLane:
    """Carries connections that nobody looks into, and records each once."""

    def __init__(self, engine: Wired, patience: Patience, metrics: Metrics | None = None) -> None:
        """`metrics` count what is recorded here."""
        self._engine = engine
        self._metrics = metrics or Metrics()
        self._tickets: dict[str, Ticket] = {}
        self._tunnel = Tunnel(engine.dialer, engine.clock, engine.live, self._end, patience)

    async def carry(
        self, arrival: Arrival, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ahead: bytes
    ) -> None:
        """Carry a connection to its end; `ahead` is what was read of it already."""
        if not refusal(arrival):
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

    def _refuse(self, arrival: Arrival, code: str) -> None:
        self._engine.audit.refusal(_refusal(arrival, code))
        self._metrics.refused(code)


def _opening(arrival: Arrival) -> Opening:
    to = arrival.destination
    return Opening(arrival.id, arrival.id, arrival.identity.sandbox, to.host, to.port)


def _refusal(arrival: Arrival, code: str) -> Refusal:
    to, decision = arrival.destination, arrival.decision
    return Refusal(
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
