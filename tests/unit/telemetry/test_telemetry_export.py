"""What the event loop calls: appends to bounded queues, by the rate of each sandbox."""

from __future__ import annotations

from dataclasses import dataclass, replace

from egress.exchange import Destination
from egress.telemetry.export_queue import ExportQueue
from egress.telemetry.export_worker import ExportWorker, SignalExport
from egress.telemetry.metric_families import gauge
from egress.telemetry.otlp_client import CollectorReply
from egress.telemetry.otlp_endpoint import Signal
from egress.telemetry.prometheus_text import prometheus_text
from egress.telemetry.telemetry_export import (
    MAX_QUEUED_BYTES,
    MAX_QUEUED_ITEMS,
    SPAN_BYTES,
    ExportQueues,
    TelemetryExport,
)
from egress.types import Identity
from tests.unit.audit.sample import FACTS, MOMENT, RECORD


@dataclass
class Clock:
    seconds: float = 100.0

    def monotonic(self) -> float:
        return self.seconds

    def now_ns(self) -> int:
        return MOMENT


class Nobody:
    """A collector that is never asked here: no thread is started."""

    def post(self, signal: Signal, message: bytes) -> CollectorReply:
        raise AssertionError("no thread was started")

    def close(self) -> None:
        """Nothing is open."""


def export(rate: int = 10, queues: ExportQueues | None = None) -> TelemetryExport:
    queues = queues or ExportQueues(
        ExportQueue(MAX_QUEUED_ITEMS, MAX_QUEUED_BYTES),
        ExportQueue(4, MAX_QUEUED_BYTES),
        ExportQueue(MAX_QUEUED_ITEMS, MAX_QUEUED_BYTES),
    )
    kinds: dict[Signal, object] = {"traces": queues.traces, "metrics": queues.metrics, "logs": queues.logs}
    exports = {
        signal: SignalExport(queue, lambda _: b"", lambda _: 0)
        for signal, queue in kinds.items()
        if isinstance(queue, ExportQueue)
    }
    clock = Clock()
    return TelemetryExport(clock, queues, ExportWorker(exports, Nobody(), clock.monotonic), rate, 60)


def test_a_sandbox_that_floods_loses_its_own_spans_and_lines() -> None:
    telemetry = export(rate=10)
    quiet = replace(RECORD, identity=Identity("quiet"))
    for _ in range(1000):
        telemetry.exchange(RECORD, FACTS)
        telemetry.line(b"{}\n", "agent-1")
    telemetry.exchange(quiet, FACTS)
    telemetry.line(b"{}\n", "quiet")
    telemetry.line(b'{"event":"stopped"}\n', "")
    assert telemetry.queues.traces is not None
    assert telemetry.queues.logs is not None
    assert [span.record.identity.sandbox for span in telemetry.queues.traces.take(100)] == (
        ["agent-1"] * 20 + ["quiet"]
    )
    assert len(telemetry.queues.logs) == 22
    text = prometheus_text(telemetry.families())
    assert 'egress_telemetry_dropped_total{reason="rate",signal="traces"} 980\n' in text
    assert 'egress_telemetry_dropped_total{reason="rate",signal="logs"} 980\n' in text


def test_many_sandboxes_together_cannot_fill_the_memory() -> None:
    """Nobody takes from the queue: that is a collector that hangs."""
    telemetry = export()
    line = b"x" * 4000
    for number in range(3 * MAX_QUEUED_ITEMS):
        telemetry.exchange(replace(RECORD, identity=Identity(f"sandbox-{number}")), FACTS)
        telemetry.line(line, f"sandbox-{number}")
    assert telemetry.queues.traces is not None
    assert telemetry.queues.logs is not None
    assert len(telemetry.queues.traces) == MAX_QUEUED_BYTES // SPAN_BYTES <= MAX_QUEUED_ITEMS
    dropped = 3 * MAX_QUEUED_ITEMS - len(telemetry.queues.traces)
    assert telemetry.queues.traces.dropped == dropped
    assert len(telemetry.queues.logs) * len(line) <= MAX_QUEUED_BYTES
    text = prometheus_text(telemetry.families())
    assert f'reason="queue",signal="traces"}} {dropped}\n' in text


def test_a_span_that_waits_is_no_larger_than_it_counts_for() -> None:
    """A path may be as long as a head; the longest of all other texts fit in what is counted."""
    telemetry = export()
    long = replace(
        RECORD,
        identity=Identity("s" * 63, "p" * 63),
        destination=Destination("https", f"{'h' * 60}.{'h' * 60}.{'h' * 60}.{'h' * 60}", 443),
        method="M" * 32,
        path="/" + "p" * 60_000,
        query=(("k" * 64, ("v" * 256,)),),
    )
    telemetry.exchange(long, FACTS)
    telemetry.exchange(replace(long, path="/" + "p" * 255, query=()), FACTS)
    assert telemetry.queues.traces is not None
    for span in telemetry.queues.traces.take(2):
        assert len(repr(span)) < SPAN_BYTES


def test_metrics_are_exported_when_it_is_time() -> None:
    telemetry = export()
    assert isinstance(telemetry.clock, Clock)
    asked = 0

    def families() -> list[object]:
        nonlocal asked
        asked += 1
        return [gauge("ready", "Ready.", value=True)]

    for _ in range(121):
        telemetry.tick(families)  # type: ignore[arg-type]
        telemetry.clock.seconds += 1
    assert asked == 2
    assert telemetry.queues.metrics is not None
    (snapshot, _) = telemetry.queues.metrics.take(9)
    assert (snapshot.families, snapshot.at) == ((gauge("ready", "Ready.", value=True),), MOMENT)


def test_a_signal_that_is_not_exported_costs_and_says_nothing() -> None:
    telemetry = export(queues=ExportQueues(traces=ExportQueue(10, 10_000)))
    telemetry.line(b"{}\n", "agent-1")
    telemetry.tick(list)
    telemetry.exchange(RECORD, FACTS)
    text = prometheus_text(telemetry.families())
    assert 'signal="traces"' in text
    assert 'signal="logs"' not in text
    assert 'signal="metrics"' not in text
