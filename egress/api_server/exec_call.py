"""Commands over plain HTTP: one answer with all output, or server-sent events as the output comes.

The end of the connection ends the command. A client that wants input while the command runs, or a terminal,
takes the WebSocket. A command of a session takes the same way.
"""

from __future__ import annotations

import asyncio
import base64
import codecs
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, Protocol, override

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from egress.api.schema import MAX_PIECE_BYTES, CommandResult, CommandSettings, Encoding, Problem
from egress.api_server.call import ApiCall, UnfitRequestError, json_response, problem_from
from egress.runtime.errors import SandboxTimeoutError
from egress.runtime.protocol import NO_OUTPUT, Output
from egress.runtime.spec import MIB, Command, ExecResult
from egress.sandbox import options

EVENT_STREAM: Final = "text/event-stream"
_DEFAULT_OUTPUT_BYTES: Final = 4 * MIB
_MAX_OUTPUT_BYTES: Final = 32 * MIB
STALL_SECONDS: Final = 30.0
"""Seconds in which a client has to take a piece of output, where others wait for the end of its command."""
_ENDING: Final[set[asyncio.Future[None]]] = set()
"""Commands whose clients have left; the loop itself keeps no task alive."""


class BegunCommand(Protocol):
    """A command that was started, or that waits for its turn."""

    def wait(self) -> ExecResult: ...

    def kill(self) -> None: ...


Begin = Callable[[Output], Awaitable[BegunCommand]]
"""Starts a command with callbacks for its output."""
MakeView = Callable[[ExecResult, str, str], CommandResult]
"""Makes the answer from the result of a command and its outputs as text."""


async def serve_exec(call: ApiCall, request: Request) -> Response:
    """Run a command, and answer in the form that the client accepts."""
    settings: CommandSettings = call.body
    command = _command(settings)

    async def begin(output: Output) -> BegunCommand:
        return await call.context.in_thread(call.fleet.spawn, call.name, command, output)

    return await serve_command(call, request, begin, settings.encoding, result_view)


async def serve_command(
    call: ApiCall,
    request: Request,
    begin: Begin,
    encoding: Encoding,
    view: MakeView,
    stall: float | None = None,
) -> Response:
    """Run a command, and answer in the form that the client accepts.

    After `stall` seconds, a client that takes no output counts as gone.
    """
    if EVENT_STREAM in request.headers.get("accept", ""):
        events = _EventStream(call, encoding, view, stall)
        await events.start(begin)
        return _EventResponse(events)
    result = await _run(call, request, await begin(NO_OUTPUT))
    if encoding == "base64":
        stdout, stderr = (
            base64.b64encode(each).decode() for each in (result.stdout_bytes, result.stderr_bytes)
        )
    else:
        stdout, stderr = result.stdout, result.stderr
    return json_response(view(result, stdout, stderr))


def output_limit(asked: int | None) -> int:
    """Return the bytes to keep of each output."""
    return min(_DEFAULT_OUTPUT_BYTES if asked is None else asked, _MAX_OUTPUT_BYTES)


def _command(settings: CommandSettings) -> Command:
    return Command(
        argv=words_of(settings.command, settings.argv),
        cwd=settings.cwd,
        env=settings.env,
        timeout=settings.timeout,
        grace=settings.grace,
        input=_input(settings),
        most_output=output_limit(settings.max_output),
    )


def words_of(line: str | None, argv: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the words of a command. Raises `UnfitRequestError` unless it has one form."""
    if (line is None) == (argv is None):
        raise UnfitRequestError("a command is either `command` or `argv`", "name one of them")
    return options.command_words(line or "") if argv is None else argv


def _input(settings: CommandSettings) -> bytes:
    if settings.encoding == "utf-8":
        return settings.input.encode()
    try:
        return base64.b64decode(settings.input, validate=True)
    except ValueError:
        raise UnfitRequestError("`input` is not base64", "encode it, or say encoding: utf-8") from None


async def _run(call: ApiCall, request: Request, process: BegunCommand) -> ExecResult:
    """Run a command to its end, or until the client leaves."""
    waiting = asyncio.ensure_future(call.context.waiting(process.wait))
    leaving = asyncio.ensure_future(client_left(request))
    try:
        await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            await call.context.in_thread(process.kill)
        return await waiting
    finally:
        leaving.cancel()
        if not waiting.done():
            waiting.cancel()
            await asyncio.shield(asyncio.ensure_future(call.context.in_thread(process.kill)))


async def client_left(request: Request) -> None:
    """Return when the client has left. Its body was read, so nothing else can come."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def result_view(result: ExecResult, stdout: str, stderr: str) -> CommandResult:
    """Return a result with its outputs as text."""
    return CommandResult(
        exit_code=result.exit_code,
        duration=result.duration,
        timed_out=result.timed_out,
        truncated=result.truncated,
        stdout=stdout,
        stderr=stderr,
    )


class _EventStream:
    """A command whose output is sent as events: `stdout`, `stderr`, then `exit` or `problem`."""

    def __init__(self, call: ApiCall, encoding: Encoding, view: MakeView, stall: float | None) -> None:
        self._call = call
        self._is_text = encoding == "utf-8"
        self._view = view
        self._stall = stall
        self._loop = asyncio.get_running_loop()
        # One piece at a time: a client that reads slowly slows the command.
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=1)
        self._is_gone = False
        self._process: BegunCommand | None = None
        self._waiting: asyncio.Future[None] | None = None
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {"stdout": decoder("replace"), "stderr": decoder("replace")}

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
            yield problem_event(problem_from(late))

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
            for name, decoder in self._decoders.items():
                if rest := decoder.decode(b"", final=True):
                    await self._queue.put(event(name, {"text": rest}))
            fields = msgspec.structs.asdict(self._view(result, "", ""))
            last = event("exit", {key: fields[key] for key in fields if key not in _IN_ANSWERS_ONLY})
        except Exception as error:  # noqa: BLE001 - the client waits for the last event, whatever it is
            last = problem_event(problem_from(error))
        await self._queue.put(last)
        await self._queue.put(None)

    def _add(self, name: str, data: bytes) -> None:
        for begin in range(0, len(data), MAX_PIECE_BYTES):
            if self._is_gone:
                return
            piece = data[begin : begin + MAX_PIECE_BYTES]
            made = self._decoders[name].decode(piece) if self._is_text else base64.b64encode(piece).decode()
            putting = self._put(event(name, {"text" if self._is_text else "base64": made}))
            asyncio.run_coroutine_threadsafe(putting, self._loop).result()

    async def _put(self, piece: bytes) -> None:
        try:
            await asyncio.wait_for(self._queue.put(piece), self._stall)
        except TimeoutError:
            self.leave()


_IN_ANSWERS_ONLY: Final = frozenset({"stdout", "stderr", "truncated"})
"""Fields of a result that its last event does not have: the output was sent whole before."""


class _EventResponse(StreamingResponse):
    """The events of a command, which ends with the response, also with one that never began."""

    def __init__(self, events: _EventStream) -> None:
        super().__init__(events.lines(), media_type=EVENT_STREAM)
        self._events = events

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._events.leave()


def event(name: str, data: object) -> bytes:
    """Return a server-sent event."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))


def problem_event(problem: Problem) -> bytes:
    """Return a problem as the last event of a stream."""
    return event("problem", problem)
