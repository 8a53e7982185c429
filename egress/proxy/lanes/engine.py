"""The engine: the wired objects that the ingress and the lanes share. Each process has one.

Only the policy changes while it runs, and only as a whole: `swap` sets a single reference, so no decision
mixes an old policy with a new one.
"""

from __future__ import annotations

import base64
import functools
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import structlog

from egress.audit.sink import Sink, keep_name
from egress.budgets.budget_desk import BudgetDesk
from egress.budgets.ledger import Ledger
from egress.ca.authority import Authority
from egress.credentials import NO_PLACEHOLDERS, Canaries, Placeholders
from egress.credentials.canary import STOPPED_CODE
from egress.exchange import Spend
from egress.handlers.caller import NO_HANDLERS, HandlerCaller
from egress.inspect.mcp.sessions import McpSessions
from egress.proxy.clock import Clock
from egress.proxy.event_loop import make_turns
from egress.proxy.lanes.connection import LiveConnection, LiveConnections
from egress.proxy.lanes.dial import Dialer
from egress.proxy.metrics import Metrics
from egress.rules.compile.grants import with_overlays
from egress.rules.decide import limits
from egress.rules.decide.outbound import HandlerChoice
from egress.rules.decide.overlay import Overlay
from egress.rules.decide.policy import CANARY_VALUE_MARK, CanarySpec, Policy
from egress.secrets.resolver import SecretResolver
from egress.shares.pool import SharePool
from egress.shares.turns import Turns
from egress.telemetry.telemetry_export import TelemetryExport
from egress.types import HostDecision, Identity, InjectPlaceholder, Limit, RuleRef, Verdict

log = structlog.get_logger(__name__)


CANARIES_KEY_NAME: Final = "canaries"
"""The key that canaries are recorded under: `canaries#decoy`."""


@dataclass(frozen=True, slots=True)
class SandboxCanary:
    """A canary of a sandbox, with its value."""

    canary: CanarySpec
    value: str = field(repr=False)

    @property
    def content(self) -> str:
        """The content of the file that the canary is planted in."""
        return self.canary.text.replace(CANARY_VALUE_MARK, self.value)


@dataclass(slots=True)
class ServedSandbox:
    """A sandbox: its identity, its placeholders, and the authority that it trusts."""

    identity: Identity
    authority: Authority
    placeholder_key: bytes = field(repr=False)
    canary_key: bytes = field(default=b"", repr=False)
    """The key of its canaries; empty if they are made from `placeholder_key`."""
    mcp_sessions: McpSessions = field(default_factory=McpSessions, repr=False)
    """The sessions of MCP that it has begun. They end with it."""
    _canaries: tuple[str, Canaries | None] = field(default=("", None), repr=False)
    _placeholders: tuple[str, Placeholders] = field(default=("", NO_PLACEHOLDERS), repr=False)

    def placeholders(self, policy: Policy) -> Placeholders:
        """Return the placeholders of this sandbox for every secret that the policy swaps."""
        digest, made = self._placeholders
        # Made once for each policy, because every request asks for them.
        if digest != policy.digest or not digest:
            pairs = sorted(
                {
                    (item.injection.secret, item.injection.like)
                    for entry in policy.entries.values()
                    for item in entry.inject
                    if isinstance(item.injection, InjectPlaceholder)
                }
            )
            made = Placeholders.of(self.placeholder_key, pairs) if pairs else NO_PLACEHOLDERS
            self._placeholders = (policy.digest, made)
        return made

    def canaries(self, policy: Policy) -> Canaries | None:
        """Return the canaries planted in this sandbox; None if the policy plants none."""
        digest, made = self._canaries
        if digest != policy.digest or not digest:
            wanted = [
                (RuleRef(CANARIES_KEY_NAME, each.name, each.place), each.like, each.stop)
                for each in policy.canaries
            ]
            # `canary_key` comes first: canaries that were planted under another proxy must still be
            # recognised.
            made = Canaries.of(self.canary_key or self.placeholder_key, wanted) if wanted else None
            self._canaries = (policy.digest, made)
        return made

    def planted(self, policy: Policy) -> tuple[SandboxCanary, ...]:
        """Return the canaries with their files, to plant them."""
        made = self.canaries(policy)
        values = {} if made is None else {each.secret: each.value for each in made.all}
        return tuple(SandboxCanary(canary, values[canary.name]) for canary in policy.canaries)


class LimitCounters:
    """Counters of the limits that sandboxes use up; kept across reloads of the rules."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._arrivals: dict[limits.Key, int] = {}
        self._open: dict[limits.Key, int] = {}

    def spender(self, sandbox: str) -> Spend:
        """Return the function that counts a request of this sandbox against limits."""

        def spend(bounds: tuple[Limit, ...]) -> limits.LimitResult:
            taken = limits.take_request(self._arrivals, sandbox, bounds, self._now())
            self._arrivals.update(taken.changes)
            return taken

        return spend

    def acquire(self, sandbox: str, bounds: tuple[Limit, ...]) -> bool:
        """Ask for one more connection; `release` it with the same bounds."""
        taken = limits.acquire_connection(self._open, sandbox, bounds)
        self._open.update(taken.changes)
        return taken.allowed

    def release(self, sandbox: str, bounds: tuple[Limit, ...]) -> None:
        for key, count in limits.release_connection(self._open, sandbox, bounds).items():
            if count:
                self._open[key] = count
            else:
                # Without this, the table would grow with every sandbox and rule that ever was.
                self._open.pop(key, None)

    def forget_idle(self) -> None:
        """Drop counters without effect; a sandbox must not make the table grow for ever."""
        for key in limits.idle_keys(self._arrivals, self._now()):
            del self._arrivals[key]

    def forget(self, sandbox: str) -> None:
        """Drop the requests counted for a sandbox that has ended; open connections count until they close."""
        for key in [key for key in self._arrivals if key[0] == sandbox]:
            del self._arrivals[key]

    def _now(self) -> int:
        return int(self._clock.monotonic() * limits.NANOSECONDS_PER_SECOND)


def _log_unhandled_canary(sandbox: ServedSandbox) -> None:
    log.error("canary.unheard", sandbox=sandbox.identity.sandbox)


@dataclass(slots=True)
class ProxyEngine:
    """The parts that lanes share."""

    clock: Clock
    policy: Policy
    secrets: SecretResolver
    audit: Sink
    dialer: Dialer
    counts: LimitCounters
    new_id: Callable[[], str]
    """Makes the ids of connections and requests: short, unguessable, unique."""
    budgets: BudgetDesk = field(init=False)
    """The budgets of calls of models."""
    ledger: Ledger = field(default_factory=Ledger)
    """What the budgets have left; the journal of a proxy that keeps one tells it of the calls before."""
    live: LiveConnections = field(default_factory=LiveConnections)
    metrics: Metrics = field(default_factory=Metrics)
    sandboxes: dict[str, ServedSandbox] = field(default_factory=dict)
    on_canary: Callable[[ServedSandbox], None] = _log_unhandled_canary
    """Called for a sandbox that sent a canary which revokes its access."""
    leaving: bool = False
    """It is about to stop, and connections end with their next answer; others serve new ones by now."""
    stopping: bool = False
    """No new connections are taken; running exchanges may finish."""

    pool: SharePool = field(default_factory=SharePool)
    """The shares that sandboxes have of connections, exchanges and memory."""
    telemetry: TelemetryExport | None = None
    """The export to a collector, if there is one."""
    handlers: HandlerCaller = NO_HANDLERS
    turns: Turns = field(init=False)
    """The shares that sandboxes have of the event loop."""

    def __post_init__(self) -> None:
        self.turns = make_turns(self.clock.monotonic)
        if self.policy.outbound is not self.handlers.outbound:
            self.policy = replace(self.policy, outbound=self.handlers.outbound)
        self.budgets = BudgetDesk(self.ledger, self.clock.now)
        self._set_name_mask()

    def _set_name_mask(self) -> None:
        """Mask host names in the log only while the policy plants canaries: every record asks."""
        self.audit.hide = self._mask_name if self.policy.canaries else keep_name

    def canary_denial(self, sandbox: str, *names: str) -> HostDecision | None:
        """Return the denial of host names that carry a canary; one with `stop` also revokes the access."""
        canaries = self._canaries_of(sandbox)
        seen = None if canaries is None else canaries.seen_in_names(names)
        if seen is None:
            return None
        if seen.code == STOPPED_CODE:
            self.on_canary(self.sandboxes[sandbox])
        place = seen.rule.place if seen.rule else None
        return HostDecision(Verdict.DENY, seen.code, rule=seen.rule, place=place)

    def _mask_name(self, sandbox: str, name: str) -> str:
        """Return a host name with its canaries masked, for the log."""
        canaries = self._canaries_of(sandbox)
        return name if canaries is None else canaries.masked(name, ".")

    def _canaries_of(self, sandbox: str) -> Canaries | None:
        known = self.sandboxes.get(sandbox) if self.policy.canaries else None
        return None if known is None else known.canaries(self.policy)

    def swap(self, policy: Policy) -> None:
        """Decide by this policy from now on, and end exchanges that it would not let begin.

        Of the grants of sandboxes those stay that the policy delegates.
        """
        if policy.outbound is not self.policy.outbound:
            policy = replace(policy, outbound=self.policy.outbound)
        self.policy = policy = with_overlays(policy, self.policy.overlays)
        self._set_name_mask()
        now = self.clock.now()
        # The policy is set already: no connection can begin under the old one while running ones are
        # rechecked.
        for carried in self.live:
            _recheck(carried, policy, now)

    def leave(self) -> None:
        """Serve on, and let each connection end with its next answer."""
        self.leaving = True
        for carried in self.live:
            carried.retire()

    def set_overlay(self, sandbox: str, overlay: Overlay | None) -> None:
        """Put the grants of a sandbox in force, None for none, and end what they would not let begin."""
        if overlay is None and sandbox not in self.policy.overlays:
            return
        others = {name: each for name, each in self.policy.overlays.items() if name != sandbox}
        self.policy = replace(
            self.policy, overlays=others if overlay is None else {**others, sandbox: overlay}
        )
        now = self.clock.now()
        for carried in self.live:
            if carried.admitted.identity.sandbox == sandbox:
                _recheck(carried, self.policy, now)

    def set_handlers(self, sandbox: str, choice: HandlerChoice) -> None:
        """Let a sandbox have these handlers from its next request on."""
        outbound = self.policy.outbound
        if not choice.is_empty or sandbox in outbound.chosen:
            self.policy = replace(self.policy, outbound=outbound.with_choice(sandbox, choice))

    def recheck_in_turns(self) -> None:
        """End exchanges that the policy in force would not let begin now: its rules may have expired."""
        for carried in self.live:
            turns = self.turns.of(carried.admitted.identity.sandbox)
            turns.wait(functools.partial(self._recheck_now, carried))

    def _recheck_now(self, carried: LiveConnection) -> None:
        # It may have ended while this waited.
        if carried in self.live:
            _recheck(carried, self.policy, self.clock.now())


def _recheck(carried: LiveConnection, policy: Policy, now: int) -> None:
    try:
        carried.recheck(policy, now)
    except Exception as error:  # noqa: BLE001 - one that breaks must not keep the others open
        log.error("recheck.failed", error=type(error).__name__)  # noqa: TRY400 - no foreign text
        _close(carried)


def _close(carried: LiveConnection) -> None:
    try:
        carried.close("internal")
    except Exception as error:  # noqa: BLE001 - as above
        log.error("close.failed", error=type(error).__name__)  # noqa: TRY400 - as above


# Ids of connections and requests stand in the audit log, and on error pages for a sandbox to quote.
_ID_BYTES: Final = 9
"""Random bytes of an id: a multiple of three, so that ids can be cut from one base64 text."""
_ID_CHARS: Final = _ID_BYTES * 4 // 3
_IDS_PER_READ: Final = 256


class IdGenerator:
    """Makes ids that cannot be guessed and do not repeat."""

    __slots__ = ("_ready",)

    def __init__(self) -> None:
        self._ready: list[str] = []

    def __call__(self) -> str:
        """A new id, made of letters, digits, `-` and `_`."""
        if not self._ready:
            # The kernel is asked for many at once: a call for each id would cost more than the rest.
            text = base64.urlsafe_b64encode(secrets.token_bytes(_ID_BYTES * _IDS_PER_READ)).decode("ascii")
            self._ready = [text[at : at + _ID_CHARS] for at in range(0, len(text), _ID_CHARS)]
        return self._ready.pop()
