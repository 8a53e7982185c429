"""The audit log of a fleet behind the API: the lines about one sandbox."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, override

import msgspec

from egress.api.client import ApiClient, ApiProblemError, EventStream
from egress.api.log_schema import AuditQuery
from egress.api.schema import Problem
from egress.fleet.errors import FleetProtocolError
from egress.fleet.remote_events import RemoteEventReader
from egress.fleet.remote_processes import Translate

Line = dict[str, Any]


class RemoteAuditLog:
    """The lines of another process."""

    def __init__(self, client: ApiClient, translated: Translate) -> None:
        self._client = client
        self._translated = translated

    def query(self, name: str, query: AuditQuery) -> tuple[list[Line], str]:
        """Return lines, newest first, and where the next ones begin; an empty text after the last."""
        with self._translated():
            data, headers = self._client.fetch("query_audit", {"name": name}, _given(query))
        try:
            found = [msgspec.json.decode(line, type=Line) for line in data.splitlines()]
        except msgspec.MsgspecError:
            raise FleetProtocolError(
                "the answer is no log", "run both in the same version of egress"
            ) from None
        return found, headers.get("egress-cursor", "")

    def follow(self, name: str, query: AuditQuery) -> RemoteLines:
        """Return lines as they come."""
        with ExitStack() as stack, self._translated():
            source = stack.enter_context(
                self._client.follow(Line, "query_audit", {"name": name}, _given(query))
            )
            return RemoteLines(source, stack.pop_all(), self._translated)


class RemoteLines(RemoteEventReader[Line]):
    """Lines as they come, until `close`."""

    def __init__(self, source: EventStream[Line], stack: ExitStack, translated: Translate) -> None:
        super().__init__(source, stack)
        self._lines = source
        self._translated = translated

    @override
    def _next_item(self) -> Line | None:
        with self._translated():
            line = next(self._lines, None)
            if line is not None and self._lines.name == "problem":
                raise ApiProblemError(msgspec.convert(line, Problem), 0)
            return line


def _given(query: AuditQuery) -> dict[str, str]:
    values = msgspec.structs.asdict(query)
    return {name: str(value) for name, value in values.items() if value not in ("", 0)}
