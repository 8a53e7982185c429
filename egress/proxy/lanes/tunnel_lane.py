"""The tunnel lane: bytes only, for hosts that are not intercepted. It can hold no secret.

The first message of the client must name the allowed host in clear: a hello that may hide a second,
encrypted one could be for any site behind the same address. Then the upstream is dialled, the bytes read
so far are sent, and the two transports are joined until one of them ends. Each connection is recorded once.

This module must not look into the bytes, and never answers anything but a TLS alert.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from egress.audit.reported_facts import (
    AuditStoppedError,
    Durations,
    Intent,
    RefusalFacts,
    Ticket,
    TunnelFacts,
)
from egress.errors import NOT_STOPPED_CODES
from egress.proxy.clock import Clock
from egress.proxy.lanes.connection import AdmittedConnection, LiveConnections, refusal_facts
from egress.proxy.lanes.dial import ConnectedSocket, Dialer, DialError
from egress.proxy.lanes.pipe import EndedBy, Pipe, PipeBuffer
from egress.proxy.lanes.relay_services import microseconds_between
from egress.proxy.metrics import Metrics
from egress.rules.decide.decision import decide_host
from egress.rules.decide.policy import Policy
from egress.rules.language.hosts import is_address
from egress.shares.pool import Resource, ShareAccount, SharePool
from egress.shares.turns import SandboxTurns, Turns
from egress.types import Verdict

_ALERT_HEAD: Final = b"\x15\x03\x03\x00\x02\x02"
_UNRECOGNIZED_NAME_CODE: Final = b"\x70"
_ACCESS_DENIED_CODE: Final = b"\x31"
_INTERNAL_ERROR_CODE: Final = b"\x50"


@dataclass(frozen=True, slots=True)
class TunnelTimeouts:
    """Time-outs of a tunnel, in seconds."""

    connect: float = 10.0
    """To resolve the name and connect, together."""
    idle: float = 600.0
    """For another byte in either direction."""


@dataclass(frozen=True, slots=True)
class TunnelEnd:
    """The outcome of a connection, reported once to `on_end`."""

    admitted: AdmittedConnection
    code: str
    """Empty if a peer ended it, otherwise one of `errors.CODES`."""
    by: EndedBy
    """The side that ended it; `proxy` for every refusal."""
    address: str
    """The dialled address; with `address.refused` the refused one. May be empty."""
    up: int
    """Bytes from the client that were passed on."""
    down: int
    """Bytes from the upstream."""
    resolve_us: int
    connect_us: int
    total_us: int
    """Since the connection was accepted."""
    note: str
    """The fault, for the operator; may be empty."""


class TunnelAudit(Protocol):
    """The log, as tunnels are recorded in it."""

    def begin(self, opening: Intent) -> Ticket: ...

    def tunnel(self, ticket: Ticket | None, value: TunnelFacts) -> None: ...

    def refusal(self, value: RefusalFacts) -> None: ...


class TunnelEngine(Protocol):
    """The parts of the engine that tunnels use."""

    @property
    def clock(self) -> Clock: ...
    @property
    def dialer(self) -> Dialer: ...
    @property
    def live(self) -> LiveConnections: ...
    @property
    def audit(self) -> TunnelAudit: ...
    @property
    def pool(self) -> SharePool: ...
    @property
    def turns(self) -> Turns: ...


class TunnelCarrier:
    """Carries tunnels and reports their ends; keeps no records."""

    def __init__(
        self,
        dialer: Dialer,
        clock: Clock,
        live: LiveConnections,
        on_end: Callable[[TunnelEnd], None],
        timeouts: TunnelTimeouts | None = None,
        turns: Turns | None = None,
    ) -> None:
        """`turns`: the shares of the loop that the bytes of tunnels take; None where nobody shares it."""
        self._dialer = dialer
        self._clock = clock
        self._live = live
        self._on_end = on_end
        self._timeouts = timeouts or TunnelTimeouts()
        self._turns = turns
        self._buffers: dict[str, PipeBuffer] = {}
        """By sandbox: one with many tunnels has less memory for each."""

    async def carry(
        self,
        admitted: AdmittedConnection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ahead: bytes,
    ) -> None:
        """Carry a connection to its end, and close it; `ahead` is what was read of it already."""
        sandbox = admitted.identity.sandbox
        buffer = self._buffers.get(sandbox)
        if buffer is None:
            buffer = self._buffers[sandbox] = PipeBuffer()
        turns = None if self._turns is None else self._turns.of(sandbox)
        tunnel = TunnelConnection(admitted, self._dialer, self._timeouts, buffer, turns)
        buffer.enter()
        self._live.enter(tunnel)
        try:
            await tunnel.run(reader, writer, ahead, self._clock.monotonic() + self._timeouts.connect)
        except asyncio.CancelledError:
            tunnel.close("proxy.stopping")
            raise
        except Exception:
            tunnel.close("internal")
            raise
        finally:
            writer.close()
            self._live.leave(tunnel)
            if buffer.leave():
                del self._buffers[sandbox]
            self._on_end(tunnel.end(self._clock.monotonic()))


class TunnelLane(TunnelCarrier):
    """The lane with its records: a tunnel takes a ticket before it dials, and gives one line of the log."""

    def __init__(
        self, engine: TunnelEngine, timeouts: TunnelTimeouts, metrics: Metrics | None = None
    ) -> None:
        """`metrics` count the recorded tunnels and refusals."""
        super().__init__(engine.dialer, engine.clock, engine.live, self._record, timeouts, engine.turns)
        self._engine = engine
        self._metrics = metrics or Metrics()
        self._tickets: dict[str, Ticket] = {}

    async def carry(
        self,
        admitted: AdmittedConnection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ahead: bytes,
    ) -> None:
        """Carry a connection to its end; `ahead` is what was read of it already."""
        account = self._engine.pool.account(admitted.identity.sandbox)
        try:
            # A client that is refused at once sends no byte upstream, so its refusal needs no ticket.
            code = "" if refusal_code(admitted) else self._begin(admitted, account)
            if code:
                self._refuse(admitted, code)
                writer.close()
                return
            await super().carry(admitted, reader, writer, ahead)
        finally:
            account.close()

    def _begin(self, admitted: AdmittedConnection, account: ShareAccount) -> str:
        """Take a slot of the audit; return why there is none, or nothing."""
        if not account.take(Resource.EXCHANGES):
            return "limit.exchanges"
        to = admitted.destination
        intent = Intent(admitted.id, admitted.id, admitted.identity.sandbox, to.host, to.port)
        try:
            self._tickets[admitted.id] = self._engine.audit.begin(intent)
        except AuditStoppedError:
            return "audit.stopped"
        return ""

    def _record(self, end: TunnelEnd) -> None:
        ticket = self._tickets.pop(end.admitted.id, None)
        if ticket is None:
            self._refuse(end.admitted, end.code)
        else:
            facts = _tunnel_facts(end)
            self._engine.audit.tunnel(ticket, facts)
            profile = end.admitted.identity.profile
            self._metrics.tunnel(end.admitted.decision.entry, profile, facts.verdict, facts.code)

    def _refuse(self, admitted: AdmittedConnection, code: str) -> None:
        self._engine.audit.refusal(refusal_facts(admitted, code))
        self._metrics.refused(code, admitted.identity.profile)


class TunnelConnection:
    """A connection in the lane."""

    def __init__(
        self,
        admitted: AdmittedConnection,
        dialer: Dialer,
        timeouts: TunnelTimeouts,
        buffer: PipeBuffer,
        turns: SandboxTurns | None,
    ) -> None:
        self.admitted = admitted
        self.secrets: frozenset[str] = frozenset()
        self._dialer = dialer
        self._pipe = Pipe(buffer, timeouts.idle, turns)
        self._dialling: asyncio.Timeout | None = None
        self._decision = admitted.decision
        """The decision of the rules in force: they may change while the upstream is dialled."""
        self._address = ""
        self._times = (0, 0)
        self._code = ""
        self._note = ""

    async def run(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ahead: bytes, deadline: float
    ) -> None:
        """Check the hello, dial, and relay until the end."""
        self._code = refusal_code(self.admitted)
        if self._code:
            writer.write(_ALERT_HEAD + _UNRECOGNIZED_NAME_CODE)
            return
        connected = await self._dial(deadline)
        if connected is None or not await self._attach_upstream(connected):
            writer.write(_ALERT_HEAD + (_ACCESS_DENIED_CODE if self._is_denied() else _INTERNAL_ERROR_CODE))
            return
        rest = await self._attach_client(reader, writer.transport)
        if rest is None:
            self._pipe.abort("client")
            return
        self._pipe.join(ahead + rest)
        await self._pipe.wait()

    async def _dial(self, deadline: float) -> ConnectedSocket | None:
        admitted = self.admitted
        try:
            async with asyncio.timeout(None) as self._dialling:
                found = await self._dialer.connect(
                    admitted.destination,
                    admitted.decision,
                    deadline=deadline,
                    owner=admitted.identity.sandbox,
                )
            self._address, self._times = found.address, (found.resolve_us, found.connect_us)
            if self._decision is not admitted.decision:
                self._check(found)
        except DialError as error:
            self._code, self._note, self._address = error.code, error.message, error.address
            return None
        except TimeoutError:
            # The tunnel was closed during the dial; the code is set.
            return None
        finally:
            self._dialling = None
        return found

    def _check(self, found: ConnectedSocket) -> None:
        """Check the address by rules that came into force during the dial."""
        try:
            self._dialer.check(self.admitted.destination.host, self._decision, (found.address,))
        except DialError as error:
            found.socket.close()
            raise DialError("access.withdrawn", error.message, address=found.address) from None

    async def _attach_upstream(self, connected: ConnectedSocket) -> bool:
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: self._pipe.upstream, sock=connected.socket
            )
        except BaseException:
            connected.socket.close()
            raise
        if self._code:
            # The tunnel was closed while the upstream was attached.
            self._pipe.abort("proxy")
        return not self._code

    async def _attach_client(
        self, reader: asyncio.StreamReader, transport: asyncio.WriteTransport
    ) -> bytes | None:
        """Take the transport from its stream; return the bytes left in the stream, None if it is closed."""
        if not isinstance(transport, asyncio.Transport) or transport.is_closing():
            return None
        self._pipe.client.attach(transport, transport.get_protocol())
        transport.set_protocol(self._pipe.client)
        _without_delay(transport)
        # The stream gets no more bytes. An end of our own makes its read return at once; a real end is
        # reported again as soon as the transport reads on.
        reader.feed_eof()
        try:
            return await reader.read()
        except OSError:
            return None

    # As a live connection

    def recheck(self, policy: Policy, now: int) -> None:
        """End the tunnel, with `access.withdrawn`, if this policy would not let it begin now."""
        asked = self.admitted.destination
        decision = decide_host(
            policy, self.admitted.identity, asked.host, asked.port, now, scheme=asked.scheme
        )
        self._decision = decision
        if not decision.allowed or decision.intercept:
            self.close("access.withdrawn")
            return
        try:
            self._dialer.check(asked.host, decision, (self._address,) if self._address else ())
        except DialError:
            self.close("access.withdrawn")

    def drain(self) -> None:
        """Let the tunnel go on: its bytes are opaque, so no good moment to end it can be seen."""

    def retire(self) -> None:
        """Let the tunnel go on, for the same reason."""

    def close(self, code: str) -> None:
        """End the tunnel now, for this reason."""
        self._code = self._code or code
        if self._dialling is not None:
            self._dialling.reschedule(asyncio.get_running_loop().time())
        self._pipe.abort("proxy")

    # The record

    def end(self, monotonic: float) -> TunnelEnd:
        """Return the outcome."""
        resolve_us, connect_us = self._times
        return TunnelEnd(
            admitted=self.admitted,
            code=self._code,
            by="proxy" if self._code else self._pipe.by or "proxy",
            address=self._address,
            up=self._pipe.client.count,
            down=self._pipe.upstream.count,
            resolve_us=resolve_us,
            connect_us=connect_us,
            total_us=microseconds_between(self.admitted.started, monotonic),
            note=self._note,
        )

    def _is_denied(self) -> bool:
        return self._code in {"access.withdrawn", "address.refused"}


def refusal_code(admitted: AdmittedConnection) -> str:
    """Return the code that refuses this client a tunnel; empty if it may have one."""
    hello = admitted.hello
    if hello is None:
        return "protocol.refused"
    host = admitted.destination.host
    named = "" if is_address(host) else host
    return "request.mismatch" if hello.encrypted or hello.sni != named else ""


def _without_delay(transport: asyncio.Transport) -> None:
    # asyncio sets these options only on sockets that were made with their protocol named.
    sock = transport.get_extra_info("socket")
    if sock.family in {socket.AF_INET, socket.AF_INET6}:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def _verdict(end: TunnelEnd) -> Verdict:
    """Judge how the tunnel ended, as an exchange does."""
    if not end.code or end.code in NOT_STOPPED_CODES:
        return Verdict.ALLOW
    return Verdict.CUT if end.up else Verdict.DENY


def _tunnel_facts(end: TunnelEnd) -> TunnelFacts:
    admitted = end.admitted
    to, decision = admitted.destination, admitted.decision
    return TunnelFacts(
        identity=admitted.identity,
        listener=admitted.listener,
        peer=admitted.peer,
        entry=admitted.entry,
        connection=admitted.id,
        request=admitted.id,
        host=to.host,
        port=to.port,
        code=end.code or decision.code,
        verdict=_verdict(end),
        address=end.address,
        sni=admitted.hello.sni if admitted.hello else "",
        rule=decision.rule,
        place=decision.place,
        observed=decision.observed,
        bytes_up=end.up,
        bytes_down=end.down,
        durations=Durations(resolve=end.resolve_us, connect=end.connect_us, total=end.total_us),
        policy=admitted.policy.digest,
    )
