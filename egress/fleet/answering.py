"""What a fleet answers to a call from another process: one conversation, from the first frame to the last."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, Final, cast, override

import structlog

from egress.errors import EgressError
from egress.fleet import codec
from egress.fleet.attending import attend
from egress.fleet.errors import FleetProtocolError
from egress.fleet.faults import write_error
from egress.fleet.fields import Fields
from egress.fleet.fleet import Fleet
from egress.fleet.link import Link
from egress.fleet.wire import PIECE, VERSION, Frame, Kind, head, pieces, wrong

_log = structlog.get_logger(__name__)

Json = codec.Json
Plain = Callable[[Fields], Json]
"""A call that is over with its answer."""
Streamed = Callable[[Link, Fields], None]
"""One that answers by itself, as it goes."""


class Answering:
    """All calls that there are."""

    def __init__(self, fleet: Fleet, on_end: Callable[[], object]) -> None:
        self._fleet = fleet
        self._on_end = on_end
        self._plain: Final[dict[str, Plain]] = {
            "about": lambda _: codec.write_about(fleet.about),
            "create": self._create,
            "start": lambda fields: codec.write_info(fleet.start(fields.text("name"))),
            "pause": _of_one(fleet.pause),
            "resume": _of_one(fleet.resume),
            "stop": _of_one(fleet.stop),
            "remove": _of_one(fleet.remove),
            "touch": _of_one(fleet.touch),
            "info": lambda fields: codec.write_info(fleet.info(fields.text("name"))),
            "standing": lambda fields: codec.write_standing(fleet.standing(fields.text("name"))),
            "list": self._list,
            "open_ports": self._open_ports,
            "prepare": self._prepare,
            "expose": self._expose,
            "unexpose": self._unexpose,
            "previews": self._previews,
        }
        self._streamed: Final[dict[str, Streamed]] = {
            "command": lambda link, fields: attend(fleet, link, fields),
            "put": self._put,
            "get": self._get,
            "dial": self._dial,
            "events": self._events,
            "end": self._end,
        }

    def answer(self, link: Link) -> None:
        """Hold one conversation. Never raises for what the other side does."""
        with suppress(OSError):
            try:
                self._converse(link)
            except EgressError as error:
                link.send(head(version=VERSION, error=write_error(error)))
            except OSError:
                raise
            except Exception as error:  # noqa: BLE001 - a mistake here must not end the fleet
                _log.exception("fleet.call_failed")
                link.send(head(version=VERSION, error=write_error(error)))

    def _converse(self, link: Link) -> None:
        frame = link.receive()
        if frame is None:
            return
        call = Fields(frame.head)
        version = call.whole("version")
        if version != VERSION:
            raise FleetProtocolError(
                f"this fleet speaks version {VERSION} of its protocol, and was asked in version {version}",
                "bring both to one version of egress",
            )
        name, given = call.text("call"), call.inner("with")
        call.end()
        if name in self._streamed:
            self._streamed[name](link, given)
        elif name in self._plain:
            done = self._plain[name](given)
            link.send(head(version=VERSION, done=done))
        else:
            raise wrong()

    # Plain calls

    def _create(self, fields: Fields) -> Json:
        spec, terms = codec.read_spec(fields.inner("spec")), codec.read_terms(fields.inner("terms"))
        return codec.write_info(self._fleet.create(spec, terms))

    def _list(self, fields: Fields) -> Json:
        return {"all": [codec.write_info(each) for each in self._fleet.list(fields.values("labels"))]}

    def _open_ports(self, fields: Fields) -> Json:
        self._fleet.open_ports(fields.text("name"), fields.wholes("ports"))
        return {}

    def _prepare(self, fields: Fields) -> Json:
        self._fleet.prepare(codec.read_spec(fields.inner("spec")), fields.whole("count"))
        return {}

    def _expose(self, fields: Fields) -> Json:
        return {"url": self._fleet.expose(fields.text("name"), fields.whole("port"))}

    def _unexpose(self, fields: Fields) -> Json:
        self._fleet.unexpose(fields.text("name"), fields.whole("port"))
        return {}

    def _previews(self, _: Fields) -> Json:
        return {"all": [codec.write_preview(each) for each in self._fleet.previews()]}

    # Calls with streams

    def _put(self, link: Link, fields: Fields) -> None:
        name, path = fields.text("name"), fields.text("path")
        self._fleet.put(name, path, cast("BinaryIO", _Sent(link)))
        link.send(head(version=VERSION, done={}))

    def _get(self, link: Link, fields: Fields) -> None:
        with self._fleet.get(fields.text("name"), fields.text("path")) as archive:
            link.send(head(version=VERSION, done={}))
            while piece := archive.read(PIECE):
                link.send(*pieces(Kind.OUTPUT, piece))
        link.send(Frame(Kind.END))

    def _dial(self, link: Link, fields: Fields) -> None:
        with self._fleet.dial(fields.text("name"), fields.whole("port")) as sock:
            link.send(head(version=VERSION, done={}), sock=sock)

    def _end(self, link: Link, _: Fields) -> None:
        # Afterwards there may be nobody to answer.
        link.send(head(version=VERSION, done={}))
        self._on_end()

    def _events(self, link: Link, _: Fields) -> None:
        with self._fleet.subscribe() as subscription:
            link.send(head(version=VERSION, done={}))

            def until_gone() -> None:
                with suppress(OSError, FleetProtocolError):
                    link.receive()
                subscription.close()

            threading.Thread(target=until_gone, name="egress-fleet-watch", daemon=True).start()
            for event in subscription:
                link.send(head(event=codec.write_event(event)))


class _Sent(io.RawIOBase):
    """An archive as it comes in, a piece at a time. One that breaks off is an error, and no end."""

    def __init__(self, link: Link) -> None:
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
            raise ConnectionResetError("whoever sent this has gone")
        if frame.kind is Kind.END:
            self._is_over = True
        elif frame.kind is Kind.INPUT and frame.data:
            self._piece = frame.data
            self._link.send(Frame(Kind.TAKEN))
        else:
            raise wrong()


def _of_one(does: Callable[[str], object]) -> Plain:
    """A call that is about one sandbox, and has nothing to tell."""

    def call(fields: Fields) -> Json:
        does(fields.text("name"))
        return {}

    return call
