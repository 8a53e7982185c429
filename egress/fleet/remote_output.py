"""The output and the end of a command behind the API, as server-sent events bring them."""

from __future__ import annotations

import base64

from msgspec import Struct

from egress.api.client import EventStream
from egress.api.schema import Problem
from egress.fleet.api_values import error_of
from egress.fleet.remote_process import gone_error, protocol_error
from egress.runtime.command_result import CapturedStream
from egress.runtime.protocol import Output
from egress.runtime.spec import ExecResult


class CommandEventData(Struct, frozen=True, kw_only=True):
    """The data of any event: a piece of output, the end, or a problem."""

    base64: str = ""
    exit_code: int = 0
    duration: float = 0.0
    timed_out: bool = False
    state_kept: bool = True
    type: str = ""
    message: str = ""
    hint: str = ""


class RemoteOutput:
    """The output of one command: pieces go to the callbacks, and the first bytes are kept."""

    def __init__(self, output: Output, most_output: int) -> None:
        self._stdout = CapturedStream(most_output, output.stdout)
        self._stderr = CapturedStream(most_output, output.stderr)

    def take(self, events: EventStream[CommandEventData]) -> tuple[ExecResult, bool]:
        """Take events until the command has ended; return its result, and whether its shell goes on.

        Raises the problem of the command, or `FleetUnavailableError` where the events end without one.
        """
        end: CommandEventData | None = None
        # To the end of the response, so that the connection can serve the next call.
        for each in events:
            match events.name:
                case "stdout":
                    self._stdout.add(_bytes(each.base64))
                case "stderr":
                    self._stderr.add(_bytes(each.base64))
                case "exit":
                    end = each
                case "problem":
                    raise error_of(Problem(type=each.type, message=each.message, hint=each.hint))
        if end is None:
            # A lost connection must not look like the end of the command.
            raise gone_error()
        result = ExecResult(
            exit_code=end.exit_code,
            stdout_bytes=self._stdout.data(),
            stderr_bytes=self._stderr.data(),
            duration=end.duration,
            timed_out=end.timed_out,
            truncated=self._stdout.truncated or self._stderr.truncated,
        )
        return result, end.state_kept


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise protocol_error() from None
