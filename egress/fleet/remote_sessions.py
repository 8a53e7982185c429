"""The sessions of a fleet behind the API."""

from __future__ import annotations

import base64
from contextlib import ExitStack

from msgspec import Struct

from egress.api.client import ApiClient, EventStream
from egress.api.schema import Problem
from egress.api.session_schema import SessionCommandSettings, SessionSettings, SessionsView, SessionView
from egress.fleet.api_values import error_of, session_status
from egress.fleet.remote_process import gone_error, protocol_error
from egress.fleet.remote_tracking import Translate
from egress.fleet.session_tracking import (
    MAX_SESSION_OUTPUT_BYTES,
    SessionResult,
    SessionStatus,
    ShellSettings,
    check_line,
    check_session_id,
)
from egress.runtime.command_result import CapturedStream
from egress.runtime.protocol import NO_OUTPUT, Output


class RemoteSessions:
    """`SessionTracker` of another process."""

    def __init__(self, client: ApiClient, translated: Translate) -> None:
        self._client = client
        self._translated = translated

    def open(self, name: str, session: str, settings: ShellSettings) -> SessionStatus:
        check_session_id(session)
        body = SessionSettings(shell=settings.shell, cwd=settings.cwd, env=dict(settings.env))
        with self._translated():
            parts = {"name": name, "session": session}
            return session_status(self._client.call(SessionView, "ensure_session", parts, body=body))

    def all(self, name: str) -> tuple[SessionStatus, ...]:
        with self._translated():
            found = self._client.call(SessionsView, "list_sessions", {"name": name})
        return tuple(session_status(each) for each in found.sessions)

    def get(self, name: str, session: str) -> SessionStatus:
        with self._translated():
            parts = {"name": name, "session": session}
            return session_status(self._client.call(SessionView, "get_session", parts))

    def begin(
        self,
        name: str,
        session: str,
        line: str,
        *,
        timeout: float | None = None,
        output: Output = NO_OUTPUT,
        most_output: int = MAX_SESSION_OUTPUT_BYTES,
    ) -> RemoteSessionCommand:
        check_line(line)
        # Base64, because output need not be text. The server keeps none: it comes in the events.
        body = SessionCommandSettings(command=line, timeout=timeout, encoding="base64", max_output=0)
        with ExitStack() as stack, self._translated():
            parts = {"name": name, "session": session}
            followed = self._client.follow(_EventData, "exec_in_session", parts, body=body)
            return RemoteSessionCommand(stack.enter_context(followed), output, most_output, stack.pop_all())

    def end(self, name: str, session: str) -> None:
        with self._translated():
            self._client.tell("delete_session", {"name": name, "session": session})


class _EventData(Struct, frozen=True, kw_only=True):
    """The data of any event: a piece of output, the end, or a problem."""

    base64: str = ""
    exit_code: int = 0
    duration: float = 0.0
    timed_out: bool = False
    state_kept: bool = True
    type: str = ""
    message: str = ""
    hint: str = ""


class RemoteSessionCommand:
    """`SessionCommand` of another process. The command ends with its connection."""

    def __init__(
        self, events: EventStream[_EventData], output: Output, most_output: int, stack: ExitStack
    ) -> None:
        self._events = events
        self._stack = stack
        self._streams = {
            "stdout": CapturedStream(most_output, output.stdout),
            "stderr": CapturedStream(most_output, output.stderr),
        }

    def wait(self) -> SessionResult:
        with self._stack:
            for each in self._events:
                match self._events.name:
                    case "stdout" | "stderr" as name:
                        self._streams[name].add(_bytes(each.base64))
                    case "exit":
                        return self._result(each)
                    case "problem":
                        raise error_of(Problem(type=each.type, message=each.message, hint=each.hint))
        # A lost connection must not look like the end of the command.
        raise gone_error()

    def kill(self) -> None:
        self._events.end()

    def _result(self, last: _EventData) -> SessionResult:
        stdout, stderr = self._streams["stdout"], self._streams["stderr"]
        return SessionResult(
            exit_code=last.exit_code,
            stdout_bytes=stdout.data(),
            stderr_bytes=stderr.data(),
            duration=last.duration,
            timed_out=last.timed_out,
            truncated=stdout.truncated or stderr.truncated,
            state_kept=last.state_kept,
        )


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise protocol_error() from None
