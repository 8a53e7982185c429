"""The messages of OTLP, made with the data model and the encoders of the OpenTelemetry SDK.

The SDK is an extra, so only this module imports it, and only a proxy that exports imports this module. What
the SDK does by itself is not used: its providers read variables of the environment, and its queues drop
without a count.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
from google.protobuf.message import DecodeError, Message
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from egress.telemetry.exchange_span import ExchangeSpan
from egress.telemetry.export_queue import ExportedLine, MetricSnapshot
from egress.telemetry.metric_families import METRIC_PREFIX, HistogramValue, Labels, MetricFamily, MetricValue
from egress.telemetry.otlp_endpoint import Signal

_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_TEMPORALITY: Final = AggregationTemporality.CUMULATIVE
_NANOSECONDS: Final = 1_000_000_000
_LINE_ATTRIBUTES: Final = ("run", "sandbox", "profile", "verdict", "code", "request")
"""Fields of a line that are attributes too, so that a backend can filter by them."""


@dataclass(frozen=True, slots=True)
class OtlpMessages:
    """Encodes batches, all of one resource."""

    resource: Resource
    scope: InstrumentationScope

    @classmethod
    def of(cls, version: str, attributes: Mapping[str, str]) -> OtlpMessages:
        """`attributes` say which process this is. No variable of the environment is read for it."""
        return cls(Resource(dict(attributes)), InstrumentationScope("egress", version))

    def traces(self, batch: Iterable[ExchangeSpan]) -> bytes:
        """Encode spans."""
        return _encoded(encode_spans([self._span(each) for each in batch]))

    def logs(self, batch: Iterable[ExportedLine]) -> bytes:
        """Encode lines of the log: the body of each is the line, byte for byte."""
        return _encoded(encode_logs([self._log_record(each) for each in batch]))

    def metrics(self, batch: Sequence[MetricSnapshot]) -> bytes:
        """Encode metrics; each snapshot has its time."""
        metrics = [metric for each in batch for metric in _metrics(each)]
        scope = ScopeMetrics(scope=self.scope, metrics=metrics, schema_url="")
        data = MetricsData([ResourceMetrics(resource=self.resource, scope_metrics=[scope], schema_url="")])
        return _encoded(encode_metrics(data))

    def _span(self, span: ExchangeSpan) -> ReadableSpan:
        parent = span.parent
        trace_id = _new_id(16) if parent is None else parent.trace_id
        return ReadableSpan(
            name=span.name,
            context=SpanContext(trace_id, _new_id(8), is_remote=False, trace_flags=_SAMPLED),
            parent=None if parent is None else SpanContext(trace_id, parent.span_id, is_remote=True),
            resource=self.resource,
            attributes=span.attributes(),
            kind=SpanKind.SERVER,
            status=Status(StatusCode.ERROR) if span.is_error else Status(StatusCode.UNSET),
            start_time=span.began,
            end_time=span.ended,
            instrumentation_scope=self.scope,
        )

    def _log_record(self, line: ExportedLine) -> ReadableLogRecord:
        fields = msgspec.json.decode(line.text)
        attributes = {
            f"egress.{name}": fields[name] for name in _LINE_ATTRIBUTES if isinstance(fields.get(name), str)
        }
        is_denied = fields.get("verdict") in ("deny", "cut")
        severity = SeverityNumber.WARN if is_denied else SeverityNumber.INFO
        record = LogRecord(
            timestamp=line.written,
            observed_timestamp=line.written,
            severity_number=severity,
            severity_text=severity.name,
            body=line.text.decode("ascii").rstrip("\n"),
            attributes=attributes,
            event_name=f"egress.{fields['event']}",
        )
        return ReadableLogRecord(record, self.resource, self.scope)


def count_rejected(signal: Signal, reply: bytes) -> int:
    """How many items of a message the collector says it did not take; 0 for a reply that says nothing."""
    response = _RESPONSES[signal]()
    try:
        response.ParseFromString(reply)
    except DecodeError:
        return 0
    partial = response.partial_success
    for name in ("rejected_spans", "rejected_data_points", "rejected_log_records"):
        if hasattr(partial, name):
            return max(0, int(getattr(partial, name)))
    return 0


type _Response = ExportTraceServiceResponse | ExportMetricsServiceResponse | ExportLogsServiceResponse
_RESPONSES: Final[Mapping[Signal, type[_Response]]] = {
    "traces": ExportTraceServiceResponse,
    "metrics": ExportMetricsServiceResponse,
    "logs": ExportLogsServiceResponse,
}


def _metrics(snapshot: MetricSnapshot) -> Iterable[Metric]:
    for family in snapshot.families:
        if family.points:
            yield _metric(family, snapshot.began, snapshot.at)


def _metric(family: MetricFamily, began: int, at: int) -> Metric:
    """Return a family with the name it has in Prometheus, to which collectors add `_total` themselves."""
    name = METRIC_PREFIX + family.name.removesuffix("_total")
    unit = "s" if name.endswith("_seconds") else ""
    data: Sum | Gauge | Histogram
    if family.kind == "histogram":
        data = Histogram([_histogram(*point, began, at) for point in family.points], _TEMPORALITY)
    else:
        points = [_number(*point, began, at) for point in family.points]
        data = Gauge(points) if family.kind == "gauge" else Sum(points, _TEMPORALITY, is_monotonic=True)
    return Metric(name, family.help, unit, data)


def _number(labels: Labels, value: MetricValue, began: int, at: int) -> NumberDataPoint:
    if isinstance(value, HistogramValue):
        raise TypeError("a histogram in a family of numbers")
    # Truth is a number here, and a boolean is none in OTLP.
    number = int(value) if isinstance(value, bool) else value
    return NumberDataPoint(dict(labels), began, at, number)


def _histogram(labels: Labels, value: MetricValue, began: int, at: int) -> HistogramDataPoint:
    if not isinstance(value, HistogramValue):
        raise TypeError("a number in a family of histograms")
    # Neither extreme is known. Both may be missing in a message, which the type of the SDK does not say.
    return HistogramDataPoint(
        attributes=dict(labels),
        start_time_unix_nano=began,
        time_unix_nano=at,
        count=sum(value.counts),
        sum=value.total,
        bucket_counts=list(value.counts),
        explicit_bounds=list(value.bounds),
        min=None,  # type: ignore[arg-type]
        max=None,  # type: ignore[arg-type]
    )


def _encoded(message: Message) -> bytes:
    return message.SerializeToString()


def _new_id(size: int) -> int:
    """A random id, which is never zero."""
    return int.from_bytes(secrets.token_bytes(size)) or 1
