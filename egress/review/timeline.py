"""The story of one line: its stages in the order in which they happened, with what each of them said.

It tells what is in the line and adds nothing: there is no secret, no header and no body in a log. A stage
that did not happen is left out. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from egress.errors import CODES
from egress.review.entry import LogEntry
from egress.review.line_fields import STAGE_TITLES


@dataclass(frozen=True, slots=True)
class TimelineStage:
    """A stage of a request, as the timeline shows it."""

    name: str
    text: str
    took_us: int = 0
    """How long it took, where that was measured; the last one tells it of all."""
    note: str = ""
    after_us: int = 0
    """How long those before it took."""


def build_timeline(entry: LogEntry) -> tuple[TimelineStage, ...]:
    """The stages of a line."""
    teller = _TELLERS.get(entry.event, _other)
    return tuple(_in_time(stage for stage in teller(entry) if stage.text))


def _in_time(stages: Iterable[TimelineStage]) -> Iterator[TimelineStage]:
    """Each with what was before it: no line says when a stage began, but they follow one another."""
    after = 0
    for stage in stages:
        yield replace(stage, after_us=after)
        after += stage.took_us


def _exchange(entry: LogEntry) -> Iterator[TimelineStage]:
    yield from _entered(entry)
    yield TimelineStage("asked", " ".join(part for part in (entry.text("method"), _url(entry)) if part))
    yield TimelineStage("query", ", ".join(_query(entry)))
    yield _decided(entry)
    yield from _sent(entry)
    yield from _answered(entry)


def _query(entry: LogEntry) -> Iterator[str]:
    """The keys of a query, with the values that a rule has kept."""
    found = entry.fields.get("query")
    for name, values in found.items() if isinstance(found, dict) else ():
        kept = [value for value in values if isinstance(value, str)] if isinstance(values, list) else []
        yield from ([f"{name}={value}" for value in kept] or [str(name)])


def _refusal(entry: LogEntry) -> Iterator[TimelineStage]:
    yield from _entered(entry)
    port = entry.number("port")
    yield TimelineStage("asked", f"{entry.text('host')}:{port}" if port else entry.text("host"))
    yield _decided(entry)


def _lost(entry: LogEntry) -> Iterator[TimelineStage]:
    yield TimelineStage("from", f"sandbox {entry.text('sandbox')}")
    where = f"{entry.text('host')}:{entry.number('port')}"
    yield TimelineStage("asked", f"{entry.text('method')} {where}".strip())
    yield TimelineStage("secrets", ", ".join(entry.secrets), note="to be carried")
    # The first byte decides whether the upstream may have acted on the request.
    sent = "the first byte had gone out" if entry.flag("sent") else "nothing had gone out"
    yield TimelineStage("lost", f"the proxy was killed meanwhile; {sent}")


def _other(entry: LogEntry) -> Iterator[TimelineStage]:
    for name, value in entry.fields.items():
        # Position, time and MAC are shown with the line itself.
        if name not in ("seq", "time", "event", "mac"):
            yield TimelineStage(name, str(value))


_TELLERS: dict[str, Callable[[LogEntry], Iterator[TimelineStage]]] = {
    "exchange": _exchange,
    "tunnel": _exchange,
    "refusal": _refusal,
    "lost": _lost,
}


def _entered(entry: LogEntry) -> Iterator[TimelineStage]:
    named = ("sandbox", "claim", "profile", "run")
    yield TimelineStage("from", ", ".join(f"{name} {entry.text(name)}" for name in named if entry.text(name)))
    pod, peer, replica = entry.text("pod"), entry.text("peer"), entry.text("replica")
    # The address alone says nothing once another pod has it.
    place = f"{entry.text('namespace')}/{pod}" if pod else ""
    yield TimelineStage("pod", f"{place}, at {peer}" if pod and peer else place)
    listener, way = entry.text("listener"), entry.text("entry")
    where = f" of {replica}" if replica else ""
    yield TimelineStage("came in", f"by {way} at listener {listener}{where}" if way else "")


def _url(entry: LogEntry) -> str:
    host, port, scheme = entry.text("host"), entry.number("port"), entry.text("scheme")
    if not scheme:
        return f"{host}:{port}"
    # Only an unusual port is worth reading.
    usual = {"https": 443, "http": 80}.get(scheme)
    return f"{scheme}://{host}{'' if port == usual else f':{port}'}{entry.text('path')}"


def _decided(entry: LogEntry) -> TimelineStage:
    code, rule, place = entry.text("code"), entry.text("rule"), entry.text("place")
    parts = [entry.verdict or "nothing decided", code]
    parts += [f"by rule {rule}"] if rule else []
    parts += [f"at {place}"] if place else []
    known = CODES.get(code)
    note = known.message if known else ""
    if reason := _facts(entry).get("reason"):
        note = f"{note} {reason}".strip()
    # `observed` wins over the message of the code: without the mode this request would have been denied.
    if entry.flag("observed"):
        note = "Let through only because `mode: observe` lifts the missing rule."
    return TimelineStage("decided", ", ".join(part for part in parts if part), note=note)


def _facts(entry: LogEntry) -> dict[str, object]:
    found = entry.fields.get("facts")
    return found if isinstance(found, dict) else {}


def _sent(entry: LogEntry) -> Iterator[TimelineStage]:
    yield TimelineStage("secrets", ", ".join(_injected(entry)), entry.number("secret_us"))
    if entry.flag("replaced"):
        yield TimelineStage("replaced", "a value of the sandbox's own was taken out of a slot")
    yield TimelineStage("resolved", entry.text("address"), entry.number("resolve_us"))
    if entry.number("connect_us"):
        yield TimelineStage("connected", f"to {entry.text('address')}", entry.number("connect_us"))
    spoken = [entry.text("upstream_tls"), entry.text("upstream_alpn")]
    yield TimelineStage("TLS", ", ".join(part for part in spoken if part), entry.number("tls_us"))


def _injected(entry: LogEntry) -> Iterator[str]:
    found = entry.fields.get("injected")
    # The line may be forged or of a later version, so each item is checked.
    for item in found if isinstance(found, list) else ():
        if isinstance(item, dict):
            yield f"{item.get('secret')} into {item.get('slot')}"


def _said(value: object) -> str:
    """A value of a line in words; empty for nothing."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_said(inner)}" for name, inner in value.items())
    return "" if value in (None, "", 0, False) else "yes" if value is True else str(value)


def _answered(entry: LogEntry) -> Iterator[TimelineStage]:
    status = entry.number("status")
    if entry.event == "exchange":
        text = f"with {status}" if status else "not at all: the sandbox had left"
        took = entry.number("first_byte_us")
        yield TimelineStage("answered", text, took, note="until the first byte" if took else "")
    found = entry.fields.get("scrubbed")
    scrubbed = found if isinstance(found, dict) else {}
    yield TimelineStage("scrubbed", ", ".join(f"{name} {count} times" for name, count in scrubbed.items()))
    # Fields with a stage of their own come from the schema: a new one appears here by itself.
    for name, title in STAGE_TITLES.items():
        yield TimelineStage(title, _said(entry.fields.get(name)))
    # A row each: a push has a fact for every ref. The name of a fact is text, so none can pose as a stage.
    for name, value in _facts(entry).items():
        if name != "reason" and (said := _said(value)):
            yield TimelineStage("found", f"{name} {said}")
    moved = f"{entry.number('bytes_up')} bytes up, {entry.number('bytes_down')} bytes down"
    yield TimelineStage("ended", moved, entry.number("total_us"))
