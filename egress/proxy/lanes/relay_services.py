"""The services of the relay of a client connection: policy, secrets, ids, and the audit of each exchange."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from egress.audit.reported_facts import (
    AuditStoppedError,
    ConnectionFacts,
    Durations,
    ExchangeFacts,
    Intent,
    Ticket,
)
from egress.credentials import NO_PLACEHOLDERS, Canaries, CanaryScan, Placeholders
from egress.errors import UsageError
from egress.exchange import Exchange, ExchangeRecord, Spend
from egress.proxy.lanes.connection import CarriedConnection, refusal_facts
from egress.proxy.lanes.engine import ProxyEngine, ServedSandbox
from egress.relay.ports import ExchangeTiming
from egress.rules.decide.policy import Policy, SecretSpec
from egress.scrub import Needles
from egress.secrets.value_history import KnownValue
from egress.shares.turns import SandboxTurns
from egress.types import Secret

_MICROSECONDS = 1_000_000
_NANOSECONDS = 1_000_000_000
MAX_ROUTES = 256
"""Routes kept for a client connection before those of closed wires are dropped."""


@dataclass(slots=True)
class UpstreamRoute:
    """Facts about an upstream connection, for the records of its exchanges."""

    address: str = ""
    resolve: int = 0
    connect: int = 0
    tls: int = 0
    tls_version: str = ""
    alpn: str = ""
    is_told: bool = False
    """An exchange has recorded how long the connection took to make; the next exchanges found it made."""
    way: ConnectionFacts | None = None
    """The facts as records state them; made for the first record."""


@dataclass(slots=True)
class RelayServices:
    """The `RelayEnvironment` of a relay."""

    engine: ProxyEngine
    admitted: CarriedConnection
    sandbox: ServedSandbox
    client_tls: str = ""
    alpn: str = ""
    routes: dict[int, UpstreamRoute] = field(default_factory=dict)
    """By the wire that the relay gave the connection."""
    finished: int = 0
    """How many exchanges have their record."""
    monotonic: Callable[[], float] = field(init=False)
    """The clock itself: every exchange reads it several times."""
    request_id: Callable[[], str] = field(init=False)
    turn: SandboxTurns = field(init=False)
    """The turns of the sandbox."""
    buffer_bytes: int = field(init=False)
    """What may be read at once on the connection, and wait to be sent."""
    _nowhere: UpstreamRoute = field(default_factory=UpstreamRoute)
    """The route of exchanges that never left."""
    _spend: Spend | None = None
    _policy: Policy | None = None
    """The policy that `_placeholders` and `_canaries` were made for."""
    _placeholders: Placeholders = NO_PLACEHOLDERS
    _canaries: Canaries | None = None
    _version: int = -1
    _needles: dict[str, tuple[Policy, Needles | None]] = field(default_factory=dict)
    """By digest, for the policies of running exchanges; valid for one version of the secrets."""
    _carried: dict[Ticket, tuple[KnownValue, ...]] = field(default_factory=dict)
    """The values that running exchanges were sent with."""

    def __post_init__(self) -> None:
        self.monotonic = self.engine.clock.monotonic
        self.request_id = self.engine.new_id
        self.turn = self.engine.turns.of(self.sandbox.identity.sandbox)
        self.buffer_bytes = self.engine.pool.buffer_bytes(self.sandbox.identity.sandbox)

    # Policy and time

    def policy(self) -> Policy:
        return self.engine.policy

    def now(self) -> int:
        return self.engine.clock.now_ns() // _NANOSECONDS

    def new_exchange(self) -> Exchange:
        policy, sandbox = self.engine.policy, self.sandbox
        if policy is not self._policy:
            self._spend = self.engine.counts.spender(sandbox.identity.sandbox)
            self._placeholders, self._canaries = sandbox.placeholders(policy), sandbox.canaries(policy)
            # Last: a fault above must not leave the values of an older policy in force.
            self._policy = policy
        exchange = Exchange(
            policy,
            self.admitted.identity,
            self.admitted.destination,
            placeholders=self._placeholders,
            needles=self.needles(policy),
            spend=self._spend,
            canaries=None if self._canaries is None else CanaryScan(self._canaries),
            knows=self._knows,
        )
        exchange.sessions = sandbox.mcp_sessions
        exchange.budgets = self.engine.budgets
        return exchange

    def _knows(self, text: str) -> bool:
        """Tell whether a text holds the value of any secret, also of one that never goes to this host."""
        return bool(self.engine.secrets.all_needles().mask(text.encode("latin-1", "replace")).hits)

    # Secrets

    def needles(self, policy: Policy) -> Needles | None:
        secrets = self.engine.secrets
        if secrets.version == self._version:
            known = self._needles.get(policy.digest)
            if known is not None and known[0] is policy:
                return known[1]
        to = self.admitted.destination
        needles = secrets.needles_at(to.host, to.port, self.bound(policy))
        if secrets.version != self._version:
            # Cleared after the call, which may bring a new version itself.
            self._needles.clear()
            self._version = secrets.version
        self._needles[policy.digest] = (policy, needles)
        return needles

    def secrets(
        self, policy: Policy, names: tuple[str, ...], *, unscrubbed: bool
    ) -> Mapping[str, Secret] | None:
        return self.engine.secrets.cached(secret_specs(policy, names), names if unscrubbed else ())

    def bound(self, policy: Policy) -> tuple[SecretSpec, ...]:
        """Return the secrets that may go to this destination, and so may come back from it."""
        to = self.admitted.destination
        return tuple([spec for spec in policy.secrets.values() if spec.is_bound_to(to.host, to.port)])

    # The upstream connections

    def keep(self, wire: int, route: UpstreamRoute, open_routes: Collection[UpstreamRoute]) -> None:
        """Note the route of a wire; routes of closed wires are dropped when there are many."""
        if len(self.routes) >= MAX_ROUTES:
            alive = {id(each) for each in open_routes}
            self.routes = {number: each for number, each in self.routes.items() if id(each) in alive}
        self.routes[wire] = route

    # The audit

    def begin(self, request: str, method: str, secrets: tuple[str, ...]) -> Ticket | None:
        admitted = self.admitted
        to = admitted.destination
        opening = Intent(request, admitted.id, admitted.identity.sandbox, to.host, to.port, method, secrets)
        try:
            ticket = self.engine.audit.begin(opening)
        except AuditStoppedError:
            return None
        if secrets:
            self._carried[ticket] = self.engine.secrets.begin_use(secrets)
        return ticket

    def sent(self, ticket: object) -> None:
        if isinstance(ticket, Ticket):
            self.engine.audit.sent(ticket)

    def finish(
        self, ticket: object | None, request: str, record: ExchangeRecord, timing: ExchangeTiming
    ) -> None:
        try:
            facts = self._facts(request, timing)
            self.engine.audit.exchange(ticket if isinstance(ticket, Ticket) else None, record, facts)
        except BaseException:
            # The connection ends with this fault, and may not be able to record it any more.
            self.refuse("internal")
            raise
        finally:
            self.finished += 1
            if record.code == "canary.stopped":
                self.engine.on_canary(self.sandbox)
            if isinstance(ticket, Ticket):
                self.engine.secrets.end_use(self._carried.pop(ticket, ()))
        # Last: a fault in counting must not change a record.
        took = facts.durations
        connecting = took.resolve + took.connect + took.tls
        self.engine.metrics.exchange(self.admitted.decision.entry, record, timing, connecting)

    def refuse(self, code: str) -> None:
        """Record that this connection ended without an exchange that would show it."""
        self.engine.audit.refusal(refusal_facts(self.admitted, code))
        self.engine.metrics.refused(code, self.admitted.identity.profile)

    def _facts(self, request: str, timing: ExchangeTiming) -> ExchangeFacts:
        route = self.routes.get(timing.wire) or self._nowhere
        facts = ExchangeFacts(self._way(route), request, durations(timing, route))
        route.is_told = True
        return facts

    def _way(self, route: UpstreamRoute) -> ConnectionFacts:
        if route.way is None:
            admitted = self.admitted
            route.way = ConnectionFacts(
                connection=admitted.id,
                listener=admitted.listener,
                entry=admitted.entry,
                address=route.address,
                sni=admitted.hello.sni if admitted.hello else "",
                client_tls=self.client_tls,
                upstream_tls=route.tls_version,
                alpn=self.alpn,
                upstream_alpn=route.alpn,
                peer=admitted.peer,
            )
        return route.way


def sandbox_of(engine: ProxyEngine, carried: CarriedConnection) -> ServedSandbox:
    """Return the sandbox of a connection; raises `UsageError` for one that is not known."""
    sandbox = engine.sandboxes.get(carried.identity.sandbox)
    # A run has rights of its own; its ticket, which was checked just before, ends with its sandbox.
    is_same = sandbox is not None and (carried.identity.ticket or sandbox.identity == carried.identity)
    if sandbox is None or not is_same:
        raise UsageError("a connection of a sandbox that is not known reached the lane")
    return sandbox


def microseconds_between(began: float, ended: float) -> int:
    """Return the time from one monotonic moment to another; 0 where a stage was not reached."""
    # A moment of 0 is one that was not reached.
    return max(0, int((ended - began) * 1_000_000)) if began and ended else 0


def secret_specs(policy: Policy, names: tuple[str, ...]) -> tuple[SecretSpec, ...]:
    """Return the entries of these secrets in the policy; the loader has checked that it names them all."""
    return tuple([policy.secrets[name] for name in names if name in policy.secrets])


def durations(timing: ExchangeTiming, route: UpstreamRoute) -> Durations:
    """Return how long the stages of an exchange took, with those of its connection if it was made for it."""
    fresh = not route.is_told
    return Durations(
        resolve=route.resolve if fresh else 0,
        connect=route.connect if fresh else 0,
        tls=route.tls if fresh else 0,
        secret=int(timing.secret_wait * _MICROSECONDS),
        first_byte=microseconds_between(timing.sent, timing.answered),
        total=microseconds_between(timing.began, timing.ended),
    )
