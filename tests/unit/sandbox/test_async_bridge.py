"""Blocking calls are awaited in threads, and given up when their task is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from egress.sandbox.async_bridge import AsyncTwin, awaited, in_thread, iterate_in_thread, iterated, wrapped
from egress.sandbox.cancellation import CancellableEvent


class Counter:
    def __init__(self, start: int) -> None:
        self.start = start

    def count(self, by: int = 1) -> int:
        """Count on."""
        self.start += by
        return self.start

    def up(self) -> Iterator[int]:
        """Count from one."""
        yield from range(1, self.start + 1)

    def __repr__(self) -> str:
        return f"<Counter {self.start}>"


class AsyncCounter(AsyncTwin[Counter]):
    count = awaited(Counter.count)
    up = iterated(Counter.up)
    text = wrapped(Counter.count, str)


async def test_a_method_is_awaited_in_another_thread() -> None:
    assert await AsyncCounter(Counter(1)).count(by=2) == 3
    assert await AsyncCounter(Counter(1)).text() == "2"
    assert AsyncCounter.count.__doc__ == "Count on."
    assert repr(AsyncCounter(Counter(1))) == "<AsyncCounter 1>"
    assert await in_thread(threading.current_thread) is not threading.current_thread()


async def test_what_goes_wrong_goes_wrong_for_who_awaits() -> None:
    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await in_thread(fail)
    with pytest.raises(RuntimeError, match="end"):
        await in_thread(next, iter(()))


async def test_an_iterator_is_stepped_through() -> None:
    assert [each async for each in iterate_in_thread(iter([1, None, 2]))] == [1, None, 2]
    assert [each async for each in AsyncCounter(Counter(1)).up()] == [1]


async def test_cancelling_gives_up_what_is_waited_for() -> None:
    moment = CancellableEvent()
    settled: list[bool] = []
    task = asyncio.create_task(in_thread(lambda: settled.append(moment.wait())))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert settled == [False]
