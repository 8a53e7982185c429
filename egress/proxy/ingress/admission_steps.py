"""Admit or refuse an accepted connection, step by step, and hand it to its lane.

    identity       the listener, or in a cluster the address, says which sandbox; the peer has to be it
    destination    CONNECT, a full URL, SNI or Host: one strict reading, one canonical pair; no canary in it
    the ticket     of a run in that sandbox, if a client of the proxy shows one: its rights count from here on
    decision       the host gate of the rules; where it denies, the way ends in a page with the reason
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
from egress.proxy.ingress import destination_parser
from egress.proxy.ingress.peer_authentication import PasswordGuard, PeerOwner, owner_of_peer
from egress.proxy.ingress.peer_identity import PeerIdentities
from egress.proxy.ingress.pending_connection import IngressRefusal, PendingConnection, RequestedDestination
from egress.proxy.ingress.pod_gate_request import (
    GateQuestion,
    gate_answer,
    is_gate_request,
    read_gate_question,
)
from egress.proxy.ingress.ports import IngressEngine, Lanes
from egress.proxy.ingress.ticket_check import TicketCheck
from egress.proxy.lanes.connection import AdmittedConnection, DeniedConnection, DestinationSource
from egress.rules.decide.decision import decide_host
from egress.rules.decide.policy import Policy
from egress.tls.client_hello import ClientHello
from egress.types import HostDecision, Identity, Limit, Scheme, Verdict

_WEB_PORTS: Final = frozenset({80, 443})
_CONNECT_ANSWER: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"


class ConnectionAdmission:
    """The way through the door, the same for every connection."""

    def __init__(
        self,
        engine: IngressEngine,
        lanes: Lanes,
        guard: PasswordGuard,
        peers: PeerIdentities | None = None,
        tickets: TicketCheck | None = None,
    ) -> None:
        """`peers` know pods, whose gates may ask for them; `tickets` are those of runs."""
        self._engine = engine
        self._peers = peers
        self._lanes = lanes
        self._guard = guard
        self._tickets = tickets

    async def admit(
        self, pending: PendingConnection, sock: socket.socket, entering: Callable[[], object]
    ) -> IngressRefusal | bytes | None:
        """Take a connection to its lane, and return at its end; None where nothing was refused.

        `entering` is called when the door lets go of it. Bytes are what the client says to another
        destination, for which it has to be admitted anew.
        """
        # Checked before a byte is read: a process of another user must not learn anything.
        owner = owner_of_peer(pending.listener, sock)
        if owner is PeerOwner.GONE:
            # A client that is gone has asked for nothing, and its user cannot be looked up any more.
            return None
        if pending.identity.sandbox not in self._engine.sandboxes or owner is PeerOwner.FOREIGN:
            # The client has sent no byte yet, but a client of a proxy will read HTTP.
            pending.speaks = "http" if pending.listener.kind == "proxy" else ""
            return IngressRefusal("proxy.identity")
        asked = await self._requested_destination(pending)
        if isinstance(asked, RequestedDestination):
            pending.asked = asked
        if pending.fault or self._is_gate(pending):
            return await self._answer_peer(pending, asked, entering)
        # Canaries come before the decision: a malformed or denied request that carries one is a leak, too.
        if refused := self._refuse_canary(pending, asked) or await self._take_ticket(pending, asked):
            return refused
        if not isinstance(asked, RequestedDestination):
            return asked
        policy = self._engine.policy
        scheme, decision = _decide(policy, pending.identity, asked, self._engine.clock.now())
        facts = _facts(pending, asked, scheme, decision, policy)
        if not decision.allowed:
            return await self._deny(pending, DeniedConnection(*facts), entering)
        # Counted until the lane has ended: the limit is about connections that are open at a time.
        with self._count_connection(pending.identity.sandbox, decision.limits) as is_counted:
            code = self._stop_code(pending.identity.sandbox) if is_counted else "limit.connections"
            if code:
                return IngressRefusal(code, decision=decision)
            admitted = AdmittedConnection(*facts)
            opened = await self._open(pending, admitted)
            if not isinstance(opened, AdmittedConnection):
                return self._refuse_canary(pending, opened) or opened
            entering()
            return await self._carry(pending, opened)

    def _is_gate(self, pending: PendingConnection) -> bool:
        is_proxy = pending.listener.kind == "proxy"
        return self._peers is not None and is_proxy and is_gate_request(pending.head)

    async def _answer_peer(
        self,
        pending: PendingConnection,
        asked: RequestedDestination | IngressRefusal | None,
        entering: Callable[[], object],
    ) -> IngressRefusal | None:
        """Answer the gate of a pod, or a peer that has no rights: a pod is known before it has any."""
        if self._peers is not None and self._is_gate(pending):
            return await self._answer_gate(pending, self._peers)
        return await self._refuse_peer(pending, asked, entering)

    async def _answer_gate(self, pending: PendingConnection, peers: PeerIdentities) -> IngressRefusal | None:
        """Tell the gate of a pod whether the pod is known at the address that it asks from."""
        question = await read_gate_question(pending)
        if not isinstance(question, GateQuestion):
            return question
        if code := peers.gate_code(pending.peer, question.uid):
            return IngressRefusal(code)
        await pending.client.send(gate_answer(question), pending.bounds.close_time)
        return None

    async def _refuse_peer(
        self,
        pending: PendingConnection,
        asked: RequestedDestination | IngressRefusal | None,
        entering: Callable[[], object],
    ) -> IngressRefusal | None:
        """Refuse a peer without rights, whatever it asks for, in the form that its client reads."""
        if not isinstance(asked, RequestedDestination):
            return asked and replace(asked, code=pending.fault, status=None, retry_after=0)
        decision = HostDecision(Verdict.DENY, pending.fault)
        facts = _facts(pending, asked, asked.schemes[0], decision, self._engine.policy)
        return await self._deny(pending, DeniedConnection(*facts), entering)

    async def _deny(
        self, pending: PendingConnection, denied: DeniedConnection, entering: Callable[[], object]
    ) -> IngressRefusal | None:
        """Refuse a denied destination: at once, or inside of the TLS of a client that can read it there.

        A client that does not begin TLS is recorded like one that was refused at once. None where the lane
        has recorded the denial.
        """
        to, decision, sandbox = denied.destination, denied.decision, denied.identity.sandbox
        refused = IngressRefusal(decision.code, decision=decision)
        lane = self._lanes.denial
        if lane is None or not _is_tls_expected(denied) or not lane.can_explain(sandbox, to.host, decision):
            return refused
        with self._count_connection(sandbox, decision.limits) as is_counted:
            # Neither a limit nor a full log is a reason to hide that the host is denied.
            if not is_counted or self._stop_code(sandbox):
                return refused
            hello = denied.hello
            if denied.entry == "connect":
                if not await pending.client.send(_CONNECT_ANSWER, pending.bounds.close_time):
                    return refused
                hello = await destination_parser.read_denied_start(pending)
            policy, is_denied = self._engine.policy, True
            if policy is not denied.policy:
                # The rules have changed while the client took its time, and only lanes are rechecked.
                now = self._engine.clock.now()
                decision = decide_host(policy, denied.identity, to.host, to.port, now, scheme=to.scheme)
                # A host that is allowed by now is not served on this connection: the client asks again.
                is_denied = lane.can_explain(sandbox, to.host, decision)
                if is_denied:
                    denied = replace(denied, policy=policy, decision=decision)
                    refused = IngressRefusal(decision.code, decision=decision)
            # A client that asks for another name inside could not verify the certificate of this one.
            if not is_denied or hello is None or hello.sni not in ("", to.host):
                refused = replace(refused, sni=hello.sni if hello else "")
                return self._refuse_canary(pending, refused) or refused
            entering()
            # Bytes that a lane has written must not be followed by an error page.
            pending.speaks = ""
            client = pending.client
            await lane.carry(replace(denied, hello=hello), client.reader, client.writer, client.take_unread())
            return None

    async def _take_ticket(
        self, pending: PendingConnection, asked: RequestedDestination | IngressRefusal | None
    ) -> IngressRefusal | None:
        """Take the ticket that a client of the proxy shows, and refuse one that does not hold."""
        if self._tickets is None or not isinstance(asked, RequestedDestination):
            return None
        return await self._tickets.refusal(pending, asked)

    async def _requested_destination(
        self, pending: PendingConnection
    ) -> RequestedDestination | IngressRefusal | None:
        if pending.listener.kind == "proxy":
            return await destination_parser.read_proxy_request(
                pending, self._guard, self._engine.clock.monotonic()
            )
        return await destination_parser.read_transparent_start(pending)

    def _refuse_canary(
        self, pending: PendingConnection, asked: RequestedDestination | IngressRefusal | None
    ) -> IngressRefusal | None:
        """Refuse what names a host by a value that nothing may send, whatever else is wrong with it."""
        if asked is None:
            return None
        sni = asked.sni if isinstance(asked, IngressRefusal) else ""
        denial = self._engine.canary_denial(pending.identity.sandbox, asked.host, sni)
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
        self, pending: PendingConnection, admitted: AdmittedConnection
    ) -> AdmittedConnection | IngressRefusal | None:
        """Open the tunnel of a CONNECT; return the admitted with what the client says inside it."""
        hello = admitted.hello
        if admitted.entry == "connect":
            if not await pending.client.send(_CONNECT_ANSWER, pending.bounds.close_time):
                return None
            opened = await destination_parser.read_tunnel_start(pending, admitted.destination)
            if not isinstance(opened, destination_parser.TunnelStart):
                return opened
            hello = opened.hello
        return self._decide_again(replace(admitted, hello=hello))

    def _decide_again(self, admitted: AdmittedConnection) -> AdmittedConnection | IngressRefusal:
        """Decide again if the rules have changed: clients take their time, and only lanes are rechecked.

        The same holds for the ticket. Nothing is waited for from here to the lane.
        """
        if self._tickets is not None and (ended := self._tickets.ended(admitted.identity)):
            return ended
        policy = self._engine.policy
        if policy is not admitted.policy:
            to = admitted.destination
            asked = RequestedDestination(admitted.entry, (to.scheme,), to.host, to.port)
            _, decision = _decide(policy, admitted.identity, asked, self._engine.clock.now())
            if not decision.allowed:
                return IngressRefusal("access.withdrawn", decision=decision)
            admitted = replace(admitted, policy=policy, decision=decision)
        return admitted

    async def _carry(self, pending: PendingConnection, admitted: AdmittedConnection) -> bytes | None:
        # Bytes that a lane has written must not be followed by an error page.
        pending.speaks = ""
        lane = self._lanes.full if admitted.decision.intercept else self._lanes.tunnel
        return await lane(
            admitted, pending.client.reader, pending.client.writer, pending.client.take_unread()
        )


def _facts(
    pending: PendingConnection,
    asked: RequestedDestination,
    scheme: Scheme,
    decision: HostDecision,
    policy: Policy,
) -> tuple[
    str,
    Identity,
    str,
    DestinationSource,
    Destination,
    HostDecision,
    Policy,
    ClientHello | None,
    float,
    str,
]:
    """Return the fields of a `CarriedConnection`."""
    return (
        pending.id,
        pending.identity,
        pending.listener.name,
        asked.entry,
        Destination(scheme, asked.host, asked.port),
        decision,
        policy,
        asked.hello,
        pending.started,
        pending.peer,
    )


def _is_tls_expected(denied: DeniedConnection) -> bool:
    """Tell whether the client is likely to begin TLS, so that it would read a page inside of it.

    A CONNECT to another well-known port is for SSH, mail or the like. Their clients wait for the server to
    speak first, and are refused at once.
    """
    port = denied.destination.port
    return denied.hello is not None or (denied.entry == "connect" and (port in _WEB_PORTS or port >= 1024))


def _decide(
    policy: Policy, identity: Identity, asked: RequestedDestination, now: int
) -> tuple[Scheme, HostDecision]:
    """Return the first scheme that is allowed, or the reason why the preferred one is not."""
    decisions = [
        (scheme, decide_host(policy, identity, asked.host, asked.port, now, scheme=scheme))
        for scheme in asked.schemes
    ]
    return next((found for found in decisions if found[1].allowed), decisions[0])
