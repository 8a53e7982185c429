"""Replay: decide logged traffic again with other rules and compare the verdicts.

A line is compared only if the rules decided it: a limit, an unreachable upstream or a failed handshake says
nothing about rules. Each kind of request is decided once in both readings of the new rules (`ambiguity`),
without headers and query, which are not logged. The result is allowed, denied or undecidable.

A replay sends nothing, resolves no name and reads no secret.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from egress.inspect.inspector import Facts
from egress.inspect.kinds import KINDS
from egress.review.drafting.ambiguity import PolicyReadings, read_both_ways
from egress.review.drafting.observation import Observation
from egress.review.drafting.timeout import TimeoutCheck, no_timeout
from egress.review.drafting.traffic import Occurrences
from egress.rules.decide.decision import decide, decide_host
from egress.rules.decide.policy import Policy
from egress.types import Decision, Head, HostDecision, Identity, InjectPlaceholder

ChangeKind = Literal["allowed", "denied", "untold", "secrets"]
SANDBOX = "replay"
_BY_RULES = frozenset({"rule.allowed", "host.allowed", "observed"})


@dataclass(slots=True)
class VerdictChange:
    """A group of equal verdict changes, with a count and an example."""

    outcome: ChangeKind
    host: str
    port: int
    method: str
    """Empty for a tunnel, a connection or a DNS query."""
    code: str
    """Reason for the new denial, or for the old denial of newly allowed traffic."""
    rule: str = ""
    note: str = ""
    count: int = 0
    paths: int = 0
    path: str = ""
    """An example path."""
    example: str = ""
    """The id of an example request."""


@dataclass(slots=True)
class Replay:
    """The result of a replay. Lists are sorted by count, then by name."""

    same: int = 0
    not_compared: int = 0
    """Denied or cut by a limit or an error, not by the rules."""
    allowed: list[VerdictChange] = field(default_factory=list)
    denied: list[VerdictChange] = field(default_factory=list)
    untold: list[VerdictChange] = field(default_factory=list)
    secrets: list[VerdictChange] = field(default_factory=list)
    """Allowed before and now, with other secrets."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    allowed: bool | None
    """None: undecidable from the log."""
    code: str
    rule: str = ""
    note: str = ""
    secrets: frozenset[str] | None = None
    """Secrets to inject, if known."""


def replay(
    traffic: Iterable[tuple[Observation, Occurrences]],
    policy: Policy,
    now: int,
    check_timeout: TimeoutCheck = no_timeout,
) -> Replay:
    """Decide the traffic again with `policy`, at the time `now`."""
    # Both readings are compiled once: compiling per request would dominate the run time.
    result = Replay()
    both = read_both_ways(policy)
    changes: dict[tuple[str, ...], VerdictChange] = {}
    for one, times in traffic:
        check_timeout()
        change = _compare(one, both, now, result, times.count)
        if change is not None:
            _count(changes, change, one, times)
    for change in sorted(
        changes.values(), key=lambda c: (-c.count, c.host, c.port, c.method, c.code, c.rule)
    ):
        getattr(result, change.outcome).append(change)
    return result


def decide_again(one: Observation, policy: Policy, now: int) -> Decision | HostDecision:
    """Decide a logged request with these rules."""
    identity = Identity(SANDBOX, one.profile)
    if one.kind != "request":
        return decide_host(policy, identity, one.host, one.port or None, now, scheme=one.scheme)
    return decide(policy, identity, head_of(one), now, recalled(one))


def recalled(one: Observation) -> Facts | None:
    """Return what the body of a logged request said; None where the log does not have all of it."""
    log = dict(one.body)
    kind = KINDS.get(str(log.get("body", "")))
    return None if kind is None else kind.recall(log)


def head_of(one: Observation) -> Head:
    """Return the head of a request as far as it is logged."""
    return Head(one.method, one.scheme, one.host, one.port, one.path, (), one.is_websocket)


def _compare(
    one: Observation, both: PolicyReadings, now: int, result: Replay, count: int
) -> VerdictChange | None:
    # A limit or an error of the response would stop it again under any rules.
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
    lenient = decide_again(one, both.lenient, now)
    strict = lenient if both.is_certain else decide_again(one, both.strict, now)
    rule = str(lenient.rule or strict.rule or "")
    # Each undecidable case comes before the plain verdict: a replay must not claim what the log cannot prove.
    if lenient.allowed != strict.allowed:
        return _Verdict(None, strict.code, rule, "a rule checks the query, the headers or the media type")
    if isinstance(lenient, HostDecision):
        if one.kind == "tunnel" and lenient.allowed and lenient.intercept:
            note = "it was tunnelled unread and would now be read: the requests inside are unknown"
            return _Verdict(None, lenient.code, rule, note)
        return _Verdict(lenient.allowed, lenient.code, rule)
    if one.is_cut and lenient.code in ("rule.none", "rule.allowed", "rule.denied", "path.ambiguous"):
        return _Verdict(None, lenient.code, rule, "the path was too long for the log")
    if lenient.body_kind and recalled(one) is None:
        return _Verdict(None, lenient.code, rule, "a rule asks what the body says, which is not logged")
    if (unlogged := _UNLOGGED.get(lenient.code)) is not None:
        return _Verdict(None, lenient.code, rule, f"a rule asks for {unlogged}, which are not logged")
    if lenient.allowed and not one.passed and one.code in _INSIDE:
        return _Verdict(None, one.code, rule, "it was denied for a header or the query, which are not logged")
    return _Verdict(lenient.allowed, lenient.code, rule, "", _secrets(lenient, strict))


_INSIDE = frozenset({"method.override", "path.override"})
_UNLOGGED = {
    "graphql.scope": "the repositories that a document named",
    "mcp.arguments": "arguments of a tool",
}
"""What else a body said that the log does not have, by the code with which it is missed."""


def _secrets(one: Decision | HostDecision, other: Decision | HostDecision) -> frozenset[str] | None:
    """Return the secrets to inject; None if unknown. The log does not show if a request held a stand-in."""
    if not (isinstance(one, Decision) and isinstance(other, Decision)):
        return None
    needs = (*one.effects.needs, *other.effects.needs)
    if one.effects.needs != other.effects.needs or any(isinstance(need, InjectPlaceholder) for need in needs):
        return None
    return frozenset(need.secret for need in needs)


def _other_secrets(one: Observation, verdict: _Verdict) -> str:
    """Describe the difference in secrets; empty if the request may have failed before injection."""
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
