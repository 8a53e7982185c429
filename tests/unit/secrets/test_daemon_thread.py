"""Blocking work beside the loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from egress.secrets.daemon_thread import run_in_thread
from tests.unit.secrets.secret_samples import until


async def test_returns_and_raises_what_the_work_does() -> None:
    def fail() -> int:
        raise ValueError("no")

    assert await run_in_thread(lambda: 3) == 3
    with pytest.raises(ValueError, match="no"):
        await run_in_thread(fail)


async def test_the_loop_goes_on_meanwhile_and_a_cancelled_caller_leaves_the_work_alone() -> None:
    go, done = threading.Event(), threading.Event()

    def work() -> None:
        go.wait()
        done.set()

    waiter = asyncio.create_task(run_in_thread(work))
    await asyncio.sleep(0)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    go.set()
    assert done.wait(30)


def test_a_result_that_comes_after_the_loop_has_closed_is_dropped() -> None:
    """An exception in the thread would fail this test."""
    go, begun = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go.wait()

    async def main() -> None:
        waiter = asyncio.create_task(run_in_thread(work))
        await until(begun.is_set)
        waiter.cancel()

    asyncio.run(main())
    threads = [thread for thread in threading.enumerate() if thread.name == "egress-secret"]
    assert all(thread.daemon for thread in threads)
    go.set()
    for thread in threads:
        thread.join(30)
