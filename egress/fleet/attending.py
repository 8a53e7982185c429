"""A command of another process, from beginning to end: what it prints goes there, what it reads comes.

Three threads are at work. The caller's reads what the other side says. One waits for the command. One hands
input on, which the command may be slow to take, so that "end it" is heard meanwhile.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from typing import Final

from egress.errors import EgressError
from egress.fleet import codec
from egress.fleet.faults import write_error
from egress.fleet.fields import Fields
from egress.fleet.fleet import Fleet
from egress.fleet.incoming import Incoming
from egress.fleet.link import Link
from egress.fleet.wire import PIECE, VERSION, Frame, Kind, head, pieces, wrong
from egress.runtime.protocol import Output, Process
from egress.runtime.spec import Command

_KEPT: Final = 64 * 1024
"""Bytes of each stream that are kept here; whoever asked keeps what it wants to."""


def attend(fleet: Fleet, link: Link, fields: Fields) -> None:
    """Begin the command that is asked for, and attend to it."""
    name = fields.text("name")
    # In the foreground it ends with whoever asked for it.
    is_foreground, mode = fields.is_true("foreground"), fields.text("input")
    command = codec.read_command(fields.inner("command"), _KEPT)
    fields.end()
    attended = _Attended(link, mode)
    attended.begin(fleet, name, command)
    try:
        attended.listen()
    finally:
        attended.leave(is_foreground=is_foreground)


class _Attended:
    def __init__(self, link: Link, mode: str) -> None:
        if mode not in ("none", "open"):
            raise wrong()
        self._link = link
        self._mode = mode
        self._input = Incoming(lambda: self._say(Frame(Kind.TAKEN)))
        self._answered = threading.Event()
        self._is_alone = False
        self._process: Process | None = None

    def begin(self, fleet: Fleet, name: str, command: Command) -> None:
        if self._mode == "none" and command.terminal is None:
            command = replace(command, input=b"")
        output = Output(
            stdout=lambda data: self._tell(Kind.OUTPUT, data),
            stderr=lambda data: self._tell(Kind.ERRORS, data),
        )
        try:
            process = self._process = fleet.spawn(name, command, output)
            self._say(head(version=VERSION, done={}))
        finally:
            self._answered.set()
        threading.Thread(target=self._wait, args=(process,), name="egress-fleet-wait", daemon=True).start()
        if self._mode == "open":
            threading.Thread(
                target=self._hand_on, args=(process,), name="egress-fleet-input", daemon=True
            ).start()

    def listen(self) -> None:
        """Do what the other side says, until it has gone or the command has ended."""
        with suppress(OSError):
            while (frame := self._link.receive()) is not None:
                self._heed(frame)

    def leave(self, *, is_foreground: bool) -> None:
        self._is_alone = True
        self._input.break_off()
        if is_foreground and self._process is not None:
            self._process.kill()

    # What the other side says

    def _heed(self, frame: Frame) -> None:
        if frame.kind is Kind.INPUT:
            if not frame.data or not self._input.add(frame.data):
                raise wrong()
        elif frame.kind is Kind.END:
            self._input.end()
        else:
            fields = Fields(frame.head)
            match fields.text("say"):
                case "kill":
                    self._kill(fields.number("grace"))
                case "resize":
                    self._resize(fields)
                case _:
                    raise wrong()

    def _kill(self, grace: float) -> None:
        if self._process is not None:
            # In a thread: it may take a while, and then the other side wants to be heard again.
            threading.Thread(target=self._process.kill, args=(grace,), daemon=True).start()

    def _resize(self, fields: Fields) -> None:
        if self._process is not None:
            with suppress(EgressError):
                self._process.resize(codec.read_terminal(fields.inner("terminal")))

    # What the command does

    def _tell(self, kind: Kind, data: bytes) -> None:
        # The answer to the call goes first.
        self._answered.wait()
        self._say(*pieces(kind, data))

    def _say(self, *frames: Frame) -> None:
        """Say something, if anybody is there to hear it."""
        if not self._is_alone:
            try:
                self._link.send(*frames)
            except OSError:
                self._is_alone = True

    def _wait(self, process: Process) -> None:
        try:
            ended = head(result=codec.write_result(process.wait()))
        except Exception as error:  # noqa: BLE001 - told to whoever waits
            ended = head(error=write_error(error))
        self._say(ended)
        self._input.break_off()
        self._link.end()

    def _hand_on(self, process: Process) -> None:
        while piece := self._input.read(PIECE):
            process.write(piece)
        if self._input.is_whole:
            process.close_input()
