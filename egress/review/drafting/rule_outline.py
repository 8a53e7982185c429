"""Outlines of the rules of a draft, per host, from allowed traffic.

Requests are grouped by method, by WebSocket or not, and by injected secrets. Each group gets its own path
templates, so that a frequent method never widens a rare one, and a path with a secret never widens a path
without. Templates with the same methods form a rule.

If templates with different secrets overlapped, a generalised template would send a secret to a path that
never got one; such a host is not generalised. If a path cannot be a pattern (an empty segment, a `;`), the
rules of the host have no paths, and a remark says so.

Traffic that no rule can express goes to `left_out`, with its reason.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from egress.review.drafting.observation import Observation
from egress.review.drafting.path_identifiers import MAX_STARS
from egress.review.drafting.path_templates import PathTemplate, make_templates
from egress.review.drafting.timeout import TimeoutCheck, no_timeout
from egress.review.drafting.traffic import Occurrences
from egress.rules.compile.overlap import path_covers, paths_may_meet
from egress.rules.compile.policy_writer import scalar
from egress.rules.decide import paths
from egress.rules.decide.globs import PathGlob, path_glob
from egress.rules.language.credential_guess import looks_like_credential
from egress.rules.language.hosts import is_address, is_canonical

MAX_RULES = 200
"""Rules per host; the least used are left out. Loading compares every pair, which takes quadratic time."""
WIDER = "wider than seen"
"""Marks each place where a rule allows more than the observed traffic."""

Secrets = frozenset[tuple[str, str]]

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_STANDARD_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
_FORBIDDEN_METHODS = frozenset({"CONNECT", "TRACE"})
_OPTIONS = ("plain", "OPTIONS")
_STARS = re.compile(r"\*+")
_GRPC = re.compile(r"/[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+/[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """The key of requests that share path templates."""

    style: str
    """`plain`, `socket` or `grpc`."""
    secrets: Secrets


@dataclass(frozen=True, slots=True)
class RuleOutline:
    """A rule to write."""

    id: str
    group: RuleGroup
    methods: tuple[str, ...]
    templates: tuple[PathTemplate, ...] | None
    """None: any path."""
    count: int
    has_slash: bool = False
    """`%2F` was seen in a path."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Allowed traffic that is not in the draft, with the reason."""

    reason: str
    host: str
    count: int


@dataclass(slots=True)
class HostOutline:
    """The traffic and rules of a host."""

    host: str
    requests: int = 0
    tunnels: int = 0
    ports: Counter[int] = field(default_factory=Counter)
    clear_ports: Counter[int] = field(default_factory=Counter)
    http2: int = 0
    inside: Counter[str] = field(default_factory=Counter)
    rules: tuple[RuleOutline, ...] = ()
    secrets: Counter[tuple[str, str]] = field(default_factory=Counter)
    secret_ports: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Ports that received each secret."""
    remarks: list[str] = field(default_factory=list)
    """Comments on the whole host."""

    @property
    def is_address(self) -> bool:
        return is_address(self.host)

    @property
    def is_tunnel(self) -> bool:
        """True if only tunnels were seen."""
        return not self.requests


Passed = list[tuple[Observation, Occurrences]]


def outline_hosts(
    traffic: Iterable[tuple[Observation, Occurrences]], check_timeout: TimeoutCheck = no_timeout
) -> tuple[list[HostOutline], list[LeftOut]]:
    """Outline every host with allowed traffic, sorted by name, and list traffic that no rule can express."""
    hosts: dict[str, Passed] = defaultdict(list)
    left_out: list[LeftOut] = []
    for one, times in traffic:
        if not one.passed:
            continue
        reason = _left_out_reason(one)
        if reason:
            # The host goes into the file, so a spelling that is not canonical is not repeated.
            left_out.append(LeftOut(reason, one.host if is_canonical(one.host) else "", times.count))
        else:
            hosts[one.host].append((one, times))
    found = [_outline(host, hosts[host], left_out, check_timeout) for host in sorted(hosts)]
    return [outline for outline in found if outline.requests or outline.tunnels], left_out


def _left_out_reason(one: Observation) -> str:
    # A name that nobody answers for may be a slip, and whoever registers it later would be allowed.
    if one.is_unreached:
        return "the host was never reached"
    if not is_canonical(one.host):
        return "the host has no canonical spelling"
    # A credential must not end up in a file, so a host or method that looks like one is never written.
    if looks_like_credential(one.host):
        return "the host looks like a credential"
    if one.kind != "request":
        return "an unread connection to an address" if is_address(one.host) else ""
    if not (one.path == "*" and one.method == "OPTIONS") and not _is_canonical(one.path):
        return "the path has no canonical spelling"
    if len(_STARS.findall(one.path)) > MAX_STARS:
        return "the path has too many asterisks for a pattern"
    method = one.method
    if not _TOKEN.fullmatch(method) or method in _FORBIDDEN_METHODS:
        return "a rule cannot name the method"
    if (
        method.upper() in _STANDARD_METHODS or method.upper() in _FORBIDDEN_METHODS
    ) and method not in _STANDARD_METHODS:
        return "a rule cannot name the method"
    if looks_like_credential(method):
        return "the method looks like a credential"
    return ""


def _is_canonical(path: str) -> bool:
    try:
        return "?" not in path and paths.canonical_path(path, encoded_slash=True) == path
    except paths.PathError:
        return False


def _outline(host: str, passed: Passed, left_out: list[LeftOut], check_timeout: TimeoutCheck) -> HostOutline:
    check_timeout()
    outline = HostOutline(host)
    requests = [(one, times) for one, times in passed if one.kind == "request"]
    outline.tunnels = sum(times.count for one, times in passed if one.kind == "tunnel")
    # A host with a credential must not allow clear text: its requests are left out, never the credential.
    if any(one.secrets for one, _ in requests) and any(one.scheme == "http" for one, _ in requests):
        clear = sum(times.count for one, times in requests if one.scheme == "http")
        left_out.append(LeftOut("clear text, at a host that gets a credential", host, clear))
        requests = [(one, times) for one, times in requests if one.scheme != "http"]
    for one, times in requests or [pair for pair in passed if pair[0].kind == "tunnel"]:
        _add(outline, one, times)
    outline.requests = sum(times.count for _, times in requests)
    if outline.tunnels and requests:
        outline.remarks.append(
            f"{outline.tunnels} connections were tunnelled unread (`intercept: never`) and would now be read"
        )
    if requests:
        closed = sum(t.count for one, t in passed if one.kind == "tunnel" and one.port not in outline.ports)
        if closed:
            left_out.append(LeftOut("unread connections to a port without any other request", host, closed))
    outline.rules = tuple(_rules(outline, requests, left_out, check_timeout))
    return outline


def _add(outline: HostOutline, one: Observation, times: Occurrences) -> None:
    (outline.ports if one.scheme == "https" else outline.clear_ports)[one.port] += times.count
    outline.http2 += times.count if one.is_http2 else 0
    if one.inside:
        outline.inside[one.inside] += times.count
    for pair in one.secrets:
        outline.secrets[pair] += times.count
        outline.secret_ports[pair[0]].add(one.port)


# Rules ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Spot:
    """A method at a path."""

    count: int = 0
    secrets: frozenset[tuple[str, str]] = frozenset()


def _rules(
    outline: HostOutline, requests: Passed, left_out: list[LeftOut], check_timeout: TimeoutCheck
) -> list[RuleOutline]:
    if not requests:
        return []
    spots: dict[tuple[str, str, str, bool], _Spot] = defaultdict(_Spot)
    for one, times in requests:
        spot = spots[_style(one), one.method, one.path, one.is_cut]
        spot.count += times.count
        spot.secrets |= frozenset(one.secrets)
    # A rule with paths rejects a path that is not a pattern, so one such path removes the paths of all rules.
    if not all(_is_pattern(path) for _, _, path, _ in spots if path != "*"):
        outline.remarks.append("rules without paths: no pattern matches exactly one of the paths")
        if outline.secrets:
            outline.remarks.append(f"{WIDER}: each credential is added to every request")
        return _without_clashes(outline, _pathless(spots), check_timeout)
    # Generalise first, and take it back if a secret would reach other requests. Paths can still overlap where
    # a value had to become `*`: a remark reports that case.
    rules = _with_paths(outline, spots, left_out, check_timeout, generalising=True)
    if _mix_secrets(rules, check_timeout):
        outline.remarks.append("no path is generalised: paths with and without a credential are too similar")
        rules = _with_paths(outline, spots, [], check_timeout, generalising=False)
        if _mix_secrets(rules, check_timeout):
            outline.remarks.append(f"{WIDER}: a credential is added to requests that had none")
    return _without_clashes(outline, _most_used(outline, rules, left_out), check_timeout)


def _most_used(outline: HostOutline, rules: list[RuleOutline], left_out: list[LeftOut]) -> list[RuleOutline]:
    used = sorted(rules, key=lambda rule: -rule.count)
    if beyond := sum(rule.count for rule in used[MAX_RULES:]):
        left_out.append(LeftOut("more rules than the limit for a host", outline.host, beyond))
    kept = {rule.id for rule in used[:MAX_RULES]}
    return [rule for rule in rules if rule.id in kept]


def _without_clashes(
    outline: HostOutline, rules: list[RuleOutline], check_timeout: TimeoutCheck
) -> list[RuleOutline]:
    """Keep only the most frequent secret if two could share a slot in one request."""
    slots: dict[str, list[str]] = defaultdict(list)
    for (secret, slot), _ in sorted(outline.secrets.items(), key=lambda item: (-item[1], item[0])):
        slots[slot].append(secret)
    # A request cannot carry two secrets in one slot, so the rarer secret must go.
    crowded = {slot for slot, names in slots.items() if len(names) > 1}
    if not crowded or not (
        _mix_secrets(rules, check_timeout) or any(_is_crowded(rule.group) for rule in rules)
    ):
        return rules
    lost = {(name, slot) for slot in crowded for name in slots[slot][1:]}
    for name, slot in sorted(lost):
        other = f"{scalar(slots[slot][0])} uses the same slot more often"
        outline.remarks.append(f"the secret {scalar(name)} is not injected: {other}")
    for pair in lost:
        del outline.secrets[pair]
    return [replace(rule, group=replace(rule.group, secrets=rule.group.secrets - lost)) for rule in rules]


def _is_crowded(group: RuleGroup) -> bool:
    return len({slot for _, slot in group.secrets}) < len(group.secrets)


def _style(one: Observation) -> str:
    if one.is_websocket:
        return "socket"
    return "grpc" if one.is_http2 and one.method == "POST" and _GRPC.fullmatch(one.path) else "plain"


def _is_pattern(path: str) -> bool:
    """True if a rule with paths can match the path."""
    try:
        return paths.canonical_path(path, strict=True, encoded_slash=True) == path
    except paths.PathError:
        return False


Spots = dict[tuple[str, str, str, bool], _Spot]


def _pathless(spots: Spots) -> list[RuleOutline]:
    """Make one rule for plain requests and one for WebSockets, each with every secret of the host."""
    # Rules without paths match the same requests, so all must inject the same secrets.
    everywhere = frozenset[tuple[str, str]]().union(*(spot.secrets for spot in spots.values()))
    rules, taken = [], set[str]()
    for is_socket in (False, True):
        mine = {key: spot for key, spot in spots.items() if (key[0] == "socket") is is_socket}
        if mine:
            methods = tuple(sorted({method for _, method, _, _ in mine}))
            group = RuleGroup("socket" if is_socket else "plain", everywhere)
            count = sum(spot.count for spot in mine.values())
            slash = any("%2F" in path for _, _, path, _ in mine)
            rules.append(RuleOutline(_id(group, methods, taken), group, methods, None, count, slash))
    return rules


def _with_paths(
    outline: HostOutline,
    spots: Spots,
    left_out: list[LeftOut],
    check_timeout: TimeoutCheck,
    *,
    generalising: bool,
) -> list[RuleOutline]:
    whole: dict[tuple[RuleGroup, str], Counter[str]] = defaultdict(Counter)
    cut: dict[tuple[RuleGroup, str], Counter[str]] = defaultdict(Counter)
    anywhere: Counter[tuple[RuleGroup, str]] = Counter()
    options = _about_the_server(spots)
    for (style, method, path, is_cut), spot in spots.items():
        group = RuleGroup(style, spot.secrets)
        if method == "OPTIONS" and options is not None and style == "plain":
            anywhere[options, method] += spot.count
        else:
            (cut if is_cut else whole)[group, method][path] += spot.count
    found: dict[tuple[RuleGroup, str], tuple[PathTemplate, ...]] = {}
    for key in sorted({*whole, *cut}, key=_order):
        joins = generalising and key[0].style != "grpc"
        made = make_templates(whole[key], cut[key], generalising=joins, check_timeout=check_timeout)
        found[key] = made.kept
        if made.left_out:
            beyond = sum(one.count for one in made.left_out)
            left_out.append(LeftOut("more paths than the limit for a method", outline.host, beyond))
    # Socket rules also allow plain requests, so covered plain templates go before the rules are grouped.
    _fold_into_sockets(found, check_timeout)
    joined: dict[tuple[RuleGroup, str, bool], dict[str, PathTemplate]] = defaultdict(dict)
    for (group, method), kept in found.items():
        for one in kept:
            joined[group, one.pattern, one.has_slash][method] = one
    return _grouped(joined, anywhere, check_timeout)


def _about_the_server(spots: Spots) -> RuleGroup | None:
    """Return the group of `OPTIONS *`, if seen. Its rule has no paths and so covers every OPTIONS request."""
    if not any(path == "*" for _, _, path, _ in spots):
        return None
    seen = (spot.secrets for (style, method, _, _), spot in spots.items() if (style, method) == _OPTIONS)
    return RuleGroup("plain", frozenset[tuple[str, str]]().union(*seen))


def _order(key: tuple[RuleGroup, str]) -> tuple[str, list[tuple[str, str]], str]:
    return key[0].style, sorted(key[0].secrets), key[1]


def _fold_into_sockets(
    found: dict[tuple[RuleGroup, str], tuple[PathTemplate, ...]], check_timeout: TimeoutCheck
) -> None:
    """Drop plain templates that a WebSocket rule covers, because it allows plain requests too."""
    for (group, method), sockets in found.items():
        plain = (RuleGroup("plain", group.secrets), method)
        if group.style != "socket" or plain not in found:
            continue
        globs = [path_glob(one.pattern, encoded_slash=True) for one in sockets]
        found[plain] = tuple(
            one for one in found[plain] if one.has_slash or not _is_covered(one, globs, check_timeout)
        )


def _is_covered(one: PathTemplate, globs: list[PathGlob], check_timeout: TimeoutCheck) -> bool:
    check_timeout()
    here = path_glob(one.pattern, encoded_slash=True)
    return any(path_covers(glob, here) for glob in globs)


def _grouped(
    joined: dict[tuple[RuleGroup, str, bool], dict[str, PathTemplate]],
    anywhere: Counter[tuple[RuleGroup, str]],
    check_timeout: TimeoutCheck,
) -> list[RuleOutline]:
    rules: dict[tuple[RuleGroup, bool, tuple[str, ...]], list[PathTemplate]] = defaultdict(list)
    for (group, _, slash), by_method in joined.items():
        rules[group, slash, tuple(sorted(by_method))].append(_sum(by_method.values()))
    # A fixed order of groups and methods gives the same ids for the same traffic.
    taken: set[str] = set()
    made = []
    for group, slash, methods in sorted(rules, key=lambda key: (*_order((key[0], "")), key[2], key[1])):
        check_timeout()
        kept = tuple(sorted(rules[group, slash, methods], key=lambda one: one.pattern))
        count = sum(one.count for one in kept)
        made.append(RuleOutline(_id(group, methods, taken), group, methods, kept, count, slash))
    for group in sorted({group for group, _ in anywhere}, key=lambda group: _order((group, ""))):
        methods = tuple(sorted(method for other, method in anywhere if other == group))
        count = sum(anywhere[group, method] for method in methods)
        made.append(RuleOutline(_id(group, methods, taken), group, methods, None, count))
    return made


def _sum(same: Iterable[PathTemplate]) -> PathTemplate:
    """Merge the equal templates of several methods into one."""
    all_of = list(same)
    if len(all_of) == 1:
        return all_of[0]
    stars = tuple(
        (kinds[0][0], max(number for _, number in kinds))
        for kinds in zip(*(one.stars for one in all_of), strict=False)
    )
    most = max(one.paths for one in all_of)
    return PathTemplate(
        all_of[0].pattern, sum(one.count for one in all_of), most, stars, all_of[0].is_slashed
    )


def _id(group: RuleGroup, methods: tuple[str, ...], taken: set[str]) -> str:
    name, number = _named(group.style, frozenset(methods)), 1
    while (chosen := name if number == 1 else f"{name}-{number}") in taken:
        number += 1
    taken.add(chosen)
    return chosen


def _named(style: str, methods: frozenset[str]) -> str:
    if style != "plain":
        return style
    if methods <= {"GET", "HEAD", "OPTIONS"}:
        return "read"
    if methods <= {"DELETE"}:
        return "delete"
    return "write" if methods <= {"POST", "PUT", "PATCH"} else "mixed"


def _mix_secrets(rules: list[RuleOutline], check_timeout: TimeoutCheck) -> bool:
    """True if a request could match two rules with different secrets."""
    return any(
        one.group.secrets != other.group.secrets
        and not set(one.methods).isdisjoint(other.methods)
        and _meet(one, other, check_timeout)
        for number, one in enumerate(rules)
        for other in _after(rules, number, check_timeout)
    )


def _after(rules: list[RuleOutline], number: int, check_timeout: TimeoutCheck) -> list[RuleOutline]:
    check_timeout()
    return rules[number + 1 :]


def _meet(one: RuleOutline, other: RuleOutline, check_timeout: TimeoutCheck) -> bool:
    if one.templates is None or other.templates is None:
        return True
    here = [path_glob(t.pattern, encoded_slash=True) for t in one.templates]
    there = [path_glob(t.pattern, encoded_slash=True) for t in other.templates]
    # Literal patterns meet only if equal, so a set replaces most of the costly pairwise comparisons.
    literal = {glob.text for glob in there if glob.is_literal}
    stars = [glob for glob in there if not glob.is_literal]
    for glob in here:
        check_timeout()
        if glob.text in literal or any(
            paths_may_meet(glob, one) for one in (stars if glob.is_literal else there)
        ):
            return True
    return False
