"""Sessions that clients find by their ids: create, list, run lines in them, and end them."""

from __future__ import annotations

from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from egress.api.schema import CommandResult
from egress.api.session_schema import (
    SessionCommandResult,
    SessionCommandSettings,
    SessionSettings,
    SessionsView,
    SessionView,
)
from egress.api_server.call import ApiCall, BlockingHandler
from egress.api_server.command_events import BegunCommand
from egress.api_server.exec_over_http import STALL_SECONDS, output_limit, result_view, serve_command
from egress.api_server.policy_calls import run_rights
from egress.fleet.api_values import session_view
from egress.fleet.session_interface import SessionResult, ShellSettings
from egress.runtime.protocol import Output
from egress.runtime.spec import ExecResult


def _ensure(call: ApiCall) -> SessionView:
    settings: SessionSettings = call.body
    wanted = ShellSettings(
        shell=settings.shell,
        cwd=settings.cwd,
        env=settings.env,
        rights=run_rights(call, settings.profile, settings.params),
    )
    return session_view(call.fleet.sessions.open(call.name, call.parts["session"], wanted))


def _list(call: ApiCall) -> SessionsView:
    return SessionsView(sessions=tuple(session_view(each) for each in call.fleet.sessions.all(call.name)))


def _get(call: ApiCall) -> SessionView:
    return session_view(call.fleet.sessions.get(call.name, call.parts["session"]))


def _delete(call: ApiCall) -> None:
    call.fleet.sessions.end(call.name, call.parts["session"])


async def exec_in_session(call: ApiCall, request: Request) -> Response:
    """Run lines in a session, and answer in the form that the client accepts."""
    settings: SessionCommandSettings = call.body
    most_output = output_limit(settings.max_output)

    async def begin(output: Output) -> BegunCommand:
        # In the loop: it only queues the command. A client that left meanwhile would leave it there for ever.
        return call.fleet.sessions.begin(
            call.name,
            call.parts["session"],
            settings.command,
            timeout=settings.timeout,
            output=output,
            most_output=most_output,
        )

    return await serve_command(call, request, begin, settings.encoding, _view, STALL_SECONDS)


def _view(result: ExecResult, stdout: str, stderr: str) -> CommandResult:
    common = structs.asdict(result_view(result, stdout, stderr))
    return SessionCommandResult(
        **common, state_kept=not isinstance(result, SessionResult) or result.state_kept
    )


SESSION_CALLS: dict[str, BlockingHandler] = {
    "ensure_session": _ensure,
    "list_sessions": _list,
    "get_session": _get,
    "delete_session": _delete,
}
