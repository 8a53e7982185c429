"""The body of every kind of line, filled from what the proxy tells the audit."""

from __future__ import annotations

from functools import lru_cache, partial

from msgspec import UNSET, UnsetType

from egress.audit import log_events, schema
from egress.audit.encode import body, cut, escaped
from egress.audit.facts import ConnectionFacts, ExchangeFacts, Intent, RefusalFacts, TunnelFacts
from egress.audit.fields import (
    MAX_ID,
    MAX_NAME,
    MAX_PATH,
    MAX_QUERY_NAME,
    MAX_QUERY_VALUE,
    MAX_RULE,
    MAX_SECRETS,
    Injected,
    about_fields,
)
from egress.audit.files import Pruning
from egress.exchange import ExchangeRecord
from egress.types import Place, RuleRef, Slot


def exchange(record: ExchangeRecord, facts: ExchangeFacts) -> str:
    """An exchange, from the head of the request to the last byte of the answer."""
    who, to, took = record.identity, record.destination, facts.durations.not_negative()
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
    if record.query:
        line.query = {
            cut(key, MAX_QUERY_NAME): tuple([cut(value, MAX_QUERY_VALUE) for value in values])
            for key, values in record.query
        }
    # A fact with a field of its own leaves `facts`, so that no value stands twice in a line.
    if record.facts or (record.rule is not None and record.rule.reason):
        found = {**record.facts, **_reason_of(record.rule)}
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
    rule, place = _decided_by(value.rule, value.place)
    took = value.durations.not_negative()
    # Tunnels are few, so `body` may check and cut every text; only exchanges cut theirs beforehand.
    return body(
        schema.TunnelLine(
            sandbox=value.identity.sandbox,
            profile=value.identity.profile or None,
            listener=value.listener,
            peer=value.peer or UNSET,
            entry=value.entry,
            connection=value.connection,
            request=value.request,
            host=value.host,
            port=value.port,
            address=value.address or None,
            sni=value.sni or None,
            verdict=value.verdict,
            code=value.code,
            rule=rule,
            place=place,
            observed=value.observed,
            bytes_up=value.bytes_up,
            bytes_down=value.bytes_down,
            resolve_us=took.resolve,
            connect_us=took.connect,
            tls_us=took.tls,
            secret_us=took.secret,
            first_byte_us=took.first_byte,
            total_us=took.total,
            policy=value.policy or None,
        )
    )


def refusal(value: RefusalFacts) -> str:
    """A connection or a DNS name that was refused."""
    rule, place = _decided_by(value.rule, value.place)
    return body(
        schema.RefusalLine(
            sandbox=value.identity.sandbox,
            profile=value.identity.profile or None,
            listener=value.listener,
            peer=value.peer or UNSET,
            entry=value.entry,
            connection=value.connection,
            host=value.host,
            port=value.port,
            sni=value.sni or None,
            code=value.code,
            rule=rule,
            place=place,
            policy=value.policy or None,
            facts=_reason_of(value.rule) or UNSET,
        )
    )


def _reason_of(rule: RuleRef | None) -> dict[str, str | int | bool]:
    """Return the fact that says why a deny is there; only deny rules have a reason."""
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
        log_events.GapLine(
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
    return body(log_events.RotatedLine(file=file, previous=previous))


def pruned(value: Pruning, at: str) -> str:
    """Old files were deleted; `at` is when."""
    return body(
        log_events.PrunedLine(
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
    return body(log_events.DroppedLine(count=count))


def resumed(reason: str, stopped: str, milliseconds: int) -> str:
    """The log can be written again."""
    return body(log_events.ResumedLine(reason=reason, stopped=stopped, milliseconds=milliseconds))


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
