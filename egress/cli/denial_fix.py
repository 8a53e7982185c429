"""Advise how to allow a denied request: a sentence, and the YAML for it.

Pure, and advice only: it may be incomplete if several obstacles exist. The YAML is the narrowest that fits
the request, because a hint that is pasted unread should open little.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from egress.errors import CODES
from egress.inspect.kinds import KINDS
from egress.rules.compile.policy_writer import Fields, flow
from egress.rules.compile.single_rules import IMPLICIT_RULE_ID
from egress.rules.decide.entry import Entry
from egress.rules.decide.explain import WEBSOCKET_MISSES, Explanation
from egress.rules.decide.globs import GlobError, path_glob
from egress.rules.decide.policy import Policy
from egress.rules.language.hosts import is_address
from egress.rules.language.report import did_you_mean
from egress.types import GrantRef, Head, Verdict

_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")


@dataclass(frozen=True, slots=True)
class DenialFix:
    """A sentence for a person; `yaml` is the text to add, line by line, or empty."""

    sentence: str
    yaml: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeniedRequest:
    """A denied request, with the rules and the explanation."""

    policy: Policy
    head: Head
    answer: Explanation


def find_fix(policy: Policy, head: Head, answer: Explanation) -> DenialFix:
    """Advise on a denial. Never suggests to weaken a check that the rules make elsewhere."""
    code = answer.decision.code
    if code in _ADVICE:
        return _ADVICE[code](DeniedRequest(policy, head, answer))
    hint = CODES[code].hint if code in CODES else ""
    return DenialFix(hint[:1].lower() + hint[1:].removesuffix("."))


def _unknown_host(asked: DeniedRequest) -> DenialFix:
    near = f" (did you mean {', '.join(asked.answer.near)}?)" if asked.answer.near else ""
    return DenialFix(
        f"to allow the whole host, add it to the rules{near}:",
        ("hosts:", f"  {flow(asked.head.host)}: {flow(_port_fields(asked.head))}"),
    )


def _port_fields(head: Head) -> Fields:
    if head.scheme == "http":
        return {"ports": [], "http": [head.port]}
    return {} if head.port == 443 else {"ports": [head.port]}


def _literal(asked: DeniedRequest) -> DenialFix:
    if not is_address(asked.head.host):
        return DenialFix("use the name of the host")
    # A single address and never its network: the narrowest entry that fits.
    bits = 128 if ":" in asked.head.host else 32
    return DenialFix(
        "to allow the address itself, which never gets a secret, add it:",
        (
            "networks:",
            f"  - {flow({'cidr': f'{asked.head.host}/{bits}', **_port_fields(asked.head), 'allow': 'all'})}",
        ),
    )


def _port(asked: DeniedRequest) -> DenialFix:
    entry = asked.answer.entry
    # Open ports are repeated, because the key replaces the whole list.
    ports = sorted({asked.head.port, *(entry.ports if entry else ())})
    return _addition("to open the port", entry, f"ports: {ports}")


def _clear_text(asked: DeniedRequest) -> DenialFix:
    entry = asked.answer.entry
    # Clear text would show the credential to every hop, so the advice stops here.
    if entry is not None and entry.inject:
        return DenialFix("use https: a host that gets a credential is never opened for clear text")
    ports = sorted({asked.head.port, *(entry.clear_ports if entry else ())})
    return _addition("use https; to allow clear text instead", entry, f"http: {ports}")


def _closed(asked: DeniedRequest) -> DenialFix:
    if any(item.kind is Verdict.ALLOW for item in asked.answer.considered):
        return DenialFix("no allow rule is in force: see the reasons above")
    return DenialFix(f"`allow: []` closes the host; add an allow rule {_at(asked.answer.entry)}")


def _excluded(asked: DeniedRequest) -> DenialFix:
    profile = (asked.policy.profiles or {}).get(asked.answer.profile or "")
    where = f" ({profile.place})" if profile else ""
    key = asked.answer.entry.key if asked.answer.entry else asked.head.host
    return DenialFix(
        f"to include it, add {flow(key)} to `hosts` of the profile {asked.answer.profile}{where}"
    )


def _unknown_profile(asked: DeniedRequest) -> DenialFix:
    profiles, name = asked.policy.profiles or (), asked.answer.profile or ""
    meant = did_you_mean(name, profiles) or f"profiles: {', '.join(profiles)}"
    if name == "default":
        meant = f"choose with --profile: {', '.join(profiles)}"
    return DenialFix(f"the rules have no profile `{name}`; {meant}")


def _method(asked: DeniedRequest) -> DenialFix:
    # Methods are case sensitive in HTTP, and a server may treat `get` as unknown.
    if asked.head.method.upper() in _METHODS and asked.head.method not in _METHODS:
        return DenialFix(f"methods are upper case: use {asked.head.method.upper()}")
    return DenialFix("use another method: Egress never forwards this one")


def _denied(asked: DeniedRequest) -> DenialFix:
    rule = asked.answer.decision.rule
    if rule is None:
        return DenialFix("")
    if isinstance(rule, GrantRef):
        return DenialFix(
            f"it was denied to this sandbox for now: `egress policy NAME --undo {rule.id}` lifts it"
        )
    # A deny of a preset has no line in the operator's own file that could be edited.
    if rule.place.via:
        used = f"{rule.place.file}:{rule.place.line}"
        return DenialFix(
            f"a deny wins over every allow, and this deny is part of the preset: `without: [{rule.id}]` "
            f"beside the preset at {used} lifts it"
        )
    return DenialFix(f"a deny wins over every allow: narrow or remove {rule}")


def _no_rule(asked: DeniedRequest) -> DenialFix:
    entry = asked.answer.entry
    if entry is None:
        return DenialFix("")
    # An entry without a list has no place for a new rule; its own predicates must change.
    if any(rule.ref.id == IMPLICIT_RULE_ID and not rule.ref.place.via for rule in entry.allow):
        return DenialFix(f"widen the predicates {_at(entry)}, or add a list of allow rules")
    # The query is dropped: a value in it may be a token, and the hint gets pasted into a file.
    path = asked.answer.decision.target.partition("?")[0]
    if not _is_its_own_pattern(path):
        return DenialFix(
            f"to allow it, add a rule {_at(entry)}; no pattern in `paths` can match exactly this path"
        )
    fields: Fields = {"id": "new", "methods": [asked.head.method], "paths": [path]}
    # Without this field, an encoded slash is refused before any rule is compared.
    if "%2F" in path:
        fields["encoded_slash"] = "data"
    if asked.head.websocket:
        fields["websocket"] = True
    # The list is there already: a second `allow` in the entry would be a mistake.
    if any(not rule.ref.place.via for rule in entry.allow):
        return DenialFix(f"to allow only this, add to `allow` {_at(entry)}:", (f"- {flow(fields)}",))
    return _addition("to allow only this", entry, "allow:", f"  - {flow(fields)}")


def _addition(purpose: str, entry: Entry | None, *lines: str) -> DenialFix:
    """Say what to add to an entry; beside that of a preset it stands in an entry of the file."""
    if entry is not None and entry.place.via:
        own = ("hosts:", f"  {flow(entry.key)}:", *(f"    {line}" for line in lines))
        return DenialFix(f"{purpose}, add to the preset's entry:", own)
    return DenialFix(f"{purpose}, add {_at(entry)}:", lines)


def _is_its_own_pattern(path: str) -> bool:
    """Report whether the path, written as a pattern, matches only itself: never propose a wider rule."""
    try:
        return path_glob(path, encoded_slash=True).is_literal
    except GlobError:
        return False


def _body_type(asked: DeniedRequest) -> DenialFix:
    kind = KINDS.get(asked.answer.decision.body_kind)
    if kind is None or asked.head.method not in kind.methods:
        return DenialFix("send it as that type")
    if kind.name == "git":
        # The body of a push is binary, so no command line has it.
        return DenialFix(
            "rules with `git:` decide on the refs of a push: try one as a test of the rules, such as "
            "`{ git: push acme/app refs/heads/x, expect: allow }`"
        )
    return DenialFix(
        f"rules with `{kind.name}:` read the body: give it with --{kind.name}, or with --body and "
        f"--header 'content-type: {min(kind.media_types)}'"
    )


def _root_field(asked: DeniedRequest) -> DenialFix:
    operation, _, field = asked.answer.decision.item.partition(".")
    return _graphql_key(f"{operation}: [{field}]")


def _introspection(_: DeniedRequest) -> DenialFix:
    return _graphql_key("introspection: true")


def _graphql_key(key: str) -> DenialFix:
    return DenialFix(f"to allow it, add `{key}` to `graphql` of a rule for this path")


def _mcp_part(asked: DeniedRequest) -> DenialFix:
    key = {"mcp.tool": "tools", "mcp.resource": "resources", "mcp.prompt": "prompts"}[
        asked.answer.decision.code
    ]
    name = asked.answer.decision.item.partition(" ")[2]
    return _mcp_key(key, name)


def _mcp_method(asked: DeniedRequest) -> DenialFix:
    return _mcp_key("methods", asked.answer.decision.item)


def _mcp_key(key: str, name: str) -> DenialFix:
    return DenialFix(f"to allow it, add {flow(name)} to `{key}` in `mcp` of a rule for this path")


def _no_websocket(asked: DeniedRequest) -> DenialFix:
    # Every rule that fits takes other methods, and a handshake is GET: there is no rule to widen.
    if not any(rule.misses == WEBSOCKET_MISSES for rule in asked.answer.considered):
        return _no_rule(asked)
    return DenialFix("to allow WebSockets, write `websocket: true` on the rule that allows the request")


def _at(entry: Entry | None) -> str:
    return f"under {flow(entry.key)} ({entry.place})" if entry else "under the host"


_ADVICE: dict[str, Callable[[DeniedRequest], DenialFix]] = {
    "host.unknown": _unknown_host,
    "host.literal": _literal,
    "host.port": _port,
    "host.cleartext": _clear_text,
    "host.closed": _closed,
    "profile.excluded": _excluded,
    "profile.unknown": _unknown_profile,
    "method.refused": _method,
    "rule.denied": _denied,
    "rule.none": _no_rule,
    "body.type": _body_type,
    "graphql.field": _root_field,
    "graphql.introspection": _introspection,
    "mcp.tool": _mcp_part,
    "mcp.resource": _mcp_part,
    "mcp.prompt": _mcp_part,
    "mcp.method": _mcp_method,
    "rule.websocket": _no_websocket,
}
