"""The thread that exports: batches, other attempts, what is lost is counted, and it ends when it is told."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs

from egress.telemetry import export_worker
from egress.telemetry.export_queue import ExportQueue
from egress.telemetry.export_worker import BATCH_ITEMS, MAX_ATTEMPTS, ExportWorker, SignalExport
from egress.telemetry.otlp_client import CollectorReply
from egress.telemetry.otlp_endpoint import Signal

TAKEN = CollectorReply(200)
BUSY = CollectorReply(503)
GONE = CollectorReply(0, cause="nobody is there")
WRONG = CollectorReply(400)


@dataclass
class Collecting:
    """A collector that answers as it is told."""

    replies: Iterable[CollectorReply] = ()
    messages: list[bytes] = field(default_factory=list)
    is_closed: bool = False

    def __post_init__(self) -> None:
        self._replies = iter(self.replies)

    def post(self, signal: Signal, message: bytes) -> CollectorReply:
        self.messages.append(message)
        return next(self._replies, TAKEN)

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_worker, "RETRY_SECONDS", 0.001)
    monkeypatch.setattr(export_worker, "BATCH_SECONDS", 0.01)


def exported(collector: Collecting, items: int, rejected: int = 0) -> tuple[ExportWorker, ExportQueue[int]]:
    """A worker that has sent these items and has ended, and its queue."""
    queue = ExportQueue[int](10_000, 10_000)
    export = SignalExport(queue, lambda batch: bytes(len(batch)), lambda _: rejected)
    worker = ExportWorker({"traces": export}, collector, lambda: 0.0)
    for number in range(items):
        queue.put(number, 1)
    for _ in range(items // BATCH_ITEMS + 1):
        worker._export_all()
    worker.close(0)
    return worker, queue


def test_items_are_sent_in_batches() -> None:
    collector = Collecting()
    worker, queue = exported(collector, BATCH_ITEMS + 3)
    assert [len(message) for message in collector.messages] == [BATCH_ITEMS, 3]
    assert worker.counts["traces"].exported == BATCH_ITEMS + 3
    assert len(queue) == 0


@pytest.mark.parametrize("reply", [BUSY, GONE, CollectorReply(429, retry_after=0.001)])
def test_a_batch_is_sent_again_after_a_while(reply: CollectorReply) -> None:
    collector = Collecting([reply, reply])
    worker, _ = exported(collector, 5)
    assert collector.messages == [bytes(5)] * 3
    assert (worker.counts["traces"].exported, worker.counts["traces"].failed) == (5, 0)


def test_it_is_dropped_in_the_end_and_counted_and_the_next_one_gets_its_turn() -> None:
    collector = Collecting([BUSY] * MAX_ATTEMPTS)
    with capture_logs() as logs:
        worker, _ = exported(collector, BATCH_ITEMS + 2)
    assert len(collector.messages) == MAX_ATTEMPTS + 1
    assert (worker.counts["traces"].exported, worker.counts["traces"].failed) == (2, BATCH_ITEMS)
    assert [(each["event"], each["cause"], each["dropped"]) for each in logs] == [
        ("telemetry.failed", "it answered with status 503", BATCH_ITEMS)
    ]


def test_what_the_collector_calls_wrong_is_not_sent_again() -> None:
    collector = Collecting([WRONG])
    worker, _ = exported(collector, 5)
    assert len(collector.messages) == 1
    assert worker.counts["traces"].failed == 5


def test_what_it_rejects_is_counted_apart_and_never_more_than_was_sent() -> None:
    worker, _ = exported(Collecting(), 5, rejected=2)
    assert (worker.counts["traces"].exported, worker.counts["traces"].rejected) == (3, 2)
    worker, _ = exported(Collecting(), 5, rejected=99)
    assert (worker.counts["traces"].exported, worker.counts["traces"].rejected) == (0, 5)


def test_a_fault_of_ours_is_counted_and_ends_nothing() -> None:
    queue = ExportQueue[int](10, 10)

    def encode(batch: list[int]) -> bytes:
        if batch[0] == 0:
            raise RuntimeError("words of a fault")
        return b"fine"

    collector = Collecting()
    worker = ExportWorker({"logs": SignalExport(queue, encode, lambda _: 0)}, collector, lambda: 0.0)
    queue.put(0, 1)
    with capture_logs() as logs:
        worker._export_all()
    queue.put(1, 1)
    worker._export_all()
    assert collector.messages == [b"fine"]
    assert (worker.counts["logs"].exported, worker.counts["logs"].failed) == (1, 1)
    assert "words of a fault" not in str(logs)


def test_the_thread_sends_what_waits_at_its_end() -> None:
    queue = ExportQueue[int](10, 10)
    collector = Collecting()
    export = SignalExport(queue, lambda batch: bytes(len(batch)), lambda _: 0)
    worker = ExportWorker({"traces": export}, collector, lambda: 0.0)
    worker.start()
    queue.put(1, 1)
    worker.close(20)
    assert collector.messages == [bytes(1)]
    assert collector.is_closed


def test_the_end_waits_for_no_collector() -> None:
    hang, begun = threading.Event(), threading.Event()

    class Hanging(Collecting):
        def post(self, signal: Signal, message: bytes) -> CollectorReply:
            begun.set()
            hang.wait(60)
            return GONE

    queue = ExportQueue[int](10, 10)
    export = SignalExport(queue, lambda batch: bytes(len(batch)), lambda _: 0)
    worker = ExportWorker({"traces": export}, Hanging(), lambda: 0.0)
    worker.start()
    queue.put(1, 1)
    assert begun.wait(20)
    worker.close(0.05)
    thread = worker._thread
    assert thread is not None
    assert thread.is_alive(), "it did hang"
    assert thread.daemon
    hang.set()
    thread.join(20)
    assert worker.counts["traces"].failed == 1


def test_a_full_batch_wakes_the_thread() -> None:
    queue = ExportQueue[int](10_000, 10_000)
    export = SignalExport(queue, lambda batch: bytes(len(batch)), lambda _: 0)
    worker = ExportWorker({"traces": export}, Collecting(), lambda: 0.0)
    for number in range(BATCH_ITEMS):
        assert not worker._wake.is_set()
        queue.put(number, 1)
        worker.notify("traces")
    assert worker._wake.is_set()
