"""A fleet in another process, used like one in this one.

Each call is a conversation of its own, so calls from several threads go side by side, and one that is stuck
holds up no other. Whatever goes wrong there is raised here, as the same error with the same text.
"""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, Self

from egress.fleet import codec
from egress.fleet.errors import FleetUnavailableError
from egress.fleet.faults import read_error
from egress.fleet.fields import Fields
from egress.fleet.link import Link, LostError
from egress.fleet.protocol import About, Preview, Standing
from egress.fleet.remote_process import RemoteProcess
from egress.fleet.terms import FOREVER, Terms
from egress.fleet.wire import PIECE, VERSION, Frame, Kind, head, pieces, wrong
from egress.runtime.protocol import SILENT, Output
from egress.runtime.spec import NOTHING, Command, Event, ExecResult, Info, Spec, Values

_LONGEST_PATH: Final = 100
_START: Final = "start it with `egress up`, or leave the runtime folder out to get sandboxes of your own"


class RemoteRuntime:
    """`Sandboxes` of a fleet that another process of this user serves."""

    def __init__(self, path: Path) -> None:
        """Ask who is there. Raises `FleetUnavailableError` where nobody answers."""
        self._path = path
        self._lock = threading.Lock()
        self._links: set[Link] = set()
        self._is_closed = False
        self.about: About = codec.read_about(self._call("about"))

    def __repr__(self) -> str:
        return f"RemoteRuntime({str(self._path)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the fleet. Its sandboxes stay, and what was spawned in them; all else of ours ends."""
        with self._lock:
            self._is_closed = True
            links = list(self._links)
        for link in links:
            link.end()

    def end(self) -> None:
        """Ask the fleet to end, with all its sandboxes."""
        self._call("end")

    # Coming and going

    def create(self, spec: Spec, terms: Terms = FOREVER) -> Info:
        answer = self._call("create", spec=codec.write_spec(spec), terms=codec.write_terms(terms))
        return codec.read_info(answer)

    def start(self, name: str) -> Info:
        return codec.read_info(self._call("start", name=name))

    def pause(self, name: str) -> None:
        self._call("pause", name=name)

    def resume(self, name: str) -> None:
        self._call("resume", name=name)

    def stop(self, name: str) -> None:
        self._call("stop", name=name)

    def remove(self, name: str) -> None:
        self._call("remove", name=name)

    def open_ports(self, name: str, ports: tuple[int, ...]) -> None:
        self._call("open_ports", name=name, ports=list(ports))

    def prepare(self, spec: Spec, count: int) -> None:
        self._call("prepare", spec=codec.write_spec(spec), count=count)

    def touch(self, name: str) -> None:
        self._call("touch", name=name)

    # Looking

    def info(self, name: str) -> Info:
        return codec.read_info(self._call("info", name=name))

    def list(self, labels: Values = NOTHING) -> tuple[Info, ...]:
        found = self._call("list", labels=dict(labels)).inners("all")
        return tuple(codec.read_info(each) for each in found)

    def standing(self, name: str) -> Standing:
        return codec.read_standing(self._call("standing", name=name))

    @contextmanager
    def events(self) -> Iterator[Iterator[Event]]:
        with self._asked("events") as (link, _):
            yield _events(link)

    # Commands

    def spawn(self, name: str, command: Command, output: Output = SILENT) -> RemoteProcess:
        return self._begun(name, command, output, is_exec=False)

    def exec(self, name: str, command: Command, output: Output = SILENT) -> ExecResult:
        process = self._begun(name, command, output, is_exec=True)
        try:
            return process.wait()
        finally:
            # Where the waiting was given up, so is the command.
            process.leave()

    def _begun(self, name: str, command: Command, output: Output, *, is_exec: bool) -> RemoteProcess:
        mode = "none" if is_exec and command.input is None else "open"
        is_foreground = is_exec or command.terminal is not None
        link = self._linked()
        try:
            what = codec.write_command(command)
            _ask(link, "command", name=name, command=what, input=mode, foreground=is_foreground)
            return RemoteProcess(link, command, output, lambda: self._forget(link))
        except BaseException:
            self._forget(link)
            raise

    # Files and ports

    def put(self, name: str, path: str, archive: BinaryIO) -> None:
        with self._sent("put", name=name, path=path) as link:
            while piece := archive.read(PIECE):
                for frame in pieces(Kind.INPUT, piece):
                    if not _is_taken(link, frame):
                        return
            with suppress(OSError):
                link.send(Frame(Kind.END))
            _answer(link)

    @contextmanager
    def get(self, name: str, path: str) -> Iterator[BinaryIO]:
        with tempfile.TemporaryFile() as file:
            with self._asked("get", name=name, path=path) as (link, _):
                while (frame := _next(link)).kind is Kind.OUTPUT:
                    file.write(frame.data)
                if frame.kind is not Kind.END:
                    _done(frame)
                    raise wrong()
            file.seek(0)
            yield file

    def dial(self, name: str, port: int) -> socket.socket:
        with self._asked("dial", name=name, port=port) as (link, _):
            return link.socket()

    # Previews

    def expose(self, name: str, port: int) -> str:
        return self._call("expose", name=name, port=port).text("url")

    def unexpose(self, name: str, port: int) -> None:
        self._call("unexpose", name=name, port=port)

    def previews(self) -> tuple[Preview, ...]:
        return tuple(codec.read_preview(each) for each in self._call("previews").inners("all"))

    # One conversation

    def _call(self, call: str, **values: object) -> Fields:
        with self._asked(call, **values) as (_, answer):
            return answer

    @contextmanager
    def _asked(self, call: str, **values: object) -> Iterator[tuple[Link, Fields]]:
        with self._sent(call, **values) as link:
            yield link, _answer(link)

    @contextmanager
    def _sent(self, call: str, **values: object) -> Iterator[Link]:
        link = self._linked()
        try:
            _ask(link, call, **values)
            yield link
        except LostError:
            raise _gone() from None
        finally:
            self._forget(link)

    def _linked(self) -> Link:
        link = Link(_connected(self._path))
        with self._lock:
            if self._is_closed:
                link.close()
                raise FleetUnavailableError("these sandboxes have been let go of", "connect to them again")
            self._links.add(link)
        return link

    def _forget(self, link: Link) -> None:
        with self._lock:
            self._links.discard(link)
        link.close()


def connected(path: Path) -> RemoteRuntime | None:
    """The fleet that is served there; None where nobody listens."""
    if not path.is_socket():
        return None
    try:
        return RemoteRuntime(path)
    except FleetUnavailableError:
        return None


def _connected(path: Path) -> socket.socket:
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise FleetUnavailableError(
            f"nobody can listen at {path}: the path is too long", "name a shorter one"
        )
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(str(path))
    except OSError as error:
        sock.close()
        if isinstance(error, FileNotFoundError | ConnectionRefusedError):
            raise FleetUnavailableError(f"nobody serves sandboxes at {path}", _START) from None
        reason = (error.strerror or type(error).__name__).lower()
        raise FleetUnavailableError(
            f"the sandboxes at {path} cannot be reached: {reason}", "ask as the user who serves them"
        ) from None
    return sock


def _ask(link: Link, call: str, **values: object) -> None:
    link.send(head(version=VERSION, call=call, **{"with": values}))


def _next(link: Link) -> Frame:
    frame = link.receive()
    if frame is None:
        raise _gone()
    return frame


def _answer(link: Link) -> Fields:
    return _done(_next(link))


def _done(frame: Frame) -> Fields:
    """What came of a call. Raises the error that it was."""
    said = frame.head
    answer = Fields(said)
    if "error" in said:
        raise read_error(answer.inner("error"))
    if answer.whole("version") != VERSION:
        raise wrong()
    return answer.inner("done")


def _is_taken(link: Link, frame: Frame) -> bool:
    """Send a piece, and wait until there is room for the next; false where no more is wanted."""
    # Where it can be sent no more, an answer may have come before.
    with suppress(OSError):
        link.send(frame)
    said = _next(link)
    if said.kind is Kind.TAKEN:
        return True
    _done(said)
    return False


def _events(link: Link) -> Iterator[Event]:
    while True:
        try:
            frame = link.receive()
        except OSError:
            return
        if frame is None:
            return
        yield codec.read_event(Fields(frame.head).inner("event"))


def _gone() -> FleetUnavailableError:
    return FleetUnavailableError("the process that serves these sandboxes has gone", _START)
