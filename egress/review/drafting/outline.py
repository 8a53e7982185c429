"""One host of a draft: which rules are wanted for what was seen there, before anything is written.

Theory of operation. What passed is grouped by method, WebSocket or not, and the secrets that went with
it; each group gets its own path templates, so that a seldom method is never widened by a frequent one,
nor a path without a secret by one with. Templates with the same methods make a rule.

If templates with different secrets could meet, a generalised one would send a secret where none was
sent: then nothing is generalised at this host. Where a path cannot be a pattern (an empty segment, a
`;`), the host's rules do without paths, and say so.

What cannot be written at all goes to `left_out`, with its reason.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from egress.review.drafting.observation import Observation
from egress.review.drafting.path_identifiers import MAX_STARS
from egress.review.drafting.path_templates import PathTemplate, make_templates
from egress.review.drafting.timeout import TimeoutCheck, never_timeout
from egress.review.drafting.traffic import Occurrences
from egress.rules.compile.overlap import path_covers, paths_may_meet
from egress.rules.compile.policy_writer import scalar
from egress.rules.decide import paths
from egress.rules.decide.globs import PathGlob, path_glob
from egress.rules.language.credential_guess import looks_like_credential
from egress.rules.language.hosts import is_address, is_canonical

MAX_RULES = 200
"""For one host: beyond, those that were used least are left out. Each is held against each when they load."""
WIDER = "wider than seen"
"""Marks each place where a rule allows more than what passed."""

Secrets = frozenset[tuple[str, str]]

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_STANDARD = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
_NEVER = frozenset({"CONNECT", "TRACE"})
_OPTIONS = ("plain", "OPTIONS")
_STARS = re.compile(r"\*+")
_GRPC = re.compile(r"/[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+/[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """What is told apart before templates are made."""

    style: str
    """`plain`, `socket` or `grpc`."""
    secrets: Secrets


@dataclass(frozen=True, slots=True)
class RuleOutline:
    """One rule that is wanted."""

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
    """Something that passed and is not in the draft, and why."""

    reason: str
    host: str
    count: int


@dataclass(slots=True)
class HostOutline:
    """One host."""

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
    """Where each secret went to."""
    remarks: list[str] = field(default_factory=list)
    """What a reader has to know of the whole host."""

    @property
    def is_address(self) -> bool:
        return is_address(self.host)

    @property
    def is_tunnel(self) -> bool:
        """Whether only unread connections were seen."""
        return not self.requests


Passed = list[tuple[Observation, Occurrences]]


def outline_hosts(
    traffic: Iterable[tuple[Observation, Occurrences]], patience: TimeoutCheck = never_timeout
) -> tuple[list[HostOutline], list[LeftOut]]:
    """Outline every host where something passed, by name; and what cannot be written."""
    hosts: dict[str, Passed] = defaultdict(list)
    left_out: list[LeftOut] = []
    for one, times in traffic:
        if not one.passed:
            continue
        reason = _unfit(one)
        if reason:
            left_out.append(LeftOut(reason, one.host if is_canonical(one.host) else "", times.count))
        else:
            hosts[one.host].append((one, times))
    found = [_outline(host, hosts[host], left_out, patience) for host in sorted(hosts)]
    return [outline for outline in found if outline.requests or outline.tunnels], left_out


def _unfit(one: Observation) -> str:
    if not is_canonical(one.host):
        return "the host has no canonical spelling"
    if looks_like_credential(one.host):
        return "the host looks like a credential"
    if one.kind != "request":
        return "an unread connection to an address" if is_address(one.host) else ""
    if not (one.path == "*" and one.method == "OPTIONS") and not _is_canonical(one.path):
        return "the path has no canonical spelling"
    if len(_STARS.findall(one.path)) > MAX_STARS:
        return "the path has too many asterisks for a pattern"
    method = one.method
    if not _TOKEN.fullmatch(method) or method in _NEVER:
        return "the method is not one that a rule can name"
    if (method.upper() in _STANDARD or method.upper() in _NEVER) and method not in _STANDARD:
        return "the method is not one that a rule can name"
    if looks_like_credential(method):
        return "the method looks like a credential"
    return ""


def _is_canonical(path: str) -> bool:
    try:
        return "?" not in path and paths.canonical_path(path, encoded_slash=True) == path
    except paths.PathError:
        return False


def _outline(host: str, passed: Passed, left_out: list[LeftOut], patience: TimeoutCheck) -> HostOutline:
    patience()
    outline = HostOutline(host)
    requests = [(one, times) for one, times in passed if one.kind == "request"]
    outline.tunnels = sum(times.count for one, times in passed if one.kind == "tunnel")
    if any(one.secrets for one, _ in requests) and any(one.scheme == "http" for one, _ in requests):
        clear = sum(times.count for one, times in requests if one.scheme == "http")
        left_out.append(LeftOut("clear text, at a host that gets a credential", host, clear))
        requests = [(one, times) for one, times in requests if one.scheme != "http"]
    for one, times in requests or [pair for pair in passed if pair[0].kind == "tunnel"]:
        _note(outline, one, times)
    outline.requests = sum(times.count for _, times in requests)
    if outline.tunnels and requests:
        outline.remarks.append(
            f"{outline.tunnels} connections were passed on unread (`intercept: never`) and would be read now"
        )
    if requests:
        closed = sum(t.count for one, t in passed if one.kind == "tunnel" and one.port not in outline.ports)
        if closed:
            left_out.append(LeftOut("unread connections to a port where nothing was read", host, closed))
    outline.rules = tuple(_rules(outline, requests, left_out, patience))
    return outline


def _note(outline: HostOutline, one: Observation, times: Occurrences) -> None:
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
    outline: HostOutline, requests: Passed, left_out: list[LeftOut], patience: TimeoutCheck
) -> list[RuleOutline]:
    if not requests:
        return []
    spots: dict[tuple[str, str, str, bool], _Spot] = defaultdict(_Spot)
    for one, times in requests:
        spot = spots[_style(one), one.method, one.path, one.is_cut]
        spot.count += times.count
        spot.secrets |= frozenset(one.secrets)
    if not all(_is_pattern(path) for _, _, path, _ in spots if path != "*"):
        outline.remarks.append("rules without paths: a path was seen that no pattern says exactly")
        if outline.secrets:
            outline.remarks.append(f"{WIDER}: each credential goes with every request")
        return _without_clashes(outline, _pathless(spots), patience)
    rules = _with_paths(outline, spots, left_out, patience, generalising=True)
    if _mix_secrets(rules, patience):
        outline.remarks.append("nothing is generalised: paths with and without a credential lie too close")
        rules = _with_paths(outline, spots, [], patience, generalising=False)
        if _mix_secrets(rules, patience):
            outline.remarks.append(f"{WIDER}: a credential goes with requests that went without")
    return _without_clashes(outline, _most_used(outline, rules, left_out), patience)


def _most_used(outline: HostOutline, rules: list[RuleOutline], left_out: list[LeftOut]) -> list[RuleOutline]:
    used = sorted(rules, key=lambda rule: -rule.count)
    if beyond := sum(rule.count for rule in used[MAX_RULES:]):
        left_out.append(LeftOut("one rule of too many different ones", outline.host, beyond))
    kept = {rule.id for rule in used[:MAX_RULES]}
    return [rule for rule in rules if rule.id in kept]


def _without_clashes(
    outline: HostOutline, rules: list[RuleOutline], patience: TimeoutCheck
) -> list[RuleOutline]:
    """Of two secrets that could meet in one slot only the more frequent one stays."""
    slots: dict[str, list[str]] = defaultdict(list)
    for (secret, slot), _ in sorted(outline.secrets.items(), key=lambda item: (-item[1], item[0])):
        slots[slot].append(secret)
    crowded = {slot for slot, names in slots.items() if len(names) > 1}
    if not crowded or not (_mix_secrets(rules, patience) or any(_is_crowded(rule.group) for rule in rules)):
        return rules
    lost = {(name, slot) for slot in crowded for name in slots[slot][1:]}
    for name, slot in sorted(lost):
        other = f"{scalar(slots[slot][0])} goes into the same slot more often"
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
    """Whether a rule with paths lets such a path through at all."""
    try:
        return paths.canonical_path(path, strict=True, encoded_slash=True) == path
    except paths.PathError:
        return False


Spots = dict[tuple[str, str, str, bool], _Spot]


def _pathless(spots: Spots) -> list[RuleOutline]:
    """A rule for all plain requests, and one for WebSockets: with every secret that was seen at the host."""
    # Rules without paths meet: what one of them injects, all of them would.
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
    outline: HostOutline, spots: Spots, left_out: list[LeftOut], patience: TimeoutCheck, *, generalising: bool
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
        made = make_templates(whole[key], cut[key], generalising=joins, patience=patience)
        found[key] = made.kept
        if made.left_out:
            beyond = sum(one.count for one in made.left_out)
            left_out.append(LeftOut("one path of too many different ones", outline.host, beyond))
    _fold_into_sockets(found, patience)
    joined: dict[tuple[RuleGroup, str, bool], dict[str, PathTemplate]] = defaultdict(dict)
    for (group, method), kept in found.items():
        for one in kept:
            joined[group, one.pattern, one.has_slash][method] = one
    return _grouped(joined, anywhere, patience)


def _about_the_server(spots: Spots) -> RuleGroup | None:
    """The group of `OPTIONS *`, if that was asked: a rule for it has no paths, and so is for all OPTIONS."""
    if not any(path == "*" for _, _, path, _ in spots):
        return None
    asked = (spot.secrets for (style, method, _, _), spot in spots.items() if (style, method) == _OPTIONS)
    return RuleGroup("plain", frozenset[tuple[str, str]]().union(*asked))


def _order(key: tuple[RuleGroup, str]) -> tuple[str, list[tuple[str, str]], str]:
    return key[0].style, sorted(key[0].secrets), key[1]


def _fold_into_sockets(
    found: dict[tuple[RuleGroup, str], tuple[PathTemplate, ...]], patience: TimeoutCheck
) -> None:
    """A rule for WebSockets allows plain requests too: what it takes in needs no rule beside it."""
    for (group, method), sockets in found.items():
        plain = (RuleGroup("plain", group.secrets), method)
        if group.style != "socket" or plain not in found:
            continue
        globs = [path_glob(one.pattern, encoded_slash=True) for one in sockets]
        found[plain] = tuple(
            one for one in found[plain] if one.has_slash or not _is_covered(one, globs, patience)
        )


def _is_covered(one: PathTemplate, globs: list[PathGlob], patience: TimeoutCheck) -> bool:
    patience()
    here = path_glob(one.pattern, encoded_slash=True)
    return any(path_covers(glob, here) for glob in globs)


def _grouped(
    joined: dict[tuple[RuleGroup, str, bool], dict[str, PathTemplate]],
    anywhere: Counter[tuple[RuleGroup, str]],
    patience: TimeoutCheck,
) -> list[RuleOutline]:
    rules: dict[tuple[RuleGroup, bool, tuple[str, ...]], list[PathTemplate]] = defaultdict(list)
    for (group, _, slash), by_method in joined.items():
        rules[group, slash, tuple(sorted(by_method))].append(_sum(by_method.values()))
    taken: set[str] = set()
    made = []
    for group, slash, methods in sorted(rules, key=lambda key: (*_order((key[0], "")), key[2], key[1])):
        patience()
        kept = tuple(sorted(rules[group, slash, methods], key=lambda one: one.pattern))
        count = sum(one.count for one in kept)
        made.append(RuleOutline(_id(group, methods, taken), group, methods, kept, count, slash))
    for group in sorted({group for group, _ in anywhere}, key=lambda group: _order((group, ""))):
        methods = tuple(sorted(method for other, method in anywhere if other == group))
        count = sum(anywhere[group, method] for method in methods)
        made.append(RuleOutline(_id(group, methods, taken), group, methods, None, count))
    return made


def _sum(same: Iterable[PathTemplate]) -> PathTemplate:
    """One template for all methods that came to it by themselves."""
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


def _mix_secrets(rules: list[RuleOutline], patience: TimeoutCheck) -> bool:
    """Whether a request could fit two rules that send different secrets."""
    return any(
        one.group.secrets != other.group.secrets
        and not set(one.methods).isdisjoint(other.methods)
        and _meet(one, other, patience)
        for number, one in enumerate(rules)
        for other in _after(rules, number, patience)
    )


def _after(rules: list[RuleOutline], number: int, patience: TimeoutCheck) -> list[RuleOutline]:
    patience()
    return rules[number + 1 :]


def _meet(one: RuleOutline, other: RuleOutline, patience: TimeoutCheck) -> bool:
    if one.templates is None or other.templates is None:
        return True
    here = [path_glob(t.pattern, encoded_slash=True) for t in one.templates]
    there = [path_glob(t.pattern, encoded_slash=True) for t in other.templates]
    literal = {glob.text for glob in there if glob.is_literal}
    stars = [glob for glob in there if not glob.is_literal]
    for glob in here:
        patience()
        if glob.text in literal or any(
            paths_may_meet(glob, one) for one in (stars if glob.is_literal else there)
        ):
            return True
    return False
