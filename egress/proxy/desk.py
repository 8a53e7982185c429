"""What the relay of one client connection asks for: policy, secrets, ids, and the audit of each exchange."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from egress.audit.values import AuditStoppedError, Durations, Facts, Opening, Refusal, Ticket, Way
from egress.credentials import Placeholders, Watch
from egress.exchange import Record, Spend
from egress.proxy.arrival import Arrival
from egress.proxy.engine import Engine, Sandbox
from egress.relay.service import Timing
from egress.rules.policy import Policy, SecretSpec
from egress.scrub import Needles
from egress.secrets.trail import Known
from egress.types import Secret

_MICROSECONDS = 1_000_000
MOST_ROUTES = 256
"""Kept of one client connection before those that are closed are looked for."""


@dataclass(slots=True)
class Route:
    """What is known about one upstream connection."""

    address: str = ""
    resolve: int = 0
    connect: int = 0
    tls: int = 0
    tls_version: str = ""
    alpn: str = ""
    is_told: bool = False
    """An exchange has recorded how long it took to make; the next ones found it made."""
    way: Way | None = None
    """What the records say of it, once one was written."""


@dataclass(slots=True)
class Desk:
    """The `Service` of one relay."""

    engine: Engine
    arrival: Arrival
    sandbox: Sandbox
    client_tls: str = ""
    alpn: str = ""
    routes: dict[int, Route] = field(default_factory=dict)
    """By the wire that the relay gave the connection."""
    finished: int = 0
    """How many exchanges have their record."""
    _nowhere: Route = field(default_factory=Route)
    """Of exchanges that never left."""
    _spend: Spend | None = None
    _version: int = -1
    _needles: dict[str, tuple[Policy, Needles | None]] = field(default_factory=dict)
    """By digest, of policies that exchanges go by, and good for one version."""
    _carried: dict[Ticket, tuple[Known, ...]] = field(default_factory=dict)
    """What the exchanges that run were sent with."""

    # What is in force

    def policy(self) -> Policy:
        return self.engine.policy

    def now(self) -> int:
        return self.engine.clock.now()

    def monotonic(self) -> float:
        return self.engine.clock.monotonic()

    def request_id(self) -> str:
        return self.engine.new_id()

    @property
    def spend(self) -> Spend:
        if self._spend is None:
            self._spend = self.engine.counts.spender(self.sandbox.identity.sandbox)
        return self._spend

    # Secrets

    def placeholders(self, policy: Policy) -> Placeholders:
        return self.sandbox.placeholders(policy)

    def watch(self, policy: Policy) -> Watch | None:
        # Asked with every request: most policies have no canaries.
        canaries = self.sandbox.canaries(policy) if policy.canaries else None
        return None if canaries is None else Watch(canaries)

    def needles(self, policy: Policy) -> Needles | None:
        secrets = self.engine.secrets
        if secrets.version == self._version:
            known = self._needles.get(policy.digest)
            if known is not None and known[0] is policy:
                return known[1]
        to = self.arrival.destination
        needles = secrets.needles_at(to.host, to.port, self.bound(policy))
        if secrets.version != self._version:
            # Behind the question, which may bring news itself.
            self._needles.clear()
            self._version = secrets.version
        self._needles[policy.digest] = (policy, needles)
        return needles

    def secrets(
        self, policy: Policy, names: tuple[str, ...], *, unscrubbed: bool
    ) -> Mapping[str, Secret] | None:
        return self.engine.secrets.cached(specs_of(policy, names), names if unscrubbed else ())

    def bound(self, policy: Policy) -> tuple[SecretSpec, ...]:
        """The secrets that may go to this destination, and so may come back from it."""
        to = self.arrival.destination
        return tuple([spec for spec in policy.secrets.values() if spec.is_bound_to(to.host, to.port)])

    # The upstream connections

    def keep(self, wire: int, route: Route, open_routes: Collection[Route]) -> None:
        """Note the route of a wire; those that are closed are let go of when there are many."""
        if len(self.routes) >= MOST_ROUTES:
            alive = {id(each) for each in open_routes}
            self.routes = {number: each for number, each in self.routes.items() if id(each) in alive}
        self.routes[wire] = route

    # The audit

    def begin(self, request: str, method: str, secrets: tuple[str, ...]) -> Ticket | None:
        arrival = self.arrival
        to = arrival.destination
        opening = Opening(request, arrival.id, arrival.identity.sandbox, to.host, to.port, method, secrets)
        try:
            ticket = self.engine.audit.begin(opening)
        except AuditStoppedError:
            return None
        if secrets:
            self._carried[ticket] = self.engine.secrets.carry(secrets)
        return ticket

    def sent(self, ticket: object) -> None:
        if isinstance(ticket, Ticket):
            self.engine.audit.sent(ticket)

    def finish(self, ticket: object | None, request: str, record: Record, timing: Timing) -> None:
        try:
            facts = self._facts(request, timing)
            self.engine.audit.exchange(ticket if isinstance(ticket, Ticket) else None, record, facts)
        except BaseException:
            # Whoever asked may not be able to say so any more.
            self.refuse("internal")
            raise
        finally:
            self.finished += 1
            if record.code == "canary.stopped":
                self.engine.alarm(self.sandbox)
            if isinstance(ticket, Ticket):
                self.engine.secrets.let_go(self._carried.pop(ticket, ()))
        # Last: what goes wrong in counting changes no record.
        took = facts.durations
        connecting = took.resolve + took.connect + took.tls
        self.engine.metrics.exchange(self.arrival.decision.entry, record, timing, connecting)

    def refuse(self, code: str) -> None:
        """Record that this connection ended without an exchange to tell of it."""
        arrival = self.arrival
        to, decision = arrival.destination, arrival.decision
        self.engine.audit.refusal(
            Refusal(
                identity=arrival.identity,
                listener=arrival.listener,
                entry=arrival.entry,
                host=to.host,
                port=to.port,
                code=code,
                connection=arrival.id,
                sni=arrival.hello.sni if arrival.hello else "",
                rule=decision.rule,
                place=decision.place,
                policy=arrival.policy.digest,
            )
        )
        self.engine.metrics.refused(code)

    def _facts(self, request: str, timing: Timing) -> Facts:
        route = self.routes.get(timing.wire) or self._nowhere
        facts = Facts(self._way(route), request, _durations(timing, route))
        route.is_told = True
        return facts

    def _way(self, route: Route) -> Way:
        if route.way is None:
            arrival = self.arrival
            route.way = Way(
                connection=arrival.id,
                listener=arrival.listener,
                entry=arrival.entry,
                address=route.address,
                sni=arrival.hello.sni if arrival.hello else "",
                client_tls=self.client_tls,
                upstream_tls=route.tls_version,
                alpn=self.alpn,
                upstream_alpn=route.alpn,
            )
        return route.way


def specs_of(policy: Policy, names: tuple[str, ...]) -> tuple[SecretSpec, ...]:
    """What the policy says about these secrets; the loader has seen to it that it names them all."""
    return tuple([policy.secrets[name] for name in names if name in policy.secrets])


def _durations(timing: Timing, route: Route) -> Durations:
    fresh = not route.is_told
    return Durations(
        resolve=route.resolve if fresh else 0,
        connect=route.connect if fresh else 0,
        tls=route.tls if fresh else 0,
        secret=int(timing.secret_wait * _MICROSECONDS),
        first_byte=int((timing.answered - timing.sent) * _MICROSECONDS) if timing.answered else 0,
        total=int((timing.ended - timing.began) * _MICROSECONDS),
    )
