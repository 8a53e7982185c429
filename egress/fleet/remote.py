"""A fleet in another process, used like one in this process.

Each call has its own connection, so threads do not block each other, and a stuck call holds up no other. An
error in the other process is raised here as the same class with the same text.
"""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, Self

from egress.errors import reason_of
from egress.fleet import rpc_codec
from egress.fleet.errors import FleetUnavailableError
from egress.fleet.json_fields import JsonFields, read
from egress.fleet.lifetime import NO_TIME_LIMIT, SandboxLifetime
from egress.fleet.protocol import FleetInfo, Preview, SandboxStatus, Snapshot, SnapshotKind
from egress.fleet.remote_process import RemoteProcess, gone_error
from egress.fleet.rpc_channel import ChannelLostError, RpcChannel
from egress.fleet.rpc_codec import read_error
from egress.fleet.rpc_frames import (
    MAX_PIECE_BYTES,
    RPC_VERSION,
    FrameKind,
    RpcFrame,
    make_head,
    protocol_error,
    split_pieces,
)
from egress.runtime.protocol import NO_OUTPUT, Output
from egress.runtime.spec import NO_VALUES, Command, Event, ExecResult, Info, Spec, Values
from egress.unix.stream_socket import connect_to_egress

_START_HINT: Final = (
    "start it with `egress up`, or omit the runtime folder to get sandboxes of this process alone"
)


def _count_nothing(_: int) -> None:
    """Default: nobody watches the copy."""


class RemoteRuntime:
    """`SandboxFleet` of another process of this user."""

    def __init__(self, path: Path) -> None:
        """Connect to the fleet. Raises `FleetUnavailableError` without an answer."""
        self._path = path
        self._lock = threading.Lock()
        self._links: set[RpcChannel] = set()
        self._is_closed = False
        self.count_bytes: Callable[[int], None] = _count_nothing
        """Is told of each piece that `put` sends and `get` receives, with its size in bytes."""
        self.about: FleetInfo = read(FleetInfo, self._call("about"))

    def __repr__(self) -> str:
        return f"RemoteRuntime({str(self._path)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect. Sandboxes and commands from `spawn` stay; other calls of this process end."""
        with self._lock:
            self._is_closed = True
            links = list(self._links)
        for link in links:
            link.end()

    def end(self) -> None:
        """End the fleet, with all its sandboxes."""
        self._call("end")

    # Lifecycle

    def create(self, spec: Spec, terms: SandboxLifetime = NO_TIME_LIMIT) -> Info:
        answer = self._call("create", spec=rpc_codec.write(spec), terms=rpc_codec.write(terms))
        return read(Info, answer)

    def start(self, name: str) -> Info:
        return read(Info, self._call("start", name=name))

    def pause(self, name: str) -> None:
        self._call("pause", name=name)

    def resume(self, name: str) -> None:
        self._call("resume", name=name)

    def stop(self, name: str) -> None:
        self._call("stop", name=name)

    def sleep(self, name: str) -> None:
        self._call("sleep", name=name)

    def wake(self, name: str) -> None:
        self._call("wake", name=name)

    def remove(self, name: str) -> None:
        self._call("remove", name=name)

    def discard(self, name: str) -> None:
        self._call("discard", name=name)

    def open_ports(self, name: str, ports: tuple[int, ...]) -> None:
        self._call("open_ports", name=name, ports=list(ports))

    def prepare(self, spec: Spec, count: int) -> None:
        self._call("prepare", spec=rpc_codec.write(spec), count=count)

    def touch(self, name: str) -> None:
        self._call("touch", name=name)

    # State

    def info(self, name: str) -> Info:
        return read(Info, self._call("info", name=name))

    def list(self, labels: Values = NO_VALUES) -> tuple[Info, ...]:
        found = self._call("list", labels=dict(labels)).inners("all")
        return tuple(read(Info, each) for each in found)

    def status(self, name: str) -> SandboxStatus:
        return read(SandboxStatus, self._call("standing", name=name))

    @contextmanager
    def events(self) -> Iterator[Iterator[Event]]:
        with self._ask("events") as (link, _):
            yield _events(link)

    # Commands

    def spawn(self, name: str, command: Command, output: Output = NO_OUTPUT) -> RemoteProcess:
        return self._begin(name, command, output, is_exec=False)

    def exec(self, name: str, command: Command, output: Output = NO_OUTPUT) -> ExecResult:
        process = self._begin(name, command, output, is_exec=True)
        try:
            return process.wait()
        finally:
            # A caller that gives up waiting ends the command, too.
            process.leave()

    def _begin(self, name: str, command: Command, output: Output, *, is_exec: bool) -> RemoteProcess:
        mode = "none" if is_exec and command.input is None else "open"
        is_foreground = is_exec or command.terminal is not None
        link = self._open_channel()
        try:
            what = rpc_codec.write_command(command)
            _ask(link, "command", name=name, command=what, input=mode, foreground=is_foreground)
            return RemoteProcess(link, command, output, lambda: self._forget(link))
        except BaseException:
            self._forget(link)
            raise

    # Files and ports

    def put(self, name: str, path: str, archive: BinaryIO) -> None:
        with self._send_call("put", name=name, path=path) as link:
            while piece := archive.read(MAX_PIECE_BYTES):
                for frame in split_pieces(FrameKind.INPUT, piece):
                    if not _send_piece(link, frame):
                        return
                self.count_bytes(len(piece))
            with suppress(OSError):
                link.send(RpcFrame(FrameKind.END))
            _answer(link)

    @contextmanager
    def get(self, name: str, path: str) -> Iterator[BinaryIO]:
        # Received whole before the caller sees it: a slow caller must not hold the fleet's connection open.
        with tempfile.TemporaryFile() as file:
            with self._ask("get", name=name, path=path) as (link, _):
                while (frame := _next(link)).kind is FrameKind.OUTPUT:
                    file.write(frame.data)
                    self.count_bytes(len(frame.data))
                if frame.kind is not FrameKind.END:
                    _read_result(frame)
                    raise protocol_error()
            file.seek(0)
            yield file

    def dial(self, name: str, port: int) -> socket.socket:
        with self._ask("dial", name=name, port=port) as (link, _):
            return link.socket()

    # Previews

    def expose(self, name: str, port: int) -> str:
        return self._call("expose", name=name, port=port).text("url")

    def unexpose(self, name: str, port: int) -> None:
        self._call("unexpose", name=name, port=port)

    def previews(self) -> tuple[Preview, ...]:
        return tuple(read(Preview, each) for each in self._call("previews").inners("all"))

    # Snapshots

    def snapshot(self, name: str, snapshot: str, kind: SnapshotKind = "workspace") -> Snapshot:
        return read(Snapshot, self._call("snapshot", name=name, snapshot=snapshot, kind=kind))

    def snapshots(self) -> tuple[Snapshot, ...]:
        return tuple(read(Snapshot, each) for each in self._call("snapshots").inners("all"))

    def delete_snapshot(self, snapshot: str) -> None:
        self._call("delete_snapshot", name=snapshot)

    # Connections

    def _call(self, call: str, **values: object) -> JsonFields:
        with self._ask(call, **values) as (_, answer):
            return answer

    @contextmanager
    def _ask(self, call: str, **values: object) -> Iterator[tuple[RpcChannel, JsonFields]]:
        with self._send_call(call, **values) as link:
            yield link, _answer(link)

    @contextmanager
    def _send_call(self, call: str, **values: object) -> Iterator[RpcChannel]:
        link = self._open_channel()
        try:
            _ask(link, call, **values)
            yield link
        except ChannelLostError:
            raise gone_error() from None
        finally:
            self._forget(link)

    def _open_channel(self) -> RpcChannel:
        link = RpcChannel(_connect(self._path))
        with self._lock:
            if self._is_closed:
                link.close()
                raise FleetUnavailableError("these sandboxes have been let go of", "connect to them again")
            self._links.add(link)
        return link

    def _forget(self, link: RpcChannel) -> None:
        with self._lock:
            self._links.discard(link)
        link.close()


def connect_if_served(path: Path) -> RemoteRuntime | None:
    """The fleet that is served at this path; None if no process listens there."""
    if not path.is_socket():
        return None
    try:
        return RemoteRuntime(path)
    except FleetUnavailableError:
        return None


def _connect(path: Path) -> socket.socket:
    try:
        return connect_to_egress(path, None)
    except OSError as error:
        if isinstance(error, FileNotFoundError | ConnectionRefusedError):
            raise FleetUnavailableError(
                f"`egress up` is not running (no answer at {path})", _START_HINT
            ) from None
        reason = reason_of(error)
        raise FleetUnavailableError(
            f"cannot connect to {path}: {reason}", "connect as the user that runs `egress up`"
        ) from None


def _ask(link: RpcChannel, call: str, **values: object) -> None:
    link.send(make_head(version=RPC_VERSION, call=call, **{"with": values}))


def _next(link: RpcChannel) -> RpcFrame:
    frame = link.receive()
    if frame is None:
        raise gone_error()
    return frame


def _answer(link: RpcChannel) -> JsonFields:
    return _read_result(_next(link))


def _read_result(frame: RpcFrame) -> JsonFields:
    """Return the result of a call, or raise its error."""
    said = frame.head
    answer = JsonFields(said)
    if "error" in said:
        raise read_error(answer.inner("error"))
    if answer.integer("version") != RPC_VERSION:
        raise protocol_error()
    return answer.inner("done")


def _send_piece(link: RpcChannel, frame: RpcFrame) -> bool:
    """Send a piece, and wait until the other side takes the next; false if it wants no more."""
    # The other side may have answered early and closed: the reason is then in its last frame.
    with suppress(OSError):
        link.send(frame)
    said = _next(link)
    if said.kind is FrameKind.TAKEN:
        return True
    _read_result(said)
    return False


def _events(link: RpcChannel) -> Iterator[Event]:
    while True:
        try:
            frame = link.receive()
        except OSError:
            return
        if frame is None:
            return
        yield read(Event, JsonFields(frame.head).inner("event"))
