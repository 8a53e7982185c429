"""Write a policy as one rule file: files joined, presets expanded, defaults spelled out.

The text can be loaded again and gives the same verdicts. A comment beside each entry and rule names its
origin. Secrets appear by name and source, as in the files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal

from egress.inspect.kinds import KINDS
from egress.rules.compile.body_rules import implied_paths, takes_encoded_slash
from egress.rules.compile.budget_writer import FieldsJson, budget_fields, price_table_fields
from egress.rules.compile.single_rules import IMPLICIT_RULE_ID
from egress.rules.decide.entry import Entry, Handling, Rule, ScopedInjection
from egress.rules.decide.overlay import Delegation
from egress.rules.decide.policy import (
    CANARY_VALUE_MARK,
    CanarySpec,
    ParameterSpec,
    Policy,
    Profile,
    SecretSpec,
)
from egress.rules.decide.predicates import NamedGlob, Predicates
from egress.types import (
    InjectBasic,
    InjectCookie,
    InjectHeader,
    Injection,
    InjectPlaceholder,
    InjectQuery,
    Limit,
    OnExisting,
    Place,
)

Json = FieldsJson
Fields = dict[str, Json]

_PLAIN_SCALAR = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
# Some YAML readers take `no` or `on` for a boolean, so such words are written in quotes.
_RESERVED_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_MAX_LINE_CHARS = 100
"""Rules longer than this are written over several lines."""
_RATE_UNITS = {1: "second", 60: "minute", 3600: "hour"}


def as_text(policy: Policy) -> str:
    """Return the whole policy as the text of a rule file."""
    return "\n".join(_lines(policy)) + "\n"


def as_data(policy: Policy) -> dict[str, object]:
    """Return the whole policy as plain data for programs, with places."""
    return {
        "digest": policy.digest,
        "mode": policy.mode,
        "limits": limit_fields(policy.limit) if policy.limit else None,
        "secrets": {name: secret_fields(spec) for name, spec in policy.secrets.items()},
        "canaries": {each.name: canary_fields(each) for each in policy.canaries},
        "hosts": {entry.key: _entry_data(entry) for entry in policy.entries.values()},
        "networks": [{"cidr": item.entry.key, **_entry_data(item.entry)} for item in policy.networks],
        "deny": [_rule_data(rule) for rule in policy.deny],
        "profiles": None
        if policy.profiles is None
        else {name: profile_fields(profile) for name, profile in policy.profiles.items()},
        "parameters": {
            name: {**parameter_fields(s), "place": str(s.place)} for name, s in policy.parameters.items()
        },
        "budgets": {n: {**budget_fields(s), "place": str(s.place)} for n, s in policy.budgets.items()},
        "prices": {**price_table_fields(policy.prices), "digest": policy.prices.digest}
        if policy.prices.prices
        else None,
        "delegate": [{**delegation_fields(d), "place": str(d.place)} for d in policy.delegations],
    }


def _entry_data(entry: Entry) -> dict[str, object]:
    return {
        **entry_fields(entry),
        "place": str(entry.place),
        "allow": [_rule_data(rule) for rule in entry.allow],
        "deny": [_rule_data(rule) for rule in entry.deny],
        "lifted": [_rule_data(rule) for rule in entry.lifted],
        "inject": [{**inject_fields(item), "place": str(item.place)} for item in entry.inject],
    }


def _rule_data(rule: Rule) -> dict[str, object]:
    return {**rule_fields(rule), "place": str(rule.ref.place)}


# The text -------------------------------------------------------------------------------------


def _lines(policy: Policy) -> Iterator[str]:
    yield "version: 1"
    if policy.mode != "enforce":
        yield f"mode: {policy.mode}"
    if policy.limit is not None:
        yield f"limits: {flow(limit_fields(policy.limit))}"
    yield from _section("secrets", {name: (secret_fields(s), s.place) for name, s in policy.secrets.items()})
    yield from _section(
        "canaries", {each.name: (canary_fields(each), each.place) for each in policy.canaries}
    )
    # Entries come in file order, which the reader of the output knows from the input.
    for number, entry in enumerate(policy.entries.values()):
        yield from ("",) if number else ("", "hosts:")
        yield from _entry_lines(entry)
    yield from _rule_lines("deny", policy.deny, "")
    if policy.networks:
        yield from ("", "networks:")
    for item in policy.networks:
        fields: Fields = {"cidr": item.entry.key, **entry_fields(item.entry), **_network_rules(item.entry)}
        yield f"  - {flow(fields)}{_origin(item.entry.place)}"
    if policy.profiles is not None:
        profiles = {name: (profile_fields(p), p.place) for name, p in policy.profiles.items()}
        # Empty profiles deny every sandbox; without the key each sandbox would get all rules.
        yield from _section("profiles", profiles) if profiles else ("", "profiles: {}")
    parameters = {name: (parameter_fields(each), each.place) for name, each in policy.parameters.items()}
    yield from _section("parameters", parameters)
    yield from _section("budgets", {name: (budget_fields(s), s.place) for name, s in policy.budgets.items()})
    if policy.prices.prices:
        prices = price_table_fields(policy.prices)
        yield from ("", "prices:", f"  date: {flow(policy.prices.date)}", "  models:")
        models = prices["models"]
        yield from (f"    - {flow(item)}" for item in (models if isinstance(models, list) else ()))
    if policy.delegations:
        yield from ("", "delegate:")
    for delegation in policy.delegations:
        yield from _item_lines(delegation_fields(delegation), delegation.place, "  ")


def _section(name: str, items: dict[str, tuple[Fields, Place]]) -> Iterator[str]:
    if items:
        yield from ("", f"{name}:")
    for key, (fields, place) in items.items():
        yield f"  {scalar(key)}: {flow(fields)}{_origin(place)}"


def _entry_lines(entry: Entry) -> Iterator[str]:
    yield f"  {scalar(entry.key)}:{_origin(entry.place)}"
    yield from _field_lines(entry_fields(entry), "    ")
    if _has_implicit_rule(entry):
        yield from _field_lines(_implicit_fields(entry), "    ")
    # An empty list closes the host; leaving the key out would open it.
    elif not entry.allow:
        # Written out, because an entry without `allow` allows every request.
        yield "    allow: []"
    else:
        yield from _rule_lines("allow", entry.allow, "    ")
    yield from _rule_lines("deny", entry.deny, "    ")
    for rule in entry.lifted:
        yield f"    # lifted: {rule.ref.id}{_origin(rule.ref.place)}"
    if entry.inject:
        yield "    inject:"
    for item in entry.inject:
        yield from _item_lines(inject_fields(item), item.place, "      ")


def _implicit_fields(entry: Entry) -> Fields:
    """Return the fields of an entry's implicit rule: its predicates, or `allow: all`."""
    predicates = entry.allow[0].written
    fields = predicate_fields(predicates)
    # Without any predicate the entry would read as `{}`; `allow: all` says it openly.
    if entry.intercept and not fields.keys() - {"encoded_slash"}:
        fields["allow"] = "all"
    if predicates.websocket:
        fields["websocket"] = True
    return fields


def _rule_lines(name: str, rules: tuple[Rule, ...], indent: str) -> Iterator[str]:
    if rules:
        yield f"{indent}{name}:" if indent else f"\n{name}:"
    for rule in rules:
        yield from _item_lines(rule_fields(rule), rule.ref.place, f"{indent}  ")


def _item_lines(fields: Fields, place: Place, indent: str) -> Iterator[str]:
    """Yield a list item: on one line if it fits, else with a line for each key."""
    short = f"{indent}- {flow(fields)}"
    if len(short) <= _MAX_LINE_CHARS:
        yield short + _origin(place)
        return
    first, *rest = _field_lines(fields, f"{indent}  ")
    yield f"{indent}- {first.lstrip()}{_origin(place)}"
    yield from rest


def _field_lines(fields: Fields, indent: str) -> Iterator[str]:
    for name, value in fields.items():
        short = f"{indent}{scalar(name)}: {flow(value)}"
        if isinstance(value, list) and len(short) > _MAX_LINE_CHARS:
            yield f"{indent}{scalar(name)}:"
            yield from (f"{indent}  - {flow(item)}" for item in value)
        else:
            yield short


def _origin(place: Place) -> str:
    # A line break in a file name would end the comment, and its rest would be read as rules.
    return f"  # {_visible(str(place))}"


def _has_implicit_rule(entry: Entry) -> bool:
    """Report whether the rule can be written on the entry itself, without a list of rules."""
    if len(entry.allow) != 1:
        return False
    rule = entry.allow[0]
    return rule.ref.id == IMPLICIT_RULE_ID and rule.handling == Handling() and rule.expires is None


def _network_rules(entry: Entry) -> Fields:
    allow: Json = "all" if _has_implicit_rule(entry) else [dict(rule_fields(rule)) for rule in entry.allow]
    fields: Fields = {"allow": allow}
    if entry.deny:
        fields["deny"] = [dict(rule_fields(rule)) for rule in entry.deny]
    return fields


def flow(value: Json) -> str:
    """Return a value in YAML's one-line form."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{scalar(key)}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(item) for item in value) + "]"
    return scalar(value)


def scalar(value: str | float) -> str:
    """Return a scalar, quoted if YAML could read it as another type."""
    # Before the integers, since Python counts `True` among them.
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        # Without an exponent, which YAML readers take for a text.
        return format(Decimal(repr(value)), "f")
    # YAML reads `no` and `on` as booleans, so such words are quoted although they are plain text.
    if _PLAIN_SCALAR.fullmatch(value) and value.lower() not in _RESERVED_WORDS:
        return value
    plain = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_visible(plain)}"'


def _visible(text: str) -> str:
    """Replace characters that a terminal would act on, or not show, by YAML's own escapes."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    number = ord(character)
    return (
        f"\\x{number:02x}"
        if number < 0x100
        else f"\\u{number:04x}"
        if number < 0x10000
        else f"\\U{number:08x}"
    )


# The parts ------------------------------------------------------------------------------------


def secret_fields(spec: SecretSpec) -> Fields:
    """Return the source and bindings of a secret."""
    # Commands stay lists, so that no word of them is ever split again by a shell.
    source: Json = (
        {"command": list(spec.reference)}
        if spec.scheme == "command"
        else f"{spec.scheme}:{'/'.join(spec.reference)}"
    )
    fields: Fields = {"from": source, "hosts": [str(binding) for binding in spec.bindings]}
    if spec.ttl is not None:
        fields["ttl"] = spec.ttl
    return fields | _expires(spec.expires)


def canary_fields(canary: CanarySpec) -> Fields:
    """Return the shape and places of a canary; its value is made for each sandbox."""
    fields: Fields = {"like": canary.like}
    if canary.env:
        fields["env"] = canary.env
    if canary.file:
        fields["file"] = canary.file
    # The bare value is the default content, so it is not spelled out.
    if canary.text != CANARY_VALUE_MARK:
        fields["text"] = canary.text
    return fields | ({"stop": True} if canary.stop else {})


def entry_fields(entry: Entry) -> Fields:
    """Return all fields of an entry except rules and injections, if they differ from the default."""
    fields: Fields = {}
    if not entry.intercept:
        fields["intercept"] = "never"
    if entry.ports != {443}:
        fields["ports"] = list[Json](sorted(entry.ports))
    # A virtual host is open on port 80 unless it says otherwise.
    if entry.clear_ports or entry.is_virtual:
        fields["http"] = list[Json](sorted(entry.clear_ports))
    if entry.is_virtual:
        fields["virtual"] = True
    if entry.http2:
        fields["http2"] = True
    if entry.mode is not None:
        fields["mode"] = entry.mode
    if entry.misplaced_pass:
        fields["misplaced"] = "pass"
    # A network's address is its own range already; a host only lists addresses that were opened for it.
    if entry.pattern is not None and entry.addresses:
        fields["addresses"] = list[Json](entry.addresses)
    if entry.set_headers:
        fields["set_headers"] = dict[str, Json](entry.set_headers)
    return fields | handling_fields(entry.handling) | _expires(entry.expires)


def parameter_fields(spec: ParameterSpec) -> Fields:
    """Return the fields of a parameter."""
    fields: Fields = {"pattern": spec.pattern.text}
    return fields if spec.default is None else {**fields, "default": spec.default}


def rule_fields(rule: Rule) -> Fields:
    """Return the fields of a rule."""
    fields: Fields = {"id": rule.ref.id, **predicate_fields(rule.written)}
    if rule.written.websocket:
        fields["websocket"] = True
    if rule.ref.reason:
        fields["reason"] = rule.ref.reason
    return fields | handling_fields(rule.handling) | _expires(rule.expires)


def predicate_fields(predicates: Predicates) -> Fields:
    """Return the predicates of a rule, except `websocket`."""
    fields: Fields = {}
    if predicates.hosts:
        fields["hosts"] = [str(pattern) for pattern in predicates.hosts]
    if predicates.methods is not None:
        fields["methods"] = list[Json](sorted(predicates.methods))
    if predicates.paths is not None and predicates.paths != implied_paths(predicates.body):
        fields["paths"] = [glob.text for glob in predicates.paths]
    if predicates.query:
        fields["query"] = _named(predicates.query)
    if predicates.headers:
        fields["headers"] = _named(predicates.headers)
    if predicates.content_types:
        fields["content_type"] = list[Json](predicates.content_types)
    if predicates.encoded_slash and not takes_encoded_slash(predicates.body):
        fields["encoded_slash"] = "data"
    if predicates.body is not None:
        # A kind may be one of several below the same key.
        fields[predicates.body.kind.partition(".")[0]] = dict(predicates.body.fields())
        if predicates.methods == KINDS[predicates.body.kind].methods:
            del fields["methods"]  # implied by the kind
    return fields


def handling_fields(handling: Handling) -> Fields:
    """Return the treatment of responses and the limits."""
    fields: Fields = {}
    if handling.limit is not None:
        fields["limits"] = limit_fields(handling.limit)
    if handling.redirects is not None:
        fields["redirects"] = handling.redirects.value
    if handling.cookies is not None:
        fields["cookies"] = handling.cookies.value
    if handling.scrub is not None:
        fields["scrub"] = handling.scrub.value
    if handling.kept_query:
        fields["audit"] = {"query": list[Json](sorted(handling.kept_query))}
    if handling.handler is not None:
        params = json.loads(handling.handler.params)
        fields["handler"] = {"use": handling.handler.name, **({"with": params} if params else {})}
    if handling.unmetered:
        fields["unmetered"] = True
    return fields


def limit_fields(limit: Limit) -> Fields:
    """Return the limits written at one place."""
    fields: Fields = {}
    if limit.requests is not None:
        fields["requests"] = f"{limit.requests.count}/{_RATE_UNITS[limit.requests.seconds]}"
        if limit.requests.burst != limit.requests.count:
            fields["burst"] = limit.requests.burst
    if limit.request_body is not None:
        fields["request_body"] = _size(limit.request_body)
    if limit.response_body is not None:
        fields["response_body"] = _size(limit.response_body)
    if limit.connections is not None:
        fields["connections"] = limit.connections
    return fields


def _size(number: int) -> Json:
    """Return a number of bytes as people write it."""
    for unit, size in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if number and number % size == 0:
            return f"{number // size} {unit}"
    return number


def inject_fields(item: ScopedInjection) -> Fields:
    """Return an item of an `inject:` list."""
    fields = _injection_fields(item.injection)
    if not isinstance(item.injection, InjectPlaceholder) and item.injection.on_existing is OnExisting.FAIL:
        fields["on_existing"] = "fail"
    if item.rules is not None:
        fields["for"] = list[Json](sorted(item.rules))
    if item.strip:
        fields["strip"] = [str(slot) for slot in item.strip]
    return fields


def _injection_fields(injection: Injection) -> Fields:
    match injection:
        # The short form comes first: `bearer:` is a header with exactly this shape.
        case InjectHeader(secret, "authorization", "Bearer ", ""):
            return {"bearer": secret}
        case InjectHeader(secret, name, prefix, suffix):
            return {"header": {"name": name, "secret": secret, "format": f"{prefix}{{}}{suffix}"}}
        case InjectBasic(secret, user):
            return {"basic": {"user": user, "secret": secret}}
        case InjectQuery(secret, name):
            return {"query": {"name": name, "secret": secret}}
        case InjectCookie(secret, name):
            return {"cookie": {"name": name, "secret": secret}}
        case InjectPlaceholder(secret, like, slots, most):
            places: list[Json] = [str(slot) for slot in slots]
            return {"placeholder": {"secret": secret, "like": like, "in": places, "max": most}}


def profile_fields(profile: Profile) -> Fields:
    """Return a profile; a set has no order, so its parts are sorted."""
    fields: Fields = {"hosts": list[Json](sorted(profile.keys))}
    rules: list[Json] = [
        f"{key}#{name}" for key, names in sorted(profile.rules.items()) for name in sorted(names)
    ]
    return fields | ({"rules": rules} if rules else {})


def delegation_fields(delegation: Delegation) -> Fields:
    """Return an item of `delegate:`."""
    to: Fields = {}
    if delegation.sandboxes is not None:
        to["sandboxes"] = [glob.text for glob in delegation.sandboxes]
    if delegation.holders is not None:
        to["profiles"] = list[Json](sorted(delegation.holders))
    fields: Fields = {"id": delegation.id, "to": to, "ttl": delegation.ttl}
    if delegation.hosts:
        fields["may"] = list[Json](sorted(delegation.kinds - {"profile"}))
        fields["hosts"] = [str(pattern) for pattern in delegation.hosts]
    if delegation.ports != {443}:
        fields["ports"] = list[Json](sorted(delegation.ports))
    fields |= predicate_fields(delegation.predicates)
    if delegation.profiles:
        fields["profiles"] = list[Json](sorted(delegation.profiles))
    return fields


def _named(globs: tuple[NamedGlob, ...]) -> Fields:
    return {
        _as_written(want.name): {"absent": True} if want.glob is None else _as_written(want.glob.text)
        for want in globs
    }


def _as_written(text: str) -> str:
    """Undo `to_wire_text`: return the text a person wrote for these bytes."""
    return text if text.isascii() else text.encode("latin-1").decode("utf-8", "replace")


def _expires(moment: int | None) -> Fields:
    if moment is None:
        return {}
    return {"expires": datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
