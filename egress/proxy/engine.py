"""The wired objects that door and lanes work with.

One engine a process. What can change while it runs is the policy, and only as a whole: `swap` sets one
reference, so nobody ever decides by half of an old and half of a new one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

from egress.audit.sink import Sink
from egress.ca.authority import Authority
from egress.credentials import NO_PLACEHOLDERS, Canaries, Placeholders
from egress.credentials.canary import STOPPED
from egress.exchange import Spend
from egress.proxy.clock import Clock
from egress.proxy.dial import Dialer
from egress.proxy.live import Carried, Live
from egress.proxy.metrics import Metrics
from egress.rules import limits
from egress.rules.policy import VALUE, Canary, Policy
from egress.secrets.resolver import Resolver
from egress.types import HostDecision, Identity, InjectPlaceholder, Limit, RuleRef, Verdict

log = structlog.get_logger(__name__)


CANARIES: Final = "canaries"
"""Under which canaries are recorded: `canaries#decoy`."""


@dataclass(frozen=True, slots=True)
class Planted:
    """One canary of one sandbox, with its value."""

    canary: Canary
    value: str = field(repr=False)

    @property
    def content(self) -> str:
        """What the file says in which it is planted."""
        return self.canary.text.replace(VALUE, self.value)


@dataclass(slots=True)
class Sandbox:
    """One sandbox: who it is, the stand-ins it holds, and the authority it trusts."""

    identity: Identity
    authority: Authority
    placeholder_key: bytes = field(repr=False)
    canary_key: bytes = field(default=b"", repr=False)
    """What its canaries are made from; empty where that is the other key."""
    _canaries: tuple[str, Canaries | None] = field(default=("", None), repr=False)
    _placeholders: tuple[str, Placeholders] = field(default=("", NO_PLACEHOLDERS), repr=False)

    def placeholders(self, policy: Policy) -> Placeholders:
        """The stand-ins of this sandbox for every secret that the policy swaps."""
        digest, made = self._placeholders
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
        """The values that are planted in this sandbox; None where there are none."""
        digest, made = self._canaries
        if digest != policy.digest or not digest:
            wanted = [
                (RuleRef(CANARIES, each.name, each.place), each.like, each.stop) for each in policy.canaries
            ]
            made = Canaries.of(self.canary_key or self.placeholder_key, wanted) if wanted else None
            self._canaries = (policy.digest, made)
        return made

    def planted(self, policy: Policy) -> tuple[Planted, ...]:
        """The same with where each is planted, for whoever plants them."""
        made = self.canaries(policy)
        values = {} if made is None else {each.secret: each.value for each in made.all}
        return tuple(Planted(canary, values[canary.name]) for canary in policy.canaries)


class Counts:
    """What sandboxes have used up of their limits; kept over reloads of the rules."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._arrivals: dict[limits.Key, int] = {}
        self._open: dict[limits.Key, int] = {}

    def spender(self, sandbox: str) -> Spend:
        """What an exchange of this sandbox counts its request with."""

        def spend(bounds: tuple[Limit, ...]) -> limits.Taken:
            taken = limits.take(self._arrivals, sandbox, bounds, self._now())
            self._arrivals.update(taken.changes)
            return taken

        return spend

    def acquire(self, sandbox: str, bounds: tuple[Limit, ...]) -> bool:
        """Ask for one more connection; `release` it with the same bounds."""
        taken = limits.acquire(self._open, sandbox, bounds)
        self._open.update(taken.changes)
        return taken.allowed

    def release(self, sandbox: str, bounds: tuple[Limit, ...]) -> None:
        for key, count in limits.release(self._open, sandbox, bounds).items():
            if count:
                self._open[key] = count
            else:
                self._open.pop(key, None)

    def forget_idle(self) -> None:
        """Drop what makes no difference any more; a sandbox must not make this grow for ever."""
        for key in limits.idle(self._arrivals, self._now()):
            del self._arrivals[key]

    def forget(self, sandbox: str) -> None:
        """Drop the requests counted for a sandbox that has ended; open connections count until they close."""
        for key in [key for key in self._arrivals if key[0] == sandbox]:
            del self._arrivals[key]

    def _now(self) -> int:
        return int(self._clock.monotonic() * limits.SECOND)


def _unheard(sandbox: Sandbox) -> None:
    log.error("canary.unheard", sandbox=sandbox.identity.sandbox)


@dataclass(slots=True)
class Engine:
    """Everything a lane needs, in one place."""

    clock: Clock
    policy: Policy
    secrets: Resolver
    audit: Sink
    dialer: Dialer
    counts: Counts
    new_id: Callable[[], str]
    """Makes the ids of connections and requests: short, unguessable, unique."""
    live: Live = field(default_factory=Live)
    metrics: Metrics = field(default_factory=Metrics)
    sandboxes: dict[str, Sandbox] = field(default_factory=dict)
    alarm: Callable[[Sandbox], None] = _unheard
    """Hears of a sandbox that is to lose its access: it sent a canary that says so."""
    stopping: bool = False
    """No new work is taken; what runs may come to its end."""

    def __post_init__(self) -> None:
        self.audit.hide = self._hidden

    def caught(self, sandbox: str, *names: str) -> HostDecision | None:
        """The denial of host names that carry a canary; where it says so, the sandbox loses its access."""
        canaries = self._planted_in(sandbox)
        seen = None if canaries is None else canaries.seen_in_names(names)
        if seen is None:
            return None
        if seen.code == STOPPED:
            self.alarm(self.sandboxes[sandbox])
        place = seen.rule.place if seen.rule else None
        return HostDecision(Verdict.DENY, seen.code, rule=seen.rule, place=place)

    def _hidden(self, sandbox: str, name: str) -> str:
        """A host name as the log may have it."""
        canaries = self._planted_in(sandbox)
        return name if canaries is None else canaries.masked(name, ".")

    def _planted_in(self, sandbox: str) -> Canaries | None:
        known = self.sandboxes.get(sandbox) if self.policy.canaries else None
        return None if known is None else known.canaries(self.policy)

    def swap(self, policy: Policy) -> None:
        """Decide by this policy from now on, and end what it would not let begin."""
        self.policy = policy
        now = self.clock.now()
        for carried in self.live:
            try:
                carried.recheck(policy, now)
            except Exception as error:  # noqa: BLE001 - one that breaks must not keep the others open
                log.error("recheck.failed", error=type(error).__name__)  # noqa: TRY400 - no foreign text
                _close(carried)


def _close(carried: Carried) -> None:
    try:
        carried.close("internal")
    except Exception as error:  # noqa: BLE001 - as above
        log.error("close.failed", error=type(error).__name__)  # noqa: TRY400 - as above
