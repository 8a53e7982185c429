"""Processes that clients find by their ids: start, output from an offset on, input, signals and waits.

A client that follows an output costs no thread: the process wakes the loop. One that reads slowly slows
nobody, and is told how much it missed.
"""

from __future__ import annotations

import asyncio
import base64
import codecs
from collections.abc import AsyncIterator
from contextlib import suppress
from http import HTTPStatus
from typing import Final

from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from egress.api.process_schema import (
    InputQuery,
    OutputEventView,
    OutputQuery,
    ProcessesView,
    ProcessSettings,
    ProcessView,
    SignalSettings,
    WaitSettings,
)
from egress.api.schema import (
    MAX_PIECE_BYTES,
)
from egress.api_server.call import (
    ApiCall,
    BlockingHandler,
    StreamHandler,
    json_response,
)
from egress.api_server.command_events import EVENT_STREAM, event
from egress.api_server.exec_over_http import client_left, words_of
from egress.api_server.policy_calls import run_rights
from egress.fleet.api_values import process_view, terminal_from
from egress.fleet.http_probe import HttpProbe
from egress.fleet.process_interface import DEFAULT_KEPT_BYTES, OutputPiece
from egress.fleet.process_table import TableProcess, late_error
from egress.fleet.process_wait import ProcessExpectation
from egress.runtime.spec import Command

_PULSE_INTERVAL: Final = 15.0
"""Seconds between two lines that show a client that the connection lives."""


def _process(call: ApiCall) -> TableProcess:
    return call.fleet.tracked.get(call.name, call.parts["process"])


# Calls that answer at once ------------------------------------------------------------------------


def _start(call: ApiCall) -> ProcessView:
    settings: ProcessSettings = call.body
    command = Command(
        argv=words_of(settings.command, settings.argv),
        cwd=settings.cwd,
        env=settings.env,
        timeout=settings.timeout,
        grace=settings.grace,
        input=None if settings.stdin or settings.terminal is not None else b"",
        terminal=terminal_from(settings.terminal),
        rights=run_rights(call, settings.profile, settings.params),
    )
    keep = DEFAULT_KEPT_BYTES if settings.keep is None else settings.keep
    return process_view(call.fleet.tracked.start(call.name, command, keep).status())


def _list(call: ApiCall) -> ProcessesView:
    return ProcessesView(processes=tuple(process_view(each) for each in call.fleet.tracked.all(call.name)))


def _get(call: ApiCall) -> ProcessView:
    return process_view(_process(call).status())


def _signal(call: ApiCall) -> None:
    settings: SignalSettings = call.body
    if settings.name is None:
        _process(call).kill(settings.grace)
    else:
        _process(call).signal(settings.name)


def _delete(call: ApiCall) -> None:
    _process(call).forget()


# Streams ------------------------------------------------------------------------------------------


async def _write(call: ApiCall, request: Request) -> Response:
    query: InputQuery = call.query
    process = _process(call)
    async for piece in request.stream():
        if piece:
            await call.context.waiting(process.write, piece)
    if query.close:
        await call.context.in_thread(process.close_input)
    return Response(status_code=HTTPStatus.NO_CONTENT)


async def _read(call: ApiCall, request: Request) -> Response:
    query: OutputQuery = call.query
    process = _process(call)
    if EVENT_STREAM in request.headers.get("accept", ""):
        # Read once before the head of the answer, so that an impossible offset is a problem.
        process.read_piece(query.stream, query.offset, 0)
        return StreamingResponse(_OutputEvents(process, query).lines(), media_type=EVENT_STREAM)
    piece = process.read(query.stream, query.offset)
    headers = {
        "egress-offset": str(piece.offset),
        "egress-first-offset": str(piece.first),
        "egress-next-offset": str(piece.next),
    }
    return Response(piece.data, headers=headers, media_type="application/octet-stream")


class _OutputEvents:
    """An output as events: `output` with its offsets, `lost` for a gap, and `end` with the process."""

    def __init__(self, process: TableProcess, query: OutputQuery) -> None:
        self._process = process
        self._query = query
        self._offset = query.offset
        self._is_text = query.encoding == "utf-8"
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    async def lines(self) -> AsyncIterator[bytes]:
        """The events as they come, until the end of the process."""
        waker = LoopWaker()
        with self._process.watch(waker.wake):
            # The first line at once: a client waits for the head of the answer before it acts.
            yield b": output\n\n"
            while True:
                waker.changed.clear()
                # Asked before the read: output that came before the end is sent.
                is_over = self._process.is_over
                piece = self._process.read_piece(self._query.stream, self._offset, MAX_PIECE_BYTES)
                for each in self._events(piece):
                    yield each
                if piece.data:
                    continue
                if is_over:
                    break
                if not await waker.wait(_PULSE_INTERVAL):
                    yield b": alive\n\n"
        if self._is_text and (rest := self._decoder.decode(b"", final=True)):
            # A character that was cut by the end of the output.
            yield event("output", OutputEventView(offset=self._offset, next=self._offset, text=rest))
        view = process_view(self._process.status())
        yield event("end", OutputEventView(offset=self._offset, next=self._offset, process=view))

    def _events(self, piece: OutputPiece) -> list[bytes]:
        made: list[bytes] = []
        if piece.offset > self._offset:
            made.append(event("lost", OutputEventView(offset=self._offset, next=piece.offset)))
            self._decoder.reset()
        self._offset = piece.next
        if piece.data and self._is_text:
            # A character that is cut comes with the next piece, and a client that returns asks for all of it.
            before = len(self._decoder.getstate()[0])
            text = self._decoder.decode(piece.data)
            following = piece.next - len(self._decoder.getstate()[0])
            view = OutputEventView(offset=piece.offset - before, next=following, text=text)
            made += [event("output", view)] if text else []
        elif piece.data:
            data = base64.b64encode(piece.data).decode()
            made.append(event("output", OutputEventView(offset=piece.offset, next=piece.next, base64=data)))
        return made


async def _wait(call: ApiCall, request: Request) -> Response:
    settings: WaitSettings = call.body
    process = _process(call)
    probe = None if settings.http is None else HttpProbe(**structs.asdict(settings.http))
    expected = process.expect(settings.log, settings.port, probe)
    waiting = asyncio.ensure_future(_happened(call, process, expected, settings.timeout))
    leaving = asyncio.ensure_future(client_left(request))
    try:
        await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            await waiting
        return json_response(process_view(process.status()))
    finally:
        leaving.cancel()
        waiting.cancel()


async def _happened(
    call: ApiCall, process: TableProcess, expected: ProcessExpectation, seconds: float | None
) -> None:
    waker = LoopWaker()
    loop = asyncio.get_running_loop()
    end = None if seconds is None else loop.time() + seconds
    with process.watch(waker.wake):
        while True:
            waker.changed.clear()
            # In a thread: a look at a port connects to it.
            if await call.context.waiting(expected.is_met):
                return
            left = None if end is None else end - loop.time()
            if left is not None and left <= 0:
                raise late_error()
            await waker.wait(expected.pause(left))


class LoopWaker:
    """Wakes one task of the loop from any thread; calls that come in a burst cost one."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_pending = False
        self.changed = asyncio.Event()

    def wake(self) -> None:
        if not self._is_pending:
            self._is_pending = True
            # The loop may have ended, and the process goes on.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._set)

    def _set(self) -> None:
        # Before the event: a change after the task has looked wakes it again.
        self._is_pending = False
        self.changed.set()

    async def wait(self, seconds: float | None) -> bool:
        """Wait for a change; returns whether one came."""
        try:
            await asyncio.wait_for(self.changed.wait(), seconds)
        except TimeoutError:
            return False
        return True


PROCESS_CALLS: dict[str, BlockingHandler] = {
    "start_process": _start,
    "list_processes": _list,
    "get_process": _get,
    "signal_process": _signal,
    "delete_process": _delete,
}
PROCESS_STREAMS: dict[str, StreamHandler] = {
    "read_output": _read,
    "write_input": _write,
    "wait_for_process": _wait,
}
