"""The lane that carries bytes only: for hosts that are not to be intercepted. It can hold no secret.

The first message of the client must name the host that the rules allowed, in clear: a hello that may hide a
second, encrypted one could be for any site behind the same address. Then the upstream is dialled, what has
been read already is sent, and from there on two transports are joined until one of them ends.

The connection is told once, in the end, to `on_end`: who, where to, how much, why it ended.

It must not look into the bytes, and it never answers anything but a TLS alert.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from egress.proxy.clock import Clock
from egress.proxy.lanes.connection import AdmittedConnection, LiveConnections
from egress.proxy.lanes.dial import ConnectedSocket, Dialer, DialError
from egress.proxy.lanes.pipe import EndedBy, Pipe, PipeBuffer
from egress.rules.decide.decision import decide_host
from egress.rules.decide.policy import Policy
from egress.rules.language.hosts import is_address

_ALERT_HEAD: Final = b"\x15\x03\x03\x00\x02\x02"
_UNRECOGNIZED_NAME_CODE: Final = b"\x70"
_ACCESS_DENIED_CODE: Final = b"\x31"
_INTERNAL_ERROR_CODE: Final = b"\x50"


@dataclass(frozen=True, slots=True)
class TunnelTimeouts:
    """How long, in seconds, is waited for what."""

    connect: float = 10.0
    """To resolve the name and connect, together."""
    idle: float = 600.0
    """For another byte in either direction."""


@dataclass(frozen=True, slots=True)
class TunnelEnd:
    """What a connection came to."""

    arrival: AdmittedConnection
    code: str
    """Empty where it came to its own end, otherwise one of `errors.CODES`."""
    by: EndedBy
    """Who made the end; `proxy` for every refusal."""
    address: str
    """The address that was dialled; with `address.refused` the one that was not. May be empty."""
    up: int
    """Bytes from the client."""
    down: int
    """Bytes from the upstream."""
    resolve_us: int
    connect_us: int
    total_us: int
    """Since the connection was accepted."""
    note: str
    """For the operator: what went wrong; may be empty."""


class TunnelCarrier:
    """The lane."""

    def __init__(
        self,
        dialer: Dialer,
        clock: Clock,
        live: LiveConnections,
        on_end: Callable[[TunnelEnd], None],
        patience: TunnelTimeouts | None = None,
    ) -> None:
        self._dialer = dialer
        self._clock = clock
        self._live = live
        self._on_end = on_end
        self._patience = patience or TunnelTimeouts()
        self._room = PipeBuffer()

    async def carry(
        self,
        arrival: AdmittedConnection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ahead: bytes,
    ) -> None:
        """Carry a connection to its end, and close it; `ahead` is what was read of it already."""
        passage = TunnelConnection(arrival, self._dialer, self._patience, self._room)
        self._live.enter(passage)
        try:
            await passage.run(reader, writer, ahead, self._clock.monotonic() + self._patience.connect)
        except asyncio.CancelledError:
            passage.close("proxy.stopping")
            raise
        except Exception:
            passage.close("internal")
            raise
        finally:
            writer.close()
            self._live.leave(passage)
            self._on_end(passage.end(self._clock.monotonic()))


class TunnelConnection:
    """One connection in the lane."""

    def __init__(
        self, arrival: AdmittedConnection, dialer: Dialer, patience: TunnelTimeouts, room: PipeBuffer
    ) -> None:
        self.arrival = arrival
        self.secrets: frozenset[str] = frozenset()
        self._dialer = dialer
        self._pipe = Pipe(room, patience.idle)
        self._dialling: asyncio.Timeout | None = None
        self._decision = arrival.decision
        """That of the rules in force: they may change while the upstream is dialled."""
        self._address = ""
        self._times = (0, 0)
        self._code = ""
        self._note = ""

    async def run(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ahead: bytes, deadline: float
    ) -> None:
        """Check the hello, dial, and relay until the end."""
        self._code = refusal_code(self.arrival)
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
        arrival = self.arrival
        try:
            async with asyncio.timeout(None) as self._dialling:
                found = await self._dialer.connect(
                    arrival.destination, arrival.decision, deadline=deadline, owner=arrival.identity.sandbox
                )
            self._address, self._times = found.address, (found.resolve_us, found.connect_us)
            if self._decision is not arrival.decision:
                self._check(found)
        except DialError as error:
            self._code, self._note, self._address = error.code, error.message, error.address
            return None
        except TimeoutError:
            # Closed meanwhile; the code is set.
            return None
        finally:
            self._dialling = None
        return found

    def _check(self, found: ConnectedSocket) -> None:
        """Check by rules that came while it was dialled by those before."""
        try:
            self._dialer.check(self.arrival.destination.host, self._decision, (found.address,))
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
            # Closed meanwhile.
            self._pipe.abort("proxy")
        return not self._code

    async def _attach_client(
        self, reader: asyncio.StreamReader, transport: asyncio.WriteTransport
    ) -> bytes | None:
        """Take the transport from its stream; return what the stream still holds, None if it is closed."""
        if not isinstance(transport, asyncio.Transport) or transport.is_closing():
            return None
        self._pipe.client.attach(transport, transport.get_protocol())
        transport.set_protocol(self._pipe.client)
        _without_delay(transport)
        # The stream gets nothing any more. An end of our own makes its read return what it has, at once;
        # a real one is reported again as soon as the transport reads on.
        reader.feed_eof()
        try:
            return await reader.read()
        except OSError:
            return None

    # Carried ----------------------------------------------------------------------------------------

    def recheck(self, policy: Policy, now: int) -> None:
        """End it, with `access.withdrawn`, if this policy would not let it begin now."""
        asked = self.arrival.destination
        decision = decide_host(
            policy, self.arrival.identity, asked.host, asked.port, now, scheme=asked.scheme
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
        """Let it go on: what it carries cannot be seen, so nothing tells when it may end."""

    def close(self, code: str) -> None:
        """End it now, for this reason."""
        self._code = self._code or code
        if self._dialling is not None:
            self._dialling.reschedule(asyncio.get_running_loop().time())
        self._pipe.abort("proxy")

    # The record -------------------------------------------------------------------------------------

    def end(self, monotonic: float) -> TunnelEnd:
        """Return what it came to."""
        resolve_us, connect_us = self._times
        return TunnelEnd(
            arrival=self.arrival,
            code=self._code,
            by="proxy" if self._code else self._pipe.by or "proxy",
            address=self._address,
            up=self._pipe.client.count,
            down=self._pipe.upstream.count,
            resolve_us=resolve_us,
            connect_us=connect_us,
            total_us=int((monotonic - self.arrival.started) * 1_000_000),
            note=self._note,
        )

    def _is_denied(self) -> bool:
        return self._code in {"access.withdrawn", "address.refused"}


def refusal_code(arrival: AdmittedConnection) -> str:
    """Return the code by which this client may not have a lane that nobody looks into; empty if it may."""
    hello = arrival.hello
    if hello is None:
        return "protocol.refused"
    host = arrival.destination.host
    named = "" if is_address(host) else host
    return "request.mismatch" if hello.encrypted or hello.sni != named else ""


def _without_delay(transport: asyncio.Transport) -> None:
    # asyncio does this only for sockets that were made with their protocol named.
    sock = transport.get_extra_info("socket")
    if sock.family in {socket.AF_INET, socket.AF_INET6}:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
