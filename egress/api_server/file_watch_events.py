"""Changes below a path as server-sent events, until the client leaves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from egress.api.schema import ChangeView, WatchQuery
from egress.api_server.call import ApiCall, json_text
from egress.api_server.command_events import EVENT_STREAM, event
from egress.api_server.iterated_events import iterated_events
from egress.sandbox.files import Files
from egress.sandbox.watch import Change


async def watch_path(call: ApiCall, _: Request) -> Response:
    """Watch a path. The answer begins once the watch has, so no later change is missed."""
    query: WatchQuery = call.query
    watch = ExitStack()

    def begin() -> Iterator[Change]:
        return watch.enter_context(Files(call.place).watch(query.path, interval=query.interval))

    changes = await call.context.waiting(begin)
    return StreamingResponse(
        iterated_events(call.context, "watching", changes, _event, watch.close), media_type=EVENT_STREAM
    )


def _event(change: Change) -> bytes:
    return event("change", ChangeView(kind=change.kind, path=json_text(change.path)))
