"""Handlers on the event loop: no step of them holds it up for long."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable

import pytest

from egress.errors import ContentError, UsageError
from egress.exchange import AllowByHandler, DenyByHandler, HandlerFault, HandlerVerdict
from egress.handlers.in_process import MAX_OPEN_CALLS, InProcessHandlers
from tests.unit.handlers.samples import call, module

pytestmark = pytest.mark.timeout(60, method="thread")

FILE = """
import asyncio, os, time
event = asyncio.Event()

@handler(deadline=0.3)
async def one(request: Request, context: Context):
    match request.path:
        case "/now": return Allow()
        case "/later":
            await asyncio.sleep(0)
            await asyncio.sleep(0.01)
            return Deny("later")
        case "/timeout":
            async with asyncio.timeout(0.01):
                await event.wait()
        case "/event":
            await event.wait()
            return Allow()
        case "/loops":
            while True: pass
        case "/late loop":
            await asyncio.sleep(0)
            while True: pass
        case "/sleeps": time.sleep(30)
        case "/catches":
            try:
                while True: pass
            except BaseException:
                pass
            return Allow()
        case "/finally":
            try:
                while True: pass
            finally:
                time.sleep(30)
        case "/stubborn":
            try:
                await event.wait()
            except asyncio.CancelledError:
                await event.wait()
            return Allow()
        case "/forks":
            if os.fork() == 0:
                time.sleep(30)
            return Allow()
        case "/raises": raise RuntimeError
        case "/exits": raise SystemExit
"""


def handlers() -> InProcessHandlers:
    return InProcessHandlers(module(FILE))


async def verdict(found: HandlerVerdict | Awaitable[HandlerVerdict]) -> HandlerVerdict:
    return await found if isinstance(found, Awaitable) else found


async def test_a_handler_that_awaits_nothing_has_its_verdict_at_once() -> None:
    assert handlers().start(call(target="/now"), b"") == AllowByHandler()


async def test_one_that_awaits_has_it_later_as_a_task_of_the_loop() -> None:
    made = handlers()
    waits = made.start(call(target="/later"), b"")
    assert isinstance(waits, Awaitable)
    assert await waits == DenyByHandler("later")
    assert await verdict(made.start(call(target="/timeout"), b"")) == HandlerFault("raised")


@pytest.mark.parametrize("path", ["/loops", "/late loop", "/sleeps", "/finally"])
async def test_a_step_that_takes_too_long_is_interrupted(path: str) -> None:
    made = handlers()
    began = time.monotonic()
    assert await verdict(made.start(call(target=path), b"")) == HandlerFault("timeout")
    assert time.monotonic() - began < 20, "it would have slept for thirty seconds"
    assert made.start(call(target="/now"), b"") == AllowByHandler()


async def test_a_handler_that_catches_the_alarm_goes_on() -> None:
    """A stated limit: `except BaseException` is the one way to outlast it, as far as it lasts."""
    assert handlers().start(call(target="/catches"), b"") == AllowByHandler()


@pytest.mark.parametrize("path", ["/event", "/stubborn"])
async def test_a_call_ends_with_its_deadline_even_if_its_handler_does_not(path: str) -> None:
    assert await verdict(handlers().start(call(target=path), b"")) == HandlerFault("timeout")


@pytest.mark.parametrize("path", ["/raises", "/exits", "/none"])
async def test_whatever_it_raises_or_returns_denies(path: str) -> None:
    found = handlers().start(call(target=path), b"")
    assert found == HandlerFault("value" if path == "/none" else "raised")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_copy_of_the_process_ends_at_once() -> None:
    began = time.monotonic()
    # To copy a large process may take so long that the alarm rings.
    verdicts = (AllowByHandler(), HandlerFault("timeout"))
    assert await verdict(handlers().start(call(target="/forks"), b"")) in verdicts
    _, status = os.wait()  # noqa: ASYNC222 - nothing else runs here
    assert os.waitstatus_to_exitcode(status) == 70
    assert time.monotonic() - began < 20


async def test_calls_that_wait_are_bounded_for_each_sandbox() -> None:
    made = handlers()
    waiting = [made.start(call(target="/event"), b"") for _ in range(MAX_OPEN_CALLS)]
    assert made.start(call(target="/now"), b"") == HandlerFault("busy")
    assert made.start(call(target="/now", sandbox="other"), b"") == AllowByHandler()
    assert await asyncio.gather(*map(verdict, waiting)) == [HandlerFault("timeout")] * MAX_OPEN_CALLS
    await asyncio.sleep(0)
    assert made.start(call(target="/now"), b"") == AllowByHandler()


async def test_the_end_cancels_what_waits() -> None:
    made = handlers()
    waits = asyncio.ensure_future(verdict(made.start(call(target="/event"), b"")))
    await asyncio.sleep(0)
    await made.close()
    assert await waits == HandlerFault("raised")


async def test_a_call_whose_client_leaves_is_given_up() -> None:
    made = handlers()
    waits = asyncio.ensure_future(verdict(made.start(call(target="/event"), b"")))
    await asyncio.sleep(0)
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    await asyncio.sleep(0)
    assert not made._tasks


def test_plain_functions_are_refused() -> None:
    with pytest.raises(ContentError, match="the handler two is not written with `async def`"):
        InProcessHandlers(module("@handler\ndef two(request, context): return Allow()\n"))


def test_another_thread_gets_no_alarm_and_no_handlers() -> None:
    caught: list[Exception] = []

    def make() -> None:
        try:
            handlers()
        except UsageError as error:
            caught.append(error)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    assert len(caught) == 1


async def test_a_name_that_is_not_loaded_denies() -> None:
    assert handlers().start(call("none"), b"") == HandlerFault("lost")
