"""The wired objects that door and lanes work with.

One engine a process. What can change while it runs is the policy, and only as a whole: `swap` sets one
reference, so nobody ever decides by half of an old and half of a new one.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

from egress.audit.sink import Sink, keep_name
from egress.ca.authority import Authority
from egress.credentials import NO_PLACEHOLDERS, Canaries, Placeholders
from egress.credentials.canary import STOPPED_CODE
from egress.exchange import Spend
from egress.proxy.clock import Clock
from egress.proxy.lanes.connection import LiveConnection, LiveConnections
from egress.proxy.lanes.dial import Dialer
from egress.proxy.metrics import Metrics
from egress.rules.decide import limits
from egress.rules.decide.policy import CANARY_VALUE_MARK, CanarySpec, Policy
from egress.secrets.resolver import SecretResolver
from egress.types import HostDecision, Identity, InjectPlaceholder, Limit, RuleRef, Verdict

log = structlog.get_logger(__name__)


CANARIES_KEY_NAME: Final = "canaries"
"""Under which canaries are recorded: `canaries#decoy`."""


@dataclass(frozen=True, slots=True)
class SandboxCanary:
    """One canary of one sandbox, with its value."""

    canary: CanarySpec
    value: str = field(repr=False)

    @property
    def content(self) -> str:
        """What the file says in which it is planted."""
        return self.canary.text.replace(CANARY_VALUE_MARK, self.value)


@dataclass(slots=True)
class ServedSandbox:
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
                (RuleRef(CANARIES_KEY_NAME, each.name, each.place), each.like, each.stop)
                for each in policy.canaries
            ]
            made = Canaries.of(self.canary_key or self.placeholder_key, wanted) if wanted else None
            self._canaries = (policy.digest, made)
        return made

    def planted(self, policy: Policy) -> tuple[SandboxCanary, ...]:
        """The same with where each is planted, for whoever plants them."""
        made = self.canaries(policy)
        values = {} if made is None else {each.secret: each.value for each in made.all}
        return tuple(SandboxCanary(canary, values[canary.name]) for canary in policy.canaries)


class LimitCounters:
    """What sandboxes have used up of their limits; kept over reloads of the rules."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._arrivals: dict[limits.Key, int] = {}
        self._open: dict[limits.Key, int] = {}

    def spender(self, sandbox: str) -> Spend:
        """What an exchange of this sandbox counts its request with."""

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
                self._open.pop(key, None)

    def forget_idle(self) -> None:
        """Drop what makes no difference any more; a sandbox must not make this grow for ever."""
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
    """Everything a lane needs, in one place."""

    clock: Clock
    policy: Policy
    secrets: SecretResolver
    audit: Sink
    dialer: Dialer
    counts: LimitCounters
    new_id: Callable[[], str]
    """Makes the ids of connections and requests: short, unguessable, unique."""
    live: LiveConnections = field(default_factory=LiveConnections)
    metrics: Metrics = field(default_factory=Metrics)
    sandboxes: dict[str, ServedSandbox] = field(default_factory=dict)
    on_canary: Callable[[ServedSandbox], None] = _log_unhandled_canary
    """Hears of a sandbox that is to lose its access: it sent a canary that says so."""
    stopping: bool = False
    """No new work is taken; what runs may come to its end."""

    def __post_init__(self) -> None:
        self._set_name_mask()

    def _set_name_mask(self) -> None:
        """Mask host names in the log only while the policy plants canaries: the log asks for every record."""
        self.audit.hide = self._mask_name if self.policy.canaries else keep_name

    def canary_denial(self, sandbox: str, *names: str) -> HostDecision | None:
        """The denial of host names that carry a canary; where it says so, the sandbox loses its access."""
        canaries = self._canaries_of(sandbox)
        seen = None if canaries is None else canaries.seen_in_names(names)
        if seen is None:
            return None
        if seen.code == STOPPED_CODE:
            self.on_canary(self.sandboxes[sandbox])
        place = seen.rule.place if seen.rule else None
        return HostDecision(Verdict.DENY, seen.code, rule=seen.rule, place=place)

    def _mask_name(self, sandbox: str, name: str) -> str:
        """A host name as the log may have it."""
        canaries = self._canaries_of(sandbox)
        return name if canaries is None else canaries.masked(name, ".")

    def _canaries_of(self, sandbox: str) -> Canaries | None:
        known = self.sandboxes.get(sandbox) if self.policy.canaries else None
        return None if known is None else known.canaries(self.policy)

    def swap(self, policy: Policy) -> None:
        """Decide by this policy from now on, and end what it would not let begin."""
        self.policy = policy
        self._set_name_mask()
        now = self.clock.now()
        for carried in self.live:
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


# Ids of connections and requests: for the audit, and for a sandbox to quote.
_ID_BYTES: Final = 9
"""Of chance in one id: a multiple of three, so that ids can be cut from one text."""
_ID_CHARS: Final = _ID_BYTES * 4 // 3
_IDS_PER_READ: Final = 256


class IdGenerator:
    """Makes ids that nobody can guess and that never come again."""

    __slots__ = ("_ready",)

    def __init__(self) -> None:
        self._ready: list[str] = []

    def __call__(self) -> str:
        """A new id, made of letters, digits, `-` and `_`."""
        if not self._ready:
            # Many at once: to ask the kernel for each of them costs more than all the rest of it.
            text = base64.urlsafe_b64encode(secrets.token_bytes(_ID_BYTES * _IDS_PER_READ)).decode("ascii")
            self._ready = [text[at : at + _ID_CHARS] for at in range(0, len(text), _ID_CHARS)]
        return self._ready.pop()
