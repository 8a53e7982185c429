"""Routes and plans: the rules of a host, laid out so that a request is decided in microseconds.

Theory of operation. A route per host holds the chosen entry and every deny that can apply. A plan per
method of a route holds one regular expression that finds, in a single call, all allow rules that fit a
path, and another that tells whether any deny might. Both are made on first use and kept: neither depends
on time, profile or request.

The number of plans of a route is bounded by the methods its rules name, plus one for all other methods.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from egress.rules.decide.entry import Entry, Handling, Rule, ScopedInjection
from egress.rules.decide.git_predicate import closed_paths
from egress.rules.decide.globs import deny_fits_any_reading
from egress.rules.decide.predicates import Predicates, allow_fits, deny_fits
from egress.types import Cookies, Effects, Head, Limit, Redirects, Scrub, Slot

# Sets of rules that allowed together; a few in practice, so a full cache is simply dropped.
_MAX_EFFECTS = 1024
_STRICTEST_SCRUB = (Scrub.BLOCK, Scrub.MASK, Scrub.OFF)
_STRICTEST_REDIRECTS = (Redirects.DENY, Redirects.SAME_HOST, Redirects.PASS, Redirects.SIGNED)

_AUTHORIZATION = Slot("header", "authorization")


class AllowGate:
    """Finds the allow rules that fit a path, and asks the rest of their predicates afterwards."""

    __slots__ = ("_everywhere", "_is_plain", "_on_paths", "_regex", "_slash_needs_key", "rules")

    def __init__(self, rules: Sequence[Rule], *, slash_needs_key: bool = True) -> None:
        """`slash_needs_key`: whether `%2F` fits only rules with `encoded_slash: data`."""
        self.rules = tuple(rules)
        self._slash_needs_key = slash_needs_key
        self._everywhere = tuple(index for index, rule in enumerate(rules) if rule.predicates.paths is None)
        self._on_paths = tuple(index for index, rule in enumerate(rules) if rule.predicates.paths is not None)
        self._regex = _fitting_regex([rules[index].predicates for index in self._on_paths])
        self._is_plain = not any(rule.predicates.looks_inside or rule.expires is not None for rule in rules)

    def fitting(self, path: str, query: str, head: Head, now: int) -> tuple[list[Rule], bool]:
        """Return the rules that allow, in file order, and whether only `websocket: true` was missing."""
        rules = self.rules
        indexes: Sequence[int] = self._everywhere
        # Groups of the expression stand in rule order, so a set group names its rule.
        if self._regex is not None and (match := self._regex.match(path)) is not None:
            on_paths = self._on_paths
            found = [on_paths[number] for number, group in enumerate(match.groups()) if group is not None]
            indexes = sorted([*indexes, *found]) if indexes else found
        fitting = [rules[index] for index in indexes]
        if not self._is_plain:
            fitting = [
                rule
                for rule in fitting
                if is_live(rule, now) and allow_fits(rule.predicates, query, head.headers)
            ]
        # `encoded_slash: data` of one rule must not let another rule of the host take `%2F`.
        if self._slash_needs_key and "%2F" in path:
            fitting = [rule for rule in fitting if rule.predicates.encoded_slash]
        if head.websocket and fitting:
            upgrading = [rule for rule in fitting if rule.predicates.websocket]
            return upgrading, not upgrading
        return fitting, False


class DenyGate:
    """Finds the deny that applies to a path, if any."""

    __slots__ = ("_everywhere", "_expressions", "_on_paths", "_regex", "_which", "rules")

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self._everywhere = tuple(rule for rule in rules if rule.predicates.paths is None)
        self._on_paths = tuple(rule for rule in rules if rule.predicates.paths is not None)
        self._expressions = [_deny_expression(rule.predicates) for rule in self._on_paths]
        self._regex = _deny_regex("|".join(self._expressions)) if self._expressions else None
        self._which: re.Pattern[str] | None = None

    def first(self, loose: Sequence[str], query: str, head: Head) -> Rule | None:
        """Return the first deny that applies; `loose` holds the readings on which paths are matched."""
        return next(self.applying(loose, query, head), None) if self.rules else None

    def applying(self, loose: Sequence[str], query: str, head: Head) -> Iterator[Rule]:
        """Yield every deny that applies."""
        for rule in self._everywhere:
            if _deny_applies(rule, query, head):
                yield rule
        # Each %2F may be a slash or not, so no single expression can rule a deny out.
        if self._regex is None or (
            "%2F" not in loose[0] and not any(self._regex.match(reading) for reading in loose)
        ):
            return
        for rule in self._fitting(loose):
            if _deny_applies(rule, query, head):
                yield rule

    def which(self) -> re.Pattern[str]:
        """Return the expression that tells which denies fit; it is made for the first path that one fits."""
        # An expression for each rule would be compiled again and again: `re` keeps only 512 of them.
        if self._which is None:
            self._which = _deny_regex(_grouped(self._expressions))
        return self._which

    def _fitting(self, loose: Sequence[str]) -> Iterator[Rule]:
        """Yield the denies that fit a reading of the path, in their order."""
        matches = [match for reading in loose if (match := self.which().match(reading)) is not None]
        fits = [any(groups) for groups in zip(*(_set_groups(match) for match in matches), strict=True)]
        is_ambiguous = "%2F" in loose[0]
        for rule, is_fit in zip(self._on_paths, fits, strict=True):
            if is_fit or (
                is_ambiguous
                and any(deny_fits_any_reading(glob, loose[0]) for glob in rule.predicates.paths or ())
            ):
                yield rule


class MethodPlan:
    """The gates for one method. The denies of `lifted` are only named in records.

    Denies on bodies have a gate of their own: that they apply to a head denies nothing yet.
    """

    __slots__ = ("allow", "body_deny", "deny", "granted", "lifted")

    def __init__(self, route: HostRoute, method: str) -> None:
        def taking(rules: Sequence[Rule]) -> list[Rule]:
            return [rule for rule in rules if takes_method(rule.predicates, method)]

        allow = route.entry.allow if route.entry else ()
        self.allow = AllowGate(taking(allow), slash_needs_key=route.slash_needs_key)
        self.granted = AllowGate(taking(route.granted), slash_needs_key=route.slash_needs_key)
        denies = taking(route.deny)
        self.deny = DenyGate([rule for rule in denies if rule.predicates.body is None])
        self.body_deny = DenyGate([rule for rule in denies if rule.predicates.body is not None])
        self.lifted = DenyGate(taking(route.lifted))


class HostRoute:
    """Facts about a host that hold before any request: its entry, and the denies around it."""

    __slots__ = (
        "_effects",
        "_odd_cases",
        "_plans",
        "bound",
        "claims",
        "deny",
        "encoded_slash",
        "entry",
        "granted",
        "is_closed",
        "is_lasting",
        "lifted",
        "methods",
        "parameters",
        "reads_bodies",
        "scopes_methods",
        "slash_needs_key",
        "strict_paths",
    )

    def __init__(
        self,
        entry: Entry | None,
        deny: Sequence[Rule],
        lifted: Sequence[Rule] = (),
        granted: Sequence[Rule] = (),
        *,
        claims: DenyGate | None = None,
    ) -> None:
        """`claims` are those of the route that this one is made of."""
        self.entry = entry
        self.deny = tuple(deny)
        self.lifted = tuple(lifted)
        self.granted = tuple(granted)
        """Allow rules of grants, which are asked after those of the entry."""
        allow = entry.allow if entry else ()
        names = frozenset[str]().union(*(rule.template.names for rule in allow if rule.template))
        self.parameters = tuple(sorted(names))
        """The parameters that rules of this host need; empty on a route that has their values."""
        # Lifted denies count here: lifting a deny must not make the reading of requests more lenient.
        rules = [rule.predicates for rule in (*allow, *deny, *lifted, *granted)]
        self.methods = frozenset().union(*(predicates.methods or () for predicates in rules))
        self._odd_cases = frozenset(method.upper() for method in self.methods)
        self._plans: dict[str, MethodPlan] = {}
        self._effects: dict[tuple[str, ...], Effects] = {}
        self.bound: dict[tuple[str, int], bool] = {}
        """Whether a secret may go to a port of the host, by the name of the secret."""
        # Kept as plain attributes: they are read for every request.
        self.scopes_methods = bool(self.methods)
        self.strict_paths = any(looks_at_paths(predicates) for predicates in rules)
        has_slash_key = any(rule.predicates.encoded_slash for rule in allow)
        # Without path rules every reading of `%2F` has the same verdict, so it passes: npm writes
        # `@acme%2fwidgets`. A key on some rule is still a choice between the rules.
        self.slash_needs_key = self.strict_paths or has_slash_key
        self.encoded_slash = has_slash_key or not self.strict_paths
        # A rule that never expires keeps the host open at any time.
        self.is_lasting = (
            entry is not None and entry.expires is None and any(rule.expires is None for rule in allow)
        )
        # Of a rule that has expired, or whose parameters have no value, the claim stays.
        self.claims = claims or DenyGate(_claims(allow))
        """The paths that only rules on bodies may allow."""
        self.reads_bodies = bool(self.claims.rules) or any(rule.predicates.body for rule in deny)
        """Some rule asks for facts of a body."""
        self.is_closed = next((rule for rule in deny if denies_everything(rule.predicates)), None)

    def is_odd_case(self, method: str) -> bool:
        """Report whether the method matches a method of the rules only if case is ignored."""
        return method not in self.methods and method.upper() in self._odd_cases

    def prepare(self) -> None:
        """Make all plans now."""
        for method in (*self.methods, ""):
            self.plan(method).deny.which()

    def plan(self, method: str) -> MethodPlan:
        # Methods that no rule names share the plan of the empty name, so a client cannot add plans.
        name = method if method in self.methods else ""
        plan = self._plans.get(name)
        if plan is None:
            plan = self._plans[name] = MethodPlan(self, name)
        return plan

    def effects(self, rules: Sequence[Rule], top: Limit | None) -> Effects:
        """Combine the effects of all rules that allowed: every limit, the strictest handling."""
        key = tuple([rule.ref.id for rule in rules])
        effects = self._effects.get(key)
        if effects is None:
            # Bounded, because a sandbox chooses which sets of rules its requests fit.
            if len(self._effects) >= _MAX_EFFECTS:
                self._effects.clear()
            effects = combine_effects(self.entry, rules, top)
            self._effects[key] = effects
        return effects


def combine_effects(entry: Entry | None, rules: Sequence[Rule], top: Limit | None) -> Effects:
    """Combine the effects of `rules` and of the entry and file around them."""
    if entry is None:
        return Effects(limits=(top,) if top else ())
    ids = {rule.ref.id for rule in rules}
    meant = [item for item in entry.inject if _is_meant(item, ids)]
    needs = tuple(item.injection for item in meant)
    handlings = [rule.handling for rule in rules] or [Handling()]
    limits = (top, entry.handling.limit, *(handling.limit for handling in handlings))
    scrubs = {handling.scrub or entry.handling.scrub or Scrub.MASK for handling in handlings}
    redirects = {handling.redirects or entry.handling.redirects or Redirects.PASS for handling in handlings}
    # Cookies may carry a session made with an injected credential, so injection drops them by default.
    default = Cookies.DROP if needs else Cookies.PASS
    cookies = {handling.cookies or entry.handling.cookies or default for handling in handlings}
    return Effects(
        needs=needs,
        strips=tuple(dict.fromkeys(slot for item in meant for slot in item.strip)),
        set_headers=entry.set_headers,
        limits=tuple(limit for limit in limits if limit is not None),
        scrub=next((choice for choice in _STRICTEST_SCRUB if choice in scrubs), Scrub.MASK),
        redirects=next((choice for choice in _STRICTEST_REDIRECTS if choice in redirects), Redirects.PASS),
        cookies=Cookies.DROP if Cookies.DROP in cookies else Cookies.PASS,
        misplaced_pass=entry.misplaced_pass,
        # Of rules that name different handlers none may be left out: the request is denied.
        handlers=tuple(dict.fromkeys(each.handler for each in handlings if each.handler is not None))
        or ((entry.handling.handler,) if entry.handling.handler is not None else ()),
        is_virtual=entry.is_virtual,
        # Not the strictest: a rule that names keys wants them in the record, whatever else matches.
        kept_query=frozenset().union(
            *(handling.kept_query or entry.handling.kept_query or () for handling in handlings)
        ),
    )


def granted_effects(entry: Entry | None, top: Limit | None) -> Effects:
    """Return the effects on a request that only a grant allows: no credential, neither ours nor its own.

    The sandbox can put nothing into the slots that the entry has for credentials: beside a secret of the file
    it would be replaced, so without one it must not take its place.
    """
    effects = combine_effects(entry, (), top)
    items = entry.inject if entry else ()
    slots = [slot for item in items for slot in (*item.injection.slots, *item.strip)]
    return replace(
        effects,
        needs=(),
        # The path cannot be emptied; a placeholder in it is denied as misplaced.
        strips=tuple(
            dict.fromkeys(
                _AUTHORIZATION if slot.kind == "basic" else slot for slot in slots if slot.kind != "path"
            )
        ),
        cookies=Cookies.DROP if items and entry and entry.handling.cookies is None else effects.cookies,
        misplaced_pass=False,
    )


def is_live(rule: Rule, now: int) -> bool:
    """Report whether the rule has not expired."""
    return rule.expires is None or now < rule.expires


def takes_method(predicates: Predicates, method: str) -> bool:
    """Report whether the rule takes the method; the empty method means any method no rule names."""
    return predicates.methods is None or method in predicates.methods


def looks_at_paths(predicates: Predicates) -> bool:
    """Report whether the rule has a path pattern other than `/**`."""
    return predicates.paths is not None and not all(glob.is_everything for glob in predicates.paths)


def allow_path_fits(predicates: Predicates, path: str) -> bool:
    """Report whether an allow rule alone fits the path (for `explain` and tests)."""
    if predicates.paths is None:
        return True
    expression = _allow_expression(predicates)
    return expression is not None and re.match(expression, path) is not None


def deny_path_fits(predicates: Predicates, loose: Sequence[str]) -> bool:
    """Report whether a deny rule fits any reading of the path."""
    if predicates.paths is None:
        return True
    expression = _deny_regex(_deny_expression(predicates))
    if any(expression.match(reading) for reading in loose):
        return True
    return "%2F" in loose[0] and any(deny_fits_any_reading(glob, loose[0]) for glob in predicates.paths)


def _is_meant(item: ScopedInjection, ids: set[str]) -> bool:
    return item.rules is None or not item.rules.isdisjoint(ids)


def _deny_applies(rule: Rule, query: str, head: Head) -> bool:
    predicates = rule.predicates
    if predicates.websocket and not head.websocket:
        return False
    return not predicates.looks_inside or deny_fits(predicates, query, head.headers)


def denies_everything(predicates: Predicates) -> bool:
    """Report whether the deny is about hosts alone, so that it holds before a request exists."""
    looks_further = predicates.methods or predicates.looks_inside or predicates.websocket or predicates.body
    return not looks_further and (
        predicates.paths is None or any(glob.is_everything for glob in predicates.paths)
    )


def _claims(rules: Sequence[Rule]) -> list[Rule]:
    """Return the claims of rules, by any method: their paths, and those that they close beside them."""
    claims: dict[object, Rule] = {}
    for rule in rules:
        if (body := rule.widest.body) is None:
            continue
        own = Predicates(paths=rule.widest.paths, encoded_slash=rule.widest.encoded_slash, body=body)
        closed = closed_paths(body)
        # All rules of one kind may have the same paths, as those of git do.
        claims.setdefault((body.kind, own.paths, own.encoded_slash), Rule(rule.ref, own))
        if closed:
            claims.setdefault(closed, Rule(rule.ref, Predicates(paths=closed)))
    return list(claims.values())


def _fitting_regex(candidates: Sequence[Predicates]) -> re.Pattern[str] | None:
    """Build one expression with a group per rule, set exactly if the rule fits the whole path."""
    if not candidates:
        return None
    # A rule with `paths: []` fits nothing: its group can never be set.
    return re.compile(_grouped([_allow_expression(predicates) or "(?!)" for predicates in candidates]))


def _set_groups(match: re.Match[str]) -> list[bool]:
    return [group is not None for group in match.groups()]


def _grouped(expressions: Sequence[str]) -> str:
    """Join expressions to one that always matches, with a group for each that is set where it fits."""
    return "".join(f"(?:(?={expression})())?" for expression in expressions)


def _allow_expression(predicates: Predicates) -> str | None:
    globs = predicates.paths or ()
    if any(glob.is_everything for glob in globs):
        return "/"
    return "(?:" + "|".join(glob.regex() for glob in globs) + r")\Z" if globs else None


def _deny_expression(predicates: Predicates) -> str:
    globs = predicates.paths or ()
    return "|".join(glob.deny_regex() for glob in globs) or "(?!)"


def _deny_regex(expression: str) -> re.Pattern[str]:
    # A server may ignore case, so a deny does; an allow stays exact.
    return re.compile(expression, re.IGNORECASE | re.ASCII)
