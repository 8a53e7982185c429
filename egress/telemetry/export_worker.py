"""The thread that exports: it takes batches from the queues, encodes them and sends them.

The event loop only puts into the queues. A collector that hangs holds up this thread alone: the queues fill,
and what does not fit is dropped and counted. A batch is tried a few times, then dropped and counted too, so
that newer items get their turn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import structlog

from egress.telemetry.export_queue import ExportQueue
from egress.telemetry.otlp_client import CollectorReply
from egress.telemetry.otlp_endpoint import Signal

BATCH_ITEMS: Final = 512
"""Items of one message, and how many end the wait for more."""
BATCH_SECONDS: Final = 1.0
"""The longest that an item waits for others."""
MAX_ATTEMPTS: Final = 4
RETRY_SECONDS: Final = 1.0
"""The wait before the second attempt; it doubles with each one."""
_TOLD_SECONDS: Final = 60.0

_log = structlog.get_logger(__name__)


class Collector(Protocol):
    """Takes messages."""

    def post(self, signal: Signal, message: bytes) -> CollectorReply: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SignalExport:
    """One kind of item: its queue, and how it becomes a message."""

    # The type of its items is known to the queue and the encoder alone.
    queue: ExportQueue[Any]
    encode: Callable[[list[Any]], bytes]
    count_rejected: Callable[[bytes], int]
    """Reads from a reply how many items were not taken."""


@dataclass(slots=True)
class ExportCounts:
    """What came of the items of one kind, since the start. Only the thread that exports writes it."""

    exported: int = 0
    failed: int = 0
    """Dropped because the collector took none of their message."""
    rejected: int = 0
    """Not taken by a collector that took others of the same message."""


@dataclass(slots=True)
class _Telling:
    """When a failure was last logged, and for how many it stands."""

    at: float = float("-inf")
    items: int = 0


@dataclass(slots=True)
class ExportWorker:
    """Exports from the start to `close`."""

    exports: Mapping[Signal, SignalExport]
    collector: Collector
    monotonic: Callable[[], float]
    counts: dict[Signal, ExportCounts] = field(init=False)
    _wake: threading.Event = field(default_factory=threading.Event)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _told: _Telling = field(default_factory=_Telling)

    def __post_init__(self) -> None:
        self.counts = {signal: ExportCounts() for signal in self.exports}

    # Called in the event loop

    def start(self) -> None:
        """Begin to export."""
        # A daemon: a collector that hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="egress-telemetry", daemon=True)
        self._thread.start()

    def notify(self, signal: Signal) -> None:
        """Tell that an item was put; the thread wakes when a batch is full."""
        if len(self.exports[signal].queue) >= BATCH_ITEMS and not self._wake.is_set():
            self._wake.set()

    def close(self, seconds: float) -> None:
        """Send what waits, once, and wait for it no longer than this."""
        self._stopped.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(seconds)

    # The thread

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._wake.wait(BATCH_SECONDS)
            self._wake.clear()
            self._export_all()
        self._export_all()
        self.collector.close()

    def _export_all(self) -> None:
        for signal, export in self.exports.items():
            while batch := export.queue.take(BATCH_ITEMS):
                try:
                    self._export(signal, export, batch)
                except Exception as error:  # noqa: BLE001 - a thread that ended would export nothing ever after
                    self._fail(signal, len(batch), type(error).__name__)

    def _export(self, signal: Signal, export: SignalExport, batch: list[Any]) -> None:
        message = export.encode(batch)
        reply = self._posted(signal, message)
        if not reply.is_taken:
            self._fail(signal, len(batch), reply.cause or f"it answered with status {reply.status}")
            return
        counts = self.counts[signal]
        rejected = min(export.count_rejected(reply.body), len(batch))
        counts.rejected += rejected
        counts.exported += len(batch) - rejected

    def _posted(self, signal: Signal, message: bytes) -> CollectorReply:
        wait = RETRY_SECONDS
        for _ in range(MAX_ATTEMPTS - 1):
            reply = self.collector.post(signal, message)
            # While the proxy stops, nothing is tried twice.
            if reply.is_taken or not reply.is_worth_retrying or self._stopped.is_set():
                return reply
            self._stopped.wait(max(wait, reply.retry_after))
            wait *= 2
        return self.collector.post(signal, message)

    def _fail(self, signal: Signal, items: int, cause: str) -> None:
        """Count items that were not taken, and log it, at most once a minute."""
        self.counts[signal].failed += items
        self._told.items += items
        now = self.monotonic()
        if now - self._told.at >= _TOLD_SECONDS:
            _log.warning("telemetry.failed", signal=signal, cause=cause, dropped=self._told.items)
            self._told = _Telling(now)
