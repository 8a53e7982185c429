"""Decide whether a sandbox may reach a destination, and whether it may send a request.

Theory of operation. Both questions take the same steps: the route of the host (the chosen entry and the
denies around it), the profile of the sandbox, port and scheme; for a request, also its canonical path and
the rules. Each step either passes on or returns a denial with its reason. `allow` has one way, at the end.

Where rules ask for facts of the body, the head alone leads to no verdict but to `body.unread`, a denial that
names the kind of body. Whoever has read the body decides again with what it says, by the same steps.

Grants of a sandbox change its route and its profile, and nothing else: a granted deny is one more deny, a
granted allow is asked last.

`decide` and `decide_host` are total: any strings in a `Head` lead to a decision. Both trust that `host` and
`port` are the destination of the connection. A host that is not in its canonical spelling belongs to no
entry.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import replace

from egress.inspect.inspector import Facts, Unreadable
from egress.inspect.kinds import prepare_kinds
from egress.request_name_folding import NAME_MARK, fold_header
from egress.rules.decide import paths
from egress.rules.decide.body_gate import BodyGate
from egress.rules.decide.entry import Entry, Rule
from egress.rules.decide.host_route import HostRoute, granted_effects, is_live
from egress.rules.decide.overlay import Overlay
from egress.rules.decide.parameters import filled_route, is_refused
from egress.rules.decide.policy import Policy, Profile
from egress.rules.decide.predicates import parameter_names
from egress.rules.decide.verdicts import (
    Denial,
    allowed,
    denied,
    deny_readings,
    effects_denial,
    is_observing,
    observed,
    with_lifted,
)
from egress.rules.language import hosts
from egress.rules.language.hosts import is_address, is_canonical
from egress.types import Decision, Head, HostDecision, Identity, Limit, Verdict

# A full cache of routes is dropped as a whole: simple, and a sandbox cannot grow it further.
_MAX_ROUTES = 4096
MIN_PREPARED_RULES = 32
"""Rules of a host above which its gates are compiled ahead of its first request."""
_STANDARD_METHODS = frozenset(
    {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE"}
)
_REFUSED_METHODS = frozenset({"CONNECT", "TRACE"})
_TOKEN_CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~")
# Some frameworks take these in place of the method or path of the request line.
METHOD_OVERRIDES = frozenset(
    {"x-http-method-override", "x-http-method", "x-method-override", "-method", "-httpmethod", "$httpmethod"}
)
PATH_OVERRIDES = frozenset({"x-original-url", "x-rewrite-url", "x-original-uri", "x-rewrite-uri"})
_OVERRIDE_CODES = dict.fromkeys(METHOD_OVERRIDES, "method.override") | dict.fromkeys(
    PATH_OVERRIDES, "path.override"
)
_NO_IDS = frozenset[str]()


def decide_host(
    policy: Policy, identity: Identity, host: str, port: int | None, now: int, *, scheme: str = "https"
) -> HostDecision:
    """Decide whether this sandbox may connect to a host at all, before its name is resolved.

    A port of None asks about the name alone, as DNS does.
    """
    route = route_for(policy, identity, host, port, scheme, now)
    entry = route.entry
    # A DNS question has no port yet; the connection that follows is checked with its port.
    denial = _host_denial(policy, route, identity, host, now) or (
        None if port is None or entry is None else _port_denial(entry, port, scheme)
    )
    observed = denial is None and not route.granted and not _has_live_rule(policy, route, identity, now)
    key, place = (entry.key, entry.place) if entry else (None, None)
    if denial is not None:
        code, rule = denial
        return HostDecision(
            Verdict.DENY,
            code,
            key,
            rule.ref.place if rule else place,
            rule.ref if rule else None,
            # A host whose TLS the rules leave closed is not opened to tell of a denial either.
            intercept=entry is None or entry.intercept,
            limits=_limits(policy.limit),
        )
    if entry is None:
        ref = route.granted[0].ref if route.granted else None
        code, place = ("observed", None) if ref is None else ("host.allowed", ref.place)
        return HostDecision(
            Verdict.ALLOW, code, None, place, ref, limits=_limits(policy.limit), observed=observed
        )
    return HostDecision(
        Verdict.ALLOW,
        "observed" if observed else "host.allowed",
        key,
        place,
        intercept=entry.intercept,
        http2=entry.http2,
        addresses=entry.addresses,
        limits=_limits(policy.limit, entry.handling.limit),
        observed=observed,
    )


def decide(
    policy: Policy, identity: Identity, head: Head, now: int, found: Facts | Unreadable | None = None
) -> Decision:
    """Decide whether this sandbox may send this request, with which secrets and limits.

    `found` is what the body says, where it was read because a decision without it had asked for that.
    """
    route = route_for(policy, identity, head.host, head.port, head.scheme, now)
    entry = route.entry
    # Cheap checks of the destination come first: most denials never look at the path.
    denial = _host_denial(policy, route, identity, head.host, now)
    if denial is None and entry is not None:
        denial = _port_denial(entry, head.port, head.scheme)
        if denial is None and not entry.intercept:
            return _tunnelled(policy, identity, route, entry, head, now)
    denial = denial or method_denial(route, head)
    if denial is not None:
        return denied(route, denial)
    try:
        # Rules see, and the upstream gets, the canonical path alone: no second reading is left.
        path, query = canonical_target(route, head)
    except paths.PathError:
        return denied(route, ("path.ambiguous", None))
    plan = route.plan(head.method)
    target = path + query
    # Denies are asked first and win over every allow.
    if plan.deny.rules and (rule := plan.deny.first(deny_readings(path), query, head)) is not None:
        return denied(route, ("rule.denied", rule), target)
    fitting, wants_websocket = plan.allow.fitting(path, query, head, now)
    rules = fitting if entry is None else _in_force(policy, identity, entry, fitting, now)
    if route.reads_bodies:
        gate = BodyGate(policy, route, plan, replace(head, target=target), now)
        if (decision := gate.decide(rules, found)) is not None:
            return decision
    # An allow that needs a secret outside its binding is denied here, before the secret is fetched.
    if rules:
        effects = route.effects(rules, policy.limit)
        denial = effects_denial(policy, route, effects, head, now)
        return (
            denied(route, denial, target)
            if denial is not None
            else with_lifted(allowed(route, rules, effects, target), plan, head)
        )
    # Asked after the rules of the file: a grant never takes the place of one, nor of its credential.
    granted, takes_requests = plan.granted.fitting(path, query, head, now)
    if granted:
        effects = granted_effects(entry, policy.limit)
        return with_lifted(allowed(route, granted, effects, target), plan, head)
    head = replace(head, target=target)
    return _unruled(policy, identity, route, head, now, wants_websocket=wants_websocket or takes_requests)


def _unruled(
    policy: Policy, identity: Identity, route: HostRoute, head: Head, now: int, *, wants_websocket: bool
) -> Decision:
    """Decide on a request that no rule allows."""
    if is_observing(policy, route.entry):
        return observed(policy, route, head.target)
    if head.websocket and not wants_websocket:
        wants_websocket = _takes_requests(policy, identity, route, head, now)
    return denied(route, ("rule.websocket" if wants_websocket else "rule.none", None), head.target)


def _takes_requests(policy: Policy, identity: Identity, route: HostRoute, head: Head, now: int) -> bool:
    """Report whether a rule allows requests without an upgrade here, by any method.

    A handshake is always GET. A client that is told of the others goes on with them.
    """
    path, query = paths.split_target(head.target)
    plain = replace(head, websocket=False)
    for method in route.methods:
        fitting, _ = route.plan(method).allow.fitting(path, query, plain, now)
        if fitting and route.entry and _in_force(policy, identity, route.entry, fitting, now):
            return True
    return False


# The route ------------------------------------------------------------------------------------


def route_for(
    policy: Policy, identity: Identity, host: str, port: int | None, scheme: str, now: int
) -> HostRoute:
    """Return the route of a destination for one sandbox: that of the host, with what was granted to it."""
    route = route_of(policy, host)
    if route.parameters:
        route = filled_route(policy, identity, route)
    overlay = overlay_of(policy, identity, now)
    return route if overlay is None else overlay.route(route, host, port, scheme)


def overlay_of(policy: Policy, identity: Identity, now: int) -> Overlay | None:
    """Return the grants of a sandbox that hold now; None for none."""
    overlay = policy.overlays.get(identity.sandbox)
    if overlay is None:
        return None
    # A later sandbox of the same name is another one; a profile of its own tells them apart here, too. A run
    # has rights of its own, and what is denied to its sandbox is denied to it as well.
    return overlay.at(now) if identity.ticket or overlay.identity == identity else None


def route_of(policy: Policy, host: str) -> HostRoute:
    """Return the chosen entry for a host with every deny that can apply to it."""
    known = policy.routes.get(host)
    if known is not None:
        return known
    route = _find_route(policy, host)
    if route.entry is not None:
        # Only names that the rules know are kept: a sandbox must not fill the cache with inventions.
        if len(policy.routes) >= _MAX_ROUTES:
            policy.routes.clear()
        policy.routes[host] = route
    return route


def prepare_routes(policy: Policy) -> None:
    """Compile the gates of entries with many rules, which a first request would have to wait for.

    To be called, outside of the event loop, before the policy is in force.
    """
    hosts = {f"x.{key.suffix}" if key.stars else key.suffix: entry for key, entry in policy.entries.items()}
    bodies = [rule.predicates.body for entry in hosts.values() for rule in (*entry.allow, *entry.deny)]
    prepare_kinds({body.kind for body in (*bodies, *(rule.predicates.body for rule in policy.deny)) if body})
    hosts |= {str(item.network.network_address): item.entry for item in policy.networks}
    for host, entry in hosts.items():
        if len(entry.allow) + len(entry.deny) + len(policy.deny) >= MIN_PREPARED_RULES:
            _find_route(policy, host).prepare()


def matching_entries(policy: Policy, host: str) -> list[Entry]:
    """Return every entry that names this host, the chosen one first."""
    if not is_canonical(host):
        return []
    if is_address(host):
        return _matching_networks(policy, host)
    entries = policy.entries
    return [
        entry for pattern in hosts.candidate_patterns(host) if (entry := entries.get(pattern)) is not None
    ]


def _find_route(policy: Policy, host: str) -> HostRoute:
    entries = matching_entries(policy, host)
    top = [rule for rule in policy.deny if _is_about(rule, host)]
    # Hosts with the same entries and denies share one route, so a wildcard costs one plan.
    key = (*(entry.key for entry in entries), "", *(rule.ref.id for rule in top))
    known = policy.shared_routes.get(key)
    if known is not None:
        return known
    deny = [*(rule for entry in entries for rule in entry.deny), *top]
    lifted = [rule for entry in entries for rule in entry.lifted]
    route = HostRoute(entries[0] if entries else None, deny, lifted)
    policy.shared_routes[key] = route
    return route


def _is_about(rule: Rule, host: str) -> bool:
    patterns = rule.predicates.hosts
    return not patterns or any(pattern.matches(host) for pattern in patterns)


def _matching_networks(policy: Policy, host: str) -> list[Entry]:
    address = ipaddress.ip_address(host)
    return [item.entry for item in policy.networks if address in item.network]


# The host -------------------------------------------------------------------------------------


def _host_denial(policy: Policy, route: HostRoute, identity: Identity, host: str, now: int) -> Denial | None:
    if route.is_closed is not None:
        return "rule.denied", route.is_closed
    if identity.parameters and is_refused(policy, identity):
        return "parameter.refused", None
    entry = route.entry
    profile = None
    if policy.profiles is not None:
        profile = profile_of(policy, identity, now)
        if profile is None:
            return "profile.unknown", None
    if entry is None:
        # Observe mode opens unknown names, never bare addresses or malformed names.
        if is_address(host):
            return "host.literal", None
        if not is_canonical(host):
            return "host.malformed", None
        return None if route.granted or policy.mode == "observe" else ("host.unknown", None)
    if profile is not None and entry.key not in profile.keys:
        return "profile.excluded", None
    if not is_observing(policy, entry) and not _has_live_rule(policy, route, identity, now):
        return "host.closed", None
    return None


def _port_denial(entry: Entry, port: int, scheme: str) -> Denial | None:
    if scheme == "https":
        return None if port in entry.ports else ("host.port", None)
    return None if port in entry.clear_ports else ("host.cleartext", None)


def profile_of(policy: Policy, identity: Identity, now: int) -> Profile | None:
    """Return the profile of a sandbox; None denies. Ask only if the rules have profiles."""
    return (policy.profiles or {}).get(profile_name(policy, identity, now))


def profile_name(policy: Policy, identity: Identity, now: int) -> str:
    """Return the name of the profile that a sandbox has: the one that was chosen for it, or its own.

    A run with a ticket has the profile of its ticket, whatever is chosen for the sandbox meanwhile.
    """
    chosen = "" if identity.ticket else chosen_profile(policy, identity, now)
    return chosen or identity.profile or "default"


def chosen_profile(policy: Policy, identity: Identity, now: int) -> str:
    """Return the profile that was chosen for a sandbox; empty for its own."""
    overlay = overlay_of(policy, identity, now)
    return "" if overlay is None else overlay.profile


def _has_live_rule(policy: Policy, route: HostRoute, identity: Identity, now: int) -> bool:
    entry = route.entry
    if entry is None:
        return False
    if route.is_lasting and policy.profiles is None:
        return True
    return any(is_live(rule, now) for rule in _in_force(policy, identity, entry, entry.allow, now))


def _in_force(
    policy: Policy, identity: Identity, entry: Entry, rules: Sequence[Rule], now: int
) -> Sequence[Rule]:
    """Drop the rules that the entry or the profile switches off. An expired entry acts as `allow: []`."""
    if entry.expires is not None and now >= entry.expires:
        return ()
    if policy.profiles is None:
        return rules
    profile = profile_of(policy, identity, now)
    ids = profile.rules.get(entry.key) if profile else _NO_IDS
    return rules if ids is None else [rule for rule in rules if rule.ref.id in ids]


# The request ----------------------------------------------------------------------------------


def method_denial(route: HostRoute, head: Head) -> Denial | None:
    """Deny methods that are never forwarded, and attempts to smuggle another method."""
    method = head.method
    # `Get` would match no rule for GET and still be read as GET by some servers.
    if method not in _STANDARD_METHODS and (
        not method or not _TOKEN_CHARS.issuperset(method) or method.upper() in _STANDARD_METHODS
    ):
        return "method.refused", None
    if method in _REFUSED_METHODS or route.is_odd_case(method):
        return "method.refused", None
    return _override_denial(route, head)


def _override_denial(route: HostRoute, head: Head) -> Denial | None:
    """Deny headers and parameters with which some servers replace the method or path a rule matched."""
    if not (route.scopes_methods or route.strict_paths):
        return None
    names = [name for name, _ in head.headers]
    if NAME_MARK.search("".join(names)) is not None:
        names = [fold_header(name) for name in names]
    for name in names:
        code = _OVERRIDE_CODES.get(name)
        if code and (route.strict_paths if code == "path.override" else route.scopes_methods):
            return code, None
    # Cheap scan before the query is decoded: "method" can only be hidden by an escape.
    if route.scopes_methods and ("%" in head.target or "method" in head.target.lower()):
        for name in parameter_names(paths.split_target(head.target)[1]):
            if _OVERRIDE_CODES.get(name) == "method.override":
                return "method.override", None
    return None


def canonical_target(route: HostRoute, head: Head) -> tuple[str, str]:
    """Return the canonical path and query; raises `PathError`."""
    if head.target == "*":
        if head.method != "OPTIONS":
            raise paths.PathError("only OPTIONS may ask for *")
        return "*", ""
    path, query = paths.split_target(head.target)
    path = paths.canonical_path(path, strict=route.strict_paths, encoded_slash=route.encoded_slash)
    return path, query and paths.canonical_query(query)


def _tunnelled(
    policy: Policy, identity: Identity, route: HostRoute, entry: Entry, head: Head, now: int
) -> Decision:
    """Decide on a connection that is passed through unread: a live rule, or observe mode, allows it."""
    rules = [rule for rule in _in_force(policy, identity, entry, entry.allow, now) if is_live(rule, now)]
    if rules:
        return allowed(route, rules, route.effects(rules, policy.limit), head.target)
    return observed(policy, route, head.target)


def _limits(*limits: Limit | None) -> tuple[Limit, ...]:
    return tuple(limit for limit in limits if limit is not None)
