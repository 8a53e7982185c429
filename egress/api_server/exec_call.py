"""Commands over plain HTTP: one answer with all output, or server-sent events as the output comes.

The end of the connection ends the command. A client that wants input while the command runs, or a terminal,
takes the WebSocket.
"""

from __future__ import annotations

import asyncio
import base64
import codecs
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from egress.api.schema import CommandResult, CommandSettings, Problem
from egress.api_server.call import ApiCall, UnfitRequestError, json_response, problem_from
from egress.runtime.protocol import NO_OUTPUT, Output
from egress.runtime.spec import MIB, Command, ExecResult
from egress.sandbox import options

EVENT_STREAM: Final = "text/event-stream"
_DEFAULT_OUTPUT_BYTES: Final = 4 * MIB
_MAX_OUTPUT_BYTES: Final = 32 * MIB
_ENDING: Final[set[asyncio.Future[None]]] = set()
"""Commands whose clients have left; the loop itself keeps no task alive."""


async def serve_exec(call: ApiCall, request: Request) -> Response:
    """Run a command, and answer in the form that the client accepts."""
    settings: CommandSettings = call.body
    command = _command(settings)
    if EVENT_STREAM in request.headers.get("accept", ""):
        events = _EventStream(call, command, settings)
        await events.start()
        return StreamingResponse(events.lines(), media_type=EVENT_STREAM)
    return json_response(_result(await _run(call, request, command), settings))


def _command(settings: CommandSettings) -> Command:
    most = _DEFAULT_OUTPUT_BYTES if settings.max_output is None else settings.max_output
    return Command(
        argv=words_of(settings.command, settings.argv),
        cwd=settings.cwd,
        env=settings.env,
        timeout=settings.timeout,
        grace=settings.grace,
        input=_input(settings),
        most_output=min(most, _MAX_OUTPUT_BYTES),
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


async def _run(call: ApiCall, request: Request, command: Command) -> ExecResult:
    """Run a command to its end, or until the client leaves."""
    process = await call.context.in_thread(call.fleet.spawn, call.name, command, NO_OUTPUT)
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


def _result(result: ExecResult, settings: CommandSettings) -> CommandResult:
    if settings.encoding == "base64":
        outputs = (result.stdout_bytes, result.stderr_bytes)
        stdout, stderr = (base64.b64encode(each).decode() for each in outputs)
    else:
        stdout, stderr = result.stdout, result.stderr
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

    def __init__(self, call: ApiCall, command: Command, settings: CommandSettings) -> None:
        self._call = call
        self._command = command
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        # One piece at a time: a client that reads slowly slows the command.
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=1)
        self._is_gone = False
        self._process: Any = None
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {"stdout": decoder("replace"), "stderr": decoder("replace")}

    async def start(self) -> None:
        """Start the command. Raises its errors, before any event was sent."""
        output = Output(
            stdout=lambda data: self._add("stdout", data), stderr=lambda data: self._add("stderr", data)
        )
        self._process = await self._call.context.in_thread(
            self._call.fleet.spawn, self._call.name, self._command, output
        )

    async def lines(self) -> AsyncIterator[bytes]:
        """The events as they come. The command ends when nobody reads them."""
        waiting = asyncio.ensure_future(self._wait())
        is_over = False
        try:
            while (event := await self._queue.get()) is not None:
                yield event
            is_over = True
        finally:
            self._is_gone = True
            if not is_over:
                # In a task of its own: the one that sends the events is being cancelled.
                ending = asyncio.ensure_future(self._abandon(waiting))
                _ENDING.add(ending)
                ending.add_done_callback(_ENDING.discard)

    async def _abandon(self, waiting: asyncio.Future[None]) -> None:
        """End the command, and take what its threads still have to say, so that none waits for ever."""
        killing = asyncio.ensure_future(self._call.context.in_thread(self._process.kill))
        while await self._queue.get() is not None:
            pass
        await asyncio.gather(killing, waiting, return_exceptions=True)

    async def _wait(self) -> None:
        try:
            result: ExecResult = await self._call.context.waiting(self._process.wait)
            for name, decoder in self._decoders.items():
                if rest := decoder.decode(b"", final=True):
                    await self._queue.put(event(name, {"text": rest}))
            last = event(
                "exit",
                {"exit_code": result.exit_code, "duration": result.duration, "timed_out": result.timed_out},
            )
        except Exception as error:  # noqa: BLE001 - the client waits for the last event, whatever it is
            last = problem_event(problem_from(error))
        await self._queue.put(last)
        await self._queue.put(None)

    def _add(self, name: str, data: bytes) -> None:
        if self._is_gone:
            return
        if self._settings.encoding == "base64":
            made: dict[str, object] = {"base64": base64.b64encode(data).decode()}
        else:
            made = {"text": self._decoders[name].decode(data)}
        asyncio.run_coroutine_threadsafe(self._queue.put(event(name, made)), self._loop).result()


def event(name: str, data: object) -> bytes:
    """Return a server-sent event."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))


def problem_event(problem: Problem) -> bytes:
    """Return a problem as the last event of a stream."""
    return event("problem", problem)
