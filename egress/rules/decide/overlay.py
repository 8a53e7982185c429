"""Delegations and grants: changes to the rules for one sandbox, within bounds that the rule file sets.

Theory of operation. A `Delegation` is an item of `delegate:`. A `Grant` is a change for one sandbox and for a
time, and stays within one delegation. The grants of a sandbox are its `Overlay`, a value that is part of the
policy, so that every decision sees it.

A granted deny stands beside the denies of the file. A granted allow is asked after every rule of the file,
and only where the file says no more than that no rule allows the request. No credential is injected for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from egress.rules.decide.entry import Rule
from egress.rules.decide.globs import ValueGlob
from egress.rules.decide.host_route import HostRoute
from egress.rules.decide.predicates import Predicates
from egress.rules.language.hosts import HostPattern
from egress.types import GrantRef, Identity, Place

GRANT_KEY = "grant"
"""The key that rules of grants show: `grant#g-1f2e3d4c`."""
_MAX_ROUTES = 256

GrantKind = Literal["allow", "deny", "profile"]


@dataclass(frozen=True, slots=True)
class Delegation:
    """An item of `delegate:`: bounds of what may be granted, and the sandboxes it may be granted to."""

    id: str
    place: Place
    ttl: int
    sandboxes: tuple[ValueGlob, ...] | None = None
    """Names of sandboxes; None for any."""
    holders: frozenset[str] | None = None
    """Profiles that the sandboxes were added with; None for any."""
    kinds: frozenset[GrantKind] = frozenset()
    hosts: tuple[HostPattern, ...] = ()
    ports: frozenset[int] = frozenset({443})
    predicates: Predicates = field(default_factory=Predicates)
    """Methods and paths."""
    profiles: frozenset[str] = frozenset()

    def is_for(self, identity: Identity) -> bool:
        """Report whether the sandbox may be given something by this delegation."""
        if self.holders is not None and (identity.profile or "default") not in self.holders:
            return False
        return self.sandboxes is None or any(glob.matches(identity.sandbox) for glob in self.sandboxes)


@dataclass(frozen=True, slots=True)
class GrantTerms:
    """A change for one sandbox: requests that are allowed or denied, or the profile that it has."""

    kind: GrantKind
    ttl: int
    """Seconds for which it is to hold."""
    host: HostPattern | None = None
    """None where a profile is chosen."""
    port: int = 443
    """The HTTPS port of an allow. A deny holds on every port."""
    predicates: Predicates = field(default_factory=Predicates)
    """Methods and paths."""
    profile: str = ""
    by: str = ""
    """The caller that asks for it, in its own words."""

    def is_about(self, host: str) -> bool:
        """Report whether it allows or denies requests to this host."""
        return self.host is not None and self.host.matches(host)


@dataclass(frozen=True, slots=True)
class Grant:
    """A change that holds for one sandbox until it expires."""

    id: str
    terms: GrantTerms
    expires: int
    """The first second, in UTC, at which it no longer holds."""
    delegation: str
    """The delegation that it stays within."""
    place: Place
    """The place of the delegation."""

    @property
    def rule(self) -> Rule:
        ref = GrantRef(GRANT_KEY, self.id, self.place, delegation=self.delegation)
        return Rule(ref, self.terms.predicates, expires=self.expires)


@dataclass(frozen=True, slots=True)
class Overlay:
    """The grants of one sandbox, under one policy."""

    identity: Identity
    grants: tuple[Grant, ...]
    routes: dict[tuple[str, int | None, str], HostRoute] = field(
        default_factory=dict, repr=False, compare=False
    )
    """Routes with the rules that were granted, for a destination; a cache."""
    first_end: int = field(init=False, repr=False, compare=False)
    """The moment at which the first grant expires; known ahead, because every request asks."""

    def __post_init__(self) -> None:
        ends = (grant.expires for grant in self.grants)
        object.__setattr__(self, "first_end", min(ends, default=0))

    @property
    def profile(self) -> str:
        """The profile that was chosen; empty for the sandbox's own."""
        return next((grant.terms.profile for grant in self.grants if grant.terms.kind == "profile"), "")

    def at(self, now: int) -> Overlay:
        """Return the overlay with the grants that have not expired."""
        if now < self.first_end or not self.grants:
            return self
        live = tuple(grant for grant in self.grants if now < grant.expires)
        return replace(self, grants=live, routes={})

    def route(self, route: HostRoute, host: str, port: int | None, scheme: str) -> HostRoute:
        """Return the route of a destination with the rules of the grants that are about it."""
        key = (host, port, scheme)
        known = self.routes.get(key)
        if known is not None:
            return known
        about = [grant for grant in self.grants if grant.terms.is_about(host)]
        if not about:
            return route
        allow = [
            grant.rule
            for grant in about
            # Grants are about HTTPS: nothing is opened for clear text.
            if grant.terms.kind == "allow" and scheme == "https" and port in (None, grant.terms.port)
        ]
        deny = [_as_deny(grant, route) for grant in about if grant.terms.kind == "deny"]
        made = HostRoute(route.entry, (*route.deny, *deny), route.lifted, allow, claims=route.claims)
        # Bounded, because a grant for a wildcard lets the sandbox choose hosts.
        if len(self.routes) >= _MAX_ROUTES:
            self.routes.clear()
        self.routes[key] = made
        return made


def _as_deny(grant: Grant, route: HostRoute) -> Rule:
    """Return the deny of a grant; it closes a host whose requests cannot be read."""
    is_read = route.entry is None or route.entry.intercept
    return grant.rule if is_read else replace(grant.rule, predicates=Predicates())
