"""Answers one call of another process to a fleet, from the first frame to the last."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, Final, cast, override

from egress.errors import EgressError
from egress.fleet import rpc_codec
from egress.fleet.errors import FleetProtocolError
from egress.fleet.fleet import Fleet
from egress.fleet.json_fields import JsonFields, read
from egress.fleet.lifetime import SandboxLifetime
from egress.fleet.protocol import SnapshotKind
from egress.fleet.rpc_channel import RpcChannel
from egress.fleet.rpc_codec import write_error
from egress.fleet.rpc_exec import serve_exec
from egress.fleet.rpc_frames import (
    MAX_PIECE_BYTES,
    RPC_VERSION,
    FrameKind,
    RpcFrame,
    make_head,
    protocol_error,
    split_pieces,
)
from egress.logger import EventLogger
from egress.runtime.spec import Spec

_log = EventLogger(__name__)

Json = rpc_codec.Json
PlainCall = Callable[[JsonFields], Json]
"""A call that returns its whole answer."""
StreamedCall = Callable[[RpcChannel, JsonFields], None]
"""A call that sends its answer itself, piece by piece."""


class RpcDispatcher:
    """The calls of the protocol."""

    def __init__(self, fleet: Fleet, on_end: Callable[[], object]) -> None:
        self._fleet = fleet
        self._on_end = on_end
        # Calls are looked up in tables of fixed names: a client cannot name any other method.
        self._plain: Final[dict[str, PlainCall]] = {
            "about": lambda _: rpc_codec.write(fleet.about),
            "create": self._create,
            "start": lambda fields: rpc_codec.write(fleet.start(fields.text("name"))),
            "pause": _single_sandbox_call(fleet.pause),
            "resume": _single_sandbox_call(fleet.resume),
            "sleep": _single_sandbox_call(fleet.sleep),
            "wake": _single_sandbox_call(fleet.wake),
            "stop": _single_sandbox_call(fleet.stop),
            "remove": _single_sandbox_call(fleet.remove),
            "discard": _single_sandbox_call(fleet.discard),
            "touch": _single_sandbox_call(fleet.touch),
            "info": lambda fields: rpc_codec.write(fleet.info(fields.text("name"))),
            "standing": lambda fields: rpc_codec.write(fleet.status(fields.text("name"))),
            "list": self._list,
            "open_ports": self._open_ports,
            "prepare": self._prepare,
            "expose": self._expose,
            "unexpose": self._unexpose,
            "previews": self._previews,
            "snapshot": self._snapshot,
            "snapshots": lambda _: {"all": [rpc_codec.write(each) for each in fleet.snapshots()]},
            "delete_snapshot": _single_sandbox_call(fleet.delete_snapshot),
        }
        self._streamed: Final[dict[str, StreamedCall]] = {
            "command": lambda link, fields: serve_exec(fleet, link, fields),
            "put": self._put,
            "get": self._get,
            "dial": self._dial,
            "events": self._events,
            "end": self._end,
        }

    def answer(self, link: RpcChannel) -> None:
        """Serve one connection. Never raises for the behaviour of the other side."""
        with suppress(OSError):
            try:
                self._converse(link)
            except EgressError as error:
                link.send(make_head(version=RPC_VERSION, error=write_error(error)))
            except OSError:
                raise
            except Exception as error:  # noqa: BLE001 - a mistake here must not end the fleet
                _log.exception("fleet.call_failed")
                link.send(make_head(version=RPC_VERSION, error=write_error(error)))

    # The version is checked before the call is read: another version may have other fields.
    def _converse(self, link: RpcChannel) -> None:
        frame = link.receive()
        if frame is None:
            return
        call = JsonFields(frame.head)
        version = call.integer("version")
        if version != RPC_VERSION:
            raise FleetProtocolError(
                f"this fleet speaks protocol version {RPC_VERSION}, the client version {version}",
                "run both in the same version of egress",
            )
        name, given = call.text("call"), call.inner("with")
        call.end()
        if name in self._streamed:
            self._streamed[name](link, given)
        elif name in self._plain:
            done = self._plain[name](given)
            link.send(make_head(version=RPC_VERSION, done=done))
        else:
            raise protocol_error()

    # Plain calls

    def _create(self, fields: JsonFields) -> Json:
        spec = read(Spec, fields.inner("spec"))
        terms = read(SandboxLifetime, fields.inner("terms"))
        return rpc_codec.write(self._fleet.create(spec, terms))

    def _list(self, fields: JsonFields) -> Json:
        return {"all": [rpc_codec.write(each) for each in self._fleet.list(fields.values("labels"))]}

    def _open_ports(self, fields: JsonFields) -> Json:
        self._fleet.open_ports(fields.text("name"), fields.integers("ports"))
        return {}

    def _prepare(self, fields: JsonFields) -> Json:
        self._fleet.prepare(read(Spec, fields.inner("spec")), fields.integer("count"))
        return {}

    def _expose(self, fields: JsonFields) -> Json:
        return {"url": self._fleet.expose(fields.text("name"), fields.integer("port"))}

    def _unexpose(self, fields: JsonFields) -> Json:
        self._fleet.unexpose(fields.text("name"), fields.integer("port"))
        return {}

    def _previews(self, _: JsonFields) -> Json:
        return {"all": [rpc_codec.write(each) for each in self._fleet.previews()]}

    def _snapshot(self, fields: JsonFields) -> Json:
        kind = cast("SnapshotKind", fields.take("kind", SnapshotKind))
        return rpc_codec.write(self._fleet.snapshot(fields.text("name"), fields.text("snapshot"), kind))

    # Streamed calls

    def _put(self, link: RpcChannel, fields: JsonFields) -> None:
        name, path = fields.text("name"), fields.text("path")
        self._fleet.put(name, path, cast("BinaryIO", _ArchiveInput(link)))
        link.send(make_head(version=RPC_VERSION, done={}))

    def _get(self, link: RpcChannel, fields: JsonFields) -> None:
        with self._fleet.get(fields.text("name"), fields.text("path")) as archive:
            link.send(make_head(version=RPC_VERSION, done={}))
            while piece := archive.read(MAX_PIECE_BYTES):
                link.send(*split_pieces(FrameKind.OUTPUT, piece))
        link.send(RpcFrame(FrameKind.END))

    def _dial(self, link: RpcChannel, fields: JsonFields) -> None:
        with self._fleet.dial(fields.text("name"), fields.integer("port")) as sock:
            link.send(make_head(version=RPC_VERSION, done={}), sock=sock)

    def _end(self, link: RpcChannel, _: JsonFields) -> None:
        # Answered first: the process may end before `_on_end` returns.
        link.send(make_head(version=RPC_VERSION, done={}))
        self._on_end()

    def _events(self, link: RpcChannel, _: JsonFields) -> None:
        with self._fleet.subscribe() as subscription:
            # The other side sends nothing on this connection, so a readable socket means that it has left.
            link.send(make_head(version=RPC_VERSION, done={}))

            def until_gone() -> None:
                with suppress(OSError, FleetProtocolError):
                    link.receive()
                subscription.close()

            threading.Thread(target=until_gone, name="egress-fleet-watch", daemon=True).start()
            for event in subscription:
                link.send(make_head(event=rpc_codec.write(event)))


class _ArchiveInput(io.RawIOBase):
    """An archive that arrives piece by piece.

    A connection that ends early is an error, not the end of the file.
    """

    def __init__(self, link: RpcChannel) -> None:
        super().__init__()
        self._link = link
        self._piece = b""
        self._is_over = False

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: memoryview | bytearray, /) -> int:  # type: ignore[override]
        if not self._piece and not self._is_over:
            self._next()
        count = min(len(buffer), len(self._piece))
        buffer[:count] = self._piece[:count]
        self._piece = self._piece[count:]
        return count

    def _next(self) -> None:
        frame = self._link.receive()
        if frame is None:
            raise ConnectionResetError("the sender closed the connection")
        if frame.kind is FrameKind.END:
            self._is_over = True
        elif frame.kind is FrameKind.INPUT and frame.data:
            self._piece = frame.data
            self._link.send(RpcFrame(FrameKind.TAKEN))
        else:
            raise protocol_error()


def _single_sandbox_call(does: Callable[[str], object]) -> PlainCall:
    """Wrap a method that takes the name of a sandbox and returns nothing."""

    def call(fields: JsonFields) -> Json:
        does(fields.text("name"))
        return {}

    return call
