"""A draft as the text of a rule file, with a comment on every line that was learned from traffic.

Comments hold only our own words and numbers. Text that a sandbox chose may appear only in quoted values.
`wider than seen` marks each place where a rule allows more than what passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from egress.review.drafting.inherited import InheritedPart, InheritedRules, deny_fields
from egress.review.drafting.path_identifiers import CREDENTIAL
from egress.review.drafting.path_templates import PathTemplate
from egress.review.drafting.rule_outline import WIDER, HostOutline, LeftOut, RuleOutline
from egress.review.drafting.traffic import counted
from egress.rules.compile.load import TOP_DENY_KEY
from egress.rules.compile.policy_writer import Fields, Json, canary_fields, flow, scalar
from egress.rules.decide.entry import Rule as Deny

_COLUMN = 44
_WIDTH = 110
_RESERVED = frozenset({"host"})


@dataclass(frozen=True, slots=True)
class YamlLine:
    """A line of the file, with its comment."""

    text: str
    remark: str = ""


def write_yaml(
    found: list[HostOutline], left_out: list[LeftOut], inherited: InheritedRules, dropped: frozenset[str]
) -> str:
    """Write the whole file. `dropped` names denies that are left out, as `key#id`."""
    return "\n".join(_laid_out(_file(found, left_out, inherited, dropped))) + "\n"


def _laid_out(lines: Iterable[YamlLine]) -> Iterator[str]:
    for each in lines:
        # A second defence: unquoted text from a sandbox must not start a new line.
        line = YamlLine(_on_one_line(each.text), _on_one_line(each.remark))
        if not line.remark:
            yield line.text
            continue
        beside = f"{line.text:<{_COLUMN}}  # {line.remark}"
        if len(beside) <= _WIDTH:
            yield beside
        else:
            indent = " " * (len(line.text) - len(line.text.lstrip()))
            yield from (f"{indent}# {line.remark}", line.text)


def _on_one_line(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def _file(
    found: list[HostOutline], left_out: list[LeftOut], inherited: InheritedRules, dropped: frozenset[str]
) -> Iterator[YamlLine]:
    yield from (YamlLine(f"# {text}".rstrip()) for text in _heading(found, left_out, inherited, dropped))
    yield YamlLine("version: 1")
    if limits := inherited.limits():
        yield YamlLine(f"limits: {_flow(limits.fields)}", limits.remark)
    # Secrets and canaries stand before the hosts that use them, as in a handwritten file.
    names = [one for one in found if not one.is_address]
    yield from _secrets(names, inherited)
    yield from _canaries(inherited)
    if names:
        yield from (YamlLine(""), YamlLine("hosts:"))
    for number, outline in enumerate(names):
        yield from (YamlLine(""),) if number else ()
        yield from _entry(outline, inherited, dropped)
    addresses = [one for one in found if one.is_address]
    if addresses:
        yield from (YamlLine(""), YamlLine("networks:"))
    for outline in addresses:
        yield from _network(outline, inherited, dropped)
    if denies := _top_denies(inherited, dropped):
        yield from (YamlLine(""), YamlLine("deny:"))
        yield from _deny_lines(denies, "  ")


def _heading(
    found: list[HostOutline], left_out: list[LeftOut], inherited: InheritedRules, dropped: frozenset[str]
) -> Iterator[str]:
    requests, tunnels = sum(one.requests for one in found), sum(one.tunnels for one in found)
    unread = counted(tunnels, "unread connection")
    yield f"A draft from {counted(requests, 'request')} and {unread} that passed."
    yield f"Review it before use. `{WIDER}` marks rules that allow more than that."
    yield "Query strings, bodies and headers are not logged: no rule here checks them."
    if profiles := inherited.profiles():
        yield f"{WIDER}: the profiles of the current rules are left out ({', '.join(profiles)}),"
        yield "  so every sandbox may use every host here, even a host of another profile."
    if left_out:
        yield ""
        yield "Allowed traffic that this draft leaves out:"
    # Counts per reason only: the hosts left out may have spellings that must not be written.
    reasons: dict[str, list[LeftOut]] = {}
    for one in left_out:
        reasons.setdefault(one.reason, []).append(one)
    for reason, items in sorted(reasons.items()):
        hosts = len({item.host for item in items})
        yield f"  {reason}: {counted(sum(i.count for i in items), 'request')}, {counted(hosts, 'host')}"
    if dropped:
        yield ""
        yield "Denies of the current rules that are left out because they block allowed traffic:"
        yield from (f"  {name}" for name in sorted(dropped))


# Secrets --------------------------------------------------------------------------------------


def _secrets(found: list[HostOutline], inherited: InheritedRules) -> Iterator[YamlLine]:
    places: dict[str, list[str]] = {}
    for outline in found:
        for item in _injections(outline, inherited):
            places.setdefault(item.secret, []).extend(_places(outline, item.secret))
    if places:
        yield from (YamlLine(""), YamlLine("secrets:"))
    for name in sorted(places):
        taken = inherited.secret(name, sorted(set(places[name])))
        yield YamlLine(f"  {scalar(name)}:", taken.remark)
        yield from (YamlLine(f"    {key}: {_flow(value)}") for key, value in taken.fields.items())


def _canaries(inherited: InheritedRules) -> Iterator[YamlLine]:
    canaries = inherited.canaries()
    if canaries:
        yield from (YamlLine(""), YamlLine("canaries:"))
    for each in canaries:
        yield YamlLine(f"  {scalar(each.name)}: {_flow(canary_fields(each))}", f"as in {each.place}")


def _places(outline: HostOutline, secret: str) -> list[str]:
    ports = outline.secret_ports[secret]
    return [outline.host if port == 443 else f"{outline.host}:{port}" for port in ports]


@dataclass(frozen=True, slots=True)
class _Injection:
    secret: str
    taken: InheritedPart
    count: int
    rules: tuple[str, ...]
    """Empty: all rules."""


def _injections(outline: HostOutline, inherited: InheritedRules) -> list[_Injection]:
    made: dict[str, _Injection] = {}
    for (secret, slot), count in sorted(outline.secrets.items()):
        taken = inherited.injection(outline.host, secret, slot)
        if taken is None or outline.is_address or _unbound(outline, inherited, secret):
            continue
        ids = tuple(rule.id for rule in outline.rules if (secret, slot) in rule.group.secrets)
        if not ids:
            # The rules that used the secret are left out, and no other rule may send it.
            continue
        every = len(ids) == len(outline.rules)
        made.setdefault(flow(taken.fields), _Injection(secret, taken, count, () if every else ids))
    return list(made.values())


def _unbound(outline: HostOutline, inherited: InheritedRules, secret: str) -> str:
    """Explain why a secret may not go to every port of the host, as an entry requires; empty if it may."""
    if not inherited.is_bound(secret, outline.host, frozenset(outline.ports)):
        return "it is not bound to this host"
    if not inherited.knows(secret) and outline.ports.keys() - outline.secret_ports[secret]:
        ports = " and ".join(str(port) for port in sorted(outline.secret_ports[secret]))
        return f"it was sent to port {ports} only, and would be sent to every port of the host"
    return ""


# Entries --------------------------------------------------------------------------------------


def _entry(outline: HostOutline, inherited: InheritedRules, dropped: frozenset[str]) -> Iterator[YamlLine]:
    yield YamlLine(f"  {scalar(outline.host)}:", _about(outline))
    yield from (YamlLine(f"    # {remark}") for remark in outline.remarks)
    yield from (YamlLine(f"    # {remark}") for remark in _lost_secrets(outline, inherited))
    yield from _lost(outline, inherited)
    yield from _destination(outline, "    ")
    handling = inherited.handling(outline.host)
    fields = handling.fields if handling else {}
    if outline.is_tunnel:
        # Only limits apply to a tunnel.
        fields = {key: value for key, value in fields.items() if key == "limits"}
        yield YamlLine("    intercept: never", f"{WIDER}: a tunnel allows every request, unread")
    if outline.http2:
        yield YamlLine("    http2: true", f"used by {counted(outline.http2, 'request')}")
    for key, value in fields.items():
        yield YamlLine(f"    {key}: {_flow(value)}", handling.remark if handling else "")
    if outline.is_tunnel:
        return
    yield from _allow(outline.rules, "    ")
    yield from _own_denies(outline, inherited, dropped)
    items = _injections(outline, inherited)
    if items:
        yield YamlLine("    inject:")
    for item in items:
        remark = f"injected into {counted(item.count, 'request')}; {item.taken.remark}"
        fields = {**item.taken.fields, **({"for": list[Json](item.rules)} if item.rules else {})}
        for number, (key, value) in enumerate(fields.items()):
            yield YamlLine(f"      {'  ' if number else '- '}{key}: {_flow(value)}", "" if number else remark)


def _lost(outline: HostOutline, inherited: InheritedRules) -> Iterator[YamlLine]:
    yield from (YamlLine(f"    # {WIDER}: {remark}") for remark in inherited.lost(outline.host))


def _about(outline: HostOutline) -> str:
    if outline.is_tunnel:
        return counted(outline.tunnels, "unread connection")
    return counted(outline.requests, "request")


def _lost_secrets(outline: HostOutline, inherited: InheritedRules) -> Iterator[str]:
    for secret, slot in sorted(outline.secrets):
        if outline.is_address:
            yield "a secret was sent here, but an address never gets a secret: not injected"
        elif inherited.injection(outline.host, secret, slot) is None:
            yield f"the secret {scalar(secret)} is not injected: its format is unknown"
        elif why := _unbound(outline, inherited, secret):
            yield f"the secret {scalar(secret)} is not injected: {why}"


def _destination(outline: HostOutline, indent: str) -> Iterator[YamlLine]:
    ports, clear = sorted(outline.ports), sorted(outline.clear_ports)
    both = f"; {WIDER}: every rule applies to every port" if len(ports) + len(clear) > 1 else ""
    if ports != [443]:
        yield YamlLine(f"{indent}ports: {flow(list[Json](ports))}", f"observed ports{both if ports else ''}")
    if clear:
        what = f"clear text, in {counted(sum(outline.clear_ports.values()), 'request')}"
        yield YamlLine(f"{indent}http: {flow(list[Json](clear))}", f"{what}{both}")
    inside = sorted(outline.inside)
    if inside and not outline.is_address:
        own: list[Json] = [f"{address}/{128 if ':' in address else 32}" for address in inside]
        yield YamlLine(f"{indent}addresses: {flow(own)}", "the name resolved to a private network")


def _allow(rules: Iterable[RuleOutline], indent: str) -> Iterator[YamlLine]:
    yield YamlLine(f"{indent}allow:")
    for rule in rules:
        methods = list[Json](rule.methods)
        yield YamlLine(f"{indent}  - id: {scalar(rule.id)}", counted(rule.count, "request"))
        yield YamlLine(
            f"{indent}    methods: {flow(methods)}", "" if rule.templates else f"{WIDER}: on any path"
        )
        if rule.templates is not None:
            yield YamlLine(f"{indent}    paths:")
            yield from (_path(one, indent) for one in rule.templates)
        if rule.group.style == "socket":
            yield YamlLine(f"{indent}    websocket: true", f"{WIDER}: plain requests are allowed too")
        if rule.has_slash:
            yield YamlLine(f"{indent}    encoded_slash: data", "%2F was seen inside segments")


def _path(one: PathTemplate, indent: str) -> YamlLine:
    remark = counted(one.count, "request")
    if one.stars:
        kinds = " and ".join(_star(kind, number) for kind, number in one.stars)
        many = f" to {counted(one.paths, 'path')}" if one.paths > 1 else ""
        remark = f"{remark}{many}; {WIDER}: `*` is for {kinds}"
    return YamlLine(f"{indent}      - {scalar(one.pattern)}", remark)


def _star(kind: str, number: int) -> str:
    return f"{number} {_singular(kind) if number == 1 else kind}"


def _singular(kind: str) -> str:
    if kind == CREDENTIAL:
        return "value that looks like a credential"
    return {"hashes": "hash", "names with an asterisk in them": "name with an asterisk in it"}.get(
        kind, kind.removesuffix("s")
    )


# Inherited denies -----------------------------------------------------------------------------


Named = list[tuple[Deny, Fields]]
"""Current denies, each with its fields in the draft."""


def origins(
    found: Iterable[HostOutline], inherited: InheritedRules, dropped: frozenset[str]
) -> dict[str, str]:
    """Map each deny of the draft, as `key#id`, to its name in the current rules."""
    keys = [(_key(one), _denies(one, inherited, dropped)) for one in found]
    keys.append((TOP_DENY_KEY, _top_denies(inherited, dropped)))
    return {f"{key}#{fields['id']}": str(rule.ref) for key, named in keys for rule, fields in named}


def _denies(outline: HostOutline, inherited: InheritedRules, dropped: frozenset[str]) -> Named:
    return _named(inherited.denies(outline.host), {rule.id for rule in outline.rules} | _RESERVED, dropped)


def _top_denies(inherited: InheritedRules, dropped: frozenset[str]) -> Named:
    return _named(inherited.top_denies(), set(), dropped)


def _named(rules: Iterable[Deny], taken: set[str], dropped: frozenset[str]) -> Named:
    return [(rule, deny_fields(rule, taken)) for rule in rules if str(rule.ref) not in dropped]


def _key(outline: HostOutline) -> str:
    """Return the key of the entry."""
    bits = 128 if ":" in outline.host else 32
    return f"{outline.host}/{bits}" if outline.is_address else outline.host


def _own_denies(
    outline: HostOutline, inherited: InheritedRules, dropped: frozenset[str]
) -> Iterator[YamlLine]:
    if denies := _denies(outline, inherited, dropped):
        yield YamlLine("    deny:")
        yield from _deny_lines(denies, "      ")


def _deny_lines(named: Named, indent: str) -> Iterator[YamlLine]:
    for rule, fields in named:
        yield YamlLine(f"{indent}- {_flow(fields)}", f"as in {rule.ref.place}")


def _network(outline: HostOutline, inherited: InheritedRules, dropped: frozenset[str]) -> Iterator[YamlLine]:
    yield YamlLine(f"  - cidr: {scalar(_key(outline))}", _about(outline))
    yield from (YamlLine(f"    # {remark}") for remark in outline.remarks)
    yield from _lost(outline, inherited)
    yield from _destination(outline, "    ")
    yield from _allow(outline.rules, "    ")
    yield from _own_denies(outline, inherited, dropped)


def _flow(value: Json) -> str:
    """Format a value on one line, with spaces inside the braces."""
    if isinstance(value, dict) and value:
        return "{ " + ", ".join(f"{scalar(key)}: {_flow(item)}" for key, item in value.items()) + " }"
    return flow(value)
