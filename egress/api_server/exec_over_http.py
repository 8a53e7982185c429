"""Commands over plain HTTP: one answer with all output, or server-sent events as the output comes.

The end of the connection ends the command. A client that wants input while the command runs, or a terminal,
takes the WebSocket. A command of a session takes the same way.
"""

from __future__ import annotations

import asyncio
import base64
import codecs
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from egress.api.schema import CommandResult, CommandSettings, Encoding, Problem
from egress.api_server.call import ApiCall, UnfitRequestError, json_response
from egress.api_server.command_events import (
    EVENT_STREAM,
    Begin,
    BegunCommand,
    CommandEvents,
    CommandEventsResponse,
    event,
)
from egress.api_server.policy_calls import run_rights
from egress.runtime.protocol import NO_OUTPUT, Output
from egress.runtime.spec import MIB, Command, ExecResult
from egress.sandbox import options

_DEFAULT_OUTPUT_BYTES: Final = 4 * MIB
MAX_OUTPUT_BYTES: Final = 32 * MIB
STALL_SECONDS: Final = 30.0
"""Seconds in which a client has to take a piece of output, where others wait for the end of its command."""


MakeView = Callable[[ExecResult, str, str], CommandResult]
"""Makes the answer from the result of a command and its outputs as text."""


async def serve_exec(call: ApiCall, request: Request) -> Response:
    """Run a command, and answer in the form that the client accepts."""
    settings: CommandSettings = call.body
    command = _command(call, settings)

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
        events = CommandEvents(call, _ApiEvents(encoding, view), stall)
        await events.start(begin)
        return CommandEventsResponse(events)
    result = await run_to_end(call, request, await begin(NO_OUTPUT))
    if encoding == "base64":
        stdout, stderr = (
            base64.b64encode(each).decode() for each in (result.stdout_bytes, result.stderr_bytes)
        )
    else:
        stdout, stderr = result.stdout, result.stderr
    return json_response(view(result, stdout, stderr))


def output_limit(asked: int | None) -> int:
    """Return the bytes to keep of each output."""
    return min(_DEFAULT_OUTPUT_BYTES if asked is None else asked, MAX_OUTPUT_BYTES)


def _command(call: ApiCall, settings: CommandSettings) -> Command:
    return Command(
        argv=words_of(settings.command, settings.argv),
        cwd=settings.cwd,
        env=settings.env,
        timeout=settings.timeout,
        grace=settings.grace,
        input=_input(settings),
        most_output=output_limit(settings.max_output),
        rights=run_rights(call, settings.profile, settings.params),
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


async def run_to_end(call: ApiCall, request: Request, process: BegunCommand) -> ExecResult:
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


class _ApiEvents:
    """The events of the API: `stdout`, `stderr`, then `exit` or `problem`."""

    def __init__(self, encoding: Encoding, view: MakeView) -> None:
        self._is_text = encoding == "utf-8"
        self._view = view
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {"stdout": decoder("replace"), "stderr": decoder("replace")}

    def piece(self, name: str, data: bytes) -> bytes:
        made = self._decoders[name].decode(data) if self._is_text else base64.b64encode(data).decode()
        return event(name, {"text" if self._is_text else "base64": made})

    def end(self, result: ExecResult) -> Iterator[bytes]:
        for name, decoder in self._decoders.items():
            if rest := decoder.decode(b"", final=True):
                yield event(name, {"text": rest})
        fields = msgspec.structs.asdict(self._view(result, "", ""))
        yield event("exit", {key: fields[key] for key in fields if key not in _IN_ANSWERS_ONLY})

    def failure(self, problem: Problem) -> bytes:
        return problem_event(problem)


_IN_ANSWERS_ONLY: Final = frozenset({"stdout", "stderr", "truncated"})
"""Fields of a result that its last event does not have: the output was sent whole before."""


def problem_event(problem: Problem) -> bytes:
    """Return a problem as the last event of a stream."""
    return event("problem", problem)
