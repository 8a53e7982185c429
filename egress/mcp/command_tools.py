"""Tools that run commands: to their end, or on in the background."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal

from msgspec import Meta

from egress.mcp.shortened_output import ShortenedOutput
from egress.mcp.tool import Tool, ToolArguments, ToolCall, ToolResult
from egress.runtime.protocol import Output
from egress.sandbox import options

MAX_OUTPUT_BYTES: Final = 64 * 1024
"""Bytes of each output that a model gets to see."""
_DEFAULT_TIMEOUT: Final = 120.0
_MAX_TIMEOUT: Final = 3600.0

type CommandLine = Annotated[
    str, Meta(min_length=1, max_length=100_000, description="A line for bash, or sh where there is no bash.")
]
type Folder = Annotated[
    str | None, Meta(description="The folder to run in, as an absolute path. /workspace if left out.")
]
type ProcessId = Annotated[str, Meta(max_length=64, description="The id that start_process returned.")]


class ExecArguments(ToolArguments, frozen=True):
    command: CommandLine
    cwd: Folder = None
    timeout: Annotated[
        float, Meta(gt=0, le=_MAX_TIMEOUT, description="Seconds until the command is ended.")
    ] = _DEFAULT_TIMEOUT
    input: Annotated[str, Meta(description="The standard input.")] = ""


class ExecOutcome(ToolResult, frozen=True):
    exit_code: Annotated[int, Meta(description="124 after a timeout.")]
    stdout: str
    stderr: str
    timed_out: bool
    truncated: Annotated[bool, Meta(description="Whether a middle part of an output was left out.")]


def _exec(call: ToolCall) -> ExecOutcome:
    asked: ExecArguments = call.arguments
    stdout, stderr = ShortenedOutput(MAX_OUTPUT_BYTES), ShortenedOutput(MAX_OUTPUT_BYTES)
    call.follow(stdout, stderr)
    command = options.command(
        asked.command, cwd=asked.cwd, timeout=asked.timeout, source=asked.input, most_output=0
    )
    result = call.place.run(command, Output(stdout=stdout.add, stderr=stderr.add))
    return ExecOutcome(
        exit_code=result.exit_code,
        stdout=stdout.text(),
        stderr=stderr.text(),
        timed_out=result.timed_out,
        truncated=stdout.is_truncated or stderr.is_truncated,
    )


class StartArguments(ToolArguments, frozen=True):
    command: CommandLine
    cwd: Folder = None


class ProcessOutcome(ToolResult, frozen=True):
    id: str
    command: str
    state: Annotated[str, Meta(description="running, ended, or lost with its sandbox.")]
    exit_code: int | None
    started: datetime


class ProcessesOutcome(ToolResult, frozen=True):
    processes: tuple[ProcessOutcome, ...]


class NoArguments(ToolArguments, frozen=True):
    pass


class ReadProcessArguments(ToolArguments, frozen=True):
    id: ProcessId
    stream: Literal["stdout", "stderr"] = "stdout"
    offset: Annotated[int, Meta(ge=0, description="Bytes since the beginning of the output.")] = 0


class ReadProcessOutcome(ToolResult, frozen=True):
    text: str
    next_offset: Annotated[int, Meta(description="The offset to continue from.")]
    is_more: Annotated[bool, Meta(description="Whether more is there already.")]
    state: str
    exit_code: int | None


class ProcessArguments(ToolArguments, frozen=True):
    id: ProcessId


def _start(call: ToolCall) -> ProcessOutcome:
    asked: StartArguments = call.arguments
    return _outcome(call, call.sandbox.start_process(asked.command, cwd=asked.cwd).id)


def _outcome(call: ToolCall, process: str) -> ProcessOutcome:
    status = call.sandbox.process(process).status()
    return ProcessOutcome(
        id=status.id,
        # The last word of the argv is the line that the model wrote.
        command=status.argv[-1],
        state=status.state,
        exit_code=status.exit_code,
        started=status.started,
    )


def _list(call: ToolCall) -> ProcessesOutcome:
    return ProcessesOutcome(processes=tuple(_outcome(call, each.id) for each in call.sandbox.processes()))


def _read(call: ToolCall) -> ReadProcessOutcome:
    asked: ReadProcessArguments = call.arguments
    process = call.sandbox.process(asked.id)
    # Asked first: an end that comes in between is told by the next call, and no output is missed.
    status = process.status()
    piece = process.read(asked.stream, asked.offset)
    shown = piece.data[:MAX_OUTPUT_BYTES]
    return ReadProcessOutcome(
        text=shown.decode("utf-8", "replace"),
        next_offset=piece.offset + len(shown),
        is_more=len(shown) < len(piece.data),
        state=status.state,
        exit_code=status.exit_code,
    )


def _stop(call: ToolCall) -> ProcessOutcome:
    asked: ProcessArguments = call.arguments
    process = call.sandbox.process(asked.id)
    process.kill()
    process.wait(_MAX_STOP_SECONDS)
    return _outcome(call, asked.id)


_MAX_STOP_SECONDS: Final = 30.0

COMMAND_TOOLS: Final = (
    Tool(
        name="exec",
        title="Run a command",
        description=(
            "Run a command in the sandbox to its end. The network leads through a proxy: a host that the "
            "rules do not allow answers 403 with the reason. Credentials are added outside, so use none."
        ),
        arguments=ExecArguments,
        result=ExecOutcome,
        run=_exec,
        destroys=True,
        reaches_out=True,
    ),
    Tool(
        name="start_process",
        title="Start a process",
        description="Start a command that goes on in the background, such as a server.",
        arguments=StartArguments,
        result=ProcessOutcome,
        run=_start,
        destroys=True,
        reaches_out=True,
    ),
    Tool(
        name="read_process",
        title="Read the output of a process",
        description="Return the output of a background process from an offset on, and whether it still runs.",
        arguments=ReadProcessArguments,
        result=ReadProcessOutcome,
        run=_read,
        reads_only=True,
    ),
    Tool(
        name="list_processes",
        title="List processes",
        description="List the background processes that run, and the last that ended.",
        arguments=NoArguments,
        result=ProcessesOutcome,
        run=_list,
        reads_only=True,
    ),
    Tool(
        name="stop_process",
        title="Stop a process",
        description="End a background process and all that it started.",
        arguments=ProcessArguments,
        result=ProcessOutcome,
        run=_stop,
        destroys=True,
        is_idempotent=True,
    ),
)
