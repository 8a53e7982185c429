"""The audit log of a fleet in this process: the lines about one sandbox, read from the files."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

from egress.api.log_schema import AuditQuery
from egress.errors import UnreadableError
from egress.fleet.control_client import ask_fleet_proxy
from egress.fleet.protocol import FleetInfo
from egress.review import Index, LogEntry
from egress.review.run_lines import encoded_line, follow_run, now_in_lines, read_cursor, run_filters
from egress.runtime.errors import GatewayError

_POLL_INTERVAL: Final = 0.25


class LocalAuditLog:
    """The lines of this process's own sandboxes."""

    def __init__(self, about: FleetInfo) -> None:
        self._about = about

    def query(self, name: str, query: AuditQuery) -> tuple[list[dict[str, Any]], str]:
        filters = run_filters(query, self._about.run, name, now_in_lines())
        cursor = read_cursor(query.cursor)
        # The proxy writes the lines that it still holds before it answers. One that is gone holds none.
        with suppress(GatewayError):
            ask_fleet_proxy(self._about, "POST", "/flush")
        with Index(self._directory()) as index:
            index.catch_up()
            page = index.query(filters, query.limit, cursor)
        return [_line(entry) for entry in page.entries], "" if page.cursor is None else str(page.cursor)

    def follow(self, name: str, query: AuditQuery) -> LocalLines:
        now = now_in_lines()
        filters = run_filters(query, self._about.run, name, now)
        stopping = threading.Event()
        lines = follow_run(
            self._directory(), filters, query.last, now, lambda: not stopping.wait(_POLL_INTERVAL)
        )
        return LocalLines(lines, stopping)

    def _directory(self) -> Path:
        if self._about.audit is None:
            raise UnreadableError("these sandboxes have no log", "open them with `egress.open_fleet`")
        return self._about.audit


class LocalLines:
    """Lines as they come, until `close` of any thread."""

    def __init__(self, lines: Iterator[LogEntry], stopping: threading.Event) -> None:
        self._lines = lines
        self._stopping = stopping

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> dict[str, Any]:
        return _line(next(self._lines))

    def close(self) -> None:
        self._stopping.set()


def _line(entry: LogEntry) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(encoded_line(entry))
    return found
