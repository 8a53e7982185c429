"""Explain a decision: the rules that were considered, in order, and the result of each.

The verdict comes from `decide`. This module only asks each rule again, one by one, for the reason why it
fits or does not; it never decides.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from egress.inspect.inspector import Facts, Unreadable
from egress.inspect.kinds import KINDS, inspect_whole
from egress.rules.decide import paths
from egress.rules.decide.body_gate import body_misses
from egress.rules.decide.decision import (
    canonical_target,
    decide,
    matching_entries,
    profile_name,
    profile_of,
    route_for,
)
from egress.rules.decide.entry import Entry, Rule
from egress.rules.decide.host_route import HostRoute, allow_path_fits, deny_path_fits, is_live
from egress.rules.decide.policy import Policy, SecretSpec
from egress.rules.decide.predicates import NamedGlob, Predicates, allow_fits, deny_fits
from egress.rules.decide.verdicts import deny_readings
from egress.types import Decision, Head, Identity, Injection, InjectPlaceholder, RuleRef, Verdict

WEBSOCKET_MISSES = "the request asks for a WebSocket"
CLAIM_MISSES = "only rules on bodies allow this path"
UNREAD_MISSES = "its body decides"
_MAX_SHOWN = 3


@dataclass(frozen=True, slots=True)
class ConsideredRule:
    """A rule that was considered. `misses` names the first predicate that did not fit."""

    ref: RuleRef
    kind: Verdict
    misses: str

    @property
    def fits(self) -> bool:
        return not self.misses


@dataclass(frozen=True, slots=True)
class InjectedSecret:
    """A credential that the request would get: its name and places, never its value."""

    secret: str
    slots: tuple[str, ...]
    source: str
    is_placeholder: bool


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision with the entries, rules and secrets behind it."""

    decision: Decision
    host: str
    entries: tuple[Entry, ...]
    """Every entry that names the host; the first is the chosen one."""
    considered: tuple[ConsideredRule, ...]
    injected: tuple[InjectedSecret, ...]
    profile: str | None
    near: tuple[str, ...]
    """The entry with the most similar key, for a host that no rule names; empty if none is similar."""
    found: Facts | Unreadable | None
    """What the body says; None where no rule asks, or no body was given."""
    reason: str
    """The cause why the target has no safe canonical spelling; empty if it has one."""

    @property
    def entry(self) -> Entry | None:
        return self.entries[0] if self.entries else None


def explain(
    policy: Policy,
    identity: Identity,
    head: Head,
    now: int,
    *,
    body: bytes | None = None,
    finds_near: bool = True,
) -> Explanation:
    """Decide on a request and explain the decision; without `body` only its head is known.

    Without `finds_near` it costs about as much as a decision: the search compares the host with every entry.
    """
    decision = decide(policy, identity, head, now)
    found = None
    if decision.inspects and body is not None:
        found = inspect_whole(KINDS[decision.inspects], replace(head, target=decision.target), body)
        decision = decide(policy, identity, head, now, found)
    entries = matching_entries(policy, head.host)
    return Explanation(
        decision=decision,
        host=head.host,
        entries=tuple(entries),
        # Every rule of the route, not only the deciding one: a reader asks why the others did not fit.
        considered=tuple(_considered(policy, identity, head, now, found)),
        injected=tuple(_injected(need, policy.secrets) for need in decision.effects.needs),
        profile=profile_name(policy, identity, now) if policy.profiles is not None else None,
        near=_near(policy, head.host) if finds_near and not entries else (),
        found=found,
        reason=_ambiguity(_route(policy, identity, head, now), head)
        if decision.code == "path.ambiguous"
        else "",
    )


def _route(policy: Policy, identity: Identity, head: Head, now: int) -> HostRoute:
    return route_for(policy, identity, head.host, head.port, head.scheme, now)


def _ambiguity(route: HostRoute, head: Head) -> str:
    try:
        canonical_target(route, head)
    except paths.PathError as error:
        return str(error)
    return ""


def _considered(
    policy: Policy, identity: Identity, head: Head, now: int, found: Facts | Unreadable | None
) -> Iterator[ConsideredRule]:
    # The same route as in `decide`, so the explanation cannot differ from the verdict.
    route = _route(policy, identity, head, now)
    entry = route.entry
    # A tunnel is never read, so its rules on requests say nothing.
    if entry is not None and not entry.intercept:
        return
    try:
        path, query = canonical_target(route, head)
    except paths.PathError:
        return
    readings = deny_readings(path)
    for rule in route.deny:
        misses = _deny_misses(rule.predicates, readings, query, head) or _body_of_deny(rule.predicates, found)
        yield ConsideredRule(rule.ref, Verdict.DENY, misses)
    is_claimed = route.claims.first(readings, query, head) is not None
    for rule in entry.allow if entry else ():
        misses = _not_in_force(policy, identity, entry, rule, now) or _allow_misses(
            rule.predicates, path, query, head, slash_needs_key=route.slash_needs_key
        )
        misses = misses or _body_of_allow(rule.predicates, found, is_claimed=is_claimed)
        yield ConsideredRule(rule.ref, Verdict.ALLOW, misses)
    for rule in route.granted:
        misses = _allow_misses(rule.predicates, path, query, head, slash_needs_key=route.slash_needs_key)
        misses = misses or _body_of_allow(rule.predicates, found, is_claimed=is_claimed)
        yield ConsideredRule(rule.ref, Verdict.ALLOW, misses)


def _not_in_force(policy: Policy, identity: Identity, entry: Entry | None, rule: Rule, now: int) -> str:
    if entry is not None and entry.expires is not None and now >= entry.expires:
        return "the entry has expired"
    if not is_live(rule, now):
        return "the rule has expired"
    if policy.profiles is None or entry is None:
        return ""
    profile = profile_of(policy, identity, now)
    if profile is None or entry.key not in profile.keys:
        return "the profile does not include the host"
    ids = profile.rules.get(entry.key)
    return "" if ids is None or rule.ref.id in ids else "the profile does not include the rule"


def _allow_misses(predicates: Predicates, path: str, query: str, head: Head, *, slash_needs_key: bool) -> str:
    if predicates.methods is not None and head.method not in predicates.methods:
        return f"only methods {_listed(sorted(predicates.methods))}"
    # Each check names the first obstacle only, in the order in which people write predicates.
    if not allow_path_fits(predicates, path):
        return f"only paths {_listed([glob.text for glob in predicates.paths or ()])}"
    if slash_needs_key and "%2F" in path and not predicates.encoded_slash:
        return "the path contains %2F and the rule has no `encoded_slash: data`"
    if not allow_fits(predicates, query, head.headers):
        return _inside(predicates)
    return WEBSOCKET_MISSES if head.websocket and not predicates.websocket else ""


def _deny_misses(predicates: Predicates, loose: tuple[str, ...], query: str, head: Head) -> str:
    if predicates.methods is not None and head.method not in predicates.methods:
        return f"only methods {_listed(sorted(predicates.methods))}"
    if not deny_path_fits(predicates, loose):
        return f"only paths {_listed([glob.text for glob in predicates.paths or ()])}"
    if predicates.websocket and not head.websocket:
        return "only WebSockets"
    return "" if deny_fits(predicates, query, head.headers) else _inside(predicates)


def _body_of_allow(predicates: Predicates, found: Facts | Unreadable | None, *, is_claimed: bool) -> str:
    if predicates.body is None:
        return CLAIM_MISSES if is_claimed else ""
    return UNREAD_MISSES if found is None else body_misses(predicates.body, found)


def _body_of_deny(predicates: Predicates, found: Facts | Unreadable | None) -> str:
    body = predicates.body
    if body is None or isinstance(found, Unreadable):
        return ""
    if found is None:
        return UNREAD_MISSES
    return "" if any(body.denies(item) for item in found.items) else f"another {body.kind} request"


def _inside(predicates: Predicates) -> str:
    names = [_named("query", want) for want in predicates.query]
    names += [_named("header", want) for want in predicates.headers]
    if predicates.content_types:
        names.append(f"content type {_listed(list(predicates.content_types))}")
    return f"only with {_listed(names)}"


def _named(kind: str, want: NamedGlob) -> str:
    return f"{kind} {want.name} absent" if want.glob is None else f"{kind} {want.name}: {want.glob.text}"


def _listed(items: list[str]) -> str:
    shown = ", ".join(items[:_MAX_SHOWN])
    return f"{shown} and {len(items) - _MAX_SHOWN} more" if len(items) > _MAX_SHOWN else shown


def _injected(need: Injection, secrets: dict[str, SecretSpec]) -> InjectedSecret:
    spec = secrets.get(need.secret)
    return InjectedSecret(
        secret=need.secret,
        slots=tuple(str(slot) for slot in need.slots),
        source=spec.scheme if spec else "",
        is_placeholder=isinstance(need, InjectPlaceholder),
    )


def _near(policy: Policy, host: str) -> tuple[str, ...]:
    keys = [entry.key for entry in policy.entries.values()]
    return tuple(difflib.get_close_matches(host, keys, n=1, cutoff=0.75))
