"""The connection handler of the full lane: mitmproxy's layers, driven by sockets of ours.

Theory of operation. What happens on a connection becomes an event for the lowest layer; the commands
that come back are carried out at once. mitmproxy's own handler would resolve and dial by itself, go on
after a hook has failed, and read without end; so this one shares its layers, connections and hooks, and
nothing else.

    dial        only through the `Dialer`, at the destination the door has fixed
    hooks       only through the `Guard`; one that fails ends everything on this connection
    reading     only while the layer wants it
    faults      an exception anywhere below ends everything, and every exchange still gets its record
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog
from mitmproxy.connection import Client, Connection, ConnectionState, Server
from mitmproxy.options import Options
from mitmproxy.proxy import commands, events, server_hooks
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.mode_specs import ProxyMode

from egress.addons.guard import HookGuard, UndecidedError, error_location
from egress.addons.http_layers import (
    AbortConnection,
    CallRelay,
    ConnectionLost,
    FetchSecrets,
    HttpLayer,
    RootLayer,
    SecondPassed,
    SecretsFetched,
    SetReading,
    TakeAnotherTurn,
    WriteBlocked,
)
from egress.addons.tls_hooks import TlsHooks
from egress.errors import CODES
from egress.proxy.lanes.connection import AdmittedConnection
from egress.proxy.lanes.dial import ConnectedSocket, DialError
from egress.proxy.lanes.relay_services import RelayServices, UpstreamRoute, secret_specs
from egress.proxy.lanes.socket_transport import SocketTransport
from egress.relay.limits import RelayLimits
from egress.relay.relay import ClientProtocol as Spoken
from egress.relay.relay import Relay
from egress.rules.decide.policy import Policy
from egress.types import Secret

log = structlog.get_logger(__name__)

_PROXY_MODE: Final = ProxyMode.parse("regular")


class InterceptHandler:
    """One client connection in the full lane."""

    def __init__(self, lane: InterceptServices, desk: RelayServices) -> None:
        self._lane = lane
        self.desk = desk
        self.relay: Relay | None = None
        self.was_refused = False
        """An add-on has refused the handshake, and `reason` is why."""
        self.reason = "protocol.refused"
        """Why the connection ended, should it end before its first exchange."""
        self.gone = asyncio.get_running_loop().create_future()
        self._layer: RootLayer | None = None
        self._wires: dict[str, SocketTransport] = {}
        """By the id of their connection: to hash a connection itself is slow."""
        self._tasks: dict[Connection | int, asyncio.Task[None]] = {}
        self._queue: deque[events.Event] = deque()
        self._is_running = False
        self._is_recorded = False
        self._has_ended = False
        self._since = desk.monotonic()
        self._opening: dict[Connection, float] = {}
        """Upstream connections that do not stand yet, and since when."""
        self._routes: dict[Connection, UpstreamRoute] = {}
        self._late: set[Connection] = set()
        self._closing: dict[SocketTransport, float] = {}
        """Wires that close as soon as what was written is taken, and since when."""
        self._recorded = 0
        """How many exchanges had their record when the event under way came in."""
        self.client = Client(
            peername=("", 0), sockname=("", 0), timestamp_start=self._since, proxy_mode=_PROXY_MODE
        )
        self.client.state = ConnectionState.OPEN

    # What the registry of live connections asks

    @property
    def arrival(self) -> AdmittedConnection:
        return self.desk.arrival

    @property
    def secrets(self) -> frozenset[str]:
        return self.relay.secrets if self.relay is not None else frozenset()

    def recheck(self, policy: Policy, now: int) -> None:
        try:
            in_use = [route.address for route in self._routes.values()]
            is_allowed = self._lane.still_allows(self.arrival, policy, now, in_use)
        except BaseException as error:  # noqa: BLE001 - what cannot be decided is denied
            self._fail(error)
            return
        if is_allowed:
            self._order("recheck", policy, now)
        else:
            self.close("access.withdrawn")

    def drain(self) -> None:
        if self.relay is None:
            self.close("proxy.stopping")
        else:
            self._order("drain")

    def close(self, code: str) -> None:
        if self.relay is not None:
            self._order("shut", code)
            return
        try:
            self._refuse(code)
        except Exception as error:  # noqa: BLE001 - as everywhere
            self._fail(error)
        self._hang_up()

    # The life of the connection

    def start(self, transport: asyncio.Transport, ahead: bytes) -> None:
        """Begin with a connected client, and what was read of it already."""
        wire = self._wires[self.client.id] = SocketTransport(self, self.client)
        try:
            wire.adopt(transport)
            self._layer = self._entry()
        except Exception as error:  # noqa: BLE001 - as everywhere
            self._fail(error)
            return
        if transport.is_closing():
            # It may have been lost already, and then nobody would say so again.
            self.lost(wire)
            return
        self.event(events.Start())
        if ahead:
            self.event(events.DataReceived(self.client, ahead))
        wire.begin()

    def _entry(self) -> RootLayer:
        context = Context(self.client, self._lane.options)
        destination = self.arrival.destination
        context.server = Server(address=(destination.host, destination.port))
        return RootLayer(context, encrypted=destination.scheme == "https")

    def leave(self) -> None:
        """The connection is over, or its lane is called off: nothing of it stays open or unrecorded."""
        try:
            if self.relay is None:
                self._refuse(self.reason)
            elif not self._has_ended:
                self._shut("proxy.stopping")
        finally:
            self._hang_up()

    def event(self, event: events.Event) -> None:
        """Hand an event to the layers and carry out what they want; the only way in."""
        self._queue.append(event)
        if self._is_running:
            return
        self._is_running = True
        self._recorded = self.desk.finished
        try:
            while self._queue and self._layer is not None:
                for command in self._layer.handle_event(self._queue.popleft()):
                    self._carry_out(command)
        except BaseException as error:  # noqa: BLE001 - whatever it is, nothing may pass after it
            self._fail(error)
        finally:
            self._is_running = False

    def tick(self, now: float) -> None:
        """A second, or so, has passed."""
        limits = self._lane.limits
        for wire, since in list(self._closing.items()):
            if now - since > limits.closing:
                wire.abort()
        if self.relay is None:
            if now - self._since > limits.client_tls:
                self.close("request.timeout")
            return
        for connection, since in list(self._opening.items()):
            if now - since > limits.upstream_open:
                self._give_up(connection)
        self.event(SecondPassed())

    # What wires report

    def received(self, wire: SocketTransport, data: bytes) -> None:
        self.event(events.DataReceived(wire.connection, data))

    def ended(self, wire: SocketTransport) -> None:
        wire.connection.state &= ~ConnectionState.CAN_READ
        self.event(events.ConnectionClosed(wire.connection))

    def blocked(self, wire: SocketTransport, *, blocked: bool) -> None:
        self.event(WriteBlocked(wire.connection, blocked=blocked))

    def lost(self, wire: SocketTransport) -> None:
        connection = wire.connection
        self._wires.pop(connection.id, None)
        self._closing.pop(wire, None)
        was_open = bool(connection.state & ConnectionState.CAN_READ)
        connection.state = ConnectionState.CLOSED
        if was_open:
            self.event(ConnectionLost(connection))
        if isinstance(connection, Server):
            self._routes.pop(connection, None)
            self._late.discard(connection)
            self._hook(server_hooks.ServerDisconnectedHook(self._hook_data(connection)))
        else:
            self._order("gone")
            self._hang_up()

    # What the HTTP layer asks

    def http(self, context: Context, protocol: Spoken) -> HttpLayer:
        """The layer that reads this client, now that its protocol is known."""
        self.desk.client_tls = self.client.tls_version or ""
        self.desk.alpn = (self.client.alpn or b"").decode("latin-1")
        self.relay = Relay(
            self.desk,
            self.desk.sandbox.identity,
            self.arrival.destination,
            protocol=protocol,
            single=self.arrival.entry == "absolute",
            limits=self._lane.limits.relay,
        )
        return HttpLayer(context, self.relay, self)

    def is_fit(self, wire: int, server: Server) -> bool:
        """Whether an upstream connection may be used: without proof of who it is, nothing is sent."""
        opened = self._opening.pop(server, None)
        route = self._routes.get(server)
        if opened is None or route is None:
            return False
        if self.arrival.destination.scheme == "https":
            proof = self._lane.tls.proof(server)
            if proof is None:
                return False
            route.tls = int((self.desk.monotonic() - opened) * 1_000_000)
            route.tls_version, route.alpn = proof.version, proof.alpn.decode("latin-1")
        self.desk.keep(wire, route, self._routes.values())
        return True

    def failure_code(self, wire: int, server: Server, error: str) -> str:
        """The code of the reason for which an upstream connection could not be made."""
        route = self._routes.get(server)
        if route is not None:
            # It was dialled, and the record says where.
            self.desk.keep(wire, route, self._routes.values())
        if server in self._late:
            return "upstream.timeout"
        return error if error in CODES else "upstream.tls"

    # Commands

    def _carry_out(self, command: commands.Command) -> None:
        if type(command) is commands.SendData:
            wire = self._wires.get(command.connection.id)
            if wire is not None:
                wire.write(command.data)
        elif isinstance(command, commands.StartHook):
            self._lane.guard.run(command)
            if command.blocking:
                self._queue.append(events.HookCompleted(command))
        elif not isinstance(command, commands.Log):
            # What mitmproxy would log is told by the add-ons, in words that quote nobody.
            self._carry_out_rare(command)

    def _carry_out_rare(self, command: commands.Command) -> None:
        if isinstance(command, SetReading):
            wire = self._wires.get(command.connection.id)
            if wire is not None:
                wire.gate(reads=command.reads)
        elif isinstance(command, commands.OpenConnection):
            self._start(command.connection, self._open(command))
        elif isinstance(command, FetchSecrets):
            self._start(command.order.ticket, self._fetch(command))
        elif isinstance(command, TakeAnotherTurn):
            asyncio.get_running_loop().call_soon(self._order, "again")
        elif isinstance(command, AbortConnection):
            self._end(command.connection, at_once=True)
        elif isinstance(command, commands.CloseConnection):
            self._end(command.connection, at_once=False)
        else:
            raise TypeError(f"no lane carries out {type(command).__name__}")

    def _end(self, connection: Connection, *, at_once: bool) -> None:
        self._opening.pop(connection, None)
        task = self._tasks.pop(connection, None)
        if task is not None and connection.id not in self._wires:
            task.cancel()
        wire = self._wires.get(connection.id)
        connection.state = ConnectionState.CLOSED
        if wire is None:
            return
        if at_once:
            wire.abort()
        else:
            self._closing.setdefault(wire, self.desk.monotonic())
            wire.close()

    # What takes time

    def _start(self, key: Connection | int, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[key] = task
        task.add_done_callback(lambda _: self._tasks.pop(key, None) if self._tasks.get(key) is task else None)

    async def _open(self, command: commands.OpenConnection) -> None:
        connection = command.connection
        try:
            self._opening[connection] = self.desk.monotonic()
            self._check(connection)
            self._lane.guard.run(server_hooks.ServerConnectHook(self._hook_data(connection)))
            await self._connected(command, connection, await self._lane.dial(self.arrival))
        except DialError as error:
            log.info(
                "upstream.not_dialled",
                connection=self.arrival.id,
                host=self.arrival.destination.host,
                code=error.code,
                address=error.address,
                reason=error.reason or error.message,
            )
            self._not_opened(command, error.code)
        except asyncio.CancelledError:
            # Nobody waits for it any more, unless it was given up for taking too long.
            self._not_opened(command, "upstream.timeout" if connection in self._late else "internal")
            raise
        except BaseException as error:  # noqa: BLE001 - as everywhere
            self._fail(error)

    def _check(self, connection: Server) -> None:
        """The last line: whatever a layer says, there is one destination, and no way around it."""
        to = self.arrival.destination
        if connection.address != (to.host, to.port) or connection.via is not None:
            raise TypeError("asked to dial something else than the destination")

    def _not_opened(self, command: commands.OpenConnection, code: str) -> None:
        self._opening.pop(command.connection, None)
        self.event(events.OpenConnectionCompleted(command, code))

    async def _connected(
        self, command: commands.OpenConnection, connection: Server, connected: ConnectedSocket
    ) -> None:
        wire = SocketTransport(self, connection)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(lambda: wire, sock=connected.socket)
        wire.adopt(transport)
        if self._has_ended or connection not in self._opening:
            transport.abort()
            return
        if transport.is_closing():
            raise DialError("upstream.unreachable", "the upstream closed the connection at once")
        self._wires[connection.id] = wire
        connection.state = ConnectionState.OPEN
        self._opening[connection] = self.desk.monotonic()
        self._routes[connection] = UpstreamRoute(
            connected.address, connected.resolve_us, connected.connect_us
        )
        self.event(events.OpenConnectionCompleted(command, None))

    async def _fetch(self, command: FetchSecrets) -> None:
        order = command.order
        found: Mapping[str, Secret] = {}
        try:
            async with asyncio.timeout(self._lane.limits.secrets):
                found = await self.desk.engine.secrets.resolve(
                    secret_specs(order.policy, order.names), order.names if order.unscrubbed else ()
                )
        except Exception as error:  # noqa: BLE001 - as everywhere
            # Without the traceback that `exception` would print: it may show what it was about.
            log.error(  # noqa: TRY400
                "secret.failed", names=order.names, error=error_location(error)
            )
        finally:
            # What could not be had is missing, and denies.
            self.event(SecretsFetched(order.ticket, found))

    # Ends

    def _order(self, name: str, *arguments: object) -> None:
        self.event(CallRelay(name, *arguments))

    def _give_up(self, connection: Connection) -> None:
        """An upstream takes too long to connect, or to prove who it is."""
        self._opening.pop(connection, None)
        self._late.add(connection)
        wire, task = self._wires.get(connection.id), self._tasks.get(connection)
        if wire is not None:
            wire.abort()
            # What we close ourselves is not told as closed.
            self.event(events.ConnectionClosed(connection))
        elif task is not None:
            task.cancel()

    def _fail(self, error: BaseException) -> None:
        """End everything on this connection. Raises nothing but what ends the process."""
        if isinstance(error, UndecidedError) and self.was_refused:
            # An add-on has said why: that is no fault, and needs no other words.
            self._refuse(self.reason)
            self._hang_up()
            return
        log.error("connection.failed", connection=self.arrival.id, error=error_location(error))
        try:
            # After its end everything on it is recorded.
            if not self._has_ended:
                self._record_failure()
        except Exception as second:  # noqa: BLE001 - there is nothing left to do about it
            log.error(  # noqa: TRY400 - as above
                "connection.unrecorded", connection=self.arrival.id, error=error_location(second)
            )
        finally:
            self._hang_up()
            if isinstance(error, SystemExit | KeyboardInterrupt):
                raise error

    def _record_failure(self) -> None:
        try:
            self._shut("internal")
        finally:
            if self.desk.finished == self._recorded:
                # No exchange tells of it.
                self._refuse("internal")

    def _shut(self, code: str) -> None:
        """Have every exchange recorded; what would still be sent is dropped."""
        # From here on no event does anything.
        self._layer = None
        self._queue.clear()
        if self.relay is not None:
            self.relay.shut(code)

    def _refuse(self, code: str) -> None:
        """Record a connection that no exchange tells of, once."""
        if not self._is_recorded:
            self._is_recorded = True
            self.desk.refuse(code)

    def _hang_up(self) -> None:
        """Close everything that is still open."""
        self._has_ended = True
        self._layer = None
        self._queue.clear()
        for task in list(self._tasks.values()):
            task.cancel()
        for wire in list(self._wires.values()):
            wire.abort()
        if not self.gone.done():
            self.gone.set_result(None)

    def _hook(self, hook: commands.StartHook) -> None:
        try:
            self._lane.guard.run(hook)
        except BaseException as error:  # noqa: BLE001 - as everywhere
            self._fail(error)

    def _hook_data(self, server: Server) -> server_hooks.ServerConnectionHookData:
        return server_hooks.ServerConnectionHookData(client=self.client, server=server)


# What the handlers of the full lane share, as each of them sees it.
@dataclass(frozen=True, slots=True)
class InterceptLimits:
    """How long the stages of an intercepted connection may take, in seconds."""

    client_tls: float = 15.0
    """The TLS handshake with the client."""
    dial: float = 15.0
    """Resolving the name and connecting."""
    upstream_open: float = 30.0
    """The same, with the TLS handshake of the upstream."""
    secrets: float = 30.0
    """Getting secrets; the resolver has a deadline of its own, and this is for when it is not kept."""
    closing: float = 10.0
    """For a peer to take what is still to be sent on a connection that is being closed."""
    relay: RelayLimits = field(default_factory=RelayLimits)


class InterceptServices(Protocol):
    """What the handlers of a lane share."""

    @property
    def guard(self) -> HookGuard: ...

    @property
    def tls(self) -> TlsHooks: ...

    @property
    def options(self) -> Options: ...

    @property
    def limits(self) -> InterceptLimits: ...

    async def dial(self, arrival: AdmittedConnection) -> ConnectedSocket:
        """Connect to the destination, at an address that was checked."""
        ...

    def still_allows(
        self, arrival: AdmittedConnection, policy: Policy, now: int, addresses: Collection[str] = ()
    ) -> bool:
        """Whether this policy would let the connection be made now, in this lane, to these addresses."""
        ...
