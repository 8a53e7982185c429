"""The queue to the thread that exports: bounded in items and bytes, in order, and never waiting."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from egress.telemetry.export_queue import ExportQueue


def test_items_come_out_in_order_at_most_so_many_at_a_time() -> None:
    queue = ExportQueue[int](10, 100)
    for number in range(5):
        assert queue.put(number, 1)
    assert queue.take(3) == [0, 1, 2]
    assert queue.take(3) == [3, 4]
    assert queue.take(3) == []


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40)), max_size=100))
def test_what_does_not_fit_is_dropped_and_counted(steps: list[tuple[bool, int]]) -> None:
    queue = ExportQueue[int](5, 60)
    waiting: list[int] = []
    dropped = 0
    for is_put, size in steps:
        if is_put:
            fits = len(waiting) < 5 and sum(waiting) + size <= 60
            assert queue.put(size, size) is fits
            if fits:
                waiting.append(size)
            dropped += not fits
        else:
            assert queue.take(2) == waiting[:2]
            del waiting[:2]
        assert len(queue) == len(waiting) <= 5
    assert queue.dropped == dropped


def test_two_threads_lose_nothing_and_count_right() -> None:
    queue = ExportQueue[int](64, 1 << 20)
    taken: list[int] = []
    done = threading.Event()

    def take() -> None:
        while not done.is_set() or len(queue):
            taken.extend(queue.take(16))

    thread = threading.Thread(target=take)
    thread.start()
    put = [number for number in range(5000) if queue.put(number, 7)]
    done.set()
    thread.join()
    assert taken == put
    assert queue.dropped == 5000 - len(put)
    assert queue._bytes_put == queue._bytes_taken == 7 * len(put)
