"""A fleet behind the API, used like one in this process.

Threads do not block each other, and a stuck call holds up no other: each call has a connection for itself. An
error of the server is raised here as the same class with the same text.
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, Self

from egress.api import schema
from egress.api.client import ApiClient, ApiLostError, ApiProblemError
from egress.api.endpoint import ApiEndpoint, UnixEndpoint
from egress.api.websocket_as_socket import pair_with
from egress.errors import reason_of
from egress.fleet import api_values
from egress.fleet.errors import FleetUnavailableError
from egress.fleet.lifetime import NO_TIME_LIMIT, SandboxLifetime
from egress.fleet.protocol import FleetInfo, Preview, SandboxStatus, Snapshot, SnapshotKind
from egress.fleet.remote_audit_log import RemoteAuditLog
from egress.fleet.remote_output import CommandEventData, RemoteOutput
from egress.fleet.remote_policies import RemotePolicies
from egress.fleet.remote_process import RemoteProcess, gone_error
from egress.fleet.remote_processes import RemoteTracker
from egress.fleet.remote_progress import told_call
from egress.fleet.remote_sessions import RemoteSessions
from egress.runtime.disk_space import SpaceCheckedFile
from egress.runtime.protocol import NO_OUTPUT, Output
from egress.runtime.spec import NO_VALUES, Command, Event, ExecResult, Info, Spec, Values

_START_HINT: Final = (
    "start it with `egress up`, or omit the runtime folder to get sandboxes of this process alone"
)


def _count_nothing(_: int) -> None:
    """Default: nobody watches the copy."""


class RemoteRuntime:
    """`SandboxFleet` of another process."""

    def __init__(self, place: Path | ApiEndpoint) -> None:
        """Connect to the fleet at a unix socket or an endpoint.

        Raises `FleetUnavailableError` without an answer.
        """
        self._client = ApiClient(UnixEndpoint(place) if isinstance(place, Path) else place)
        self.count_bytes: Callable[[int], None] = _count_nothing
        """Is told of each piece that `put` sends and `get` receives, with its size in bytes."""
        with self._translated():
            view = self._client.call(schema.FleetView, "about")
        self.tracked = RemoteTracker(self._client, self._translated)
        self.policies = RemotePolicies(self._client, self._translated)
        self.sessions = RemoteSessions(self._client, self._translated)
        self.audit_log = RemoteAuditLog(self._client, self._translated)
        self.about: FleetInfo = api_values.fleet_info(view)

    def __repr__(self) -> str:
        return f"RemoteRuntime({str(self._client.endpoint)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect. Sandboxes and commands from `spawn` stay; other calls of this process end."""
        self._client.close()

    def end(self) -> None:
        """End the fleet, with all its sandboxes."""
        with self._translated():
            self._client.tell("shut_down")

    # Lifecycle

    def create(self, spec: Spec, terms: SandboxLifetime = NO_TIME_LIMIT) -> Info:
        settings = api_values.settings_of(spec, terms, start=False)
        with self._translated():
            view = told_call(
                self._client, schema.SandboxView, "ensure_sandbox", {"name": spec.name}, settings
            )
        return api_values.info_of(view)

    def start(self, name: str) -> Info:
        with self._translated():
            return api_values.info_of(
                told_call(self._client, schema.SandboxView, "start_sandbox", {"name": name})
            )

    def pause(self, name: str) -> None:
        self._tell("pause_sandbox", name)

    def resume(self, name: str) -> None:
        self._tell("resume_sandbox", name)

    def stop(self, name: str) -> None:
        self._tell("stop_sandbox", name)

    def sleep(self, name: str) -> None:
        self._tell("sleep_sandbox", name)

    def wake(self, name: str) -> None:
        self._tell("wake_sandbox", name)

    def change_lifetime(self, name: str, changes: Mapping[str, float | None]) -> None:
        with self._translated():
            self._client.call(
                schema.SandboxView, "change_sandbox", {"name": name}, body=schema.SandboxChanges(**changes)
            )

    def touch(self, name: str) -> None:
        self._tell("touch_sandbox", name)

    def remove(self, name: str) -> None:
        self._tell("delete_sandbox", name)

    def discard(self, name: str) -> None:
        with self._translated():
            self._client.tell("delete_sandbox", {"name": name}, {"wait": "false"})

    def open_ports(self, name: str, ports: tuple[int, ...]) -> None:
        with self._translated():
            self._client.tell("open_ports", {"name": name}, body=schema.PortSettings(ports=ports))

    def prepare(self, spec: Spec, count: int) -> None:
        settings = api_values.settings_of(spec, NO_TIME_LIMIT, start=False)
        with self._translated():
            self._client.tell("keep_ready", body=schema.ReadySettings(count=count, settings=settings))

    # State

    def info(self, name: str) -> Info:
        return self.status(name).info

    def list(self, labels: Values = NO_VALUES) -> tuple[Info, ...]:
        wanted = [("label", f"{name}={value}") for name, value in labels.items()]
        with self._translated():
            found = self._client.call(schema.SandboxesView, "list_sandboxes", query=wanted)
        return tuple(api_values.info_of(each) for each in found.sandboxes)

    def status(self, name: str) -> SandboxStatus:
        with self._translated():
            return api_values.status_of(self._client.call(schema.SandboxView, "get_sandbox", {"name": name}))

    @contextmanager
    def events(self) -> Iterator[Iterator[Event]]:
        with self._translated(), self._client.follow(schema.SandboxEventView, "events") as found:
            yield (api_values.event_of(each) for each in found)

    # Commands

    def spawn(self, name: str, command: Command, output: Output = NO_OUTPUT) -> RemoteProcess:
        return self._begin(name, command, output, is_exec=False)

    def exec(self, name: str, command: Command, output: Output = NO_OUTPUT) -> ExecResult:
        settings = api_values.exec_settings(command)
        if settings is not None:
            # Over a connection that is kept: a WebSocket would cost a handshake and a thread each time.
            received = RemoteOutput(output, command.most_output)
            with self._translated():
                followed = self._client.follow(
                    CommandEventData, "exec", {"name": name}, body=settings, keep=True
                )
                with followed as events:
                    return received.take(events)[0]
        process = self._begin(name, command, output, is_exec=True)
        try:
            return process.wait()
        finally:
            # A caller that gives up waiting ends the command, too.
            process.leave()

    def _begin(self, name: str, command: Command, output: Output, *, is_exec: bool) -> RemoteProcess:
        message = api_values.start_message(
            command,
            has_input=not is_exec or command.input is not None,
            is_detached=not is_exec and command.terminal is None,
        )
        with self._translated():
            stream = self._client.open_stream("exec_stream", {"name": name})
        return RemoteProcess(stream, message, command, output, lambda: self._client.leave_stream(stream))

    # Files and ports

    def put(self, name: str, path: str, archive: BinaryIO) -> None:
        with self._translated():
            self._client.send("put_archive", {"name": name}, {"path": path}, self._counted(archive))

    @contextmanager
    def get(self, name: str, path: str) -> Iterator[BinaryIO]:
        # Received whole before the caller sees it: a slow caller must not hold the fleet's connection open.
        with tempfile.TemporaryFile() as file:
            parts, query = {"name": name}, {"path": path}
            with self._translated(), self._client.receive("get_archive", parts, query) as received:
                # The machine is often that of the server, whose log shares the disk.
                checked_file = SpaceCheckedFile(file)
                for piece in received:
                    checked_file.write(piece)
                    self.count_bytes(len(piece))
            file.seek(0)
            yield file

    def dial(self, name: str, port: int) -> socket.socket:
        with self._translated():
            stream = self._client.open_stream("dial", {"name": name, "port": str(port)})
        return pair_with(stream, lambda: self._client.leave_stream(stream))

    # Previews

    def expose(self, name: str, port: int, expires: float | None = None) -> Preview:
        parts, settings = {"name": name, "port": str(port)}, schema.ExposeSettings(expires=expires)
        with self._translated():
            return api_values.preview_of(
                self._client.call(schema.PreviewView, "expose", parts, body=settings)
            )

    def unexpose(self, name: str, port: int) -> None:
        with self._translated():
            self._client.tell("unexpose", {"name": name, "port": str(port)})

    def previews(self) -> tuple[Preview, ...]:
        with self._translated():
            found = self._client.call(schema.PreviewsView, "list_previews")
        return tuple(api_values.preview_of(each) for each in found.previews)

    # Snapshots

    def snapshot(self, name: str, snapshot: str, kind: SnapshotKind = "workspace") -> Snapshot:
        settings = schema.SnapshotSettings(sandbox=name, kind=kind)
        with self._translated():
            view = told_call(
                self._client, schema.SnapshotView, "create_snapshot", {"name": snapshot}, settings
            )
        return api_values.snapshot_of(view)

    def snapshots(self) -> tuple[Snapshot, ...]:
        with self._translated():
            found = self._client.call(schema.SnapshotsView, "list_snapshots")
        return tuple(api_values.snapshot_of(each) for each in found.snapshots)

    def delete_snapshot(self, snapshot: str) -> None:
        with self._translated():
            self._client.tell("delete_snapshot", {"name": snapshot})

    # Internals

    def _tell(self, operation: str, name: str) -> None:
        with self._translated():
            self._client.tell(operation, {"name": name})

    def _counted(self, archive: BinaryIO) -> Iterator[bytes]:
        while piece := archive.read(schema.MAX_PIECE_BYTES):
            yield piece
            self.count_bytes(len(piece))

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise the errors of a fleet for those of the API."""
        try:
            yield
        except ApiProblemError as error:
            raise api_values.error_of(error.problem) from None
        except ApiLostError as error:
            if self._client.is_closed:
                raise FleetUnavailableError(
                    "these sandboxes have been let go of", "connect to them again"
                ) from None
            if error.__cause__ is not None:
                raise _unreachable(self._client.endpoint, error.__cause__) from None
            raise gone_error() from None


def open_remote(url: str, *, token: str, ca_file: Path | None = None) -> RemoteRuntime:
    """Connect to the sandboxes of `egress up --api-listen`, which may run on another machine.

    The result is a `runtime` for `Sandbox` and `AsyncSandbox`, in any number of threads, until it is closed.
    `ca_file` holds the authorities to trust instead of those of the system. A sandbox there gets no volumes.

    Raises `UsageError` for an address or a token that is none, `FleetUnavailableError` without an answer, and
    `FleetFaultError` for a wrong token.

    >>> with open_remote("https://boxes.example.com:8700", token=token) as remote:  # doctest: +SKIP
    ...     Sandbox.create(runtime=remote).exec("echo hello").text
    """
    from egress.api.url_endpoint import UrlEndpoint  # noqa: PLC0415 - the unix socket needs none of it

    return RemoteRuntime(UrlEndpoint.read(url, token, ca_file))


def connect_if_served(path: Path) -> RemoteRuntime | None:
    """The fleet that is served at this path; None if no process listens there."""
    if not path.is_socket():
        return None
    try:
        return RemoteRuntime(path)
    except FleetUnavailableError:
        return None


def _unreachable(endpoint: ApiEndpoint, cause: BaseException) -> FleetUnavailableError:
    if not isinstance(endpoint, UnixEndpoint):
        # That of a certificate is a text for people; the other text of the library names its own source.
        told = reason_of(cause) if isinstance(cause, OSError) else type(cause).__name__
        reason = getattr(cause, "verify_message", "") or told
        return FleetUnavailableError(
            f"cannot connect to {endpoint}: {reason}",
            "check the address, its certificate, and that `egress up --api-listen` runs there",
        )
    if isinstance(cause, FileNotFoundError | ConnectionRefusedError):
        return FleetUnavailableError(f"`egress up` is not running (no answer at {endpoint})", _START_HINT)
    reason = reason_of(cause) if isinstance(cause, OSError) else type(cause).__name__
    return FleetUnavailableError(
        f"cannot connect to {endpoint}: {reason}", "connect as the user that runs `egress up`"
    )
