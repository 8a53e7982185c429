"""Serves a command for another process: sends its output there, and gets its input from there.

Three threads work on it. The caller's thread reads frames. A second one waits for the command. A third one
passes input on: the command may read slowly, and a request to end it must be heard meanwhile.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final, override

from egress.errors import EgressError
from egress.fleet import rpc_codec
from egress.fleet.fleet import Fleet
from egress.fleet.json_fields import JsonFields, read
from egress.fleet.rpc_channel import RpcChannel
from egress.fleet.rpc_codec import write_error
from egress.fleet.rpc_frames import (
    MAX_PIECE_BYTES,
    RPC_VERSION,
    FrameKind,
    RpcFrame,
    make_head,
    protocol_error,
    split_pieces,
)
from egress.runtime.protocol import Output, RuntimeProcess
from egress.runtime.spec import Command, Terminal

_MAX_KEPT_BYTES: Final = 64 * 1024
"""Bytes of each output kept in this process; the caller's side keeps its own copy."""


def serve_exec(fleet: Fleet, link: RpcChannel, fields: JsonFields) -> None:
    """Start the command that is asked for, and serve it to its end."""
    name = fields.text("name")
    # A foreground command ends with its connection.
    is_foreground, mode = fields.is_true("foreground"), fields.text("input")
    command = rpc_codec.read_command(fields.inner("command"), _MAX_KEPT_BYTES)
    fields.end()
    attended = _ServedExec(link, mode)
    attended.begin(fleet, name, command)
    try:
        attended.listen()
    finally:
        attended.leave(is_foreground=is_foreground)


class _ServedExec:
    def __init__(self, link: RpcChannel, mode: str) -> None:
        if mode not in ("none", "open"):
            raise protocol_error()
        self._link = link
        self._mode = mode
        self._input = RpcInput(lambda: self._send(RpcFrame(FrameKind.TAKEN)))
        self._answered = threading.Event()
        self._is_alone = False
        self._process: RuntimeProcess | None = None

    def begin(self, fleet: Fleet, name: str, command: Command) -> None:
        if self._mode == "none" and command.terminal is None:
            command = replace(command, input=b"")
        output = Output(
            stdout=lambda data: self._send_output(FrameKind.OUTPUT, data),
            stderr=lambda data: self._send_output(FrameKind.ERRORS, data),
        )
        # Set in any case: callbacks for output wait for it, also after a failed start.
        try:
            process = self._process = fleet.spawn(name, command, output)
            self._send(make_head(version=RPC_VERSION, done={}))
        finally:
            self._answered.set()
        threading.Thread(target=self._wait, args=(process,), name="egress-fleet-wait", daemon=True).start()
        if self._mode == "open":
            threading.Thread(
                target=self._hand_on, args=(process,), name="egress-fleet-input", daemon=True
            ).start()

    def listen(self) -> None:
        """Handle frames until the connection or the command ends."""
        with suppress(OSError):
            while (frame := self._link.receive()) is not None:
                self._handle_frame(frame)

    def leave(self, *, is_foreground: bool) -> None:
        self._is_alone = True
        self._input.break_off()
        if is_foreground and self._process is not None:
            self._process.kill()

    # Frames from the caller's side

    def _handle_frame(self, frame: RpcFrame) -> None:
        if frame.kind is FrameKind.INPUT:
            if not frame.data or not self._input.add(frame.data):
                raise protocol_error()
        elif frame.kind is FrameKind.END:
            self._input.end()
        else:
            fields = JsonFields(frame.head)
            match fields.text("say"):
                case "kill":
                    self._kill(fields.number("grace"))
                case "resize":
                    self._resize(fields)
                case _:
                    raise protocol_error()

    def _kill(self, grace: float) -> None:
        if self._process is not None:
            # In a thread: ending takes up to `grace` seconds, and further frames must be read meanwhile.
            threading.Thread(target=self._process.kill, args=(grace,), daemon=True).start()

    def _resize(self, fields: JsonFields) -> None:
        if self._process is not None:
            with suppress(EgressError):
                self._process.resize(read(Terminal, fields.inner("terminal")))

    # Events of the command

    def _send_output(self, kind: FrameKind, data: bytes) -> None:
        # The answer to the call goes first: the caller's side expects it before any output.
        self._answered.wait()
        self._send(*split_pieces(kind, data))

    def _send(self, *frames: RpcFrame) -> None:
        """Send frames, unless the other side has left."""
        if not self._is_alone:
            try:
                self._link.send(*frames)
            except OSError:
                self._is_alone = True

    def _wait(self, process: RuntimeProcess) -> None:
        try:
            ended = make_head(result=rpc_codec.write_result(process.wait()))
        except Exception as error:  # noqa: BLE001 - sent to the caller's side
            ended = make_head(error=write_error(error))
        self._send(ended)
        self._input.break_off()
        self._link.end()

    def _hand_on(self, process: RuntimeProcess) -> None:
        while piece := self._input.read(MAX_PIECE_BYTES):
            process.write(piece)
        if self._input.is_whole:
            process.close_input()


# The input of the command as a file: one piece at a time, so that neither side buffers more.
class RpcInput(io.RawIOBase):
    """Filled by the thread that reads the connection, read by the thread that feeds the command."""

    def __init__(self, taken: Callable[[], object]) -> None:
        """`taken` is called when a piece has been read."""
        super().__init__()
        self._taken = taken
        self._piece = b""
        self._is_over = False
        self.is_whole = False
        """The input came to its end; false after `break_off`."""
        self._changed = threading.Condition()

    def add(self, data: bytes) -> bool:
        """Add a piece; false if the last one was not read yet, or the input has ended."""
        with self._changed:
            if self._piece or self._is_over:
                return False
            self._piece = data
            self._changed.notify_all()
        return True

    def end(self) -> None:
        """Mark the end of the input."""
        with self._changed:
            self._is_over = self.is_whole = True
            self._changed.notify_all()

    def break_off(self) -> None:
        """Stop the input before its end."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: memoryview | bytearray, /) -> int:  # type: ignore[override]
        with self._changed:
            self._changed.wait_for(lambda: self._piece or self._is_over)
            if not self._piece:
                return 0
            count = min(len(buffer), len(self._piece))
            buffer[:count] = self._piece[:count]
            self._piece = self._piece[count:]
            is_taken = not self._piece
        if is_taken:
            self._taken()
        return count
