"""A command in a sandbox of another process, from the caller's side."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO

from egress.fleet import rpc_codec
from egress.fleet.errors import FleetUnavailableError
from egress.fleet.json_fields import JsonFields
from egress.fleet.rpc_channel import ChannelLostError, RpcChannel
from egress.fleet.rpc_codec import read_error
from egress.fleet.rpc_frames import FrameKind, RpcFrame, make_head, protocol_error, split_pieces
from egress.runtime.command_result import CapturedStream, ResultFuture, feed_input
from egress.runtime.protocol import Output
from egress.runtime.spec import Command, ExecResult, Terminal


class RemoteProcess:
    """A command, from its start."""

    def __init__(
        self, link: RpcChannel, command: Command, output: Output, forget: Callable[[], object]
    ) -> None:
        """`link` has asked for the command; `forget` is called at its end.

        Raises the error of a failed start.
        """
        self._link = link
        self._forget = forget
        self._stdout = CapturedStream(command.most_output, output.stdout)
        self._stderr = CapturedStream(command.most_output, output.stderr)
        self._outcome = ResultFuture()
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
            for piece in split_pieces(FrameKind.INPUT, data):
                if self._outcome.is_settled():
                    return
                self._link.send(piece)
                # Released for each piece that the other side has taken, and at the end.
                self._room.acquire()

    def close_input(self) -> None:
        with self._writing:
            self._say(RpcFrame(FrameKind.END))

    def resize(self, terminal: Terminal) -> None:
        self._say(make_head(say="resize", terminal=rpc_codec.write(terminal)))

    def kill(self, grace: float = 2.0) -> None:
        self._say(make_head(say="kill", grace=grace))

    def wait(self, timeout: float | None = None) -> ExecResult:
        return self._outcome.wait(timeout)

    def leave(self) -> None:
        """Disconnect. A foreground command that still runs is ended."""
        self._link.end()

    # Internals

    def _say(self, frame: RpcFrame) -> None:
        if not self._outcome.is_settled():
            with suppress(OSError):
                self._link.send(frame)

    def _expect_begun(self) -> None:
        try:
            frame = self._link.receive()
        except OSError:
            raise gone_error() from None
        if frame is None:
            raise gone_error()
        said = frame.head
        if "error" in said:
            raise read_error(JsonFields(said).inner("error"))
        if "done" not in said:
            raise protocol_error()

    def _read(self) -> None:
        came: ExecResult | BaseException | None = None
        try:
            while came is None:
                came = self._take(self._link.receive())
        except ChannelLostError:
            came = gone_error()
        except BaseException as error:  # noqa: BLE001 - raised again in the threads that wait
            came = error
        self._outcome.settle(came)
        self._room.release()
        self._forget()

    def _take(self, frame: RpcFrame | None) -> ExecResult | None:
        """Handle one frame; returns the result if the frame carries it."""
        if frame is None:
            raise gone_error()
        match frame.kind:
            case FrameKind.OUTPUT:
                self._stdout.add(frame.data)
            case FrameKind.ERRORS:
                self._stderr.add(frame.data)
            case FrameKind.TAKEN:
                self._room.release()
            case _:
                return self._make_result(JsonFields(frame.head), is_failure="error" in frame.head)
        return None

    def _make_result(self, fields: JsonFields, *, is_failure: bool) -> ExecResult:
        if is_failure:
            raise read_error(fields.inner("error"))
        return rpc_codec.read_result(
            fields.inner("result"),
            self._stdout.data(),
            self._stderr.data(),
            truncated=self._stdout.truncated or self._stderr.truncated,
        )

    def _feed(self, source: bytes | BinaryIO) -> None:
        feed_input(source, self.write, self._outcome)
        self.close_input()


def gone_error() -> FleetUnavailableError:
    """The error for a fleet whose process has ended."""
    return FleetUnavailableError(
        "the process that serves these sandboxes has ended", "start it again with `egress up`"
    )
