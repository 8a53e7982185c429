"""Calls about the audit log of this run: its lines, new ones as they come, and rules for denied requests.

A client of a port is shown the lines of a sandbox that it names, and of no other run. It is not shown where
rules stand, nor the addresses that names led to.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from egress.api.log_schema import AuditQuery, LogQuery, SuggestionQuery
from egress.api_server.call import ApiCall, StreamHandler, json_response
from egress.api_server.command_events import EVENT_STREAM
from egress.api_server.iterated_events import iterated_events
from egress.api_server.run_log import FollowerSlots
from egress.api_server.suggestions import suggest_for
from egress.errors import UnreadableError
from egress.fleet.control_client import ask_fleet_proxy
from egress.review import Filters, Index, LogEntry, ResultPage
from egress.review.run_lines import encoded_line, follow_run, now_in_lines, read_cursor, run_filters
from egress.runtime.errors import GatewayError, SpecError
from egress.runtime.spec import check_name

_LINES_TYPE: Final = "application/x-ndjson"
_CURSOR_HEADER: Final = "egress-cursor"
_BEHIND_HEADER: Final = "egress-behind"
_HIDDEN_AT_PORT: Final = frozenset({"place", "address", "mac"})
_POLL_INTERVAL: Final = 0.25


async def _query_audit(call: ApiCall, request: Request) -> Response:
    check_name(call.name)
    return await _lines(call, request, call.query, call.name)


async def _query_log(call: ApiCall, request: Request) -> Response:
    query: LogQuery = call.query
    return await _lines(call, request, query, query.sandbox)


async def _lines(call: ApiCall, request: Request, query: AuditQuery, sandbox: str) -> Response:
    now = now_in_lines()
    # Hidden from the search, too: whoever may ask for a text could guess the values piece by piece.
    filters = run_filters(query, call.fleet.about.run, sandbox, now, _hidden(call))
    if EVENT_STREAM in request.headers.get("accept", ""):
        if query.cursor:
            raise SpecError("new lines have no cursor", "leave it out, and give `since`")
        return _followed(call, filters, query.last, now)
    cursor = read_cursor(query.cursor)

    def ask(index: Index) -> ResultPage:
        return index.query(filters, query.limit, cursor)

    pool = call.context.log.pool(_directory(call))
    # Among the questions: however many clients ask, the proxy is asked by a few threads.
    await pool.work(lambda: _flush(call))
    page = await pool.ask(ask)
    hidden = _hidden(call)
    lines = b"".join(encoded_line(entry, hidden) + b"\n" for entry in page.entries)
    headers = {} if page.cursor is None else {_CURSOR_HEADER: str(page.cursor)}
    if page.state.behind:
        headers[_BEHIND_HEADER] = str(page.state.behind)
    return Response(lines, media_type=_LINES_TYPE, headers=headers)


def _directory(call: ApiCall) -> Path:
    directory = call.fleet.about.audit
    if directory is None:
        raise UnreadableError("these sandboxes have no log of their own", "open them with `egress up`")
    return directory


def _flush(call: ApiCall) -> None:
    """Have the proxy write the lines that it still holds. One that is gone holds none."""
    with suppress(GatewayError):
        ask_fleet_proxy(call.fleet.about, "POST", "/flush")


def _hidden(call: ApiCall) -> frozenset[str]:
    return frozenset() if call.context.is_owner_only else _HIDDEN_AT_PORT


def _followed(call: ApiCall, filters: Filters, last: int, now: int) -> Response:
    stopping, hidden = threading.Event(), _hidden(call)
    lines = _entries(
        call.context.log.followers,
        follow_run(_directory(call), filters, last, now, lambda: not stopping.wait(_POLL_INTERVAL)),
    )

    def encoded(entry: LogEntry) -> bytes:
        return b"event: line\ndata: %s\n\n" % encoded_line(entry, hidden)

    return StreamingResponse(
        iterated_events(call.context, "following", lines, encoded, stopping.set), media_type=EVENT_STREAM
    )


def _entries(slots: FollowerSlots, lines: Iterator[LogEntry]) -> Iterator[LogEntry]:
    # Within the iterator: a slot is taken by the first look, and given back however the iterator ends.
    with slots.one():
        yield from lines


async def _suggest(call: ApiCall, _: Request) -> Response:
    query: SuggestionQuery = call.query
    about, pool = call.fleet.about, call.context.log.pool(_directory(call))
    await pool.work(lambda: _flush(call))
    found = await pool.ask(lambda index: suggest_for(index, about, query.request, now_in_lines()))
    return json_response(found)


LOG_STREAMS: dict[str, StreamHandler] = {
    "query_audit": _query_audit,
    "query_log": _query_log,
    "suggest_rule": _suggest,
}
"""Handlers by the names of their operations."""
