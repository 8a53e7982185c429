"""A command whose output goes to a client as server-sent events, each piece as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Final, Protocol, override

import msgspec
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from egress.api.schema import MAX_PIECE_BYTES, Problem
from egress.api_server.call import ApiCall, problem_from
from egress.runtime.errors import SandboxTimeoutError
from egress.runtime.protocol import Output
from egress.runtime.spec import ExecResult

EVENT_STREAM: Final = "text/event-stream"
_ENDING: Final[set[asyncio.Future[None]]] = set()
"""Commands whose clients have left; the loop itself keeps no task alive."""


class EventForm(Protocol):
    """The form of the events, which differs between the doors onto the API."""

    def piece(self, name: str, data: bytes) -> bytes:
        """Return a piece of `stdout` or `stderr` as an event."""

    def end(self, result: ExecResult) -> Iterable[bytes]:
        """Return the last events of a command that has ended."""

    def failure(self, problem: Problem) -> bytes:
        """Return the last event of a command whose sandbox ended."""


class BegunCommand(Protocol):
    """A command that was started, or that waits for its turn."""

    def wait(self) -> ExecResult: ...

    def kill(self) -> None: ...


Begin = Callable[[Output], Awaitable[BegunCommand]]
"""Starts a command with callbacks for its output."""


class CommandEvents:
    """A command whose output is sent as events."""

    def __init__(self, call: ApiCall, form: EventForm, stall: float | None = None) -> None:
        """After `stall` seconds, a client that takes no output counts as gone."""
        self._call = call
        self._form = form
        self._stall = stall
        self._loop = asyncio.get_running_loop()
        # One piece at a time: a client that reads slowly slows the command.
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=1)
        self._is_gone = False
        self._process: BegunCommand | None = None
        self._waiting: asyncio.Future[None] | None = None

    async def start(self, begin: Begin) -> None:
        """Start the command. Raises its errors, before any event was sent."""
        process = await begin(
            Output(
                stdout=lambda data: self._add("stdout", data), stderr=lambda data: self._add("stderr", data)
            )
        )
        self._process = process
        self._waiting = asyncio.ensure_future(self._wait(process))

    async def lines(self) -> AsyncIterator[bytes]:
        """The events as they come."""
        while (made := await self._queue.get()) is not None:
            yield made
        if self._is_gone:
            # It has stalled, and reads again: it must not take the missing end for a lost connection.
            late = SandboxTimeoutError(
                "the client took no output for too long: its command was ended", "read"
            )
            yield self._form.failure(problem_from(late))

    def leave(self) -> None:
        """End the command, if it still runs: nobody reads its events any more."""
        is_first, self._is_gone = not self._is_gone, True
        if is_first and self._waiting is not None and not self._waiting.done():
            # In a task of its own: the one that sends the events may be cancelled.
            ending = asyncio.ensure_future(self._abandon(self._waiting))
            _ENDING.add(ending)
            ending.add_done_callback(_ENDING.discard)

    async def _abandon(self, waiting: asyncio.Future[None]) -> None:
        """End the command, and take what its threads still have to say, so that none waits for ever."""
        killing = asyncio.ensure_future(self._end())
        while not waiting.done():
            taking = asyncio.ensure_future(self._queue.get())
            await asyncio.wait((taking, waiting), return_when=asyncio.FIRST_COMPLETED)
            taking.cancel()
        await asyncio.gather(killing, waiting, return_exceptions=True)
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(None)

    async def _end(self) -> None:
        if self._process is not None:
            await self._call.context.in_thread(self._process.kill)

    async def _wait(self, process: BegunCommand) -> None:
        try:
            result = await self._call.context.waiting(process.wait)
            last = tuple(self._form.end(result))
        except Exception as error:  # noqa: BLE001 - the client waits for the last event, whatever it is
            last = (self._form.failure(problem_from(error)),)
        for each in (*last, None):
            await self._queue.put(each)

    def _add(self, name: str, data: bytes) -> None:
        for begin in range(0, len(data), MAX_PIECE_BYTES):
            if self._is_gone:
                return
            made = self._form.piece(name, data[begin : begin + MAX_PIECE_BYTES])
            asyncio.run_coroutine_threadsafe(self._put(made), self._loop).result()

    async def _put(self, piece: bytes) -> None:
        try:
            await asyncio.wait_for(self._queue.put(piece), self._stall)
        except TimeoutError:
            self.leave()


class CommandEventsResponse(StreamingResponse):
    """The events of a command, which ends with the response, also with one that never began."""

    def __init__(self, events: CommandEvents) -> None:
        super().__init__(events.lines(), media_type=EVENT_STREAM)
        self._events = events

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._events.leave()


def event(name: str, data: object) -> bytes:
    """Return a server-sent event with a JSON value."""
    return event_line(name, msgspec.json.encode(data))


def event_line(name: str, data: bytes) -> bytes:
    """Return a server-sent event with one line of data."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)
