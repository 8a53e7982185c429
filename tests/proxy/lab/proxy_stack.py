"""The proxy itself, whole and in this process: real sockets, real TLS, real audit log.

    async with Stack.of(tmp_path, certs, rules, secrets={"api": "s3cret"}) as stack:
        async with await stack.visit(upstream) as peer: ...

Rules are texts with `PORT` where the port of the upstream stands.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from egress.audit.sink import Sink
from egress.audit.verify import verify
from egress.ca.authority import Authority
from egress.handlers.caller import NO_HANDLERS, HandlerCaller
from egress.proxy.clock import Clock, SystemClock
from egress.proxy.ingress.listener import Listener, listen
from egress.proxy.ingress.local_tickets import LocalTickets
from egress.proxy.ingress.ports import Lanes
from egress.proxy.ingress.server import IngressServer
from egress.proxy.lanes.denial_lane import DenialLane
from egress.proxy.lanes.dial import Dialer
from egress.proxy.lanes.engine import LimitCounters, ProxyEngine, ServedSandbox
from egress.proxy.lanes.intercept_lane import InterceptLane
from egress.proxy.lanes.intercept_limits import InterceptLimits
from egress.proxy.lanes.local_addresses import LocalAddresses
from egress.proxy.lanes.resolve import FixedResolver, SystemResolver
from egress.proxy.lanes.tunnel_lane import TunnelCarrier, TunnelEnd
from egress.rules.compile.load import RuleText, load
from egress.rules.decide.policy import Policy
from egress.secrets.environment_capture import CapturedEnvironment
from egress.secrets.resolver import SecretResolver
from egress.tls.contexts import UpstreamContexts as TrustedUpstream
from egress.tls.roots import trusted_roots
from egress.types import Identity
from tests.proxy.lab.certificates import Certificates, trusting
from tests.proxy.lab.client import Peer, at, connect
from tests.proxy.lab.server import Upstream

SANDBOX = "test"
NAME = "api.example.test"
OTHER = "other.example.test"
KEY = bytes(range(32))


def policy_of(text: str, *, now: int | None = None) -> Policy:
    """The policy that these rules are; a mistake in them is a mistake of the test."""
    loaded = load([RuleText("hosts.yaml", text)], {}, now)
    if loaded.policy is None:
        raise ValueError("; ".join(str(finding) for finding in loaded.findings))
    return loaded.policy


class ProxyStack:
    """Door, lanes, audit and all, on a port of its own."""

    def __init__(
        self,
        folder: Path,
        certs: Certificates,
        rules: str,
        *,
        names: Mapping[str, str] | None = None,
        limits: InterceptLimits | None = None,
        clock: Clock | None = None,
        handlers: HandlerCaller = NO_HANDLERS,
    ) -> None:
        self.folder = folder
        self.certs = certs
        self.rules = rules
        self.limits = limits or InterceptLimits()
        self.clock = clock or SystemClock()
        self.handlers = handlers
        self.names = dict(names or {NAME: "127.0.0.1", OTHER: "127.0.0.1"})
        self.authority = Authority.create("test", self.clock.now())
        self.tunnels: list[TunnelEnd] = []
        self.port = 0

    async def __aenter__(self) -> Self:
        policy = policy_of(self.rules)
        resolver = FixedResolver(
            {name: [address] for name, address in self.names.items()}, SystemResolver(self.clock.monotonic)
        )
        dialer = Dialer(resolver, LocalAddresses(self.clock.monotonic), self.clock)
        self.secrets = SecretResolver(clock=self.clock, captured=CapturedEnvironment({}, {}))
        self.audit = Sink.open(self.folder / "audit", KEY, clock=self.clock)
        numbers = itertools.count(1)
        self.engine = ProxyEngine(
            clock=self.clock,
            policy=policy,
            secrets=self.secrets,
            audit=self.audit,
            dialer=dialer,
            counts=LimitCounters(self.clock),
            new_id=lambda: f"id{next(numbers)}",
            handlers=self.handlers,
        )
        identity = Identity(SANDBOX)
        self.engine.sandboxes[SANDBOX] = ServedSandbox(identity, self.authority, bytes(32))
        trust = TrustedUpstream(trusted_roots([self.certs.write_ca(self.folder / "upstreams.pem")]))
        self.full = InterceptLane(self.engine, trust, self.limits)
        tunnel = TunnelCarrier(
            dialer, self.clock, self.engine.live, self.tunnels.append, turns=self.engine.turns
        )
        lanes = Lanes(tunnel.carry, self.full.carry, DenialLane(self.full))
        self.tickets = LocalTickets(self.engine)
        self.door = IngressServer(self.engine, lanes, tickets=self.tickets)
        await self.secrets.warm(policy.secrets.values())
        self.sock = listen("127.0.0.1", 0)
        _, self.port = await self.door.open(Listener("test", "proxy", SANDBOX, self.sock))
        self._ticks = asyncio.get_running_loop().create_task(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ticks.cancel()
        await self.door.close()
        for carried in self.engine.live:
            carried.close("proxy.stopping")
        await self.secrets.close()
        self.audit.close()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(0.05)
            self.full.tick()
            self.audit.tick()

    def stop_ticks(self) -> None:
        """Let time stand still for whatever is done once a second."""
        self._ticks.cancel()

    async def open_transparent(self, host: str, port: int) -> None:
        """Listen there as well, for clients that believe to talk to the upstream itself."""
        sock = listen(host, port)
        await self.door.open(Listener("transparent", "transparent", SANDBOX, sock))

    # What tests ask

    @property
    def proxy(self) -> tuple[str, int]:
        return at(self.port)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def trust(self, *alpn: str) -> ssl.SSLContext:
        """What a client in the sandbox trusts."""
        return trusting(self.authority.certificate_pem, alpn)

    def write_ca(self) -> Path:
        """The certificate for clients that want a file."""
        path = self.folder / "egress-ca.pem"
        path.write_bytes(self.authority.certificate_pem)
        return path

    async def visit(
        self, upstream: Upstream, name: str = NAME, *alpn: str, extra: str = "", sni: str | None = None
    ) -> Peer:
        """A client inside of the sandbox, connected to the upstream through the proxy."""
        return await connect(
            at(upstream.port),
            name,
            self.trust(*(alpn or ("http/1.1",))),
            proxy=self.proxy,
            extra=extra,
            sni=sni,
        )

    def lines(self) -> list[dict[str, object]]:
        """Every audit line so far, checked to be a sound chain."""
        self.audit.flush()
        assert not verify(self.folder / "audit", KEY).faults
        files = sorted((self.folder / "audit").glob("*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def exchanges(self) -> list[dict[str, object]]:
        """The lines of exchanges."""
        return [line for line in self.lines() if line["event"] == "exchange"]
