"""The name servers of all sandboxes: which sockets are answered, with what address, and for whom.

A listener belongs to one sandbox here as at the door, so who asks follows from the socket. What is refused is
recorded as a refusal with the entry `dns`, be it a question or not; the audit folds floods of them.

It opens no socket, and holds no connection that the door would have to count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from ipaddress import IPv4Address
from typing import Protocol

from egress.audit.reported_facts import RefusalFacts
from egress.errors import UsageError
from egress.proxy.clock import Clock
from egress.proxy.dns.server import DnsServer, Explains, OnRefused, Responder
from egress.proxy.ingress.listener import Listener, check_listener
from egress.proxy.ingress.peer_identity import PeerIdentities, PeerIdentity
from egress.proxy.ingress.ports import KnownSandbox, RefusalAudit
from egress.proxy.metrics import Metrics
from egress.rules.decide.policy import Policy
from egress.shares.turns import Turns
from egress.types import HostDecision, Identity


class DnsEngine(Protocol):
    """The engine, as far as it is needed here."""

    @property
    def clock(self) -> Clock: ...
    @property
    def policy(self) -> Policy: ...
    @property
    def audit(self) -> RefusalAudit: ...
    @property
    def sandboxes(self) -> Mapping[str, KnownSandbox]: ...
    @property
    def turns(self) -> Turns: ...

    def canary_denial(self, sandbox: str, *names: str) -> HostDecision | None: ...


class NameServers:
    """Every socket on which names are asked for, until it is closed."""

    def __init__(
        self,
        engine: DnsEngine,
        metrics: Metrics | None = None,
        explains: Explains | None = None,
        peers: PeerIdentities | None = None,
    ) -> None:
        """`metrics` count what is refused here. `explains` tells which denied names are answered.

        `peers` tell sandboxes apart that share a listener.
        """
        self._engine = engine
        self._peers = peers
        self._explains = explains or (lambda _sandbox, _name, _denial: False)
        self._metrics = metrics or Metrics()
        self._servers: dict[Listener, DnsServer] = {}

    async def open(self, listener: Listener, answer: IPv4Address) -> tuple[str, int]:
        """Answer on this listener, every allowed name with one address; returns where it is bound.

        Raises `UsageError` for a listener of nobody, or one that asks its peers for proof.
        """
        check_listener(listener)
        if listener.authentication != "network":
            raise UsageError("A DNS listener cannot authenticate its clients.", "Use network for it.")
        known = self._engine.sandboxes.get(listener.sandbox)
        if known is None:
            raise UsageError("The listener belongs to no sandbox.", "Add the sandbox first.")
        clock = self._engine.clock
        # Whoever asks by an address of its own is told apart by it; elsewhere the socket says who asks.
        responder = Responder(
            answer,
            lambda: self._engine.policy,
            clock,
            self._record(listener),
            self._engine.canary_denial,
            self._explains,
        )
        of_listener = PeerIdentity(known.identity)
        identify = self._peers.identify if self._peers else lambda _: of_listener
        turns = self._engine.turns.of(listener.sandbox)
        server = DnsServer(responder, clock, identify, turns=turns, is_shared=self._peers is not None)
        host, port = listener.sock.getsockname()[:2]
        if listener.kind == "dns-udp":
            await server.start(udp=listener.sock)
        else:
            await server.start(tcp=listener.sock)
        self._servers[listener] = server
        return host, port

    def cut(self, is_meant: Callable[[PeerIdentity], bool], code: str) -> None:
        """Close the connections of these peers; records give this code."""
        for server in self._servers.values():
            server.cut(is_meant, code)

    async def close_sandbox(self, sandbox: str) -> None:
        """Answer nothing any more that one sandbox asks."""
        await self._close([listener for listener in self._servers if listener.sandbox == sandbox])

    async def close(self) -> None:
        """Answer nothing any more."""
        await self._close(list(self._servers))

    async def _close(self, listeners: Collection[Listener]) -> None:
        for listener in listeners:
            # A second task may be closing the same listener.
            server = self._servers.pop(listener, None)
            if server is not None:
                await server.close()

    def _record(self, listener: Listener) -> OnRefused:
        def record(
            identity: Identity, name: str, code: str, decision: HostDecision | None, peer: str
        ) -> None:
            self._engine.audit.refusal(
                RefusalFacts(
                    identity=identity,
                    listener=listener.name,
                    peer=peer if listener.is_shared else "",
                    entry="dns",
                    host=name,
                    code=code,
                    rule=decision.rule if decision else None,
                    place=decision.place if decision else None,
                    policy=self._engine.policy.digest,
                )
            )
            self._metrics.refused(code, identity.profile)

        return record
