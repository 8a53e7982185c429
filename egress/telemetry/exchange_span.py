"""An exchange as a span: its name, its times and its attributes. Pure.

The attributes are those of one table, which the guide shows. Names of OpenTelemetry's conventions are used
where there is one that says the same. No path, no query, no header value and no text of a secret is there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from egress.audit.reported_facts import ExchangeFacts
from egress.errors import FAILED_CODES
from egress.exchange import ExchangeRecord
from egress.exchange.messages import TraceParent
from egress.types import Verdict

type AttributeValue = str | int | bool
Attributes = dict[str, AttributeValue]

_KNOWN_METHODS: Final = frozenset(
    {"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE"}
)
_OTHER_METHOD: Final = "_OTHER"
_MICROSECOND: Final = 1000
"""In nanoseconds."""


@dataclass(frozen=True, slots=True)
class SpanAttribute:
    """An attribute that spans may have."""

    name: str
    meaning: str
    read: Callable[[ExchangeRecord, ExchangeFacts], AttributeValue | None]
    """Reads the value; where it is None, the span has no such attribute."""


def _method(record: ExchangeRecord) -> str:
    # A sandbox chooses the method, and backends make an index of each value.
    return record.method if record.method in _KNOWN_METHODS else _OTHER_METHOD


def _stage(name: str) -> Callable[[ExchangeRecord, ExchangeFacts], AttributeValue | None]:
    def read(_: ExchangeRecord, facts: ExchangeFacts) -> AttributeValue | None:
        took: int = getattr(facts.durations, name)
        return took or None

    return read


def _of_pod(name: str) -> Callable[[ExchangeRecord, ExchangeFacts], AttributeValue | None]:
    def read(record: ExchangeRecord, _: ExchangeFacts) -> AttributeValue | None:
        workload = record.identity.workload
        text = "" if workload is None else str(getattr(workload, name))
        return text or None

    return read


SPAN_ATTRIBUTES: Final = (
    SpanAttribute(
        "http.request.method",
        "The method; `_OTHER` for one that HTTP does not define.",
        lambda record, _: _method(record),
    ),
    SpanAttribute("url.scheme", "`https` or `http`.", lambda record, _: record.destination.scheme),
    SpanAttribute(
        "server.address",
        "The host that the request was for. Canaries are masked.",
        lambda record, _: record.destination.host,
    ),
    SpanAttribute("server.port", "Its port.", lambda record, _: record.destination.port),
    SpanAttribute(
        "http.response.status_code",
        "The status that the sandbox received; left out if it left before.",
        lambda record, _: record.status or None,
    ),
    SpanAttribute(
        "error.type",
        "The code, if the exchange was cut or its upstream failed.",
        lambda record, _: record.code if is_error(record) else None,
    ),
    SpanAttribute(
        "http.request.body.size", "Bytes of the request's body.", lambda record, _: record.bytes_up
    ),
    SpanAttribute(
        "http.response.body.size", "Bytes of the response's body.", lambda record, _: record.bytes_down
    ),
    SpanAttribute("egress.verdict", "`allow`, `deny` or `cut`.", lambda record, _: str(record.verdict.value)),
    SpanAttribute("egress.code", "Why, as in the log.", lambda record, _: record.code),
    SpanAttribute(
        "egress.rule",
        "The entry and the id of the rule that decided, such as `api.example.com#read`.",
        lambda record, _: None if record.rule is None else str(record.rule),
    ),
    SpanAttribute("egress.sandbox", "The sandbox.", lambda record, _: record.identity.sandbox),
    SpanAttribute("egress.profile", "The profile that it has.", lambda record, _: record.identity.profile),
    SpanAttribute(
        "k8s.namespace.name",
        "The namespace of the sandbox's pod. Only with `--kubernetes`, as the next four.",
        _of_pod("namespace"),
    ),
    SpanAttribute("k8s.pod.name", "The pod.", _of_pod("pod")),
    SpanAttribute("k8s.pod.uid", "Its UID.", _of_pod("pod_uid")),
    SpanAttribute("egress.claim", "The claim that has the sandbox.", _of_pod("claim")),
    SpanAttribute("egress.replica", "The pod of the proxy.", _of_pod("replica")),
    SpanAttribute(
        "egress.ticket",
        "The id of the ticket that it came with, and so the run.",
        lambda record, _: record.identity.ticket or None,
    ),
    SpanAttribute("egress.request", "The id of its line in the log.", lambda _, facts: facts.request),
    SpanAttribute(
        "egress.connection", "The id of its connection in the log.", lambda _, facts: facts.way.connection
    ),
    SpanAttribute(
        "egress.secrets",
        "How many secrets were sent with it.",
        lambda record, _: len(record.injected) or None,
    ),
    SpanAttribute(
        "egress.resolve_us",
        "Microseconds to resolve the name; it has this one and the next two if it made the connection.",
        _stage("resolve"),
    ),
    SpanAttribute("egress.connect_us", "Microseconds to connect.", _stage("connect")),
    SpanAttribute("egress.tls_us", "Microseconds for the TLS handshake with the upstream.", _stage("tls")),
    SpanAttribute("egress.secret_us", "Microseconds that it waited for secrets.", _stage("secret")),
    SpanAttribute(
        "egress.first_byte_us",
        "Microseconds from the head sent to the head of the response.",
        _stage("first_byte"),
    ),
)


@dataclass(frozen=True, slots=True)
class ExchangeSpan:
    """An exchange that has ended, as it waits to be exported."""

    record: ExchangeRecord
    facts: ExchangeFacts
    ended: int
    """In nanoseconds of UTC."""

    @property
    def name(self) -> str:
        """The name, of which there are few: the method, as OpenTelemetry has it."""
        method = _method(self.record)
        return "HTTP" if method == _OTHER_METHOD else method

    @property
    def began(self) -> int:
        """When it began, in nanoseconds of UTC."""
        return self.ended - self.facts.durations.total * _MICROSECOND

    @property
    def parent(self) -> TraceParent | None:
        """The span of the sandbox that it belongs to."""
        return self.record.trace

    @property
    def is_error(self) -> bool:
        return is_error(self.record)

    def attributes(self) -> Attributes:
        """Return what is known of it."""
        read = ((each.name, each.read(self.record, self.facts)) for each in SPAN_ATTRIBUTES)
        return {name: value for name, value in read if value is not None}


def is_error(record: ExchangeRecord) -> bool:
    """Tell whether it broke. A denial is what the rules want, and no error."""
    return record.verdict is Verdict.CUT or record.code in FAILED_CODES
