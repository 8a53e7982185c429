"""Turns blocking methods into awaitable ones: same arguments, same documentation, run in a thread.

Each call has its own thread, so any number may wait at a time. Cancelling a task ends whatever its call waits
for, such as a command, and the task continues once that has settled.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Concatenate, Final, Self

from egress.sandbox.cancellation import CancelScope, enter_scope

_CANCEL_TIMEOUT: Final = 30.0
"""Seconds that a cancelled call may take to return."""


class AsyncTwin[S]:
    """The awaitable counterpart of an object."""

    def __init__(self, sync: S) -> None:
        self._sync = sync

    def __repr__(self) -> str:
        return repr(self._sync).replace("<", "<Async", 1)


class AsyncContextTwin[S: AbstractContextManager[object]](AsyncTwin[S]):
    """The awaitable counterpart of an object that a `with` block ends."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # In a thread: the end of the block may wait, for a process for example.
        await in_thread(self._sync.__exit__, kind, error, trace)


async def in_thread[**P, R](function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a blocking function in a thread of its own, and await it."""
    scope = CancelScope()
    loop = asyncio.get_running_loop()
    future: asyncio.Future[R] = loop.create_future()

    def settle(done: Callable[[], object]) -> None:
        if not future.done():
            done()

    def run() -> None:
        try:
            with enter_scope(scope):
                value = function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - raised again in the awaiting task
            told = functools.partial(future.set_exception, _future_error(error))
        else:
            told = functools.partial(future.set_result, value)
        with suppress(RuntimeError):
            # The loop may have been closed meanwhile.
            loop.call_soon_threadsafe(settle, told)

    # A daemon thread: a blocked call must not keep the interpreter from exiting.
    threading.Thread(target=run, name="egress-call", daemon=True).start()
    # Shielded: the thread goes on, so its result has to be awaited before the cancellation is raised.
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await _cancel_and_wait(scope, future)
        raise


async def _cancel_and_wait[R](scope: CancelScope, future: asyncio.Future[R]) -> None:
    """End the operation that a call waits for, and wait until the call returns."""
    # In a thread: ending a command may block as well.
    threading.Thread(target=scope.cancel, name="egress-cancel", daemon=True).start()
    await asyncio.wait((future,), timeout=_CANCEL_TIMEOUT)
    if future.done() and not future.cancelled():
        # Retrieve the exception, so that asyncio does not report it as lost.
        future.exception()


def _future_error(error: BaseException) -> BaseException:
    """An exception for a future, which accepts no `StopIteration`."""
    return RuntimeError("the end was reached") if isinstance(error, StopIteration) else error


def awaited[S, **P, R](
    method: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[AsyncTwin[S], P], Coroutine[None, None, R]]:
    """Turn a method into an awaitable one."""

    async def call(self: AsyncTwin[S], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await in_thread(method, self._sync, *args, **kwargs)

    functools.update_wrapper(call, method)
    return call


def wrapped[S, **P, R, T](
    method: Callable[Concatenate[S, P], R], wrap: Callable[[R], T]
) -> Callable[Concatenate[AsyncTwin[S], P], Coroutine[None, None, T]]:
    """Turn a method that makes a part into an awaitable one that makes the part's twin."""

    async def call(self: AsyncTwin[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return wrap(await in_thread(method, self._sync, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call


def iterated[S, **P, R](
    method: Callable[Concatenate[S, P], Iterator[R]],
) -> Callable[Concatenate[AsyncTwin[S], P], AsyncIterator[R]]:
    """Turn a method that returns an iterator into one for `async for`."""

    def call(self: AsyncTwin[S], /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[R]:
        return iterate_in_thread(method(self._sync, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call


def copy_docstring[F: Callable[..., object]](source: object) -> Callable[[F], F]:
    """Copy the docstring of a function."""

    def take(function: F) -> F:
        function.__doc__ = source.__doc__
        return function

    return take


async def iterate_in_thread[R](source: Iterator[R]) -> AsyncIterator[R]:
    """Iterate over a blocking iterator."""
    end = object()
    while (item := await in_thread(_next, source, end)) is not end:
        yield item  # type: ignore[misc] # the sentinel was excluded


def _next[R](source: Iterator[R], end: object) -> R | object:
    return next(source, end)
