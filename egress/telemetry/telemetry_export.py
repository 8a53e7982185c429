"""The export of spans, lines and metrics, as the proxy uses it.

Each call from the event loop is a check of a rate and an append to a bounded queue: no call waits, encodes or
dials. The rate is that of one sandbox, the queue is for all: a sandbox that floods loses its own spans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from egress.audit.reported_facts import ExchangeFacts
from egress.exchange import ExchangeRecord
from egress.telemetry.exchange_span import ExchangeSpan
from egress.telemetry.export_queue import ExportedLine, ExportQueue, MetricSnapshot
from egress.telemetry.export_worker import ExportWorker
from egress.telemetry.metric_families import MetricFamily, by_label
from egress.telemetry.otlp_endpoint import Signal
from egress.telemetry.sandbox_rates import SandboxRates

MAX_QUEUED_ITEMS: Final = 8192
"""Spans that wait, and lines."""
MAX_QUEUED_BYTES: Final = 8 * 1024 * 1024
MAX_QUEUED_SNAPSHOTS: Final = 4
SPAN_BYTES: Final = 2048
"""As many as a span may take, without a long path: its other texts are bounded."""
_SHORT_PATH_CHARS: Final = 256
CLOSE_SECONDS: Final = 2.0
_SECOND: Final = 1_000_000_000


class ExportClock(Protocol):
    """The time."""

    def now_ns(self) -> int:
        """UTC in nanoseconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...


@dataclass(slots=True)
class ExportQueues:
    """What waits to be exported, by signal; None for a signal that is not exported."""

    traces: ExportQueue[ExchangeSpan] | None = None
    metrics: ExportQueue[MetricSnapshot] | None = None
    logs: ExportQueue[ExportedLine] | None = None


@dataclass(slots=True)
class TelemetryExport:
    """Takes what is to be exported."""

    clock: ExportClock
    queues: ExportQueues
    worker: ExportWorker
    rate: int
    """The most spans of one sandbox in a second, and the most lines."""
    interval: float
    """Seconds between two exports of the metrics."""
    began: int = field(init=False)
    _span_rates: SandboxRates = field(init=False)
    _line_rates: SandboxRates = field(init=False)
    _over_rate: dict[Signal, int] = field(default_factory=lambda: {"traces": 0, "logs": 0})
    _metrics_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock.now_ns()
        self._metrics_at = self.clock.monotonic()
        self._span_rates = SandboxRates(self.rate, self.clock.monotonic)
        self._line_rates = SandboxRates(self.rate, self.clock.monotonic)

    # Called in the event loop

    def exchange(self, record: ExchangeRecord, facts: ExchangeFacts) -> None:
        """Export an exchange that has ended as a span."""
        queue = self.queues.traces
        if queue is None:
            return
        if not self._span_rates.take(record.identity.sandbox):
            self._over_rate["traces"] += 1
            return
        # A path may be as long as a head, and no span has it. A copy without it takes longer than all else
        # here, so short ones are left in.
        if record.query or len(record.path) > _SHORT_PATH_CHARS:
            record = replace(record, path="", query=())
        if queue.put(ExchangeSpan(record, facts, self.clock.now_ns()), SPAN_BYTES):
            self.worker.notify("traces")

    def line(self, text: bytes, sandbox: str) -> None:
        """Export a line of the log; the sandbox is empty for a line about the proxy."""
        queue = self.queues.logs
        if queue is None:
            return
        if sandbox and not self._line_rates.take(sandbox):
            self._over_rate["logs"] += 1
        elif queue.put(ExportedLine(text, self.clock.now_ns()), len(text)):
            self.worker.notify("logs")

    def tick(self, families: Callable[[], Iterable[MetricFamily]]) -> None:
        """Export the metrics if it is time to; due about once a second."""
        now = self.clock.monotonic()
        queue = self.queues.metrics
        if queue is None or now - self._metrics_at < self.interval:
            return
        self._metrics_at = now
        queue.put(MetricSnapshot(tuple(families()), self.began, self.clock.now_ns()), 0)

    def families(self) -> Iterator[MetricFamily]:
        """Yield the metrics of the export itself."""
        counts = self.worker.counts
        exported: dict[str, float] = {signal: each.exported for signal, each in counts.items()}
        yield by_label("telemetry_exported_total", "Items that the collector took.", "signal", exported)
        # Each reason has its own cure: more room, a higher rate, another collector.
        dropped = {("collector", signal): each.failed for signal, each in counts.items()} | {
            ("rejected", signal): each.rejected for signal, each in counts.items()
        }
        dropped |= {("queue", signal): each.queue.dropped for signal, each in self.worker.exports.items()}
        dropped |= {("rate", signal): count for signal, count in self._over_rate.items() if signal in counts}
        yield MetricFamily(
            "telemetry_dropped_total",
            "counter",
            "Items that were not exported.",
            tuple(
                ((("reason", reason), ("signal", signal)), count)
                for (reason, signal), count in sorted(dropped.items())
            ),
        )

    def close(self) -> None:
        """Send what waits, for a short while."""
        self.worker.close(CLOSE_SECONDS)
