"""From a connection that is accepted to the lane that carries it: the steps, in their one order.

    identity       the listener says which sandbox; the peer has to be it
    destination    CONNECT, a full URL, SNI or Host: one strict reading, one canonical pair; no canary in it
    decision       the host gate of the rules
    bounds         connections that the rules allow there; the audit; the proxy itself is not stopping
    the tunnel     of a CONNECT: what is inside is what the tunnel was opened for
    the lane

Each step either hands on or returns the refusal. Nothing is resolved and nothing is dialled here.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from egress.exchange import Destination
from egress.proxy.ingress import requested_destination
from egress.proxy.ingress.authentication import PasswordGuard, is_expected_owner
from egress.proxy.ingress.pending_connection import IngressRefusal, PendingConnection, RequestedDestination
from egress.proxy.ingress.ports import IngressEngine, Lanes
from egress.proxy.lanes.connection import AdmittedConnection
from egress.rules.decide.decision import decide_host
from egress.rules.decide.policy import Policy
from egress.types import HostDecision, Identity, Limit, Scheme

_CONNECT_ANSWER: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"


class ConnectionAdmission:
    """The way through the door, the same for every connection."""

    def __init__(self, engine: IngressEngine, lanes: Lanes, guard: PasswordGuard) -> None:
        self._engine = engine
        self._lanes = lanes
        self._guard = guard

    async def admit(
        self, visit: PendingConnection, sock: socket.socket, entering: Callable[[], object]
    ) -> IngressRefusal | None:
        """Take a connection to its lane, and return at its end; None where nothing was refused.

        `entering` is called when the door lets go of it.
        """
        # Checked before a byte is read: a process of another user must not learn anything.
        if visit.listener.sandbox not in self._engine.sandboxes or not is_expected_owner(
            visit.listener, sock
        ):
            # The client has sent no byte yet, but a client of a proxy will read HTTP.
            visit.speaks = "http" if visit.listener.kind == "proxy" else ""
            return IngressRefusal("proxy.identity")
        asked = await self._requested_destination(visit)
        if isinstance(asked, RequestedDestination):
            visit.asked = asked
        # Canaries come before the decision: a malformed or denied request that carries one is a leak, too.
        if caught := self._refuse_canary(visit, asked):
            return caught
        if not isinstance(asked, RequestedDestination):
            return asked
        policy = self._engine.policy
        scheme, decision = _decide(policy, visit.identity, asked, self._engine.clock.now())
        if not decision.allowed:
            return IngressRefusal(decision.code, decision=decision)
        # Counted until the lane has ended: the limit is about connections that are open at a time.
        with self._count_connection(visit.identity.sandbox, decision.limits) as is_counted:
            code = self._stop_code(visit.identity.sandbox) if is_counted else "limit.connections"
            if code:
                return IngressRefusal(code, decision=decision)
            arrival = AdmittedConnection(
                visit.id,
                visit.identity,
                visit.listener.name,
                asked.entry,
                Destination(scheme, asked.host, asked.port),
                decision,
                policy,
                asked.hello,
                visit.started,
            )
            opened = await self._open(visit, arrival)
            if not isinstance(opened, AdmittedConnection):
                return self._refuse_canary(visit, opened) or opened
            entering()
            await self._carry(visit, opened)
            return None

    async def _requested_destination(
        self, visit: PendingConnection
    ) -> RequestedDestination | IngressRefusal | None:
        if visit.listener.kind == "proxy":
            return await requested_destination.read_proxy_request(
                visit, self._guard, self._engine.clock.monotonic()
            )
        return await requested_destination.read_transparent_start(visit)

    def _refuse_canary(
        self, visit: PendingConnection, asked: RequestedDestination | IngressRefusal | None
    ) -> IngressRefusal | None:
        """Refuse what names a host by a value that nothing may send, whatever else is wrong with it."""
        if asked is None:
            return None
        sni = asked.sni if isinstance(asked, IngressRefusal) else ""
        denial = self._engine.canary_denial(visit.identity.sandbox, asked.host, sni)
        if denial is None:
            return None
        return IngressRefusal(denial.code, asked.entry, asked.host, asked.port, denial, sni=sni)

    def _stop_code(self, sandbox: str) -> str:
        """Why nothing new is let through just now; empty where it is."""
        if self._engine.stopping:
            return "proxy.stopping"
        return "" if self._engine.audit.may_work(sandbox) else "audit.stopped"

    @contextlib.contextmanager
    def _count_connection(self, sandbox: str, bounds: tuple[Limit, ...]) -> Iterator[bool]:
        """Count a connection against the limits of its decision until the block ends."""
        is_counted = self._engine.counts.acquire(sandbox, bounds)
        try:
            yield is_counted
        finally:
            if is_counted:
                self._engine.counts.release(sandbox, bounds)

    async def _open(
        self, visit: PendingConnection, arrival: AdmittedConnection
    ) -> AdmittedConnection | IngressRefusal | None:
        """Open the tunnel of a CONNECT; return the arrival with what the client says inside it."""
        hello = arrival.hello
        if arrival.entry == "connect":
            if not await visit.client.send(_CONNECT_ANSWER, visit.bounds.close_time):
                return None
            opened = await requested_destination.read_tunnel_start(visit, arrival.destination)
            if not isinstance(opened, requested_destination.TunnelStart):
                return opened
            hello = opened.hello
        return self._decide_again(replace(arrival, hello=hello))

    def _decide_again(self, arrival: AdmittedConnection) -> AdmittedConnection | IngressRefusal:
        """Decide again if the rules have changed: clients take their time, and only lanes are rechecked."""
        policy = self._engine.policy
        if policy is not arrival.policy:
            to = arrival.destination
            asked = RequestedDestination(arrival.entry, (to.scheme,), to.host, to.port)
            _, decision = _decide(policy, arrival.identity, asked, self._engine.clock.now())
            if not decision.allowed:
                return IngressRefusal("access.withdrawn", decision=decision)
            arrival = replace(arrival, policy=policy, decision=decision)
        return arrival

    async def _carry(self, visit: PendingConnection, arrival: AdmittedConnection) -> None:
        # Bytes that a lane has written must not be followed by an error page.
        visit.speaks = ""
        lane = self._lanes.full if arrival.decision.intercept else self._lanes.tunnel
        await lane(arrival, visit.client.reader, visit.client.writer, visit.client.take_unread())


def _decide(
    policy: Policy, identity: Identity, asked: RequestedDestination, now: int
) -> tuple[Scheme, HostDecision]:
    """Return the first scheme that is allowed, or the reason why the preferred one is not."""
    decisions = [
        (scheme, decide_host(policy, identity, asked.host, asked.port, now, scheme=scheme))
        for scheme in asked.schemes
    ]
    return next((found for found in decisions if found[1].allowed), decisions[0])
