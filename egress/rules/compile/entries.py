"""Compile `hosts:` and `networks:`: one entry from all the files and presets that describe it.

A host may be described by the file, by a preset, or by both. Each description becomes an `EntryPart`;
`assemble_entry` joins them: allow, deny and inject are united, for every other key the file wins.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from egress.request_name_folding import fold_parameter
from egress.rules.compile import parameters, single_rules
from egress.rules.compile.injections import inject_item
from egress.rules.compile.set_headers import check_set_headers, set_headers
from egress.rules.compile.uses import PresetUse
from egress.rules.decide.entry import Entry, Handling, NetworkEntry, Rule, ScopedInjection
from egress.rules.language.hosts import HostPattern
from egress.rules.language.model import Host, Network, Treatment
from egress.rules.language.report import DocumentCursor, Report, quoted
from egress.types import Headers

METADATA_ADDRESSES = tuple(
    ipaddress.ip_address(text)
    for text in ("169.254.169.254", "fd00:ec2::254", "168.63.129.16", "100.100.100.200")
)
_TUNNEL_KEYS = frozenset({"ports", "addresses", "expires", "limits", "intercept", "tests"})


@dataclass(slots=True)
class EntryPart:
    """The description of a host by one file or preset."""

    key: str
    at: DocumentCursor
    pattern: HostPattern | None
    model: Host | Network
    ids: single_rules.RuleIds
    use: PresetUse | None = None
    """The use of a preset; None for the file itself."""
    allow: list[Rule] = field(default_factory=list)
    has_allow: bool = False
    deny: list[Rule] = field(default_factory=list)
    lifted: list[Rule] = field(default_factory=list)
    """The denies of the preset that the file lifts."""
    inject: list[ScopedInjection] = field(default_factory=list)
    set_headers: Headers = ()


def read_part(
    key: str,
    model: Host,
    pattern: HostPattern,
    at: DocumentCursor,
    ids: single_rules.RuleIds,
    *,
    use: PresetUse | None,
) -> EntryPart:
    """Read one description; report mistakes within it."""
    part = EntryPart(key, at, pattern, model, ids, use)
    _read_rules(part)
    for number, item in enumerate(model.inject or ()):
        injection = inject_item(item, at / "inject" / number)
        if injection is not None:
            # Ids of a preset's rules carry its name, so `for:` inside the preset means those.
            if ids.prefix and injection.rules is not None:
                injection = replace(injection, rules=frozenset(ids.prefix + name for name in injection.rules))
            part.inject.append(injection)
    part.set_headers = set_headers(model.set_headers or {}, at / "set_headers")
    if model.intercept == "never":
        _check_tunnel(model, at)
    return part


def _read_rules(part: EntryPart) -> None:
    model, at, ids = part.model, part.at, part.ids
    written = _written(model, single_rules.PREDICATE_KEYS)
    if isinstance(model.allow, list):
        part.has_allow = True
        part.allow = [
            parameters.allow_rule(rule, at / "allow" / n, ids) for n, rule in enumerate(model.allow)
        ]
        for name in (*written, *_written(model, single_rules.SWITCH_KEYS)):
            (at / name).key_error(
                f"{quoted(name)} cannot be combined with a list of allow rules",
                "move it into the rules it is meant for",
            )
    elif model.allow == "all" or written:
        # No list: the entry is its own rule, narrowed by the predicates written on it.
        part.has_allow = True
        if model.allow == "all" and written:
            (at / written[0]).key_error(
                f"{quoted(written[0])} cannot be combined with `allow: all`", "remove either of them"
            )
        part.allow = [parameters.implicit_rule(model, at, ids)]
    for number, written_deny in enumerate(model.deny or ()):
        is_lifted = part.use is not None and bool(part.use.lifts(written_deny.id))
        denies = part.lifted if is_lifted else part.deny
        denies.append(single_rules.deny_rule(written_deny, at / "deny" / number, ids))


def _written(model: Host | Network, names: Sequence[str]) -> list[str]:
    return [name for name in names if getattr(model, name, None) is not None]


def _check_tunnel(model: Host, at: DocumentCursor) -> None:
    # A rule that looks enforced in a tunnel and is not would deceive its author.
    for name in sorted(model.model_fields_set - _TUNNEL_KEYS):
        shown = "for" if name == "only_for" else name
        if name == "mode" or getattr(model, name) is not None:
            (at / shown).key_error(
                f"{quoted(shown)} has no effect: `intercept: never` passes the bytes through unread",
                "remove either of them",
            )
    if model.limits is not None:
        for name in sorted(model.limits.model_fields_set - {"connections"}):
            (at / "limits" / name).key_error(
                f"{quoted(name)} has no effect: `intercept: never` passes the bytes through unread",
                "only `connections` can be limited",
            )


def assemble_entry(parts: Sequence[EntryPart], report: Report) -> Entry:
    """Join all `parts` to the entry. The file's own part, if present, comes last."""
    main = parts[-1]
    at, model = main.at, main.model
    allow = [rule for part in parts for rule in part.allow]
    # Closed by a typo, or open by accident? An entry with denies or secrets must say it.
    if not any(part.has_allow for part in parts):
        if any(part.deny or part.inject or (part.model.deny is not None) for part in parts) or has_inject_key(
            parts
        ):
            report.error(
                at.key_place,
                "this entry has `deny` or `inject` but no `allow`",
                "write `allow: all`, or list what is allowed",
            )
        allow = [parameters.implicit_rule(model, at, main.ids)]
    _refuse_idle_switches(parts)
    _refuse_kept_credentials(parts)
    inject = [item for part in parts for item in part.inject]
    for part in parts:
        check_set_headers(part.set_headers, inject, part.at / "set_headers")
    is_virtual = _last(parts, "virtual") is True
    if is_virtual:
        _check_virtual(parts)
    ports, clear_ports = _ports(parts, is_virtual=is_virtual)
    if not ports and not clear_ports:
        report.error(
            (at / "ports").place, "this entry has no port", "add `http` beside `ports: []`, or remove `ports`"
        )
    return Entry(
        key=main.key,
        place=at.key_place,
        pattern=main.pattern,
        ports=ports,
        clear_ports=clear_ports,
        allow=tuple(allow),
        deny=tuple(rule for part in parts for rule in part.deny),
        lifted=tuple(rule for part in parts for rule in part.lifted),
        inject=tuple(inject),
        # By name: the value of the file takes the place of that of a preset.
        set_headers=tuple(dict(pair for part in parts for pair in part.set_headers).items()),
        intercept=_last(parts, "intercept") != "never",
        http2=_last(parts, "http2") is True,
        mode=_last(parts, "mode"),  # type: ignore[arg-type]
        handling=_handling(parts),
        misplaced_pass=_last(parts, "misplaced") == "pass",
        expires=_expires(parts),
        addresses=_addresses(parts),
        is_virtual=is_virtual,
        is_whole=len(allow) == 1 and not allow[0].predicates,
    )


def _refuse_kept_credentials(parts: Sequence[EntryPart]) -> None:
    """Refuse to keep the value of a query parameter that this entry has a credential for."""
    slots = [slot for part in parts for item in part.inject for slot in (*item.injection.slots, *item.strip)]
    taken = {fold_parameter(slot.name) for slot in slots if slot.kind == "query"}
    for part in parts:
        written: list[tuple[Treatment, DocumentCursor]] = []
        if isinstance(part.model, Host):
            written.append((part.model, part.at))
        if isinstance(part.model.allow, list):
            written += [(rule, part.at / "allow" / n) for n, rule in enumerate(part.model.allow)]
        for model, at in written:
            for number, name in enumerate(model.audit.query if model.audit is not None else ()):
                if fold_parameter(name) in taken:
                    (at / "audit" / "query" / number).error(
                        f"{quoted(name)} is the slot of a credential, and its value is never kept",
                        "remove it; the log has its name",
                    )


def _refuse_idle_switches(parts: Sequence[EntryPart]) -> None:
    """Refuse a switch that has no whole-host rule in its own part: it would have no effect."""
    if any(part.has_allow for part in parts):
        for part in parts:
            for name in [] if part.has_allow else _written(part.model, single_rules.SWITCH_KEYS):
                (part.at / name).key_error(
                    f"{quoted(name)} has no effect here: the preset brings its own rules",
                    "write a rule with it under `allow`",
                )


def _expires(parts: Sequence[EntryPart]) -> int | None:
    for part in reversed(parts):
        if isinstance(part.model, Host) and part.model.expires is not None:
            return single_rules.expires_of(part.model.expires, part.at / "expires")
    return None


def has_inject_key(parts: Sequence[EntryPart]) -> bool:
    """Report whether any part has the key `inject`, even if all its items were refused."""
    return any(getattr(part.model, "inject", None) is not None for part in parts)


def _last(parts: Sequence[EntryPart], name: str) -> object:
    """Return the value of a key in the last part that has it."""
    for part in reversed(parts):
        if name in part.model.model_fields_set:
            return getattr(part.model, name)
    return None


def _check_virtual(parts: Sequence[EntryPart]) -> None:
    """Refuse keys that are about an upstream, which a virtual host has not."""
    for part in parts:
        for name in _written(part.model, ("inject", "addresses", "redirects", "mode")):
            (part.at / name).key_error(
                f"{quoted(name)} has no effect: a virtual host has no upstream", "remove either of them"
            )


def _ports(parts: Sequence[EntryPart], *, is_virtual: bool) -> tuple[frozenset[int], frozenset[int]]:
    ports, http = _last(parts, "ports"), _last(parts, "http")
    https = frozenset(ports) if isinstance(ports, list) else frozenset({443})
    # Clear text is never a default: the network on the way can read and change it.
    # What a virtual host gets goes no further than this process.
    is_open = is_virtual if http is None else bool(http)
    clear = frozenset(http) if isinstance(http, list) else frozenset({80} if is_open else ())
    return https, clear


def _handling(parts: Sequence[EntryPart]) -> Handling:
    hosts = [(part.model, part.at) for part in parts if isinstance(part.model, Host)]
    handlings = [single_rules.handling_of(model, at) for model, at in hosts]
    handling = Handling()
    for later in handlings:
        handling = Handling(
            later.limit or handling.limit,
            later.scrub or handling.scrub,
            later.redirects or handling.redirects,
            later.cookies or handling.cookies,
            later.kept_query or handling.kept_query,
            later.handler or handling.handler,
        )
    return handling


def _addresses(parts: Sequence[EntryPart]) -> tuple[str, ...]:
    for part in reversed(parts):
        if isinstance(part.model, Host) and part.model.addresses is not None:
            texts = part.model.addresses
            for number, text in enumerate(texts):
                _network(text, part.at / "addresses" / number)
            return tuple(texts)
    return ()


def _network(text: str, at: DocumentCursor) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        at.error(
            f"{quoted(text)} is not a network",
            "write it as in 10.1.0.0/16, with zero bits after the prefix",
        )
        return None
    if str(network) != text and str(network.network_address) != text:
        at.error(f"{quoted(text)} is not the canonical spelling of the network", f"write {network}")
    # The metadata service hands out cloud credentials: a wide network must not open it by accident.
    for address in METADATA_ADDRESSES:
        if address.version == network.version and address in network and network.num_addresses > 1:
            at.warning(
                f"{text} contains the metadata address {address}, which stays blocked",
                f"to allow it, list its own /{address.max_prefixlen}",
            )
    return network


def network_entry(model: Network, at: DocumentCursor, report: Report) -> NetworkEntry | None:
    """Compile an item of `networks:`."""
    network = _network(model.cidr, at / "cidr")
    part = EntryPart(model.cidr, at, None, model, single_rules.RuleIds(model.cidr))
    _read_rules(part)
    entry = assemble_entry([part], report)
    return None if network is None else NetworkEntry(network, replace(entry, addresses=(str(network),)))
