"""A command in a sandbox of another process, as whoever began it sees it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, Final

from egress.errors import EgressError
from egress.fleet import codec
from egress.fleet.errors import FleetUnavailableError
from egress.fleet.faults import read_error
from egress.fleet.fields import Fields
from egress.fleet.link import Link
from egress.fleet.wire import Frame, Kind, head, pieces, wrong
from egress.runtime.outcome import Outcome
from egress.runtime.output import Kept
from egress.runtime.protocol import Output
from egress.runtime.spec import Command, ExecResult, Terminal

_PIECE: Final = 64 * 1024


class RemoteProcess:
    """One command, from its beginning on."""

    def __init__(self, link: Link, command: Command, output: Output, forget: Callable[[], object]) -> None:
        """`link` has been asked for it; `forget` is called at the end. Raises what keeps it from it."""
        self._link = link
        self._forget = forget
        self._stdout = Kept(command.most_output, output.stdout)
        self._stderr = Kept(command.most_output, output.stderr)
        self._outcome = Outcome()
        self._writing = threading.Lock()
        self._room = threading.Semaphore(0)
        self._expect_begun()
        threading.Thread(target=self._read, name="egress-remote", daemon=True).start()
        if command.input is not None:
            threading.Thread(
                target=self._feed, args=(command.input,), name="egress-remote-input", daemon=True
            ).start()

    def write(self, data: bytes) -> None:
        with self._writing, suppress(OSError):
            for piece in pieces(Kind.INPUT, data):
                if self._outcome.has_come():
                    return
                self._link.send(piece)
                # Given by what is taken, and by the end.
                self._room.acquire()

    def close_input(self) -> None:
        with self._writing:
            self._say(Frame(Kind.END))

    def resize(self, terminal: Terminal) -> None:
        self._say(head(say="resize", terminal=codec.write_terminal(terminal)))

    def kill(self, grace: float = 2.0) -> None:
        self._say(head(say="kill", grace=grace))

    def wait(self, timeout: float | None = None) -> ExecResult:
        return self._outcome.wait(timeout)

    def leave(self) -> None:
        """Be done with it. Where it has not ended, and was in the foreground, it ends now."""
        self._link.end()

    # Inside

    def _say(self, frame: Frame) -> None:
        if not self._outcome.has_come():
            with suppress(OSError):
                self._link.send(frame)

    def _expect_begun(self) -> None:
        try:
            frame = self._link.receive()
        except OSError:
            raise _gone() from None
        if frame is None:
            raise _gone()
        said = frame.head
        if "error" in said:
            raise read_error(Fields(said).inner("error"))
        if "done" not in said:
            raise wrong()

    def _read(self) -> None:
        came: ExecResult | BaseException | None = None
        try:
            while came is None:
                came = self._take(self._link.receive())
        except OSError:
            came = _gone()
        except BaseException as error:  # noqa: BLE001 - told to whoever waits
            came = error
        self._outcome.settle(came)
        self._room.release()
        self._forget()

    def _take(self, frame: Frame | None) -> ExecResult | None:
        """Take what is said; returns what came of the command, when it is that."""
        if frame is None:
            raise _gone()
        match frame.kind:
            case Kind.OUTPUT:
                self._stdout.add(frame.data)
            case Kind.ERRORS:
                self._stderr.add(frame.data)
            case Kind.TAKEN:
                self._room.release()
            case _:
                return self._settled(Fields(frame.head), is_failure="error" in frame.head)
        return None

    def _settled(self, fields: Fields, *, is_failure: bool) -> ExecResult:
        if is_failure:
            raise read_error(fields.inner("error"))
        return codec.read_result(
            fields.inner("result"),
            self._stdout.data(),
            self._stderr.data(),
            truncated=self._stdout.truncated or self._stderr.truncated,
        )

    def _feed(self, source: bytes | BinaryIO) -> None:
        if isinstance(source, bytes):
            self.write(source)
        else:
            # What it is read from is the caller's, and can fail in any way.
            with suppress(OSError, ValueError):
                while not self._outcome.has_come() and (piece := source.read(_PIECE)):
                    self.write(piece)
        self.close_input()


def _gone() -> EgressError:
    return FleetUnavailableError(
        "the process that serves these sandboxes has gone", "start it again with `egress up`"
    )
