"""The connection handler of the intercept lane: mitmproxy's layers, driven by sockets of ours.

A read, an end or a timer becomes an event for the lowest layer; the commands that come back are carried out
at once. mitmproxy's own handler would resolve and dial by itself, go on after a failed hook, and read without
end; so this handler shares only its layers, connections and hooks:

    dial        only through the `Dialer`, at the destination that the ingress has fixed
    hooks       only through the `HookGuard`; a hook that fails ends the connection
    faults      an exception anywhere below ends the connection, and every exchange still gets its record
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Coroutine
from typing import Final, Protocol

import structlog
from mitmproxy.connection import Client, Connection, ConnectionState, Server
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.proxy.server_hooks import ServerConnectHook, ServerConnectionHookData, ServerDisconnectedHook

from egress.addons.guard import HookGuard, UndecidedError, error_location
from egress.addons.http_layers import (
    AbortConnection,
    CallRelay,
    FetchSecrets,
    HandBackClient,
    HttpLayer,
    RootLayer,
    RunHandler,
    SecondPassed,
    SetReading,
    TakeAnotherTurn,
    WriteBlocked,
)
from egress.addons.tls_hooks import TlsHooks
from egress.addons.tls_layers import ConnectionLost
from egress.addons.withheld_options import NO_OPTIONS
from egress.errors import CODES
from egress.proxy.event_loop import drive
from egress.proxy.lanes.awaited_answers import ask
from egress.proxy.lanes.connection import CarriedConnection
from egress.proxy.lanes.dial import ConnectedSocket, DialError
from egress.proxy.lanes.intercept_limits import InterceptLimits
from egress.proxy.lanes.relay_services import RelayServices, UpstreamRoute
from egress.proxy.lanes.socket_transport import SocketTransport
from egress.relay.relay import ClientProtocol, Relay
from egress.rules.decide.policy import Policy

log = structlog.get_logger(__name__)
_PROXY_MODE: Final = ProxyMode.parse("regular")


class InterceptServices(Protocol):
    """The lane, as its handlers use it."""

    @property
    def guard(self) -> HookGuard: ...
    @property
    def tls(self) -> TlsHooks: ...
    @property
    def limits(self) -> InterceptLimits: ...

    async def dial(self, admitted: CarriedConnection) -> ConnectedSocket:
        """Connect to the destination, at an address that was checked; raises `TypeError` for a denied one."""

    def still_allows(
        self, admitted: CarriedConnection, policy: Policy, now: int, addresses: Collection[str] = ()
    ) -> bool:
        """Tell whether this policy would let the connection be made now, in this lane, to these addresses."""


class InterceptHandler:
    """A client connection in the intercept lane."""

    def __init__(self, lane: InterceptServices, services: RelayServices) -> None:
        self._lane = lane
        self.services = services
        self.admitted = services.admitted
        self.relay: Relay | None = None
        self.was_refused = False
        """An add-on has refused the handshake, for `reason`."""
        self.reason = "protocol.refused"
        """The code to record if the connection ends before its first exchange."""
        self.gone: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        """Set at the end: to the bytes of a client that goes on to another destination, or to None."""
        self._layer: RootLayer | None = None
        self._wires: dict[str, SocketTransport] = {}
        """By connection id: hashing a connection itself is slow."""
        self._tasks: dict[Connection | int, asyncio.Task[None]] = {}
        # Events of a step are queued: the layers are never entered while they run.
        self._queue: deque[events.Event] = deque()
        self._is_running = False
        self._turns = services.turn
        self._is_recorded = False
        self._has_ended = False
        self._since = self._ticked = services.monotonic()
        self._opening: dict[Connection, float] = {}
        """Upstream connections being made, and since when."""
        self._routes: dict[Connection, UpstreamRoute] = {}
        self._late: set[Connection] = set()
        self._closing: dict[SocketTransport, float] = {}
        """Wires that close once their last bytes are sent, and since when."""
        self._recorded = 0
        """Exchanges with a record when the current event came in."""
        self.client = Client(
            peername=("", 0), sockname=("", 0), timestamp_start=self._since, proxy_mode=_PROXY_MODE
        )
        self.client.state = ConnectionState.OPEN
        self.context = Context(self.client, NO_OPTIONS)

    # As a live connection

    @property
    def secrets(self) -> frozenset[str]:
        return self.relay.secrets if self.relay is not None else frozenset()

    def recheck(self, policy: Policy, now: int) -> None:
        try:
            addresses = [route.address for route in self._routes.values()]
            is_allowed = self._lane.still_allows(self.admitted, policy, now, addresses)
            # Between two exchanges there is none that could be denied.
            is_resting = self.relay is not None and self.relay.is_resting
        except BaseException as error:  # noqa: BLE001 - an undecidable connection is denied
            self._fail(error)
            return
        if not is_allowed:
            self.close("access.withdrawn")
        elif not is_resting:
            self._order("recheck", policy, now)

    def drain(self) -> None:
        if self.relay is None:
            self.close("proxy.stopping")
        else:
            self._order("drain")

    def retire(self) -> None:
        if self.relay is not None:
            self._order("retire")

    def close(self, code: str) -> None:
        if self.relay is not None:
            self._order("shut", code)
            return
        try:
            self._refuse(code)
        except BaseException as error:  # noqa: BLE001 - as everywhere
            self._fail(error)
        self._hang_up()

    # The life of the connection

    def start(self, transport: asyncio.Transport, ahead: bytes) -> None:
        """Begin with a connected client; `ahead` was read of it already."""
        wire = self._wires[self.client.id] = SocketTransport(self, self.client, self.services)
        try:
            wire.adopt(transport)
            destination = self.admitted.destination
            self.context.server = Server(address=(destination.host, destination.port))
            self._layer = RootLayer(self.context, encrypted=destination.scheme == "https")
        except Exception as error:  # noqa: BLE001 - as everywhere
            self._fail(error)
            return
        if transport.is_closing():
            # A loss before this point was reported to the stream, and is not reported again.
            self.lost(wire)
            return
        self.event(events.Start())
        if ahead:
            self.event(events.DataReceived(self.client, ahead))
        wire.begin()

    def leave(self) -> None:
        """End with the connection or its lane: no socket stays open, and no exchange unrecorded."""
        try:
            if self.relay is None:
                self._refuse(self.reason)
            elif not self._has_ended:
                self._shut("proxy.stopping")
        finally:
            self._hang_up()

    def event(self, event: events.Event) -> None:
        """Hand an event to the layers and carry out their commands; the only entry to the layers."""
        self._queue.append(event)
        if self._is_running:
            return
        self._is_running = True
        self._recorded = self.services.finished
        self._turns.enter()
        try:
            while self._queue and self._layer is not None:
                for command in self._layer.handle_event(self._queue.popleft()):
                    self._carry_out(command)
        except BaseException as error:  # noqa: BLE001 - no byte may pass after a fault
            self._fail(error)
        finally:
            self._is_running = False
            self._turns.leave()

    def needs_tick(self, now: float) -> bool:
        """Tell whether `tick` may find something; a connection that rests is looked at now and then."""
        try:
            is_busy = self._opening or self._closing or self.relay is None or not self.relay.is_resting
        except BaseException as error:  # noqa: BLE001 - as everywhere; and the others of the lane get their look
            self._fail(error)
            return False
        return bool(is_busy) or now - self._ticked >= self._lane.limits.relay.rest_tick

    def tick(self, now: float) -> None:
        """End the stages that take too long; called about once a second, unless nothing can be found."""
        self._ticked = now
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

    # Reports of the wires

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
            try:
                self._lane.guard.run(
                    ServerDisconnectedHook(ServerConnectionHookData(connection, self.client))
                )
            except BaseException as error:  # noqa: BLE001 - as everywhere
                self._fail(error)
        else:
            self._order("gone")
            self._hang_up()

    # Calls of the HTTP layer

    def http(self, context: Context, protocol: ClientProtocol) -> HttpLayer:
        """Make the layer that reads this client, whose protocol is now known."""
        self.services.client_tls = self.client.tls_version or ""
        self.services.alpn = (self.client.alpn or b"").decode("latin-1")
        admitted, limits = self.admitted, self._lane.limits.relay
        forward = admitted.entry == "absolute"
        self.relay = Relay(
            self.services,
            admitted.identity,
            admitted.destination,
            protocol=protocol,
            forward=forward,
            limits=limits,
        )
        if self.services.engine.leaving:
            self.relay.retire()
        return HttpLayer(context, self.relay, self)

    def is_fit(self, wire: int, server: Server) -> bool:
        """Tell whether an upstream connection may be used: no byte is sent without proof of its identity."""
        opened = self._opening.pop(server, None)
        route = self._routes.get(server)
        if opened is None or route is None:
            return False
        if self.admitted.destination.scheme == "https":
            proof = self._lane.tls.proof(server)
            if proof is None:
                return False
            route.tls = int((self.services.monotonic() - opened) * 1_000_000)
            route.tls_version, route.alpn = proof.version, proof.alpn.decode("latin-1")
        self.services.keep(wire, route, self._routes.values())
        return True

    def failure_code(self, wire: int, server: Server, error: str) -> str:
        """Return the code for an upstream connection that could not be made."""
        route = self._routes.get(server)
        if route is not None:
            # The upstream was dialled, and the record shows the address.
            self.services.keep(wire, route, self._routes.values())
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
            # The add-ons log the same events without quoting a peer, which mitmproxy's log would do.
            self._carry_out_rare(command)

    def _carry_out_rare(self, command: commands.Command) -> None:
        if isinstance(command, SetReading):
            wire = self._wires.get(command.connection.id)
            if wire is not None:
                wire.gate(reads=command.reads)
        elif isinstance(command, commands.OpenConnection):
            self._start(command.connection, lambda: self._open(command))
        elif isinstance(command, FetchSecrets | RunHandler):
            waits = ask(self.event, self.services.engine, command, self._lane.limits.secrets)
            if waits is not None:
                self._start(command.order.ticket, waits)
        elif isinstance(command, TakeAnotherTurn):
            self._turns.wait(lambda: self._order("again"))
        elif isinstance(command, HandBackClient):
            self._wires.pop(self.client.id).release()
            self._hang_up(command.data)
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
        if wire is not None and at_once:
            wire.abort()
        elif wire is not None:
            self._closing.setdefault(wire, self.services.monotonic())
            wire.close()

    # Tasks

    def _start(self, key: Connection | int, work: Callable[[], Coroutine[object, object, None]]) -> None:
        task = asyncio.get_running_loop().create_task(drive(self._turns, work))
        self._tasks[key] = task
        task.add_done_callback(lambda _: self._tasks.pop(key, None) if self._tasks.get(key) is task else None)

    async def _open(self, command: commands.OpenConnection) -> None:
        connection = command.connection
        try:
            self._opening[connection] = self.services.monotonic()
            self._check(connection)
            self._lane.guard.run(ServerConnectHook(ServerConnectionHookData(connection, self.client)))
            await self._connected(command, connection, await self._lane.dial(self.admitted))
        except DialError as error:
            to = self.admitted.destination.host
            log.info("upstream.not_dialled", connection=self.admitted.id, host=to, **error.log_fields())
            self._not_opened(command, error.code, error.address)
        except asyncio.CancelledError:
            # The connection is no longer needed, or was given up for taking too long.
            self._not_opened(command, "upstream.timeout" if connection in self._late else "internal")
            raise
        except BaseException as error:  # noqa: BLE001 - as everywhere
            self._fail(error)

    def _check(self, connection: Server) -> None:
        """Refuse any destination but that of the connection: the last check before the dial."""
        to = self.admitted.destination
        if connection.address != (to.host, to.port) or connection.via is not None:
            raise TypeError("asked to dial something else than the destination")

    def _not_opened(self, command: commands.OpenConnection, code: str, refused: str = "") -> None:
        """Report the failure; the record shows the address that was `refused`."""
        self._opening.pop(command.connection, None)
        if refused:
            self._routes[command.connection] = UpstreamRoute(refused)
        self.event(events.OpenConnectionCompleted(command, code))
        # No connection was made: a change of the rules must not end this one for its address.
        self._routes.pop(command.connection, None)

    async def _connected(
        self, command: commands.OpenConnection, connection: Server, connected: ConnectedSocket
    ) -> None:
        wire = SocketTransport(self, connection, self.services)
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: wire, sock=connected.socket)
        wire.adopt(transport)
        if self._has_ended or connection not in self._opening:
            transport.abort()
            return
        if transport.is_closing():
            raise DialError("upstream.unreachable", "the upstream closed the connection at once")
        self._wires[connection.id] = wire
        connection.state = ConnectionState.OPEN
        self._opening[connection] = self.services.monotonic()
        route = UpstreamRoute(connected.address, connected.resolve_us, connected.connect_us)
        self._routes[connection] = route
        self.event(events.OpenConnectionCompleted(command, None))

    # Ends

    def _order(self, name: str, *arguments: object) -> None:
        self.event(CallRelay(name, *arguments))

    def _give_up(self, connection: Connection) -> None:
        """Give up an upstream that takes too long to connect, or to prove its identity."""
        self._opening.pop(connection, None)
        self._late.add(connection)
        wire, task = self._wires.get(connection.id), self._tasks.get(connection)
        if wire is not None:
            wire.abort()
            # asyncio does not report a connection that we close ourselves.
            self.event(events.ConnectionClosed(connection))
        elif task is not None:
            task.cancel()

    def _fail(self, error: BaseException) -> None:
        """End the connection. Raises only exceptions that end the process."""
        if isinstance(error, UndecidedError) and self.was_refused:
            # The add-on has named the reason: a refusal, and no fault.
            self._refuse(self.reason)
            self._hang_up()
            return
        log.error("connection.failed", connection=self.admitted.id, error=error_location(error))
        try:
            # A connection that has ended is recorded completely.
            if not self._has_ended:
                self._record_failure()
        except Exception as second:  # noqa: BLE001 - the last fallback is the log
            log.error(  # noqa: TRY400 - as above
                "connection.unrecorded", connection=self.admitted.id, error=error_location(second)
            )
        finally:
            self._hang_up()
            if isinstance(error, SystemExit | KeyboardInterrupt):
                raise error

    def _record_failure(self) -> None:
        try:
            self._shut("internal")
        finally:
            # A fault that no exchange was recorded with is recorded for the connection.
            if self.services.finished == self._recorded:
                self._refuse("internal")

    def _shut(self, code: str) -> None:
        """Record every exchange; without a layer no event has an effect, and no more bytes are sent."""
        self._layer = None
        self._queue.clear()
        if self.relay is not None:
            self.relay.shut(code)

    def _refuse(self, code: str) -> None:
        """Record, once, a connection without an exchange that would show it."""
        if not self._is_recorded:
            self.services.refuse(code)
            self._is_recorded = True

    def _hang_up(self, handed_back: bytes | None = None) -> None:
        """Close all that is still open."""
        self._has_ended = True
        self._layer = None
        self._queue.clear()
        for task in list(self._tasks.values()):
            task.cancel()
        for wire in list(self._wires.values()):
            wire.abort()
        if not self.gone.done():
            self.gone.set_result(handed_back)
