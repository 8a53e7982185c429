"""A command in a sandbox behind the API, from the caller's side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import BinaryIO

import msgspec

from egress.api.client import ApiProblemError, decoded
from egress.api.schema import (
    MAX_PIECE_BYTES,
    STDERR_CHANNEL,
    STDIN_CHANNEL,
    STDOUT_CHANNEL,
    CloseInputMessage,
    KillMessage,
    ProblemMessage,
    ResizeMessage,
    ResultMessage,
    ServerMessage,
    StartedMessage,
    StartMessage,
    TakenMessage,
)
from egress.api.websocket_client import WebSocketClient, WebSocketLostError
from egress.fleet.api_values import error_of
from egress.fleet.errors import FleetProtocolError, FleetUnavailableError
from egress.runtime.command_result import CapturedStream, ResultFuture, feed_input
from egress.runtime.protocol import Output
from egress.runtime.spec import Command, ExecResult, Terminal


class RemoteProcess:
    """A command, from its start."""

    def __init__(
        self,
        stream: WebSocketClient,
        message: StartMessage,
        command: Command,
        output: Output,
        forget: Callable[[], object],
    ) -> None:
        """Start the command over its stream; `forget` is called at its end.

        Raises the error of a failed start.
        """
        self._stream = stream
        self._forget = forget
        self._stdout = CapturedStream(command.most_output, output.stdout)
        self._stderr = CapturedStream(command.most_output, output.stderr)
        self._outcome = ResultFuture()
        self._writing = threading.Lock()
        self._room = threading.Semaphore(0)
        try:
            stream.send_text(msgspec.json.encode(message))
            self._expect_start()
        except WebSocketLostError:
            forget()
            raise gone_error() from None
        except BaseException:
            forget()
            raise
        threading.Thread(target=self._read, name="egress-remote", daemon=True).start()
        if command.input is not None and message.stdin:
            threading.Thread(
                target=self._feed, args=(command.input,), name="egress-remote-input", daemon=True
            ).start()

    def write(self, data: bytes) -> None:
        with self._writing, suppress(OSError):
            for piece in split_pieces(data):
                if self._outcome.is_settled():
                    return
                self._stream.send_bytes(STDIN_CHANNEL + piece)
                # Released for each piece that the other side has taken, and at the end.
                self._room.acquire()

    def close_input(self) -> None:
        with self._writing:
            self._say(CloseInputMessage())

    def resize(self, terminal: Terminal) -> None:
        self._say(ResizeMessage(columns=terminal.columns, rows=terminal.rows))

    def kill(self, grace: float = 2.0) -> None:
        self._say(KillMessage(grace=grace))

    def wait(self, timeout: float | None = None) -> ExecResult:
        return self._outcome.wait(timeout)

    def leave(self) -> None:
        """Disconnect. A command that is not detached is ended."""
        self._stream.end()

    # Internals

    def _say(self, message: msgspec.Struct) -> None:
        if not self._outcome.is_settled():
            with suppress(OSError):
                self._stream.send_text(msgspec.json.encode(message))

    def _expect_start(self) -> None:
        said = self._stream.receive()
        if said is None:
            raise gone_error()
        match _message(said):
            case ProblemMessage(problem=problem):
                raise error_of(problem)
            case StartedMessage():
                return
            case _:
                raise protocol_error()

    def _read(self) -> None:
        came: ExecResult | BaseException | None = None
        try:
            while came is None:
                came = self._take(self._stream.receive())
        except WebSocketLostError:
            came = gone_error()
        except ApiProblemError as error:
            came = error_of(error.problem)
        except BaseException as error:  # noqa: BLE001 - raised again in the threads that wait
            came = error
        self._outcome.settle(came)
        self._room.release()
        self._forget()

    def _take(self, said: str | bytes | None) -> ExecResult | None:
        """Handle one message; returns the result if the message carries it."""
        if said is None:
            raise gone_error()
        if isinstance(said, bytes):
            self._add_output(said[:1], said[1:])
            return None
        match _message(said):
            case TakenMessage():
                self._room.release()
                return None
            case ResultMessage() as result:
                return self._make_result(result)
            case ProblemMessage(problem=problem):
                raise error_of(problem)
            case _:
                raise protocol_error()

    def _add_output(self, channel: bytes, data: bytes) -> None:
        if channel == STDOUT_CHANNEL:
            self._stdout.add(data)
        elif channel == STDERR_CHANNEL:
            self._stderr.add(data)
        else:
            raise protocol_error()

    def _make_result(self, result: ResultMessage) -> ExecResult:
        return ExecResult(
            exit_code=result.exit_code,
            stdout_bytes=self._stdout.data(),
            stderr_bytes=self._stderr.data(),
            duration=result.duration,
            timed_out=result.timed_out,
            truncated=self._stdout.truncated or self._stderr.truncated,
        )

    def _feed(self, source: bytes | BinaryIO) -> None:
        feed_input(source, self.write, self._outcome)
        self.close_input()


def split_pieces(data: bytes) -> Iterator[bytes]:
    """Split bytes of a stream into pieces that fit a message."""
    view = memoryview(data)
    for begin in range(0, len(data), MAX_PIECE_BYTES):
        yield bytes(view[begin : begin + MAX_PIECE_BYTES])


def gone_error() -> FleetUnavailableError:
    """The error for a fleet whose process has ended."""
    return FleetUnavailableError(
        "the process that serves these sandboxes has ended", "start it again with `egress up`"
    )


def _message(said: str | bytes) -> ServerMessage:
    if isinstance(said, bytes):
        raise protocol_error()
    found: ServerMessage = decoded(said, ServerMessage)
    return found


def protocol_error() -> FleetProtocolError:
    """The error for an answer that is none of the API."""
    return FleetProtocolError(
        "the other side of the socket broke the protocol of the API", "run both in the same version of egress"
    )
