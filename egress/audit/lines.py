"""The body of every kind of line, filled from what the proxy tells the audit: the text between time and MAC.

It is JSON in ASCII, every text as long as the schema allows. A value from a sandbox may hold any byte. People
read the log in terminals and programs split it at line ends, so every character that is not printable ASCII
is escaped. Nothing that a producer hands over keeps a line from being written: a text that is too long is
cut, and the cut is marked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache, partial
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType, inspect

from egress.audit import lines_about_log, schema
from egress.audit.fields import (
    CUT_MARK,
    FACT_KEY,
    MAX_ID,
    MAX_NAME,
    MAX_PATH,
    MAX_QUERY_NAME,
    MAX_QUERY_VALUE,
    MAX_RULE,
    MAX_SECRETS,
    Injected,
    LogLine,
    about_fields,
)
from egress.audit.files import Pruning
from egress.audit.reported_facts import (
    ConnectionFacts,
    Durations,
    ExchangeFacts,
    Intent,
    RefusalFacts,
    TunnelFacts,
)
from egress.exchange import ExchangeRecord
from egress.types import GrantRef, Place, RuleRef, Slot, Workload

_ENCODER = msgspec.json.Encoder()
_DECODERS = {kind: msgspec.json.Decoder(kind) for kind in schema.LINE_KINDS.values()}
_DELETE_BYTE = 0x7F
"""The one character of ASCII that msgspec writes as it is and a terminal may obey."""
_FACT_KEY = re.compile(FACT_KEY)


def body(line: LogLine) -> str:
    """The fields of a line, in order, without the brackets around them; what is too long is cut.

    Raises `TypeError` for a value that the schema has no place for.
    """
    try:
        # Reading it back checks every bound of the schema in one call, quicker than any loop over the fields.
        _DECODERS[type(line)].decode(_ENCODER.encode(line))
    except (msgspec.ValidationError, UnicodeEncodeError):
        # Rare: only an overlong or malformed value gets here, and every part of the line is cut then.
        fields = _cut(msgspec.to_builtins(line), _type_of(type(line)))
        try:
            msgspec.convert(fields, type(line))
        except msgspec.ValidationError as error:
            raise TypeError(f"a line of the kind {line.__struct_config__.tag!r}: {error}") from None
        return _plain(fields)
    return escaped(line)


def escaped(line: LogLine) -> str:
    """The same of a line in which every text is cut."""
    try:
        data = _ENCODER.encode(line)
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8: a byte that is not ASCII sends the line to the slower encoder.
        data = b"\xff"
    if data.isascii() and data.find(_DELETE_BYTE) < 0:
        return data[1:-1].decode("ascii")
    return _plain(msgspec.to_builtins(line))


def cut(text: str, limit: int) -> str:
    """A text of at most `limit` characters; a longer one is cut and marked."""
    return text if len(text) <= limit else text[:limit] + CUT_MARK


def _plain(fields: object) -> str:
    return json.dumps(fields, ensure_ascii=True, separators=(",", ":"))[1:-1]


@lru_cache
def _type_of(kind: type[LogLine]) -> inspect.Type:
    return inspect.type_info(kind)


def _cut(value: object, bound: inspect.Type) -> object:
    """The value with every text, list and map in it as long as its type allows."""
    if isinstance(bound, inspect.Metadata):
        return _cut(value, bound.type)
    if isinstance(bound, inspect.UnionType):
        wanted = inspect.StrType if isinstance(value, str) else inspect.DictType
        return next((_cut(value, one) for one in bound.types if isinstance(one, wanted)), value)
    if isinstance(value, str) and isinstance(bound, inspect.StrType):
        return value if bound.max_length is None else cut(value, bound.max_length - len(CUT_MARK))
    if isinstance(value, list | tuple) and isinstance(bound, inspect.VarTupleType):
        return [_cut(item, bound.item_type) for item in value[: bound.max_length]]
    if isinstance(value, dict) and isinstance(bound, inspect.StructType):
        types = {field.encode_name: field.type for field in bound.fields}
        return {name: _cut(item, types[name]) if name in types else item for name, item in value.items()}
    if isinstance(value, dict) and isinstance(bound, inspect.DictType):
        return _cut_map(value, bound)
    return value


def _cut_map(value: dict[str, object], bound: inspect.DictType) -> dict[object, object]:
    """The same of a map. Facts with a name that no reader takes are left out."""
    is_of_facts = bound.max_length is not None
    known = [(key, item) for key, item in value.items() if not is_of_facts or _FACT_KEY.fullmatch(key)]
    return {
        _cut(key, bound.key_type): _cut(item, bound.value_type) for key, item in known[: bound.max_length]
    }


def exchange(record: ExchangeRecord, facts: ExchangeFacts) -> str:
    """An exchange, from the head of the request to the last byte of the answer."""
    who, to, took = record.identity, record.destination, not_negative(facts.durations)
    rule, place = _decided_by(record.rule, record.place)
    listener, entry, connection, address, sni, client_tls, upstream_tls, alpn, upstream_alpn, peer = _way(
        facts.way
    )
    # Exchanges are the most frequent lines: texts that come back are cut once and kept.
    line = schema.ExchangeLine(
        sandbox=name(who.sandbox),
        profile=optional(who.profile),
        listener=listener,
        peer=peer,
        entry=entry,
        connection=connection,
        request=cut(facts.request, MAX_ID),
        scheme=to.scheme,
        host=name(to.host),
        port=to.port,
        address=address,
        sni=sni,
        method=name(record.method),
        path=cut(record.path, MAX_PATH),
        status=record.status,
        verdict=record.verdict,
        code=name(record.code),
        rule=rule,
        place=place,
        observed=record.observed,
        injected=_injected(record.injected),
        replaced=record.replaced,
        scrubbed={name(secret): count for secret, count in record.scrubbed},
        bytes_up=record.bytes_up,
        bytes_down=record.bytes_down,
        resolve_us=took.resolve,
        connect_us=took.connect,
        tls_us=took.tls,
        secret_us=took.secret,
        first_byte_us=took.first_byte,
        total_us=took.total,
        client_tls=client_tls,
        upstream_tls=upstream_tls,
        alpn=alpn,
        upstream_alpn=upstream_alpn,
        policy=optional(record.policy),
    )
    if who.ticket:
        line.ticket = name(who.ticket)
    if who.workload is not None:
        for field, text in workload_fields(who.workload).items():
            setattr(line, field, text)
    if record.query:
        line.query = {
            cut(key, MAX_QUERY_NAME): tuple([cut(value, MAX_QUERY_VALUE) for value in values])
            for key, values in record.query
        }
    # A fact with a field of its own leaves `facts`, so that no value stands twice in a line.
    said = _facts_of(record.rule)
    if record.facts or said:
        found = {**record.facts, **said}
        for fact, value in found.items():
            if fact in _OWN_FIELDS:
                setattr(line, fact, value)
        line.facts = {fact: v for fact, v in found.items() if fact not in _OWN_FIELDS} or UNSET
        return body(line)
    # Every text is cut already, each time it is new and not with every line.
    return escaped(line)


_OWN_FIELDS = frozenset(
    name for name, meta in about_fields(schema.ExchangeLine).items() if "fact" in (meta.extra or {})
)
"""Facts that have a field of their own."""


def tunnel(value: TunnelFacts) -> str:
    """A tunnel that has ended."""
    took = not_negative(value.durations)
    # Tunnels are few, so `body` may check and cut every text; only exchanges cut theirs beforehand.
    return body(
        schema.TunnelLine(
            **_connection_fields(value),
            request=value.request,
            address=value.address or None,
            verdict=value.verdict,
            observed=value.observed,
            bytes_up=value.bytes_up,
            bytes_down=value.bytes_down,
            resolve_us=took.resolve,
            connect_us=took.connect,
            tls_us=took.tls,
            secret_us=took.secret,
            first_byte_us=took.first_byte,
            total_us=took.total,
        )
    )


def refusal(value: RefusalFacts) -> str:
    """A connection or a DNS name that was refused."""
    facts = _facts_of(value.rule) or UNSET
    return body(schema.RefusalLine(**_connection_fields(value), facts=facts))


def _connection_fields(value: TunnelFacts | RefusalFacts) -> dict[str, Any]:
    """What the lines of tunnels and refusals say about a connection."""
    rule, place = _decided_by(value.rule, value.place)
    return {
        "sandbox": value.identity.sandbox,
        "profile": value.identity.profile or None,
        "listener": value.listener,
        "peer": value.peer or UNSET,
        **(workload_fields(value.identity.workload) if value.identity.workload else {}),
        "ticket": value.identity.ticket or UNSET,
        "entry": value.entry,
        "connection": value.connection,
        "host": value.host,
        "port": value.port,
        "sni": value.sni or None,
        "code": value.code,
        "rule": rule,
        "place": place,
        "policy": value.policy or None,
    }


def not_negative(took: Durations) -> Durations:
    """Return these durations, with 0 for a negative one: readers of the log add them up."""
    values = (took.resolve, took.connect, took.tls, took.secret, took.first_byte, took.total)
    return took if min(values) >= 0 else Durations(*(max(0, value) for value in values))


def _facts_of(rule: RuleRef | None) -> dict[str, str | int | bool]:
    """Return the facts about a rule: why a deny is there, and which grant decided by which delegation."""
    if isinstance(rule, GrantRef):
        return {"grant": rule.id, "delegation": rule.delegation}
    return {"reason": rule.reason} if rule is not None and rule.reason else {}


def folded(sandbox: str, code: str, count: int, began: str) -> str:
    """Refusals beyond those that were written one by one."""
    return body(schema.FoldedLine(sandbox=sandbox, code=code, count=count, began=began))


def event(kind: str, facts: dict[str, str | int | None]) -> str:
    """Something that happened to the proxy. Raises `ValueError` for a kind or a field not in the schema."""
    known = EVENTS.get(kind, ())
    # The schema is an allowlist: an unknown field could hold a value that must not be in the log.
    if not known or not facts.keys() <= set(known):
        raise ValueError(
            f"the event {kind!r} with {', '.join(facts) or 'no facts'} is not listed in the schema"
        )
    return body(schema.LINE_KINDS[kind](**facts))


EVENTS: dict[str, tuple[str, ...]] = {
    str(kind.__struct_config__.tag): kind.__struct_fields__ for kind in schema.REPORTED_KINDS
}
"""The events that a caller may report, each with its fields."""


# Lines that the audit writes about itself -------------------------------------------------------


def lost(opening: Intent, began: str, *, sent: bool) -> str:
    """An exchange that was under way when the process was killed."""
    return body(
        schema.LostLine(
            sandbox=opening.sandbox,
            connection=opening.connection,
            request=opening.request,
            host=opening.host,
            port=opening.port,
            method=opening.method,
            # The list may come from the in-flight file, which has no MAC, so its length is not trusted.
            secrets=opening.secrets[:MAX_SECRETS],
            began=began,
            sent=sent,
        )
    )


def gap(
    kind: str,
    missing: tuple[int, int] | None,
    refusals: int,
    fragment: tuple[int, str],
    previous: str,
) -> str:
    """Lines that were announced and are missing, or bytes that are no line."""
    first, last = missing or (None, None)
    size, digest = fragment
    return body(
        lines_about_log.GapLine(
            kind=kind,
            first=first,
            last=last,
            refusals=refusals,
            fragment_bytes=size,
            fragment_sha256=digest or None,
            previous=previous,
        )
    )


def rotated(file: str, previous: str) -> str:
    """The first line of a further file; it names the file before and carries its last MAC."""
    return body(lines_about_log.RotatedLine(file=file, previous=previous))


def pruned(value: Pruning, at: str) -> str:
    """Old files were deleted; `at` is when."""
    return body(
        lines_about_log.PrunedLine(
            by=value.by,
            at=at,
            files=value.files,
            bytes=value.size,
            first=value.seq,
            forced=value.is_forced,
        )
    )


def dropped(count: int) -> str:
    """Lines that were not written because there was no room for them."""
    return body(lines_about_log.DroppedLine(count=count))


def resumed(reason: str, stopped: str, milliseconds: int) -> str:
    """The log can be written again."""
    return body(lines_about_log.ResumedLine(reason=reason, stopped=stopped, milliseconds=milliseconds))


# Parts that come back in line after line are cut once, and kept -----------------------------------


type _Known = str | None
type CommonTexts = tuple[str, str, str, _Known, _Known, _Known, _Known, _Known, _Known, str | UnsetType]

name = lru_cache(4096)(partial(cut, limit=MAX_NAME))


@lru_cache(4096)
def optional(text: str | None) -> _Known:
    """A name, or None where it is empty."""
    return cut(text, MAX_NAME) if text else None


@lru_cache(1024)
def _way(way: ConnectionFacts) -> CommonTexts:
    """The texts that the lines of a connection share."""
    return (
        *(name(way.listener), name(way.entry), cut(way.connection, MAX_ID)),
        *(optional(way.address), optional(way.sni), optional(way.client_tls), optional(way.upstream_tls)),
        *(optional(way.alpn), optional(way.upstream_alpn)),
        name(way.peer) if way.peer else UNSET,
    )


@lru_cache(4096)
def workload_fields(workload: Workload) -> Mapping[str, str]:
    """The fields that name a pod, without those that are not known."""
    return {field: name(value) for field, value in asdict(workload).items() if value}


@lru_cache(1024)
def _decided_by(rule: RuleRef | None, place: Place | None) -> tuple[_Known, _Known]:
    """The rule that decided, and its place: that of the rule where no other is given."""
    at = rule.place if rule and place is None else place
    return (
        cut(f"{rule.key}#{rule.id}", MAX_RULE) if rule else None,
        cut(f"{at.file}:{at.line}", MAX_RULE) if at else None,
    )


@lru_cache(1024)
def _injected(values: tuple[tuple[str, Slot], ...]) -> tuple[Injected, ...]:
    return tuple(Injected(name(secret), name(str(slot))) for secret, slot in values)
