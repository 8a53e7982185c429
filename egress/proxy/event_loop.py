"""The event loop of the proxy: in each round it takes only a few events of each sandbox.

asyncio handles everything that is ready before it looks again. A sandbox with hundreds of connections could
have hundreds of them ready at once, and all others would wait for all of it. `FairSelector` gives the loop a
few events of each sandbox at a time; the rest stays in the kernel, which reports it again in the next round.
Sockets without an owner, such as the control socket, are never held back.

The rounds that it counts are those of `egress.shares.turns`.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import selectors
import socket
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Final

from egress.shares.turns import MAX_EVENTS_PER_ROUND, SandboxTurns, Turns

GRANTED_SECONDS: Final = 0.0001
"""Time that the next step of a coroutine is taken to need at least, before it is measured."""

COARSE_SECONDS: Final = 0.002
"""Time-outs below are too short for epoll as Python offers it, which rounds up to milliseconds."""
NAP_SECONDS: Final = 0.0001
"""The loop sleeps for so long where it has nothing to do but for sandboxes that rest."""
MAX_SELECTED_NUMBER: Final = 1024
"""`select` takes descriptors below."""

Ready = tuple[selectors.SelectorKey, int]


class WatchedSocket:
    """A socket whose events count for a sandbox."""

    __slots__ = ("_selector", "number", "turns")

    def __init__(self, selector: FairSelector | None, number: int, turns: SandboxTurns) -> None:
        self._selector = selector
        self.number = number
        self.turns = turns

    def forget(self) -> None:
        """Count no more; to be called before the socket is closed, since its number is used again."""
        if self._selector is not None:
            self._selector.forget(self)


class FairSelector(selectors.EpollSelector):
    """Selects a few of each sandbox's sockets that are ready."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: Turns | None = None
        """The turns whose rounds are counted."""
        self._watched: dict[int, WatchedSocket] = {}
        self._start = 0

    def watch(self, number: int, turns: SandboxTurns) -> WatchedSocket:
        """Count the events of this descriptor for a sandbox."""
        watched = self._watched[number] = WatchedSocket(self, number, turns)
        return watched

    def forget(self, watched: WatchedSocket) -> None:
        """Count them no more, unless the number belongs to another socket by now."""
        if self._watched.get(watched.number) is watched:
            del self._watched[watched.number]

    def select(self, timeout: float | None = None) -> list[Ready]:
        turns = self.turns
        # Where there is only one sandbox nobody waits for it.
        if turns is None or not turns.is_shared:
            ready = super().select(timeout)
            if turns is not None:
                turns.count_round()
            return ready
        if timeout is not None and 0 < timeout < COARSE_SECONDS:
            self._wait_briefly(timeout)
            ready = super().select(0)
        else:
            ready = super().select(timeout)
        turns.count_round()
        found = self._few(turns, ready) if ready else ready
        if ready and not found and timeout != 0:
            # All that is ready is for sandboxes that rest, and the kernel would say so again at once.
            select.select((), (), (), NAP_SECONDS)
        return found

    def _wait_briefly(self, seconds: float) -> None:
        """Wait until a socket is ready, for less than epoll can wait."""
        number = self.fileno()
        if number < MAX_SELECTED_NUMBER:
            select.select((number,), (), (), seconds)

    def _few(self, turns: Turns, ready: list[Ready]) -> list[Ready]:
        found: list[Ready] = []
        owned: dict[SandboxTurns, list[Ready]] = {}
        for each in ready:
            watched = self._watched.get(each[0].fd)
            if watched is None:
                found.append(each)
            else:
                owned.setdefault(watched.turns, []).append(each)
        # Others each time: else the first ones would keep the rest of their sandbox waiting.
        self._start += MAX_EVENTS_PER_ROUND
        # Before any of them is asked: whoever has worked for long rests beside the others.
        for sandbox in owned:
            sandbox.note_ready()
        chosen: list[SandboxTurns] = []
        for sandbox, events in sorted(owned.items(), key=_had_less):
            most = sandbox.events
            start = self._start % len(events) if len(events) > most else 0
            found += (events[start:] + events[:start])[:most]
            if most:
                chosen.append(sandbox)
        # Behind the choice: all that is chosen is looked at, and other work of those that had more waits.
        turns.expect(chosen)
        return found


def _had_less(owned: tuple[SandboxTurns, list[Ready]]) -> float:
    """Order sandboxes by what they had: one that wants little goes before one that wants much."""
    return owned[0].rested_at


class FairEventLoop(asyncio.SelectorEventLoop):
    """The loop of asyncio, with a `FairSelector`."""

    def __init__(self) -> None:
        self.selector = FairSelector()
        super().__init__(self.selector)


def make_turns(clock: Callable[[], float]) -> Turns:
    """Make turns of the loop that will run; if it runs already and counts rounds, of those."""
    turns = Turns(
        clock,
        lambda work: asyncio.get_running_loop().call_soon(work),
        lambda seconds, work: asyncio.get_running_loop().call_later(seconds, work),
    )
    with contextlib.suppress(RuntimeError):
        loop = asyncio.get_running_loop()
        if isinstance(loop, FairEventLoop):
            loop.selector.turns = turns
    return turns


def watch(sock: socket.socket, turns: SandboxTurns) -> WatchedSocket:
    """Count the events of a socket for a sandbox, in the loop that runs."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, FairEventLoop):
        return loop.selector.watch(sock.fileno(), turns)
    return WatchedSocket(None, sock.fileno(), turns)


async def drive[T](turns: SandboxTurns, work: Callable[[], Coroutine[object, object, T]]) -> T:
    """Run a coroutine of a sandbox: each of its steps is measured, and waits where there is no time left."""
    return await _steps(turns, work())


@types.coroutine
def _steps[T](turns: SandboxTurns, work: Coroutine[object, object, T]) -> Generator[object, object, T]:
    fault: BaseException | None = None
    try:
        while True:
            # A cancellation is handed on at once: it ends things.
            if fault is None and (turns.has_waiting or turns.is_spent):
                try:
                    yield from _granted(turns)
                except BaseException as error:  # noqa: BLE001 - as below
                    fault = error
            turns.enter()
            try:
                future = work.send(None) if fault is None else work.throw(fault)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                turns.leave()
            fault = None
            try:
                yield future
            except BaseException as error:  # noqa: BLE001 - the coroutine is to see it, whatever it is
                fault = error
    finally:
        work.close()


def _granted(turns: SandboxTurns) -> Generator[object, None, None]:
    """Wait until the sandbox has a turn.

    A turn grants several steps before the first of them is measured: as many as would fit if each were like
    those before. They count as granted and as measured, for a sandbox that wants more than its share.
    """
    future = asyncio.get_running_loop().create_future()

    def grant() -> None:
        if not future.done():
            turns.charge(max(GRANTED_SECONDS, turns.usual_seconds))
            future.set_result(None)

    turns.wait(grant)
    yield from future
