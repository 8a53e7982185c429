"""The processes of a fleet behind the API that are found by their ids."""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict
from typing import override

from egress.api.client import ApiClient, EventStream
from egress.api.process_schema import (
    HttpProbeSettings,
    OutputEventView,
    ProcessesView,
    ProcessSettings,
    ProcessView,
    SignalSettings,
    WaitSettings,
)
from egress.fleet.api_values import asked_rights, process_status, terminal_size
from egress.fleet.http_probe import HttpProbe
from egress.fleet.process_interface import DEFAULT_KEPT_BYTES, OutputName, OutputPiece, ProcessStatus
from egress.fleet.remote_events import RemoteEventReader
from egress.fleet.remote_process import protocol_error
from egress.fleet.remote_viewer import RemoteViewer
from egress.runtime.errors import SpecError
from egress.runtime.spec import Command

Translate = Callable[[], AbstractContextManager[None]]
"""Raises the errors of a fleet for those of the API."""


class RemoteTracker:
    """`ProcessTracker` of another process."""

    def __init__(self, client: ApiClient, translated: Translate) -> None:
        self._client = client
        self._translated = translated

    def start(self, name: str, command: Command, keep: int = DEFAULT_KEPT_BYTES) -> RemoteTrackedProcess:
        if command.input not in (None, b""):
            raise SpecError("a process of the table has no file as input", "write to it")
        settings = ProcessSettings(
            argv=command.argv,
            cwd=command.cwd,
            env=dict(command.env),
            timeout=command.timeout,
            grace=command.grace,
            stdin=command.input is None,
            keep=keep,
            terminal=terminal_size(command.terminal),
            **asked_rights(command.rights),
        )
        with self._translated():
            view = self._client.call(ProcessView, "start_process", {"name": name}, body=settings)
        return RemoteTrackedProcess(self._client, self._translated, name, view.id)

    def all(self, name: str) -> tuple[ProcessStatus, ...]:
        with self._translated():
            found = self._client.call(ProcessesView, "list_processes", {"name": name})
        return tuple(process_status(each) for each in found.processes)

    def get(self, name: str, process: str) -> RemoteTrackedProcess:
        found = RemoteTrackedProcess(self._client, self._translated, name, process)
        found.status()
        return found


class RemoteTrackedProcess:
    """`TrackedProcess` of another process."""

    def __init__(self, client: ApiClient, translated: Translate, name: str, process: str) -> None:
        self._client = client
        self._translated = translated
        self._parts = {"name": name, "process": process}

    @property
    def id(self) -> str:
        return self._parts["process"]

    def __repr__(self) -> str:
        return f"<RemoteTrackedProcess {self.id} in {self._parts['name']!r}>"

    def status(self) -> ProcessStatus:
        with self._translated():
            return process_status(self._client.call(ProcessView, "get_process", self._parts))

    def read(self, stream: OutputName = "stdout", offset: int = 0) -> OutputPiece:
        query = {"stream": stream, "offset": str(offset)}
        with self._translated():
            data, headers = self._client.fetch("read_output", self._parts, query)
        try:
            return OutputPiece(int(headers["egress-offset"]), data, int(headers["egress-first-offset"]))
        except (KeyError, ValueError):
            raise protocol_error() from None

    def follow(self, stream: OutputName = "stdout", offset: int = 0) -> RemoteFollower:
        query = {"stream": stream, "offset": str(offset), "encoding": "base64"}
        with ExitStack() as stack, self._translated():
            source = stack.enter_context(
                self._client.follow(OutputEventView, "read_output", self._parts, query)
            )
            return RemoteFollower(source, stack.pop_all())

    def write(self, data: bytes) -> None:
        with self._translated():
            self._client.send("write_input", self._parts, {}, iter((data,)) if data else iter(()))

    def close_input(self) -> None:
        with self._translated():
            self._client.tell("write_input", self._parts, {"close": "true"})

    def signal(self, name: str) -> None:
        with self._translated():
            self._client.tell("signal_process", self._parts, body=SignalSettings(name=name))

    def kill(self, grace: float = 2.0) -> None:
        with self._translated():
            self._client.tell("signal_process", self._parts, body=SignalSettings(grace=grace))

    def wait(
        self,
        timeout: float | None = None,
        *,
        log: str = "",
        port: int | None = None,
        http: HttpProbe | None = None,
    ) -> ProcessStatus:
        probe = None if http is None else HttpProbeSettings(**asdict(http))
        settings = WaitSettings(timeout=timeout, log=log, port=port, http=probe)
        with self._translated():
            return process_status(
                self._client.call(ProcessView, "wait_for_process", self._parts, body=settings)
            )

    def attach(self, columns: int, rows: int) -> RemoteViewer:
        query = {"columns": str(columns), "rows": str(rows)}
        with self._translated():
            stream = self._client.open_stream("attach_terminal", self._parts, query)
        return RemoteViewer(stream, self.write, lambda: self._client.leave_stream(stream))

    def forget(self) -> None:
        with self._translated():
            self._client.tell("delete_process", self._parts)


class RemoteFollower(RemoteEventReader[OutputPiece]):
    """`OutputFollower` of another process."""

    def __init__(self, source: EventStream[OutputEventView], stack: ExitStack) -> None:
        super().__init__(source, stack)
        self._events = source

    @override
    def _next_item(self) -> OutputPiece | None:
        for each in self._events:
            # A gap shows in the offset of the piece after it.
            if each.base64 is not None:
                return OutputPiece(each.offset, _bytes(each.base64), each.offset)
            if each.process is not None:
                self._is_over = True
                break
        return None


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise protocol_error() from None
