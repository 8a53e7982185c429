"""Clones of repositories into a sandbox."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from egress.api.schema import CloneSettings, CloneView
from egress.api_server.call import ApiCall, json_response
from egress.api_server.command_events import EVENT_STREAM
from egress.api_server.progress_events import progress_response
from egress.runtime.stages import note_stage
from egress.sandbox.git import Git


async def clone(call: ApiCall, request: Request) -> Response:
    """Clone a repository. A client that leaves does not stop it; its timeout does."""
    if EVENT_STREAM in request.headers.get("accept", ""):
        return progress_response(lambda: call.context.waiting(_clone, call))
    return json_response(await call.context.waiting(_clone, call))


def _clone(call: ApiCall) -> CloneView:
    body: CloneSettings = call.body
    note_stage("cloning the repository")
    made = Git(call.place).clone(
        body.url, body.path, branch=body.branch, depth=body.depth, timeout=body.timeout
    )
    return CloneView(path=made.path, commit=made.commit)
