"""What would change under other rules: every line decided again, and compared with what was decided then.

Theory of operation. A line is compared only where the rules decided it: a limit, an upstream that was
away or a failed handshake says nothing about rules. Each kind of request is decided once, on both
readings of the new rules (`doubt`), without headers and query, for those are in no line. So three
answers come out: it would be allowed, it would be denied, or the log cannot tell.

Nothing is sent, no name is resolved, no secret is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from egress.review.drafting.ambiguity import PolicyReadings, read_both_ways
from egress.review.drafting.observation import Observation
from egress.review.drafting.timeout import TimeoutCheck, never_timeout
from egress.review.drafting.traffic import Occurrences
from egress.rules.decide.decision import decide, decide_host
from egress.rules.decide.policy import Policy
from egress.types import Decision, Head, HostDecision, Identity, InjectPlaceholder

ChangeKind = Literal["allowed", "denied", "untold", "secrets"]
SANDBOX = "replay"
_BY_RULES = frozenset({"rule.allowed", "host.allowed", "observed"})


@dataclass(slots=True)
class VerdictChange:
    """One way in which verdicts would differ: how often, and an example."""

    outcome: ChangeKind
    host: str
    port: int
    method: str
    """Empty for a tunnel, a connection or a name."""
    code: str
    """Why it would be denied; why it was denied then for what would be allowed."""
    rule: str = ""
    note: str = ""
    count: int = 0
    paths: int = 0
    path: str = ""
    """One of the paths."""
    example: str = ""
    """The id of one of the requests."""


@dataclass(slots=True)
class Replay:
    """What came of it. Lists are sorted by how often, then by name."""

    same: int = 0
    not_compared: int = 0
    """Denied for another reason than the rules."""
    allowed: list[VerdictChange] = field(default_factory=list)
    denied: list[VerdictChange] = field(default_factory=list)
    untold: list[VerdictChange] = field(default_factory=list)
    secrets: list[VerdictChange] = field(default_factory=list)
    """Allowed then and now, with other secrets."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    allowed: bool | None
    """None: the log cannot tell."""
    code: str
    rule: str = ""
    note: str = ""
    secrets: frozenset[str] | None = None
    """Those it would get, where that is known."""


def replay(
    traffic: Iterable[tuple[Observation, Occurrences]],
    policy: Policy,
    now: int,
    patience: TimeoutCheck = never_timeout,
) -> Replay:
    """Decide everything that was seen again, under `policy` and at `now`."""
    result = Replay()
    both = read_both_ways(policy)
    changes: dict[tuple[str, ...], VerdictChange] = {}
    for one, times in traffic:
        patience()
        change = _compare(one, both, now, result, times.count)
        if change is not None:
            _count(changes, change, one, times)
    for change in sorted(
        changes.values(), key=lambda c: (-c.count, c.host, c.port, c.method, c.code, c.rule)
    ):
        getattr(result, change.outcome).append(change)
    return result


def decide_again(one: Observation, policy: Policy, now: int) -> Decision | HostDecision:
    """The verdict of these rules on what was seen, as far as a line holds it."""
    identity = Identity(SANDBOX, one.profile)
    if one.kind != "request":
        return decide_host(policy, identity, one.host, one.port or None, now, scheme=one.scheme)
    return decide(policy, identity, head_of(one), now)


def head_of(one: Observation) -> Head:
    """The head of a request, without what is in no line."""
    return Head(one.method, one.scheme, one.host, one.port, one.path, (), one.is_websocket)


def _compare(
    one: Observation, both: PolicyReadings, now: int, result: Replay, count: int
) -> VerdictChange | None:
    if not one.passed and not one.is_denied_by_rules:
        result.not_compared += count
        return None
    verdict = _verdict(one, both, now)
    if verdict.allowed is None:
        return _change("untold", one, verdict.code, verdict)
    if verdict.allowed and not one.passed:
        return _change("allowed", one, one.code, verdict)
    if one.passed and not verdict.allowed:
        return _change("denied", one, verdict.code, verdict)
    if one.passed and (note := _other_secrets(one, verdict)):
        return _change("secrets", one, "", verdict, note)
    result.same += count
    return None


def _verdict(one: Observation, both: PolicyReadings, now: int) -> _Verdict:
    hopeful = decide_again(one, both.hopeful, now)
    gloomy = hopeful if both.is_told else decide_again(one, both.gloomy, now)
    rule = str(hopeful.rule or gloomy.rule or "")
    if hopeful.allowed != gloomy.allowed:
        return _Verdict(None, gloomy.code, rule, "a rule looks at the query, headers or the media type")
    if isinstance(hopeful, HostDecision):
        if one.kind == "tunnel" and hopeful.allowed and hopeful.intercept:
            note = "it was passed on unread, and would be read now: what was asked for is not known"
            return _Verdict(None, hopeful.code, rule, note)
        return _Verdict(hopeful.allowed, hopeful.code, rule)
    if one.is_cut and hopeful.code in ("rule.none", "rule.allowed", "rule.denied", "path.ambiguous"):
        return _Verdict(None, hopeful.code, rule, "the path was too long for the log")
    if hopeful.allowed and not one.passed and one.code in _INSIDE:
        return _Verdict(None, one.code, rule, "it was denied for a header or the query, which is in no line")
    return _Verdict(hopeful.allowed, hopeful.code, rule, "", _secrets(hopeful, gloomy))


_INSIDE = frozenset({"method.override", "path.override"})


def _secrets(one: Decision | HostDecision, other: Decision | HostDecision) -> frozenset[str] | None:
    """The names that would be sent. A stand-in is swapped only where it was sent, which no line tells."""
    if not (isinstance(one, Decision) and isinstance(other, Decision)):
        return None
    needs = (*one.effects.needs, *other.effects.needs)
    if one.effects.needs != other.effects.needs or any(isinstance(need, InjectPlaceholder) for need in needs):
        return None
    return frozenset(need.secret for need in needs)


def _other_secrets(one: Observation, verdict: _Verdict) -> str:
    """How the secrets differ; nothing where a request may not have come as far as to carry any."""
    if verdict.secrets is None or one.code not in _BY_RULES:
        return ""
    then = {secret for secret, _ in one.secrets}
    if then == verdict.secrets:
        return ""
    shown = [f"no longer {name}" for name in sorted(then - verdict.secrets)]
    return ", ".join([*shown, *(f"now {name}" for name in sorted(verdict.secrets - then))])


def _change(
    outcome: ChangeKind, one: Observation, code: str, verdict: _Verdict, note: str = ""
) -> VerdictChange:
    return VerdictChange(outcome, one.host, one.port, one.method, code, verdict.rule, note or verdict.note)


def _count(
    changes: dict[tuple[str, ...], VerdictChange], change: VerdictChange, one: Observation, times: Occurrences
) -> None:
    key = (
        change.outcome,
        change.host,
        str(change.port),
        change.method,
        change.code,
        change.rule,
        change.note,
    )
    group = changes.setdefault(key, change)
    group.count += times.count
    group.paths += 1
    if not group.example:
        group.example, group.path = times.example, one.path
