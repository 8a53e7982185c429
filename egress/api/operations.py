"""The operations of the API, as a table: the server, its client and the OpenAPI document are made from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, Literal
from urllib.parse import quote, urlencode

from msgspec import Struct

from egress.api import process_schema, schema

Content = Literal["json", "tar", "events", "websocket", "bytes", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation: where it is, what it takes, and what it answers."""

    name: str
    method: str
    path: str
    """With `{name}` for parts that a call fills in."""
    summary: str
    body: type[Struct] | None = None
    query: type[Struct] | None = None
    sends: Content = "json"
    """The content of the request; without a `body` it is a stream of bytes."""
    answer: type[Struct] | None = None
    returns: Content = "json"
    status: int = 200
    can_follow: bool = False
    """Whether a client that accepts events gets its answer as events."""
    owner_only: bool = False
    """Whether only the unix socket of the owner offers it."""

    @property
    def usual_status(self) -> int:
        """The status of success. A call without an answer has none of its own."""
        return HTTPStatus.NO_CONTENT if self.returns == "none" else self.status

    def target(
        self, parts: Mapping[str, str], query: Mapping[str, str] | Sequence[tuple[str, str]] = ()
    ) -> str:
        """Return the request target for these parts of the path and these query parameters."""
        made = self.path.format_map({name: quote(value, safe="") for name, value in parts.items()})
        return f"{made}?{urlencode(query)}" if query else made


_SANDBOX: Final = "/v1/sandboxes/{name}"
_PROCESS: Final = f"{_SANDBOX}/processes/{{process}}"


def _sandbox_verb(name: str, summary: str) -> Operation:
    return Operation(
        name=f"{name}_sandbox", method="POST", path=f"{_SANDBOX}/{name}", summary=summary, returns="none"
    )


_ALL: Final = (
    Operation(
        name="about",
        method="GET",
        path="/v1/about",
        summary="Describe the server.",
        answer=schema.FleetView,
    ),
    Operation(
        name="openapi",
        method="GET",
        path="/v1/openapi.json",
        summary="Return this document.",
    ),
    Operation(
        name="shut_down",
        method="POST",
        path="/v1/shutdown",
        summary="Remove all sandboxes, and end the server.",
        returns="none",
        owner_only=True,
    ),
    Operation(
        name="list_sandboxes",
        method="GET",
        path="/v1/sandboxes",
        summary="List sandboxes by name.",
        query=schema.ListQuery,
        answer=schema.SandboxesView,
    ),
    Operation(
        name="create_sandbox",
        method="POST",
        path="/v1/sandboxes",
        summary="Create a sandbox with a random name.",
        body=schema.SandboxSettings,
        answer=schema.SandboxView,
        status=201,
    ),
    Operation(
        name="ensure_sandbox",
        method="PUT",
        path=_SANDBOX,
        summary="Create a sandbox, or return the one of this name that has the same settings.",
        body=schema.SandboxSettings,
        answer=schema.SandboxView,
    ),
    Operation(
        name="get_sandbox",
        method="GET",
        path=_SANDBOX,
        summary="Return a sandbox and its remaining time.",
        answer=schema.SandboxView,
    ),
    Operation(
        name="delete_sandbox",
        method="DELETE",
        path=_SANDBOX,
        summary="Remove a sandbox with its files.",
        query=schema.DeleteQuery,
        returns="none",
    ),
    Operation(
        name="start_sandbox",
        method="POST",
        path=f"{_SANDBOX}/start",
        summary="Make a sandbox ready for commands.",
        answer=schema.SandboxView,
    ),
    _sandbox_verb("stop", "End all processes of a sandbox; its files stay."),
    _sandbox_verb("sleep", "Stop a running sandbox until its next use; its files stay."),
    _sandbox_verb("wake", "Start a sandbox that is asleep."),
    _sandbox_verb("pause", "Freeze all processes of a sandbox."),
    _sandbox_verb("resume", "Thaw the processes of a sandbox."),
    _sandbox_verb("touch", "Record a use of a sandbox."),
    Operation(
        name="open_ports",
        method="POST",
        path=f"{_SANDBOX}/ports",
        summary="Lead further ports of the rules to the proxy.",
        body=schema.PortSettings,
        returns="none",
    ),
    Operation(
        name="keep_ready",
        method="PUT",
        path="/v1/ready",
        summary="Keep sandboxes ready for later calls.",
        body=schema.ReadySettings,
        returns="none",
        owner_only=True,
    ),
    Operation(
        name="exec",
        method="POST",
        path=f"{_SANDBOX}/exec",
        summary="Run a command to its end; the end of the connection ends the command.",
        body=schema.CommandSettings,
        answer=schema.CommandResult,
        can_follow=True,
    ),
    Operation(
        name="exec_stream",
        method="GET",
        path=f"{_SANDBOX}/exec",
        summary="Run a command, with its input and output as messages of a WebSocket.",
        returns="websocket",
        status=101,
    ),
    Operation(
        name="start_process",
        method="POST",
        path=f"{_SANDBOX}/processes",
        summary="Start a command that any client finds again by its id.",
        body=process_schema.ProcessSettings,
        answer=process_schema.ProcessView,
        status=201,
    ),
    Operation(
        name="list_processes",
        method="GET",
        path=f"{_SANDBOX}/processes",
        summary="List the processes that run, and the last that ended.",
        answer=process_schema.ProcessesView,
    ),
    Operation(
        name="get_process",
        method="GET",
        path=_PROCESS,
        summary="Return a process.",
        answer=process_schema.ProcessView,
    ),
    Operation(
        name="delete_process",
        method="DELETE",
        path=_PROCESS,
        summary="End a process if it runs, and forget it.",
        returns="none",
    ),
    Operation(
        name="read_output",
        method="GET",
        path=f"{_PROCESS}/output",
        summary="Return the kept output from an offset on; as events, follow it.",
        query=process_schema.OutputQuery,
        returns="bytes",
        can_follow=True,
    ),
    Operation(
        name="write_input",
        method="POST",
        path=f"{_PROCESS}/stdin",
        summary="Send input, as bytes.",
        query=process_schema.InputQuery,
        sends="bytes",
        returns="none",
    ),
    Operation(
        name="signal_process",
        method="POST",
        path=f"{_PROCESS}/signal",
        summary="Send a signal, or end the process group.",
        body=process_schema.SignalSettings,
        returns="none",
    ),
    Operation(
        name="wait_for_process",
        method="POST",
        path=f"{_PROCESS}/wait",
        summary="Wait for the end of a process, a text in its output, or a listener on a port.",
        body=process_schema.WaitSettings,
        answer=process_schema.ProcessView,
    ),
    Operation(
        name="put_archive",
        method="PUT",
        path=f"{_SANDBOX}/archive",
        summary="Unpack a tar archive into a folder, as the user of the sandbox.",
        query=schema.PathQuery,
        sends="tar",
        returns="none",
    ),
    Operation(
        name="get_archive",
        method="GET",
        path=f"{_SANDBOX}/archive",
        summary="Return a tar archive of a file, or of the content of a folder.",
        query=schema.PathQuery,
        returns="tar",
    ),
    Operation(
        name="head_file",
        method="HEAD",
        path=f"{_SANDBOX}/file",
        summary="Return the size of a file as the length of its content.",
        query=schema.PathQuery,
        returns="bytes",
    ),
    Operation(
        name="get_file",
        method="GET",
        path=f"{_SANDBOX}/file",
        summary="Return the content of a file, or with a `Range` header a part of it.",
        query=schema.PathQuery,
        returns="bytes",
    ),
    Operation(
        name="put_file",
        method="PUT",
        path=f"{_SANDBOX}/file",
        summary="Write a file atomically, with the folders above it.",
        query=schema.FileWriteQuery,
        sends="bytes",
        returns="none",
    ),
    Operation(
        name="delete_file",
        method="DELETE",
        path=f"{_SANDBOX}/file",
        summary="Remove a file, a link or a folder.",
        query=schema.FileDeleteQuery,
        returns="none",
    ),
    Operation(
        name="stat",
        method="GET",
        path=f"{_SANDBOX}/stat",
        summary="Describe a file or a folder.",
        query=schema.PathQuery,
        answer=schema.FileView,
    ),
    Operation(
        name="list_folder",
        method="GET",
        path=f"{_SANDBOX}/dir",
        summary="List the entries of a folder, at most 10,000.",
        query=schema.PathQuery,
        answer=schema.FolderView,
    ),
    Operation(
        name="make_folder",
        method="POST",
        path=f"{_SANDBOX}/dir",
        summary="Create a folder.",
        body=schema.FolderSettings,
        returns="none",
    ),
    Operation(
        name="rename",
        method="POST",
        path=f"{_SANDBOX}/rename",
        summary="Rename a file or a folder.",
        body=schema.RenameSettings,
        returns="none",
    ),
    Operation(
        name="watch",
        method="GET",
        path=f"{_SANDBOX}/watch",
        summary="Follow the changes below a path, as `change` events, until the client leaves.",
        query=schema.WatchQuery,
        answer=schema.ChangeView,
        returns="events",
    ),
    Operation(
        name="clone",
        method="POST",
        path=f"{_SANDBOX}/git",
        summary="Clone a repository over HTTPS.",
        body=schema.CloneSettings,
        answer=schema.CloneView,
    ),
    Operation(
        name="dial",
        method="GET",
        path=f"{_SANDBOX}/ports/{{port}}/stream",
        summary="Connect to a TCP port in the sandbox; binary messages of a WebSocket are its bytes.",
        returns="websocket",
        status=101,
    ),
    Operation(
        name="list_previews",
        method="GET",
        path="/v1/previews",
        summary="List the exposed ports.",
        answer=schema.PreviewsView,
    ),
    Operation(
        name="expose",
        method="PUT",
        path=f"{_SANDBOX}/previews/{{port}}",
        summary="Expose a port to browsers.",
        answer=schema.PreviewView,
    ),
    Operation(
        name="unexpose",
        method="DELETE",
        path=f"{_SANDBOX}/previews/{{port}}",
        summary="Withdraw an exposed port.",
        returns="none",
    ),
    Operation(
        name="list_snapshots",
        method="GET",
        path="/v1/snapshots",
        summary="List snapshots by name.",
        answer=schema.SnapshotsView,
    ),
    Operation(
        name="create_snapshot",
        method="PUT",
        path="/v1/snapshots/{name}",
        summary="Keep the files of a sandbox under a name.",
        body=schema.SnapshotSettings,
        answer=schema.SnapshotView,
    ),
    Operation(
        name="delete_snapshot",
        method="DELETE",
        path="/v1/snapshots/{name}",
        summary="Delete a snapshot.",
        returns="none",
    ),
    Operation(
        name="events",
        method="GET",
        path="/v1/events",
        summary="Follow the events of all sandboxes.",
        answer=schema.SandboxEventView,
        returns="events",
    ),
)

OPERATIONS: Final[Mapping[str, Operation]] = MappingProxyType({each.name: each for each in _ALL})
"""Every operation, by name."""
