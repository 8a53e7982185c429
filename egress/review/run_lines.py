"""The lines of one run for programs: the filters of their questions, and the form of the lines.

A folder of logs has the lines of every run of its user. A question is about one run, and a name of a sandbox
means something in that run alone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final

from egress.api.log_schema import AuditQuery
from egress.errors import UnreadableError, UsageError
from egress.review.entry import LogEntry
from egress.review.filters import FilterError, Filters
from egress.review.follow import follow
from egress.review.search import Cursor
from egress.review.timestamps import DAY, InvalidTimeError, parse_typed

_TEXT_FIELDS: Final = ("verdict", "host", "method", "status", "code", "rule", "secret", "event")


def run_filters(query: AuditQuery, run: str, sandbox: str, now: int, hidden: Collection[str] = ()) -> Filters:
    """Return the filters of a question about a run; `sandbox` is empty for all of them.

    `now` is in UTC microseconds. No text is found in `hidden` fields.

    Raises `UsageError`, and `UnreadableError` for a run that is not known.
    """
    # An empty filter is none: without this, the lines of every run would be shown.
    if not run:
        raise UnreadableError("these sandboxes have no log of their own", "open them with `egress up`")
    texts = {name: getattr(query, name) for name in _TEXT_FIELDS}
    try:
        since = parse_typed(query.since, now) if query.since else None
        until = parse_typed(query.until, now) if query.until else None
        wanted = {**texts, "grep": query.grep, "run": run, "sandbox": sandbox}
        return Filters.of(wanted, since, until, hidden)
    except (FilterError, InvalidTimeError) as error:
        raise UsageError(error.message, error.hint) from None


def read_cursor(text: str) -> Cursor | None:
    """Return where an answer before ended; None for no text. Raises `UsageError`."""
    try:
        return Cursor.of(text) if text else None
    except FilterError as error:
        raise UsageError(error.message, error.hint) from None


def now_in_lines() -> int:
    """Return the time by the clock of the machine, in UTC microseconds, as lines have it."""
    return time.time_ns() // 1000  # noqa: TID251 - lines have the time of the machine


def follow_run(
    directory: Path, filters: Filters, last: int, now: int, wait: Callable[[], bool]
) -> Iterator[LogEntry]:
    """Yield the last lines, then new ones as long as `wait` returns true; see `follow`."""
    # Without a time, chains of runs that ended long ago would be searched for the last lines.
    since = filters.since if filters.since is not None else now - DAY
    wanted = Filters(
        since=since, until=filters.until, grep=filters.grep, hidden=filters.hidden, **filters.wanted
    )
    return follow(directory, wanted, last, wait)


def encoded_line(entry: LogEntry, hidden: Collection[str] = ()) -> bytes:
    """Return a line as JSON in UTF-8, without the fields in `hidden`."""
    # Half a character that a sandbox sent stands in a line as an escape, which strict readers refuse.
    if not hidden and b"\\ud" not in entry.raw:
        return entry.raw
    fields = {name: value for name, value in entry.fields.items() if name not in hidden}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
