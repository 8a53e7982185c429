"""The layer above TLS: it hands bytes to a `Relay` and carries out the relay's orders.

A single layer serves HTTP/1.1, HTTP/2 and WebSocket; only the relay knows the protocol. Every upstream
connection is a small stack: mitmproxy's TLS layer, and below it an `UpstreamEnd` that notes its output. Notes
are handed to the relay after the stack has returned, so that the relay is never entered twice at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol

from mitmproxy.connection import Connection, Server
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.commands import Command
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.events import Event
from mitmproxy.proxy.layer import CommandGenerator, Layer, NextLayer

from egress.addons.tls_layers import ConnectionLost, SandboxTlsLayer, UpstreamTlsLayer
from egress.exchange import HandlerVerdict
from egress.relay.ports import (
    CLIENT_WIRE,
    Call,
    Close,
    Fetch,
    HandBack,
    Open,
    RelayOrder,
    Reset,
    WireEnd,
    Write,
    YieldTurn,
)
from egress.relay.relay import ClientProtocol, Relay
from egress.types import Secret

_RELAY_METHODS: Final = frozenset({"again", "recheck", "drain", "retire", "gone", "shut"})


class ConnectionOwner(Protocol):
    """The owner of the connections, which opens them and knows their outcome."""

    def is_fit(self, wire: int, server: Server) -> bool:
        """Tell whether this connection may be used: it is open, and has proven its identity."""
        ...

    def failure_code(self, wire: int, server: Server, error: str) -> str:
        """Return the code for a connection that could not be made."""
        ...


class UpstreamEnd(Layer):
    """The inner end of an upstream stack: opens the connection and notes its events."""

    def __init__(self, context: Context, wire: int, inbox: list[tuple[int, str, bytes]]) -> None:
        super().__init__(context)
        self._wire = wire
        self._inbox = inbox

    def handle_event(self, event: events.Event) -> CommandGenerator[None]:
        if type(event) is events.DataReceived and self._paused is None:
            # Most events are data, and need no command in return.
            self._inbox.append((self._wire, "data", event.data))
            return _nothing()
        # An upstream may speak in the read that ends its handshake: its data waits until the connection is
        # reported as open, in mitmproxy's queue of a layer that waits.
        return super().handle_event(event)

    def _handle_event(self, event: events.Event) -> CommandGenerator[None]:
        if isinstance(event, events.DataReceived):
            self._inbox.append((self._wire, "data", event.data))
        elif isinstance(event, events.ConnectionClosed):
            self._inbox.append((self._wire, "lost" if isinstance(event, ConnectionLost) else "ended", b""))
        elif isinstance(event, events.Start):
            error = yield commands.OpenConnection(self.context.server)
            self._inbox.append((self._wire, "failed" if error else "opened", str(error or "").encode()))


def _nothing() -> CommandGenerator[None]:
    yield from ()


class UpstreamStack:
    """An upstream connection: mitmproxy's view of it, and the layers on it."""

    __slots__ = ("connection", "is_fit", "layer", "reads", "tls", "wire")

    def __init__(self, wire: int, connection: Server, layer: Layer, tls: UpstreamTlsLayer | None) -> None:
        self.wire = wire
        self.connection = connection
        self.layer = layer
        self.tls = tls
        self.reads = True
        self.is_fit = False
        """The connection is open and has proven its identity: bytes are sent only then."""


def _end_of(upstream: UpstreamStack, what: str) -> WireEnd:
    """Tell how a connection ended. Any host on the way can end it, but none can forge a close_notify."""
    tls = upstream.tls
    if tls is None:
        return "clean" if what == "ended" else "cut"
    if tls.has_said_goodbye:
        return "clean"
    return "cut" if tls.is_broken else "unproven"


def dissolve(layers: list[Layer]) -> None:
    """Take apart the layers of a connection that has come to its end, and their relay.

    They point at each other, so that only the garbage collector would free them: hundreds of connections at
    once, while every sandbox waits.
    """
    for layer in layers:
        if isinstance(layer, HttpLayer):
            for upstream in layer.upstreams:
                dissolve(upstream.layer.context.layers)
            layer.relay.dissolve()
        vars(layer).clear()
    layers.clear()


class HttpLayer(Layer):
    """A relay among mitmproxy's layers."""

    def __init__(self, context: Context, relay: Relay, keeper: ConnectionOwner) -> None:
        super().__init__(context)
        self.relay = relay
        self._keeper = keeper
        self._client = context.client
        self._by_wire: dict[int, UpstreamStack] = {}
        self._by_connection: dict[str, UpstreamStack] = {}
        """By connection id: hashing a connection itself is slow."""
        self._waiting: dict[commands.Command, UpstreamStack] = {}
        self._inbox: list[tuple[int, str, bytes]] = []
        self._client_reads = True

    @property
    def upstreams(self) -> Iterable[UpstreamStack]:
        """The upstream connections that are not forgotten."""
        return self._by_wire.values()

    def handle_event(self, event: events.Event) -> CommandGenerator[None]:
        # `_handle_event` is for layers that block, and this layer never does.
        if type(event) is not events.DataReceived:
            yield from self._carried_out(self._entered(event))
            yield from self._upstream_event(event)
        elif event.connection is self._client:
            yield from self._carried_out(self.relay.received(CLIENT_WIRE, event.data))
        else:
            yield from self._upstream_event(event)
        while self._inbox:
            inbox = self._inbox.copy()
            self._inbox.clear()
            for wire, what, data in inbox:
                yield from self._carried_out(self._noted(wire, what, data))
        yield from self._gates()

    def _handle_event(self, event: events.Event) -> CommandGenerator[None]:
        yield from self.handle_event(event)

    # In

    def _entered(self, event: events.Event) -> list[RelayOrder]:
        relay = self.relay
        if isinstance(event, events.ConnectionClosed):
            return relay.ended(CLIENT_WIRE) if event.connection is self._client else []
        if isinstance(event, WriteBlocked):
            upstream = self._by_connection.get(event.connection.id)
            wire = CLIENT_WIRE if upstream is None else upstream.wire
            return relay.blocked(wire, blocked=event.blocked)
        if isinstance(event, SecondPassed):
            return relay.tick()
        if isinstance(event, SecretsFetched):
            return relay.fetched(event.ticket, event.secrets)
        if isinstance(event, HandlerReturned):
            return relay.handled(event.ticket, event.verdict)
        if isinstance(event, CallRelay) and event.name in _RELAY_METHODS:
            return list(getattr(relay, event.name)(*event.arguments))
        return relay.start() if isinstance(event, events.Start) else []

    def _upstream_event(self, event: events.Event) -> CommandGenerator[None]:
        if isinstance(event, events.ConnectionEvent):
            upstream = self._by_connection.get(event.connection.id)
        elif isinstance(event, events.CommandCompleted):
            upstream = self._waiting.pop(event.command, None)
        else:
            upstream = None
        if upstream is not None:
            yield from self._through(upstream, event)

    def _through(self, upstream: UpstreamStack, event: events.Event) -> CommandGenerator[None]:
        for command in upstream.layer.handle_event(event):
            if command.blocking:
                self._waiting[command] = upstream
            yield command

    def _noted(self, wire: int, what: str, data: bytes) -> list[RelayOrder]:
        upstream = self._by_wire.get(wire)
        if upstream is None:
            return []
        if what == "data":
            return self.relay.received(wire, data)
        if what in {"ended", "lost"}:
            return self.relay.ended(wire, _end_of(upstream, what))
        server = upstream.connection
        if what == "opened" and self._keeper.is_fit(wire, server):
            upstream.is_fit = True
            return self.relay.opened(wire, (server.alpn or b"").decode("latin-1"))
        error = data.decode("utf-8", "replace")
        return [Close(wire), *self.relay.failed(wire, self._keeper.failure_code(wire, server, error))]

    # Out

    def _carried_out(self, orders: list[RelayOrder]) -> Iterator[commands.Command]:
        for order in orders:
            if type(order) is Write:
                if order.wire == CLIENT_WIRE:
                    yield commands.SendData(self._client, order.data)
                elif (command := self._written_up(order)) is not None:
                    yield command
            elif isinstance(order, Open):
                yield from self._open(order)
            elif isinstance(order, Close | Reset):
                yield from self._close(order)
            elif isinstance(order, Fetch | Call):
                yield FetchSecrets(order) if isinstance(order, Fetch) else RunHandler(order)
            elif isinstance(order, YieldTurn):
                yield TakeAnotherTurn()
            elif isinstance(order, HandBack):
                yield HandBackClient(order.data)

    def _written_up(self, order: Write) -> commands.Command | None:
        upstream = self._by_wire.get(order.wire)
        if upstream is None:
            return None
        if not upstream.is_fit:
            raise RuntimeError("asked to write to an upstream that has not proven who it is")
        data = order.data if upstream.tls is None else upstream.tls.encrypted(order.data)
        return commands.SendData(upstream.connection, data) if data else None

    def _open(self, order: Open) -> Iterator[commands.Command]:
        destination = self.relay.destination
        context = self.context.fork()
        context.layers = []
        server = Server(address=(destination.host, destination.port), sni=destination.host)
        server.alpn_offers = tuple(name.encode("ascii") for name in order.alpn)
        context.server = server
        if destination.scheme == "https":
            tls = UpstreamTlsLayer(context)
            tls.child_layer = UpstreamEnd(context, order.wire, self._inbox)
            upstream = UpstreamStack(order.wire, server, tls, tls)
        else:
            upstream = UpstreamStack(order.wire, server, UpstreamEnd(context, order.wire, self._inbox), None)
        self._by_wire[order.wire] = upstream
        self._by_connection[server.id] = upstream
        yield from self._through(upstream, events.Start())

    def _close(self, order: Close | Reset) -> Iterator[commands.Command]:
        upstream = None if order.wire == CLIENT_WIRE else self._by_wire.get(order.wire)
        if order.wire != CLIENT_WIRE and upstream is None:
            return
        connection = self._client if upstream is None else upstream.connection
        if upstream is not None:
            self._forget(upstream)
        yield (AbortConnection if isinstance(order, Reset) else commands.CloseConnection)(connection)

    def _forget(self, upstream: UpstreamStack) -> None:
        self._by_wire.pop(upstream.wire, None)
        self._by_connection.pop(upstream.connection.id, None)
        self._waiting = {command: each for command, each in self._waiting.items() if each is not upstream}
        dissolve(upstream.layer.context.layers)

    def _gates(self) -> Iterable[commands.Command]:
        """Stop or resume reading the connections whose state has changed."""
        reads = self.relay.reads
        changed = [each for each in self._by_wire.values() if reads(each.wire) is not each.reads]
        if reads(CLIENT_WIRE) is self._client_reads and not changed:
            return ()
        return self._told(changed)

    def _told(self, changed: list[UpstreamStack]) -> Iterator[commands.Command]:
        reads = self.relay.reads(CLIENT_WIRE)
        if reads is not self._client_reads:
            self._client_reads = reads
            yield SetReading(self._client, reads=reads)
        for upstream in changed:
            upstream.reads = not upstream.reads
            yield SetReading(upstream.connection, reads=upstream.reads)


# The layers of a connection are TLS, then HTTP, and no others. The ingress has fixed the destination and its
# scheme, so no protocol is guessed from bytes. mitmproxy's own chooser would guess, and would relay unknown
# protocols.
HTTP2_ALPN: Final = b"h2"

MakeLayer = Callable[[Context, ClientProtocol], HttpLayer]
"""Makes the layer of a client connection for the protocol that it speaks."""


class RootLayer(Layer):
    """The lowest layer: every event is for the layer above, since the destination is known."""

    def __init__(self, context: Context, *, encrypted: bool) -> None:
        super().__init__(context)
        self.encrypted = encrypted
        self.child_layer: Layer = NextLayer(context, ask_on_start=True)

    def handle_event(self, event: events.Event) -> CommandGenerator[None]:
        return self.child_layer.handle_event(event)

    def _handle_event(self, event: events.Event) -> CommandGenerator[None]:
        yield from self.handle_event(event)


class NextLayerChooser:
    """The add-on that answers mitmproxy's question for the next layer."""

    def __init__(self, make: MakeLayer) -> None:
        self._make = make

    def next_layer(self, data: NextLayer) -> None:
        """Choose the layer. If none fits, no layer is set, and the guard ends the connection."""
        context = data.context
        below = context.layers[-1] if context.layers else None
        if isinstance(below, RootLayer):
            data.layer = SandboxTlsLayer(context) if below.encrypted else self._make(context, "http/1.1")
        elif isinstance(below, SandboxTlsLayer):
            data.layer = self._make(context, "h2" if context.client.alpn == HTTP2_ALPN else "http/1.1")


# Our own commands and events pass through mitmproxy's layers untouched. They name a connection but are no
# `ConnectionCommand` or `ConnectionEvent`: its TLS layers take each of those for themselves.
class FetchSecrets(Command):
    """Get secrets; answered by `SecretsFetched`. Does not block: other exchanges go on."""

    def __init__(self, order: Fetch) -> None:
        self.order = order


class RunHandler(Command):
    """Call a handler; answered by `HandlerReturned`. Does not block: other exchanges go on."""

    def __init__(self, order: Call) -> None:
        self.order = order


class AbortConnection(Command):
    """Close at once, dropping what was not sent yet."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection


class HandBackClient(Command):
    """End the service of a client, and give its connection back with these bytes of it."""

    def __init__(self, data: bytes) -> None:
        self.data = data


class SetReading(Command):
    """Stop or resume reading a connection."""

    def __init__(self, connection: Connection, *, reads: bool) -> None:
        self.connection = connection
        self.reads = reads


class TakeAnotherTurn(Command):
    """Call `again` once all events that are ready now have had their turn."""


class SecretsFetched(Event):
    """The secrets that could be resolved."""

    def __init__(self, ticket: int, secrets: Mapping[str, Secret]) -> None:
        self.ticket = ticket
        self.secrets = secrets


class HandlerReturned(Event):
    """The verdict of a handler."""

    def __init__(self, ticket: int, verdict: HandlerVerdict) -> None:
        self.ticket = ticket
        self.verdict = verdict


class WriteBlocked(Event):
    """A connection stops taking written bytes, or takes them again."""

    def __init__(self, connection: Connection, *, blocked: bool) -> None:
        self.connection = connection
        self.blocked = blocked


class SecondPassed(Event):
    """A second has passed."""


class CallRelay(Event):
    """A call of the relay from outside of the connection: a reload, a drain, a kill."""

    def __init__(self, name: str, *arguments: object) -> None:
        self.name = name
        self.arguments = arguments
