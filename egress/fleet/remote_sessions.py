"""The sessions of a fleet behind the API."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict

from egress.api.client import ApiClient, EventStream
from egress.api.session_schema import SessionCommandSettings, SessionSettings, SessionsView, SessionView
from egress.fleet.api_values import asked_rights, session_status
from egress.fleet.remote_output import CommandEventData, RemoteOutput
from egress.fleet.remote_processes import Translate
from egress.fleet.session_interface import (
    MAX_SESSION_OUTPUT_BYTES,
    SessionResult,
    SessionStatus,
    ShellSettings,
    check_line,
    check_session_id,
)
from egress.runtime.protocol import NO_OUTPUT, Output


class RemoteSessions:
    """`SessionTracker` of another process."""

    def __init__(self, client: ApiClient, translated: Translate) -> None:
        self._client = client
        self._translated = translated

    def open(self, name: str, session: str, settings: ShellSettings) -> SessionStatus:
        check_session_id(session)
        body = SessionSettings(
            shell=settings.shell,
            cwd=settings.cwd,
            env=dict(settings.env),
            **asked_rights(settings.rights),
        )
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
            followed = self._client.follow(CommandEventData, "exec_in_session", parts, body=body)
            return RemoteSessionCommand(stack.enter_context(followed), output, most_output, stack.pop_all())

    def end(self, name: str, session: str) -> None:
        with self._translated():
            self._client.tell("delete_session", {"name": name, "session": session})


class RemoteSessionCommand:
    """`SessionCommand` of another process. The command ends with its connection."""

    def __init__(
        self, events: EventStream[CommandEventData], output: Output, most_output: int, stack: ExitStack
    ) -> None:
        self._events = events
        self._stack = stack
        self._output = RemoteOutput(output, most_output)

    def wait(self) -> SessionResult:
        with self._stack:
            result, is_kept = self._output.take(self._events)
        return SessionResult(**asdict(result), state_kept=is_kept)

    def kill(self) -> None:
        self._events.end()
