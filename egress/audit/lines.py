"""The body of every kind of line: what stands between the time and the MAC.

Built as text, because a line is made for every exchange and a general encoder costs more than all the
rest together. Each kind of line always has the same fields in the same order; what is not known is
`null`, 0 or empty. Every text goes through `quote`. Values are names and numbers: whoever adds a field
must be able to say why it can never hold a secret, a query string, a body or a header value.
"""

from __future__ import annotations

from functools import lru_cache

from egress.audit.facts import ConnectionFacts, Durations, ExchangeFacts, Intent, RefusalFacts, TunnelFacts
from egress.audit.files import Pruning
from egress.audit.quote import MOST_PATH, name, optional, quoted
from egress.exchange import ExchangeRecord
from egress.types import Place, RuleRef, Slot, SlotKind

EVENTS: dict[str, tuple[str, ...]] = {
    "started": ("version", "policy", "files"),
    "stopped": ("reason",),
    "reloaded": ("policy", "policy_before", "files"),
    "reload.refused": ("policy", "file", "line", "column", "reason"),
    "killed": ("kind", "name", "connections", "policy"),
    "kill.undone": ("kind", "name", "policy"),
    "sandbox.added": ("sandbox", "profile", "authority", "policy"),
    "sandbox.removed": ("sandbox", "connections", "policy"),
    "listener.failed": ("sandbox", "address", "port", "reason", "policy"),
    "sandbox.stopped": ("sandbox", "reason", "bytes", "quota"),
}
"""The events a caller may write, each with the facts it has. One that is not listed is not documented."""

MOST_REASON = 1000
MOST_ID = 128
MOST_RULE = 512
MOST_SECRETS = 16
BOOLEAN = ("false", "true")


def exchange(record: ExchangeRecord, facts: ExchangeFacts) -> str:
    """One exchange, from the request's head to the last byte of the answer."""
    who, at, way = record.identity, record.destination, facts.way
    entered, tls = _said_of(way)
    return (
        f'"event":"exchange",{_who(who.sandbox, who.profile)}'
        f'{entered}"request":{quoted(facts.request, MOST_ID)},'
        f'"scheme":"{at.scheme}",{_where(at.host, at.port, way.address, way.sni)}'
        f'"method":{name(record.method)},"path":{quoted(record.path, MOST_PATH)},"status":{record.status},'
        f'"verdict":"{record.verdict}","code":{name(record.code)},{_rule(record.rule, record.place)}'
        f'"observed":{BOOLEAN[record.observed]},"injected":{_injected(record.injected)},'
        f'"replaced":{BOOLEAN[record.replaced]},"scrubbed":{_scrubbed(record.scrubbed)},'
        f'"bytes_up":{record.bytes_up},"bytes_down":{record.bytes_down},{_durations(facts.durations)}'
        f'{tls}"policy":{optional(record.policy)}'
    )


def tunnel(value: TunnelFacts) -> str:
    """A tunnel that has ended."""
    return (
        f'"event":"tunnel",{_who(value.identity.sandbox, value.identity.profile)}'
        f"{_way(value.listener, value.entry)}{_ids(value.connection, value.request)}"
        f"{_where(value.host, value.port, value.address, value.sni)}"
        f'"verdict":"allow","code":{name(value.code)},{_rule(value.rule, value.place)}'
        f'"observed":{BOOLEAN[value.observed]},'
        f'"bytes_up":{value.bytes_up:d},"bytes_down":{value.bytes_down:d},{_durations(value.durations)}'
        f'"policy":{optional(value.policy)}'
    )


def refusal(value: RefusalFacts) -> str:
    """A connection or a DNS name that was refused."""
    return (
        f'"event":"refusal",{_who(value.identity.sandbox, value.identity.profile)}'
        f'{_way(value.listener, value.entry)}"connection":{quoted(value.connection, MOST_ID)},'
        f'"host":{quoted(value.host, 256)},"port":{value.port:d},"sni":{optional(value.sni)},'
        f'"verdict":"deny","code":{name(value.code)},{_rule(value.rule, value.place)}'
        f'"policy":{optional(value.policy)}'
    )


def folded(sandbox: str, code: str, count: int, began: str) -> str:
    """Refusals beyond those that were written one by one."""
    return (
        f'"event":"folded","sandbox":{name(sandbox)},"code":{name(code)},"count":{count:d},"began":"{began}"'
    )


def event(kind: str, facts: dict[str, str | int | None]) -> str:
    """Something that happened to the proxy. Raises `ValueError` for what `EVENTS` does not list."""
    known = EVENTS.get(kind)
    if known is None or not facts.keys() <= set(known):
        raise ValueError(f"the event {kind!r} with {', '.join(facts) or 'no facts'} is not listed in EVENTS")
    return f'"event":"{kind}"' + "".join(f',"{fact}":{_value(facts.get(fact))}' for fact in known)


# Lines the audit writes about itself ------------------------------------------------------------


def lost(opening: Intent, began: str, *, sent: bool) -> str:
    """An exchange that was under way when the process was killed."""
    return (
        f'"event":"lost","sandbox":{name(opening.sandbox)},{_ids(opening.connection, opening.request)}'
        f'"host":{name(opening.host)},"port":{opening.port:d},"method":{name(opening.method)},'
        f'"secrets":[{",".join(name(secret) for secret in opening.secrets[:MOST_SECRETS])}],'
        f'"began":"{began}","sent":{BOOLEAN[sent]}'
    )


def gap(
    kind: str,
    missing: tuple[int, int] | None,
    refusals: int,
    fragment: tuple[int, str],
    previous: str,
) -> str:
    """Lines that were made and are not there, or bytes that are there and are no line."""
    first, last = (str(missing[0]), str(missing[1])) if missing else ("null", "null")
    return (
        f'"event":"gap","kind":"{kind}","first":{first},"last":{last},"refusals":{refusals:d},'
        f'"fragment_bytes":{fragment[0]:d},"fragment_sha256":{optional(fragment[1])},"previous":"{previous}"'
    )


def rotated(file: str, previous: str) -> str:
    """The first line of a further file; it names the file before and carries its last MAC."""
    return f'"event":"rotated","file":{name(file)},"previous":"{previous}"'


def pruned(value: Pruning, at: str) -> str:
    """Old files were deleted; `at` is when."""
    return (
        f'"event":"pruned","by":{name(value.by)},"at":"{at}","files":{value.files:d},'
        f'"bytes":{value.size:d},"first":{value.seq:d},"forced":{BOOLEAN[value.is_forced]}'
    )


def dropped(count: int) -> str:
    """Lines that were not written because there was no room for them."""
    return f'"event":"dropped","count":{count:d}'


def resumed(reason: str, stopped: str, milliseconds: int) -> str:
    """The log can be written again."""
    return f'"event":"resumed","reason":{name(reason)},"stopped":"{stopped}","milliseconds":{milliseconds:d}'


# Pieces: those that come back in line after line are kept, since a text costs more than finding it. ----


@lru_cache(1024)
def _who(sandbox: str, profile: str | None) -> str:
    return f'"sandbox":{name(sandbox)},"profile":{optional(profile)},'


@lru_cache(1024)
def _way(listener: str, entry: str) -> str:
    return f'"listener":{name(listener)},"entry":{name(entry)},'


def _ids(connection: str, request: str) -> str:
    return f'"connection":{quoted(connection, MOST_ID)},"request":{quoted(request, MOST_ID)},'


@lru_cache(1024)
def _where(host: str, port: int, address: str, sni: str) -> str:
    return f'"host":{name(host)},"port":{port:d},"address":{optional(address)},"sni":{optional(sni)},'


@lru_cache(1024)
def _said_of(way: ConnectionFacts) -> tuple[str, str]:
    """What stands in each line of a way: how it was entered, and its TLS."""
    entered = f'{_way(way.listener, way.entry)}"connection":{quoted(way.connection, MOST_ID)},'
    tls = (
        f'"client_tls":{optional(way.client_tls)},"upstream_tls":{optional(way.upstream_tls)},'
        f'"alpn":{optional(way.alpn)},"upstream_alpn":{optional(way.upstream_alpn)},'
    )
    return entered, tls


def _rule(rule: RuleRef | None, place: Place | None) -> str:
    if rule is None:
        return f'"rule":null,"place":{"null" if place is None else _place(place.file, place.line)},'
    at = rule.place if place is None else place
    return _rule_at(rule.key, rule.id, at.file, at.line)


@lru_cache(1024)
def _rule_at(key: str, rule: str, file: str, line: int) -> str:
    return f'"rule":{quoted(f"{key}#{rule}", MOST_RULE)},"place":{_place(file, line)},'


def _place(file: str, line: int) -> str:
    return quoted(f"{file}:{line}", MOST_RULE)


def _injected(values: tuple[tuple[str, Slot], ...]) -> str:
    if not values:
        return "[]"
    return f"[{','.join([_injection(secret, slot.kind, slot.name) for secret, slot in values])}]"


@lru_cache(1024)
def _injection(secret: str, kind: SlotKind, slot: str) -> str:
    return f'{{"secret":{name(secret)},"slot":{name(str(Slot(kind, slot)))}}}'


def _scrubbed(values: tuple[tuple[str, int], ...]) -> str:
    if not values:
        return "{}"
    return f"{{{','.join(f'{name(secret)}:{count:d}' for secret, count in values)}}}"


def _durations(of: Durations) -> str:
    return (
        f'"resolve_us":{of.resolve},"connect_us":{of.connect},"tls_us":{of.tls},'
        f'"secret_us":{of.secret},"first_byte_us":{of.first_byte},"total_us":{of.total},'
    )


def _value(fact: str | int | None) -> str:
    if fact is None:
        return "null"
    return quoted(fact, MOST_REASON) if isinstance(fact, str) else f"{fact:d}"
