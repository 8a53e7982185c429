"""Messages of OTLP, decoded with the definitions of the standard."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from egress.exchange.messages import TraceParent
from egress.proxy.metrics import Histogram, histogram
from egress.telemetry.exchange_span import ExchangeSpan
from egress.telemetry.export_queue import ExportedLine, MetricSnapshot
from egress.telemetry.metric_families import by_label, gauge
from egress.telemetry.otlp_messages import OtlpMessages, count_rejected
from egress.types import Verdict
from tests.proxy.lab.otlp_receiver import told
from tests.unit.audit.sample import FACTS, MOMENT, RECORD

MESSAGES = OtlpMessages.of("1.2.3", {"service.name": "egress"})


def spans(*given: ExchangeSpan) -> list[Span]:
    (resource,) = ExportTraceServiceRequest.FromString(MESSAGES.traces(given)).resource_spans
    assert told(resource.resource.attributes) == {"service.name": "egress"}
    (scope,) = resource.scope_spans
    assert (scope.scope.name, scope.scope.version) == ("egress", "1.2.3")
    return list(scope.spans)


def test_a_span_has_its_times_and_attributes_and_ids_of_its_own() -> None:
    plain = ExchangeSpan(RECORD, FACTS, MOMENT)
    first, second = spans(plain, plain)
    assert (first.name, first.kind) == ("GET", Span.SPAN_KIND_SERVER)
    assert (first.start_time_unix_nano, first.end_time_unix_nano) == (plain.began, MOMENT)
    assert told(first.attributes) == plain.attributes()
    assert first.status.code == Status.STATUS_CODE_UNSET
    assert len({first.trace_id, second.trace_id, b"\0" * 16}) == 3
    assert len({first.span_id, second.span_id, b"\0" * 8}) == 3
    assert (first.parent_span_id, first.trace_state) == (b"", "")


def test_a_span_of_a_sandbox_is_the_parent() -> None:
    (span,) = spans(ExchangeSpan(replace(RECORD, trace=TraceParent(7, 9)), FACTS, MOMENT))
    assert (span.trace_id, span.parent_span_id) == (b"\0" * 15 + b"\7", b"\0" * 7 + b"\t")


def test_what_broke_is_an_error() -> None:
    cut = replace(RECORD, verdict=Verdict.CUT, code="canary.seen")
    (span,) = spans(ExchangeSpan(cut, FACTS, MOMENT))
    assert (span.status.code, span.status.message) == (Status.STATUS_CODE_ERROR, "")


def test_a_line_is_the_body_byte_for_byte() -> None:
    line = {
        "event": "exchange",
        "sandbox": "agent-1",
        "verdict": "deny",
        "code": "rule.none",
        "seq": 7,
        "profile": None,
    }
    text = msgspec.json.encode(line) + b"\n"
    (resource,) = ExportLogsServiceRequest.FromString(
        MESSAGES.logs([ExportedLine(text, MOMENT)])
    ).resource_logs
    (record,) = resource.scope_logs[0].log_records
    assert record.body.string_value.encode() == text[:-1]
    assert (record.event_name, record.severity_text, record.time_unix_nano) == (
        "egress.exchange",
        "WARN",
        MOMENT,
    )
    assert told(record.attributes) == {
        "egress.sandbox": "agent-1",
        "egress.verdict": "deny",
        "egress.code": "rule.none",
    }


def test_metrics_are_those_of_prometheus() -> None:
    times = Histogram((0.5, 1.0))
    times.add(0.7)
    families = (
        by_label("refusals_total", "Refused.", "code", {"rule.none": 3}),
        gauge("ready", "Ready.", value=True),
        gauge("audit_lag_seconds", "Lag.", 0.25),
        histogram("added_seconds", "Added.", [((("entry", "a"),), times)]),
        by_label("reloads_total", "Reloads.", "result", {}),
    )
    message = MESSAGES.metrics([MetricSnapshot(families, 5, MOMENT)])
    (scope,) = ExportMetricsServiceRequest.FromString(message).resource_metrics[0].scope_metrics
    refused, ready, lag, added = scope.metrics
    assert (refused.name, refused.description, refused.unit) == ("egress_refusals", "Refused.", "")
    assert refused.sum.is_monotonic
    assert refused.sum.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    (point,) = refused.sum.data_points
    assert (told(point.attributes), point.as_int) == ({"code": "rule.none"}, 3)
    assert (point.start_time_unix_nano, point.time_unix_nano) == (5, MOMENT)
    assert (ready.name, ready.gauge.data_points[0].as_int) == ("egress_ready", 1)
    assert (lag.unit, lag.gauge.data_points[0].as_double) == ("s", 0.25)
    (measured,) = added.histogram.data_points
    assert (list(measured.bucket_counts), list(measured.explicit_bounds)) == ([0, 1, 0], [0.5, 1.0])
    assert (measured.count, measured.sum) == (1, 0.7)
    assert not measured.HasField("min")
    assert not measured.HasField("max")


def test_no_variable_of_the_environment_gets_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "who=somebody-else")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "somebody-else")
    made = OtlpMessages.of("1", {"service.name": "egress"})
    assert b"somebody-else" not in made.traces([ExchangeSpan(RECORD, FACTS, MOMENT)])


def test_what_a_collector_rejects_is_read_and_nonsense_is_not() -> None:
    spans_of = ExportTraceServiceResponse(partial_success=ExportTracePartialSuccess(rejected_spans=2))
    logs_of = ExportLogsServiceResponse(partial_success=ExportLogsPartialSuccess(rejected_log_records=3))
    assert count_rejected("traces", spans_of.SerializeToString()) == 2
    assert count_rejected("logs", logs_of.SerializeToString()) == 3
    assert count_rejected("metrics", b"") == 0
    negative = ExportTraceServiceResponse(partial_success=ExportTracePartialSuccess(rejected_spans=-2))
    assert count_rejected("traces", negative.SerializeToString()) == 0
    assert count_rejected("traces", b"<html>") == 0
