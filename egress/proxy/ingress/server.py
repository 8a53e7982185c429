"""The ingress: every connection of a sandbox enters here, and leaves with an allowed destination.

A connection first takes a slot, because the process and each sandbox may have only so many; then it goes
through the steps of `admission`. Any fault closes the connection and is recorded, once. No exception of a
connection reaches another.

The ingress resolves no name and dials no address, so a refused connection has no effect beyond this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import socket
import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Final

from egress.audit.reported_facts import RefusalFacts
from egress.errors import UsageError
from egress.proxy.event_loop import drive, watch
from egress.proxy.ingress.acceptor import Acceptor
from egress.proxy.ingress.admission_steps import ConnectionAdmission
from egress.proxy.ingress.client_stream import READ_SIZE, ClientStream, ClientWriter
from egress.proxy.ingress.limits import IngressLimits
from egress.proxy.ingress.listener import Listener, check_listener, peer_address
from egress.proxy.ingress.peer_authentication import PasswordGuard
from egress.proxy.ingress.peer_identity import PeerIdentities, PeerIdentity
from egress.proxy.ingress.pending_connection import IngressRefusal, PendingConnection
from egress.proxy.ingress.ports import IngressEngine, Lanes
from egress.proxy.ingress.refusal_response import refusal_page, send_refusal
from egress.proxy.ingress.ticket_check import RunTickets, TicketCheck
from egress.proxy.metrics import Metrics
from egress.shares.pool import Resource
from egress.types import HostDecision, Identity

_log = logging.getLogger(__name__)

_HTTPS_PORT: Final = 443
UNKNOWN_PEER_CODE: Final = "identity.unknown"


@dataclass(frozen=True, slots=True, eq=False)
class _Arrival:
    """An accepted connection. Whose it is was found out when it was accepted, and stays so."""

    listener: Listener
    sock: socket.socket
    peer: str
    """The address of the client, where several clients share the listener."""
    who: PeerIdentity

    @property
    def sandbox(self) -> str:
        return self.who.identity.sandbox


class IngressServer:
    """The listeners of the proxy, and every connection until it is closed."""

    def __init__(
        self,
        engine: IngressEngine,
        lanes: Lanes,
        bounds: IngressLimits | None = None,
        metrics: Metrics | None = None,
        peers: PeerIdentities | None = None,
        tickets: RunTickets | None = None,
    ) -> None:
        """`metrics` count what is refused here. `peers` tell sandboxes apart that share a listener.

        Without `tickets` no client has more than the rights of its sandbox.
        """
        self._engine = engine
        self._peers = peers
        self._metrics = metrics or Metrics()
        self._bounds = bounds or IngressLimits()
        self._guard = PasswordGuard(self._bounds)
        check = TicketCheck(tickets, engine.clock) if tickets else None
        self._passage = ConnectionAdmission(engine, lanes, self._guard, peers, check)
        self._lanes = lanes
        self._acceptors: dict[Listener, Acceptor] = {}
        self._https: dict[str, set[Listener]] = {}
        """Transparent listeners on the usual port of TLS, by sandbox: DNS asks for each denied name."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._outside: dict[asyncio.Task[None], _Arrival] = {}
        """Tasks whose connection is not inside a lane."""
        self._cut_codes: dict[asyncio.Task[None], str] = {}
        """Why tasks were cancelled that have not ended yet."""

    # Listeners

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The open listeners of all sandboxes."""
        return tuple(self._acceptors)

    async def open(self, listener: Listener) -> tuple[str, int]:
        """Accept connections of this listener from now on; returns the address it is bound to.

        Raises `UsageError` for a listener of nobody, or one that cannot tell its peers.
        """
        check_listener(listener)
        if listener.sandbox not in self._engine.sandboxes:
            raise UsageError("The listener belongs to no sandbox.", "Add the sandbox first.")
        host, port = listener.sock.getsockname()[:2]
        self._acceptors[listener] = Acceptor(
            listener.sock,
            functools.partial(self.take, listener),
            self._bounds.accept_pause,
            turns=self._engine.turns.of(listener.sandbox),
        )
        if listener.kind == "transparent" and listener.port == _HTTPS_PORT:
            self._https.setdefault(listener.sandbox, set()).add(listener)
        return host, port

    def explains(self, sandbox: str, name: str, denial: HostDecision) -> bool:
        """Tell whether a TLS client of this sandbox that is led here is told why the name is denied."""
        lane = self._lanes.denial
        # Sandboxes that are told apart by address have all listeners in common.
        is_served = bool(self._https) if self._peers else sandbox in self._https
        return lane is not None and is_served and lane.can_explain(sandbox, name, denial)

    async def close_sandbox(self, sandbox: str) -> None:
        """Close the listeners of one sandbox, and its connections that are not inside a lane."""
        await self._close(lambda listener: listener.sandbox == sandbox)

    async def close_listeners(self, listeners: Collection[Listener]) -> None:
        """Close these, and the connections that came in by them and are not inside a lane."""
        await self._close(lambda listener: listener in listeners)

    async def close(self) -> None:
        """Close every listener, and every connection that is not inside a lane."""
        await self._close(lambda _: True)

    def connections(self, sandbox: str) -> int:
        """How many connections of a sandbox are open."""
        return self._engine.pool.count(sandbox, Resource.CLIENTS)

    async def _close(self, is_meant: Callable[[Listener], bool]) -> None:
        for listener in [listener for listener in self._acceptors if is_meant(listener)]:
            self._acceptors.pop(listener).close()
            served = self._https.get(listener.sandbox, set())
            served.discard(listener)
            if not served:
                # Sandboxes come and go; their names must not pile up.
                self._https.pop(listener.sandbox, None)
            self._guard.forget(listener)
        ended = [task for task, arrival in self._outside.items() if is_meant(arrival.listener)]
        for task in ended:
            task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)

    def cut(self, is_meant: Callable[[PeerIdentity], bool], code: str) -> None:
        """Close the connections of these peers that are not inside a lane; records give this code."""
        for task, arrival in list(self._outside.items()):
            if is_meant(arrival.who):
                self._cut_codes[task] = code
                task.cancel()

    # Connections

    def take(self, listener: Listener, sock: socket.socket) -> asyncio.Task[None]:
        """Serve one accepted connection to its end, in a task of its own."""
        peer = peer_address(sock) if listener.is_shared else ""
        return self._begin(_Arrival(listener, sock, peer, self._who(listener, peer)))

    def _who(self, listener: Listener, peer: str) -> PeerIdentity:
        if self._peers is not None:
            return self._peers.identify(peer)
        known = self._engine.sandboxes.get(listener.sandbox)
        return PeerIdentity(known.identity if known else Identity(listener.sandbox))

    def _begin(self, arrival: _Arrival) -> asyncio.Task[None]:
        turns = self._engine.turns.of(arrival.sandbox)
        task = asyncio.get_running_loop().create_task(drive(turns, functools.partial(self._serve, arrival)))
        self._tasks.add(task)
        self._outside[task] = arrival

        def end(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            self._outside.pop(task, None)
            self._cut_codes.pop(task, None)
            # A task that is cancelled before it begins closes nothing itself.
            arrival.sock.close()

        task.add_done_callback(end)
        return task

    async def _serve(self, arrival: _Arrival) -> None:
        """Let nothing escape but cancellation."""
        account = self._engine.pool.account(arrival.sandbox)
        try:
            if account.take(Resource.CLIENTS):
                await self._receive_known(arrival)
            else:
                self._turn_away(arrival)
        except Exception as error:  # noqa: BLE001 - the last guard of a connection
            _report(error)
        finally:
            account.close()

    def _turn_away(self, arrival: _Arrival) -> None:
        """Refuse a connection beyond the limit without reading or waiting: floods end here."""
        refused = IngressRefusal("limit.connections")
        connection = self._record(arrival, refused)
        if arrival.listener.kind == "proxy":
            with contextlib.suppress(OSError):
                arrival.sock.send(refusal_page(refused, connection))

    async def _receive_known(self, arrival: _Arrival) -> None:
        """Ask about a peer that nobody has told of; if it is a sandbox, begin again as a connection of it."""
        if self._peers is not None and arrival.who.code == UNKNOWN_PEER_CODE:
            found = await self._peers.ask_again(arrival.peer)
            again = replace(arrival, who=found)
            if again.sandbox != arrival.sandbox:
                # The shares of a sandbox are those of the task, and the old task closes its socket.
                self._begin(replace(again, sock=arrival.sock.dup()))
                return
            arrival = again
        await self._receive(arrival)

    async def _receive(self, arrival: _Arrival) -> None:
        try:
            client = await _streams(arrival.sock)
        except OSError:
            # Gone before it was looked at.
            return
        try:
            # The client of a proxy may go on to another destination: each is admitted as if it came alone.
            while (unread := await self._watched_destination(arrival, client)) is not None:
                client.resume(unread)
        finally:
            client.abort()

    async def _watched_destination(self, arrival: _Arrival, client: ClientStream) -> bytes | None:
        """Serve a destination; a lane that takes the socket over counts its events itself."""
        watched = watch(arrival.sock, self._engine.turns.of(arrival.sandbox))
        try:
            return await self._serve_destination(arrival, client)
        finally:
            watched.forget()

    async def _serve_destination(self, arrival: _Arrival, client: ClientStream) -> bytes | None:
        """Serve a client to its end; or return what it says to another destination."""
        engine, listener = self._engine, arrival.listener
        identity, started = arrival.who.identity, engine.clock.monotonic()
        pending = PendingConnection(engine.new_id(), listener, identity, client, self._bounds, started)
        pending.peer, pending.fault = arrival.peer, arrival.who.code
        outcome = await self._guarded(pending, arrival)
        if isinstance(outcome, bytes) and listener in self._acceptors and not client.is_gone:
            return outcome
        if isinstance(outcome, IngressRefusal):
            self._record(arrival, outcome, pending)
            await send_refusal(pending, outcome)
        else:
            await client.close(self._bounds.close_time)
        return None

    async def _guarded(self, pending: PendingConnection, arrival: _Arrival) -> IngressRefusal | bytes | None:
        task = asyncio.current_task()
        leave = functools.partial(self._outside.pop, task, None)
        try:
            outcome = await self._passage.admit(pending, arrival.sock, leave)
            if isinstance(outcome, bytes) and task is not None:
                # Outside of a lane it ends with its listener again.
                self._outside[task] = arrival
            return outcome
        except asyncio.CancelledError:
            # Inside of a lane it is the lane that records.
            if task in self._outside and pending.asked is not None:
                code = "proxy.stopping" if self._engine.stopping else "access.withdrawn"
                self._record(arrival, IngressRefusal(self._cut_codes.get(task, code)), pending)
            raise
        except Exception as error:  # noqa: BLE001 - whatever it was, the answer is no
            _report(error)
            return IngressRefusal("internal")

    # Records

    def _record(
        self, arrival: _Arrival, refused: IngressRefusal, pending: PendingConnection | None = None
    ) -> str:
        """Record a refusal, and return the id of the connection."""
        asked = pending.asked if pending else None
        decision = refused.decision
        connection = pending.id if pending else self._engine.new_id()
        # With its ticket, once that was taken.
        identity = pending.identity if pending else arrival.who.identity
        self._engine.audit.refusal(
            RefusalFacts(
                identity=identity,
                listener=arrival.listener.name,
                peer=arrival.peer,
                entry=asked.entry if asked else refused.entry,
                host=asked.host if asked else refused.host,
                port=asked.port if asked else refused.port,
                code=refused.code,
                connection=connection,
                sni=refused.sni or (asked.hello.sni if asked and asked.hello else ""),
                rule=decision.rule if decision else None,
                place=decision.place if decision else None,
                policy=self._engine.policy.digest,
            )
        )
        self._metrics.refused(refused.code, identity.profile)
        return connection


def _report(error: Exception) -> None:
    """Say where something broke, but not what it said: that could hold what a peer sent."""
    steps = [f"{frame.f_code.co_qualname}:{line}" for frame, line in traceback.walk_tb(error.__traceback__)]
    _log.error("a connection ended by %s in %s", type(error).__name__, steps[-1] if steps else "nowhere")


async def _streams(sock: socket.socket) -> ClientStream:
    """Return reader and writer of a connection; raises OSError where it is gone already."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=READ_SIZE, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock)
    return ClientStream(reader, ClientWriter(transport, protocol, reader, loop))
