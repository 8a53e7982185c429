"""Blocking methods as awaitable ones: the same arguments, the same words, in a thread.

Each call has a thread of its own, so any number may wait side by side. A task that is cancelled ends what its
call waits for, such as a command, and goes on once that has settled.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Concatenate, Final

from egress.sandbox.cancellation import CancelScope, enter_scope

_CANCEL_TIMEOUT: Final = 30.0
"""Seconds that a cancelled call may take to come to its end."""


class AsyncTwin[S]:
    """The awaitable side of something."""

    def __init__(self, sync: S) -> None:
        self._sync = sync

    def __repr__(self) -> str:
        return repr(self._sync).replace("<", "<Async", 1)


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
        except BaseException as error:  # noqa: BLE001 - told to whoever awaits
            told = functools.partial(future.set_exception, _future_error(error))
        else:
            told = functools.partial(future.set_result, value)
        with suppress(RuntimeError):
            # The loop may have been closed meanwhile.
            loop.call_soon_threadsafe(settle, told)

    threading.Thread(target=run, name="egress-call", daemon=True).start()
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await _cancel_and_wait(scope, future)
        raise


async def _cancel_and_wait[R](scope: CancelScope, future: asyncio.Future[R]) -> None:
    """End what a call waits for, and let it settle."""
    # What ends it may block as well.
    threading.Thread(target=scope.cancel, name="egress-cancel", daemon=True).start()
    await asyncio.wait((future,), timeout=_CANCEL_TIMEOUT)
    if future.done() and not future.cancelled():
        # Nobody asks any more.
        future.exception()


def _future_error(error: BaseException) -> BaseException:
    """What can be raised out of a future: it takes no `StopIteration`."""
    return RuntimeError("the end was reached") if isinstance(error, StopIteration) else error


def awaited[S, **P, R](
    method: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[AsyncTwin[S], P], Coroutine[None, None, R]]:
    """Return a method as an awaitable one."""

    async def call(self: AsyncTwin[S], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await in_thread(method, self._sync, *args, **kwargs)

    functools.update_wrapper(call, method)
    return call


def wrapped[S, **P, R, T](
    method: Callable[Concatenate[S, P], R], wrap: Callable[[R], T]
) -> Callable[Concatenate[AsyncTwin[S], P], Coroutine[None, None, T]]:
    """Return a method that makes something as an awaitable one that makes the twin of it."""

    async def call(self: AsyncTwin[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return wrap(await in_thread(method, self._sync, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call


def iterated[S, **P, R](
    method: Callable[Concatenate[S, P], Iterator[R]],
) -> Callable[Concatenate[AsyncTwin[S], P], AsyncIterator[R]]:
    """Return a method that goes through something as one for `async for`."""

    def call(self: AsyncTwin[S], /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[R]:
        return iterate_in_thread(method(self._sync, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call


def copy_docstring[F: Callable[..., object]](source: object) -> Callable[[F], F]:
    """Give a function the words of another one."""

    def take(function: F) -> F:
        function.__doc__ = source.__doc__
        return function

    return take


async def iterate_in_thread[R](source: Iterator[R]) -> AsyncIterator[R]:
    """Go through an iterator that blocks."""
    end = object()
    while (item := await in_thread(_next, source, end)) is not end:
        yield item  # type: ignore[misc] # it is not the end


def _next[R](source: Iterator[R], end: object) -> R | object:
    return next(source, end)
