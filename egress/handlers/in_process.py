"""Handlers in the process of the proxy: coroutine functions, driven by its event loop.

A handler that awaits nothing has its verdict within the call. Each of its steps, from one `await` to the
next, runs under an alarm: the kernel interrupts a step that takes too long, also one that sleeps or loops,
and the call denies. A single operation inside of C code cannot be interrupted, a handler that catches every
alarm goes on, and memory cannot be bounded: code that may do such things belongs into a process of its own.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Coroutine, Generator
from typing import Final

from egress.errors import ContentError, UsageError
from egress.exchange.handler_call import HandlerCall, HandlerFault, HandlerVerdict
from egress.handlers.conversion import seen_by_handler, verdict_of
from egress.handlers.interface import Context, Request
from egress.handlers.module import HandlerModule, LoadedHandler
from egress.rules.decide.outbound import Outbound

MAX_STEP_SECONDS: Final = 0.05
"""Time of the processor that one step of a handler may take."""
MAX_STALL_SECONDS: Final = 0.25
"""Time that one step may take in all. Longer, because a busy machine makes every step wait."""
MAX_OPEN_CALLS: Final = 64
"""Calls of one sandbox that wait for something at a time."""

_BUSY_FAULT: Final = HandlerFault("busy")
_TIMEOUT_FAULT: Final = HandlerFault("timeout")
_LOST_FAULT: Final = HandlerFault("lost")
_RAISED_FAULT: Final = HandlerFault("raised")


class HandlerOverrunError(BaseException):
    """Raised in a handler whose step takes too long. Not an `Exception`: handlers catch those."""


class StepAlarm:
    """The alarm of the process, for the one step that runs at a time."""

    def __init__(self) -> None:
        self._is_armed = False
        self._began = self._spent = 0.0
        os.register_at_fork(after_in_child=self._end_fork)

    def install(self) -> None:
        """Take the signal. Raises `UsageError` in a thread that gets none."""
        if threading.current_thread() is not threading.main_thread():
            raise UsageError(
                "handlers in the process of the proxy need its main thread",
                "run them in a process of their own",
            )
        signal.signal(signal.SIGALRM, self._ring)

    def arm(self) -> None:
        """Begin a step."""
        self._is_armed = True
        self._began, self._spent = time.monotonic(), time.thread_time()
        # Again and again: a handler may catch the first one.
        signal.setitimer(signal.ITIMER_REAL, MAX_STEP_SECONDS, MAX_STEP_SECONDS)

    def disarm(self) -> None:
        """The step has ended."""
        self._is_armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _ring(self, *_: object) -> None:
        if not self._is_armed:
            return
        took, spent = time.monotonic() - self._began, time.thread_time() - self._spent
        if spent >= MAX_STEP_SECONDS or took >= MAX_STALL_SECONDS:
            raise HandlerOverrunError

    def _end_fork(self) -> None:
        """End a copy of the proxy that a handler made: it has every socket and every secret of it."""
        if self._is_armed:
            os._exit(70)


_ALARM: Final = StepAlarm()
"""A process has one alarm."""


class _Steps[T]:
    """A coroutine each of whose steps runs under the alarm."""

    __slots__ = ("_alarm", "_coroutine")

    def __init__(self, coroutine: Coroutine[object, object, T], alarm: StepAlarm) -> None:
        self._coroutine = coroutine
        self._alarm = alarm

    def __await__(self) -> Generator[object, object, T]:
        coroutine, alarm = self._coroutine, self._alarm
        thrown: BaseException | None = None
        sent: object = None
        while True:
            try:
                alarm.arm()
                try:
                    waits_for = coroutine.send(sent) if thrown is None else coroutine.throw(thrown)
                finally:
                    alarm.disarm()
            except StopIteration as stop:
                value: T = stop.value
                return value
            except HandlerOverrunError:
                # It may have rung within the `disarm` above.
                alarm.disarm()
                self._end()
                raise
            thrown = None
            try:
                sent = yield waits_for
            except BaseException as error:  # noqa: BLE001 - whatever the loop throws is for the coroutine
                thrown = error

    def _end(self) -> None:
        """End the coroutine, whose last words take time, too."""
        self._alarm.arm()
        try:
            self._coroutine.close()
        except BaseException:  # noqa: BLE001 - it has its verdict
            return
        finally:
            self._alarm.disarm()


class InProcessHandlers:
    """Calls the handlers of a module in this process."""

    def __init__(self, module: HandlerModule) -> None:
        """Raises `ContentError` for a handler that is no coroutine function."""
        for name, each in module.handlers.items():
            if not each.is_async:
                raise ContentError(
                    f"{module.path}: the handler {name} is not written with `async def`",
                    "write it so, or run the handlers in a process of their own",
                )
        self.outbound: Outbound = module.outbound
        self._handlers = module.handlers
        self._alarm = _ALARM
        self._alarm.install()
        self._open: Counter[str] = Counter()
        """Calls that wait for something, by sandbox."""
        self._tasks: set[asyncio.Task[HandlerVerdict]] = set()
        self._waits: set[asyncio.Task[HandlerVerdict]] = set()

    def start(self, call: HandlerCall, body: bytes) -> HandlerVerdict | Awaitable[HandlerVerdict]:
        """Call a handler; its first step runs at once."""
        loaded = self._handlers.get(call.use.name)
        if loaded is None:
            return _LOST_FAULT
        sandbox = call.identity.sandbox
        if self._open[sandbox] >= MAX_OPEN_CALLS:
            return _BUSY_FAULT
        request, context = seen_by_handler(call, body)
        task = asyncio.Task(
            self._run(loaded, request, context), loop=asyncio.get_running_loop(), eager_start=True
        )
        if task.done():
            return task.result()
        self._open[sandbox] += 1
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(done, sandbox))
        # A task of its own: the deadline holds even where the connection ends before it is awaited.
        wait = asyncio.get_running_loop().create_task(self._awaited(task, loaded.terms.deadline))
        self._waits.add(wait)
        wait.add_done_callback(self._waits.discard)
        return wait

    async def close(self) -> None:
        """End every call that waits for something."""
        for task in self._tasks:
            task.cancel()

    async def _awaited(self, task: asyncio.Task[HandlerVerdict], deadline: float) -> HandlerVerdict:
        try:
            await asyncio.wait({task}, timeout=deadline)
        finally:
            # A call whose client has left is not waited for either.
            if not task.done():
                task.cancel()
        return task.result() if task.done() else _TIMEOUT_FAULT

    async def _run(self, loaded: LoadedHandler, request: Request, context: Context) -> HandlerVerdict:
        try:
            return await _Steps(_called(loaded, request, context), self._alarm)
        except HandlerOverrunError:
            return _TIMEOUT_FAULT
        except GeneratorExit:
            raise
        except BaseException:  # noqa: BLE001 - also one that would end the process denies, and no more
            return _RAISED_FAULT

    def _ended(self, task: asyncio.Task[HandlerVerdict], sandbox: str) -> None:
        self._tasks.discard(task)
        self._open[sandbox] -= 1
        if not self._open[sandbox]:
            del self._open[sandbox]


async def _called(loaded: LoadedHandler, request: Request, context: Context) -> HandlerVerdict:
    """Call it, and read what it returns, which may take its time, too."""
    result = loaded.function(request, context)
    return verdict_of(await result if isinstance(result, Awaitable) else result, request)
