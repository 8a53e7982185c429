"""What telemetry costs: for a span in the event loop, and in the thread that exports. Prints numbers."""

from __future__ import annotations

from functools import partial

from bench._timing import microseconds
from bench.audit import FACTS, RECORD, MachineClock
from egress.telemetry.exchange_span import ExchangeSpan
from egress.telemetry.export_queue import ExportQueue
from egress.telemetry.export_worker import BATCH_ITEMS, ExportWorker, SignalExport
from egress.telemetry.otlp_client import CollectorReply
from egress.telemetry.otlp_endpoint import Signal
from egress.telemetry.otlp_messages import OtlpMessages
from egress.telemetry.telemetry_export import ExportQueues, TelemetryExport

Row = tuple[str, float, str, float | None]
_UNBOUNDED = 10**12


class Nobody:
    """A collector that is not asked: no thread is started."""

    def post(self, signal: Signal, message: bytes) -> CollectorReply:  # noqa: ARG002 - as the protocol has it
        return CollectorReply(200)

    def close(self) -> None:
        """Nothing is open."""


def run() -> list[Row]:
    clock = MachineClock()
    # Nobody takes from it, and nothing may be dropped: that would cost less.
    queue = ExportQueue[ExchangeSpan](_UNBOUNDED, _UNBOUNDED)
    messages = OtlpMessages.of("1", {"service.name": "egress"})
    export = SignalExport(queue, messages.traces, lambda _: 0)
    worker = ExportWorker({"traces": export}, Nobody(), clock.monotonic)
    telemetry = TelemetryExport(clock, ExportQueues(traces=queue), worker, _UNBOUNDED, 60)
    spans = [ExchangeSpan(RECORD, FACTS, clock.now_ns())] * BATCH_ITEMS
    queued = microseconds(partial(telemetry.exchange, RECORD, FACTS))
    encoded = microseconds(partial(messages.traces, spans), 20) / BATCH_ITEMS
    return [
        ("telemetry: a span, in the event loop", queued, "us", None),
        ("telemetry: a span, made and encoded in the thread", encoded, "us", None),
    ]


if __name__ == "__main__":
    for name, value, unit, _ in run():
        print(f"{name:<50} {value:10.3f} {unit}")
